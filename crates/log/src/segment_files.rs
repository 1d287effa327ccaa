//! The log's files as one process has them open: finding, checking, preparing and recycling them.
//!
//! Descriptors are per process and never shared. The header of a file is checked when the file is opened: after
//! recycling, the same inode is another segment (PROTOCOLS F3). [`LogManager`](crate::LogManager) decides *when* a
//! segment is made or removed, and only one session at a time does so.
//!
//! If we die here: a segment in preparation has the name `log.preparing`, which no reader uses. The next session that
//! prepares a segment removes this file. A renamed file is complete.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_io::{is_foreign, Directory, File, Identity, OpenMode, Operation};
use rio::{failpoint, planted};

use crate::segment::{
    check_header, header_block, note, noted, segment_name, segment_number, WrongHeader, NAME_PREPARING, NOTE_AT,
};
use crate::{Control, Error, Geometry, Incarnations, Lsn, Result, SEGMENT_HEADER_BYTES};

const OPEN_MAX: usize = 16;
const ZEROS_BYTES: usize = 1 << 20;
/// Disk space is allocated and freed in multiples of this number of bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// A segment's file, or the reason why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    Good(Arc<dyn File>),
    Missing,
    Wrong(WrongHeader),
}

/// An open segment, and the identity of its file when it was opened.
#[derive(Debug)]
struct OpenSegment {
    number: u32,
    file: Arc<dyn File>,
    identity: Identity,
}

/// The segment files of one log. They need no region, so a restart reads the log through this type.
#[derive(Debug)]
pub struct LogFiles {
    directory: Arc<dyn Directory>,
    geometry: Geometry,
    environment: [u8; 16],
    /// The directory's identity when it was opened.
    home: Option<Identity>,
    incarnations: Incarnations,
    /// Recently used files; the most recently used file is the last.
    open: Mutex<Vec<OpenSegment>>,
    /// A descriptor that is closed when a segment needs a descriptor and the process can open no more.
    spare: Mutex<Option<OwnedFd>>,
    /// The segment of this process's last flush, or 0.
    written: AtomicU32,
}

impl LogFiles {
    /// Returns the log files of the environment whose control file has the contents `control`. Opens no file yet.
    pub fn new(directory: Arc<dyn Directory>, control: &Control) -> LogFiles {
        LogFiles {
            // If the identity is unknown and the program has closed the directory's descriptor, the next call on the
            // directory fails.
            home: directory.identity().ok().flatten(),
            directory,
            geometry: control.geometry(),
            environment: control.environment_id,
            incarnations: control.incarnations.clone(),
            open: Mutex::default(),
            spare: Mutex::default(),
            written: AtomicU32::new(0),
        }
    }

    /// Returns the arithmetic of the files' sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns which incarnation sealed which part of the log.
    pub fn incarnations(&self) -> &Incarnations {
        &self.incarnations
    }

    /// Returns the directory of the files.
    pub(crate) fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    fn opened(&self) -> MutexGuard<'_, Vec<OpenSegment>> {
        // A panic between push and remove leaves the list whole: it is only a cache.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a spare descriptor. It is closed when a flush must open a segment and no descriptor is free.
    pub(crate) fn keep_spare(&self) {
        *self.spare() = self.directory.spare_descriptor();
    }

    /// Opens segment `number`, or returns it if it is open.
    pub(crate) fn segment(&self, number: u32) -> Result<Opened> {
        let mut open = self.opened();
        if let Some(at) = open.iter().position(|known| known.number == number) {
            let entry = open.remove(at);
            let file = Arc::clone(&entry.file);
            open.push(entry);
            return Ok(Opened::Good(file));
        }
        let Some(file) = self.open_file(&mut open, number)? else {
            return Ok(Opened::Missing);
        };
        let mut block = vec![0; 4096];
        let read = file.read_at(&mut block, 0)?;
        if let Err(wrong) = check_header(&block[..read], &self.geometry, number, self.environment) {
            return Ok(Opened::Wrong(wrong));
        }
        let identity = file.identity()?;
        if open.len() == OPEN_MAX {
            open.remove(0);
        }
        open.push(OpenSegment { number, file: Arc::clone(&file), identity });
        Ok(Opened::Good(file))
    }

