//! Processes in containers that share only the environment's directory: their `/dev/shm` is a different one or is
//! small, or their pids differ.

use std::process::Command;
use std::time::Duration;

use libtp::{Env, OpenedBy};
use libtp_tests::small_disk::{alone, SmallDisk};

use crate::crew::Member;
use libtp_tests::transfers::Bank;

/// The command that starts a program with its own `/dev/shm`.
const OTHER_MEMORY: &[&str] =
    &["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && exec \"$0\" \"$@\""];
/// The command that starts a program as the first process of a pid namespace. The program dies with its starter.
const OTHER_PIDS: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// The command that starts a program in a pid namespace whose first process is another process. The namespace outlives
/// the program.
const OTHER_PIDS_NOT_FIRST: &[&str] =
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\"$0\" \"$@\"; sleep 100"];
/// Bytes that must be free in the directory of shared memory.
const ROOM: u64 = 96 << 20;

#[test]
fn the_error_for_a_container_with_other_memory_names_the_setting_with_which_it_can_join() {
    alone("containers::the_error_for_a_container_with_other_memory_names_the_setting_with_which_it_can_join", || {
        let directory = tempfile::tempdir().unwrap();
        let mut inside = Member::start(directory.path(), 1);
        inside.ask("put key value");
        let outside = Member::launch_under(OTHER_MEMORY, directory.path(), 2, "record");
        let refused = outside.answer();
        assert!(refused.starts_with("failed") && refused.contains("region_directory"), "{refused}");
        assert_eq!(inside.ask("get key"), "value");
        inside.leave();
        // All containers see a region in the environment's directory.
        let settings = format!("region_directory = \"{}\"\n", directory.path().display());
        std::fs::write(directory.path().join("libtp.toml"), settings).unwrap();
        let mut inside = Member::start(directory.path(), 3);
        let mut outside = Member::launch_under(OTHER_MEMORY, directory.path(), 4, "record").opened();
        assert_eq!(outside.how, "Joined");
        assert_eq!(outside.ask("get key"), "value");
        assert_eq!(outside.ask("put key other"), "put");
        assert_eq!(inside.ask("get key"), "other");
        outside.leave();
        inside.leave();
    });
}

#[test]
fn processes_of_two_pid_namespaces_do_not_take_each_other_for_dead() {
    alone("containers::processes_of_two_pid_namespaces_do_not_take_each_other_for_dead", || {
        let directory = tempfile::tempdir().unwrap();
        let mut here = Member::start(directory.path(), 1);
        here.ask("put key before");
        here.ask("begin");
        here.ask("put key here");
        let mut there = Member::launch_under(OTHER_PIDS, directory.path(), 2, "record").opened();
        assert_eq!(there.how, "Joined");
        // The wait below is so long that the waiter looks for dead processes meanwhile.
        there.order("put key there");
        assert_eq!(
            there.answer_within(Duration::from_millis(500)),
            None,
            "the lock of a living process was granted to another"
        );
        assert_eq!(here.ask("commit"), "committed");
        assert_eq!(there.answer(), "put");
        there.ask("begin");
        there.ask("put key unfinished");
        here.order("put key after");
        assert_eq!(
            here.answer_within(Duration::from_millis(500)),
            None,
            "the lock of a living process was granted to another"
        );
        // When this process dies, the waiter notices it.
        there.kill();
        assert_eq!(here.answer(), "put");
        assert_eq!(here.ask("get key"), "after");
        here.leave();
    });
}

/// Arguments of `unshare` for a new pid namespace in which `/proc` still shows the starter's namespace.
const FOREIGN_TABLE: &[&str] = &["--pid", "--fork", "--kill-child"];
/// Marks the process inside that namespace.
const AMONG_FOREIGN: &str = "LIBTP_TEST_FOREIGN_TABLE";

