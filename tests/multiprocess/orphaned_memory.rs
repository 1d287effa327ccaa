//! Shared memory that deleted or moved environments left. The next process that opens any environment removes such
//! memory, unless it may hold commits that are not on disk.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use libtp::{Env, OpenedBy, OrphanedMemory};
use tempfile::TempDir;

use crate::crew::Member;
use crate::forked::orphan_of;

/// A place for environments, whose shared memory has a directory of its own. In the usual directory, processes of other
/// tests would remove left memory, too.
struct Place {
    homes: TempDir,
    memory: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { homes: tempfile::tempdir().unwrap(), memory: tempfile::tempdir().unwrap() }
    }

    /// Makes the directory of an environment that writes relaxed commits to the disk as late as possible.
    fn environment(&self, name: &str) -> PathBuf {
        let directory = self.homes.path().join(name);
        fs::create_dir(&directory).unwrap();
        let memory = self.memory.path().display();
        let settings = format!("region_directory = \"{memory}\"\nrelaxed_millis = 3600000\n");
        fs::write(directory.join("libtp.toml"), settings).unwrap();
        directory
    }

    /// Opens a new environment. Returns the memory that other environments left and that was not removed.
    fn sweep(&self, name: &str) -> Vec<OrphanedMemory> {
        Env::open_or_create(self.environment(name)).unwrap().sweep_memory()
    }

    /// Makes an environment whose only process is killed after these orders; returns its directory and its region.
    fn killed_after(&self, name: &str, orders: &[&str]) -> (PathBuf, PathBuf) {
        let directory = self.environment(name);
        let mut one = Member::start(&directory, 1);
        for order in orders {
            one.ask(order);
        }
        let region = PathBuf::from(one.ask("region"));
        assert!(region.starts_with(self.memory.path()));
        one.kill();
        one.wait();
        (directory, region)
    }
}

/// Returns the region of an environment that has been deleted.
fn region_of_a_deleted_environment(place: &Place, name: &str) -> PathBuf {
    let (directory, region) = place.killed_after(name, &["put key value"]);
    fs::remove_dir_all(directory).unwrap();
    assert!(region.exists(), "no memory is left, so the test shows nothing");
    region
}

fn value(directory: &Path) -> (OpenedBy, Option<Vec<u8>>) {
    let env = Env::open_or_create(directory).unwrap();
    let table = env.btree("table").unwrap();
    (env.opened().how, env.run(|txn| table.get(txn, b"key")).unwrap())
}

#[test]
fn the_memory_of_an_environment_that_is_gone_is_removed_by_the_next_open() {
    let place = Place::new();
    // The changes of the unfinished transaction need not be kept.
    let (gone, region) = place.killed_after("gone", &["put key value", "begin", "put key unfinished"]);
    let (dead, of_dead) = place.killed_after("dead", &["put key value"]);
    let mut living = Member::start(&place.environment("living"), 2);
    let of_living = PathBuf::from(living.ask("region"));
    fs::remove_dir_all(gone).unwrap();
    assert!(region.exists(), "no memory is left, so the test shows nothing");
    assert_eq!(place.sweep("third"), []);
    assert!(!region.exists(), "{} was not removed", region.display());
    assert!(of_dead.exists() && of_living.exists(), "the memory of an existing environment was removed");
    living.leave();
    assert_eq!(value(&dead), (OpenedBy::Repaired, Some(b"value".to_vec())));
}

#[test]
fn an_opening_of_another_environment_removes_orphaned_memory() {
    let place = Place::new();
    let (dead, of_dead) = place.killed_after("dead", &["put key value"]);
    let other = place.environment("other");
    let mut at_work = None;
    // Each opening is by a new process, which does not call `sweep_memory`.
    for (how, number) in ["Created", "Clean", "Joined", "Repaired"].into_iter().zip(1..) {
        let region = region_of_a_deleted_environment(&place, how);
        let mut opens = Member::start(&other, number);
        assert_eq!(opens.how, how);
        assert!(!region.exists(), "{} was not removed by another environment's opening: {how}", region.display());
        match how {
            "Created" => opens.leave(),
            "Clean" => at_work = Some(opens),
            _ => {
                opens.kill();
                opens.wait();
                if let Some(mut at_work) = at_work.take() {
                    at_work.kill();
                    at_work.wait();
                }
            }
        }
    }
    assert!(of_dead.exists(), "the memory of an existing environment was removed");
    assert_eq!(value(&dead), (OpenedBy::Repaired, Some(b"value".to_vec())));
}

#[test]
fn a_process_that_has_long_been_attached_removes_left_memory_when_it_calls_sweep_memory() {
    let place = Place::new();
    let (dead, of_dead) = place.killed_after("dead", &["put key value"]);
    let env = Env::open_or_create(place.environment("other")).unwrap();
    for name in ["one", "two"] {
        let region = region_of_a_deleted_environment(&place, name);
        assert_eq!(env.sweep_memory(), []);
        assert!(!region.exists(), "{} was not removed", region.display());
    }
    assert!(of_dead.exists() && Path::new(&env.stats().unwrap().region).exists());
    assert_eq!(value(&dead), (OpenedBy::Repaired, Some(b"value".to_vec())));
}

#[test]
fn memory_that_another_user_left_stays() {
    if !rustix::process::geteuid().is_root() {
        let text = "SKIPPED left: only root can make files of another user";
        assert!(std::env::var_os("CI").is_none(), "{text}");
        println!("figures: {text}");
        return;
    }
    let place = Place::new();
    let region = region_of_a_deleted_environment(&place, "gone");
    chown(&region, Some(61_001), None).unwrap();
    assert_eq!(place.sweep("third"), []);
    assert!(region.exists(), "another user's memory was removed");
    chown(&region, Some(0), None).unwrap();
    assert_eq!(place.sweep("fourth"), []);
    assert!(!region.exists());
}

