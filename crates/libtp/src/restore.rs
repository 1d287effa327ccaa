//! Restore: an environment is made of a backup, as it was at a place in the log.
//!
//! The copied files, each page of another moment, and the log up to that place are put where a new environment is to be; then
//! it is opened, and that is restart as after a crash: redo of all the log there is, and undo of what had not committed.
//! Nothing is known of a place before the last page was copied, so no earlier one can be asked for.
//!
//! What is made is a *new* environment: it has a number of its own, in the control file, in page 0 of each file and in the
//! segments of the log. So shared memory of the one that was backed up, or that lay here, is never taken for its own (F1), its
//! log goes on without regard to what the other's did, and segments of memory that belong to the other are refused.
//!
//! If we die here: the control file is empty until everything else is there and durable, and the directory has the mark
//! of a restore that was begun, or a log. So what is left is no environment, and opening it says so (`unfinished.rs`);
//! restoring begins in an empty directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use libtp_buffer::{check, FileId, PageHeader, PageId, PageNo};
use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_number, Control, ControlFile, LogFiles, Lsn, CONTROL_NAME};
use rio::{failpoint, planted};
use serde::Serialize;

use crate::attach::{random_id, Platform};
use crate::backup::copy_file::PIECE_BYTES;
use crate::backup::manifest::{CopiedFile, Manifest, MANIFEST};
use crate::backup::{check_log, refused, Watcher};
use crate::judge::Judge;
use crate::settings::{self, Settings, SETTINGS_NAME};
use crate::unfinished::{self, RESTORING};
use crate::{Builder, Env, Error, Opened, Result};

/// What the settings of a backup are called where they are not put in force.
const SETTINGS_ASIDE: &str = "libtp.toml.backup";

/// Which state is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The latest there is.
    End,
    /// That behind the log record at this LSN: a transaction whose commit record it is, or stands before it, is there.
    Lsn(u64),
    /// That of a time. What had been answered as on disk by then is there, and nothing that was logged later: the log says at
    /// each flush when that was. Times in the log never go back: while the wall clock is behind them they stand still
    /// ([`Restored::clock_behind`]).
    Time(SystemTime),
}

/// A backup, to be looked at or restored from.
pub struct Backup {
    directory: Arc<dyn Directory>,
    manifest: Manifest,
}

/// What a look at a backup found, which is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The earliest state that can be had: all that was logged before this LSN.
    pub earliest: u64,
    /// The latest.
    pub end: u64,
    /// Database files.
    pub files: u64,
    /// Bytes of these.
    pub file_bytes: u64,
    /// Bytes of log.
    pub log_bytes: u64,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// All that was logged before this LSN, and was committed, is there; the environment's log goes on from here.
    pub end: u64,
    /// Database files.
    pub files: u64,
    /// Bytes of these.
    pub file_bytes: u64,
    /// Bytes of log that were replayed.
    pub log_bytes: u64,
    /// Transactions that had not committed and were undone.
    pub undone: u64,
    /// Flushes in the backup's log that were made while the wall clock was behind the log's last time: somebody had set the clock
    /// back, or it had been wrong before. Their times stand still, and states of meanwhile are found by their LSNs.
    pub clock_behind: u64,
    /// The LSN of the first of these flushes, or zero.
    pub clock_behind_from: u64,
    /// The time of the first flush that was left out, in microseconds since 1970, if the state of a time was asked for; or zero. Where
    /// this time is far from the time that was asked for, the wall clock may have been ahead.
    pub left_out_time: u64,
    /// Whether the settings of the backup name directories, and so were laid aside, as `libtp.toml.backup`: what they name is the
    /// other environment's.
    pub settings_aside: bool,
    /// How long it took.
    pub millis: u64,
}

/// Where the log ends that is replayed, and what the log's times say.
#[derive(Clone, Copy, Debug)]
struct Cut {
    end: Lsn,
    /// As in [`Restored`].
    clock_behind: u64,
    clock_behind_from: Option<Lsn>,
    left_out_time: Option<u64>,
}

impl Cut {
    fn at(end: Lsn) -> Cut {
        Cut { end, clock_behind: 0, clock_behind_from: None, left_out_time: None }
    }
}

impl Backup {
    /// Opens the backup in that directory and reads what it says of itself.
    ///
    /// # Errors
    /// `Backup` if there is none, it was not finished, or it is damaged; `Io`.
    pub fn open(directory: impl AsRef<Path>) -> Result<Backup> {
        Backup::open_on(Arc::new(PosixDirectory::open(directory)?))
    }

