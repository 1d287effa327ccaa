//! A new segment's blocks, contents and name are on the disk before the segment's first use. Otherwise a crash that the
//! segment's stores survive would lose the parts that are only in ordinary memory.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtp_tests::planted::{self, NoticedBy};
use libtp_tests::sizes;
use vista::{Options, Survives};

use crate::calls::{calls, mark, Call};
use crate::trace::be_traced;

const PATH: &str = "VISTA_TEST_CREATION";
const BUG: &str = "VISTA_TEST_CREATION_BUG";

/// The child's part.
fn make(path: &Path) {
    if let Some(bug) = sizes::chosen::<String>(BUG) {
        rio::planted::plant(Some(&bug));
    }
    be_traced(path);
    mark();
    let segment = Options::new(1 << 20).survives(Survives::System).write_back(true).anywhere().open(path).unwrap();
    // The first use begins here.
    mark();
    std::mem::forget(segment);
    std::process::exit(0);
}

/// The effects of the calls so far.
#[derive(Default)]
struct Seen {
    /// The written ranges of the new file. (After a crash, a range that was only allocated has zeros.)
    filled: Vec<Range<u64>>,
    /// Whether the file was extended or written to since its last sync.
    is_unsynced: bool,
    /// Whether the file's mapping was synced since the file's last extension. (The test sees only system calls, so it
    /// assumes that the segment was stored into the mapping before the sync.)
    is_written: bool,
    /// Whether the file's new name is not on the disk yet.
    is_unnamed: bool,
    named: usize,
    wrong: Vec<String>,
}

impl Seen {
    fn see(&mut self, call: Call, path: &Path) {
        let file = call.file();
        let is_new = file.as_ref().is_some_and(|file| file.starts_with(path.parent().unwrap()) && is_passing(file));
        let [_, bytes, at] = call.given;
        match call.number {
            libc::SYS_pwrite64 if is_new => {
                self.filled.push(at..at + bytes);
                (self.is_unsynced, self.is_written) = (true, false);
            }
            libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_write if is_new => {
                (self.is_unsynced, self.is_written) = (true, false);
            }
            libc::SYS_msync => self.is_written = true,
            libc::SYS_fsync | libc::SYS_fdatasync if is_new => self.is_unsynced = false,
            libc::SYS_fsync if file.as_deref() == path.parent() => self.is_unnamed = false,
            libc::SYS_link | libc::SYS_linkat | libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => {
                self.name(path);
            }
            _ => {}
        }
    }

    /// Checks the file that is about to get its name.
    fn name(&mut self, path: &Path) {
        self.named += 1;
        self.is_unnamed = true;
        let mut files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let file = File::open(files.find(|file| is_passing(file)).expect("the new file exists")).unwrap();
        // The store of the header allocates the file's first block.
        let (bytes, mut to) = (file.metadata().unwrap().len(), 4096);
        self.filled.sort_by_key(|range| range.start);
        for range in &self.filled {
            to = if range.start <= to { to.max(range.end) } else { to };
        }
        if to < bytes {
            self.wrong.push(format!("the segment is named before its bytes {to} to {bytes} are written"));
        }
        if self.is_unsynced || !self.is_written {
            self.wrong.push("the segment is named before it is synced".into());
        }
    }
}

fn is_passing(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains(".new-"))
}

/// Makes a segment. Returns the violations of the order.
fn made(bug: Option<&str>) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().canonicalize().unwrap().join("segment");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "creation::a_new_segment_is_on_its_disk_before_it_is_used"]).env(PATH, &path);
    command.envs(bug.map(|bug| (BUG, bug)));
    let mut seen = Seen::default();
    calls(&mut command, &path, |call| seen.see(call, &path)).unwrap();
    assert_eq!(seen.named, 1, "the segment gets its name by one call");
    if seen.is_unnamed {
        seen.wrong.push("the segment is used before its name is synced".into());
    }
    seen.wrong
}

#[test]
fn a_new_segment_is_on_its_disk_before_it_is_used() {
    if let Some(path) = sizes::chosen::<String>(PATH) {
        make(Path::new(&path));
    }
    assert_eq!(made(None), [""; 0]);
}

#[test]
fn planted_bugs_in_the_creation_are_noticed() {
    let planted = planted::of_stores(NoticedBy::Creation);
    assert_eq!(planted.len(), 3);
    for bug in planted {
        let wrong = made(Some(bug));
        println!("  {bug}: {wrong:?}");
        assert_eq!(wrong.len(), 1, "{bug:?}");
    }
}
