//! Stores to segments, the check of their contents, and the main loop, in which stores to segments and transfers of
//! records alternate.
//!
//! One segment is in memory that a warm start keeps. Two segments are controls. The control in the page cache of a disk
//! must lose stores. The control without before-images (a planted bug) must be torn.

use std::path::Path;
use std::time::{Duration, Instant};

use vista::{Options, Segment, Survives};

use crate::business::{judge, transact, Draw};
use crate::port::Port;
use crate::records::Books;

const MEMORY: &str = "/p/segment";
const CACHE: &str = "/d/segment";
const TORN: &str = "/p/torn";
const BOOTS: &str = "/p/boots";
const BYTES: u64 = 256 << 10;
/// The longest ranges and blocks, in bytes.
const LONGEST: u64 = 3000;

/// Returns how often the machine was started before.
pub fn boots() -> usize {
    std::fs::read_to_string(BOOTS).map_or(0, |text| text.trim().parse().unwrap())
}

/// Stores how often the machine was started.
pub fn set_boots(boots: usize) {
    std::fs::write(BOOTS, boots.to_string()).unwrap();
    std::fs::File::open(BOOTS).unwrap().sync_all().unwrap();
    std::fs::File::open("/p").unwrap().sync_all().unwrap();
}

/// Prints the state after a crash.
pub fn look() {
    let declared = |options: Options| options.survives(Survives::System);
    for (name, path, options) in [("memory", MEMORY, Options::new(0)), ("cache", CACHE, declared(Options::new(0)))] {
        let found = match options.open(Path::new(path)) {
            Err(error) => format!("bad {error}"),
            Ok(segment) => match judge(&segment) {
                Err(what) => format!("bad {what}"),
                Ok(ended) => {
                    let (survives, blocks) = (segment.survives(), segment.verify().unwrap().blocks);
                    format!("ended={ended} rolled_back={} blocks={blocks} survives={survives:?}", segment.rolled_back())
                }
            },
        };
        println!("LAB FOUND {name} {}", found.replace('\n', " "));
    }
    let torn = Options::new(0).open(Path::new(TORN)).map_err(|error| error.to_string());
    let torn = torn.and_then(|segment| judge(&segment)).map_or_else(|what| what, |_| "whole".into());
    println!("LAB FOUND torn {}", torn.replace('\n', " "));
}

/// Works until the machine crashes. Calls `begun` once the work has started.
#[allow(clippy::zombie_processes)] // It ends with the machine.
pub fn work(seed: u64, (mut records, mut lost): (Books, Books), begun: impl FnOnce()) {
    for control in [CACHE, TORN] {
        let _ = std::fs::remove_file(control);
    }
    let mut tears = std::process::Command::new("/init").arg("torn").spawn().unwrap();
    let mut memory = Options::new(BYTES).open(Path::new(MEMORY)).unwrap();
    // The segment is opened without a declaration that it survives, so that nothing is synced. After the crash, `look`
    // opens the same file and declares that it survived, so that the library trusts it.
    let mut cache = Options::new(BYTES).open(Path::new(CACHE)).unwrap();
    println!("LAB MEMORY survives {:?}, {}", memory.survives(), mapped());
    let (port, mut draw, mut other) = (Port::open(), Draw(seed), Draw(seed));
    let before = judge(&memory).unwrap();
    port.began(before);
    port.committed('R', records.last());
    port.committed('L', lost.last());
    let mut begun = Some(begun);
    loop {
        let ended = step(&mut memory, &mut draw);
        step(&mut cache, &mut other);
        port.ended(ended);
        port.committed('r', records.step(&mut draw));
        port.committed('l', lost.step(&mut other));
        if ended > before + 50 {
            if let Some(begun) = begun.take() {
                assert!(tears.try_wait().unwrap().is_none(), "the process that tears has ended");
                begun();
            }
        }
    }
}

/// Runs transactions until one ends. Returns the number of ended transactions.
fn step(segment: &mut Segment, draw: &mut Draw) -> u64 {
    loop {
        if let Some(ended) = transact(segment, draw, LONGEST) {
            return ended;
        }
    }
}

/// Returns how the kernel has mapped the segment. The flag `sf` marks a mapping whose file metadata is durable before
/// the first store.
fn mapped() -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut ours = maps.lines().skip_while(|line| !line.ends_with(MEMORY));
    let flags = ours.find(|line| line.starts_with("VmFlags:")).unwrap_or_default();
    format!("mapped{}", if flags.split_whitespace().any(|flag| flag == "sf") { " synchronously" } else { "" })
}

/// Runs transactions without before-images, with a pause between the two stores of each transaction.
pub fn tear() -> ! {
    rio::planted::plant(Some("rio: changes of areas save no before-images"));
    let mut segment = Options::new(BYTES).open(Path::new(TORN)).unwrap();
    loop {
        let mut txn = segment.begin();
        for (at, less) in [(0, true), (4088, false)] {
            let cell = txn.set_range(at, 8).unwrap();
            let value = u64::from_ne_bytes(cell.try_into().unwrap());
            let value = if less { value.wrapping_sub(1) } else { value.wrapping_add(1) };
            cell.copy_from_slice(&value.to_ne_bytes());
            let start = Instant::now();
            while less && start.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
        }
        txn.end().unwrap();
    }
}
