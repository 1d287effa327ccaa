//! What is in the databases, as the test knows it: of each record a number from which its bytes follow.
//!
//! It takes the same memory however long the run is, so that what grows is the library's. It is changed while the changing transaction
//! has the record locked: before it commits, or back, before it aborts. So of two who change one record both books agree on
//! who was last.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtp_sim::Random;

/// Nobody's number: there is no such record.
pub const ABSENT: u32 = 0;

/// One value in so many is longer than a page likes.
const LONG_IN: u64 = 256;

/// The records of one database by their keys' numbers.
pub struct Numbered(Vec<AtomicU32>);

impl Numbered {
    pub fn new(keys: usize) -> Numbered {
        Numbered((0..keys).map(|_| AtomicU32::new(ABSENT)).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What the record is. A guess, if nobody has it locked.
    pub fn get(&self, key: usize) -> u32 {
        // Relaxed: whoever relies on it has the record locked, and a lock hands on what was written under it.
        self.0[key].load(Ordering::Relaxed)
    }

    /// Notes what the record is now, and returns what it was.
    pub fn set(&self, key: usize, now: u32) -> u32 {
        // Relaxed: as above.
        self.0[key].swap(now, Ordering::Relaxed)
    }
}

/// The records of the list in their order.
pub struct Listed(Mutex<Vec<u32>>);

impl Listed {
    pub fn new() -> Listed {
        Listed(Mutex::new(Vec::new()))
    }

    pub fn open(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one queue begins and ends.
#[derive(Clone, Copy, Default)]
pub struct Window {
    pub first: u32,
    pub behind: u32,
}

impl Window {
    pub fn len(self) -> u32 {
        self.behind - self.first
    }
}

/// A number for a record that is stored now.
pub fn fresh(random: &mut Random) -> u32 {
    u32::try_from(random.below(u64::from(u32::MAX))).unwrap() + 1
}

/// Writes the bytes of a record: 20 to 400 of them, seldom several thousand.
pub fn value_of(number: u32, of: u64, into: &mut Vec<u8>) {
    let mut random = Random::new(u64::from(number) ^ (of << 32));
    let length = match random.below(LONG_IN) {
        0 => 6_000 + random.index(6_000),
        _ => 20 + random.index(381),
    };
    fill(&mut random, length, into);
}

/// Writes the bytes of a record that has so many.
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

/// Writes the key of that number: eight to 31 bytes, in no order of the numbers.
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
