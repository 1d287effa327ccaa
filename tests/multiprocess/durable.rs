//! A session dies after it has logged its commit record. Another session reads the dead session's changes in a
//! transaction that asks for `Sync`: the dead session's commit must be on disk before this transaction is answered
//! (PROTOCOLS L4, D6).

use libtp::{Env, OpenedBy};

use crate::crew::Member;

/// For this time, no session writes the log for relaxed commits.
const SETTINGS: &str = "relaxed_millis = 600000\n";

#[test]
fn changes_read_from_a_dead_session_are_on_disk_before_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libtp.toml"), SETTINGS).unwrap();
    let (mut victim, mut reader) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    reader.ask("put key before");
    victim.ask("arm commit: logged, not the last commit");
    victim.order("put-relaxed key after");
    victim.wait();
    assert_eq!(
        reader.ask("get key"),
        "after",
        "the dead session's last log record is a commit record, so its transaction is committed"
    );
    let region = reader.ask("region");
    reader.kill();
    reader.wait();
    std::fs::remove_file(region).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Restarted);
    let table = env.btree("table").unwrap();
    let found = env.run(|txn| table.get(txn, b"key")).unwrap();
    assert_eq!(
        found.as_deref(),
        Some(&b"after"[..]),
        "a synced transaction has read this value, so it must be on disk"
    );
}
