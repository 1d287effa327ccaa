//! The file of the shared memory is removed while processes use the memory: by a person, by systemd's `RemoveIPC`, or
//! by a container's end.

use std::path::{Path, PathBuf};

use libtp::{Env, Settings};

use libtp_tests::process::until;

use crate::crew::Member;

fn get(env: &Env, key: &str) -> Option<Vec<u8>> {
    let table = env.btree("table").unwrap();
    env.run(|txn| table.get(txn, key.as_bytes())).unwrap()
}

#[test]
fn memory_with_a_removed_file_is_rebuilt_with_its_relaxed_commits() {
    let directory = tempfile::tempdir().unwrap();
    // With this setting, no session writes the log unless the removal of the memory is noticed.
    std::fs::write(directory.path().join("libtp.toml"), "relaxed_millis = 600000").unwrap();
    let mut one = Member::start(directory.path(), 1);
    let mut two = Member::start(directory.path(), 2);
    one.ask("put-relaxed key one");
    two.ask("put-relaxed other two");
    let region = PathBuf::from(one.ask("region"));
    std::fs::remove_file(&region).unwrap();
    until("the removal is noticed", || region.exists());
    // The processes still share the environment, and another process can join.
    assert_eq!(two.ask("get key"), "one");
    assert_eq!(one.ask("get other"), "two");
    let mut three = Member::start(directory.path(), 3);
    assert_eq!(three.how, "Joined");
    assert_eq!(three.ask("get key"), "one");
    for mut member in [one, two, three] {
        member.kill();
    }
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(!env.opened().lost);
    assert_eq!((get(&env, "key"), get(&env, "other")), (Some(b"one".to_vec()), Some(b"two".to_vec())));
}

/// Runs an order in a process, stops the process, removes its memory and kills it, so that the process cannot notice
/// the removal. Then opens the environment.
fn removed_and_killed(directory: &Path, order: &str) -> Env {
    std::fs::write(directory.join("libtp.toml"), "relaxed_millis = 600000").unwrap();
    let mut one = Member::start(directory, 1);
    one.ask(order);
    let region = PathBuf::from(one.ask("region"));
    one.stop();
    std::fs::remove_file(&region).unwrap();
    one.kill();
    Env::open_or_create(directory).unwrap()
}

#[test]
fn an_opening_after_memory_with_relaxed_commits_was_removed_reports_the_loss() {
    let directory = tempfile::tempdir().unwrap();
    // As long as no program has read the report, each opening reports the loss.
    let silent = removed_and_killed(directory.path(), "put-relaxed key one");
    let joined = Env::open_or_create(directory.path()).unwrap();
    assert!(joined.opened().lost, "a commit may be lost, and the opening of a program that joins does not report it");
    drop((silent, joined));
    // The program above has read the report.
    assert!(!Env::open_or_create(directory.path()).unwrap().opened().lost);

    let directory = tempfile::tempdir().unwrap();
    let env = removed_and_killed(directory.path(), "put key one");
    assert!(!env.opened().lost, "all commits were on disk");
    assert_eq!(get(&env, "key"), Some(b"one".to_vec()));
}

#[test]
fn core_dumps_contain_the_shared_memory_only_on_request() {
    for dump_memory in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let env =
            Env::builder().settings(Settings { dump_memory, ..Settings::default() }).open(directory.path()).unwrap();
        let region = env.stats().unwrap().region;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let from = maps.lines().position(|line| line.ends_with(&region)).expect("the memory is mapped");
        let flags = maps.lines().skip(from).find(|line| line.starts_with("VmFlags:")).unwrap();
        assert_eq!(flags.split_whitespace().any(|flag| flag == "dd"), !dump_memory, "{flags}");
    }
}
