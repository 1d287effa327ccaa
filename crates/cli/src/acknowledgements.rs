//! The acknowledgements that the clients of a demonstration send to its watcher, and their comparison with the bank
//! after a crash.
//!
//! Invariants
//! 1. A transfer is acknowledged only after its commit returned, so every acknowledged transfer must be in the history.
//! 2. Each write to the pipe has whole acknowledgements and at most `PIPE_BUF` bytes. The system neither splits such a
//!    write nor mixes it with other writes. So a crash loses only acknowledgements that a client had not sent yet.

use std::io::{Read, Write};

use libtp_bank::{Durability, Transfer};

use crate::failure::{Failure, Result};

/// Bytes of one acknowledgement.
const BYTES: usize = 40;
/// The greatest length of a write to a pipe that the system does not split: Linux's `PIPE_BUF`.
const WRITE_BYTES_MAX: usize = 4096;
/// The longest time for which acknowledgements of relaxed commits may be gathered. Acknowledgements of `sync` commits
/// are sent at once.
const PATIENCE_NANOS: u64 = 1_000_000;

/// The report of a commit that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The committed transfer.
    pub transfer: Transfer,
    /// Durability of the commit.
    pub durability: Durability,
    /// Time from the beginning of the transfer to the return of its commit.
    pub latency_nanos: u32,
    /// The time at which the commit returned, by [`crate::clock`].
    pub at_nanos: u64,
}

