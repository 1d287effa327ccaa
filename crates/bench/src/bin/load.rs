//! What it costs to fill a database: `cargo run --release -p libtp-bench --bin load -- --records N --dir DIR`, with `--features peers`
//! beside LMDB.
//!
//! Records of 100 bytes, 16 of them the key, decimal digits. Four ways: sorted and all at once, in random order and all at once,
//! sorted and put one by one, in random order and put one by one (a thousand a transaction, relaxed, synced at the end). LMDB
//! appends what is sorted and puts what is not, in one transaction each. Each way has an environment of its own under `--dir`, which is
//! removed. Bytes are those of the data file.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use libtp::{Durability, Env, Load};
use libtp_bench::{Error, Result};

/// The library's errors, as the benchmark's.
fn refused(what: &'static str) -> impl FnOnce(libtp::Error) -> Error {
    Error::engine("libtp", what)
}

const VALUE_BYTES: usize = 84;
/// Records of a transaction.
const BATCH: usize = 1000;

type Pairs = Vec<([u8; 16], [u8; VALUE_BYTES])>;

fn main() -> ExitCode {
    match wanted(std::env::args().skip(1)).and_then(|(records, directory)| run(records, &directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::from(1)
        }
    }
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<(u32, PathBuf)> {
    let (mut records, mut directory) = (1_000_000, std::env::temp_dir());
    let unknown = |word: &str| Error::Settings(format!("{word}: --records N and --dir DIR are known"));
    while let Some(word) = arguments.next() {
        let value = arguments.next().ok_or_else(|| unknown(&word))?;
        match word.as_str() {
            "--records" => records = value.parse().map_err(|_| unknown(&value))?,
            "--dir" => directory = PathBuf::from(value),
            _ => return Err(unknown(&word)),
        }
    }
    Ok((records, directory))
}

/// The records in order, with values that compress to nothing.
fn sorted(records: u32) -> Pairs {
    let pair = |number: u32| {
        let (mut key, mut value) = ([b'0'; 16], [0; VALUE_BYTES]);
        key.copy_from_slice(format!("{number:016}").as_bytes());
        value
            .iter_mut()
            .zip(number.to_le_bytes().iter().cycle())
            .for_each(|(byte, from)| *byte = from.wrapping_mul(31));
        (key, value)
    };
    (0..records).map(pair).collect()
}

/// The same, shuffled, always alike.
fn shuffled(mut pairs: Pairs) -> Pairs {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..pairs.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (at as u64 + 1)).unwrap_or(at);
        pairs.swap(at, other);
    }
    pairs
}

fn run(records: u32, directory: &Path) -> Result<()> {
    let directory = directory.join(format!("libtp-load-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
    let done = measure(records, &directory);
    let removed = std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory));
    done.and(removed)
}

fn measure(records: u32, directory: &Path) -> Result<()> {
    let in_order = sorted(records);
    let at_random = shuffled(in_order.clone());
    println!("{records} records of 100 bytes");
    let say = |what: &str, begin: Instant, bytes: u64| {
        let seconds = begin.elapsed().as_secs_f64();
        println!("{what:28} {:>10.0} records/s  {bytes:>12} bytes", f64::from(records) / seconds);
    };
    for (what, pairs, how) in
        [("libtp load sorted", &in_order, Load::sorted()), ("libtp load random", &at_random, Load::unsorted())]
    {
        let (path, env) = environment(directory, what)?;
        let db = env.btree("records").map_err(refused("opening"))?;
        let begin = Instant::now();
        db.load(&how, pairs.iter().map(|(key, value)| (key, value))).map_err(refused("loading"))?;
        env.checkpoint().map_err(refused("checkpointing"))?;
        say(what, begin, bytes_of(&path.join("records.tp"))?);
    }
    for (what, pairs) in [("libtp put sorted", &in_order), ("libtp put random", &at_random)] {
        let (path, env) = environment(directory, what)?;
        let db = env.btree("records").map_err(refused("opening"))?;
        let begin = Instant::now();
        for batch in pairs.chunks(BATCH) {
            env.run_with(Durability::Relaxed, |txn| batch.iter().try_for_each(|(key, value)| db.put(txn, key, value)))
                .map_err(refused("putting"))?;
        }
        env.flush().map_err(refused("flushing"))?;
        env.checkpoint().map_err(refused("checkpointing"))?;
        say(what, begin, bytes_of(&path.join("records.tp"))?);
    }
    #[cfg(feature = "peers")]
    for (what, pairs, is_sorted) in [("lmdb append sorted", &in_order, true), ("lmdb put random", &at_random, false)] {
        let path = directory.join(what);
        std::fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        let begin = Instant::now();
        libtp_bench::engine_lmdb::load_pairs(
            &path,
            pairs.iter().map(|(key, value)| (&key[..], &value[..])),
            is_sorted,
        )?;
        say(what, begin, bytes_of(&path.join("data.mdb"))?);
    }
    Ok(())
}

fn environment(directory: &Path, what: &str) -> Result<(PathBuf, Env)> {
    let path = directory.join(what.replace(' ', "-"));
    let env = Env::builder().memory(libtp::Bytes::mib(256)).open(&path).map_err(refused("opening"))?;
    Ok((path, env))
}

fn bytes_of(file: &Path) -> Result<u64> {
    Ok(std::fs::metadata(file).map_err(Error::file("look at", file))?.len())
}
