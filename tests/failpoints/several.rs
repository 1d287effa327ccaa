//! Keys with several values. A transaction puts a value under two keys; after kills, the value must be under both keys
//! or under neither.

use libtp::{Duplicates, Env, Multi, Result, Txn};
use libtp_sim::Random;

/// The names of the databases: with sorted values, and with values in the order of insertion.
pub const NAMES: [&str; 2] = ["several sorted", "several as they came"];
/// The number of pairs of keys.
const PAIRS: u64 = 12;
/// The largest number of values of a key. If a key has more, all its values are deleted.
const VALUES: u64 = 60;

/// Opens the databases, or makes them.
pub fn open(env: &Env) -> Result<[Multi; 2]> {
    Ok([env.multi(NAMES[0], Duplicates::Sorted)?, env.multi(NAMES[1], Duplicates::AsTheyCame)?])
}

/// Puts the same value under both keys of a pair, or deletes one value or all values of both keys.
pub fn change(database: &Multi, txn: &Txn<'_>, random: &mut Random) -> Result<()> {
    let keys = keys(random.below(PAIRS));
    let first = database.values(txn, &keys[0])?.into_iter().next();
    let is_full = database.count(txn, &keys[0])? > VALUES;
    let value = vec![b'0' + u8::try_from(random.below(10)).unwrap(); 8 + random.index(120)];
    let goes = first.filter(|_| random.chance(1, 3));
    for key in &keys {
        match &goes {
            _ if is_full => drop(database.delete(txn, key)?),
            Some(gone) => drop(database.delete_value(txn, key, gone)?),
            None => drop(database.put(txn, key, &value)?),
        }
    }
    Ok(())
}

/// Returns every key with each of its values. Panics if the two keys of a pair have different values.
pub fn audit(database: &Multi, txn: &Txn<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    for pair in 0..PAIRS {
        let [left, right] = keys(pair);
        let (mut one, mut other) = (database.values(txn, &left)?, database.values(txn, &right)?);
        all.extend(one.iter().map(|value| (left.clone(), value.clone())));
        all.extend(other.iter().map(|value| (right.clone(), value.clone())));
        // Two concurrent transactions may insert their values under the two keys in different orders.
        one.sort();
        other.sort();
        assert_eq!(one, other, "{}: the two keys of pair {pair} have different values", database.name());
    }
    Ok(all)
}

fn keys(pair: u64) -> [Vec<u8>; 2] {
    ["left", "right"].map(|side| format!("{side}/{pair:02}").into_bytes())
}
