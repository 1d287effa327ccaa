//! Checks that a region's log and the log files are of one history, and repairs the files if they are not (PROTOCOLS
//! F1).
//!
//! They are of one history if two conditions hold. First, the files have valid records from the control file's durable
//! end up to the region's durable end. Second, the files and the ring have the same bytes just below the region's
//! durable end. The second check notices another history of equal length. The first check notices an old copy of a file
//! before the region's durable end.
//!
//! If we die here: [`overwrite_from_ring`] writes the log before the control file, and no restart uses the new log
//! until the control file is written.

use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Checked, Region, RootSlot, WriteBack};

use crate::in_order::{good_records, ring_of_any_incarnation, Rescued, WITNESS_BYTES};
use crate::lasting::lasting_of;
use crate::ring::Ring;
use crate::tail::LogHeader;
use crate::{Control, ControlFile, Error, LogFiles, Lsn, Result, Roll};

/// Checks that the files hold the log up to the region's durable end.
pub(crate) fn agree(header: &LogHeader, ring: &Ring, files: &LogFiles, control: &Control) -> Result<()> {
    let durable = header.durable.load();
    if durable < control.durable_end {
        return Err(Error::Disagree { region: durable, files: control.durable_end });
    }
    reach_to(durable, header, ring, files, control)
}

