//! The children's work with typed memory, and its check. The memory has a vector, and an ordered map and a hash map
//! with the same pairs. It also has the number of ended transactions and the sum of all values.

use std::collections::BTreeMap;

use vista::{HashMap, Map, Ptr, Segment, Txn, Vector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::business::Draw;

type Names = Map<u64, [u64; 3]>;
type Hashed = HashMap<u64, u64>;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    ended: u64,
    sum: u64,
    numbers: Vector<u64>,
    names: Names,
    hashed: Hashed,
}

fn places(segment: &Segment) -> (Ptr<Root>, Ptr<Vector<u64>>, Ptr<Names>, Ptr<Hashed>) {
    let root = segment.root::<Root>();
    let numbers = root.part(|root| &root.numbers, segment).unwrap();
    let names = root.part(|root| &root.names, segment).unwrap();
    (root, numbers, names, root.part(|root| &root.hashed, segment).unwrap())
}

/// Runs one transaction. Returns the number of ended transactions, or `None` if this transaction aborted.
pub fn transact(segment: &mut Segment, draw: &mut Draw) -> Option<u64> {
    let (root, numbers, names, hashed) = places(segment);
    let mut txn = segment.begin();
    for _ in 0..=draw.below(4) {
        let (value, key) = (draw.below(1 << 30), draw.below(300));
        let sum = |txn: &mut Txn<'_>, more: u64, less: u64| {
            let root = txn.write(root).unwrap();
            root.sum = root.sum.wrapping_add(more).wrapping_sub(less);
        };
        let before = names.get(&txn, &key).unwrap().map_or(0, |value| value[1]);
        match draw.below(5) {
            0 => {
                numbers.push(&mut txn, value).unwrap();
                sum(&mut txn, value, 0);
            }
            1 => {
                let taken = numbers.pop(&mut txn).unwrap();
                sum(&mut txn, 0, taken.unwrap_or(0));
            }
            2 | 3 => {
                names.insert(&mut txn, key, [key, value, key]).unwrap();
                hashed.insert(&mut txn, key, value).unwrap();
                sum(&mut txn, value, before);
            }
            _ => {
                names.remove(&mut txn, &key).unwrap();
                hashed.remove(&mut txn, &key).unwrap();
                sum(&mut txn, 0, before);
            }
        }
    }
    if draw.below(8) == 0 {
        txn.abort();
        return None;
    }
    let root = txn.write(root).unwrap();
    root.ended += 1;
    let ended = root.ended;
    txn.end().unwrap();
    Some(ended)
}

/// Returns the number of ended transactions, or a description of the torn part.
pub fn judge(segment: &Segment) -> Result<u64, String> {
    segment.verify().map_err(|error| error.to_string())?;
    let (root, numbers, names, hashed) = places(segment);
    let text = |error: vista::Error| error.to_string();
    let root = root.look(segment).map_err(text)?;
    let mut sum = 0_u64;
    for index in 0..numbers.len(segment).map_err(text)? {
        sum = sum.wrapping_add(*numbers.get(segment, index).map_err(text)?.ok_or("an index without a value")?);
    }
    let mut same = BTreeMap::new();
    hashed.for_each(segment, |key, value| assert!(same.insert(*key, *value).is_none())).map_err(text)?;
    let hashed_count = hashed.len(segment).map_err(text)?;
    let (mut pairs, mut last, mut is_whole) = (0, None, true);
    names
        .for_each(segment, |key, value| {
            is_whole &= same.get(key) == Some(&value[1]) && last < Some(*key) && value[0] == *key && value[2] == *key;
            (sum, pairs, last) = (sum.wrapping_add(value[1]), pairs + 1, Some(*key));
        })
        .map_err(text)?;
    is_whole &= hashed_count == pairs && same.len() as u64 == pairs;
    if !is_whole || pairs != names.len(segment).map_err(text)? {
        return Err(format!("the map has {pairs} pairs, and they differ from the stored pairs"));
    }
    if sum != root.sum {
        return Err(format!("the sum is {sum}, not {}", root.sum));
    }
    Ok(root.ended)
}