/// In `/proc`, the pids of the tested processes belong to other processes. This is the case after `nsenter --pid`, and
/// in a container without its own `/proc`.
#[test]
fn processes_that_see_the_proc_of_another_pid_namespace_do_not_take_each_other_for_dead() {
    let name = "containers::processes_that_see_the_proc_of_another_pid_namespace_do_not_take_each_other_for_dead";
    alone(name, || {
        if std::env::var_os(AMONG_FOREIGN).is_none() {
            let mut program = Command::new("unshare");
            program.args(FOREIGN_TABLE).arg(std::env::current_exe().unwrap());
            program.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(AMONG_FOREIGN, "1");
            let output = program.output().unwrap();
            let message = String::from_utf8_lossy(&output.stdout);
            return assert!(output.status.success(), "{message}\n{}", String::from_utf8_lossy(&output.stderr));
        }
        // This is the first process of the namespace. `/proc` shows another process with its pid, which began long ago.
        assert_eq!(std::process::id(), 1);
        let directory = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let txn = env.begin().unwrap();
        table.put(&txn, b"key", b"first").unwrap();
        let mut other = Member::start(directory.path(), 2);
        assert_eq!(other.how, "Joined", "the first process was taken for dead");
        other.order("put key other");
        assert_eq!(
            other.answer_within(Duration::from_secs(2)),
            None,
            "the lock of a living process was granted to another"
        );
        txn.commit().unwrap();
        assert_eq!(other.answer(), "put");
        // When the other process dies, its lock is released.
        other.ask("begin");
        other.ask("put key unfinished");
        other.kill();
        env.run(|txn| table.put(txn, b"key", b"last")).unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"last"[..]));
        assert_eq!(env.repairs().rebuilds, 0);
    });
}

/// A process outside the namespace cannot see the parent's pid. So only the parent's lock on a file shows whether the
/// parent lives. The forked child inherits this lock, and must release it. (A raw clone keeps the lock until the clone
/// calls the library or ends: docs/design/0004.)
#[test]
fn a_forked_child_in_another_pid_namespace_does_not_keep_its_dead_parent_alive() {
    alone("containers::a_forked_child_in_another_pid_namespace_does_not_keep_its_dead_parent_alive", || {
        let directory = tempfile::tempdir().unwrap();
        let mut here = Member::start(directory.path(), 1);
        here.ask("put key before");
        let mut there = Member::launch_under(OTHER_PIDS_NOT_FIRST, directory.path(), 2, "record").opened();
        there.ask("begin");
        there.ask("put key unfinished");
        let forked = there.ask("fork libc");
        assert!(forked.parse::<u32>().is_ok(), "{forked}");
        there.order("abort");
        assert_eq!(here.ask("put key after"), "put", "the dead parent's lock on the record must be released");
        assert_eq!(here.ask("get key"), "after");
        here.leave();
        there.kill();
    });
}

#[test]
fn processes_with_full_shared_memory_get_an_error_and_lose_nothing() {
    alone("containers::processes_with_full_shared_memory_get_an_error_and_lose_nothing", || {
        let (memory, directory) = (SmallDisk::mount(ROOM + (16 << 20)), tempfile::tempdir().unwrap());
        let settings = format!("region_directory = \"{}\"\nmemory = \"512MiB\"\n", memory.path().display());
        std::fs::write(directory.path().join("libtp.toml"), settings).unwrap();
        let mut crew: Vec<Member> = (1..=3).map(|number| Member::start(directory.path(), number)).collect();
        assert!(crew[0].ask("region").starts_with(&memory.path().display().to_string()));
        crew[0].ask("transfers 100");
        crew[0].ask("begin");
        crew[0].ask("put key unfinished");
        memory.ballast("ballast", u64::MAX);
        for member in &mut crew[1..] {
            member.order("transfers 4000");
        }
        let mut done = 0;
        for member in &crew[1..] {
            match member.answer() {
                answer if answer == "transferred" => done += 1,
                refused => assert!(refused.contains("full") && refused.contains("nothing was changed"), "{refused}"),
            }
        }
        // One process dies. Its sessions are repaired when there is room again, or earlier.
        crew.remove(0).kill();
        memory.free("ballast");
        assert_eq!(crew[0].ask("get key"), "none");
        assert_eq!(crew[0].ask("put key value"), "put");
        assert_eq!(crew[1].ask("get key"), "value");
        crew.into_iter().for_each(Member::leave);
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_ne!(env.opened().how, OpenedBy::Restarted);
        let journal = Bank::open(&env).unwrap().audit().unwrap();
        assert!(
            journal.len() >= done * 4000 + 100,
            "{done} processes made all their transfers, but the journal has {}",
            journal.len()
        );
        println!("figures: full shared memory of 3 processes: {done} of 2 made all their transfers, 0 lost, 0 SIGBUS");
    });
}
