//! Files that another user made under the name of our shared memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtp::{Env, OpenedBy};

use crate::crew::Member;

/// An ordinary user and group.
const NOBODY: &str = "65534:65534";

/// Makes another user the owner of a file. If we may not, prints a message and returns false.
fn change_owner(file: &Path, test: &str) -> bool {
    let given = Command::new("chown").arg(NOBODY).arg(file).status().is_ok_and(|status| status.success());
    if !given {
        println!("figures: SKIPPED {test}: only root can give a file to another user");
    }
    given
}

/// Returns the region of a process that was killed after one sync commit.
fn region_of_the_dead(directory: &Path) -> PathBuf {
    let mut one = Member::start(directory, 1);
    one.ask("put key value");
    let region = PathBuf::from(one.ask("region"));
    one.kill();
    one.wait();
    region
}

fn value(env: &Env) -> Option<Vec<u8>> {
    let table = env.btree("table").unwrap();
    env.run(|txn| table.get(txn, b"key")).unwrap()
}

#[test]
fn memory_that_belongs_to_another_user_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let region = region_of_the_dead(directory.path());
    // Apart from its owner, the file is the real region.
    if !change_owner(&region, "memory_that_belongs_to_another_user_is_not_trusted") {
        return;
    }
    match Env::open_or_create(directory.path()) {
        Ok(env) => {
            assert_eq!(env.opened().how, OpenedBy::Restarted, "the other user's memory was used");
            assert_eq!(value(&env).as_deref(), Some(&b"value"[..]));
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(&region.display().to_string()), "{error}");
            assert!(region.exists(), "a file of another user was removed");
        }
    }
}

#[test]
fn a_file_planted_under_the_name_of_our_memory_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let region = region_of_the_dead(directory.path());
    let bytes = std::fs::read(&region).unwrap();
    // The planted files are a copy of the real file, and three files that are no regions.
    for planted in [bytes.clone(), vec![0xAA; bytes.len()], vec![], vec![0; 4096]] {
        std::fs::remove_file(&region).unwrap();
        std::fs::write(&region, &planted).unwrap();
        change_owner(&region, "a_file_planted_under_the_name_of_our_memory_is_not_used");
        match Env::open_or_create(directory.path()) {
            Ok(env) => {
                assert_eq!(env.opened().how, OpenedBy::Restarted, "the planted file was used");
                assert_eq!(value(&env).as_deref(), Some(&b"value"[..]));
            }
            Err(error) => assert!(error.to_string().contains(&region.display().to_string()), "{error}"),
        }
        // The next round needs the memory of a killed process again.
        drop(std::fs::remove_file(&region));
        assert_eq!(region_of_the_dead(directory.path()), region);
    }
}

#[test]
fn a_link_planted_under_the_name_of_our_memory_is_not_followed() {
    let (directory, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let region = region_of_the_dead(directory.path());
    let precious = place.path().join("precious");
    std::fs::write(&precious, "do not touch").unwrap();
    std::fs::remove_file(&region).unwrap();
    std::os::unix::fs::symlink(&precious, &region).unwrap();
    if let Ok(env) = Env::open_or_create(directory.path()) {
        assert_eq!(value(&env).as_deref(), Some(&b"value"[..]));
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "do not touch");
}
