//! A queue of messages in a segment of memory.
//!
//! Paper: Rio Vista, section 6, names recoverable message queues as a use of free transactions. No code here is about
//! crashes: the transaction puts or takes a message together with its other changes.

use libtp::{Env, Result, Segment, Txn};

/// Number of messages that fit.
const SLOTS: u64 = 64;
/// A slot: the message's length, and the message.
const SLOT_BYTES: u64 = 64;
/// The offset of the first slot, after the number of the first message and the number of the next message.
const FIRST_SLOT: u64 = 64;

/// A queue.
pub struct Queue(Segment);

impl Queue {
    /// Opens the queue of that name, and makes it if it is missing.
    pub fn open(env: &Env, name: &str) -> Result<Queue> {
        Ok(Queue(env.segment(name, FIRST_SLOT + SLOTS * SLOT_BYTES)?))
    }

    /// Puts a message of at most 56 bytes at the end; returns false if the queue is full.
    pub fn put(&self, txn: &Txn<'_>, message: &[u8]) -> Result<bool> {
        let mut memory = txn.join(&self.0)?;
        let (first, next) = (number(&memory.bytes()[..8]), number(&memory.bytes()[8..]));
        if next - first == SLOTS {
            return Ok(false);
        }
        let slot = memory.set_range(place_of(next), 8 + message.len())?;
        slot[..8].copy_from_slice(&(message.len() as u64).to_le_bytes());
        slot[8..].copy_from_slice(message);
        memory.set_range(8, 8)?.copy_from_slice(&(next + 1).to_le_bytes());
        Ok(true)
    }

    /// Takes the first message; returns `None` if the queue is empty.
    pub fn take(&self, txn: &Txn<'_>) -> Result<Option<Vec<u8>>> {
        let mut memory = txn.join(&self.0)?;
        let (first, next) = (number(&memory.bytes()[..8]), number(&memory.bytes()[8..]));
        if first == next {
            return Ok(None);
        }
        let slot = &memory.bytes()[place_of(first) as usize..][..SLOT_BYTES as usize];
        let message = slot[8..8 + number(slot) as usize].to_vec();
        memory.set_range(0, 8)?.copy_from_slice(&(first + 1).to_le_bytes());
        Ok(Some(message))
    }
}

fn place_of(message: u64) -> u64 {
    FIRST_SLOT + message % SLOTS * SLOT_BYTES
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}
