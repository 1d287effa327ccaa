//! Measures the cost of an append, and of a bare loop that copies the same bytes and computes the same checksum.
//!
//! `cargo run --release -p libtp-log --example append_cost`. One thread appends records with bodies of 100 bytes, and
//! nothing is flushed while the clock runs. The figures are the fastest of twenty rounds, in nanoseconds.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use libtp_io::{Directory, PosixDirectory};
use libtp_log::{record_bytes, Control, LogManager, Lsn, Settings, TxnId, RECORD_HEADER_BYTES};
use libtp_process::{Latch, ProcessManager, Rank, Session};

const APPENDS: usize = 50_000;
const ROUNDS: usize = 20;
const BODY_BYTES: usize = 100;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("libtp-append-cost-{}", std::process::id()));
    let outcome = measure(&path);
    std::fs::remove_dir_all(&path)?;
    outcome
}

fn measure(path: &std::path::Path) -> Result<(), Failure> {
    let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(path)?);
    let region = rio::Region::anonymous(1 << 28)?;
    ProcessManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &Default::default())?;
    let session = processes.join()?;
    let settings = Settings { ring_bytes_max: 64 << 20, ..Settings::default() };
    let control = Control::new([1; 16], &settings);
    LogManager::init(&region, &settings, &directory, &control, Lsn::FIRST)?;
    let log = LogManager::attach(&region, &settings, &directory, &control, &processes)?;
    let latch = region.hold(region.allocate::<Latch>(1)?);

    let body = [7_u8; BODY_BYTES];
    let mut append = f64::MAX;
    let mut reserve = f64::MAX;
    for _ in 0..ROUNDS {
        // Reserves a whole round, so that the ring and the files have room before the clock runs.
        warm(&log, &session, &body)?;
        append = append.min(per_append(|| {
            let lsn = log.log(&session, 1024, TxnId::new(9), Lsn::FIRST, &[black_box(&body)]);
            session.clear_append();
            black_box(lsn);
        }));
        log.force(&session, log.tail().minus(8))?;
        reserve = reserve.min(per_append(|| log.reserve(&session, record_bytes(BODY_BYTES)).unwrap_or(())));
    }
    let latched = fastest(|| drop(black_box(&latch).exclusive(&session, Rank::LOG_APPEND)));
    let mut place = vec![0_u8; 64 << 20];
    let mut at = 0;
    let bare = fastest(|| {
        let record = record_bytes(BODY_BYTES);
        let (from, to) = (at, at + record);
        let body_at = from + RECORD_HEADER_BYTES;
        place[body_at..body_at + BODY_BYTES].copy_from_slice(black_box(&body));
        let crc = crc32c::crc32c(&place[from..to]);
        place[from..from + 4].copy_from_slice(&crc.to_le_bytes());
        at = to % (APPENDS * record);
    });
    println!("{APPENDS} appends of {BODY_BYTES} bytes, nanoseconds per append in the fastest of {ROUNDS} rounds");
    println!("append                      {append:6.1}");
    println!("reserve                     {reserve:6.1}");
    println!("latch and unlatch           {latched:6.1}");
    println!("bare copy and checksum      {bare:6.1}");
    Ok(())
}

/// Makes room for a whole round.
fn warm(log: &LogManager, session: &Session, body: &[u8]) -> Result<(), Failure> {
    log.reserve(session, APPENDS * record_bytes(body.len()))?;
    Ok(())
}

fn per_append(mut one: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..APPENDS {
        one();
    }
    begun.elapsed().as_secs_f64() * 1e9 / APPENDS as f64
}

fn fastest(mut one: impl FnMut()) -> f64 {
    (0..ROUNDS).map(|_| per_append(&mut one)).fold(f64::MAX, f64::min)
}
