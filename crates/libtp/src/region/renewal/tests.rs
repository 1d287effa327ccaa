//! Tests of a handle whose memory is rebuilt. The suite `multiprocess` tests several processes, in `rebuild`.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::{Durability, Env, Error};

/// Waits until a condition holds; panics after a time limit.
fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!(libtp_sim::until(Duration::from_secs(20), is_so), "{what}");
}

#[test]
fn if_the_threads_of_a_generation_cannot_be_started_a_generation_is_begun_again_later() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.0.threads_refused.store(3, Ordering::Relaxed);
    env.managers().processes.declare_broken();
    // No call is made: the threads of the broken generation begin the next generation.
    until("no thread begins the next generation", || {
        env.0.threads_refused.load(Ordering::Relaxed) == 0 && !env.managers().region.is_broken()
    });
    env.run_with(Durability::Relaxed, |txn| stock.put(txn, b"apples", b"3")).unwrap();
    until("no thread writes the log of the new generation", || env.managers().log.is_all_durable());
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_call_while_no_thread_can_be_started_fails_and_succeeds_later() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    env.0.threads_refused.store(u32::MAX, Ordering::Relaxed);
    env.managers().processes.declare_broken();
    let error = env.run(|txn| stock.get(txn, b"apples")).unwrap_err().to_string();
    assert!(error.contains("no more threads"), "{error}");
    env.0.threads_refused.store(0, Ordering::Relaxed);
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

/// Makes an environment that cannot begin a next generation, because no thread can be started.
fn without_a_next_generation() -> (tempfile::TempDir, Env, crate::Db) {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.0.threads_refused.store(u32::MAX, Ordering::Relaxed);
    (dir, env, stock)
}

#[test]
fn a_commit_without_a_next_generation_never_reports_that_nothing_was_changed() {
    for durability in [Durability::Relaxed, Durability::Sync] {
        let (_dir, env, stock) = without_a_next_generation();
        // The first relaxed commit of a generation writes the control file before its record, and a failure of that
        // write is reported as a failure before the commit. So the test first makes this commit, and then the tested
        // commit.
        env.run_with(Durability::Relaxed, |txn| stock.put(txn, b"pears", b"1")).unwrap();
        let txn = env.begin_with(durability).unwrap();
        stock.put(&txn, b"apples", b"3").unwrap();
        env.managers().region.mark_broken();
        match txn.commit() {
            Err(Error::OutcomeUnknown { cause }) => assert!(cause.contains("no more threads"), "{cause}"),
            error => panic!("{durability:?}: {error:?}"),
        }
        env.0.threads_refused.store(0, Ordering::Relaxed);
        let kept = env.run(|txn| stock.get(txn, b"apples")).unwrap();
        assert_eq!(kept.as_deref(), Some(&b"3"[..]), "{durability:?}: its record is before the end of the log");
    }
}

#[test]
fn a_commit_that_is_on_disk_succeeds_without_a_next_generation() {
    let (_dir, env, stock) = without_a_next_generation();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    let reader = env.begin().unwrap();
    assert_eq!(stock.get(&reader, b"apples").unwrap().as_deref(), Some(&b"3"[..]));
    env.managers().region.mark_broken();
    reader.commit().unwrap();
}

#[test]
fn a_transaction_that_read_no_committed_record_commits_without_a_next_generation() {
    let (_dir, env, stock) = without_a_next_generation();
    let nothing = env.begin_with(Durability::Relaxed).unwrap();
    assert_eq!(stock.get(&nothing, b"apples").unwrap(), None);
    env.managers().region.mark_broken();
    nothing.commit().unwrap();
}

#[test]
fn a_commit_whose_write_failed_has_an_unknown_outcome_with_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::Settings { no_background: true, ..crate::Settings::default() };
    let env = Env::builder().settings(settings).open(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let txn = env.begin().unwrap();
    stock.put(&txn, b"apples", b"3").unwrap();
    let committed = txn.commit_async().unwrap();
    env.managers().log.poison();
    match env.wait_durable(committed) {
        Err(Error::OutcomeUnknown { cause }) => assert!(cause.contains("writing to disk failed"), "{cause}"),
        error => panic!("{error:?}"),
    }
}

/// Returns how often this process has the environment's memory mapped, and how many descriptors it has open.
fn mappings_and_descriptors(env: &Env) -> (usize, usize) {
    let region = env.stats().unwrap().region;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = std::fs::canonicalize(env.path()).unwrap();
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let is_ours = |link: &std::path::PathBuf| link.starts_with(&own) || link.to_string_lossy().starts_with(&region);
    // The mapping is one range, or several ranges if a part of it is in huge pages.
    let inodes: std::collections::BTreeSet<&str> =
        maps.lines().filter(|line| line.contains(&region)).filter_map(|line| line.split_whitespace().nth(4)).collect();
    (inodes.len(), links.filter(is_ours).count())
}

