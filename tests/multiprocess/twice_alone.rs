//! All processes die; then the process that opens the environment next dies in the middle of its repair (PROTOCOLS D3,
//! D6, L6).

use libtp::{Env, How};

use crate::crew::Member;

#[test]
fn a_session_that_died_in_an_append_is_undone_though_the_repairer_dies_too() {
    let directory = tempfile::tempdir().unwrap();
    // The slot of the first process comes before the slot of the second process. So every repair first ends the
    // transaction of the first process.
    let mut first = Member::start(directory.path(), 1);
    let mut second = Member::start(directory.path(), 2);
    for key in ["one", "two"] {
        first.ask(&format!("put {key} before"));
    }
    first.ask("begin");
    first.ask("put one after");
    second.ask("begin");
    second.ask("put two after");
    second.ask("arm log: append noted, tail not published");
    // No session repairs the second process: the first process is stopped until it is killed.
    first.stop();
    second.order("put three after");
    second.wait();
    first.kill();
    first.wait();
    // At the place where the second process was about to append, the log now has the first record of the repair of the
    // first process. Then the repairer dies.
    let mut repairer = Member::launch_armed(directory.path(), 3, "alone: ended, slot not idle");
    repairer.wait();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, How::Repaired);
    let table = env.btree("table").unwrap();
    for (key, expected) in [("one", Some("before")), ("two", Some("before")), ("three", None)] {
        let found = env.run(|txn| table.get(txn, key.as_bytes())).unwrap();
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{key}: neither had committed");
    }
    let running = env.transactions();
    assert!(running.is_empty(), "{running:?}");
}