impl Acknowledgement {
    fn to_bytes(self) -> [u8; BYTES] {
        let transfer = &self.transfer;
        let amount = i32::try_from(transfer.amount).expect("amounts have 21 bits");
        let durability: u32 = match self.durability {
            Durability::Sync => 0,
            Durability::Relaxed => 1,
            Durability::Rio => 2,
        };
        let mut bytes = [0; BYTES];
        bytes[0..8].copy_from_slice(&transfer.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&amount.to_le_bytes());
        bytes[12..16].copy_from_slice(&transfer.account.to_le_bytes());
        bytes[16..20].copy_from_slice(&transfer.teller.to_le_bytes());
        bytes[20..24].copy_from_slice(&transfer.branch.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.latency_nanos.to_le_bytes());
        bytes[28..32].copy_from_slice(&durability.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.at_nanos.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Acknowledgement {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let word = |at: usize| u32::from_le_bytes(four(at));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let transfer = Transfer {
            id: long(0),
            amount: i64::from(i32::from_le_bytes(four(8))),
            account: word(12),
            teller: word(16),
            branch: word(20),
        };
        let durability = match word(28) {
            0 => Durability::Sync,
            1 => Durability::Relaxed,
            _ => Durability::Rio,
        };
        Acknowledgement { transfer, durability, latency_nanos: word(24), at_nanos: long(32) }
    }
}

/// One client's end of the pipe.
pub struct Sender<W> {
    pipe: W,
    unsent: Vec<u8>,
    /// The time at which the oldest unsent commit returned.
    since: u64,
}

impl<W: Write> Sender<W> {
    /// Returns a sender without unsent acknowledgements.
    pub fn new(pipe: W) -> Sender<W> {
        Sender { pipe, unsent: Vec::with_capacity(WRITE_BYTES_MAX), since: 0 }
    }

    /// Sends an acknowledgement at once if the commit is `sync`. Otherwise gathers it with later acknowledgements,
    /// until a write is full or a commit returns a millisecond after the oldest gathered acknowledgement.
    pub fn send(&mut self, noted: Acknowledgement) -> std::io::Result<()> {
        if self.unsent.is_empty() {
            self.since = noted.at_nanos;
        }
        self.unsent.extend_from_slice(&noted.to_bytes());
        let full = self.unsent.len() + BYTES > WRITE_BYTES_MAX;
        if full || noted.durability == Durability::Sync || noted.at_nanos - self.since >= PATIENCE_NANOS {
            self.pipe.write_all(&self.unsent)?;
            self.unsent.clear();
        }
        Ok(())
    }
}

/// The watcher's end of the pipe.
pub struct Receiver<R> {
    pipe: R,
    buffer: Vec<u8>,
    held: usize,
}

impl<R: Read> Receiver<R> {
    /// Returns a receiver that has read nothing.
    pub fn new(pipe: R) -> Receiver<R> {
        Receiver { pipe, buffer: vec![0; 64 << 10], held: 0 }
    }

    /// Waits for acknowledgements and passes them to `each`. Returns false at the end of the pipe.
    pub fn receive(&mut self, each: &mut dyn FnMut(Acknowledgement)) -> Result<bool> {
        let read =
            self.pipe.read(&mut self.buffer[self.held..]).map_err(Failure::doing("read the reports of the clients"))?;
        let end = self.held + read;
        let whole = self.buffer[..end].chunks_exact(BYTES);
        self.held = whole.remainder().len();
        for bytes in whole {
            let bytes = bytes.try_into().expect("a chunk has the size it was cut to");
            each(Acknowledgement::from_bytes(bytes));
        }
        self.buffer.copy_within(end - self.held..end, 0);
        Ok(read > 0)
    }
}

/// All acknowledged transfers.
#[derive(Debug, Default)]
pub struct Acknowledged {
    transfers: Vec<Transfer>,
}

impl Acknowledged {
    /// Adds a transfer.
    pub fn note(&mut self, noted: &Acknowledgement) {
        self.transfers.push(noted.transfer);
    }

    /// Returns the number of transfers.
    pub fn count(&self) -> u64 {
        self.transfers.len() as u64
    }

    /// Begins the comparison with the bank's history.
    pub fn compare(mut self) -> Comparison {
        self.transfers.sort_unstable_by_key(|transfer| transfer.id);
        let found = vec![false; self.transfers.len()];
        Comparison { noted: self.transfers, found, different: None, different_count: 0, unacknowledged: 0 }
    }
}

/// A comparison of acknowledged transfers with the history, record by record.
#[derive(Debug)]
pub struct Comparison {
    noted: Vec<Transfer>,
    found: Vec<bool>,
    different: Option<u64>,
    different_count: u64,
    unacknowledged: u64,
}

/// Result of the comparison.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Acknowledged transfers that the history does not have.
    pub lost: u64,
    /// Transfers of this run's clients that are in the history and were not acknowledged: the process was killed
    /// between the commit and the acknowledgement.
    pub unacknowledged: u64,
    /// The faults, as sentences.
    pub faults: Vec<String>,
}

impl Comparison {
    /// Compares one record of the history. Ignores records of clients before `first_client`, which belong to other
    /// runs.
    pub fn see(&mut self, record: &[u8], first_client: u32) {
        // A record that cannot be read is left to the audit, which reports it.
        let Some(transfer) = Transfer::from_history(record) else { return };
        match self.noted.binary_search_by_key(&transfer.id, |noted| noted.id) {
            Ok(at) => {
                self.found[at] = true;
                if self.noted[at] != transfer {
                    self.different_count += 1;
                    self.different.get_or_insert(transfer.id);
                }
            }
            Err(_) if transfer.client() >= u64::from(first_client) => self.unacknowledged += 1,
            Err(_) => {}
        }
    }