    /// Returns segment `number` for a flush, after a check of its descriptor. If this process last flushed into another
    /// segment, checks all descriptors first.
    pub(crate) fn segment_to_write(&self, number: u32) -> Result<Opened> {
        // Relaxed: the number only decides whether all descriptors are checked.
        if self.written.swap(number, Ordering::Relaxed) != number {
            self.forget_foreign();
        } else if !planted("log: descriptors are checked only when a flush begins a new segment") {
            self.forget_foreign_of(|known| known == number);
        }
        self.segment(number)
    }

    /// Checks that the bytes which were just synced through `file` are in the segment `number`: the segment has its
    /// name, and the descriptor is the segment's.
    ///
    /// # Errors
    /// [`Error::Io`], not final, if the program has closed the descriptor of the segment or of the directory.
    /// [`Error::Unusable`] if another file or no file has the name: the synced bytes, and earlier bytes, are in a file
    /// that no restart finds.
    pub(crate) fn check_in_place(&self, number: u32, file: &dyn File) -> Result<()> {
        self.check_home(Operation::Sync)?;
        let name = segment_name(number);
        let (own, named) = (file.identity()?, self.directory.identity_of(&name)?);
        if named == Some(own) || planted("log: a flush into a segment file that was moved away succeeds") {
            return Ok(());
        }
        let is_known = self.opened().iter().any(|known| known.number == number && known.identity == own);
        let place = self.directory.describe(&name);
        if !is_known {
            return Err(libtp_io::Error::closed_descriptor(Operation::Sync, place).into());
        }
        let what = "it was moved away, removed or replaced while the environment was in use, and the log in it is needed; put that file back before the environment is opened again";
        Err(Error::Unusable { file: place, what: what.into() })
    }

    /// Checks that the directory's descriptor still belongs to the directory. The program may have closed the
    /// descriptor and opened another directory, maybe the directory of another environment.
    ///
    /// # Errors
    /// [`Error::Io`], not final.
    fn check_home(&self, operation: Operation) -> Result<()> {
        if self.home.is_none() || self.directory.identity()? == self.home {
            return Ok(());
        }
        Err(libtp_io::Error::closed_descriptor(operation, self.directory.describe("")).into())
    }

    /// Forgets each descriptor that does not belong to its segment any more: the program has closed the descriptor, and
    /// the descriptor's number may now belong to a file of the program. To close that number again would close the
    /// program's file.
    pub(crate) fn forget_foreign(&self) {
        self.forget_foreign_of(|_| true);
    }

    /// As [`LogFiles::forget_foreign`], for the segments for which `is_asked` returns true.
    fn forget_foreign_of(&self, is_asked: impl Fn(u32) -> bool) {
        let is_foreign = |known: &OpenSegment| is_asked(known.number) && is_foreign(&*known.file, &known.identity);
        let mut open = self.opened();
        let (foreign, own): (Vec<_>, Vec<_>) = std::mem::take(&mut *open).into_iter().partition(is_foreign);
        *open = own;
        for known in foreign {
            tracing::warn!(
                segment = known.number,
                "the program has closed a descriptor of the log: the file is opened again"
            );
            std::mem::forget(known.file);
        }
    }

    /// Opens segment `number` without a check of its header, for the search for marks beyond a damaged place.
    pub(crate) fn segment_unchecked(&self, number: u32) -> Result<Option<Arc<dyn File>>> {
        self.open_file(&mut self.opened(), number)
    }

