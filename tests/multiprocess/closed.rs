//! A program closes descriptors that it does not know, as a daemon does, and its own files then get these numbers. The
//! library must write nothing into the program's files, and lose no commit.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtp::{Bytes, Db, Durability, Env, Settings};
use libtp_tests::sizes;

const CHILD: &str = "LIBTP_TEST_CLOSING";
/// The number of records. Together they are larger than the page cache.
const RECORDS: u64 = 12_000;
const VALUE: [u8; 300] = [7; 300];
const OWN: &str = "the contents of the program's file";

#[test]
fn a_program_whose_files_get_the_librarys_descriptors_keeps_its_files_and_loses_no_commit() {
    if let Some(order) = sizes::chosen::<String>(CHILD) {
        let (part, directory) = order.split_once(' ').unwrap();
        return work(part, Path::new(directory));
    }
    for part in ["log.0", ".tp", "libtp.double", "databases"] {
        let directory = tempfile::tempdir().unwrap();
        let name = "closed::a_program_whose_files_get_the_librarys_descriptors_keeps_its_files_and_loses_no_commit";
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, format!("{part} {}", directory.path().display()))
            .output()
            .unwrap();
        assert!(ended.status.success(), "{part}: {}", String::from_utf8_lossy(&ended.stderr));
        // The region is removed, so the next opening finds only the files.
        fs::remove_file(fs::read_to_string(directory.path().join("region")).unwrap()).unwrap();
        let env = Env::open_or_create(directory.path().join("env")).unwrap();
        assert_eq!(count(&env, &env.btree("stock").unwrap()), RECORDS + 101, "{part}");
        assert_eq!(count(&env, &env.btree("made later").unwrap()), 1, "{part}");
    }
}

fn count(env: &Env, db: &Db) -> u64 {
    env.run(|txn| db.count(txn, ..)).unwrap()
}

/// Works in the child: closes the library's descriptors of files whose names contain `part`, and continues.
fn work(part: &str, directory: &Path) {
    let settings = Settings { no_background: true, memory: Some(Bytes::mib(1)), ..Settings::default() };
    let env = Env::builder().settings(settings).open(directory.join("env")).unwrap();
    let stock = env.btree("stock").unwrap();
    for some in (0..RECORDS).collect::<Vec<_>>().chunks(500) {
        env.run(|txn| some.iter().try_for_each(|number| stock.put(txn, &number.to_be_bytes(), &VALUE))).unwrap();
    }
    env.checkpoint().unwrap();
    fs::write(directory.join("region"), env.stats().unwrap().region).unwrap();
    let own = directory.join("own");
    fs::write(&own, OWN).unwrap();
    let put = |number: u64| {
        env.run_with(Durability::Sync, |txn| stock.put(txn, &number.to_be_bytes(), &VALUE)).unwrap();
    };
    put(RECORDS);
    let taken = take(part, &directory.join("env"), &own);
    assert!(!taken.is_empty(), "no descriptor of {part} was open");
    assert_eq!(count(&env, &stock), RECORDS + 1);
    (RECORDS + 1..RECORDS + 101).for_each(put);
    let later = env.btree("made later").unwrap();
    env.run_with(Durability::Sync, |txn| later.put(txn, b"a", b"b")).unwrap();
    env.checkpoint().unwrap();
    assert_eq!(count(&env, &stock), RECORDS + 101);
    assert_eq!(fs::read_to_string(&own).unwrap(), OWN, "the library has written into a file of the program");
    for file in taken {
        assert_eq!(
            fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap(),
            own,
            "the library closed a descriptor of the program"
        );
    }
    // Dies with the environment open.
    std::process::exit(0);
}

/// Closes the descriptors of the environment's files whose names contain `part`, and opens `own` with the same
/// descriptor numbers.
fn take(part: &str, env: &Path, own: &Path) -> Vec<File> {
    let mut taken = Vec::new();
    for number in 3..256 {
        let leads_to = fs::read_link(format!("/proc/self/fd/{number}")).unwrap_or_else(|_| PathBuf::new());
        let name = leads_to.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if leads_to.starts_with(env) && name.contains(part) {
            nix::unistd::close(number).unwrap();
            let file = File::options().read(true).write(true).open(own).unwrap();
            let file = match file.as_raw_fd() == number {
                true => file,
                false => File::from(rustix::io::fcntl_dupfd_cloexec(&file, number).unwrap()),
            };
            assert_eq!(file.as_raw_fd(), number);
            taken.push(file);
        }
    }
    taken
}
