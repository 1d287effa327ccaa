//! Restore: makes an environment from a backup, in the state at a chosen place in the log.
//!
//! The restore puts the copied files, and the log up to the chosen place, into the new environment's directory. The
//! copied pages are from different moments. The opening of the new environment is a restart, as after a crash: redo of
//! the whole log, and undo of the transactions that had not committed. A state from before the copy of the last page
//! cannot be restored.
//!
//! The result is a *new* environment: it has an id of its own, in the control file, in page 0 of each file and in the
//! segments of the log. So the restored environment never mistakes the shared memory of another environment for its own
//! (F1). The other environment may be the original of the backup, or an environment that was in this directory before.
//! The log of the restored environment continues independently, and segments of memory that belong to another
//! environment are refused.
//!
//! If we die here: the control file is empty until all other files are complete and durable. Until then, the directory
//! has the mark of an unfinished restore, or a log. The remains are no environment, and an opening reports this
//! (`unfinished.rs`). A new restore needs an empty directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use libtp_buffer::{check, FileId, PageHeader, PageId, PageNo};
use libtp_io::{Directory, File, OpenMode, PosixDirectory};
use libtp_log::{segment_number, Control, ControlFile, LogFiles, Lsn, CONTROL_NAME};
use rio::{failpoint, planted};
use serde::Serialize;

use crate::admin::backup::copy_file::PIECE_BYTES;
use crate::admin::backup::manifest::{CopiedFile, Manifest};
use crate::admin::backup::{check_log, incomplete, of_backup, refused};
use crate::ground::damage::Damage;
use crate::ground::progress::{Progress, Watch};
use crate::ground::settings::{self, Settings, SETTINGS_NAME};
use crate::ground::utc::utc;
use crate::open::attach::random_id;
use crate::open::liveness::Liveness;
use crate::open::platform::{has_control, Platform};
use crate::open::unfinished::{self, MANIFEST, RESTORING};
use crate::{Builder, Env, Error, Opened, Result};

/// The name of the backup's settings file if the settings must not take effect.
const SETTINGS_ASIDE: &str = "libtp.toml.backup";

/// The state to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePoint {
    /// The latest state.
    End,
    /// The state after the log record at this LSN: it has the transactions whose commit records are at this LSN or
    /// before.
    Lsn(u64),
    /// The state at a time: it has every commit that was reported as durable by that time, and no record that was
    /// logged later. The log records the time of each flush. Times in the log never go back: while the wall clock shows
    /// an earlier time than the log's last time, the time of each flush is one microsecond after the time of the
    /// previous flush ([`Restored::clock_behind`]).
    Time(SystemTime),
}

/// A backup, for checking or restoring.
pub struct Backup {
    directory: Arc<dyn Directory>,
    manifest: Manifest,
}

/// The result of checking an intact backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The earliest state that can be restored: everything logged before this LSN.
    pub earliest: u64,
    /// The latest state that can be restored.
    pub end: u64,
    /// Database files.
    pub files: u64,
    /// Total size of these files, in bytes.
    pub file_bytes: u64,
    /// Size of the log, in bytes.
    pub log_bytes: u64,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The environment has everything that was logged before this LSN and committed; its log continues from here.
    pub end: u64,
    /// Database files.
    pub files: u64,
    /// Total size of these files, in bytes.
    pub file_bytes: u64,
    /// Replayed log, in bytes.
    pub log_bytes: u64,
    /// Uncommitted transactions that were undone.
    pub undone: u64,
    /// The number of flushes in the backup's log that were made while the wall clock showed an earlier time than the
    /// log's last time: the clock had been set back, or was wrong before. The times of these flushes do not follow the
    /// clock. Restore states of that period by LSN.
    pub clock_behind: u64,
    /// The LSN of the first of these flushes, or zero.
    pub clock_behind_from: u64,
    /// In a restore to a time: the time of the first flush that was left out, in microseconds since 1970, or zero. If
    /// this time is far from the wanted time, the wall clock may have shown a time that was too late.
    pub left_out_time: u64,
    /// Whether the backup's settings were stored without effect, as `libtp.toml.backup`, because the settings cannot be
    /// read, or name directories that belong to the other environment.
    pub settings_aside: bool,
    /// The duration in milliseconds.
    pub millis: u64,
}

