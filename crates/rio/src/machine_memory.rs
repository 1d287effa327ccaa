//! The memory that this process can use: the machine's memory, or less if a limit applies.
//!
//! Not in the papers. The limits are the limits of the process's control group and of all groups above it (versions 1
//! and 2, found by `/proc/self/cgroup` and the mount points), and the limit of its address space (`RLIMIT_AS`). A file
//! that cannot be read sets no limit.

use std::path::{Path, PathBuf};

/// The assumed memory of a machine if `/proc/meminfo` does not give it.
const UNKNOWN: u64 = 1 << 30;

/// Returns the number of bytes of memory that this process can use.
pub fn memory_bytes() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    memory_below(Path::new("/"), limit)
}

/// As [`memory_bytes`], with the kernel's files below `root`, and an address space of `limit` bytes.
fn memory_below(root: &Path, limit: Option<u64>) -> u64 {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let machine = total_of(&read("proc/meminfo")).unwrap_or(UNKNOWN);
    let groups = groups_of(&read("proc/self/cgroup"), &read("proc/self/mountinfo"));
    let limits = groups.iter().filter_map(|group| group.limit(root));
    limits.chain(limit).fold(machine, u64::min)
}

/// Returns the `MemTotal` of `/proc/meminfo`, in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A control group that limits memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// The mount point of its tree of groups.
    mount: PathBuf,
    /// The group's directory: the mount point, or a directory below it.
    directory: PathBuf,
    /// The files that contain a limit.
    files: &'static [&'static str],
}

impl Group {
    /// Returns the least limit of the group and of the groups above it.
    fn limit(&self, root: &Path) -> Option<u64> {
        let above = self.directory.ancestors().take_while(|directory| directory.starts_with(&self.mount));
        let texts = above.flat_map(|directory| self.files.iter().map(|file| directory.join(file)));
        let texts = texts.filter_map(|path| std::fs::read_to_string(root.join(path.strip_prefix("/").ok()?)).ok());
        // If there is no limit, the file has `max` in version 2, and a number above any machine's memory in version 1.
        texts.filter_map(|text| text.trim().parse().ok()).min()
    }
}

/// Returns the groups that limit a process's memory, one for each version, from `/proc/self/cgroup` and
/// `/proc/self/mountinfo`.
fn groups_of(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::of).collect();
    let group = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_unified = hierarchy == "0" && controllers.is_empty();
        if !is_unified && !controllers.split(',').any(|name| name == "memory") {
            return None;
        }
        let mount = mounts.iter().find(|mount| mount.is_of(is_unified))?;
        let files: &[&str] = if is_unified { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
        Some(Group { mount: mount.point.clone(), directory: mount.directory_of(path), files })
    };
    cgroup.lines().filter_map(group).collect()
}

/// The mount of a tree of control groups: a line of `/proc/self/mountinfo`.
struct Mount<'l> {
    /// The group at the mount point.
    root: &'l str,
    point: PathBuf,
    kind: &'l str,
    options: &'l str,
}