/// Checks that the files hold the whole log of a region that was made for another incarnation of this environment's
/// log, or for other files at this path. A region whose log header is damaged has no log to compare. But a region that
/// outlives the system may have log even then, because a crash may leave old values in some words of its header.
///
/// # Errors
/// [`Error::Disagree`] if the region has, or may have, log that the files lack; [`Error::Io`].
pub fn all_in_files(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<()> {
    let Some((header, ring)) = ring_of_any_incarnation(region, control) else {
        return match lasting_of(region).write_back {
            WriteBack::None => Ok(()),
            _ => Err(Error::Disagree { region: stated_durable(region), files: control.durable_end }),
        };
    };
    let durable = header.durable.load();
    let beyond = good_records(&ring, durable, header.tail.load(), header.incarnation.get()).len();
    let end = durable.plus(beyond as u64);
    if end <= control.oldest {
        // The environment has logged more since the region was made, and its files no longer have the region's part of
        // the log.
        return Ok(());
    }
    reach_to(end, &header, &ring, &LogFiles::new(Arc::clone(directory), control), control)
}

/// Returns the durable end in the header, even if the rest of the header is not in order.
fn stated_durable(region: &Region) -> Lsn {
    let header = region.root::<LogHeader>(RootSlot::Log).and_then(|offset| region.try_at(offset));
    header.and_then(|header| header.durable.try_load()).unwrap_or(Lsn::NONE)
}

/// Checks that the files have valid records up to `end`, and the same bytes as the ring just below `end`.
pub(crate) fn reach_to(end: Lsn, header: &LogHeader, ring: &Ring, files: &LogFiles, control: &Control) -> Result<()> {
    if planted("log: memory and files are not compared") {
        return Ok(());
    }
    let reach = good_up_to(files, control.durable_end, end)?;
    if reach < end {
        return Err(Error::Disagree { region: end, files: reach });
    }
    let from = end.minus(WITNESS_BYTES).max(ring_begin(header)).max(control.oldest).min(end);
    let from = ring.held_from(from, end);
    match same_from(from, end, ring, files)? {
        same if same < end => Err(Error::Disagree { region: end, files: same }),
        _ => Ok(()),
    }
}

/// Returns the end of the valid records from `from` on. The log is valid up to `from`. Reads no farther than the record
/// that contains `end`.
pub(crate) fn good_up_to(files: &LogFiles, from: Lsn, end: Lsn) -> Result<Lsn> {
    let mut roll = Roll::new(files, from, end.max(from));
    while roll.position() < end && roll.step()?.is_ok() {}
    Ok(roll.position())
}

/// Returns the end of the bytes that are equal in the ring and the files.
fn same_from(from: Lsn, end: Lsn, ring: &Ring, files: &LogFiles) -> Result<Lsn> {
    let bytes = usize::try_from(end.since(from)).expect("a witness is short");
    let (mut in_ring, mut in_files) = (vec![0; bytes], vec![0; bytes]);
    let has_ring = ring.copy_out(from, &mut in_ring);
    let read = files.copy_out(from, &mut in_files)?;
    if has_ring && read == bytes && in_ring == in_files {
        return Ok(end);
    }
    let same = in_ring.iter().zip(&in_files[..read]).take_while(|(one, other)| one == other).count();
    Ok(from.plus(same as u64 & !7).min(end.minus(8)))
}

/// Returns the beginning of the ring's log. The ring of a new region begins with a witness: the bytes just below the
/// end that restart found. A damaged word counts as zero, because the comparison just below the durable end also works
/// without the words that are read here.
fn ring_begin(header: &LogHeader) -> Lsn {
    let look = |word: &Checked<Lsn>| word.try_load().unwrap_or(Lsn::NONE);
    let filled = look(&header.start).minus(WITNESS_BYTES);
    look(&header.ring_start).max(filled).max(look(&header.oldest)).max(Lsn::FIRST)
}

/// Writes the log in a region's ring to the log files, over their bytes. If the control file does not have the
/// incarnation for which the region was made, begins that incarnation there. This is the remedy after
/// [`Error::Disagree`], if the operator decides that the region is right. Restart then finds the files' log, followed
/// by the region's log. No other process is attached.
///
/// # Errors
/// [`Error::Unusable`], with nothing changed, when the region is older than the control file, when the region's log is
/// not in order, or when the region's log begins after the end of the files' log, so that the log in between is lost;
/// [`Error::Full`], [`Error::Io`]: try again.
pub fn overwrite_from_ring(
    region: &Region,
    directory: &Arc<dyn Directory>,
    control_file: &ControlFile,
) -> Result<Rescued> {
    let refuse = |what: String| Error::Unusable {
        file: format!("the shared memory {}", region.path().display()),
        what: format!("{what}; `tp recover --keep-files` gives the memory up and uses the files"),
    };
    let mut control = control_file.read()?;
    let Some((header, ring)) = ring_of_any_incarnation(region, &control) else {
        return Err(refuse("its log is damaged".into()));
    };
    let (durable, tail, incarnation) = (header.durable.load(), header.tail.load(), header.incarnation.get());
    let is_later = incarnation > control.incarnation() && header.start.get() >= control.durable_end;
    if durable < control.durable_end || !(is_later || incarnation == control.incarnation()) {
        let what = format!(
            "its log (restart {incarnation}, on disk up to LSN {durable}) does not continue the log of the files (restart {}, on disk up to LSN {})",
            control.incarnation(),
            control.durable_end
        );
        return Err(refuse(what));
    }
    let from = ring_begin(&header).max(header.start.get());
    let sealed = good_records(&ring, durable, tail, incarnation).len() as u64;
    let mut bytes = vec![0; usize::try_from(durable.since(from) + sealed).expect("a ring fits memory")];
    let files = LogFiles::new(Arc::clone(directory), &control);
    let reach = good_up_to(&files, control.durable_end, from)?;
    if reach < from || !ring.copy_out(from, &mut bytes) {
        let what = format!("its log begins at LSN {from}, and the log of the files ends before that, at LSN {reach}");
        return Err(refuse(what));
    }
    let witness = from.minus(WITNESS_BYTES).max(ring_begin(&header)).max(control.oldest).min(from);
    let same = same_from(witness, from, &ring, &files)?;
    if same < from {
        return Err(refuse(format!("its log differs from the log of the files before LSN {same}")));
    }
    files.write(from, &bytes, incarnation)?;
    if is_later {
        control.incarnations.begin_as(incarnation, header.start.get())?;
    }
    control.clean = false;
    // The control file is written twice, into both slots, as at the start of every incarnation.
    control_file.write(&control)?;
    control_file.write(&control)?;
    Ok(Rescued { from, to: durable.plus(sealed), tail: Some(tail) })
}
