//! An opening that is refused while it restarts: before it has changed the first byte of a file, and after that
//! (PROTOCOLS L6).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libtp::Env;

use crate::crew::Member;

/// Returns the bytes of all files of a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// Directories in all places in which the environment's memory can be: no memory can be made.
struct Blocked(Vec<PathBuf>);

impl Blocked {
    /// `region` is the place of the memory in the shared directory. A file at that place is removed.
    fn new(region: &Path, directory: &Path) -> Blocked {
        let places = vec![region.to_path_buf(), directory.join("region")];
        for place in &places {
            let _ = std::fs::remove_file(place);
            std::fs::create_dir(place).unwrap();
        }
        Blocked(places)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.iter().for_each(|place| std::fs::remove_dir(place).unwrap());
    }
}

/// Starts a process that makes a synced and a relaxed commit. Without the memory, no process writes the relaxed commit
/// to the log. Returns the place of the memory, too.
fn with_a_relaxed_commit(directory: &Path) -> (Member, PathBuf) {
    std::fs::write(directory.join("libtp.toml"), "relaxed_millis = 600000").unwrap();
    let mut one = Member::start(directory, 1);
    one.ask("put key one");
    one.ask("put-relaxed other two");
    let region = PathBuf::from(one.ask("region"));
    (one, region)
}

fn get(env: &Env, key: &str) -> Option<Vec<u8>> {
    let table = env.btree("table").unwrap();
    env.run(|txn| table.get(txn, key.as_bytes())).unwrap()
}

#[test]
fn an_opening_that_cannot_make_its_memory_changes_no_file() {
    for is_killed in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut one, region) = with_a_relaxed_commit(directory.path());
        if is_killed {
            // A stopped process cannot notice the removal.
            one.stop();
            std::fs::remove_file(&region).unwrap();
            one.kill();
            one.wait();
        } else {
            one.leave();
        }
        let blocked = Blocked::new(&region, directory.path());
        let before = files(directory.path());
        for _ in 0..2 {
            let refused = Env::open_or_create(directory.path()).map(drop).unwrap_err().to_string();
            assert!(refused.contains("nothing was changed"), "{refused}");
            assert!(refused.contains("it is a directory"), "{refused}");
            assert!(files(directory.path()) == before, "killed: {is_killed}; a file has changed, and: {refused}");
        }
        drop(blocked);
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!((get(&env, "key"), env.opened().lost), (Some(b"one".to_vec()), is_killed));
        assert!(is_killed || get(&env, "other") == Some(b"two".to_vec()));
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_restart_that_fails_after_its_first_change_says_so_and_the_next_opening_has_every_commit() {
    use libtp_tests::process::until;

    let directory = tempfile::tempdir().unwrap();
    let (mut one, region) = with_a_relaxed_commit(directory.path());
    one.kill();
    one.wait();
    // The relaxed commit is only in this memory. Memory that is marked broken is replaced.
    let left = rio::UnusedRegion::take(&region).unwrap().expect("no process uses the memory");
    left.region().mark_broken();
    drop(left);
    let signals = tempfile::tempdir().unwrap();
    let (go, asleep) = (signals.path().join("go"), signals.path().join("go.asleep"));
    let plan = format!("restart: log's end found!sleep={}", go.display());
    let environment = directory.path().to_path_buf();
    let opener = std::thread::spawn(move || {
        rio::failpoint::armed_here(&plan, || Env::open_or_create(environment).map(drop).unwrap_err().to_string())
    });
    until("the restart has begun", || asleep.exists());
    let blocked = Blocked::new(&region, directory.path());
    std::fs::write(go, "").unwrap();
    let refused = opener.join().unwrap();
    assert!(refused.contains("recovery was begun and could not be finished"), "{refused}");
    assert!(refused.contains("loses no commit; when the cause is removed, the next opening repeats"), "{refused}");
    assert!(!refused.contains("nothing was changed"), "{refused}");
    drop(blocked);
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(!env.opened().lost);
    assert_eq!((get(&env, "key"), get(&env, "other")), (Some(b"one".to_vec()), Some(b"two".to_vec())));
}