impl<'l> Mount<'l> {
    fn of(line: &'l str) -> Option<Mount<'l>> {
        let (front, back) = line.split_once(" - ")?;
        let (mut front, mut back) = (front.split(' ').skip(3), back.split(' '));
        let (root, point) = (front.next()?, front.next()?);
        let (kind, options) = (back.next()?, back.nth(1).unwrap_or_default());
        Some(Mount { root, point: point.replace("\\040", " ").into(), kind, options })
    }

    fn is_of(&self, is_unified: bool) -> bool {
        match is_unified {
            true => self.kind == "cgroup2",
            false => self.kind == "cgroup" && self.options.split(',').any(|option| option == "memory"),
        }
    }

    /// Returns the directory of a group. In a container the group may not be visible; then returns the mount point.
    fn directory_of(&self, group: &str) -> PathBuf {
        let below = Path::new(group).strip_prefix(self.root).unwrap_or(Path::new(""));
        let is_seen = !group.split('/').any(|part| part == "..");
        self.point.join(if is_seen { below } else { Path::new("") })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const MIB: u64 = 1 << 20;
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 30 0:31 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory\n\
                      36 30 0:32 / /sys/fs/cgroup/cpu rw shared:15 - cgroup cgroup rw,cpu\n";

    struct Root(PathBuf);

    impl Drop for Root {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A made-up root directory with 8 GiB of memory, and these files.
    fn root(files: &[(&str, &str)]) -> Root {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = Root(std::env::temp_dir().join(format!("rio-machine-{}-{number}", std::process::id())));
        let meminfo = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        for (path, text) in files.iter().chain([&meminfo]) {
            let path = root.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn mib(files: &[(&str, &str)], limit: Option<u64>) -> u64 {
        memory_below(&root(files).0, limit) / MIB
    }

    #[test]
    fn the_machines_memory_is_read_from_its_line() {
        assert_eq!(total_of("MemTotal:       24604116 kB\nMemFree: 1 kB\n"), Some(24_604_116 * 1024));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(memory_bytes() >= 16 << 20, "a test machine has 16 MiB");
        assert_eq!(mib(&[], None), 8192);
        assert_eq!(memory_below(Path::new("/nowhere"), None), UNKNOWN);
    }

    #[test]
    fn the_address_space_may_be_less() {
        assert_eq!((mib(&[], Some(150 * MIB)), mib(&[], Some(1 << 40))), (150, 8192));
    }

    #[test]
    fn a_limit_of_the_own_group_or_of_a_group_above_holds() {
        let own = ("proc/self/cgroup", "0::/system.slice/shop.service\n");
        let mounts = ("proc/self/mountinfo", V2);
        let max = |path, text| [own, mounts, (path, text)];
        let service = "sys/fs/cgroup/system.slice/shop.service/memory.max";
        assert_eq!(mib(&max(service, "536870912\n"), None), 512);
        assert_eq!(mib(&max(service, "max\n"), None), 8192);
        assert_eq!(mib(&max("sys/fs/cgroup/system.slice/memory.max", "268435456\n"), None), 256);
        assert_eq!(mib(&max("sys/fs/cgroup/system.slice/shop.service/memory.high", "134217728\n"), None), 128);
        assert_eq!(mib(&max("sys/fs/cgroup/other.slice/memory.max", "1048576\n"), None), 8192);
        let both = [own, mounts, (service, "536870912"), ("sys/fs/cgroup/system.slice/memory.max", "1073741824")];
        assert_eq!(mib(&both, None), 512);
    }

    #[test]
    fn limits_of_version_1_groups_hold_too() {
        let own = ("proc/self/cgroup", "9:cpu,cpuacct:/elsewhere\n4:memory:/user/1000\n0::/\n");
        let mounts = ("proc/self/mountinfo", V1);
        let limit = |path, text| [own, mounts, (path, text)];
        let path = "sys/fs/cgroup/memory/user/1000/memory.limit_in_bytes";
        assert_eq!(mib(&limit(path, "104857600\n"), None), 100);
        assert_eq!(mib(&limit(path, "9223372036854771712\n"), None), 8192);
        assert_eq!(mib(&limit("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "52428800\n"), None), 50);
        assert_eq!(mib(&limit("sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n"), None), 50);
    }

    #[test]
    fn in_a_container_the_mount_point_is_the_own_group() {
        let limit = ("sys/fs/cgroup/memory.max", "67108864\n");
        // The host's group names are not visible here, both with a namespace of its own and without.
        for (cgroup, mountinfo) in [
            ("0::/\n", V2.to_string()),
            ("0::/../../docker/abc\n", V2.to_string()),
            ("0::/docker/abc\n", V2.replace(" / /sys", " /docker/abc /sys")),
        ] {
            let files = [("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mountinfo.as_str()), limit];
            assert_eq!(mib(&files, None), 64, "{cgroup}");
        }
    }
}
