//! Keeps the changes of each transaction: first in the redo log, and after a truncation in the database.
//!
//! If we die here: while the database is being written, the log still has every change that is being written. Repeating
//! the log over any mixture of old and new bytes gives the same database.

use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::planted;
use vista::{Changes, Redo, Segment};

use crate::lines::Lines;
use crate::record;
use crate::redo_log::RedoLog;
use crate::{Error, Result};

/// The database's name in its directory.
pub(crate) const NAME: &str = "database";
const PASSING: &str = "database.new";
const PIECE: usize = 64 << 10;

/// The log and the database of one segment.
#[derive(Debug)]
pub(crate) struct Journal {
    log: RedoLog,
    database: Arc<dyn File>,
    /// The lines whose changes are in the log and not yet in the database.
    covered: Lines,
    /// The file's growth when it was last logged.
    growth: [u64; 5],
    /// The number of transactions that are written and synced together.
    group: u32,
    /// The number of ended transactions that are not written yet.
    waiting: u32,
}

impl Journal {
    /// Makes the database and the log of a new segment. Returns `None` if another process has made them meanwhile.
    pub(crate) fn create(
        directory: &dyn Directory,
        segment: &Segment,
        log_bytes: u64,
        group: u32,
    ) -> Result<Option<Journal>> {
        let Some(log) = RedoLog::create(directory, log_bytes, NAME)? else { return Ok(None) };
        let database = directory.open(PASSING, OpenMode::Create)?;
        let used = segment.file_used();
        database.set_len(0)?;
        database.allocate(0..used)?;
        let mut piece = vec![0; PIECE];
        for at in (0..used).step_by(PIECE) {
            let bytes = usize::try_from(used - at).map_or(PIECE, |left| left.min(PIECE));
            segment.read_file(at, &mut piece[..bytes])?;
            if piece[..bytes].iter().any(|byte| *byte != 0) {
                database.write_at(&piece[..bytes], at)?;
            }
        }
        database.sync()?;
        // The log's name is synced first, so that a directory with a database always has a log.
        directory.sync()?;
        directory.rename(PASSING, NAME)?;
        directory.sync()?;
        Ok(Some(Journal { log, database, covered: Lines::default(), growth: segment.growth(), group, waiting: 0 }))
    }

    /// Opens the database and the log. Calls `store` with all bytes of the segment's file: first with the bytes of the
    /// database, then with the bytes of the log's records, in order.
    pub(crate) fn open(
        directory: &dyn Directory,
        group: u32,
        store: &mut dyn FnMut(u64, &[u8]) -> vista::Result<()>,
    ) -> Result<Journal> {
        if !directory.exists(crate::redo_log::NAME)? {
            let what = "its log is missing".into();
            return Err(Error::Damaged { file: directory.describe(NAME), what });
        }
        let database = directory.open(NAME, OpenMode::Existing)?;
        let mut covered = Lines::default();
        let mut images = Vec::new();
        let log = RedoLog::open(directory, |place, image| {
            covered.add(place, image.len() as u64);
            images.push((place, image.to_vec()));
            Ok(())
        })?;
        let (mut piece, mut at) = (vec![0; PIECE], 0);
        loop {
            let bytes = database.read_at(&mut piece, at)?;
            if bytes == 0 {
                break;
            }
            store(at, &piece[..bytes])?;
            at += bytes as u64;
        }
        for (place, image) in images {
            store(place, &image)?;
        }
        Ok(Journal { log, database, covered, growth: [0; 5], group, waiting: 0 })
    }

    /// As [`Journal::truncate`], for a segment that was just filled from the database and the log. Its file has not
    /// grown since.
    pub(crate) fn truncate_opened(&mut self, segment: &mut Segment) -> Result<()> {
        self.growth = segment.growth();
        self.truncate(segment)
    }

    /// Writes the lines that the log covers to the database, and restarts the log. No transaction may be open.
    pub(crate) fn truncate(&mut self, segment: &mut Segment) -> Result<()> {
        self.log_growth(segment)?;
        self.flush()?;
        let is_late = planted("rvm: the log is truncated before the database is synced");
        let (database, covered) = (&self.database, &self.covered);
        self.log.guarded(|_| {
            // In the flat part, the gaps between lines are unchanged, so the database has the same bytes there.
            for piece in covered.pieces(segment.flat_places()) {
                database.write_at(segment.file_part(piece.start, piece.end - piece.start), piece.start)?;
            }
            if !is_late {
                database.sync()?;
            }
            Ok(())
        })?;
        self.log.restart()?;
        if is_late {
            self.database.sync()?;
        }
        self.covered.clear();
        Ok(())
    }

    /// Logs the file's growth if no commit has logged it, for example after an aborted transaction. A truncation writes
    /// lines that may have a part of the growth, but the database must have the whole growth or nothing of it. The log
    /// has room for the growth's record: the file grew in a transaction that began when half of the log was free.
    fn log_growth(&mut self, segment: &mut Segment) -> Result<()> {
        let growth = segment.growth();
        if growth == self.growth || planted("rvm: growth outside of transactions is not logged") {
            return Ok(());
        }
        let covered = &mut self.covered;
        self.log.append(|record| {
            segment.for_each_header(|place, image| {
                covered.add(place, image.len() as u64);
                record::put(record, place, image);
            });
        })?;
        self.growth = growth;
        Ok(())
    }

    /// Returns the number of bytes written to the log.
    pub(crate) fn logged(&self) -> u64 {
        self.log.written()
    }

    /// Returns whether the log may lack room for a transaction.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.log.is_nearly_full()
    }

    /// Returns whether a truncation would change nothing.
    pub(crate) fn is_truncated(&self) -> bool {
        self.covered.is_empty()
    }

    /// Writes and syncs the transactions that have ended.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.waiting = 0;
        self.log.flush()
    }
}

impl Redo for Journal {
    type Error = Error;

    fn commit(&mut self, changes: &Changes<'_>) -> Result<()> {
        let (before, growth, covered) = (self.log.pending_bytes(), changes.growth(), &mut self.covered);
        let has_grown = growth != self.growth;
        self.log.append(|record| {
            let mut put = |place: u64, image: &[u8]| {
                covered.add(place, image.len() as u64);
                record::put(record, place, image);
            };
            changes.for_each(&mut put);
            if has_grown {
                changes.for_each_header(&mut put);
            }
        })?;
        self.waiting += 1;
        if self.waiting >= self.group {
            if let Err(error) = self.flush() {
                // This transaction is aborted. The other transactions of its group stay in memory, and the log takes no
                // more records.
                self.log.retract(before);
                return Err(error);
            }
        }
        self.growth = growth;
        Ok(())
    }
}
