//! The children's work with a segment, and its check. The segment has cells whose sum never changes, and a list of
//! blocks from the heap. It also has the list's length and the number of bytes of the list's blocks.

use vista::{Error, Segment, Stores, Txn};

/// Cells of eight bytes at the beginning of the segment.
const CELLS: u64 = 512;
/// Words after the cells: the number of ended transactions, the list's first block, the list's length, the number of
/// bytes of its blocks.
const ENDED: u64 = CELLS * 8;
const FIRST: u64 = ENDED + 8;
const LENGTH: u64 = ENDED + 16;
const SUM: u64 = ENDED + 24;
/// The bytes from this address on have arbitrary values.
const REST: u64 = ENDED + 4096;

/// Random numbers from a seed.
pub struct Draw(pub u64);

impl Draw {
    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

pub fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

/// A transaction of vista or of rvm. Transactions of both kinds can announce ranges.
pub trait Announces: Stores {
    fn announce(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()>;
}

impl Announces for Txn<'_> {
    fn announce(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()> {
        Txn::announce(self, ranges)
    }
}

fn get(txn: &impl Stores, at: u64) -> u64 {
    word(txn.segment().get(at, 8).unwrap())
}

fn set(txn: &mut impl Stores, at: u64, value: u64) {
    txn.set_range(at, 8).unwrap().copy_from_slice(&value.to_ne_bytes());
}

/// Runs one transaction, whose ranges have at most `longest` bytes. Returns the number of ended transactions, or `None`
/// if the transaction aborted.
pub fn transact(segment: &mut Segment, draw: &mut Draw, longest: u64) -> Option<u64> {
    let mut txn = segment.begin();
    match change(&mut txn, draw, longest) {
        Some(ended) => {
            txn.end().unwrap();
            Some(ended)
        }
        None => {
            txn.abort();
            None
        }
    }
}

/// Makes the changes of a transaction, and does not end it. Returns the number of ended transactions that the segment
/// will have after the commit, or `None` if the caller must abort the transaction.
pub fn change(txn: &mut impl Announces, draw: &mut Draw, longest: u64) -> Option<u64> {
    let rest = txn.segment().bytes().len() as u64 - REST;
    let ended = get(txn, ENDED);
    let moves: Vec<_> =
        (0..=draw.below(8)).map(|_| (draw.below(CELLS) * 8, draw.below(CELLS) * 8, draw.below(1000))).collect();
    if draw.below(2) == 0 {
        // Some ranges that the transaction will declare, and one range that it may never declare.
        let ranges = moves.iter().take(5).flat_map(|&(from, to, _)| [(from, 8), (to, 8)]);
        txn.announce(&ranges.chain([(SUM, 8)]).collect::<Vec<_>>()).unwrap();
    }
    for (from, to, amount) in moves {
        let value = get(txn, from).wrapping_sub(amount);
        set(txn, from, value);
        let value = get(txn, to).wrapping_add(amount);
        set(txn, to, value);
    }
    match draw.below(4) {
        0 => push(txn, draw, longest),
        1 => pop(txn),
        2 => {
            let at = draw.below(rest);
            let length = usize::try_from(1 + draw.below((rest - at).min(longest))).unwrap();
            let fill = u8::try_from(draw.below(256)).unwrap();
            txn.set_range(REST + at, length).unwrap().fill(fill);
        }
        _ => {}
    }
    if draw.below(8) == 0 {
        return None;
    }
    set(txn, ENDED, ended + 1);
    Some(ended + 1)
}

/// Runs one transaction with automatic ranges. Returns the number of ended transactions, or `None` if the transaction
/// was rolled back.
pub fn transact_automatically(segment: &mut Segment, draw: &mut Draw, longest: u64) -> Option<u64> {
    let done = segment.automatically(|bytes| {
        let add = |bytes: &mut [u8], at: u64, amount: u64| {
            let place = &mut bytes[usize::try_from(at).unwrap()..][..8];
            let value = word(place).wrapping_add(amount);
            place.copy_from_slice(&value.to_ne_bytes());
            value
        };
        for _ in 0..=draw.below(8) {
            let amount = draw.below(1000);
            add(bytes, draw.below(CELLS) * 8, amount.wrapping_neg());
            add(bytes, draw.below(CELLS) * 8, amount);
        }
        let rest = &mut bytes[usize::try_from(REST).unwrap()..];
        let at = usize::try_from(draw.below(rest.len() as u64)).unwrap();
        let length = (rest.len() - at).min(usize::try_from(1 + draw.below(longest)).unwrap());
        rest[at..at + length].fill(u8::try_from(draw.below(256)).unwrap());
        let ended = add(bytes, ENDED, 1);
        // The error rolls the transaction back.
        if draw.below(8) == 0 {
            return Err(Error::NoRoom { path: "told to".into(), wanted: 0, most: 0 });
        }
        Ok(ended)
    });
    match done {
        Ok(ended) => Some(ended),
        Err(Error::NoRoom { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Adds a block to the front of the list. A block has the address of the next block, its length, and filled bytes.
fn push(txn: &mut impl Stores, draw: &mut Draw, longest: u64) {
    let bytes = 32 + draw.below(longest);
    let block = txn.malloc(bytes).unwrap();
    let (first, length, sum) = (get(txn, FIRST), get(txn, LENGTH), get(txn, SUM));
    set(txn, block, first);
    set(txn, block + 8, bytes);
    txn.set_range(block + 16, usize::try_from(bytes - 16).unwrap()).unwrap().fill(5);
    set(txn, FIRST, block);
    set(txn, LENGTH, length + 1);
    set(txn, SUM, sum + bytes);
}

fn pop(txn: &mut impl Stores) {
    let block = get(txn, FIRST);
    if block == 0 {
        return;
    }
    let (next, bytes) = (get(txn, block), get(txn, block + 8));
    let (length, sum) = (get(txn, LENGTH), get(txn, SUM));
    set(txn, FIRST, next);
    set(txn, LENGTH, length - 1);
    set(txn, SUM, sum - bytes);
    txn.free(block).unwrap();
}

/// Checks the segment's own structures and the sum of its first cells. Returns a function that reads the word at an
/// address.
pub fn judge_cells(segment: &Segment, cells: u64) -> Result<impl Fn(u64) -> Result<u64, String> + use<'_>, String> {
    segment.verify().map_err(|error| error.to_string())?;
    let at = |at: u64| segment.get(at, 8).map(word).map_err(|error| error.to_string());
    let mut total = 0_u64;
    for cell in 0..cells {
        total = total.wrapping_add(at(cell * 8)?);
    }
    if total != 0 {
        return Err(format!("the cells' sum is {total:#x}"));
    }
    Ok(at)
}

/// Returns the number of ended transactions, or a description of the torn part.
pub fn judge(segment: &Segment) -> Result<u64, String> {
    let at = judge_cells(segment, CELLS)?;
    let (mut block, mut length, mut sum) = (at(FIRST)?, 0, 0);
    while block != 0 {
        let bytes = at(block + 8)?;
        let body = usize::try_from(bytes.wrapping_sub(16)).unwrap();
        let body = segment.get(block + 16, body).map_err(|error| error.to_string())?;
        if body.iter().any(|&byte| byte != 5) {
            return Err(format!("the block at {block} differs from the stored value"));
        }
        (length, sum) = (length + 1, sum + bytes);
        if length > at(LENGTH)? {
            return Err("the list has no end".into());
        }
        block = at(block)?;
    }
    if (length, sum) != (at(LENGTH)?, at(SUM)?) {
        return Err(format!("the list has {length} blocks, {sum} bytes; wanted {}, {} bytes", at(LENGTH)?, at(SUM)?));
    }
    at(ENDED)
}
