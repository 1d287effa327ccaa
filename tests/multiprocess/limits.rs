//! Limits: processes with less address space, file size or descriptors than others, and shared memory that cannot grow.

use std::time::{Duration, Instant};

use libtp::{Bytes, Env, Settings};
use libtp_tests::sizes;
use libtp_tests::small_disk::{alone, SmallDisk};
use rustix::process::{prlimit, Resource, Rlimit};

use crate::crew::Member;

/// The command that starts a program with a limit on its address space, in KiB (`ulimit -v`).
const LITTLE: [&str; 4] = ["sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh"];

#[test]
fn a_process_with_too_small_an_address_space_is_refused_and_the_others_continue() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("transfers 100");
    let refused = Member::launch_under(&LITTLE, directory.path(), 3, "record").opened();
    assert!(refused.how.contains("RLIMIT_AS") && refused.how.contains("Raise"), "{}", refused.how);
    two.ask("transfers 100");
    assert_eq!(one.ask("rebuilds"), "0");
    for member in [&mut one, &mut two] {
        member.kill();
        member.wait();
    }
    // A process with the limit cannot map the memory of the dead processes either. It is refused, and the memory stays
    // for processes that can map it.
    let refused = Member::launch_under(&LITTLE, directory.path(), 3, "record").opened();
    assert!(refused.how.contains("RLIMIT_AS"), "{}", refused.how);
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, libtp::OpenedBy::Repaired);
    assert_eq!(libtp_tests::transfers::Bank::open(&env).unwrap().audit().unwrap().len(), 200);
}

#[test]
fn a_small_limit_of_the_first_process_makes_the_memory_small_for_all_processes() {
    let directory = tempfile::tempdir().unwrap();
    let mut small = Member::launch_under(&LITTLE, directory.path(), 1, "record").opened();
    assert_eq!(small.how, "Created");
    let (mut large, mut other) =
        (Member::start(directory.path(), 2), Member::launch_under(&LITTLE, directory.path(), 3, "record").opened());
    assert_eq!((large.how.as_str(), other.how.as_str()), ("Joined", "Joined"));
    for member in [&mut large, &mut small, &mut other] {
        member.ask("transfers 500");
    }
    large.kill();
    large.wait();
    assert_eq!(small.ask("put key value"), "put");
    assert_eq!(other.ask("get key"), "value");
    assert_eq!(small.ask("rebuilds"), "0");
    small.leave();
    other.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(libtp_tests::transfers::Bank::open(&env).unwrap().audit().unwrap().len(), 1500);
}

#[test]
fn a_process_can_work_under_any_limit_of_its_address_space() {
    // With each of these limits, a reservation of a power of two takes nearly all of the address space.
    for mib in [150, 300, 530, 1045] {
        let directory = tempfile::tempdir().unwrap();
        let limit = format!("ulimit -v {}; exec \"$@\"", mib << 10);
        let mut one = Member::launch_under(&["sh", "-c", &limit, "sh"], directory.path(), 1, "record").opened();
        assert_eq!(one.how, "Created", "{mib} MiB");
        assert_eq!(one.ask("transfers 300"), "transferred", "{mib} MiB");
        let mut two = Member::start(directory.path(), 2);
        assert_eq!(two.how, "Joined", "{mib} MiB");
        two.ask("transfers 100");
        assert_eq!(one.ask("put key value"), "put", "{mib} MiB");
        two.leave();
        one.leave();
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!(libtp_tests::transfers::Bank::open(&env).unwrap().audit().unwrap().len(), 400);
    }
}

/// Sets the address space of a process: `more` bytes more than it has now, or no limit.
fn limit_address_space(member: &Member, more: Option<u64>) {
    let used = std::fs::read_to_string(format!("/proc/{}/statm", member.pid())).unwrap();
    let pages: u64 = used.split_whitespace().next().unwrap().parse().unwrap();
    let current = more.map(|more| pages * rustix::param::page_size() as u64 + more);
    prlimit(Some(member.kernel_pid()), Resource::As, Rlimit { current, maximum: None }).unwrap();
}

#[test]
fn a_value_for_which_a_process_has_no_memory_is_an_error_and_the_process_continues() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
    env.run(|txn| table.put(txn, b"long", &vec![7; 40 << 20])).unwrap();
    let mut one = Member::start(directory.path(), 1);
    limit_address_space(&one, Some(24 << 20));
    let tried = one.ask("copies long");
    for call in tried.split(" | ") {
        let is_refused =
            call.contains("this process has no memory for a copy of 41943040 bytes") && call.contains("ulimit -v");
        assert!(is_refused && call.contains("nothing was changed"), "{call}");
    }
    assert_eq!(tried.split(" | ").count(), 6, "{tried}");
    assert_eq!(one.ask("get key"), "value");
    limit_address_space(&one, None);
    let tried = one.ask("copies long");
    assert!(tried.split(" | ").all(|call| call.ends_with(": done")), "{tried}");
    one.leave();
    assert_eq!(env.run(|txn| table.get(txn, b"long")).unwrap(), Some(vec![7; 40 << 20]));
}

#[test]
fn without_a_setting_pages_take_half_of_the_room_for_shared_memory() {
    alone("limits::without_a_setting_pages_take_half_of_the_room_for_shared_memory", || {
        let memory = SmallDisk::mount(200 << 20);
        let budget = |settings: Settings| {
            let directory = tempfile::tempdir().unwrap();
            let settings = Settings { region_directory: Some(memory.path().to_path_buf()), ..settings };
            let env = Env::builder().settings(settings).open(directory.path()).unwrap();
            env.stats().unwrap().pools[0].budget
        };
        let found = budget(Settings::default());
        assert!((50 << 20..=100 << 20).contains(&found), "{found} bytes of pages in 200 MiB");
        assert_eq!(budget(Settings { memory: Some(Bytes::mib(1000)), ..Settings::default() }), 1000 << 20);
    });
}

