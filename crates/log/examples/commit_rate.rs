//! Measures durable commits per second of 1, 2, 4, 8 and 16 sessions, and of a bare loop of write and sync.
//!
//! `cargo run --release -p libtp-log --example commit_rate [DIRECTORY]`. Each commit is one record of 100 bytes. The
//! bare loop writes 512 bytes into a preallocated file and syncs it. Compare only figures of the same run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{record_bytes, Control, LogManager, Lsn, Settings, TxnId};
use libtp_process::ProcessManager;

const SECONDS: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = parent.join(format!("libtp-commit-rate-{}", std::process::id()));
    let outcome = measure(&path);
    std::fs::remove_dir_all(&path)?;
    outcome
}

fn measure(path: &std::path::Path) -> Result<(), Failure> {
    let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(path)?);
    println!("bare write and sync   {:8.0} per second", bare(&directory)?);
    let region = rio::Region::anonymous(1 << 28)?;
    ProcessManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &Default::default())?;
    let settings = Settings { segment_bytes_first: 64 << 20, ..Settings::default() };
    let control = Control::new([1; 16], &settings);
    LogManager::init(&region, &settings, &directory, &control, Lsn::FIRST)?;
    let log = LogManager::attach(&region, &settings, &directory, &control, &processes)?;
    for sessions in [1, 2, 4, 8, 16] {
        let (syncs, commits) = (log.fsyncs(), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<(), Failure> {
            let threads: Vec<_> =
                (0..sessions).map(|_| scope.spawn(|| client(&log, &processes, &over, &commits))).collect();
            std::thread::sleep(SECONDS);
            over.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
        })?;
        let commits = commits.into_inner() as f64;
        let each = commits / (log.fsyncs() - syncs) as f64;
        println!(
            "{sessions:2} sessions           {:8.0} per second, {each:.1} commits per sync",
            commits / SECONDS.as_secs_f64()
        );
    }
    Ok(())
}

fn client(log: &LogManager, processes: &ProcessManager, over: &AtomicBool, commits: &AtomicU64) -> Result<(), Failure> {
    let session = processes.join()?;
    while !over.load(Ordering::Relaxed) {
        log.reserve(&session, record_bytes(100))?;
        log.log_commit(&session, 1024, TxnId::new(1), Lsn::NONE, &[&[1; 100]])?;
        commits.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn bare(directory: &Arc<dyn Directory>) -> Result<f64, Failure> {
    let file = directory.open("bare", OpenMode::CreateNew)?;
    file.write_at(&vec![0; 64 << 20], 0)?;
    file.sync()?;
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < SECONDS {
        file.write_at(&[1; 512], count % (64 << 11) * 512)?;
        file.sync()?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
