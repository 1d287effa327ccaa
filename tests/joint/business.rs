//! Counters in two segments and a journal of records. A transaction over both segments raises both counters and adds a
//! record, or changes nothing.
//!
//! Some transactions change only one segment, some abort, and some roll back a part. Each transaction over both
//! segments frees the heap block of the transaction before it, and fills a new block with bytes that depend on the
//! transaction's number.

use std::path::Path;

use libtp::{Db, Env, Result, Segment};
use libtp_sim::Random;

/// The length of the flat parts of the segments.
const BYTES: u64 = 4096;
/// Addresses in the left segment.
const COUNT: u64 = 0;
const BLOCK: u64 = 8;
const ALONE: u64 = 16;
const ALONE_TOO: u64 = 2048;
const BLOCK_BYTES: usize = 5000;

/// An environment with its segments and its journal.
pub struct Business {
    pub env: Env,
    pub left: Segment,
    pub right: Segment,
    pub journal: Db,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

impl Business {
    pub fn open(directory: &Path) -> Result<Business> {
        let env = Env::open_or_create(directory)?;
        // The segments are mapped at any free address. Other tests of this process have segments, too, at addresses
        // that the child, which makes these segments, does not know.
        let options = vista::Options::new(BYTES).anywhere();
        let open = |name: &str| env.segment_at(directory.join(name), &options);
        let (left, right) = (open("left.vista")?, open("right.vista")?);
        let journal = env.btree("journal")?;
        Ok(Business { env, left, right, journal })
    }

    /// Runs one transaction. Returns its number, or `None` if it aborted or changed only one segment.
    pub fn transact(&self, random: &mut Random) -> Result<Option<u64>> {
        match random.below(10) {
            0 | 1 => self.alone(random).map(|()| None),
            2 => {
                let txn = self.env.begin()?;
                let done = self.all(&txn, random);
                txn.abort()?;
                done.map(|_| None)
            }
            _ => self.env.run(|txn| self.all(txn, random)).map(Some),
        }
    }

    /// Runs one transaction over records and both segments. Returns its number.
    pub fn both(&self, random: &mut Random) -> Result<u64> {
        let txn = self.env.begin()?;
        let number = self.all(&txn, random)?;
        txn.commit().map(|()| number)
    }

    fn all(&self, txn: &libtp::Txn<'_>, random: &mut Random) -> Result<u64> {
        let mut left = txn.join(&self.left)?;
        let next = number(left.bytes()) + 1;
        let journal = || self.journal.put_new(txn, &next.to_be_bytes(), &next.to_le_bytes());
        let is_first = random.below(2) == 0;
        if is_first {
            journal()?;
        }
        left.set_range(COUNT, 8)?.copy_from_slice(&next.to_le_bytes());
        drop(left);
        if random.below(3) == 0 {
            self.part(txn, next)?;
        }
        let mut left = txn.join(&self.left)?;
        let old = number(&left.bytes()[8..]);
        if old != 0 {
            left.free(old)?;
        }
        let block = left.malloc(BLOCK_BYTES as u64)?;
        left.set_range(block, BLOCK_BYTES)?.fill(stamp(next));
        left.set_range(BLOCK, 8)?.copy_from_slice(&block.to_le_bytes());
        drop(left);
        let mut right = txn.join(&self.right)?;
        right.set_range(COUNT, 8)?.copy_from_slice(&next.to_le_bytes());
        drop(right);
        if !is_first {
            journal()?;
        }
        Ok(next)
    }

    /// Stores wrong values after a savepoint, and again after a second savepoint. Rolls back to the first savepoint.
    fn part(&self, txn: &libtp::Txn<'_>, next: u64) -> Result<()> {
        let part = txn.savepoint();
        self.spoil(txn, next + 1)?;
        let inner = txn.savepoint();
        self.spoil(txn, next + 2)?;
        match next % 2 {
            0 => inner.roll_back()?,
            _ => inner.keep(),
        }
        part.roll_back()
    }

    /// Stores wrong values at every address that transactions store to.
    fn spoil(&self, txn: &libtp::Txn<'_>, wrong: u64) -> Result<()> {
        self.journal.put(txn, &wrong.to_be_bytes(), b"of a part")?;
        let mut left = txn.join(&self.left)?;
        for at in [COUNT, ALONE, COUNT] {
            left.set_range(at, 8)?.copy_from_slice(&wrong.to_le_bytes());
        }
        // Frees the old block. After the second savepoint, this is the block that was made after the first savepoint.
        let old = number(&left.bytes()[8..]);
        if old != 0 {
            left.set_range(old, BLOCK_BYTES)?.fill(stamp(wrong));
            left.free(old)?;
        }
        let block = left.malloc(BLOCK_BYTES as u64)?;
        left.set_range(block, BLOCK_BYTES)?.fill(stamp(wrong));
        left.set_range(BLOCK, 8)?.copy_from_slice(&block.to_le_bytes());
        drop(left);
        // The right segment is joined after the savepoint, because the transaction did not need the segment before.
        let mut right = txn.join(&self.right)?;
        for at in [COUNT, BLOCK] {
            right.set_range(at, 8)?.copy_from_slice(&wrong.to_le_bytes());
        }
        Ok(())
    }

    fn alone(&self, random: &mut Random) -> Result<()> {
        self.env.run(|txn| {
            let mut left = txn.join(&self.left)?;
            let next = number(&left.bytes()[16..]) + 1 + random.below(2);
            left.set_range(ALONE, 8)?.copy_from_slice(&next.to_le_bytes());
            left.set_range(ALONE_TOO, 8)?.copy_from_slice(&next.to_le_bytes());
            Ok(())
        })
    }

    /// Returns the number of transactions, or the first disagreement.
    pub fn judge(&self) -> std::result::Result<u64, String> {
        let judged = self.env.run(|txn| {
            let left = txn.join(&self.left)?;
            let right = txn.join(&self.right)?;
            let (count, other) = (number(left.bytes()), number(right.bytes()));
            if count != other {
                return Ok(Err(format!("the left segment counts {count} transactions, the right segment {other}")));
            }
            let of_a_part = number(&right.bytes()[8..]);
            if of_a_part != 0 {
                return Ok(Err(format!("the right segment has {of_a_part}, which a rolled-back part has stored")));
            }
            let alone = [16, 2048].map(|at| number(&left.bytes()[at..]));
            if alone[0] != alone[1] {
                return Ok(Err(format!("two words that always change together have the different values {alone:?}")));
            }
            let block = number(&left.bytes()[8..]);
            let wrong = match block {
                0 => count != 0,
                block => left.get(block, BLOCK_BYTES)?.iter().any(|&byte| byte != stamp(count)),
            };
            if wrong {
                return Ok(Err(format!("the block at {block} has other bytes than transaction {count} stored")));
            }
            let blocks = match left.segment().verify() {
                Ok(usage) => usage.blocks,
                Err(damaged) => return Ok(Err(damaged.to_string())),
            };
            if blocks != count.min(1) {
                return Ok(Err(format!("after transaction {count} there are {blocks} blocks")));
            }
            let last = self.journal.get(txn, &count.to_be_bytes())?;
            let next = self.journal.get(txn, &(count + 1).to_be_bytes())?;
            if (last.is_none() && count != 0) || next.is_some() {
                return Ok(Err(format!(
                    "the memory has {count} transactions; the journal has {last:?} of the last, {next:?} of the next"
                )));
            }
            Ok(Ok(count))
        });
        judged.unwrap_or_else(|error| Err(format!("cannot be judged: {error}")))
    }
}

fn stamp(count: u64) -> u8 {
    u8::try_from(count % 251).unwrap()
}
