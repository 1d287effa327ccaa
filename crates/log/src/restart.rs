//! Restart: where the log ends, told from the files, and the new incarnation that begins there.
//!
//! PROTOCOLS L1, L2. The scan begins at the durable end of the control file, a place up to which the log was whole at
//! the last checkpoint; what lies before it is judged by whoever reads it, for a roll never stops silently.
//!
//! The first place that is no record is the end, *if* nobody can testify that the log was durable beyond it. Witnesses
//! are flush marks: each states how far the log was durable when its flush began. A flush mark lies at the end of its
//! flush and so at most two ring lengths beyond any byte it vouches for.
//!
//! A segment says that the next one was begun, and how far the log was durable then: that testifies, too, where the next segment
//! is missing with all its marks. A segment that is missing, or too short, is refused wherever it lies.
//!
//! Invariant: [`look`] changes nothing; all that can refuse comes before the first write of [`Look::begin`].
//!
//! If we die here: before the control file is written, nothing has changed. After it, nothing was appended yet, and the
//! next restart finds the same end and raises the incarnation once more.

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

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The position after the last good record: the first to be appended gets this LSN.
    pub end: Lsn,
    /// What stands there, half a sentence.
    pub what: &'static str,
    /// How many records lie between the control file's durable end and here.
    pub records_beyond: u64,
    /// Everything before this was synced without an error: the log says so itself, or the control file.
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
    // Listed once: in a directory with many databases that takes long.
    let present = files.present()?;
    let witness = later_witness(files, &present, end, 2 * ring)?;
    if let Some(mark) = witness.filter(|_| !planted("log: witnesses not heard")) {
        let what = format!("{}, and a flush mark at LSN {} says it was durable", bad.what(), mark);
        return Err(files.damage(end, &and_why_not_whole(files, control, what, mark)?));
    }
    if let Some((number, durable)) = noted_beyond(files, &present, end)? {
        let what =
            format!("{}, and {} says that the log was durable up to LSN {durable}", bad.what(), segment_name(number));
        return Err(files.damage(end, &and_why_not_whole(files, control, what, durable)?));
    }
    check_whole(files, &present, control, end)?;
    Ok(LogEnd { end, what: bad.what(), records_beyond, vouched: vouched.min(end) })
}

/// Refuses where a segment that the log needs, or one made ahead, is not whole. A segment gets its name when its header and its
/// length are on the disk, so no crash leaves another. What was logged there would be lost in silence.
fn check_whole(files: &LogFiles, present: &[u32], control: &Control, end: Lsn) -> Result<()> {
    let geometry = files.geometry();
    let last = geometry.locate(end).segment;
    let needed = geometry.locate(control.oldest.min(end)).segment..=last;
    let made_ahead = present.iter().copied().filter(|&number| number > last);
    for number in needed.chain(made_ahead) {
        if number == last && may_be_made(files, control, end)? {
            continue;
        }
        if let Some(why) = files.why_not_whole(number)? {
            return Err(files.damage(geometry.start(number).max(control.oldest), &why));
        }
    }
    Ok(())
}

/// The sentence `what`, and which file is the reason, if one that the log needs up to `durable` is not whole.
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

/// Looks for a segment that says that the log was durable beyond `bad`: its number, and up to where. The note about the segment of
/// `bad` is in the one before.
fn noted_beyond(files: &LogFiles, present: &[u32], bad: Lsn) -> Result<Option<(u32, Lsn)>> {
    let first = files.geometry().locate(bad).segment.saturating_sub(1);
    for number in present.iter().copied().filter(|&number| number >= first) {
        if let Some(durable) = files.noted_by(number)?.filter(|&durable| durable > bad) {
            return Ok(Some((number, durable)));
        }
    }
    Ok(None)
}

/// Looks for a good flush mark beyond `bad` that says the log was durable beyond `bad`; returns where it lies.
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

/// What the flush mark at `lsn` states, if `place` begins with one.
pub(crate) fn mark_at(place: &[u8], lsn: Lsn, incarnation: u64) -> Option<Lsn> {
    let header = RecordHeader::plausible(place).ok()?;
    if header.kind() != KIND_FLUSH_MARK || header.body_bytes() != 8 {
        return None;
    }
    verify(place, lsn, incarnation).ok()?;
    let body = place.get(crate::RECORD_HEADER_BYTES..MARK_BYTES)?;
    Some(Lsn::new(u64::from_le_bytes(body.try_into().expect("a mark's body has eight bytes"))))
}

/// As `LogFiles::copy_out`, whatever the headers say, and zeros where a file is cut off: a witness in a file with a
/// damaged header is a witness. Ends where the files end. `present` has the numbers of the segments that are there.
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
            // A segment may be missing in the middle; one after it may still testify.
            None if present.last().is_some_and(|&last| last > place.segment) => {}
            None => break,
        }
        done += want;
    }
    Ok(done)
}

