//! Backup: a copy of an environment, taken while the environment is in use. `restore.rs` makes an environment from the
//! copy.
//!
//! The paper has no backups. The method is that of Berkeley DB's hot backup and PostgreSQL's base backup
//! (docs/design/0016-backup.md, PROTOCOLS L10). The steps, in this order:
//!
//! 1. Take a checkpoint; keep the log from this checkpoint on (`txn/kept_log`).
//! 2. Copy the files, page by page, while other sessions write them (`copy_file.rs`).
//! 3. Force the log, and copy it from that checkpoint to its durable end: the copied log has every change that a copied
//!    page shows.
//! 4. Read the copied log back, record by record.
//! 5. Write the manifest, which completes the backup.
//!
//! A later call extends the backup with newer log: the call raises the manifest's end, and does not change the copied
//! files.
//!
//! Invariants
//! 1. A directory with a manifest has a whole backup that ends where the manifest says. Any further files in it belong
//!    to an unfinished backup, and are ignored.
//! 2. A backup changes nothing in the environment, except that it takes checkpoints, and keeps log while it runs.
//! 3. A full backup holds a lock on the file `backup.unfinished`. An extension holds a lock on the manifest. So no
//!    other process mistakes the files in the directory for files of a dead process.
//!
//! If we die here: repairing the session releases the kept log. A full backup has no manifest yet, and the next full
//! backup to the same directory starts from the beginning. The next extension repeats an interrupted extension.

pub(crate) mod copy_file;
pub(crate) mod manifest;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use libtp_buffer::{seal, FileId, PageId};
use libtp_io::{Directory, File, LockMode, OpenMode, PosixDirectory};
use libtp_lock::Mode;
use libtp_log::{Control, ControlFile, LogCopy, LogFiles, Lsn, CONTROL_NAME};
use libtp_process::Rank;
use libtp_record::{lock_names, FoundFile};
use libtp_txn::{Managers, TxnSession};
use rio::{failpoint, planted};
use serde::Serialize;

use crate::ground::damage::Damage;
use crate::ground::progress::{Progress, Watch};
use crate::ground::settings::{self, SETTINGS_NAME};
use crate::open::unfinished::{BACKING_UP, MANIFEST};
use crate::region::generation::Seated;
use crate::region::inner::Inner;
use crate::{Env, Error, Result};

use copy_file::{copy_header, FileCopy};
use manifest::Manifest;

/// The number of pages of a new file.
const PAGES_NEW: u64 = 3;
/// The number of bytes at the end of a backup's log that an extension compares with the environment's log.
const WITNESS_BYTES: u64 = 4096;

/// The locked byte, far after all bytes that are read: some network filesystems keep other processes from reading a
/// locked byte.
const LOCKED_BYTE: u64 = 1 << 40;

/// The result of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// The earliest state that can be restored: everything logged before this LSN.
    pub earliest: u64,
    /// The end of the backup's log, and so the latest state that can be restored.
    pub end: u64,
    /// Database files that were copied.
    pub files: u64,
    /// Total size of these files, in bytes.
    pub file_bytes: u64,
    /// Size of the copied log, in bytes.
    pub log_bytes: u64,
    /// Pages that were read again because a session was writing them.
    pub reread: u64,
    /// The duration in milliseconds.
    pub millis: u64,
}

impl Env {
    /// Copies the environment to the directory `to`, which is missing or empty, while other sessions continue their
    /// work. The copy has all commits that were made before the backup begins, and some of the commits that are made
    /// meanwhile. It does not include segments of recoverable memory.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (bank, copy, other) = (dir.path().join("bank"), dir.path().join("copy"), dir.path().join("other"));
    /// let env = libtp::Env::open_or_create(&bank)?;
    /// let accounts = env.btree("accounts")?;
    /// env.run(|txn| accounts.put(txn, b"alice", b"10"))?;
    /// env.backup(&copy, &mut |_| {})?;
    /// libtp::Backup::open(&copy)?.restore(&other, libtp::RestorePoint::End, &mut |_| {})?;
    /// let restored = libtp::Env::open_or_create(&other)?;
    /// let accounts = restored.btree("accounts")?;
    /// assert_eq!(restored.run(|txn| accounts.get(txn, b"alice"))?.as_deref(), Some(&b"10"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Backup` when the directory is not empty; `Corrupt` when a page or the log is damaged, naming the file and the
    /// page; `Full`, `Io`. The environment is unchanged, and the copied files are removed, if possible.
    pub fn backup(&self, to: impl AsRef<Path>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        self.refuse_inside(to.as_ref())?;
        self.backup_to(&directory_at(to.as_ref())?, watch)
    }

