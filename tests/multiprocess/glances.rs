//! Pages that are read without their latches while the session that changes them dies, and its repairer dies too
//! (docs/design/0022).
//!
//! The tested fault: a reader accepts a page with half of a change. A page's number and LSN determine its bytes. So two
//! reads of the same page with the same LSN must return the same bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp::{Env, ProcessState, Settings};
use libtp_buffer::{BufferManager, FileId, PageId, PageNo};
use libtp_tests::process::until;

use crate::crew::Member;

/// Number of keys at first.
const KEYS: u32 = 300;
/// Pages that are read: all pages that the tree ever has.
const PAGES: std::ops::Range<u32> = 1..120;
const PAGE_BYTES: usize = 8192;
/// The writer stops, and then dies, at each of these places. They are in the order of the calls, from the beginning
/// of a change to the release of the page's latch.
const PLACES: [&str; 5] = [
    "buffer: count odd, page not changed",
    "change: logged, no page changed",
    "change: page changed, LSN old",
    "buffer: page changed, count not even",
    "buffer: count even, page still latched",
];
/// The first repairer stops, and then dies, at each of these places.
const REPAIRS: [&str; 4] = [
    "repair: begins",
    "repair: rolled back, not redone",
    "repair: redone, latches held",
    "repair: counts even, latches held",
];

/// All pages that were accepted: page, LSN and contents.
#[derive(Default)]
struct Seen(HashMap<(u32, u64), Vec<u64>>);

impl Seen {
    /// Reads a page without its latch. Returns whether the page was accepted.
    fn look(&mut self, buffers: &BufferManager, file: FileId, page: u32) -> bool {
        let Some(glance) = buffers.glance(PageId::new(file, PageNo::new(page))) else { return false };
        let bytes = glance.bytes();
        let words: Vec<u64> = (0..PAGE_BYTES).step_by(8).map(|at| bytes.u64(at)).collect();
        if !glance.is_unchanged() {
            return false;
        }
        if words[1] == 0 {
            assert!(words.iter().all(|&word| word == 0), "page {page} has contents and no LSN");
            return true;
        }
        assert_eq!(words[0] >> 32, u64::from(page), "the bytes of another page were accepted");
        let known = self.0.entry((page, words[1])).or_insert_with(|| words.clone());
        assert!(*known == words, "a reader accepted half a change of page {page}");
        true
    }
}

/// A thread that reads all pages until [`Looker::end`].
struct Looker {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Looker {
    fn start(env: &Env, file: FileId) -> Looker {
        let (managers, is_over) = (env.managers(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut seen, mut believed) = (Seen::default(), 0);
            while !over.load(Ordering::Relaxed) {
                believed += PAGES.filter(|&page| seen.look(&managers.buffers, file, page)).count() as u64;
                // Each change gives a page a new LSN, and the reader does not find the old LSNs again.
                if seen.0.len() > 20_000 {
                    seen.0.clear();
                }
            }
            believed
        });
        Looker { is_over, thread }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        assert!(self.thread.join().expect("every accepted page was whole") > 100, "few pages were accepted");
    }
}

fn key(number: u32) -> String {
    format!("key{number:04}")
}

fn is_a_process_stopped(env: &Env) -> bool {
    env.sessions().iter().any(|one| one.process_state == ProcessState::Stopped)
}

/// Lets the member put records, so that leaves split, until the member stops or has made `count` changes.
fn change(member: &mut Member, env: &Env, count: u32) {
    let text = "w".repeat(700);
    for number in 0..count {
        member.order(&format!("put-relaxed {}x {text}", key(number * 7 % KEYS)));
        let begun = Instant::now();
        while member.answer_within(Duration::from_millis(20)).is_none() {
            if is_a_process_stopped(env) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the change has no end");
        }
    }
}

/// A writer stops and dies at `place`. The session that repairs it stops and dies at `repair`, if one is given.
fn die_at(place: &str, repair: Option<&str>) {
    let directory = tempfile::tempdir().unwrap();
    let writer_env = Env::open_or_create(directory.path()).unwrap();
    let table = writer_env.btree("table").unwrap();
    let value = vec![b'v'; 500];
    writer_env.run(|txn| (0..KEYS).try_for_each(|number| table.put(txn, key(number).as_bytes(), &value))).unwrap();
    drop((table, writer_env));
    // This process only reads, and repairs nothing.
    let own = Settings { no_background: true, ..Settings::default() };
    let env = Env::builder().settings(own).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let file = env.managers().buffers.file_by_name("table").expect("the table is open").id;
    let mut writer = Member::start(directory.path(), 1);
    change(&mut writer, &env, 20);
    let mut repairer = repair.map(|repair| {
        let mut repairer = Member::start(directory.path(), 2);
        repairer.ask(&format!("arm {repair}!stop"));
        repairer
    });
    let looker = Looker::start(&env, file);
    writer.ask(&format!("arm {place}!stop"));
    change(&mut writer, &env, 100);
    assert!(is_a_process_stopped(&env), "{place} is not reached");
    // Gives the reader time to read the page as the writer has left it.
    std::thread::sleep(Duration::from_millis(20));
    writer.kill();
    writer.wait();
    if let Some(repairer) = &mut repairer {
        until("the repairer stops", || is_a_process_stopped(&env));
        std::thread::sleep(Duration::from_millis(20));
        repairer.kill();
        repairer.wait();
    }
    let mut last = Member::start(directory.path(), 3);
    until("no session is dead", || env.managers().processes.dead_sessions().is_empty());
    change(&mut last, &env, 20);
    last.leave();
    looker.end();
    // No count stays odd.
    let (managers, mut seen) = (env.managers(), Seen::default());
    for page in PAGES {
        let is_resident = managers.buffers.is_resident(PageId::new(file, PageNo::new(page)));
        assert!(
            !is_resident || seen.look(&managers.buffers, file, page),
            "{place}: page {page} is never accepted again"
        );
    }
    assert!(env.verify("table").unwrap().findings.is_empty(), "{place}");
    for number in 0..KEYS {
        assert!(env.run(|txn| table.get(txn, key(number).as_bytes())).unwrap().is_some(), "{place}: {number}");
    }
}

#[test]
fn a_page_whose_writer_died_is_not_read_before_it_is_whole() {
    if cfg!(target_arch = "x86_64") {
        PLACES.iter().for_each(|place| die_at(place, None));
    }
}

#[test]
fn a_page_whose_writer_and_repairer_died_is_not_read_before_it_is_whole() {
    if cfg!(target_arch = "x86_64") {
        REPAIRS.iter().for_each(|repair| die_at("change: page changed, LSN old", Some(repair)));
        REPAIRS[1..].iter().for_each(|repair| die_at("change: logged, no page changed", Some(repair)));
    }
}