#[test]
fn left_memory_with_commits_that_are_not_on_disk_is_reported_and_found_from_the_moved_directory() {
    for attempt in 0.. {
        let place = Place::new();
        let (old, region) = place.killed_after("old", &["put key first", "put-relaxed key value"]);
        let new = place.homes.path().join("new");
        fs::rename(&old, &new).unwrap();
        let shown = place.sweep("third");
        if shown.is_empty() {
            // The commit was written to disk before the kill, so the memory is not needed.
            assert!(!region.exists());
            assert_eq!(value(&new), (OpenedBy::Restarted, Some(b"value".to_vec())));
            assert!(attempt < 20, "the commit was on disk each time");
            continue;
        }
        assert_eq!(shown.len(), 1, "{shown:?}");
        let directory = fs::canonicalize(place.homes.path()).unwrap().join("old").display().to_string();
        assert_eq!(shown[0].directory, directory);
        assert!(shown[0].remove.contains(&region.display().to_string()) && shown[0].why.contains("not on disk"));
        assert_eq!(value(&new), (OpenedBy::Repaired, Some(b"value".to_vec())));
        assert!(!region.exists());
        return;
    }
}

#[test]
fn an_environment_that_was_moved_loses_nothing_with_its_memory() {
    let place = Place::new();
    let (old, region) = place.killed_after("old", &["put key value"]);
    let new = place.homes.path().join("new");
    fs::rename(&old, &new).unwrap();
    assert_eq!(place.sweep("third"), []);
    assert!(!region.exists());
    assert_eq!(value(&new), (OpenedBy::Restarted, Some(b"value".to_vec())));
}

#[test]
fn a_joining_process_notes_the_environments_present_place() {
    let place = Place::new();
    let old = place.environment("old");
    let mut one = Member::start(&old, 1);
    one.ask("put key value");
    let region = PathBuf::from(one.ask("region"));
    let new = place.homes.path().join("new");
    fs::rename(&old, &new).unwrap();
    assert_eq!(value(&new), (OpenedBy::Joined, Some(b"value".to_vec())));
    one.kill();
    one.wait();
    assert_eq!(place.sweep("third"), []);
    assert!(region.exists(), "the memory of a moved environment was removed");
    assert_eq!(value(&new), (OpenedBy::Repaired, Some(b"value".to_vec())));
}

#[test]
fn memory_of_a_removed_directory_stays_while_a_process_uses_the_memory() {
    let place = Place::new();
    let directory = place.environment("gone");
    let mut one = Member::start(&directory, 1);
    one.ask("put key value");
    let region = PathBuf::from(one.ask("region"));
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(place.sweep("third"), []);
    assert!(region.exists(), "memory that a process uses was removed");
    assert_eq!(one.ask("get key"), "value");
    one.kill();
    one.wait();
    assert_eq!(place.sweep("fourth"), []);
    assert!(!region.exists());
}

#[test]
fn left_memory_is_not_removed_while_a_child_of_the_killed_process_lives() {
    let place = Place::new();
    let directory = place.environment("gone");
    let mut parent = Member::start(&directory, 1);
    parent.ask("put key value");
    let region = PathBuf::from(parent.ask("region"));
    let child = orphan_of(&mut parent, "libc");
    parent.kill();
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(place.sweep("third"), []);
    assert!(region.exists() && child.lives(), "the child has its parent's files open, so the memory must stay");
    child.end();
    parent.wait();
    assert_eq!(place.sweep("fourth"), []);
    assert!(!region.exists());
}

#[test]
fn memory_of_a_deleted_environment_is_not_used_by_a_new_environment_in_the_same_directory() {
    let place = Place::new();
    let (directory, region) = place.killed_after("gone", &["put key value"]);
    fs::remove_dir_all(&directory).unwrap();
    place.environment("gone");
    assert_eq!(value(&directory), (OpenedBy::Created, None));
    assert!(!region.exists());
}

/// Sets the flag when dropped, even if the test fails. The flag ends the threads.
struct EndOf<'d>(&'d AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        // Relaxed: the flag publishes no other data.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn openings_and_removals_of_orphaned_memory_do_not_disturb_each_other() {
    let place = Place::new();
    let directory = place.environment("used");
    let names: Vec<String> = (0..3).map(|number| format!("sweeper{number}")).collect();
    let sweepers: Vec<PathBuf> = names.iter().map(|name| place.environment(name)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sweeper in &sweepers {
            let done = &done;
            scope.spawn(move || {
                let env = Env::open_or_create(sweeper).unwrap();
                // Relaxed: the flag publishes no other data.
                while !done.load(Ordering::Relaxed) {
                    drop(env.sweep_memory());
                }
            });
        }
        let _ends = EndOf(&done);
        for round in 0..20 {
            let mut one = Member::start(&directory, 1);
            one.ask(&format!("put key {round}"));
            one.kill();
            one.wait();
            assert_eq!(value(&directory), (OpenedBy::Repaired, Some(round.to_string().into_bytes())));
            // The environment's directory is moved away for a moment, and back.
            let away = place.homes.path().join("away");
            let mut one = Member::start(&directory, 1);
            one.ask("put-relaxed key relaxed");
            one.kill();
            one.wait();
            fs::rename(&directory, &away).unwrap();
            fs::rename(&away, &directory).unwrap();
            let (how, found) = value(&directory);
            assert_eq!(found, Some(b"relaxed".to_vec()));
            // If the commit was on the disk already, the memory was not needed and may have been removed.
            assert!(matches!(how, OpenedBy::Repaired | OpenedBy::Restarted), "{how:?}");
        }
    });
}