/// Raises the incarnation: from `end` on, records are sealed with a number no earlier life has used. The control file
/// is synced before this returns, and so before the first append (L1).
///
/// # Errors
/// [`Error::Full`], [`Error::Io`], [`Error::Failed`], [`Error::Unusable`] from writing the control file; `control` is then as it was.
pub fn begin_incarnation(file: &ControlFile, control: &mut Control, end: Lsn) -> Result<()> {
    let mut next = control.clone();
    next.incarnations.begin(end)?;
    // The restart has synced the log up to here. Where no note says that the last segment was begun, nothing else states this end.
    next.durable_end = next.durable_end.max(end);
    next.clean = false;
    next.begun = true;
    // What memory had that outlives the system is in the files by now, or `lost` says that it is not.
    next.rio = false;
    next.relaxed = false;
    if planted("log: incarnation not raised") {
        return Ok(());
    }
    // Into both slots: if one is damaged later, the other must know this incarnation too, or all its records would pass
    // for a torn tail.
    file.write(&next)?;
    if !planted("log: incarnation in one slot only") {
        file.write(&next)?;
    }
    *control = next;
    Ok(())
}

/// So long a restart waits for who is changing the control file.
const CHANGING_PATIENCE: Duration = Duration::from_secs(10);

/// What a restart found and began.
#[derive(Clone, Debug)]
pub struct Restarted {
    /// The control file as it now is, with the new incarnation.
    pub control: Control,
    /// Where the log ends and the new incarnation begins.
    pub end: LogEnd,
}

impl Restarted {
    /// The same for a log whose control file the caller has just made, behind the door that it still holds: nobody can
    /// have appended anything, so the incarnation it was made with is the one that begins. The first segment is made, and the
    /// control file says so before anything is appended: from then on a first segment that is missing is damage.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`], [`Error::Failed`]: what is there is an environment in which nothing was done.
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

/// What a restart has found, before it has changed anything.
pub struct Look<'f> {
    file: &'f ControlFile,
    // From the read to the write: a checkpoint or a new database of the life that ends here would take the incarnation back
    // otherwise. A process that is stopped in there sees, when it goes on, that its life is over.
    _changing: Option<Changing<'f>>,
    files: LogFiles,
    control: Control,
    end: LogEnd,
}

/// Restart's part of the log, from the files alone, as far as it only looks: finds the end, and refuses a log that is not whole.
/// No byte of any file is changed. The caller is alone (F1).
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Unusable`], [`Error::Io`].
pub fn look<'f>(directory: &Arc<dyn Directory>, file: &'f ControlFile, settings: &Settings) -> Result<Look<'f>> {
    let _changing = file.changing_within(CHANGING_PATIENCE)?;
    let mut control = file.read()?;
    let files = LogFiles::new(Arc::clone(directory), &control);
    let end = find_end(&files, &control, settings).or_else(|error| {
        if planted("log: a restart that is refused has begun") {
            let end = control.durable_end;
            begin_incarnation(file, &mut control, end)?;
        }
        Err(error)
    })?;
    // What is to be replayed: found to be damaged in the middle of that, files would be changed already.
    let replayed_from = if control.checkpoint.is_none() { control.oldest } else { control.redo_point };
    let mut replayed = files.roll(replayed_from, control.durable_end);
    while let Some(record) = replayed.next_record() {
        record?;
    }
    drop(replayed);
    Ok(Look { file, _changing, files, control, end })
}

impl Look<'_> {
    /// Where the log ends.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Makes durable what was found, and begins a new incarnation at the end. `is_lost` says in the control file that commits
    /// are lost and nobody was told of it. The caller then makes a region and a [`LogManager`](crate::LogManager) on it.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`], [`Error::Failed`].
    pub fn begin(mut self, is_lost: bool) -> Result<Restarted> {
        self.files.discard_unfinished().or_else(|error| match error {
            // A read-only or full disk does not keep anyone from reading on; the leftover is harmless.
            Error::Io(_) | Error::Full { .. } => Ok(()),
            other => Err(other),
        })?;
        // What was found may have been written and never synced, or worse: after a sync that failed the system shows bytes
        // that are not on the disk and holds them for clean. From now on others will build on them, so they are written again.
        if !planted("log: found tail not written again") {
            self.files.write_again(self.end.vouched, self.end.end)?;
        }
        // The control file is about to say that there is one.
        prepared_end(&self.files, &self.control, self.end.end)?;
        self.control.lost |= is_lost;
        begin_incarnation(self.file, &mut self.control, self.end.end)?;
        Ok(Restarted { control: self.control, end: self.end })
    }
}

/// [`look`] and [`Look::begin`] at one go.
///
/// # Errors
/// As both.
pub fn restart(directory: &Arc<dyn Directory>, file: &ControlFile, settings: &Settings) -> Result<Restarted> {
    look(directory, file, settings)?.begin(false)
}
