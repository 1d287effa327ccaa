//! The expected contents of the databases: for each record, a number that determines its bytes.
//!
//! These books take the same memory however long the run is, so that any growth is in the library. A transaction
//! enters its change of a record into the books while it has the record locked, and before it commits. Before it
//! aborts, it restores the old entry. So the books and the database agree on the last change of each record.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtp_sim::Random;

/// The number of a record that does not exist.
pub const ABSENT: u32 = 0;

/// One of this many values has several thousand bytes, too many for most pages.
const LONG_IN: u64 = 256;

/// The numbers of one database's records, by the numbers of their keys.
pub struct Numbered(Vec<AtomicU32>);

impl Numbered {
    pub fn new(keys: usize) -> Numbered {
        Numbered((0..keys).map(|_| AtomicU32::new(ABSENT)).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of the record. Unless the caller has the record locked, the number may be outdated.
    pub fn get(&self, key: usize) -> u32 {
        // Relaxed: a caller that relies on the number has the record locked, and the lock orders the accesses.
        self.0[key].load(Ordering::Relaxed)
    }

    /// Sets the record's number and returns the number before.
    pub fn set(&self, key: usize, now: u32) -> u32 {
        // Relaxed: the caller has the record locked, and the lock orders the accesses.
        self.0[key].swap(now, Ordering::Relaxed)
    }
}

/// The numbers of the list's records, in the list's order.
pub struct Listed(Mutex<Vec<u32>>);

impl Listed {
    pub fn new() -> Listed {
        Listed(Mutex::new(Vec::new()))
    }

    pub fn open(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a queue's first message, and the number after the number of its last message.
#[derive(Clone, Copy, Default)]
pub struct Window {
    pub first: u32,
    pub after: u32,
}

impl Window {
    pub fn len(self) -> u32 {
        self.after - self.first
    }
}

/// Returns a random number for a record that is stored now.
pub fn fresh(random: &mut Random) -> u32 {
    u32::try_from(random.below(u64::from(u32::MAX))).unwrap() + 1
}

/// Writes the bytes of a record: mostly 20 to 400 bytes, sometimes several thousand.
pub fn value_of(number: u32, of: u64, into: &mut Vec<u8>) {
    let mut random = Random::new(u64::from(number) ^ (of << 32));
    let length = match random.below(LONG_IN) {
        0 => 6_000 + random.index(6_000),
        _ => 20 + random.index(381),
    };
    fill(&mut random, length, into);
}

/// Writes the bytes of a record of `length` bytes.
pub fn record_of(number: u32, of: u64, length: usize, into: &mut Vec<u8>) {
    fill(&mut Random::new(u64::from(number) ^ (of << 32)), length, into);
}

fn fill(random: &mut Random, length: usize, into: &mut Vec<u8>) {
    into.clear();
    while into.len() < length {
        into.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    into.truncate(length);
}

/// Writes the key with that number: eight to 31 bytes. The order of keys is not the order of their numbers.
pub fn key_of(number: usize, into: &mut Vec<u8>) {
    let scattered = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    into.clear();
    into.extend_from_slice(&scattered.to_be_bytes());
    into.resize(8 + number % 24, b'.');
}

/// Writes the key of a queue's message.
pub fn message_key(queue: u8, number: u32, into: &mut Vec<u8>) {
    into.clear();
    into.push(queue);
    into.extend_from_slice(&u64::from(number).to_be_bytes());
}
