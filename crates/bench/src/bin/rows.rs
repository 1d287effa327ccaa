//! Plain records beside the peers: `cargo xtask bench rows`, with the options
//! `--records N --rounds N --dir DIR --peers none|light|all --engines NAME,NAME`.
//!
//! In each round every engine takes its turn at each step, in a directory of its own under `--dir`, which is removed:
//! sorted records into an empty database; records in random order, a thousand in each transaction; random gets; all
//! records in order, three times, of which the best counts. The output has the medians of the rounds, and their ratios
//! to the first engine, libtp.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use libtp_bench::rows::{bytes_in, engines, shuffled, sorted, Contender, Open, Pair};
use libtp_bench::{median, EngineKind, Error, Result};

const STEPS: [&str; 5] = ["load sorted", "insert random", "get random", "scan, loaded", "scan, inserted"];
const GETS: usize = 500_000;

struct Wanted {
    records: u32,
    rounds: usize,
    directory: PathBuf,
    /// The peers to measure; by default all that were built in.
    peers: Option<Vec<EngineKind>>,
    /// The engines to measure; all if empty.
    engines: Vec<String>,
}

/// Records per second of each step, and bytes after loading and after inserting.
struct Measured {
    rates: [f64; 5],
    bytes: [u64; 2],
}

fn main() -> ExitCode {
    match wanted(std::env::args().skip(1)).and_then(|wanted| run(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rows: {error}");
            ExitCode::from(1)
        }
    }
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<Wanted> {
    let (directory, engines) = (std::env::temp_dir(), Vec::new());
    let mut wanted = Wanted { records: 1_000_000, rounds: 3, directory, peers: None, engines };
    let unknown = |word: &str| {
        Error::Settings(format!(
            "{word}: --records N, --rounds N, --dir DIR, --peers none|light|all and --engines NAME,NAME are known"
        ))
    };
    while let Some(word) = arguments.next() {
        let (word, value) = match word.split_once('=') {
            Some((word, value)) => (word.to_owned(), value.to_owned()),
            None => {
                let value = arguments.next().ok_or_else(|| unknown(&word))?;
                (word, value)
            }
        };
        match word.as_str() {
            "--records" => wanted.records = value.parse().map_err(|_| unknown(&value))?,
            "--rounds" => wanted.rounds = value.parse().map_err(|_| unknown(&value))?,
            "--peers" => wanted.peers = Some(peers(&value).ok_or_else(|| unknown(&value))?),
            "--engines" => wanted.engines = value.split(',').map(str::to_owned).collect(),
            "--dir" => wanted.directory = PathBuf::from(value),
            _ => return Err(unknown(&word)),
        }
    }
    if wanted.records == 0 || wanted.rounds == 0 {
        return Err(Error::Settings("at least one record and one round are needed".into()));
    }
    Ok(wanted)
}

fn peers(named: &str) -> Option<Vec<EngineKind>> {
    match named {
        "none" => Some(Vec::new()),
        "light" => Some(EngineKind::LIGHT.to_vec()),
        "all" => Some([&EngineKind::LIGHT[..], &EngineKind::HEAVY[..]].concat()),
        _ => None,
    }
}

/// Returns the wanted engines of this build, libtp first.
fn contenders(wanted: &Wanted) -> Result<Vec<Contender>> {
    wanted.peers.iter().flatten().try_for_each(|peer| peer.check_built_in())?;
    let is_asked_for = |peer| wanted.peers.as_ref().is_none_or(|peers| peers.contains(&peer));
    let mut engines = engines();
    engines.retain(|engine| engine.peer.is_none_or(is_asked_for));
    let known = engines.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = wanted.engines.iter().find(|name| !engines.iter().any(|engine| engine.name == **name)) {
        return Err(Error::Settings(format!("{unknown} is not to be measured here: there are {known}")));
    }
    engines.retain(|engine| wanted.engines.is_empty() || wanted.engines.iter().any(|name| name == engine.name));
    Ok(engines)
}

fn run(wanted: &Wanted) -> Result<()> {
    let engines = contenders(wanted)?;
    let directory = wanted.directory.join(format!("libtp-rows-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
    let done = measure(wanted, &engines, &directory);
    let removed = std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory));
    done.and(removed)
}

fn measure(wanted: &Wanted, engines: &[Contender], directory: &Path) -> Result<()> {
    let in_order = sorted(wanted.records);
    let at_random = shuffled(in_order.clone());
    let mut all: Vec<Vec<Measured>> = engines.iter().map(|_| Vec::new()).collect();
    for round in 0..wanted.rounds {
        for (Contender { name, open, .. }, measured) in engines.iter().zip(&mut all) {
            eprintln!("round {} of {}: {name}", round + 1, wanted.rounds);
            measured.push(one_round(*open, &directory.join(name), &in_order, &at_random)?);
        }
    }
    println!("{} records of 100 bytes, medians of {} rounds", wanted.records, wanted.rounds);
    println!("{:16} {:>10} {:>12} {:>12}", "step", "engine", "records/s", format!("of {}'s", engines[0].name));
    for (at, step) in STEPS.into_iter().enumerate() {
        let rate = |measured: &[Measured]| median(measured.iter().map(|one| one.rates[at])).unwrap_or(0.0);
        let ours = rate(&all[0]);
        for (Contender { name, .. }, measured) in engines.iter().zip(&all) {
            let rate = rate(measured);
            println!("{step:16} {name:>10} {rate:>12.0} {:>12.2}", rate / ours);
        }
    }
    for (at, step) in ["bytes, loaded", "bytes, inserted"].into_iter().enumerate() {
        for (Contender { name, .. }, measured) in engines.iter().zip(&all) {
            println!("{step:16} {name:>10} {:>12}", measured.last().map_or(0, |one| one.bytes[at]));
        }
    }
    Ok(())
}

fn one_round(open: Open, directory: &Path, in_order: &[Pair], at_random: &[Pair]) -> Result<Measured> {
    let (mut rates, mut bytes) = ([0.0; 5], [0; 2]);
    let per_second = |count: usize, begin: Instant| count as f64 / begin.elapsed().as_secs_f64();
    for is_sorted in [true, false] {
        let path = directory.join(if is_sorted { "loaded" } else { "inserted" });
        std::fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        let rows = open(&path)?;
        let begin = Instant::now();
        match is_sorted {
            true => rows.load_sorted(in_order)?,
            false => rows.insert(at_random)?,
        }
        rows.settle()?;
        rates[usize::from(!is_sorted)] = per_second(in_order.len(), begin);
        bytes[usize::from(!is_sorted)] = bytes_in(&path)?;
        if is_sorted {
            let keys = || at_random.iter().map(|(key, _)| key).cycle().take(GETS);
            // The first run warms the caches.
            rows.get(&mut keys())?;
            let begin = Instant::now();
            let read = rows.get(&mut keys())?;
            rates[2] = per_second(GETS, begin);
            expect(read, GETS * at_random[0].1.len())?;
        }
        let scan = |_| {
            let begin = Instant::now();
            expect(rows.scan()?, size_of_val(in_order))?;
            Ok(per_second(in_order.len(), begin))
        };
        let scans = (0..3).map(scan).collect::<Result<Vec<f64>>>()?;
        rates[if is_sorted { 3 } else { 4 }] = scans.into_iter().fold(0.0, f64::max);
        drop(rows);
        std::fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
    }
    Ok(Measured { rates, bytes })
}

fn expect(read: u64, bytes: usize) -> Result<()> {
    match usize::try_from(read) {
        Ok(read) if read == bytes => Ok(()),
        _ => Err(Error::Settings(format!(
            "an engine gave {read} bytes where {bytes} were put: its figures count for nothing"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<&'static str>> {
        let wanted = wanted(line.split(' ').map(str::to_owned))?;
        Ok(contenders(&wanted)?.into_iter().map(|engine| engine.name).collect())
    }

    #[test]
    fn nobody_else_is_measured_if_nobody_is_asked_for() {
        assert_eq!(of("--records 10 --peers none").unwrap(), ["libtp", "dense"]);
        assert_eq!(of("--peers=none --engines=dense").unwrap(), ["dense"]);
    }

    #[test]
    fn who_was_left_out_of_the_build_or_of_the_peers_is_no_silence() {
        for (peers, kinds) in [("light", &EngineKind::LIGHT[..]), ("all", &EngineKind::HEAVY[..])] {
            let measured = of(&format!("--records 10 --peers {peers}"));
            match kinds.iter().find(|kind| !kind.is_built_in()) {
                None => assert!(measured.unwrap().len() >= 2 + kinds.len()),
                Some(_) => assert!(measured.unwrap_err().to_string().contains("--features peers")),
            }
        }
        assert!(of("--peers none --engines libtp,LMDB").unwrap_err().to_string().contains("LMDB is not"));
        assert!(of("--records 10 --peers some").unwrap_err().to_string().contains("some:"));
    }
}
