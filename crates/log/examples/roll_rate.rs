//! Measures how fast restart reads a log: `log_roll` over segment files, and the search for the log's end.
//!
//! `cargo run --release -p libtp-log --example roll_rate [MEGABYTES]`. The records have bodies of 100 bytes, and the
//! files are in the page cache.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use libtp_io::{Directory, PosixDirectory};
use libtp_log::{find_end, record_bytes, Control, LogFiles, LogManager, Lsn, Settings, TxnId};
use libtp_process::ProcessManager;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let megabytes = std::env::args().nth(1).map_or(Ok(256), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("libtp-roll-rate-{}", std::process::id()));
    let outcome = measure(&path, megabytes);
    std::fs::remove_dir_all(&path)?;
    outcome
}

fn measure(path: &Path, megabytes: u64) -> Result<(), Failure> {
    let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(path)?);
    let region = rio::Region::anonymous(1 << 28)?;
    ProcessManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &Default::default())?;
    let session = processes.join()?;
    let settings = Settings::default();
    let control = Control::new([1; 16], &settings);
    LogManager::init(&region, &settings, &directory, &control, Lsn::FIRST)?;
    let log = LogManager::attach(&region, &settings, &directory, &control, &processes)?;
    let begun = Instant::now();
    while log.tail() < Lsn::new(megabytes << 20) {
        log.reserve(&session, record_bytes(100))?;
        log.log(&session, 1024, TxnId::new(1), Lsn::NONE, &[&[1; 100]]);
        session.clear_append();
    }
    log.force_all(&session)?;
    let rate = |seconds: f64| megabytes as f64 / seconds;
    println!("written and synced  {:6.0} MiB/s", rate(begun.elapsed().as_secs_f64()));

    let files = LogFiles::new(Arc::clone(&directory), &control);
    let begun = Instant::now();
    let (mut records, mut bytes) = (0_u64, 0_usize);
    let mut roll = files.roll(Lsn::FIRST, log.durable());
    while let Some(record) = roll.next_record() {
        records += 1;
        bytes += record?.body.len();
    }
    println!(
        "read by log_roll    {:6.0} MiB/s  ({records} records, {bytes} bytes of bodies)",
        rate(begun.elapsed().as_secs_f64())
    );
    let begun = Instant::now();
    let end = find_end(&files, &control, &settings)?;
    println!("search for the end  {:6.0} MiB/s", rate(begun.elapsed().as_secs_f64()));
    assert_eq!(end.end, log.durable());
    let near = Control { durable_end: log.durable(), ..control };
    let begun = Instant::now();
    find_end(&files, &near, &settings)?;
    println!("search for the end from a checkpoint just before it: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