    /// As [`Backup::open`], in any directory: for simulation.
    ///
    /// # Errors
    /// As [`Backup::open`].
    #[doc(hidden)]
    pub fn open_on(directory: Arc<dyn Directory>) -> Result<Backup> {
        let Some(manifest) = Manifest::read(directory.as_ref())? else {
            let what = format!("it has no `{MANIFEST}`: it is no backup, or one that was not finished");
            return Err(refused(directory.as_ref(), what));
        };
        Ok(Backup { directory, manifest })
    }

    /// The earliest state that can be had: all that was logged before this LSN.
    pub fn earliest(&self) -> u64 {
        self.manifest.copied
    }

    /// The latest time whose state can be had.
    pub fn latest_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(self.manifest.time)
    }

    /// Where the backup's log ends.
    pub fn end(&self) -> u64 {
        self.manifest.end
    }

    /// Reads all of it, and checks every page and every log record.
    ///
    /// # Errors
    /// `Corrupt`, `Backup` with the first thing that is wrong; `Io`.
    pub fn check(&self, watch: Watcher<'_>) -> Result<Checked> {
        let mut done = 0;
        let total = self.file_bytes();
        for file in &self.manifest.files {
            self.each_page_run(file, &mut |bytes, _| {
                done += bytes.len() as u64;
                watch("files", done, total);
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

    /// Makes an environment of it in `directory`, which is made, or has nothing but a `libtp.toml`, whose settings are then the
    /// new environment's.
    ///
    /// # Errors
    /// `Backup` when that state cannot be had from it; `Corrupt` when it is damaged, with the file and the place;
    /// `Environment` when the directory is not empty; `Full`, `Io`. What is left then is no environment: remove it. But `LogType`
    /// when the log has records of the program's types: then all of the environment is there, and the program that registers
    /// them opens it, which replays the log.
    pub fn restore(&self, directory: impl AsRef<Path>, until: Until, watch: Watcher<'_>) -> Result<Restored> {
        self.restore_with(&Env::builder(), directory, until, watch)
    }

    /// As [`Backup::restore`], opening what was made as `builder` says: with its log-record types ([`Builder::log_type`]) and its
    /// settings.
    ///
    /// # Errors
    /// As [`Backup::restore`].
    pub fn restore_with(
        &self,
        builder: &Builder,
        directory: impl AsRef<Path>,
        until: Until,
        watch: Watcher<'_>,
    ) -> Result<Restored> {
        let platform = builder.platform(directory.as_ref())?;
        self.make(builder, platform, until, watch)
    }

    /// As [`Backup::restore`], on another disk and memory than the machine's: for simulation.
    ///
    /// # Errors
    /// As [`Backup::restore`].
    #[doc(hidden)]
    pub fn restore_on(
        &self,
        platform: Platform,
        settings: Settings,
        until: Until,
        watch: Watcher<'_>,
    ) -> Result<Restored> {
        self.make(&Env::builder().settings(settings), platform, until, watch)
    }

    fn make(&self, builder: &Builder, platform: Platform, until: Until, watch: Watcher<'_>) -> Result<Restored> {
        let begun = Instant::now();
        let quiet = builder.clone().settings(Settings { no_background: true, ..Settings::default() });
        let (settings_aside, cut) = self.lay_out(&quiet, &platform, until, watch)?;
        let env = quiet.open_on(platform, watch).map_err(for_the_program)?;
        // From here on it is an environment like any other.
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

    /// The backup's log as far as `end`.
    fn log(&self, end: Lsn) -> Result<LogFiles> {
        let environment = self.manifest.environment().unwrap_or_default();
        let control =
            self.manifest.control(environment, end).ok_or_else(|| self.refused("its lists are in no order"))?;
        Ok(LogFiles::new(Arc::clone(&self.directory), &control))
    }

    fn refused(&self, what: impl Into<String>) -> Error {
        refused(self.directory.as_ref(), what)
    }

    /// Puts everything in its place but for the log's replay. Whether settings were laid aside, and where the log ends.
    fn lay_out(&self, builder: &Builder, platform: &Platform, until: Until, watch: Watcher<'_>) -> Result<(bool, Cut)> {
        platform.check_local()?;
        // Before any file is made: a restore that is refused changes nothing.
        check_empty(platform)?;
        let settings = self.settings_for(builder, platform)?;
        let cut = self.end_of(until)?;
        let end = cut.end;
        let environment = if planted("libtp: a restored environment is the old one") {
            self.manifest.environment().unwrap_or_default()
        } else {
            random_id()
        };
        let control =
            self.manifest.control(environment, end).ok_or_else(|| self.refused("its lists are in no order"))?;
        let is_first = unfinished::begin_restore(platform.directory.as_ref())?;
        let file = platform.directory.open(CONTROL_NAME, OpenMode::Create)?;
        failpoint("restore: control file empty");
        let judge = Judge::new(Arc::clone(&file), platform.path.clone());
        // Nobody makes an environment here meanwhile (F1).
        let _door = judge.door()?;
        if let Err(refused) = check_empty(platform) {
            if is_first {
                unfinished::end_restore(platform.directory.as_ref())?;
            }
            return Err(refused);
        }
        self.put_files(platform, environment, watch)?;
        failpoint("restore: files copied, no log");
        self.put_log(platform, &control, end, watch)?;
        failpoint("restore: log made, no control file");
        if let Some(settings) = &settings {
            settings.put(platform)?;
        }
        platform.directory.sync()?;
        unfinished::end_restore(platform.directory.as_ref())?;
        failpoint("restore: its mark gone, control file empty");
        ControlFile::new(file, platform.directory.describe(CONTROL_NAME)).create(&control)?;
        platform.directory.sync()?;
        failpoint("restore: an environment, not opened");
        Ok((settings.is_some_and(|settings| settings.is_aside), cut))
    }

    /// Where the log ends that is replayed.
    fn end_of(&self, until: Until) -> Result<Cut> {
        let (earliest, last) = (Lsn::new(self.manifest.copied), Lsn::new(self.manifest.end));
        let cut = self.cut(until, last)?;
        let end = cut.end;
        if end < earliest && !planted("libtp: a state before the copied pages is restored") {
            return Err(self.refused(format!("the earliest state that can be had from it is that before LSN {earliest}; for what was before, take an earlier backup")));
        }
        Ok(cut)
    }

    /// The place behind the last record that belongs to that state, and what the log's times say.
    fn cut(&self, until: Until, last: Lsn) -> Result<Cut> {
        let until_micros = match until {
            Until::Time(time) => time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros(),
            _ => u128::MAX,
        };
        match until {
            Until::Lsn(until) if until >= last.raw() => {
                return Err(self.refused(format!("its log ends before LSN {last}: what came later is not in it")));
            }
            Until::Time(_) if until_micros > u128::from(self.manifest.time) => {
                let latest = self.manifest.time;
                return Err(self.refused(format!(
                    "its log ends at {}.{:06} s since 1970, before that time: what came later is not in it",
                    latest / 1_000_000,
                    latest % 1_000_000
                )));
            }
            _ => {}
        }
        let files = self.log(last)?;
        let mut roll = files.roll(Lsn::new(self.manifest.begin), last);
        // Behind the last mark of before that time: it stands behind what its flush made durable.
        let mut cut = Cut::at(last);
        // The time of the record before; zero at the first record with a time.
        let mut before = 0_u64;
        let mut in_time = Lsn::NONE;
        while let Some(record) = roll.next_record() {
            let record = record?;
            match until {
                Until::Lsn(until) if record.lsn.raw() > until => return Ok(Cut { end: record.lsn, ..cut }),
                _ => {}
            }
            let Some(said) = record.time() else { continue };
            // Builds before this one let times go back.
            let earliest = before.saturating_add(1);
            let time = said.max(earliest);
            if before != 0 && time == earliest {
                cut.clock_behind += 1;
                cut.clock_behind_from = cut.clock_behind_from.or(Some(record.lsn));
            }
            before = time;
            match cut.left_out_time {
                None if u128::from(time) > until_micros => (cut.left_out_time, cut.end) = (Some(time), in_time),
                _ => in_time = record.end(),
            }
        }
        match roll.position() {
            end if end == last => Ok(cut),
            end => Err(Error::Corrupt(format!("the backup's log ends at LSN {end}, not at {last}, where it should"))),
        }
    }

    fn put_files(&self, platform: &Platform, environment: [u8; 16], watch: Watcher<'_>) -> Result<()> {
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
                watch("files", done, total);
                Ok(())
            })?;
            to.sync()?;
            failpoint("restore: a file copied");
        }
        Ok(())
    }

    /// Hands over a copied file in pieces of whole pages, after having looked at each page; and at the whole, at its end.
    fn each_page_run(&self, copied: &CopiedFile, take: &mut dyn FnMut(&mut [u8], usize) -> Result<()>) -> Result<()> {
        let damaged = |what: String| Error::Corrupt(format!("{}: {what}", self.directory.describe(&copied.name)));
        let file = self.directory.open(&copied.name, OpenMode::ReadOnly)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut crc) = (0, 0);
        let mut shape = None;
        while at < copied.bytes {
            let want = usize::try_from(copied.bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = file.read_at(&mut piece[..want], at)?;
            if read < want {
                return Err(damaged(format!("it ends after {} bytes, and had {}", at + read as u64, copied.bytes)));
            }
            let (id, page_bytes) = match shape {
                Some(shape) => shape,
                None => *shape
                    .insert(shape_of(&piece[..want]).ok_or_else(|| damaged("its first page is no header".into()))?),
            };
            for (index, page) in piece[..want].chunks(page_bytes).enumerate() {
                let number = at / page_bytes as u64 + index as u64;
                let page_no = PageNo::new(u32::try_from(number).unwrap_or(u32::MAX));
                if page.len() < page_bytes {
                    return Err(damaged("it ends in the middle of a page".into()));
                }
                if !planted("libtp: a restore believes what it reads") {
                    check(page, PageId::new(id, page_no)).map_err(|what| damaged(format!("page {number}: {what}")))?;
                }
            }
            crc = crc32c::crc32c_append(crc, &piece[..want]);
            take(&mut piece[..want], page_bytes)?;
            at += want as u64;
        }
        if crc != copied.crc && !planted("libtp: a restore believes what it reads") {
            return Err(damaged("it is not what was copied: its checksum is another".into()));
        }
        Ok(())
    }

    fn put_log(&self, platform: &Platform, control: &Control, end: Lsn, watch: Watcher<'_>) -> Result<()> {
        let (begin, source) = (Lsn::new(self.manifest.begin), self.log(end)?);
        let total = end.since(begin);
        let files = LogFiles::new(Arc::clone(&platform.log_directory), control);
        Ok(files.make_segments(&source, begin, end, &mut |done| watch("log", done.min(total), total))?)
    }

    /// The backup's settings, if there are none here. Those that will be in force are checked.
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
            let what = format!("{file}: {error}, or put a {SETTINGS_NAME} of its own where the environment is to be");
            Error::Settings { what }
        })?;
        Ok(Some(TheirSettings { text, is_aside: false }))
    }
}