/// The end of the replayed log, and findings about the log's times.
#[derive(Clone, Copy, Debug)]
struct Cut {
    end: Lsn,
    /// As in [`Restored`].
    clock_behind: u64,
    clock_behind_from: Option<Lsn>,
    left_out_time: Option<u64>,
    /// The time of the first flush of the earliest state that can be restored, in microseconds since 1970, if the search
    /// has read that flush.
    earliest_time: Option<u64>,
}

impl Cut {
    fn at(end: Lsn) -> Cut {
        Cut { end, clock_behind: 0, clock_behind_from: None, left_out_time: None, earliest_time: None }
    }
}

impl Backup {
    /// Opens the backup in `directory` and reads its manifest.
    ///
    /// # Errors
    /// `Backup` if there is no backup, or it is unfinished or damaged; `Io`.
    pub fn open(directory: impl AsRef<Path>) -> Result<Backup> {
        Backup::open_in(Arc::new(PosixDirectory::open(directory)?))
    }

    /// Does the work of [`Backup::open`], in any implementation of a directory.
    pub(crate) fn open_in(directory: Arc<dyn Directory>) -> Result<Backup> {
        let Some(manifest) = Manifest::read(directory.as_ref())? else {
            let what = format!("it has no file `{MANIFEST}`, so it is no backup, or a backup that was not finished; nothing was changed. Name the directory of a finished backup");
            return Err(refused(directory.as_ref(), what));
        };
        Ok(Backup { directory, manifest })
    }

    /// Returns the earliest state that can be restored: everything logged before this LSN.
    pub fn earliest(&self) -> u64 {
        self.manifest.copied
    }

