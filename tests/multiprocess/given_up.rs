//! A process stops just before it writes to a file; the other processes declare the region broken and rebuild it; then
//! the process continues. It must not write anything of the old region into the files (PROTOCOLS D13).
//!
//! A rebuild waits only for sessions with a role in which files are written. A session that is about to take this role
//! must therefore check, once it has the role, that its region is still in use.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use libtp::{Env, ProcessState, SessionState};
use libtp_log::Lsn;
use libtp_tests::process::until;

use crate::crew::Member;
use crate::stopped::{idle, stopped};

/// The number of keys. Their records are several times as large as the page cache.
const KEYS: u32 = 4000;
/// The distance between keys that are certainly on different pages.
const STEP: usize = 6;
const PAGE_BYTES: usize = 4096;
const SMALL_POOL: &str = "memory = \"2MiB\"\n";
const SMALL_SEGMENTS: &str = "log_segment_first = \"16KiB\"\nlog_segment_max = \"64KiB\"\n";
const PREPARES: &str = "prepares log segments";
const WRITES: &str = "writes pages";

fn key(number: u32) -> String {
    format!("key{number:05}")
}

fn fill(directory: &Path) {
    let env = Env::open_or_create(directory).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..KEYS).try_for_each(|number| table.put(txn, key(number).as_bytes(), &[b'v'; 500]))).unwrap();
}

fn new_environment(settings: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libtp.toml"), settings).unwrap();
    directory
}

/// A put that had no answer when its process stopped.
struct Unanswered {
    number: u32,
    /// The put's value, which no other put has.
    value: String,
}

/// Puts long values on different pages until the process stops at the failpoint. If the stopped process has another
/// role than `role`, the process continues and the puts are repeated, because a rebuild may wait for that role. Returns
/// the put without an answer.
fn put_until_stopped(member: &mut Member, directory: &Path, point: &str, role: Option<&str>) -> Unanswered {
    let numbers = (0..KEYS).step_by(STEP).cycle();
    let mut puts = numbers.zip(0..).map(|(number, count)| Unanswered { number, value: format!("{count:0>500}") });
    loop {
        member.ask(&format!("arm {point}!stop"));
        let caught = puts.find(|Unanswered { number, value }| {
            member.order(&format!("put {} {value}", key(*number)));
            loop {
                match member.answer_within(Duration::from_millis(50)) {
                    Some(answer) => assert_eq!(answer, "put"),
                    None if is_stopped(directory, |_| true) => return true,
                    None => continue,
                }
                return false;
            }
        });
        let has_another = |one: &SessionState| one.roles.iter().any(|&other| Some(other) != role);
        if !is_stopped(directory, has_another) {
            return caught.expect("the puts repeat without end");
        }
        member.resume();
        assert_eq!(member.answer(), "put");
    }
}

/// Returns whether a stopped process has a session for which `is_so` holds.
fn is_stopped(directory: &Path, is_so: impl Fn(&SessionState) -> bool) -> bool {
    let look = Env::builder().look(directory).unwrap();
    look.is_some_and(|env| env.sessions().iter().any(|one| one.process_state == ProcessState::Stopped && is_so(one)))
}

/// Returns the LSN of each page of a file.
fn page_lsns(file: &Path) -> Vec<Lsn> {
    std::fs::read(file).unwrap().chunks_exact(PAGE_BYTES).map(libtp_buffer::page_lsn).collect()
}

#[test]
fn a_process_stopped_before_page_writes_writes_no_pages_of_abandoned_memory() {
    let directory = new_environment(SMALL_POOL);
    fill(directory.path());
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut writer = Member::start(directory.path(), 1);
    // All puts are durable, so their pages can be written without another flush of the log.
    let caught = put_until_stopped(&mut writer, directory.path(), "buffer: about to become the writer", None);
    env.managers().processes.declare_broken();
    let get = |number| env.run(|txn| table.get(txn, key(number).as_bytes())).unwrap();
    // If the background thread has stopped, the put may have committed meanwhile.
    let has_committed = get(caught.number).as_deref() == Some(caught.value.as_bytes());
    env.run(|txn| (0..KEYS).step_by(STEP).try_for_each(|number| table.put(txn, key(number).as_bytes(), &[b'n'; 500])))
        .unwrap();
    assert_eq!(env.repairs().rebuilds, 1, "a rebuild must not wait for a process that is not yet writing");
    assert!(env.checkpoint().unwrap());
    let file = directory.path().join("table.tp");
    let before = page_lsns(&file);
    writer.resume();
    assert_eq!(writer.answer(), "put");
    writer.leave();
    env.checkpoint().unwrap();
    let back: Vec<_> = before.iter().zip(page_lsns(&file)).filter(|(before, after)| after < before).collect();
    assert!(back.is_empty(), "{} pages were overwritten from the abandoned memory: {:?}", back.len(), back.first());
    for number in (0..KEYS).step_by(STEP) {
        let is_put_again = number == caught.number && !has_committed;
        let expected = if is_put_again { caught.value.as_bytes() } else { &[b'n'; 500] };
        assert_eq!(get(number).as_deref(), Some(expected), "{}", key(number));
    }
    drop((table, env));
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(env.verify("table").unwrap().findings.is_empty());
}

/// Returns the names of the log's segments, each with the incarnation in which it was made.
fn segments(directory: &Path) -> BTreeMap<String, u64> {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let made_by = |name: String| {
        let bytes = std::fs::read(directory.join(&name)).unwrap();
        (name, u64::from_le_bytes(bytes[40..48].try_into().unwrap()))
    };
    names.filter(|name| libtp_log::segment_number(name).is_some()).map(made_by).collect()
}

