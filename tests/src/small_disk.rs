//! Small mounted disks: a tmpfs in a mount namespace that ends with the test's process.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ALONE: &str = "LIBTP_TEST_ALONE";
/// The capability to mount, a bit of the set in /proc.
const CAP_SYS_ADMIN: u32 = 21;

/// Returns the arguments of `unshare` with which a process may mount here, as root or as root of a new user namespace.
fn mount_arguments() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
    ways.into_iter().find(|way| {
        let script = "d=$(mktemp -d) && mount -t tmpfs -o size=64k tmpfs $d && umount $d; s=$?; rmdir $d; exit $s";
        let tried = Command::new("unshare").args(*way).args(["sh", "-c", script]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
}

/// Returns the arguments of `unshare` with which a process is an ordinary user, even if we are root. File permissions
/// apply to such a process.
fn ordinary_user_arguments() -> Option<&'static [&'static str]> {
    let tried = Command::new("unshare").args(["--user", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success()).then_some(&["--user"])
}

/// Returns whether this process has all of root's rights. With these rights, a test that cannot run is an error.
fn has_roots_rights() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << CAP_SYS_ADMIN != 0)
}

/// Runs the test `name` in its own process, which may mount disks. A SIGBUS in that process fails the test. Where
/// mounting is not allowed, prints that the test is skipped.
pub fn alone(name: &str, test: impl FnOnce()) {
    apart(name, mount_arguments, test);
}

/// Runs the test `name` in its own process, which is an ordinary user. Where that is not possible, prints that the
/// test is skipped.
pub fn as_nobody(name: &str, test: impl FnOnce()) {
    apart(name, ordinary_user_arguments, test);
}

fn apart(name: &str, way: impl FnOnce() -> Option<&'static [&'static str]>, test: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|chosen| chosen == name) {
        return test();
    }
    let Some(way) = way() else {
        let text = format!("SKIPPED {name}: it needs root's rights or user namespaces");
        // In CI no test may be skipped. If this process has root's rights, only `unshare` or `mount` can be missing.
        assert!(
            std::env::var_os("CI").is_none() || !has_roots_rights(),
            "{text}, and this process is root: install util-linux"
        );
        println!("figures: {text}");
        eprintln!("{text}");
        return;
    };
    let program = std::env::current_exe().expect("a program knows its path");
    let output = Command::new("unshare")
        .args(way)
        .arg(program)
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(ALONE, name)
        .output()
        .expect("unshare was found a moment ago");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.find("figures: ").map(|at| &line[at..])).for_each(|line| println!("{line}"));
    if let Some(signal) = output.status.signal() {
        panic!("{name} died of signal {signal} (7 is SIGBUS)\n{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(output.status.success(), "{name}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{name} is no test\n{text}");
}

/// A disk of a given number of bytes.
pub struct SmallDisk {
    path: PathBuf,
    _place: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a disk. Only a test inside [`alone`] may call this.
    pub fn mount(bytes: u64) -> SmallDisk {
        let place = tempfile::tempdir().expect("a directory for the test");
        let path = place.path().to_path_buf();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={}k", bytes >> 10), "tmpfs"], &path);
        SmallDisk { path, _place: place }
    }

    /// Returns where the disk is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the disk read-only.
    pub fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro"], &self.path);
    }

    /// Writes blocks to a file until it has `bytes` bytes or the disk is full. Returns the number of written bytes.
    pub fn ballast(&self, name: &str, bytes: u64) -> u64 {
        let mut file = std::fs::File::create(self.path.join(name)).expect("an empty file needs no room");
        let block = [0xaa; 4096];
        let mut written = 0;
        while written < bytes && file.write_all(&block).is_ok() {
            written += block.len() as u64;
        }
        written
    }

    /// Frees the room of a ballast file.
    pub fn free(&self, name: &str) {
        std::fs::remove_file(self.path.join(name)).expect("the ballast is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmounts lazily, because a failing test may have open files. The end of the namespace unmounts the disk in
        // any case.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let status = Command::new(program).args(arguments).arg(path).status().expect("every Linux has this program");
    assert!(status.success(), "{program} {arguments:?} {}: {status}", path.display());
}
