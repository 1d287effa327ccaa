//! Tests of a process with limited memory: it uses a database that is larger than the limit, and the audit accepts the
//! database.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::memory::serve_memory;

const VARIABLE: &str = "LIBTP_BENCH_TEST_JOB";

/// Returns the command that runs this test program again as the limited process.
fn start(job: &str) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "--nocapture", "--quiet", "memory::bounded::tests::the_process"]).env(VARIABLE, job);
    again
}

/// The limited process. It is no test: the other tests start it.
#[test]
fn the_process() {
    let Ok(job) = std::env::var(VARIABLE) else { return };
    let mut answer = Vec::new();
    serve_memory(&job, &mut std::io::stdin().lock(), &mut answer).unwrap();
    // The parent takes the last line as the answer, so the answer begins on a new line, and this process exits before
    // the test harness prints more.
    println!("\n{}", String::from_utf8(answer).unwrap().trim());
    std::process::exit(0);
}

fn job(workload: SizedWorkload, engine: BoundedEngine, directory: &Path) -> Bounded {
    let (warmup, time) = (Duration::ZERO, Duration::from_millis(20));
    Bounded { workload, engine, directory: directory.join("database"), warmup, time }
}

#[test]
fn the_audit_accepts_a_database_that_is_larger_than_the_limit() {
    const LIMIT: u64 = 12 << 20;
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    for workload in [SizedWorkload::DebitCredit(1), SizedWorkload::OrderEntry(2)] {
        for engine in [BoundedEngine::Vista, BoundedEngine::Rvm, BoundedEngine::RvmRio] {
            let report = run_bounded(job(workload, engine, disk.path()), LIMIT, &start);
            let report = match report {
                Err(why) if why.to_string().contains("memory could not be bounded") => {
                    println!("UNTRIED: {why}");
                    continue;
                }
                report => report.unwrap_or_else(|why| panic!("{workload:?} on {engine:?}: {why}")),
            };
            assert_eq!(report.audit, "ok", "{report:?}");
            assert!(report.done.measured > 0 && report.tps > 0.0, "{report:?}");
            assert!(report.most.is_none_or(|most| most > 0 && most <= LIMIT), "{report:?}");
            assert!(report.limit.is_none() || report.bytes < LIMIT || report.done.faults > 0, "{report:?}");
            assert!(!disk.path().join("database").exists());
        }
    }
}

#[test]
fn the_error_of_a_process_that_cannot_do_its_job_has_the_reason() {
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let lost = job(SizedWorkload::DebitCredit(7), BoundedEngine::Vista, disk.path());
    let why = run_bounded(lost.clone(), 64 << 20, &start).unwrap_err().to_string();
    assert!(why.contains("no size that was compiled"), "{why}");
    let why = ask(&start, &MemoryJob::Bounded(lost), None).unwrap_err().to_string();
    assert!(why.contains("ended with") && why.contains("no size that was compiled"), "{why}");
    let why = ask(&|_| Command::new("/none/such"), &MemoryJob::Run(settings()), None).unwrap_err().to_string();
    assert!(why.contains("could not be started"), "{why}");
}

fn settings() -> crate::memory::MemorySettings {
    crate::memory::MemorySettings {
        workload: crate::memory::Workload::Swap { is_hot: true },
        engine: crate::memory::MemoryEngine::None,
        memory: "/dev/shm".into(),
        directory: PathBuf::new(),
        log_bytes: 0,
        write_back: false,
        threads: 1,
        is_striped: false,
        times_responses: false,
        time: Duration::ZERO,
    }
}

#[test]
fn the_audit_notices_one_lost_transaction() {
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    for engine in [BoundedEngine::Vista, BoundedEngine::RvmRio] {
        let job = job(SizedWorkload::DebitCredit(1), engine, disk.path());
        std::fs::create_dir(&job.directory).unwrap();
        load(&DebitCredit::<1>, &job).unwrap();
        let done = work_bounded(&job).unwrap();
        assert_eq!(audit(&DebitCredit::<1>, &job, done.ended).unwrap(), "ok");
        assert_ne!(audit(&DebitCredit::<1>, &job, done.ended + 1).unwrap(), "ok");
        std::fs::remove_dir_all(&job.directory).unwrap();
    }
}
