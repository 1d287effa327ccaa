//! Samples of sizes and times of the whole environment, taken while no worker runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use libtp_histogram::Histogram;

use crate::house::House;

/// One sample. Its latencies are of the operations since the previous sample. Sizes are in bytes, times in nanoseconds.
#[derive(Clone)]
pub struct Sample {
    /// Operations since the beginning.
    pub operations: u64,
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Size of each database's file.
    pub files: BTreeMap<String, u64>,
    /// Size of the log's files.
    pub log: u64,
    /// Size of the other files in the environment's directory.
    pub beside: u64,
    /// The region's allocated bytes.
    pub region_used: u64,
    /// The region's bytes that are backed by memory.
    pub region: u64,
    /// The process's resident memory.
    pub resident: u64,
    /// The anonymous part of the resident memory.
    pub own: u64,
    /// Number of locks that are held.
    pub locks: usize,
    pub checkpoints: u64,
    pub operation: Latency,
    pub commit: Latency,
}

#[derive(Clone, Copy, Default)]
pub struct Latency {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl Latency {
    fn of(histogram: &Histogram) -> Latency {
        Latency { p50: histogram.permille(500), p99: histogram.permille(990), max: histogram.max() }
    }
}

/// Pages of one database.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pages {
    pub used: u64,
    pub free: u64,
    pub ghosts: u64,
}

impl Pages {
    pub fn all(self) -> u64 {
        self.used + self.free
    }
}

impl Sample {
    pub fn take(house: &House, operations: u64, seconds: f64, done: &Histogram, commits: &Histogram) -> Sample {
        let stats = house.env.stats().unwrap();
        let mut files = BTreeMap::new();
        let (mut log, mut beside) = (0, 0);
        for entry in fs::read_dir(&house.path).unwrap() {
            let entry = entry.unwrap();
            // A log file may have been removed since the directory was read.
            let Ok(bytes) = entry.metadata().map(|metadata| metadata.len()) else { continue };
            let name = entry.file_name().into_string().unwrap();
            if let Some(database) = name.strip_suffix(".tp") {
                files.insert(database.to_owned(), bytes);
            } else if name.starts_with("log.") {
                log += bytes;
            } else {
                beside += bytes;
            }
        }
        Sample {
            operations,
            seconds,
            files,
            log,
            beside,
            region_used: stats.region_used,
            region: stats.region_allocated,
            resident: of_process("VmRSS:"),
            own: of_process("RssAnon:"),
            locks: house.env.locks().unwrap().len(),
            checkpoints: stats.checkpoints,
            operation: Latency::of(done),
            commit: Latency::of(commits),
        }
    }

    /// Returns the size of all databases.
    pub fn data(&self) -> u64 {
        self.files.values().sum()
    }
}

/// Verifies each database by reading all of its pages. Returns the page counts.
pub fn pages(house: &House) -> BTreeMap<String, Pages> {
    let mut found = BTreeMap::new();
    for name in house.env.databases().unwrap() {
        let verified = house.env.verify(&name).unwrap();
        assert!(verified.findings.is_empty(), "{name}: {:?}", verified.findings);
        let used = verified.tree_pages + verified.value_pages;
        found.insert(name, Pages { used, free: verified.free_pages, ghosts: verified.ghosts });
    }
    found
}

/// Returns the number of bytes that `/proc/self/status` has after `word`.
fn of_process(word: &str) -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(word)).expect("the kernel counts resident pages");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
