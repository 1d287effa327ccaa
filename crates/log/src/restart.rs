//! Restart: finding the log's end in the files, and beginning a new incarnation there.
//!
//! PROTOCOLS L1, L2. The scan begins at the control file's durable end, up to which the log was whole at the last
//! checkpoint. The log before that place is checked when it is read: a roll never stops silently at damage.
//!
//! The first place without a valid record is the end, *if* no witness shows that the log was durable beyond it. The
//! witnesses are flush marks: each has the durable end at the time when its flush began. A flush mark is at the end of
//! its flush, and so at most two ring lengths beyond any byte whose durability it shows.
//!
//! A segment has a note that the next segment was begun, with the durable end at that time. This note is a witness even
//! if the next segment is missing with all its marks. If any needed segment is missing or too short, the log is
//! refused.
//!
//! Invariant: [`look`] changes nothing; every check of the log comes before the first write of [`Look::begin`]. In
//! between, the caller checks the records that it will redo and undo, so that damage is found before files are changed.
//! The caller's later steps can still fail (a full disk, a damaged page). Then the error says that recovery was begun.
//!
//! If we die before the control file is written, nothing has changed. If we die after that, nothing was appended yet,
//! and the next restart finds the same end and raises the incarnation again.

use std::sync::Arc;
use std::time::Duration;

use libtp_io::Directory;
use rio::{failpoint, planted};

use crate::record::{record_bytes, verify, RecordHeader};
use crate::segment::segment_name;
use crate::{
    may_be_made, prepared_end, Changing, Control, ControlFile, Error, LogFiles, Lsn, Result, Roll, Settings,
    KIND_FLUSH_MARK,
};

pub(crate) const MARK_BYTES: usize = record_bytes(8);

/// The end of the log, as a restart found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The position after the last valid record: the next appended record gets this LSN.
    pub end: Lsn,
    /// The reason why no valid record begins there, as half a sentence.
    pub what: &'static str,
    /// The number of records between the control file's durable end and `end`.
    pub records_beyond: u64,
    /// The LSN before which everything was synced without an error, according to a flush mark or the control file.
    pub vouched: Lsn,
}

/// Finds the log's end.
///
/// # Errors
/// [`Error::Corrupt`] with the LSN of a record that is damaged although the log was durable beyond it; [`Error::Io`].
pub fn find_end(files: &LogFiles, control: &Control, settings: &Settings) -> Result<LogEnd> {
    let mut roll = Roll::new(files, control.durable_end, Lsn::new(u64::MAX));
    let mut records_beyond = 0;
    let mut vouched = control.durable_end;
    let bad = loop {
        match roll.step()? {
            Ok((header, body)) => {
                records_beyond += 1;
                if header.kind() == KIND_FLUSH_MARK {
                    let stated =
                        roll.bytes(body).try_into().map_or(Lsn::NONE, |body| Lsn::new(u64::from_le_bytes(body)));
                    vouched = vouched.max(stated);
                }
            }
            Err(bad) => break bad,
        }
    };
    let end = roll.position();
    let ring = settings.ring_bytes_max.max(Settings::default().ring_bytes_max);
    // Listed once: listing a directory with many databases takes long.
    let present = files.present()?;
    let witness = later_witness(files, &present, end, 2 * ring)?;
    if let Some(mark) = witness.filter(|_| !planted("log: flush marks after a hole are ignored")) {
        let what =
            format!("{}, and a mark at LSN {} states that this part of the log had reached the disk", bad.what(), mark);
        return Err(files.damage(end, &and_why_not_whole(files, control, what, mark)?));
    }
    if let Some((number, durable)) = noted_beyond(files, &present, end)? {
        let what = format!(
            "{}, and {} states that the log had reached the disk up to LSN {durable}",
            bad.what(),
            segment_name(number)
        );
        return Err(files.damage(end, &and_why_not_whole(files, control, what, durable)?));
    }
    check_whole(files, &present, control, end)?;
    Ok(LogEnd { end, what: bad.what(), records_beyond, vouched: vouched.min(end) })
}

/// Refuses a log if a segment that it needs, or a segment made ahead, is not whole. A segment gets its name when its
/// header and its length are on the disk, so no crash leaves a partial segment. If the restart accepted a partial
/// segment, the log in the missing part would be lost silently.
fn check_whole(files: &LogFiles, present: &[u32], control: &Control, end: Lsn) -> Result<()> {
    let geometry = files.geometry();
    let last = geometry.locate(end).segment;
    let needed = geometry.locate(control.oldest.min(end)).segment..=last;
    let made_ahead = present.iter().copied().filter(|&number| number > last);
    for number in needed.chain(made_ahead) {
        if number == last && may_be_made(files, control, end)? {
            continue;
        }
        let Some(why) = files.why_not_whole(number)? else { continue };
        let start = geometry.start(number);
        if number <= last {
            return Err(files.damage(start.max(control.oldest), &why));
        }
        // A process that got an answer to a commit in this segment had first noted the segment in the previous segment.
        return Err(Error::Unusable {
            file: files.directory().describe(&segment_name(number)),
            what: format!("{why}. The log ends at LSN {end}, and this file begins at LSN {start}: no commit that was answered as durable is in it. Move this file away, and open the environment again"),
        });
    }
    Ok(())
}