    /// Adds newer log to the backup of this environment in the directory `to`. Any state up to the present state can
    /// then be restored from the backup. The call takes as long as a copy of the added log.
    ///
    /// # Errors
    /// `Backup` when there is no backup of this environment, or the environment has not kept the log since the end of
    /// that backup (see `keep_log` in the settings); else as [`Env::backup`]. After an error the backup is unchanged.
    pub fn backup_more(&self, to: impl AsRef<Path>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        let directory: Arc<dyn Directory> = match PosixDirectory::open(to.as_ref()) {
            Err(libtp_io::Error::NotFound { .. }) => {
                let what = "the directory does not exist; nothing was changed. Take a full backup first".into();
                return Err(Error::Backup { backup: to.as_ref().display().to_string(), what });
            }
            opened => Arc::new(opened?),
        };
        self.backup_more_to(&directory, watch)
    }

    /// Refuses a backup inside of the environment's own directory, before any directory is made: whatever destroys the
    /// environment would destroy the backup, too.
    fn refuse_inside(&self, to: &Path) -> Result<()> {
        let absolute = std::path::absolute(to).unwrap_or_else(|_| to.to_path_buf());
        let nearest = absolute.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
        match self.path().canonicalize() {
            Ok(own) if nearest.starts_with(&own) => Err(Error::Backup {
                backup: to.display().to_string(),
                what: format!("it is inside of {}, the directory of the environment itself; nothing was changed. Name a directory outside of it, best on another disk", own.display()),
            }),
            _ => Ok(()),
        }
    }

    /// Does the work of [`Env::backup`], in any implementation of a directory.
    pub(crate) fn backup_to(&self, to: &Arc<dyn Directory>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        self.0.check_process()?;
        let _alone = begin_in(to.as_ref())?;
        let done = Copying::begin(&self.0).and_then(|copying| copying.full(to, watch));
        if done.is_err() && !to.exists(MANIFEST).unwrap_or(true) {
            // Frees disk space. If files stay, the next backup recognizes an unfinished backup, and removes the files.
            let _ = empty(to.as_ref());
        }
        done
    }

    /// Does the work of [`Env::backup_more`], in any implementation of a directory.
    pub(crate) fn backup_more_to(&self, to: &Arc<dyn Directory>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        self.0.check_process()?;
        let nothing = || {
            refused(to.as_ref(), "there is no finished backup in it that could be extended; nothing was changed. Take a full backup first")
        };
        let _alone = take_alone(to.as_ref(), MANIFEST, OpenMode::Existing)?.ok_or_else(nothing)?;
        let manifest = Manifest::read(to.as_ref())?.ok_or_else(nothing)?;
        Copying::begin(&self.0)?.more(to, manifest, watch)
    }
}

fn directory_at(path: &Path) -> Result<Arc<dyn Directory>> {
    Ok(Arc::new(PosixDirectory::create(path)?))
}

pub(crate) fn refused(directory: &dyn Directory, what: impl Into<String>) -> Error {
    let path = directory.describe(MANIFEST);
    let backup = path.strip_suffix(MANIFEST).map_or(path.as_str(), |path| path.trim_end_matches('/')).to_string();
    Error::Backup { backup, what: what.into() }
}

/// Returns the error for a backup that lacks a copied file.
pub(crate) fn incomplete(directory: &dyn Directory, name: &str) -> Error {
    refused(directory, format!("it is incomplete: its file {name} is missing; nothing was changed. Use another backup"))
}

