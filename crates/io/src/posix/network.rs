//! Recognizes network filesystems by their type.
//!
//! An environment on a network filesystem would break without notice, because the filesystem's locks, shared mappings
//! or syncs do not hold between machines. The library refuses such an environment. This list decides which filesystems
//! are refused.

/// Filesystems whose files are on another machine, or that several machines change at once: NFS, SMB, CIFS, SMB2, 9P,
/// AFS, AFS of the kernel, Ceph, Coda, NCP, GFS2, OCFS2, Lustre.
const NETWORK_MAGICS: [u32; 13] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x5346_414f,
    0x6b41_4653,
    0x00c3_6400,
    0x7375_7245,
    0x564c,
    0x0116_1970,
    0x7461_636f,
    0x0bd0_0bd0,
];
const FUSE_MAGIC: u32 = 0x6573_5546;

/// Returns whether the filesystem of type `magic`, mounted as device `number` (`major:minor`), is a
/// network filesystem.
pub(super) fn is_network(magic: u32, number: &str) -> bool {
    if magic != FUSE_MAGIC {
        return NETWORK_MAGICS.contains(&magic);
    }
    // Without /proc the type of the filesystem behind FUSE cannot be found, and an unknown type counts as local.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounted_type(&mounts, number).is_some_and(is_network_fuse)
}

/// Finds the type of the filesystem with device number `major:minor` in the text of `mountinfo`,
/// whose lines are `id parent MAJOR:MINOR root point options [tags..] - TYPE source options`.
fn mounted_type<'t>(mounts: &'t str, number: &str) -> Option<&'t str> {
    mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(number))
        .find_map(|line| line.split_once(" - ")?.1.split(' ').next())
}

/// Returns whether a FUSE filesystem works over a network. `fuse`, `fuseblk`, `fuse.ntfs-3g` and others keep their
/// files on this machine.
fn is_network_fuse(kind: &str) -> bool {
    let name = kind.strip_prefix("fuse.").unwrap_or(kind);
    let network = [
        "sshfs",
        "glusterfs",
        "ceph",
        "s3fs",
        "rclone",
        "davfs",
        "gcsfuse",
        "goofys",
        "juicefs",
        "nfs",
        "smb",
        "virtiofs",
    ];
    network.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_filesystem_is_known_by_its_type() {
        let mounts = "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  42 30 0:51 / /home/x/far rw,nosuid shared:7 - fuse.sshfs x@far:/ rw\n\
                  43 30 0:52 / /mnt/usb rw - fuseblk /dev/sdb1 rw\n";
        assert_eq!(mounted_type(mounts, "0:51"), Some("fuse.sshfs"));
        assert_eq!(mounted_type(mounts, "0:52"), Some("fuseblk"));
        assert_eq!(mounted_type(mounts, "8:1"), Some("ext4"));
        assert_eq!(mounted_type(mounts, "0:5"), None);
        assert!(is_network_fuse("fuse.sshfs") && is_network_fuse("fuse.glusterfs"));
        assert!(!is_network_fuse("fuseblk") && !is_network_fuse("fuse.ntfs-3g"));
        for magic in [0x6969, 0xff53_4d42, 0x0102_1997] {
            assert!(NETWORK_MAGICS.contains(&magic));
        }
        for (name, local) in [("ext4", 0xef53), ("tmpfs", 0x0102_1994), ("btrfs", 0x9123_683e)] {
            assert!(!NETWORK_MAGICS.contains(&local), "{name}");
        }
    }
}
