//! Checks after every process but the observer has left: the shared memory is at rest, with nothing of dead sessions
//! in it; and the log is complete, in a copy of the files, which is the state after a crash at this moment.

use std::collections::BTreeMap;
use std::path::Path;

use libtp::{Database, Db, Env, How, IndexKeys, List, Recno, Result, Txn};

use crate::bank::Bank;
use crate::{churn, several};

/// Every record of every database.
pub type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// Checks that nothing is left of dead sessions: no latch, no pin, no lock, no frame in hand, no page that cannot be
/// written. The caller is the only attached process.
#[track_caller]
pub fn at_rest(env: &Env, what: &str) {
    let managers = env.managers();
    let dead = managers.processes.dead_sessions();
    assert!(dead.is_empty(), "{what}: still dead: {dead:?}");
    let running = env.transactions();
    assert!(running.is_empty(), "{what}: transactions of nobody: {running:?}");
    let census = managers.locks.check().unwrap_or_else(|broken| panic!("{what}: the lock table: {broken}"));
    assert_eq!((census.granted, census.waiting), (0, 0), "{what}: locks of nobody: {census:?}");
    let sessions = managers.processes.sessions().len() as u64;
    assert!(census.lockers <= sessions, "{what}: lockers of nobody, beside {sessions} sessions: {census:?}");
    // First the checkpoint: a session takes a dead session's task over when it next has that task.
    assert!(env.checkpoint().unwrap(), "{what}: somebody else takes a checkpoint");
    assert_eq!(managers.buffers.dirty_count(), 0, "{what}: pages that nobody can write");
    managers.buffers.check_at_rest();
}

/// Opens the environment and checks that it is whole: the bank's journal holds the transfers in `acknowledged`,
/// balances agree, every page fits its neighbours, and no aborted change is there.
#[track_caller]
pub fn whole(directory: &Path, acknowledged: &std::collections::BTreeSet<(u64, u64)>, what: &str) -> (How, Contents) {
    let env =
        Env::builder().log_type(churn::adding()).open(directory).unwrap_or_else(|error| panic!("{what}: {error}"));
    let journal = Bank::open(&env).unwrap().audit().unwrap_or_else(|why| panic!("{what}: {why}"));
    let lost: Vec<_> = acknowledged.difference(&journal).collect();
    assert!(lost.is_empty(), "{what}: {} acknowledged transfers are lost, the first {:?}", lost.len(), lost[0]);
    for name in env.databases().unwrap() {
        let verified = env.verify(&name).unwrap();
        assert!(verified.findings.is_empty(), "{what}: {name}: {:?}", verified.findings);
    }
    let indexed = env.btree(churn::INDEXED).unwrap();
    type Function = fn(&[u8], &[u8], &mut IndexKeys);
    let indices: [(_, Function); 2] =
        [(churn::FIRST_INDEX, churn::by_first_letter), (churn::SECOND_INDEX, churn::by_last_letter)];
    for (name, function) in indices {
        // If the index was not dropped, it is opened, and otherwise it is made.
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
    assert!(pairs_up, "{what}: of a transaction that kept all but a part, some is not as it left it: {whole:?}");
    (env.opened().how, contents)
}

/// Checks that the survivors saw the same state as the log gives.
#[track_caller]
pub fn same(seen: &Contents, replayed: &Contents, what: &str) {
    assert!(seen.keys().eq(replayed.keys()), "{what}: other databases: {:?}, {:?}", seen.keys(), replayed.keys());
    for ((name, seen), replayed) in seen.iter().zip(replayed.values()) {
        let first = seen.iter().zip(replayed).find(|(one, other)| one != other);
        let keys = first.map(|((one, _), (other, _))| format!("{:?} {:?}", text(one), text(other)));
        let (saw, logged) = (seen.len(), replayed.len());
        assert!(
            seen == replayed,
            "{what}: {name}: {saw} records were seen, {logged} are in the log, apart at {keys:?}"
        );
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// Records read in one transaction: the environment is idle, and a transaction that locks very many records takes
/// long.
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
            Database::Recno(numbers) => numbers_after(numbers, txn, last.as_deref()),
            Database::List(list) => list_after(list, txn, last.as_deref()),
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

/// Returns all records in the order of their keys, which a hash file does not have.
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

fn numbers_after(numbers: &Recno, txn: &Txn<'_>, last: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let last = last.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    let (mut cursor, mut piece) = (numbers.cursor(txn), Vec::new());
    let mut record = cursor.seek(last + 1)?;
    while let Some((number, bytes)) = record.filter(|_| piece.len() < PIECE) {
        piece.push((number.to_be_bytes().to_vec(), bytes));
        record = cursor.next()?;
    }
    Ok(piece)
}

/// Copies the files of an idle environment. The copy makes its own memory beside it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn list_after(list: &List, txn: &Txn<'_>, last: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let last = last.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    let (mut cursor, mut piece) = (list.cursor(txn), Vec::new());
    let mut record = cursor.seek(last + 1)?;
    while let Some((number, bytes)) = record.filter(|_| piece.len() < PIECE) {
        piece.push((number.to_be_bytes().to_vec(), bytes));
        record = cursor.next()?;
    }
    Ok(piece)
}
