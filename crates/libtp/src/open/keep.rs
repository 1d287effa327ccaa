//! Shared memory whose files were replaced by a restored backup (PROTOCOLS F1).
//!
//! The log files are then older than the region, and the region's header has another control file or another
//! incarnation. So the region does not belong to the environment any more, but it may be the only place that has the
//! commits since the backup. If the restored files have all of the region's commits, the region is removed. If the
//! files lack commits, the user decides, never the library.
//!
//! If we die here: until the restart that follows has raised the incarnation, the next opening decides again. After the
//! raise the files are complete, and the next opening removes the region.

use libtp_buffer::{BufferManager, FileInfo};
use libtp_log::ControlFile;
use rio::{Identity, Region};

use crate::open::old_memory::{is_current, read};
use crate::open::platform::Platform;
use crate::{Error, Result};

/// The message about memory whose reading panicked.
const UNREADABLE: &str =
    "The contents of that memory are damaged and cannot be read; `tp recover --keep-files` opens the environment by its files";

/// The side that is right when shared memory and log files disagree (PROTOCOLS F1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The files: shared memory is removed; if it is missing, the environment opens without it. Commits that had not
    /// reached the files are lost.
    Files,
    /// The region: its log is written over the log in the files, and is replayed.
    Region,
}

/// Regions that survived, and that may be removed after the environment has restarted from the files.
pub(crate) struct SurvivingRegions {
    regions: Vec<Region>,
    /// Whether the log of a region was written to the log files.
    pub(crate) is_kept: bool,
}

/// Finds the regions that were made for earlier files of this environment. If a region has log that the files lack,
/// `keep` decides whether the log is written to the files or given up.
///
/// # Errors
/// `Environment`, with both LSNs and both commands, if the user must decide; the errors of reading or writing the log.
pub(crate) fn settle(
    platform: &Platform,
    identity: &Identity,
    file: &ControlFile,
    keep: Option<Keep>,
) -> Result<SurvivingRegions> {
    let (regions, unreadable) = platform.survived(identity)?;
    if let (Some(path), false) = (unreadable.first(), keep == Some(Keep::Files)) {
        let what = format!(
            "processes that died left the shared memory {}, which belongs to other files than the present ones, and this build of the library cannot read the log in it. Open and close the environment once with the build that made it, or give the memory up with `tp recover --keep-files`, which uses the files alone",
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
                "its files are not the files for which the shared memory {} was made: a backup was put in their place. {why}",
                region.path().display()
            ),
        }
        };
        // Read again, because the log of the previous region may have been written to the log files.
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
                        "Processes that have the former files open still use that memory: end them first".into(),
                    ));
                }
                write_region_log(region, platform, file)?;
                is_kept = true;
            }
            (Err(error @ libtp_log::Error::Disagree { .. }), _) => return Err(refuse(error.to_string())),
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(SurvivingRegions { regions, is_kept })
}

/// Writes the log of a region over the log in the files and after its end, as [`Keep::Region`] demands. The restart
/// that follows replays the log.
///
/// # Errors
/// `Environment`, with nothing changed, if log is missing between the two logs, or if the region has changes to a
/// missing file.
pub(crate) fn write_region_log(region: &Region, platform: &Platform, file: &ControlFile) -> Result<()> {
    let refuse = |what: String| Error::Environment { environment: platform.path.clone(), what };
    let found = libtp_record::find_files(platform.directory.as_ref(), &file.read()?.environment_id)?;
    let is_there = |known: &FileInfo| found.iter().any(|file| file.info.id == known.id);
    // In memory that survived a restart of the machine, the table of files may be outdated, because only the log is
    // written back from the processor's cache. In another build's memory only the log can be read.
    let nonsense = || refuse(format!("the shared memory {} cannot be kept. {UNREADABLE}", region.path().display()));
    let files_in = || if is_current(region) { BufferManager::files_in(region) } else { Vec::new() };
    let known = read(files_in).ok_or_else(nonsense)?;
    if let Some(missing) = known.iter().find(|known| !is_there(known)) {
        return Err(refuse(format!(
            "the shared memory {} has changes to the database `{}`, which was made after the backup, and its file {} is missing. Put back the same file, not an older copy, which lacks later commits; or give the memory up with `tp recover --keep-files`, which uses the files alone",
            region.path().display(),
            missing.name,
            missing.file_name()
        )));
    }
    let overwritten = read(|| libtp_log::overwrite_from_ring(region, &platform.log_directory, file));
    overwritten.ok_or_else(nonsense)?.map_err(|error| refuse(error.to_string()))?;
    Ok(())
}

impl SurvivingRegions {
    /// Returns whether no region survived.
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Removes the regions, except regions that a process uses: such a process has the former files open, and does not
    /// know the present files.
    pub(crate) fn forget(self, made: &Region) {
        for region in self.regions.iter().filter(|region| region.path() != made.path() && region.is_alone()) {
            if let Err(error) = rio::remove_region(region.path()) {
                tracing::warn!(%error, region = %region.path().display(), "the shared memory of the former files cannot be removed, and stays");
            }
        }
    }
}
