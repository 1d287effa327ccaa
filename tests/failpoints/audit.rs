//! The checks when all processes but the observer have left. Nothing of dead sessions may be left in the shared memory.
//! A copy of the files stands for a crash at this moment: replaying its log must give the state that the observer sees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use libtp::{Database, Db, Env, IndexKeys, OpenedBy, Result, Txn};

use crate::{churn, several};
use libtp_tests::audit::nothing_lost;
use libtp_tests::transfers::TransferId;

/// Every record of every database.
pub type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// Opens the environment and checks it: the bank's journal has the transfers in `acknowledged`, the balances agree with
/// the journal, no database or index is damaged, and no aborted change is there. Returns the contents.
#[track_caller]
pub fn whole(directory: &Path, acknowledged: &BTreeSet<TransferId>, what: &str) -> (OpenedBy, Contents) {
    let env =
        Env::builder().log_type(churn::adding()).open(directory).unwrap_or_else(|error| panic!("{what}: {error}"));
    nothing_lost(&env, acknowledged, what);
    let indexed = env.btree(churn::INDEXED).unwrap();
    type Function = fn(&[u8], &[u8], &mut IndexKeys);
    let indices: [(_, Function); 2] =
        [(churn::FIRST_INDEX, churn::by_first_letter), (churn::SECOND_INDEX, churn::by_last_letter)];
    for (name, function) in indices {
        // Opens the index, or makes it if it was dropped.
        let index = indexed.index(name, function).unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
        let findings = index.verify(&env.snapshot().unwrap()).unwrap();
        assert!(findings.is_empty(), "{what}: {name}: {findings:?}");
    }
    let contents = contents(&env).unwrap_or_else(|error| panic!("{what}: {error}"));
    let undone = contents.get("long").into_iter().flatten().find(|(key, _)| key.starts_with(b"long/abort/"));
    assert!(undone.is_none(), "{what}: a part of a transaction that was aborted is there");
    let whole = contents.get("long").into_iter().flatten().filter(|(key, _)| key.starts_with(churn::WHOLE.as_bytes()));
    let whole: Vec<_> = whole.map(|(key, value)| (text(&key[..key.len() - 1]), value)).collect();
    let pairs_up = whole.chunks(2).all(|pair| pair.len() == 2 && pair[0] == pair[1]);
    assert!(pairs_up, "{what}: two records that transactions always give the same value differ: {whole:?}");
    (env.opened().how, contents)
}

/// Checks that the contents that the observer saw are the contents after a replay of the log.
#[track_caller]
pub fn same(seen: &Contents, replayed: &Contents, what: &str) {
    assert!(seen.keys().eq(replayed.keys()), "{what}: other database names: {:?}, {:?}", seen.keys(), replayed.keys());
    for ((name, seen), replayed) in seen.iter().zip(replayed.values()) {
        let first = seen.iter().zip(replayed).find(|(one, other)| one != other);
        let keys = first.map(|((one, _), (other, _))| format!("{:?} {:?}", text(one), text(other)));
        let (saw, logged) = (seen.len(), replayed.len());
        assert!(
            seen == replayed,
            "{what}: {name}: {saw} records were seen, {logged} were replayed; the first difference is at {keys:?}"
        );
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// The number of records read in one transaction: a transaction that locks very many records takes long. All these
/// transactions read the same state, because the environment is idle.
const PIECE: usize = 1000;

fn contents(env: &Env) -> Result<Contents> {
    let is_index =
        |name: &String| [churn::FIRST_INDEX, churn::SECOND_INDEX, churn::NO_INDEX, churn::OWN].contains(&name.as_str());
    env.databases()?
        .into_iter()
        .filter(|name| !is_index(name))
        .map(|name| Ok((name.clone(), records(env, &name)?)))
        .collect()
}

fn records(env: &Env, name: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let database = env.database(name)?;
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    loop {
        let last = records.last().map(|(key, _)| key.clone());
        if let Database::Hash(hash) = &database {
            return env.run(|txn| everything(hash, txn));
        }
        let piece = env.run(|txn| match &database {
            Database::Hash(_) | Database::Index(_) => Ok(Vec::new()),
            Database::Multi(_) if last.is_some() => Ok(Vec::new()),
            Database::Multi(several) => several::audit(several, txn),
            Database::Btree(tree) => keys_after(tree, txn, last.as_deref()),
            Database::Recno(numbers) => {
                let mut cursor = numbers.cursor(txn);
                numbers_after(last.as_deref(), |to| match to {
                    Some(to) => cursor.seek(to),
                    None => cursor.next(),
                })
            }
            Database::List(list) => {
                let mut cursor = list.cursor(txn);
                numbers_after(last.as_deref(), |to| match to {
                    Some(to) => cursor.seek(to),
                    None => cursor.next(),
                })
            }
        })?;
        if piece.is_empty() {
            return Ok(records);
        }
        records.extend(piece);
    }
}

fn keys_after(tree: &Db, txn: &Txn<'_>, last: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut cursor, mut piece) = (tree.cursor(txn), Vec::new());
    let mut pair = cursor.seek(last.unwrap_or_default())?;
    while let Some((key, value)) = pair.filter(|_| piece.len() < PIECE) {
        if last != Some(&key) {
            piece.push((key, value));
        }
        pair = cursor.next()?;
    }
    Ok(piece)
}

/// Returns all records, sorted by their keys: a hash file has no order.
fn everything(hash: &Db, txn: &Txn<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut cursor, mut all) = (hash.cursor(txn), Vec::new());
    let mut pair = cursor.first()?;
    while let Some(record) = pair {
        all.push(record);
        pair = cursor.next()?;
    }
    all.sort();
    Ok(all)
}

/// Returns some numbered records after `last`. `read` seeks to a number, or returns the next record.
fn numbers_after(
    last: Option<&[u8]>,
    mut read: impl FnMut(Option<u64>) -> Result<Option<(u64, Vec<u8>)>>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let last = last.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    let (mut record, mut piece) = (read(Some(last + 1))?, Vec::new());
    while let Some((number, bytes)) = record.filter(|_| piece.len() < PIECE) {
        piece.push((number.to_be_bytes().to_vec(), bytes));
        record = read(None)?;
    }
    Ok(piece)
}

/// Copies the files of an idle environment. An opening of the copy makes new shared memory.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
