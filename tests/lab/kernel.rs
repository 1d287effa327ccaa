//! The work of an init program (filesystems and drivers), and crashes of the machine from inside.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use rustix::mount::{mount, MountFlags};

/// Memory that a warm start keeps.
const MEMORY: &str = "/dev/pmem0";
/// An ordinary disk.
const DISK: &str = "/dev/vda";
/// The image of an empty filesystem, up to its last byte that is not zero.
const IMAGE: &str = "/fs.img";

/// A crash after which a second kernel starts (`second`).
pub const SECOND: &str = "p";

/// Returns an argument of the kernel's command line.
pub fn argument(name: &str) -> String {
    let line = fs::read_to_string("/proc/cmdline").unwrap();
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("the kernel was started without {name}")).to_owned()
}

/// Mounts all filesystems: on kept memory at `/p`, on the disk at `/d`, and in volatile memory at `/tmp`. Creates the
/// filesystems of `/p` and `/d` at the first start.
pub fn prepare() {
    for (what, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(what, place, what, MountFlags::empty(), c"").unwrap();
    }
    for name in fs::read_to_string("/modules").unwrap().lines() {
        let module = File::open(Path::new("/lib").join(name)).unwrap();
        rustix::system::finit_module(&module, c"", 0).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for device in [MEMORY, DISK] {
        let is_there = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Path::new(device).exists()
        });
        assert!(is_there, "there is no {device}");
    }
    if !has_file_system(MEMORY) {
        println!("LAB MADE");
        for device in [MEMORY, DISK] {
            let mut to = fs::OpenOptions::new().write(true).open(device).unwrap();
            to.write_all(&fs::read(IMAGE).unwrap()).unwrap();
            to.sync_all().unwrap();
        }
    }
    // Volatile memory, whose contents a crash loses.
    mount("tmpfs", "/tmp", "tmpfs", MountFlags::empty(), c"size=128m").unwrap();
    mount(MEMORY, "/p", "ext4", MountFlags::NOATIME, c"dax").unwrap();
    mount(DISK, "/d", "ext4", MountFlags::NOATIME, c"").unwrap();
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let is_direct = mounts.lines().any(|line| line.contains(" /p ") && line.contains("dax"));
    assert!(is_direct, "the filesystem in kept memory is not mapped directly: {mounts}");
}

fn has_file_system(device: &str) -> bool {
    let mut magic = [0; 2];
    let mut device = File::open(device).unwrap();
    device.seek(SeekFrom::Start(1080)).unwrap();
    device.read_exact(&mut magic).unwrap();
    magic == [0x53, 0xef]
}

/// Crashes the machine, or asks the host to crash it.
pub fn crash(kind: &str) {
    match kind {
        // `c` makes the kernel panic. `SECOND` makes the kernel panic, too, and the panic starts a second kernel. `b`
        // reboots without writing anything to the disk.
        "c" | "b" | SECOND => {
            fs::write("/proc/sys/kernel/sysrq", "1").unwrap();
            fs::write("/proc/sysrq-trigger", if kind == "b" { "b" } else { "c" }).unwrap();
        }
        // The host sends an unknown interrupt, which makes the kernel panic.
        _ => {
            fs::write("/proc/sys/kernel/unknown_nmi_panic", "1").unwrap();
            println!("LAB YOURS {kind}");
        }
    }
}
