//! The body of a log record of changes that restart could not undo (`recovery/left.rs`).

use std::collections::BTreeMap;

use libtp_log::{Lsn, TxnId};

/// The changes of one loser that were not undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingUndo {
    /// The loser's first record.
    pub(crate) first: Lsn,
    /// The LSN of each change's record, by the LSN of the transaction's previous record. No two changes have the same
    /// previous record.
    pub(crate) changes: BTreeMap<Lsn, Lsn>,
}

/// Returns the body of a record of left changes: the transaction, its first record, and two words for each change.
pub(crate) fn encode(txn: TxnId, first: Lsn, changes: &[(Lsn, Lsn)]) -> Vec<u8> {
    let words = changes.iter().flat_map(|(record, before)| [record.raw(), before.raw()]);
    [txn.raw(), first.raw()].into_iter().chain(words).flat_map(u64::to_le_bytes).collect()
}

/// Reads a body of this type; `None` if the bytes do not have its form.
pub(crate) fn decode(body: &[u8]) -> Option<(TxnId, PendingUndo)> {
    let words = super::words_of(body)?;
    let [txn, first, rest @ ..] = &words[..] else { return None };
    if rest.len() % 2 != 0 {
        return None;
    }
    let changes = rest.chunks_exact(2).map(|pair| (Lsn::new(pair[1]), Lsn::new(pair[0]))).collect();
    Some((TxnId::new(*txn), PendingUndo { first: Lsn::new(*first), changes }))
}

/// Describes a body in one line.
pub(crate) fn describe(body: &[u8]) -> String {
    match decode(body) {
        Some((txn, left)) => format!("{} changes of transaction {} wait for their file", left.changes.len(), txn.raw()),
        None => "unreadable".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_undo_reads_back_as_it_was_written() {
        let changes = vec![(Lsn::new(800), Lsn::new(640)), (Lsn::new(640), Lsn::NONE)];
        let body = encode(TxnId::new(7), Lsn::new(640), &changes);
        let changes = changes.into_iter().map(|(record, before)| (before, record)).collect();
        assert_eq!(decode(&body), Some((TxnId::new(7), PendingUndo { first: Lsn::new(640), changes })));
        assert_eq!(describe(&body), "2 changes of transaction 7 wait for their file");
        assert_eq!(decode(&body[..body.len() - 8]), None);
        assert_eq!(decode(&body[..9]), None);
    }
}