/// Returns the sentence `what`. If a file that the log needs up to `durable` is not whole, adds the file as the reason.
fn and_why_not_whole(files: &LogFiles, control: &Control, mut what: String, durable: Lsn) -> Result<String> {
    let geometry = files.geometry();
    for number in geometry.locate(control.oldest).segment..=geometry.locate(durable.minus(8)).segment {
        if let Some(why) = files.why_not_whole(number)? {
            what = format!("{what}: {why}");
            break;
        }
    }
    Ok(what)
}

/// Searches for a segment whose note has a durable end beyond `bad`. Returns its number and that durable end. The note
/// about the segment of `bad` is in the previous segment.
fn noted_beyond(files: &LogFiles, present: &[u32], bad: Lsn) -> Result<Option<(u32, Lsn)>> {
    let first = files.geometry().locate(bad).segment.saturating_sub(1);
    for number in present.iter().copied().filter(|&number| number >= first) {
        if let Some(durable) = files.noted_by(number)?.filter(|&durable| durable > bad) {
            return Ok(Some((number, durable)));
        }
    }
    Ok(None)
}

/// Searches for a valid flush mark beyond `bad` whose durable end is beyond `bad`. Returns the mark's LSN.
fn later_witness(files: &LogFiles, present: &[u32], bad: Lsn, bytes: u64) -> Result<Option<Lsn>> {
    let last = bad.plus(bytes);
    let mut at = bad.plus(8);
    let mut piece = vec![0; 1 << 20];
    while at < last {
        let read = copy_out_unchecked(files, present, at, &mut piece)?;
        if read < MARK_BYTES {
            return Ok(None);
        }
        let mut into = 0;
        while into + MARK_BYTES <= read {
            let lsn = at.plus(into as u64);
            let place = &piece[into..into + MARK_BYTES];
            if let Some(durable) = mark_at(place, lsn, files.incarnations().at(lsn)) {
                if durable > bad {
                    return Ok(Some(lsn));
                }
            }
            into += 8;
        }
        at = at.plus(into as u64);
    }
    Ok(None)
}

/// Returns the durable end that the flush mark at `lsn` states, if `place` begins with a flush mark.
pub(crate) fn mark_at(place: &[u8], lsn: Lsn, incarnation: u64) -> Option<Lsn> {
    let header = RecordHeader::plausible(place).ok()?;
    if header.kind() != KIND_FLUSH_MARK || header.body_bytes() != 8 {
        return None;
    }
    verify(place, lsn, incarnation).ok()?;
    let body = place.get(crate::RECORD_HEADER_BYTES..MARK_BYTES)?;
    Some(Lsn::new(u64::from_le_bytes(body.try_into().expect("a mark's body has eight bytes"))))
}

/// As `LogFiles::copy_out`, but also reads files with damaged headers, since they may have witnesses, and returns zeros
/// in place of the missing end of a file. Ends at the end of the files. `present` has the numbers of the existing
/// segments.
pub(crate) fn copy_out_unchecked(files: &LogFiles, present: &[u32], from: Lsn, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let place = files.geometry().locate(from.plus(done as u64));
        let want = usize::try_from(place.left).unwrap_or(usize::MAX).min(buffer.len() - done);
        let piece = &mut buffer[done..done + want];
        piece.fill(0);
        match files.segment_unchecked(place.segment)? {
            Some(file) => {
                file.read_at(piece, place.offset)?;
            }
            // A segment may be missing in the middle; a later segment may still have a witness.
            None if present.last().is_some_and(|&last| last > place.segment) => {}
            None => break,
        }
        done += want;
    }
    Ok(done)
}

/// Raises the incarnation: from `end` on, records are sealed with a number that no earlier incarnation has used. The
/// control file is synced before this returns, and so before the first append (L1).
///
/// # Errors
/// [`Error::Full`], [`Error::Io`], [`Error::Failed`], [`Error::Unusable`] from writing the control file; `control` is
/// then unchanged.
pub fn begin_incarnation(file: &ControlFile, control: &mut Control, end: Lsn) -> Result<()> {
    let mut next = control.clone();
    next.incarnations.begin(end)?;
    // The restart has synced the log up to here. If no note states that the last segment was begun, only this word
    // states the end.
    next.durable_end = next.durable_end.max(end);
    next.clean = false;
    next.begun = true;
    // Commits that were only in memory are in the files now, or `lost` notes that they are lost.
    next.rio = false;
    next.relaxed = false;
    if planted("log: a restart does not raise the incarnation") {
        return Ok(());
    }
    // Written into both slots: if one slot is damaged later, the other slot must have this incarnation too. Otherwise
    // all records of this incarnation would be taken for a torn tail.
    file.write(&next)?;
    if !planted("log: a new incarnation is written to only one slot") {
        file.write(&next)?;
    }
    *control = next;
    Ok(())
}