    fn open_file(&self, open: &mut Vec<OpenSegment>, number: u32) -> Result<Option<Arc<dyn File>>> {
        let name = segment_name(number);
        let opened = match self.open_in_place(open, &name, OpenMode::Existing) {
            // A read-only copy can still be read.
            Err(libtp_io::Error::ReadOnly { .. } | libtp_io::Error::Denied { .. }) => {
                self.open_in_place(open, &name, OpenMode::ReadOnly)
            }
            other => other,
        };
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(libtp_io::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file `name`. At the process's limit of descriptors, closes open segments or the spare descriptor to
    /// make room, so the process continues with the descriptors that it has.
    fn open_in_place(
        &self,
        open: &mut Vec<OpenSegment>,
        name: &str,
        mode: OpenMode,
    ) -> libtp_io::Result<Arc<dyn File>> {
        loop {
            match self.directory.open(name, mode) {
                Err(error) if error.is_out_of_descriptors() && !open.is_empty() => drop(open.remove(0)),
                Err(error) if error.is_out_of_descriptors() && self.spare().take().is_some() => {}
                answer => return answer,
            }
        }
    }

    /// Closes this process's descriptor of segment `number`.
    pub(crate) fn forget(&self, number: u32) {
        self.opened().retain(|known| known.number != number);
    }

    /// Copies the log's bytes from `from` on into `buffer` and returns their number. The number is less than the length
    /// of `buffer` if a file ends, is missing or has a wrong header.
    pub(crate) fn copy_out(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let place = self.geometry.locate(from.plus(done as u64));
            let Opened::Good(file) = self.segment(place.segment)? else { break };
            let want = usize::try_from(place.left).unwrap_or(usize::MAX).min(buffer.len() - done);
            let read = file.read_at(&mut buffer[done..done + want], place.offset)?;
            done += read;
            if read < want {
                break;
            }
        }
        Ok(done)
    }

    /// Returns the numbers of the existing segments, sorted.
    pub(crate) fn present(&self) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        self.directory.visit_names(&mut |name| numbers.extend(segment_number(name)))?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the error for damage at `lsn`. The error also states a wrong header of the segment at `lsn` or of the
    /// next segment, because a record may reach into the next segment.
    pub(crate) fn damage(&self, lsn: Lsn, what: &str) -> Error {
        let place = self.geometry.locate(lsn);
        let mut what = what.to_string();
        for number in [place.segment, place.segment + 1] {
            let wrong = match self.segment(number) {
                Ok(Opened::Wrong(wrong)) => Some(wrong).filter(|wrong| !what.contains(&wrong.0)),
                _ => None,
            };
            if let Some(wrong) = wrong {
                what.push_str(&format!("; of {}, {}", segment_name(number), wrong.0));
            }
        }
        let file = self.directory.describe(&segment_name(place.segment));
        Error::Corrupt { lsn, file, offset: place.offset, what }
    }

    /// For each segment that begins in `from .. to`, writes a durable note into the segment before it. The note states
    /// that the new segment has log, and that the log is durable up to `to`, where a record ends. The caller calls this
    /// when both are true, and before any waiter gets an answer (PROTOCOLS L2). Returns the number of notes.
    pub(crate) fn note_begun(&self, from: Lsn, to: Lsn) -> Result<u64> {
        let first = self.geometry.locate(from);
        let begun = first.segment.max(2) + u32::from(first.segment > 1 && first.offset != SEGMENT_HEADER_BYTES);
        let mut notes = 0;
        for number in begun..=self.geometry.locate(to.minus(8)).segment {
            if planted("log: no note states that a new segment has log") {
                break;
            }
            // If the previous segment is missing, a restart reports that segment.
            let Opened::Good(file) = self.segment(number - 1)? else { continue };
            file.write_at(&note(number - 1, self.environment, to), NOTE_AT as u64)?;
            failpoint("log: new segment noted, not synced");
            file.sync()?;
            notes += 1;
        }
        Ok(notes)
    }

    /// Returns the durable end of the log when the segment after `number` got its first log, as the note in segment
    /// `number` states it.
    pub(crate) fn noted_by(&self, number: u32) -> Result<Option<Lsn>> {
        let Opened::Good(file) = self.segment(number)? else { return Ok(None) };
        let mut block = vec![0; 4096];
        let read = file.read_at(&mut block, 0)?;
        let durable = noted(&block[..read], number, self.environment);
        Ok(durable.filter(|&durable| durable > self.geometry.end(number)))
    }

    /// Returns the reason why the file of segment `number` is not a whole segment, as half a sentence; `None` if the
    /// segment is whole.
    pub(crate) fn why_not_whole(&self, number: u32) -> Result<Option<String>> {
        let name = segment_name(number);
        let why = match self.segment(number)? {
            Opened::Missing => "is missing".into(),
            Opened::Wrong(wrong) => format!("cannot be used: {}", wrong.0),
            Opened::Good(file) => match (file.len()?, self.geometry.file_bytes(number)) {
                (found, whole) if found < whole => format!("has {found} bytes, and must have {whole}"),
                _ => return Ok(None),
            },
        };
        Ok(Some(format!("the file {name} {why}")))
    }

    /// Reads the bytes of `from .. to`, writes the same bytes again, and syncs them.
    pub(crate) fn write_again(&self, from: Lsn, to: Lsn) -> Result<()> {
        let mut at = from;
        while at < to {
            let place = self.geometry.locate(at);
            if let Opened::Good(file) = self.segment(place.segment)? {
                let mut bytes = vec![0; usize::try_from(place.left.min(to.since(at))).unwrap_or(usize::MAX)];
                let read = file.read_at(&mut bytes, place.offset)?;
                file.write_at(&bytes[..read], place.offset)?;
                file.sync()?;
            }
            at = at.plus(place.left);
        }
        Ok(())
    }

    /// Makes segment `number`: zeros (if they make the log's syncs cheaper), header, sync, and only then the name. The
    /// caller syncs the directory.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`]: no unfinished file is left.
    pub(crate) fn prepare_new(&self, number: u32, incarnation: u64) -> Result<()> {
        self.prepare_with(number, incarnation, &[])
    }

    /// As [`LogFiles::prepare_new`], but the segment's bytes of the log begin with `contents`.
    pub(crate) fn prepare_with(&self, number: u32, incarnation: u64, contents: &[u8]) -> Result<()> {
        self.prepare_part(number, incarnation, contents, self.geometry.file_bytes(number))
    }

    /// As [`LogFiles::prepare_with`], but only the first `bytes` of the file have blocks. The file has its whole
    /// length.
    fn prepare_part(&self, number: u32, incarnation: u64, contents: &[u8], bytes: u64) -> Result<()> {
        self.discard_unfinished()?;
        let made = self.open_in_place(&mut self.opened(), NAME_PREPARING, OpenMode::CreateNew).map_err(no_room)?;
        failpoint("log: segment made, without blocks");
        let whole = self.geometry.file_bytes(number);
        let filled = made.allocate(0..bytes).map_err(no_room).and_then(|()| {
            if bytes < whole {
                made.set_len(whole).map_err(no_room)?;
            }
            if !contents.is_empty() {
                made.write_at(contents, SEGMENT_HEADER_BYTES).map_err(no_room)?;
            }
            if made.notes_first_writes() {
                fill_with_zeros(&*made, SEGMENT_HEADER_BYTES + contents.len() as u64..bytes)?;
            }
            failpoint("log: segment full of zeros");
            self.finish(&*made, number, incarnation)
        });
        self.discard_on_error(filled)
    }

    /// Gives segment `number` blocks for the bytes `range` of its file, which already has blocks for all bytes before
    /// the range. Makes a missing file. The caller syncs the directory.
    ///
    /// # Errors
    /// As [`LogFiles::prepare_new`]; the file is unchanged. [`Error::Failed`] when an existing file could not be
    /// synced.
    pub(crate) fn extend(&self, number: u32, incarnation: u64, range: Range<u64>) -> Result<()> {
        self.check_home(Operation::Open)?;
        let Opened::Good(file) = self.segment(number)? else {
            return self.prepare_part(number, incarnation, &[], range.end);
        };
        file.allocate(range.clone()).map_err(no_room)?;
        // A file without log was finished by a preparer that then died, or was recycled: its blocks were written
        // before.
        if range.start > SEGMENT_HEADER_BYTES && file.notes_first_writes() {
            fill_with_zeros(&*file, range)?;
        }
        // The file may have log that is not synced: a failed sync is as final as a failed sync of a flush (PROTOCOLS
        // L3).
        file.sync().map_err(|error| match error.is_limit_of_process() {
            true => error.into(),
            false => Error::Failed { cause: error.to_string() },
        })
    }

    /// Allocates blocks for the file of segment `number`, whose first `from` bytes already have blocks. Allocates
    /// blocks for the whole file or, if the disk has too few, for at most its first `enough` bytes. Returns the offset
    /// up to which the file has blocks.
    pub(crate) fn blocks_end(&self, number: u32, from: u64, enough: u64) -> Result<u64> {
        let (whole, mut end) = (self.geometry.file_bytes(number), from.next_multiple_of(BLOCK_BYTES));
        let Opened::Good(file) = self.segment(number)? else { return Ok(end) };
        let mut wanted = whole;
        while end < wanted {
            match file.allocate(end..wanted) {
                Ok(()) if wanted == whole => return Ok(whole),
                Ok(()) => {
                    end = wanted;
                    wanted = enough.next_multiple_of(BLOCK_BYTES).min(whole);
                }
                Err(libtp_io::Error::Full { .. }) if wanted - end == BLOCK_BYTES => break,
                // Try half as many blocks.
                Err(libtp_io::Error::Full { .. }) => {
                    let most = enough.next_multiple_of(BLOCK_BYTES).min(wanted);
                    wanted = most.min(end + ((wanted - end) / 2).next_multiple_of(BLOCK_BYTES));
                }
                // A file that may not be written to needs no more blocks.
                Err(libtp_io::Error::ReadOnly { .. } | libtp_io::Error::Denied { .. }) => return Ok(whole),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(end)
    }

    /// Frees the blocks of segment `number` before the byte `end` of its file. The log in them is never read again.
    pub(crate) fn free_blocks(&self, number: u32, end: u64) -> Result<()> {
        let end = end - end % BLOCK_BYTES;
        if let Opened::Good(file) = self.segment(number)? {
            file.free_blocks(SEGMENT_HEADER_BYTES..end.max(SEGMENT_HEADER_BYTES))?;
        }
        Ok(())
    }

    /// Makes segment `number` from the file of segment `old`, which has the same size and is no longer needed.
    ///
    /// # Errors
    /// As [`LogFiles::prepare_new`]; the old file is then removed.
    pub(crate) fn prepare_recycled(&self, old: u32, number: u32, incarnation: u64) -> Result<()> {
        self.check_home(Operation::Open)?;
        self.discard_unfinished()?;
        self.forget(old);
        self.directory.rename(&segment_name(old), NAME_PREPARING).map_err(no_room)?;
        failpoint("log: old segment renamed");
        let opened = self.open_in_place(&mut self.opened(), NAME_PREPARING, OpenMode::Existing);
        let filled = match opened {
            Ok(file) => {
                // Blocks that were freed on a full disk are missing.
                let whole = file.allocate(0..self.geometry.file_bytes(number)).map_err(no_room);
                whole.and_then(|()| self.finish(&*file, number, incarnation))
            }
            Err(error) => Err(error.into()),
        };
        self.discard_on_error(filled)
    }

    fn finish(&self, file: &dyn File, number: u32, incarnation: u64) -> Result<()> {
        let block = header_block(&self.geometry, number, incarnation, self.environment);
        file.write_at(&block, 0).map_err(no_room)?;
        failpoint("log: segment header written");
        if !planted("log: a new segment is not synced") {
            file.sync().map_err(no_room)?;
        }
        failpoint("log: segment synced, without its name");
        self.forget(number);
        failpoint("log: segment about to be named");
        self.directory.rename(NAME_PREPARING, &segment_name(number)).map_err(no_room)
    }

    fn discard_on_error(&self, filled: Result<()>) -> Result<()> {
        if filled.is_err() {
            // The first error is reported; the next session to prepare a segment discards a leftover.
            let _ = self.discard_unfinished();
        }
        filled
    }

    /// Removes the unfinished file of a dead preparer.
    pub(crate) fn discard_unfinished(&self) -> Result<()> {
        match self.directory.remove(NAME_PREPARING) {
            Ok(()) | Err(libtp_io::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes segment `number`.
    pub(crate) fn remove(&self, number: u32) -> Result<()> {
        self.forget(number);
        match self.directory.remove(&segment_name(number)) {
            Ok(()) | Err(libtp_io::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn fill_with_zeros(file: &dyn File, range: Range<u64>) -> Result<()> {
    let zeros = vec![0; usize::try_from(range.end).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES)];
    let mut at = range.start;
    while at < range.end {
        let piece = (range.end - at).min(zeros.len() as u64);
        let piece = usize::try_from(piece).expect("a piece is at most as long as a buffer in memory");
        file.write_at(&zeros[..piece], at).map_err(no_room)?;
        at += piece as u64;
    }
    Ok(())
}

fn no_room(error: libtp_io::Error) -> Error {
    Error::from_disk("the log's next segment file", error)
}

#[cfg(test)]
mod tests {
    use libtp_sim::SimDisk;

    use super::*;
    use crate::Settings;

    #[test]
    fn a_file_of_a_disk_that_does_not_answer_is_kept_and_closed_once() {
        let disk = SimDisk::new(1);
        let process = disk.process_view();
        let control = Control::new([7; 16], &Settings::default());
        let files = LogFiles::new(process.directory(), &control);
        files.prepare_new(1, 1).unwrap();
        assert!(matches!(files.segment(1).unwrap(), Opened::Good(_)));
        process.kill();
        let file = Arc::downgrade(&files.opened()[0].file);
        files.forget_foreign();
        assert_eq!(files.opened().len(), 1);
        drop(files);
        assert!(file.upgrade().is_none(), "the file was never closed");
    }
}