#[test]
fn memory_that_was_given_up_is_unmapped_after_its_last_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    let (mapped, descriptors) = mappings_and_descriptors(&env);
    assert_eq!(mapped, 1);
    let old = env.begin().unwrap();
    for round in 0..5_u8 {
        env.managers().processes.declare_broken();
        env.run(|txn| stock.put(txn, b"pears", &[round])).unwrap();
    }
    // All generations in between are freed; a transaction that began in the first generation keeps that generation.
    until("the memory of an earlier generation stays mapped", || mappings_and_descriptors(&env).0 == 2);
    drop(old);
    until("the memory of the first generation stays mapped", || mappings_and_descriptors(&env).0 == 1);
    until("files of earlier generations stay open", || mappings_and_descriptors(&env).1 <= descriptors);
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_commit_is_kept_only_if_its_record_is_before_the_log_end_of_its_generation() {
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::Settings { no_background: true, ..crate::Settings::default() };
    let stopped = Env::builder().settings(settings).open(dir.path()).unwrap();
    let others = Env::open_or_create(dir.path()).unwrap();
    let stock = others.btree("stock").unwrap();
    let put = |round: u8| others.run(|txn| stock.put(txn, b"apples", &[round])).unwrap();
    put(0);
    let began: Vec<_> = (1..3)
        .map(|round| {
            others.managers().processes.declare_broken();
            put(round);
            others.managers().log.began()
        })
        .collect();
    assert!(began[0] < began[1]);
    // The next generation that this handle finds is the second generation after its own generation.
    assert!(matches!(stopped.0.outcome_of(0, began[0]), Err(Error::Rebuilt)), "no file has that record");
    stopped.0.outcome_of(0, libtp_log::Lsn::new(began[0].raw() - 8)).unwrap();
}

#[test]
fn the_record_that_a_dead_session_has_noted_is_kept_until_the_repair() {
    let dir = tempfile::tempdir().unwrap();
    let small = "log_segment_first = \"64KiB\"\nlog_segment_max = \"64KiB\"\n";
    std::fs::write(dir.path().join(crate::SETTINGS_NAME), small).unwrap();
    let nobody_looks = crate::Settings { no_background: true, ..crate::Settings::default() };
    let env = Env::builder().settings(nobody_looks).open(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let managers = env.managers();
    let txn = managers.join().unwrap();
    let done = managers.checkpoint(&txn).unwrap().unwrap();
    // The state after a death just after the checkpoint's record, which belongs to no transaction.
    txn.session().note_append(done.lsn.raw(), 0);
    txn.session().mark_dead();
    for _ in 0..3 {
        for round in 0..50_u32 {
            env.run(|txn| stock.put(txn, &round.to_be_bytes(), &[7; 8000])).unwrap();
        }
        env.checkpoint().unwrap();
    }
    managers.reap().unwrap();
    assert!(!managers.region.is_broken(), "the dead session's record was gone");
    assert_eq!(managers.processes.dead_sessions(), []);
    env.checkpoint().unwrap();
    assert!(managers.log.read(done.lsn).is_err(), "the record is given up when no session needs it any more");
}

#[test]
fn damage_found_from_given_up_memory_is_reported_as_rebuilt() {
    let (_dir, env, stock) = without_a_next_generation();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    let txn = env.begin().unwrap();
    let read = || txn.guarded(|| Err::<(), _>(Error::Corrupt("page 3, of which this log knows nothing".into())));
    assert!(matches!(read(), Err(Error::Corrupt(_))));
    env.managers().processes.declare_broken();
    assert!(matches!(read(), Err(Error::Rebuilt)), "the next generation writes pages, too");
    drop(txn);
    env.0.threads_refused.store(0, Ordering::Relaxed);
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn an_opening_after_clean_closes_takes_no_checkpoint_however_many_there_were() {
    let dir = tempfile::tempdir().unwrap();
    for opening in 0..40 {
        let env = Env::open_or_create(dir.path()).unwrap();
        assert_eq!(env.stats().unwrap().checkpoints, 0, "opening {opening}");
    }
}

#[test]
fn after_many_restarts_without_a_checkpoint_a_restart_takes_a_checkpoint_itself() {
    let place = tempfile::tempdir().unwrap();
    let at = |restart: usize| place.path().join(restart.to_string());
    let mut taken = Vec::new();
    for restart in 0..60_usize {
        let env = Env::open_or_create(at(restart)).unwrap();
        if env.stats().unwrap().checkpoints > 0 {
            taken.push(restart);
        }
        let stock = env.btree("stock").unwrap();
        env.run(|txn| stock.put(txn, b"restart", &restart.to_be_bytes())).unwrap();
        // The files that a crash of the machine leaves.
        fs::create_dir(at(restart + 1)).unwrap();
        for entry in fs::read_dir(at(restart)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() && entry.file_name() != "region" {
                fs::copy(entry.path(), at(restart + 1).join(entry.file_name())).unwrap();
            }
        }
    }
    assert!(taken.len() >= 2 && taken[0] > 10 && taken[1] - taken[0] > 10, "{taken:?}");
}