    /// Returns the latest time whose state can be restored.
    pub fn latest_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(self.manifest.time)
    }

    /// Returns the LSN at which the backup's log ends.
    pub fn end(&self) -> u64 {
        self.manifest.end
    }

    /// Reads the whole backup, and checks every page and every log record.
    ///
    /// # Errors
    /// `Corrupt`, `Backup` with the first fault; `Io`.
    pub fn check(&self, watch: &mut Watch<'_>) -> Result<Checked> {
        let mut done = 0;
        let total = self.file_bytes();
        for file in &self.manifest.files {
            self.each_page_run(file, &mut |bytes, _| {
                done += bytes.len() as u64;
                watch(Progress::new("files", done, total));
                Ok(())
            })?;
        }
        let files = self.log(Lsn::new(self.manifest.end))?;
        check_log(&files, Lsn::new(self.manifest.begin), Lsn::new(self.manifest.end))?;
        Ok(Checked {
            earliest: self.earliest(),
            end: self.end(),
            files: self.manifest.files.len() as u64,
            file_bytes: total,
            log_bytes: self.manifest.end - self.manifest.begin,
        })
    }

    /// Makes an environment from the backup in `directory`. A missing directory is created; an existing directory may
    /// contain only a `libtp.toml`, which then has the new environment's settings.
    ///
    /// # Errors
    /// `Backup` when the backup does not contain that state; `Corrupt` when it is damaged, with the file and the place;
    /// `Environment` when the directory is not empty; `Full`, `Io`. After these errors, the files that remain are no
    /// environment: remove them. `LogType` when the log has records of the program's types: the environment is then
    /// complete, and a program that registers the types can open it, which replays the log.
    pub fn restore(&self, directory: impl AsRef<Path>, until: RestorePoint, watch: &mut Watch<'_>) -> Result<Restored> {
        self.restore_with(&Env::builder(), directory, until, watch)
    }

    /// Does the work of [`Backup::restore`], but opens the new environment with `builder`: with the log-record types
    /// ([`Builder::log_type`]) and the settings of `builder`.
    ///
    /// # Errors
    /// As [`Backup::restore`].
    pub fn restore_with(
        &self,
        builder: &Builder,
        directory: impl AsRef<Path>,
        until: RestorePoint,
        watch: &mut Watch<'_>,
    ) -> Result<Restored> {
        // This call comes before the creation of directories, because a refused restore changes nothing.
        let cut = self.end_of(until)?;
        let platform = builder.platform(directory.as_ref())?;
        self.make_up_to(cut, builder, platform, watch)
    }

    /// Does the work of [`Backup::restore_with`], on any disk and memory.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn make(
        &self,
        builder: &Builder,
        platform: Platform,
        until: RestorePoint,
        watch: &mut Watch<'_>,
    ) -> Result<Restored> {
        self.make_up_to(self.end_of(until)?, builder, platform, watch)
    }

    fn make_up_to(&self, cut: Cut, builder: &Builder, platform: Platform, watch: &mut Watch<'_>) -> Result<Restored> {
        let begun = Instant::now();
        let quiet = builder.clone().settings(Settings { no_background: true, ..Settings::default() });
        let settings_aside = self.lay_out(&quiet, &platform, cut.end, watch)?;
        let env = quiet.open_in(platform, watch).map_err(for_the_program)?;
        // From here on the result is an ordinary environment.
        env.checkpoint()?;
        let opened: &Opened = env.opened();
        Ok(Restored {
            end: cut.end.raw(),
            files: self.manifest.files.len() as u64,
            file_bytes: self.file_bytes(),
            log_bytes: opened.log_bytes,
            undone: opened.undone,
            clock_behind: cut.clock_behind,
            clock_behind_from: cut.clock_behind_from.map_or(0, Lsn::raw),
            left_out_time: cut.left_out_time.unwrap_or(0),
            settings_aside,
            millis: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn file_bytes(&self) -> u64 {
        self.manifest.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the backup's log up to `end`.
    fn log(&self, end: Lsn) -> Result<LogFiles> {
        let environment = self.manifest.environment().unwrap_or_default();
        let control = self.manifest.control(environment, end).ok_or_else(|| {
            self.refused("its manifest names restarts in a wrong order; nothing was changed. Restore another backup")
        })?;
        Ok(LogFiles::new(Arc::clone(&self.directory), &control))
    }

    fn refused(&self, what: impl Into<String>) -> Error {
        refused(self.directory.as_ref(), what)
    }

    /// Makes all files of the new environment, with the log up to `end`, without replaying the log. Returns whether the
    /// settings were stored without effect.
    fn lay_out(&self, builder: &Builder, platform: &Platform, end: Lsn, watch: &mut Watch<'_>) -> Result<bool> {
        platform.check_local()?;
        // This check comes first, because a refused restore changes nothing.
        check_empty(platform)?;
        let settings = self.settings_for(builder, platform)?;
        let environment = if planted("libtp: a restored environment keeps the identity of the original") {
            self.manifest.environment().unwrap_or_default()
        } else {
            random_id()
        };
        let control = self.manifest.control(environment, end).ok_or_else(|| {
            self.refused("its manifest names restarts in a wrong order; nothing was changed. Restore another backup")
        })?;
        let is_first = unfinished::begin_restore(platform.directory.as_ref())?;
        let file = platform.directory.open(CONTROL_NAME, OpenMode::Create)?;
        failpoint("restore: control file empty");
        let liveness = Liveness::new(Arc::clone(&file), platform.path.clone());
        // While this process has the door, no other process creates an environment in this directory (F1).
        let _door = liveness.door()?;
        if let Err(refused) = check_empty(platform) {
            if is_first {
                unfinished::end_restore(platform.directory.as_ref())?;
            }
            return Err(refused);
        }
        let remains = |error| with_remains(error, platform);
        self.put_files(platform, environment, watch).map_err(remains)?;
        failpoint("restore: files copied, no log");
        self.put_log(platform, &control, end, watch).map_err(remains)?;
        failpoint("restore: log made, no control file");
        if let Some(settings) = &settings {
            settings.put(platform)?;
        }
        platform.directory.sync()?;
        unfinished::end_restore(platform.directory.as_ref())?;
        failpoint("restore: mark removed, control file empty");
        ControlFile::new(file, platform.directory.describe(CONTROL_NAME)).create(&control)?;
        platform.directory.sync()?;
        failpoint("restore: an environment, not opened");
        Ok(settings.is_some_and(|settings| settings.is_aside))
    }

    /// Checks that the backup has all copied files. Returns the end of the log to replay.
    fn end_of(&self, until: RestorePoint) -> Result<Cut> {
        self.manifest.files.iter().try_for_each(|copied| self.open_copied(copied).map(drop))?;
        let (earliest, last) = (Lsn::new(self.manifest.copied), Lsn::new(self.manifest.end));
        let cut = self.cut(until, last)?;
        let end = cut.end;
        if end < earliest && !planted("libtp: a restore to a state before the copied pages is accepted") {
            return Err(self.refused(format!(
                "its earliest state is the state before LSN {earliest}, a place in the log{}; nothing was changed. For an earlier state, restore an earlier backup",
                cut.earliest_time.map_or(String::new(), |time| format!(", which was logged by {}", utc(time)))
            )));
        }
        Ok(cut)
    }

    /// Returns the LSN just after the last record of that state, and the findings about the log's times.
    fn cut(&self, until: RestorePoint, last: Lsn) -> Result<Cut> {
        let until_micros = match until {
            RestorePoint::Time(time) => time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros(),
            _ => u128::MAX,
        };
        match until {
            RestorePoint::Lsn(until) if until >= last.raw() => {
                return Err(self.refused(format!("its log ends at LSN {last}, so the state at that LSN (a place in the log) is not in it; nothing was changed. Give an LSN below {last}, or none, which restores the latest state")));
            }
            RestorePoint::Time(_) if until_micros > u128::from(self.manifest.time) => {
                return Err(self.refused(format!(
                    "its log ends at {}, before the wanted time; nothing was changed. Give an earlier time, or none, which restores the latest state",
                    utc(self.manifest.time)
                )));
            }
            _ => {}
        }
        let files = self.log(last)?;
        let mut roll = files.roll(Lsn::new(self.manifest.begin), last);
        // In a restore to a time, the end is just after the last flush mark whose time is not later. A flush mark
        // follows the records that the flush made durable.
        let mut cut = Cut::at(last);
        // The time of the previous record that has a time; zero before the first such record.
        let mut before = 0_u64;
        let mut in_time = Lsn::NONE;
        while let Some(record) = roll.next_record() {
            let record = record.map_err(of_backup)?;
            match until {
                RestorePoint::Lsn(until) if record.lsn.raw() > until => return Ok(Cut { end: record.lsn, ..cut }),
                _ => {}
            }
            let Some(stated) = record.header.time() else { continue };
            // Earlier builds let times go back.
            let earliest = before.saturating_add(1);
            let time = stated.max(earliest);
            if before != 0 && time == earliest {
                cut.clock_behind += 1;
                cut.clock_behind_from = cut.clock_behind_from.or(Some(record.lsn));
            }
            before = time;
            if record.end().raw() >= self.manifest.copied {
                cut.earliest_time = cut.earliest_time.or(Some(time));
            }
            match cut.left_out_time {
                None if u128::from(time) > until_micros => (cut.left_out_time, cut.end) = (Some(time), in_time),
                _ => in_time = record.end(),
            }
        }
        match roll.position() {
            end if end == last => Ok(cut),
            end => Err(Error::Corrupt(
                format!("the backup's log ends at LSN {end}, and should end at {last}; nothing was changed. Restore another backup").into(),
            )),
        }
    }

    fn put_files(&self, platform: &Platform, environment: [u8; 16], watch: &mut Watch<'_>) -> Result<()> {
        let total = self.file_bytes();
        let mut done = 0;
        for copied in &self.manifest.files {
            let to = platform.directory.open(&copied.name, OpenMode::CreateNew)?;
            let mut at = 0;
            self.each_page_run(copied, &mut |bytes, page_bytes| {
                if at == 0 {
                    libtp_record::give_to(environment, &copied.name, &mut bytes[..page_bytes])?;
                }
                to.write_at(bytes, at)?;
                at += bytes.len() as u64;
                done += bytes.len() as u64;
                watch(Progress::new("files", done, total));
                Ok(())
            })?;
            to.sync()?;
            failpoint("restore: a file copied");
        }
        Ok(())
    }

    /// Passes a copied file to `take` in runs of whole pages, after checking each page. Checks the whole file at its
    /// end.
    fn each_page_run(&self, copied: &CopiedFile, take: &mut dyn FnMut(&mut [u8], usize) -> Result<()>) -> Result<()> {
        let place = || self.directory.describe(&copied.name);
        let damaged = |what: String| {
            Error::Corrupt(Damage::in_file(&copied.name, &what, format!("{}: {what}; restore another backup", place())))
        };
        let in_page = |number: u32, what: &str| {
            let message = format!("{}: page {number}: {what}; restore another backup", place());
            Error::Corrupt(Damage::in_page(&copied.name, number, what, message))
        };
        let file = self.open_copied(copied)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut crc) = (0, 0);
        let mut shape = None;
        while at < copied.bytes {
            let want = usize::try_from(copied.bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = file.read_at(&mut piece[..want], at)?;
            if read < want {
                return Err(damaged(format!(
                    "it ends after {} bytes, and had {} when it was copied",
                    at + read as u64,
                    copied.bytes
                )));
            }
            let (id, page_bytes) = match shape {
                Some(shape) => shape,
                None => *shape.insert(
                    shape_of(&piece[..want]).ok_or_else(|| in_page(0, "it is not the header of a database file"))?,
                ),
            };
            for (index, page) in piece[..want].chunks(page_bytes).enumerate() {
                let number = at / page_bytes as u64 + index as u64;
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                if page.len() < page_bytes {
                    return Err(damaged("it ends in the middle of a page".into()));
                }
                if !planted("libtp: a restore does not check pages") {
                    let checked = check(page, PageId::new(id, PageNo::new(number)));
                    checked.map_err(|what| in_page(number, &what.to_string()))?;
                }
            }
            crc = crc32c::crc32c_append(crc, &piece[..want]);
            take(&mut piece[..want], page_bytes)?;
            at += want as u64;
        }
        if crc != copied.crc && !planted("libtp: a restore does not check pages") {
            return Err(damaged("its checksum differs, so it was changed after it was copied".into()));
        }
        Ok(())
    }

    /// Opens a copied file.
    ///
    /// # Errors
    /// `Backup` if the file is missing.
    fn open_copied(&self, copied: &CopiedFile) -> Result<Arc<dyn File>> {
        match self.directory.open(&copied.name, OpenMode::ReadOnly) {
            Err(libtp_io::Error::NotFound { .. }) => Err(incomplete(self.directory.as_ref(), &copied.name)),
            opened => Ok(opened?),
        }
    }

    fn put_log(&self, platform: &Platform, control: &Control, end: Lsn, watch: &mut Watch<'_>) -> Result<()> {
        let (begin, source) = (Lsn::new(self.manifest.begin), self.log(end)?);
        let total = end.since(begin);
        let files = LogFiles::new(Arc::clone(&platform.log_directory), control);
        let made =
            files.make_segments(&source, begin, end, &mut |done| watch(Progress::new("log", done.min(total), total)));
        made.map_err(of_backup)
    }

    /// Returns the backup's settings, if the directory has none. Checks the settings that will take effect.
    fn settings_for(&self, builder: &Builder, platform: &Platform) -> Result<Option<TheirSettings>> {
        if platform.directory.exists(SETTINGS_NAME)? {
            builder.settings_over(platform.settings_file()?).check()?;
            return Ok(None);
        }
        let Some(text) = settings::file_bytes(&*self.directory)? else { return Ok(None) };
        let settings = std::str::from_utf8(&text).ok().and_then(|text| Settings::parse(text).ok());
        let names_none = |settings: &Settings| settings.log_directory.is_none() && settings.region_directory.is_none();
        let Some(settings) = settings.filter(names_none) else {
            return Ok(Some(TheirSettings { text, is_aside: true }));
        };
        builder.settings_over(settings).check().map_err(|error| {
            let file = self.directory.describe(SETTINGS_NAME);
            let what =
                format!("{file}: {error}, or put another {SETTINGS_NAME} into the directory of the new environment");
            Error::Settings { what }
        })?;
        Ok(Some(TheirSettings { text, is_aside: false }))
    }
}

/// The settings of a backup.
struct TheirSettings {
    text: Vec<u8>,
    /// Whether the settings are stored without effect, because they cannot be read, or name directories of the other
    /// environment.
    is_aside: bool,
}

impl TheirSettings {
    fn put(&self, platform: &Platform) -> Result<()> {
        // Another program may have put a settings file into the directory during the copy.
        if !self.is_aside && platform.directory.exists(SETTINGS_NAME)? {
            return Ok(());
        }
        let name = if self.is_aside { SETTINGS_ASIDE } else { SETTINGS_NAME };
        let to = platform.directory.open(name, OpenMode::Create)?;
        to.write_at(&self.text, 0)?;
        Ok(to.sync()?)
    }
}

/// Returns the database number and the page size of a file, from its first bytes.
fn shape_of(front: &[u8]) -> Option<(FileId, usize)> {
    let page_bytes = u32::from_le_bytes(front.get(44..48)?.try_into().ok()?);
    let id = FileId::new(PageHeader::of(front).file_id.get());
    let is_whole = libtp_buffer::is_page_size(page_bytes) && front.len() >= page_bytes as usize;
    is_whole.then_some((id, page_bytes as usize))
}

/// Adds to a `LogType` error that the restored environment is complete and needs only a program with that type. After
/// other errors the remains are useless.
fn for_the_program(error: Error) -> Error {
    match error {
        Error::LogType { code, name, what } => {
            let what = format!("{what}. The restored environment is complete, and only its log has to be replayed: keep it, and open it with the program that registers the type");
            Error::LogType { code, name, what }
        }
        other => other,
    }
}

/// Returns whether an unfinished restore has left files. A restore that had only begun left nothing but its mark.
fn is_left(platform: &Platform) -> Result<bool> {
    let is_empty = |name: &String| [CONTROL_NAME, SETTINGS_NAME, RESTORING].contains(&name.as_str());
    Ok(!platform.directory.list()?.iter().all(is_empty))
}

/// Adds to an error about a damaged backup that the new directory has the remains of the restore.
fn with_remains(error: Error, platform: &Platform) -> Error {
    match error {
        Error::Corrupt(damage) => {
            let also = format!(
                "{} has the files that were copied before the fault, and is no environment: remove it",
                platform.path.display()
            );
            Error::Corrupt(damage.and(&also))
        }
        other => other,
    }
}

/// Refuses a directory that is not empty.
fn check_empty(platform: &Platform) -> Result<()> {
    let refuse = |what: String| Err(Error::Environment { environment: platform.path.clone(), what });
    if has_control(platform.directory.as_ref())? {
        return refuse("it is an environment already; restore the backup to an empty directory".into());
    }
    if platform.directory.exists(RESTORING)? && is_left(platform)? {
        return Err(unfinished::not_restored(platform));
    }
    let is_known = |name: &String| [CONTROL_NAME, SETTINGS_NAME, RESTORING].contains(&name.as_str());
    if let Some(other) = platform.directory.list()?.into_iter().find(|name| !is_known(name)) {
        return refuse(format!(
            "a backup is restored to an empty directory (except for a `{SETTINGS_NAME}`), and this one has `{other}`; nothing was changed. Name another directory"
        ));
    }
    match platform.log_directory.list()?.into_iter().find(|name| segment_number(name).is_some()) {
        Some(other) => {
            refuse(format!("its log directory has `{other}` of another environment; set another `log_directory`"))
        }
        None => Ok(()),
    }
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Backup({})", PathBuf::from(self.directory.describe("")).display())
    }
}
