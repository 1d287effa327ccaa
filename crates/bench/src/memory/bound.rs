//! A limit for a process's memory, including the pages of files that the process maps and reads. The limit is set on a
//! control group, which is made for the process and removed afterwards.
//!
//! `RLIMIT_AS` does not work here: it limits the addresses, and a mapped file has addresses also for pages that are not
//! in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};

/// Number of attempts to remove a group whose process has ended.
const ATTEMPTS: u32 = 100;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The two versions of control groups, whose files for a limit have different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group with a limit, for one process.
#[derive(Debug)]
pub struct Bounds {
    group: PathBuf,
    version: Version,
}

impl Bounds {
    /// Makes a group whose processes together have at most `bytes` bytes of memory.
    ///
    /// # Errors
    /// `Settings` if this process may not make such a group.
    pub fn new(bytes: u64) -> Result<Bounds> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // `Relaxed` is enough: the numbers only have to differ.
        let name = format!("libtp-bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut refusals = Vec::new();
        for (version, parent) in parents(&read("/proc/self/cgroup"), &read("/proc/self/mounts")) {
            match make(version, &parent.join(&name), bytes) {
                Ok(bounds) => return Ok(bounds),
                Err(why) => refusals.push(format!("{}: {why}", parent.display())),
            }
        }
        if refusals.is_empty() {
            refusals.push("no control group for memory is mounted".into());
        }
        Err(Error::Settings(format!(
            "memory could not be bounded, because this process could not make a control group for memory: run the \
             benchmark with the permission to make a control group ({})",
            refusals.join("; ")
        )))
    }

    /// Puts a process into the group, so that the limit applies to it. Memory that the process has already does not
    /// count.
    ///
    /// # Errors
    /// `File` if the process cannot be moved.
    pub fn admit(&self, process: u32) -> Result<()> {
        let path = self.group.join("cgroup.procs");
        fs::write(&path, process.to_string()).map_err(Error::file("write", &path))
    }

    /// Returns the group's peak memory in bytes, if the kernel reports it.
    pub fn most(&self) -> Option<u64> {
        let name = if self.version == Version::One { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.group.join(name)).ok()?.trim().parse().ok()
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        // The kernel frees the group only some time after its last process has ended.
        for _ in 0..ATTEMPTS {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn make(version: Version, group: &Path, bytes: u64) -> std::io::Result<Bounds> {
    fs::create_dir(group)?;
    let bounds = Bounds { group: group.to_path_buf(), version };
    match version {
        Version::One => {
            fs::write(group.join("memory.limit_in_bytes"), bytes.to_string())?;
            // This file is missing if the kernel does not count swap.
            let _ = fs::write(group.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        }
        Version::Two => {
            // This file exists only if the parent group enables the memory controller for its children.
            fs::write(group.join("memory.max"), bytes.to_string())?;
            let _ = fs::write(group.join("memory.swap.max"), "0");
        }
    }
    Ok(bounds)
}

/// Returns the groups in which a new group can perhaps be made, in the order of the attempts: groups of version one
/// before groups of version two, and this process's group before the groups above it.
fn parents(own: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    let mut parents = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(place), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let is_ours = |controllers: &str| match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        let group = own.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            is_ours(controllers).then_some(group)
        });
        let own = Path::new(place).join(group.unwrap_or("/").trim_start_matches('/'));
        let above = own.ancestors().take_while(|group| group.starts_with(place));
        parents.extend(above.filter(|group| group.is_dir()).map(|group| (version, group.to_path_buf())));
    }
    parents.sort_by_key(|(version, _)| *version == Version::Two);
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_prefers_its_own_group_to_the_groups_above_it() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        fs::create_dir_all(one.join("a/b")).unwrap();
        fs::create_dir_all(two.join("c")).unwrap();
        let mounts = format!(
            "cgroup2 {} cgroup2 rw 0 0\ncgroup {} cgroup rw,memory 0 0\ncgroup /none cgroup rw,cpu 0 0\ntmpfs /x tmpfs rw 0 0\n",
            two.display(),
            one.display()
        );
        let found = parents("9:name=systemd:/\n4:memory:/a/b\n1:cpu:/z\n0::/c\n", &mounts);
        let expected = [
            (Version::One, one.join("a/b")),
            (Version::One, one.join("a")),
            (Version::One, one.clone()),
            (Version::Two, two.join("c")),
            (Version::Two, two.clone()),
        ];
        assert_eq!(found, expected);
        // In a container, the process's group has a path that does not exist there; the mounted root is the group.
        let found = parents("4:memory:/elsewhere/b\n", &mounts);
        assert_eq!(found, [(Version::One, one), (Version::Two, two)]);
        assert!(parents("", "").is_empty());
    }
}