/// The longest wait of a restart for a process that is changing the control file.
const CHANGING_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a restart: the log's end, and the new incarnation.
#[derive(Clone, Debug)]
pub struct Restarted {
    /// The present contents of the control file, with the new incarnation.
    pub control: Control,
    /// The end of the log, where the new incarnation begins.
    pub end: LogEnd,
}

impl Restarted {
    /// Begins a log whose control file the caller has just made. The caller still excludes other processes, so no
    /// record was appended, and the log begins with the incarnation of its control file. Makes the first segment, and
    /// notes it in the control file before any append: from then on a missing first segment is damage.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`], [`Error::Failed`]: the files are then an environment with no change in it.
    pub fn of_new_log(directory: &Arc<dyn Directory>, file: &ControlFile) -> Result<Restarted> {
        let mut control = file.read()?;
        let end = control.durable_end;
        prepared_end(&LogFiles::new(Arc::clone(directory), &control), &control, end)?;
        failpoint("control: log begun, not noted");
        control.begun = true;
        file.write(&control)?;
        let end = LogEnd { end, what: "nothing was ever written", records_beyond: 0, vouched: end };
        Ok(Restarted { control, end })
    }
}

/// The findings of a restart, before it has changed anything.
pub struct Look<'f> {
    file: &'f ControlFile,
    // This right is held from reading the control file to writing it: otherwise a checkpoint or a new database of the
    // old incarnation would overwrite the new incarnation. A process that is stopped during its own change finds, when
    // it continues, that its incarnation is over.
    _changing: Option<Changing<'f>>,
    files: LogFiles,
    control: Control,
    end: LogEnd,
}

/// Finds the log's end from the files, and refuses a log if one of its files is missing. This is the part of a restart
/// that changes no byte of any file. No other process is attached (F1). The caller reads the log that it will replay
/// before [`Look::begin`].
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Unusable`], [`Error::Io`].
pub fn look<'f>(directory: &Arc<dyn Directory>, file: &'f ControlFile, settings: &Settings) -> Result<Look<'f>> {
    let _changing = file.changing_within(CHANGING_TIMEOUT)?;
    let mut control = file.read()?;
    let files = LogFiles::new(Arc::clone(directory), &control);
    let end = find_end(&files, &control, settings).or_else(|error| {
        if planted("log: a refused restart begins an incarnation") {
            let end = control.durable_end;
            begin_incarnation(file, &mut control, end)?;
        }
        Err(error)
    })?;
    Ok(Look { file, _changing, files, control, end })
}

impl Look<'_> {
    /// Returns the end of the log.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Returns the log's files.
    pub fn files(&self) -> &LogFiles {
        &self.files
    }

    /// Returns the contents of the control file.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Makes the found log durable, and begins a new incarnation at its end. `is_lost` notes in the control file that
    /// commits are lost and no program has been informed. The caller then makes a region and a
    /// [`LogManager`](crate::LogManager) on it.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`], [`Error::Failed`].
    pub fn begin(mut self, is_lost: bool) -> Result<Restarted> {
        self.files.discard_unfinished().or_else(|error| match error {
            // On a read-only or full disk, readers may continue; the unfinished file is harmless.
            Error::Io(_) | Error::Full { .. } => Ok(()),
            other => Err(other),
        })?;
        // The found tail may have been written and never synced. After a failed sync, the system may even show bytes as
        // clean that are not on the disk. New records will build on this tail, so it is written again.
        if !planted("log: a restart does not write the found tail again") {
            self.files.write_again(self.end.vouched, self.end.end)?;
        }
        // The control file will state that a segment exists at the end (`begun`).
        prepared_end(&self.files, &self.control, self.end.end)?;
        self.control.lost |= is_lost;
        begin_incarnation(self.file, &mut self.control, self.end.end)?;
        Ok(Restarted { control: self.control, end: self.end })
    }
}

/// Does [`look`], reads each record from the last checkpoint on, then does [`Look::begin`].
///
/// # Errors
/// As [`look`] and [`Look::begin`].
pub fn restart(directory: &Arc<dyn Directory>, file: &ControlFile, settings: &Settings) -> Result<Restarted> {
    let looked = look(directory, file, settings)?;
    let control = &looked.control;
    let replayed_from = if control.checkpoint.is_none() { control.oldest } else { control.redo_point };
    let mut replayed = looked.files.roll(replayed_from, looked.end.end);
    while let Some(record) = replayed.next_record() {
        record?;
    }
    drop(replayed);
    looked.begin(false)
}
