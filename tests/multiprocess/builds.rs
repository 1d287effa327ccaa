//! Another build of the library, whose shared memory looks different: never beside others, and in order when it is first.
//! It is played by changing, in the region's file, what the build that made it says of itself.

use std::os::unix::fs::FileExt;
use std::path::Path;

use libtp::{Env, How};

use crate::crew::Member;

/// Where the region's header has the hash of the build (docs/formats/region.md).
const LAYOUT: u64 = 16;

/// Makes the region another build's, or ours again.
fn swap_build(region: &Path) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(region).unwrap();
    let mut hash = [0; 8];
    file.read_exact_at(&mut hash, LAYOUT).unwrap();
    file.write_all_at(&hash.map(|byte| !byte), LAYOUT).unwrap();
}

#[test]
fn another_build_is_refused_while_others_are_attached() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let region = one.ask("region");
    swap_build(region.as_ref());
    let error = Env::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("another build") && error.contains(&region), "{error}");
    assert_eq!(one.ask("get key"), "value");
    swap_build(region.as_ref());
    assert_eq!(Env::open(directory.path()).unwrap().opened().how, How::Joined);
    one.leave();
}

#[test]
fn another_build_takes_over_when_it_is_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let region = one.ask("region");
    one.kill();
    one.acknowledged();
    swap_build(region.as_ref());
    for wanted in [How::Restarted, How::Clean] {
        let env = Env::open(directory.path()).unwrap();
        assert_eq!(env.opened().how, wanted);
        let table = env.btree("table").unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
    }
    assert!(!Path::new(&region).exists(), "nothing is left of either region");
}
