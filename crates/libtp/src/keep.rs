//! Memory that survived the files it belongs to: a backup was restored in their place (PROTOCOLS F1).
//!
//! The log files are then of an earlier time than the region, whose control file is another one, or says another incarnation.
//! So the region is not the environment's any more, and it may still hold the only trace of what was committed since the
//! backup. If the restored files have all that it has, it is forgotten. If not, the user decides, never we.
//!
//! If we die here: nothing is decided until the restart that follows has raised the incarnation; then the files have what
//! they are to have, and the next to open removes the region.

use libtp_buffer::{BufferManager, FileInfo};
use libtp_log::ControlFile;
use rio::{Identity, Region};

use crate::platform::Platform;
use crate::rescue::read;
use crate::warm_start::is_of_now;
use crate::{Error, Result};

/// Of memory whose reading panicked.
const UNREADABLE: &str = "What is in it is damaged and cannot be read; `tp recover --keep-files` goes by the files";

/// Which of the two is right, where shared memory and log files disagree (PROTOCOLS F1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The files: shared memory is forgotten, or done without where it is not there, and with it what was committed and had not
    /// reached the files.
    Files,
    /// The region: the log that it holds goes to the files, over what they have there, and is replayed.
    Region,
}

/// Regions that survived, and that may go when the environment was restarted from the files.
pub(crate) struct Survived {
    regions: Vec<Region>,
    /// Whether the log of one was put behind that of the files.
    pub(crate) is_kept: bool,
}

/// Looks for regions that survived the files of this environment, and does with what they know beyond them what `keep` says.
///
/// # Errors
/// `Environment`, with both LSNs and both commands, if the user is to decide; what reading or writing the log fails with.
pub(crate) fn settle(
    platform: &Platform,
    identity: &Identity,
    file: &ControlFile,
    keep: Option<Keep>,
) -> Result<Survived> {
    let (regions, unreadable) = platform.survived(identity)?;
    if let (Some(path), false) = (unreadable.first(), keep == Some(Keep::Files)) {
        let what = format!(
            "the shared memory {} was left by processes that died, for other files than are here now, and this build of the library \
             cannot take the log out of it: another made it. Nothing was changed. Open and close the environment once with that \
             build; `tp recover --keep-files` goes by the files",
            path.display()
        );
        return Err(Error::Environment { environment: platform.path.clone(), what });
    }
    let mut is_kept = false;
    for region in &regions {
        let refuse = |why: String| {
            Error::Environment {
            environment: platform.path.clone(),
            what: format!(
                "its files are not those that the shared memory {} was made for: a backup was restored in their place. {why}",
                region.path().display()
            ),
        }
        };
        // Read anew: the log of the one before may have been put behind it.
        let control = file.read()?;
        let Some(in_files) = read(|| libtp_log::all_in_files(region, &platform.log_directory, &control)) else {
            match keep {
                Some(Keep::Files) => continue,
                _ => return Err(refuse(UNREADABLE.into())),
            }
        };
        match (in_files, keep) {
            (Ok(()), _) | (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Files)) => {}
            (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Region)) if !is_kept => {
                if !region.is_alone() {
                    return Err(refuse(
                        "Processes that have the former files open still use it: end them first".into(),
                    ));
                }
                put_behind(region, platform, file)?;
                is_kept = true;
            }
            (Err(error @ libtp_log::Error::Disagree { .. }), _) => return Err(refuse(error.to_string())),
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(Survived { regions, is_kept })
}

/// Puts the log of a region behind that of the files: what [`Keep::Region`] says. The restart that follows replays it.
///
/// # Errors
/// `Environment`, with nothing changed, if the two do not meet, or if the log has changes to a file that is not there.
pub(crate) fn put_behind(region: &Region, platform: &Platform, file: &ControlFile) -> Result<()> {
    let refuse = |what: String| Error::Environment { environment: platform.path.clone(), what };
    let found = libtp_record::find_files(platform.directory.as_ref(), &file.read()?.environment_id)?;
    let is_there = |known: &FileInfo| found.iter().any(|file| file.info.id == known.id);
    // What is not written back of memory that survived a new start of the machine may be of any time, its table of files, too; and
    // of another build's memory nothing is known but the log.
    let nonsense = || refuse(format!("the shared memory {} was to be kept. {UNREADABLE}", region.path().display()));
    let files_in = || if is_of_now(region) { BufferManager::files_in(region) } else { Vec::new() };
    let known = read(files_in).ok_or_else(nonsense)?;
    if let Some(missing) = known.iter().find(|known| !is_there(known)) {
        return Err(refuse(format!(
            "the shared memory {} has changes to the database `{}`, which was made after the backup and whose file {} is not \
             there. Nothing was changed; `tp recover --keep-files` goes by the files",
            region.path().display(),
            missing.name,
            missing.file_name()
        )));
    }
    let overwritten = read(|| libtp_log::overwrite_from_ring(region, &platform.log_directory, file));
    overwritten.ok_or_else(nonsense)?.map_err(|error| refuse(error.to_string()))?;
    Ok(())
}

impl Survived {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Removes them, but not one that is used: by processes that have the former files open, who do not know of these.
    pub(crate) fn forget(self, made: &Region) {
        for region in self.regions.iter().filter(|region| region.path() != made.path() && region.is_alone()) {
            if let Err(error) = rio::remove_region(region.path()) {
                tracing::warn!(%error, region = %region.path().display(), "shared memory of the files that were here before stays");
            }
        }
    }
}