#[test]
fn a_process_stopped_before_a_new_segment_makes_no_segment_for_abandoned_memory() {
    let directory = new_environment(SMALL_SEGMENTS);
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut one = Member::start(directory.path(), 1);
    put_until_stopped(&mut one, directory.path(), "log: about to become the preparer", None);
    env.managers().processes.declare_broken();
    env.run(|txn| table.put(txn, b"key", b"meanwhile")).unwrap();
    assert_eq!(env.repairs().rebuilds, 1, "a rebuild must not wait for a process that is not yet writing");
    // This process joins the new region, and stops while it makes the segment that the first process was about to make.
    let mut two = Member::start(directory.path(), 2);
    let before = segments(directory.path());
    put_until_stopped(&mut two, directory.path(), "log: segment full of zeros", Some(PREPARES));
    let at_it = stopped(directory.path(), |session| session.roles.contains(&PREPARES));
    one.resume();
    // The first process leaves the old region and joins the new region. It must not make a segment for the old region.
    let pid_of_one =
        |env: &Env| env.sessions().iter().any(|session| ![std::process::id(), at_it.pid].contains(&session.pid));
    until("the process joins the new memory", || pid_of_one(&env));
    let now = segments(directory.path());
    assert_eq!(now, before, "a segment was made for the abandoned memory");
    two.resume();
    assert_eq!([two.answer(), one.answer()], ["put", "put"]);
    let life = env.managers().log.incarnation();
    let made: BTreeMap<_, _> =
        segments(directory.path()).into_iter().filter(|(name, _)| !before.contains_key(name)).collect();
    assert!(
        !made.is_empty() && made.values().all(|&by| by == life),
        "not all of these segments were made in the incarnation {life}: {made:?}"
    );
    [one, two].into_iter().for_each(Member::leave);
    assert!(env.verify("table").unwrap().findings.is_empty());
}

#[test]
fn a_process_stopped_at_a_page_write_or_a_new_segment_is_waited_for_and_named() {
    let cases =
        [(SMALL_POOL, "buffer: became the writer", WRITES), (SMALL_SEGMENTS, "log: prepares a segment", PREPARES)];
    for (settings, point, role) in cases {
        let directory = new_environment(settings);
        if role == WRITES {
            fill(directory.path());
        }
        let env = idle().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let mut writer = Member::start(directory.path(), 1);
        put_until_stopped(&mut writer, directory.path(), point, Some(role));
        let at_it = stopped(directory.path(), |session| session.roles.contains(&role));
        let life = env.managers().log.incarnation();
        env.managers().processes.declare_broken();
        let put = || env.run(|txn| table.put(txn, b"key", b"meanwhile"));
        let refused = put().expect_err("the process is still writing").to_string();
        assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
        assert_eq!(env.managers().log.incarnation(), life);
        writer.resume();
        assert_eq!(writer.answer(), "put");
        put().unwrap();
        assert_eq!(env.repairs().rebuilds, 1);
        writer.leave();
    }
}

/// A session sleeps in the middle of a batch of page writes. It counts as a writer, but its process is not stopped, and
/// is not seen in an uninterruptible system call. A rebuild waits for such a session only for a limited time, because
/// the broken region may wrongly state that the session is a writer. So the session must check the region again before
/// its next write.
#[test]
fn a_process_writes_no_page_of_abandoned_memory_after_a_long_sync() {
    let directory = new_environment(SMALL_POOL);
    fill(directory.path());
    let env = idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut writer = Member::start(directory.path(), 1);
    let (awake, asleep) = (directory.path().join("awake"), directory.path().join("awake.asleep"));
    writer.ask(&format!("arm buffer: double write synced, batch not open!sleep={}", awake.display()));
    let value = "o".repeat(500);
    let begun = Instant::now();
    let caught = (0..KEYS).step_by(STEP).cycle().find(|&number| {
        writer.order(&format!("put {} {value}", key(number)));
        loop {
            match writer.answer_within(Duration::from_secs(1)) {
                Some(answer) => assert_eq!(answer, "put"),
                None if asleep.exists() => return true,
                None => continue,
            }
            return false;
        }
    });
    env.managers().processes.declare_broken();
    env.run(|txn| (0..KEYS).step_by(STEP).try_for_each(|number| table.put(txn, key(number).as_bytes(), &[b'n'; 500])))
        .unwrap();
    assert_eq!(env.repairs().rebuilds, 1);
    assert!(env.checkpoint().unwrap());
    let file = directory.path().join("table.tp");
    let before = page_lsns(&file);
    assert!(
        begun.elapsed() < Duration::from_secs(100),
        "the process sleeps for at most two minutes, so the test shows nothing"
    );
    // The sleeping thread may be the background thread. Then the put was not delayed, and committed before our put or
    // after it.
    let early = writer.answer_within(Duration::ZERO);
    std::fs::write(&awake, b"").unwrap();
    let answer = early.clone().unwrap_or_else(|| writer.answer());
    assert_eq!(answer, "put");
    writer.leave();
    env.checkpoint().unwrap();
    let back = before.iter().zip(page_lsns(&file)).filter(|(before, after)| after < before).count();
    assert_eq!(back, 0, "pages were overwritten from the abandoned memory");
    for number in (0..KEYS).step_by(STEP) {
        let new: &[u8] = match Some(number) == caught {
            true if early.is_some() => b"on",
            true => b"o",
            false => b"n",
        };
        let found = env.run(|txn| table.get(txn, key(number).as_bytes())).unwrap().unwrap();
        assert!(new.iter().any(|&new| found == [new; 500]), "{}: {:?}", key(number), found.first());
    }
    assert!(env.verify("table").unwrap().findings.is_empty());
}