/// Locks the file that marks a directory's backup, so that no other process copies to the directory at the same time.
/// Returns `None` if the file is missing. The lock ends when the returned handle is dropped, or when this process ends.
fn take_alone(to: &dyn Directory, name: &str, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
    loop {
        let file = match to.open(name, mode) {
            Err(libtp_io::Error::NotFound { .. }) => return Ok(None),
            opened => opened?,
        };
        let is_alone = file.lock(LOCKED_BYTE, LockMode::Exclusive, false).unwrap_or_else(|error| {
            tracing::warn!(%error, "the backup's filesystem has no file locks: nothing prevents a second backup to the same directory");
            true
        });
        if !is_alone && !planted("libtp: two backups write to one directory at once") {
            return Err(refused(
                to,
                "another backup to it is running; nothing was changed. Wait for the end of that backup",
            ));
        }
        // The earlier holder of the lock may have ended before this lock was granted, and may have removed or replaced
        // the file.
        match to.open(name, OpenMode::ReadOnly) {
            Ok(now) if now.identity()? == file.identity()? => return Ok(Some(file)),
            Ok(_) | Err(libtp_io::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes sure that a backup to this directory destroys nothing, and marks the backup as begun. No other backup to the
/// directory can begin while the returned file is kept.
fn begin_in(to: &dyn Directory) -> Result<Arc<dyn File>> {
    refuse_what_is_there(to)?;
    let alone = take_alone(to, BACKING_UP, OpenMode::Create)?
        .ok_or_else(|| refused(to, "no file can be made in it; nothing was changed. Name another directory"))?;
    // This check is repeated, because another process may have finished its backup before the lock was granted.
    if let Err(refused) = refuse_what_is_there(to) {
        to.remove(BACKING_UP)?;
        return Err(refused);
    }
    for name in to.list()?.iter().filter(|name| *name != BACKING_UP) {
        to.remove(name)?;
    }
    to.sync()?;
    Ok(alone)
}

fn refuse_what_is_there(to: &dyn Directory) -> Result<()> {
    let names = to.list()?;
    if names.iter().any(|name| name == MANIFEST) {
        return Err(refused(
            to,
            "it has a backup already; nothing was changed. Add to that backup (`--incremental`, `Env::backup_more`), or name another directory",
        ));
    }
    match names.first() {
        Some(name) if !names.iter().any(|name| name == BACKING_UP) => {
            Err(refused(to, format!("a backup needs an empty directory, and this one has `{name}`; nothing was changed. Name another directory")))
        }
        _ => Ok(()),
    }
}

/// Removes the files of an unfinished backup.
fn empty(to: &dyn Directory) -> Result<()> {
    for name in to.list()?.iter().filter(|name| *name != BACKING_UP) {
        to.remove(name)?;
    }
    Ok(to.remove(BACKING_UP)?)
}

/// A running backup. Its session's slot notes the LSN from which the log is kept.
struct Copying<'e> {
    env: &'e Arc<Inner>,
    seat: Option<Box<Seated>>,
    begun: Instant,
}

impl<'e> Copying<'e> {
    fn begin(env: &'e Arc<Inner>) -> Result<Copying<'e>> {
        loop {
            match env.take_session() {
                Err(Error::Rebuilt | Error::Panicked { .. }) => {}
                seat => {
                    let copying = Copying { env, seat: Some(seat?), begun: Instant::now() };
                    copying.keep_names()?;
                    return Ok(copying);
                }
            }
        }
    }

    /// Keeps other sessions from dropping or renaming a database until the backup ends.
    fn keep_names(&self) -> Result<()> {
        self.with(|managers, seat| {
            // The thread counts as a thread with an open transaction. So the lock manager refuses a wait for another
            // transaction of this thread, which the thread could not end while it waits.
            let _open = libtp_lock::OpenHere::new();
            let (files, wait) = (lock_names::files(), self.env.wait);
            Ok(managers.locks.lock(seat.session(), seat.locker(), files, Mode::S, wait)?)
        })
    }

    /// Runs `work` with the session. If the region was given up meanwhile, the backup ends with `Rebuilt`; the caller
    /// may start over.
    fn with<T>(&self, work: impl FnOnce(&Managers, &TxnSession) -> Result<T>) -> Result<T> {
        let Seated { generation, session } = &**self.seat.as_ref().expect("a backup has a session until it ends");
        let done = generation.guarded_by(session, || work(&generation.managers, session));
        match generation.managers.region.is_broken() {
            true => Err(Error::Rebuilt),
            false => done,
        }
    }

    fn control(&self) -> Result<Control> {
        let directory = &self.env.platform.directory;
        let file = directory.open(CONTROL_NAME, OpenMode::ReadOnly)?;
        Ok(ControlFile::new(file, directory.describe(CONTROL_NAME)).read()?)
    }

    fn found(&self, control: &Control) -> Result<Vec<FoundFile>> {
        let directory = self.env.platform.directory.as_ref();
        self.with(|managers, _| {
            let registry = managers.buffers.registry();
            Ok(libtp_record::entered_files(registry, directory, &control.environment_id)?)
        })
    }

    /// Returns the time of the log. A commit with a later time follows every log record that exists at this moment.
    fn time(&self) -> Result<u64> {
        self.with(|managers, _| Ok(managers.log.time()))
    }

    /// Forces the log; returns its durable end.
    fn force(&self) -> Result<Lsn> {
        self.with(|managers, seat| {
            if managers.log.tail() > managers.log.durable() {
                managers.log.force(seat.session(), managers.log.tail().minus(8))?;
            }
            Ok(managers.log.durable())
        })
    }

    fn full(self, to: &Arc<dyn Directory>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        let taken = self.with(|managers, seat| Ok(managers.begin_copy(seat)?))?;
        let files = self.found(&self.control()?)?;
        let total = self.total(&files)?;
        let mut done = 0;
        let mut cached = |id: PageId, page: &mut [u8]| self.read_cached(id, page);
        let mut step = |bytes: u64| {
            done += bytes;
            watch(Progress::new("files", done.min(total), total));
        };
        let from = self.env.platform.directory.as_ref();
        let (reread, highest) = (0, Lsn::NONE);
        let mut copy = FileCopy { from, to: to.as_ref(), cached: &mut cached, watch: &mut step, reread, highest };
        let mut copied = files.iter().map(|file| copy.copy(&file.info)).collect::<Result<Vec<_>>>()?;
        let (reread, highest) = (copy.reread, copy.highest);
        failpoint("backup: files copied, log not");
        let time = self.time()?;
        let end =
            if planted("libtp: a backup's log ends before its pages") { taken.lsn.plus(8) } else { self.force()? };
        // The control file is read only after the log was forced, so it is newer than all log records of the copied
        // pages.
        let mut control = self.control()?;
        for file in self.found(&control)? {
            let is_new = !files.iter().any(|known| known.info.id == file.info.id);
            if is_new && !planted("libtp: a backup lacks databases that are made while it runs") {
                copied.push(copy_header(from, to.as_ref(), &file.info, PAGES_NEW)?);
            }
        }
        if highest >= end {
            let what = format!("a page with the LSN {highest} was copied, and the log ends at {end}, before it; the environment was not changed. Look for the damage with `tp verify`");
            return Err(Error::Corrupt(what.into()));
        }
        (control.checkpoint, control.redo_point) = (taken.lsn, taken.redo_point);
        let mut manifest = Manifest::new(&control, taken.restart_from, end);
        let log_bytes = self.copy_log(to, &manifest, taken.restart_from, end, watch)?;
        self.copy_settings(to.as_ref())?;
        (manifest.files, manifest.time) = (copied, time);
        failpoint("backup: log copied, no manifest");
        to.sync()?;
        manifest.write(to.as_ref())?;
        failpoint("backup: done, still marked as unfinished");
        to.remove(BACKING_UP)?;
        to.sync()?;
        let file_bytes = manifest.files.iter().map(|file| file.bytes).sum();
        Ok(self.done(&manifest, manifest.files.len(), file_bytes, log_bytes, reread))
    }

    fn more(self, to: &Arc<dyn Directory>, mut manifest: Manifest, watch: &mut Watch<'_>) -> Result<BackedUp> {
        let control = self.control()?;
        if manifest.environment() != Some(control.environment_id) {
            return Err(refused(to.as_ref(), "it is a backup of another environment; nothing was changed. Name the directory of this environment's backup"));
        }
        let from = Lsn::new(manifest.end);
        let kept = self.with(|managers, seat| match managers.begin_copy_from(seat, from) {
            Err(libtp_txn::Error::Log(libtp_log::Error::TooOld { oldest, .. })) => Ok(Some(oldest)),
            other => Ok(other.map(|()| None)?),
        })?;
        if let Some(oldest) = kept {
            let what = format!("it ends at LSN {from}, and the environment keeps its log only from LSN {oldest} on; nothing was changed. Take a full backup to another directory; a larger `keep_log` in libtp.toml keeps more of the log");
            return Err(refused(to.as_ref(), what));
        }
        self.check_history(to, &manifest, &control)?;
        let time = self.time()?;
        let end = self.force()?.max(from);
        let control = self.control()?;
        let before = manifest.incarnations().map(|incarnations| incarnations.list().to_vec()).unwrap_or_default();
        let since = control.incarnations.list().iter().filter(|generation| generation.start >= from);
        manifest.set_incarnations(before.iter().filter(|generation| generation.start < from).chain(since).copied());
        if manifest.incarnations().is_none() {
            return Err(refused(
                to.as_ref(),
                "the environment was recovered too many times since this backup was begun; nothing was changed. Take a full backup to another directory",
            ));
        }
        let mut files = 0;
        let copies = copied_numbers(to.as_ref(), &manifest, &control.environment_id)?;
        for file in self.found(&control)? {
            let name = file.info.file_name();
            if copies.contains(&file.info.id) {
                // The database may have been renamed since; the copied log has the new name.
                continue;
            }
            if manifest.files.iter().any(|known| known.name == name) {
                let what = format!("it has a copy of a former {name}: that database was dropped or renamed since, and a new database has the name. Take a full backup to another directory");
                return Err(refused(to.as_ref(), what));
            }
            let directory = self.env.platform.directory.as_ref();
            manifest.files.push(copy_header(directory, to.as_ref(), &file.info, PAGES_NEW)?);
            files += 1;
        }
        manifest.next_file_id = control.next_file_id;
        let log_bytes = self.copy_log(to, &manifest, from, end, watch)?;
        (manifest.end, manifest.time) = (end.raw(), time);
        failpoint("backup: log added, manifest old");
        to.sync()?;
        manifest.write(to.as_ref())?;
        Ok(self.done(&manifest, files, 0, log_bytes, 0))
    }

    fn done(&self, manifest: &Manifest, files: usize, file_bytes: u64, log_bytes: u64, reread: u64) -> BackedUp {
        BackedUp {
            earliest: manifest.copied,
            end: manifest.end,
            files: files as u64,
            file_bytes,
            log_bytes,
            reread,
            millis: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn total(&self, files: &[FoundFile]) -> Result<u64> {
        let directory = &self.env.platform.directory;
        files
            .iter()
            .try_fold(0, |total, file| Ok(total + directory.open(&file.info.file_name(), OpenMode::ReadOnly)?.len()?))
    }

    /// Reads a page through the page cache, which also repairs the page if its writer has died.
    fn read_cached(&self, id: PageId, page: &mut [u8]) -> Result<()> {
        self.with(|managers, seat| {
            page.copy_from_slice(&managers.buffers.shared(seat.session(), id, Rank::page(0))?);
            Ok(())
        })?;
        // The frame has the checksum of the page's last write to disk.
        page[..4].fill(0);
        seal(page);
        Ok(())
    }

    /// Copies the log `from .. to`, and reads the copy.
    fn copy_log(
        &self,
        to: &Arc<dyn Directory>,
        manifest: &Manifest,
        from: Lsn,
        end: Lsn,
        watch: &mut Watch<'_>,
    ) -> Result<u64> {
        let environment = manifest.environment().unwrap_or_default();
        let control =
            manifest.control(environment, end).ok_or_else(|| refused(to.as_ref(), "its manifest names more restarts than an environment can have; nothing was changed. Take a full backup to another directory"))?;
        let read = |at: Lsn, bytes: &mut [u8]| {
            let copied = self.with(|managers, _| Ok(managers.log.copy_durable(at, bytes)?));
            copied.map_err(|error| libtp_log::Error::Failed { cause: error.to_string() })
        };
        let total = end.since(from);
        LogCopy::new(to, &control)
            .append(from, end, &read, &mut |done| watch(Progress::new("log", done.min(total), total)))?;
        failpoint("backup: log copied, not read back");
        check_log(&LogFiles::new(Arc::clone(to), &control), from, end)?;
        Ok(total)
    }

    /// Checks that the environment's log contains the end of the backup's log. It does not if, after this backup was
    /// taken, the environment was restored from an older backup.
    fn check_history(&self, to: &Arc<dyn Directory>, manifest: &Manifest, control: &Control) -> Result<()> {
        let end = Lsn::new(manifest.end);
        let environment = manifest.environment().unwrap_or_default();
        let Some(theirs) = manifest.control(environment, end) else { return Ok(()) };
        let geometry = theirs.geometry();
        let begin = geometry.start(geometry.locate(end).segment).max(end.minus(WITNESS_BYTES)).max(Lsn::FIRST);
        let bytes = usize::try_from(end.since(begin)).unwrap_or(0);
        let (mut here, mut there) = (vec![0; bytes], vec![0; bytes]);
        let copied = LogFiles::new(Arc::clone(to), &theirs).copy_bytes(begin, &mut there)?;
        let own = self.with(|managers, _| Ok(managers.log.copy_durable(begin, &mut here)?))?;
        let last = end.minus(8);
        let is_known = control.incarnations.list()[0].start <= last;
        let is_same_incarnation = !is_known || control.incarnations.at(last) == theirs.incarnations.at(last);
        if (copied, own) == (bytes, bytes)
            && here == there
            && is_same_incarnation
            && theirs.segment_bytes_max == control.segment_bytes_max
        {
            return Ok(());
        }
        if planted("libtp: a diverged log is added to a backup") {
            return Ok(());
        }
        Err(refused(to.as_ref(), format!("it ends at LSN {end}, and there the environment's log differs from the copied log: the environment was restored, or lost the end of its log. Nothing was changed; take a full backup to another directory")))
    }

    fn copy_settings(&self, to: &dyn Directory) -> Result<()> {
        let Some(text) = settings::file_bytes(&*self.env.platform.directory)? else { return Ok(()) };
        let copy = to.open(SETTINGS_NAME, OpenMode::Create)?;
        copy.write_at(&text, 0)?;
        Ok(copy.sync()?)
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let Seated { generation, session } = &*seat;
        if generation.check_process().is_err() {
            // The session belongs to the parent.
            std::mem::forget(seat);
            return;
        }
        if session.session().is_dead() || generation.managers.region.is_broken() {
            return;
        }
        // If this fails, the repair of the session ends the copy.
        let _ = generation.guarded_by(session, || {
            generation.managers.end_copy(session);
            generation.managers.locks.unlock_all(session.session(), session.locker());
            Ok(())
        });
        self.env.give_session(seat);
    }
}

/// Returns the numbers of the databases whose files were copied.
fn copied_numbers(to: &dyn Directory, manifest: &Manifest, environment: &[u8; 16]) -> Result<HashSet<FileId>> {
    let mut copies = HashSet::new();
    for file in &manifest.files {
        let name = file.name.strip_suffix(".tp").unwrap_or(&file.name);
        let found = match libtp_record::find_file(to, name, environment) {
            Err(libtp_record::Error::Io(libtp_io::Error::NotFound { .. })) => return Err(incomplete(to, &file.name)),
            found => found?,
        };
        copies.insert(found.info.id);
    }
    Ok(copies)
}

/// Converts an error of a backup's log. The remedy for damage differs from that for an environment's log.
pub(crate) fn of_backup(error: libtp_log::Error) -> Error {
    match error {
        libtp_log::Error::Corrupt { lsn, file, offset, what } => {
            let message = format!(
                "the log of the backup is damaged at LSN {lsn} ({file}, byte {offset}): {what}; use another backup"
            );
            Error::Corrupt(Damage::at_byte(&file, offset, &what, message))
        }
        other => other.into(),
    }
}

/// Reads every record of a copied log.
pub(crate) fn check_log(files: &LogFiles, from: Lsn, end: Lsn) -> Result<()> {
    let mut roll = files.roll(from, end);
    while let Some(record) = roll.next_record() {
        record.map_err(of_backup)?;
    }
    match roll.position() {
        reached if reached == end => Ok(()),
        reached => {
            Err(Error::Corrupt(format!("the copied log ends at LSN {reached}, and should end at {end}; take the backup again, or restore an earlier backup").into()))
        }
    }
}
