//! A session that reads a page into a frame dies just before or after the page is usable by the sessions that wait for
//! it (PROTOCOLS D2, D7).

use std::time::{Duration, Instant};

use libtp::{Durability, Env, ProcessState, Settings, WaitsFor};
use libtp_buffer::{PageId, PageNo};
use libtp_process::Rank;
use libtp_tests::process::until;

use crate::crew::Member;

/// The number of keys. Their records take several pages.
const KEYS: u32 = 400;
/// The failpoints at which the reader stops and then dies: from the read of the page's last byte up to the release of
/// its latch.
const PLACES: [&str; 3] =
    ["buffer: page read, not resident", "buffer: resident, still in hand", "buffer: resident, latched"];

#[test]
fn a_waiter_for_a_page_of_a_dead_reader_gets_the_same_frame_as_all_others() {
    for place in PLACES {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let get = |number: u32| env.run(|txn| table.get(txn, key(number).as_bytes())).unwrap();
        get(KEYS - 1).expect("the key is stored");
        let mut reader = Member::start(directory.path(), 1);
        reader.ask(&format!("arm {place}!stop"));
        reader.order(&format!("get {}", key(0)));
        until("the reader is stopped", || env.sessions().iter().any(|one| one.process_state == ProcessState::Stopped));
        let page = page_being_read(&env);
        let managers = env.managers();
        let waiter = std::thread::spawn(move || {
            let session = managers.processes.join().unwrap();
            drop(managers.buffers.exclusive(&session, page, Rank::page(0)).unwrap());
        });
        let waits = || env.sessions().iter().any(|one| matches!(one.waits_for, Some(WaitsFor::Latch(_))));
        let begun = Instant::now();
        // A session that waits for the end of the read does not report a wait for a latch.
        while !waits() && begun.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(1));
        }
        reader.kill();
        reader.wait();
        until("the waiter gets the page", || waiter.is_finished());
        waiter.join().unwrap();
        until("no session is dead", || env.managers().processes.dead_sessions().is_empty());
        assert!(env.managers().buffers.is_resident(page), "{place}: the latched page was discarded");
        env.run_with(Durability::Relaxed, |txn| table.put(txn, key(0).as_bytes(), b"changed")).unwrap();
        assert_eq!(get(0).as_deref(), Some(&b"changed"[..]), "{place}");
        assert_eq!(env.repairs().rebuilds, 0, "{place}");
        assert!(env.verify("table").unwrap().findings.is_empty(), "{place}");
    }
}

/// Returns the page that the stopped session has latched.
fn page_being_read(env: &Env) -> PageId {
    let sessions = env.sessions();
    let held =
        sessions.iter().filter(|one| one.process_state == ProcessState::Stopped).find_map(|one| one.held.first());
    let name = &held.expect("the stopped session holds the latch of its page").name;
    let number = name.strip_prefix("page ").and_then(|rest| rest.strip_suffix(" of table"));
    let number = number.unwrap_or_else(|| panic!("the stopped session holds the latch of {name:?}")).parse().unwrap();
    let file = env.managers().buffers.file_by_name("table").expect("the table is open").id;
    PageId::new(file, PageNo::new(number))
}

#[test]
fn a_frame_in_the_hand_of_a_dead_session_is_not_lost_when_the_repairer_dies_too() {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let own = Settings { no_background: true, ..Settings::default() };
    // This process has no background threads, and repairs nothing.
    let env = Env::builder().settings(own).open(directory.path()).unwrap();
    let [mut reader, mut late] = [1, 2].map(|number| Member::start(directory.path(), number));
    late.ask("arm repair: all physical repairs done!stop");
    // The reader dies before it has a pin. Otherwise the repair of the pin would find a latch of the dead repairer.
    reader.ask("arm buffer: off the free list, in hand");
    reader.order(&format!("get {}", key(0)));
    reader.wait();
    // A session of the member `late` found the dead reader, and is stopped in its repair.
    until("the process stops", || env.sessions().iter().any(|one| one.process_state == ProcessState::Stopped));
    let mut repairer = Member::launch_armed(directory.path(), 3, "repair: frame put back, section open");
    repairer.wait();
    late.resume();
    until("no session is dead", || env.managers().processes.dead_sessions().is_empty());
    env.checkpoint().unwrap();
    // The check runs while the member's sessions live: it also fails if a living session has a frame in hand.
    env.managers().buffers.check_at_rest();
    late.leave();
    assert_eq!(env.repairs().rebuilds, 0);
}

/// Writes the keys on several pages, and closes the environment, so that the pages are not in memory.
fn fill(directory: &std::path::Path) {
    let env = Env::open_or_create(directory).unwrap();
    let table = env.btree("table").unwrap();
    let value = vec![b'v'; 500];
    env.run(|txn| (0..KEYS).try_for_each(|number| table.put(txn, key(number).as_bytes(), &value))).unwrap();
}

fn key(number: u32) -> String {
    format!("key{number:04}")
}