#[test]
fn rebuilt_memory_is_not_too_large_for_its_attached_processes() {
    let directory = tempfile::tempdir().unwrap();
    let mut small = Member::launch_under(&LITTLE, directory.path(), 1, "record").opened();
    let mut large = Member::start(directory.path(), 2);
    let env = Env::open_or_create(directory.path()).unwrap();
    for round in 1..=4 {
        env.managers().processes.declare_broken();
        // The first of the two processes rebuilds the memory.
        let (first, second) = if round % 2 == 0 { (&mut small, &mut large) } else { (&mut large, &mut small) };
        assert_eq!(first.ask("put key value"), "put");
        assert_eq!(second.ask("get key"), "value");
        assert_eq!(second.ask("rebuilds"), round.to_string());
        env.checkpoint().unwrap();
    }
    drop(env);
    small.leave();
    large.leave();
}

/// Checks that a process returns an error when it meets its own limit while it leads a flush, and that other processes
/// still commit.
fn meets_its_limit(resource: Resource, limit: u64) {
    let directory = tempfile::tempdir().unwrap();
    let settings = "log_segment_first = \"64KiB\"\nlog_segment_max = \"64KiB\"\n";
    std::fs::write(directory.path().join("libtp.toml"), settings).unwrap();
    let mut other = Member::start(directory.path(), 1);
    let without_signal = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let mut limited = Member::launch_under(&without_signal, directory.path(), 2, "record").opened();
    limited.ask("put before there");
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    prlimit(Some(limited.kernel_pid()), resource, limit).unwrap();
    let (mut refusals, mut acknowledged) = (Vec::new(), 0);
    for round in 0..300 {
        if round >= 150 && (resource == Resource::Nofile || !refusals.is_empty()) {
            break;
        }
        // A commit is not refused if the other process flushes it in time. So from round 150 on, the other process is
        // stopped.
        let alone = round >= 150;
        if alone {
            other.stop();
        }
        // All puts have the same key, so the log grows, but the data file does not.
        let letter = if round % 2 == 0 { "x" } else { "y" };
        limited.order(&format!("put before {}", letter.repeat(800)));
        let answer = limited.answer();
        if alone {
            other.resume();
        }
        match answer {
            answer if answer == "put" => acknowledged += 1,
            refusal => refusals.push(refusal),
        }
        if refusals.len() == 4 {
            break;
        }
        assert_eq!(other.ask(&format!("put other{} there", round % 4)), "put");
    }
    println!("figures: {resource:?}: {acknowledged} answered, {} refused: {:?}", refusals.len(), refusals.first());
    // A process at the limit of descriptors may have a spare descriptor for each file that it opens.
    assert!(!refusals.is_empty() || resource == Resource::Nofile, "the limit was never met");
    other.ask("transfers 100");
    assert_eq!(other.ask("rebuilds"), "0");
    limited.kill();
    limited.wait();
    other.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(!env.opened().lost);
    assert_eq!(libtp_tests::transfers::Bank::open(&env).unwrap().audit().unwrap().len(), 100);
}

#[test]
fn a_process_with_a_file_size_limit_does_not_stop_other_processes() {
    meets_its_limit(Resource::Fsize, 32 << 10);
}

#[test]
fn a_process_without_free_descriptors_does_not_stop_other_processes() {
    meets_its_limit(Resource::Nofile, 4);
}

/// Keeps the environment's shared memory from growing, and allocates all of its free bytes. Returns the region's
/// previous reserve.
fn fill(env: &Env) -> u64 {
    let region = env.managers().region.clone();
    let before = region.header().reserve.load();
    region.header().reserve.publish(region.size());
    for piece in [1 << 20, 64 << 10, 4096, 64] {
        while region.allocate_bytes(piece, 64).is_ok() {}
    }
    before
}

#[test]
fn a_dead_session_in_full_memory_is_repaired_without_a_new_session() {
    let directory = tempfile::tempdir().unwrap();
    let mut victim = Member::start(directory.path(), 1);
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"before")).unwrap();
    victim.ask("begin");
    victim.ask("put key unfinished");
    let reserve = fill(&env);
    let all: Vec<_> = std::iter::from_fn(|| env.managers().processes.join().ok()).collect();
    assert!(env.managers().processes.join().is_err(), "the memory still has room for a session");
    // A process without background threads is still admitted, so that an operator can inspect the environment and
    // free memory.
    let quiet = Settings { no_background: true, ..Settings::default() };
    let operator = Env::builder().settings(quiet).open(directory.path()).unwrap();
    assert_eq!(operator.transactions().len(), 1);
    drop(operator);
    victim.kill();
    let (begun, patience) = (Instant::now(), Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 20)));
    while !env.transactions().is_empty() {
        assert!(begun.elapsed() < patience, "the transaction is not ended: {:?}", env.transactions());
        std::thread::sleep(Duration::from_millis(5));
    }
    env.run(|txn| table.put(txn, b"key", b"after")).unwrap();
    assert_eq!(env.repairs().rebuilds, 0);
    drop(all);
    env.managers().region.header().reserve.publish(reserve);
    let mut other = Member::start(directory.path(), 2);
    assert_eq!(other.ask("get key"), "after");
    other.leave();
}