/// The settings of a backup.
struct TheirSettings {
    text: Vec<u8>,
    /// The settings cannot be read, or name directories of the other environment.
    is_aside: bool,
}

impl TheirSettings {
    fn put(&self, platform: &Platform) -> Result<()> {
        // Another program may have put settings there during the copy.
        if !self.is_aside && platform.directory.exists(SETTINGS_NAME)? {
            return Ok(());
        }
        let name = if self.is_aside { SETTINGS_ASIDE } else { SETTINGS_NAME };
        let to = platform.directory.open(name, OpenMode::Create)?;
        to.write_at(&self.text, 0)?;
        Ok(to.sync()?)
    }
}

/// Whose pages a file has, and how long they are, by its first.
fn shape_of(front: &[u8]) -> Option<(FileId, usize)> {
    let page_bytes = u32::from_le_bytes(front.get(44..48)?.try_into().ok()?);
    let id = FileId::new(PageHeader::of(front).file_id.get());
    let is_whole = libtp_buffer::is_page_size(page_bytes) && front.len() >= page_bytes as usize;
    is_whole.then_some((id, page_bytes as usize))
}

/// What was restored lacks nothing but a program that has the type, which the error has to say: other failures leave nothing of use.
fn for_the_program(error: Error) -> Error {
    match error {
        Error::LogType { code, name, what } => {
            let what = format!("{what}. The restored environment is all there, and its log has yet to be replayed: do not remove it, open it with the program that registers the type");
            Error::LogType { code, name, what }
        }
        other => other,
    }
}

/// A new environment comes where nothing is.
fn check_empty(platform: &Platform) -> Result<()> {
    let refuse = |what: String| Err(Error::Environment { environment: platform.path.clone(), what });
    if unfinished::has_control(platform.directory.as_ref())? {
        return refuse("it is an environment; restore a backup to an empty directory".into());
    }
    let is_known = |name: &String| [CONTROL_NAME, SETTINGS_NAME, RESTORING].contains(&name.as_str());
    if let Some(other) = platform.directory.list()?.into_iter().find(|name| !is_known(name)) {
        return refuse(format!(
            "a backup is restored to an empty directory (it may have a `{SETTINGS_NAME}`), and here is `{other}`; if it is left of a restore that was not finished, remove it"
        ));
    }
    match platform.log_directory.list()?.into_iter().find(|name| segment_number(name).is_some()) {
        Some(other) => refuse(format!("its log directory has `{other}` of another environment")),
        None => Ok(()),
    }
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Backup({})", PathBuf::from(self.directory.describe("")).display())
    }
}