    /// Ends the comparison and returns its result.
    pub fn finish(self) -> Difference {
        let lost: Vec<u64> =
            self.noted.iter().zip(&self.found).filter(|(_, found)| !**found).map(|(noted, _)| noted.id).collect();
        let mut faults = Vec::new();
        if let Some(first) = lost.first() {
            faults.push(format!("{} acknowledged transfers are not in the history; the first is {first}", lost.len()));
        }
        if let Some(first) = self.different {
            let count = self.different_count;
            faults.push(format!("{count} transfers are in the history with other contents; the first is {first}"));
        }
        Difference { lost: lost.len() as u64, unacknowledged: self.unacknowledged, faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_bank::{Scale, Transfers};

    fn noted(count: usize) -> Vec<Acknowledgement> {
        let mut stream = Transfers::new(Scale::SMALL, 1, 3);
        let mut next = |at: usize| Acknowledgement {
            transfer: stream.next_transfer(),
            durability: if at % 2 == 0 { Durability::Sync } else { Durability::Relaxed },
            latency_nanos: u32::MAX - u32::try_from(at).unwrap(),
            at_nanos: 1 << 40,
        };
        (0..count).map(&mut next).collect()
    }

    #[test]
    fn acknowledgements_arrive_in_whole_writes_and_a_torn_last_acknowledgement_is_ignored() {
        struct Pipe<'a>(&'a mut Vec<u8>);
        impl Write for Pipe<'_> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                assert!(bytes.len() <= WRITE_BYTES_MAX && bytes.len() % BYTES == 0);
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (noted, mut through) = (noted(1_000), Vec::new());
        let mut sender = Sender::new(Pipe(&mut through));
        noted.iter().for_each(|one| sender.send(*one).unwrap());
        // The last commit is relaxed, and no later commit has caused its acknowledgement to be sent.
        assert_eq!(through.len(), 999 * BYTES);
        through.truncate(998 * BYTES + 7);
        let (mut receiver, mut heard) = (Receiver::new(through.as_slice()), Vec::new());
        while receiver.receive(&mut |one| heard.push(one)).unwrap() {}
        assert_eq!(heard, noted[..998]);
    }

    #[test]
    fn relaxed_commits_are_acknowledged_when_the_write_is_full_or_a_millisecond_has_passed() {
        let relaxed = noted(2)[1];
        let mut through = Vec::new();
        let mut sender = Sender::new(&mut through);
        (0..WRITE_BYTES_MAX / BYTES).for_each(|_| sender.send(relaxed).unwrap());
        assert!(sender.unsent.is_empty());
        sender.send(relaxed).unwrap();
        assert_eq!(sender.unsent.len(), BYTES);
        sender.send(Acknowledgement { at_nanos: relaxed.at_nanos + PATIENCE_NANOS, ..relaxed }).unwrap();
        assert!(sender.unsent.is_empty());
        assert_eq!(through.len(), WRITE_BYTES_MAX / BYTES * BYTES + 2 * BYTES);
    }

    #[test]
    fn a_lost_a_changed_and_an_unacknowledged_transfer_are_distinguished() {
        let all = noted(10);
        let mut acknowledged = Acknowledged::default();
        all[..9].iter().rev().for_each(|one| acknowledged.note(one));
        let mut comparison = acknowledged.compare();
        for (at, one) in all.iter().enumerate().filter(|(at, _)| *at != 4) {
            let mut record = one.transfer.to_history();
            record[8] ^= u8::from(at == 6);
            comparison.see(&record, 3);
        }
        let other_run = Transfers::new(Scale::SMALL, 1, 2).next_transfer();
        comparison.see(&other_run.to_history(), 3);
        let difference = comparison.finish();
        assert_eq!((difference.lost, difference.unacknowledged), (1, 1));
        let faults = difference.faults.join("; ");
        assert!(faults.contains(&format!("the first is {}", all[4].transfer.id)), "{faults}");
        assert!(
            faults.contains(&format!(
                "1 transfers are in the history with other contents; the first is {}",
                all[6].transfer.id
            )),
            "{faults}"
        );
    }

    #[test]
    fn a_history_with_all_acknowledged_transfers_has_no_faults() {
        let all = noted(100);
        let mut acknowledged = Acknowledged::default();
        all.iter().for_each(|one| acknowledged.note(one));
        assert_eq!(acknowledged.count(), 100);
        let mut comparison = acknowledged.compare();
        all.iter().for_each(|one| comparison.see(&one.transfer.to_history(), 3));
        assert_eq!(comparison.finish(), Difference { lost: 0, unacknowledged: 0, faults: Vec::new() });
    }
}
