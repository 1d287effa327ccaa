//! Writing the log in memory over the log files' bytes, or into new files, outside of a flush.
//!
//! If the process dies here: the bytes from the durable end on are not used until the control file is written.

use rio::failpoint;

use crate::segment_files::Opened;
use crate::{Error, LogFiles, Lsn, Result};

impl LogFiles {
    /// Writes the log's bytes from `from` on into their segments and syncs them; makes missing segments.
    pub(crate) fn write(&self, from: Lsn, bytes: &[u8], incarnation: u64) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let place = self.geometry().locate(from.plus(done as u64));
            let piece = usize::try_from(place.left).unwrap_or(usize::MAX).min(bytes.len() - done);
            if !matches!(self.segment(place.segment)?, Opened::Good(_)) {
                self.prepare_new(place.segment, incarnation)?;
            }
            let Opened::Good(file) = self.segment(place.segment)? else {
                return Err(self.damage(from.plus(done as u64), "the segment that was just made is not there"));
            };
            file.write_at(&bytes[done..done + piece], place.offset).map_err(no_room)?;
            failpoint("rescue: a piece written, not synced");
            file.sync().map_err(no_room)?;
            failpoint("rescue: a piece synced, its name not durable");
            done += piece;
        }
        // The names are synced first: a note about a segment whose name is lost in a power cut would look like damage.
        self.directory().sync()?;
        self.note_begun(from, from.plus(bytes.len() as u64))?;
        Ok(())
    }

    /// Does the same as `write`, but writes new files. Once the new files are synced, they get the names of the old
    /// files.
    pub(crate) fn rewrite(&self, from: Lsn, bytes: &[u8], incarnation: u64) -> Result<()> {
        let mut at = from;
        let end = from.plus(bytes.len() as u64);
        loop {
            let place = self.geometry().locate(at);
            let start = self.geometry().start(place.segment);
            // Bytes below `from` were synced before anything failed.
            let mut before = vec![0; usize::try_from(at.since(start)).unwrap_or(0)];
            let read = self.copy_out(start, &mut before)?;
            if read < before.len() {
                return Err(self.damage(start.plus(read as u64), "no more of the log can be read there"));
            }
            let piece = usize::try_from(place.left.min(end.since(at))).expect("a piece of a slice in memory");
            let into = usize::try_from(at.since(from)).expect("a place in a slice in memory");
            before.extend_from_slice(&bytes[into..into + piece]);
            self.prepare_with(place.segment, incarnation, &before)?;
            at = at.plus(place.left);
            if at >= end {
                break;
            }
        }
        self.directory().sync()?;
        self.note_begun(from, end)?;
        Ok(())
    }
}

fn no_room(error: libtp_io::Error) -> Error {
    Error::from_disk("the tail that is saved from shared memory", error)
}
