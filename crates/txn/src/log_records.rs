//! The transaction manager's own log records: their codes, and the bytes of their bodies.

use libtp_log::{Lsn, TxnId};

pub(crate) mod databases;
pub(crate) mod left;

/// The transaction is committed from this record's LSN on. Body: the numbers of the segments of memory that it has
/// joined; usually there are no such segments.
pub const COMMIT: u16 = 16;
/// All changes of the transaction are undone. Body: empty.
pub const ABORT_END: u16 = 17;
/// A checkpoint. Body: begin LSN, redo point, next identifier, count, then three words for each running transaction,
/// then three words for each segment of memory that may not know of a commit.
pub const CHECKPOINT: u16 = 18;
/// The fates of databases. In a transaction they take effect when it commits, and its commit record is the next record;
/// without a transaction they take effect at once. Body: see `databases`.
pub const DATABASES: u16 = 20;
/// A transaction's changes that restart could not undo, because a file was missing. Body: the transaction, its first
/// record, and two words for each change (`recovery/left`).
pub const LEFT: u16 = 21;

/// Header flag of a compensation record: its body begins with the LSN at which undo continues.
pub const CLR_FLAG: u16 = 1;

/// A transaction that was running when the checkpoint was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// Its identifier.
    pub id: TxnId,
    /// Its first log record.
    pub first_lsn: Lsn,
    /// Its last log record known at the checkpoint.
    pub last_lsn: Lsn,
}

/// A commit that a segment of memory may not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOutcome {
    /// The segment's number.
    pub segment: u32,
    /// The transaction.
    pub txn: TxnId,
    /// Its commit record.
    pub lsn: Lsn,
}

/// The contents of a checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// The log's tail when the checkpoint began. `running` does not include later records.
    pub begin_lsn: Lsn,
    /// Redo starts here.
    pub redo_point: Lsn,
    /// The next identifier: smaller identifiers are used up.
    pub next_id: u64,
    /// Running transactions that had logged something.
    pub running: Vec<CheckpointEntry>,
    /// Commits that a segment of memory may not know of.
    pub open: Vec<OpenOutcome>,
}

impl Checkpoint {
    /// Returns the record's body: begin LSN, redo point, next identifier, count, then three words for each transaction,
    /// then three words for each segment.
    pub fn encode(&self) -> Vec<u8> {
        let head = [self.begin_lsn.raw(), self.redo_point.raw(), self.next_id, self.running.len() as u64];
        let running =
            self.running.iter().flat_map(|entry| [entry.id.raw(), entry.first_lsn.raw(), entry.last_lsn.raw()]);
        let open = self.open.iter().flat_map(|open| [u64::from(open.segment), open.txn.raw(), open.lsn.raw()]);
        head.into_iter().chain(running).chain(open).flat_map(u64::to_le_bytes).collect()
    }

    /// Reads a body; `None` if its length does not fit its count.
    pub fn decode(body: &[u8]) -> Option<Checkpoint> {
        let words = words_of(body)?;
        let [begin, redo, next_id, count, entries @ ..] = words.as_slice() else { return None };
        let running_words = usize::try_from(count.checked_mul(3)?).ok()?;
        let (running, open) = entries.split_at_checked(running_words)?;
        if open.len() % 3 != 0 {
            return None;
        }
        let open = open.chunks_exact(3).map(|entry| {
            let segment = u32::try_from(entry[0]).ok()?;
            Some(OpenOutcome { segment, txn: TxnId::new(entry[1]), lsn: Lsn::new(entry[2]) })
        });
        let open = open.collect::<Option<Vec<OpenOutcome>>>()?;
        let running = running
            .chunks_exact(3)
            .map(|entry| CheckpointEntry {
                id: TxnId::new(entry[0]),
                first_lsn: Lsn::new(entry[1]),
                last_lsn: Lsn::new(entry[2]),
            })
            .collect();
        Some(Checkpoint { begin_lsn: Lsn::new(*begin), redo_point: Lsn::new(*redo), next_id: *next_id, running, open })
    }
}

/// Returns the segments of memory that a commit's body names.
pub(crate) fn segments_of(body: &[u8]) -> Vec<u32> {
    let numbers = body.chunks_exact(4).map(|four| four.try_into().expect("chunks_exact(4) yields four bytes"));
    numbers.map(u32::from_le_bytes).collect()
}

/// Returns the little-endian words of a body; `None` if a byte is left over.
fn words_of(body: &[u8]) -> Option<Vec<u64>> {
    let eights = body.chunks_exact(8);
    let is_whole = eights.remainder().is_empty();
    let word = |eight: &[u8]| u64::from_le_bytes(eight.try_into().expect("chunks_exact(8) yields eight bytes"));
    is_whole.then(|| eights.map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_as_it_was_written() {
        let running = vec![CheckpointEntry { id: TxnId::new(7), first_lsn: Lsn::new(80), last_lsn: Lsn::new(160) }];
        let open = vec![OpenOutcome { segment: 3, txn: TxnId::new(5), lsn: Lsn::new(96) }];
        for open in [Vec::new(), open] {
            let (begin_lsn, redo_point, running) = (Lsn::new(200), Lsn::new(72), running.clone());
            let checkpoint = Checkpoint { begin_lsn, redo_point, next_id: 9, running, open };
            assert_eq!(Checkpoint::decode(&checkpoint.encode()), Some(checkpoint));
        }
    }

    #[test]
    fn a_checkpoint_of_another_length_is_refused() {
        let mut body = Checkpoint::default().encode();
        assert!(Checkpoint::decode(&body[..24]).is_none());
        body.push(0);
        assert!(Checkpoint::decode(&body).is_none());
        let mut lying = Checkpoint::default().encode();
        lying[24] = 1;
        assert!(Checkpoint::decode(&lying).is_none());
    }
}
