//! The parts of the machine: the kernel, the guest's program, its initial file system. They are kept from one run to
//! the next.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cpio::Archive;

/// The package that depends on the newest kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// The kernel's modules, in the order in which they are loaded.
const MODULES: [&str; 10] = [
    "libnvdimm",
    "nd_e820",
    "nd_btt",
    "nd_pmem",
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
];
/// Mebibytes of the kept memory, and of the disk. An environment puts its shared memory only where at least 96 MiB are
/// free. From 128 MiB on, a file system has a copy of its first block in the middle, and the image would contain
/// everything before that copy.
pub const MEMORY: u64 = 120;

/// The files that a machine starts with.
pub struct Built {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
    /// The file system of `initrd`, with a second kernel that the running kernel can load, and with
    /// the second kernel's own initial file system.
    pub initrd_of_two: PathBuf,
}

fn other(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> io::Result<Vec<u8>> {
    let done = command.stderr(Stdio::inherit()).output()?;
    if !done.status.success() {
        return Err(other(format!("{command:?} failed: {}", done.status)));
    }
    Ok(done.stdout)
}

/// Makes all parts.
pub fn build(guest: &Path, folder: &Path) -> io::Result<Built> {
    fs::create_dir_all(folder)?;
    let (kernel, modules) = kernel(folder)?;
    let image = image(folder)?;
    let mut of_two = archive(&stripped(guest, folder)?, &image, &modules)?;
    let initrd = folder.join("initrd");
    let alone = of_two.clone().finish();
    fs::write(&initrd, &alone)?;
    of_two.directory("second");
    of_two.file("second/kernel", &fs::read(packed_kernel(&modules)?)?);
    of_two.file("second/initrd", &alone);
    let initrd_of_two = folder.join("initrd.two");
    fs::write(&initrd_of_two, of_two.finish())?;
    Ok(Built { kernel, initrd, initrd_of_two })
}

/// Returns the archive with the files that the first program finds.
fn archive(guest: &Path, image: &[u8], modules: &Path) -> io::Result<Archive> {
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "p", "d", "lib", "tmp"] {
        archive.directory(directory);
    }
    archive.file("init", &fs::read(guest)?);
    for library in libraries(guest)? {
        let inside = library.trim_start_matches('/');
        // Adds each directory above the file, the outermost first.
        inside.match_indices('/').for_each(|(end, _)| archive.directory(&inside[..end]));
        archive.file(inside, &fs::read(&library)?);
    }
    archive.file("fs.img", image);
    let mut list = String::new();
    for name in MODULES {
        let file = format!("{name}.ko");
        // A missing module is built into the kernel.
        if let Some(path) = find(modules, &|it| it.replace('-', "_") == file) {
            archive.file(&format!("lib/{file}"), &fs::read(path)?);
            list.push_str(&format!("{file}\n"));
        }
    }
    archive.file("modules", list.as_bytes());
    Ok(archive)
}

/// Returns the file of Debian's packed kernel. A running kernel loads a second kernel from such a file.
fn packed_kernel(root: &Path) -> io::Result<PathBuf> {
    let packed = find(&root.join("boot"), &|it| it.starts_with("vmlinuz-"));
    packed.ok_or_else(|| other(format!("{} has no kernel", root.display())))
}

/// Fetches Debian's kernel once, without installing it, and unpacks it. An emulated machine would take longer to
/// decompress the kernel than to do all its other work. Returns the kernel and the folder of its modules.
fn kernel(folder: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let (root, kernel) = (folder.join("kernel"), folder.join("vmlinux"));
    if !kernel.exists() {
        let text = output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
        let name = format!("linux-image{}", name.ok_or_else(|| other(format!("apt-cache knows no {PACKAGE}")))?);
        println!("  fetching {name}");
        output(Command::new("apt-get").args(["download", &name]).current_dir(folder))?;
        let package = find(folder, &|it| it.starts_with(&name) && it.ends_with(".deb"));
        let package = package.ok_or_else(|| other(format!("{name} was not fetched")))?;
        output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root))?;
        fs::remove_file(package)?;
        let passing = folder.join("vmlinux.new");
        fs::write(&passing, unpacked(&fs::read(packed_kernel(&root)?)?)?)?;
        fs::rename(passing, &kernel)?;
    }
    Ok((kernel, root))
}

/// Decompresses the kernel in a compressed kernel file, from the offset that the boot protocol defines.
fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let word = |at: usize| {
        let bytes = packed.get(at..at + 4).and_then(|it| it.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize
    };
    let sectors = packed.get(0x1f1).map_or(4, |count| usize::from(*count).max(4)) + 1;
    let from = sectors * 512 + word(0x248);
    let payload = packed.get(from..from + word(0x24c)).ok_or_else(|| other("the kernel has an unknown form"))?;
    // The last four bytes are the unpacked length.
    let (payload, length) = payload.split_at(payload.len().saturating_sub(4));
    if !payload.starts_with(&[0x02, 0x21, 0x4c, 0x18]) {
        return Err(other("the kernel is not compressed by LZ4"));
    }
    let mut child =
        Command::new("lz4").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdin = child.stdin.take().ok_or_else(|| other("lz4 has no input"))?;
    let payload = payload.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&payload));
    let done = child.wait_with_output()?.stdout;
    // The program may close its input before the end.
    let _ = writer.join();
    let expected = length.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    if !done.starts_with(b"\x7fELF") || done.len() != expected {
        return Err(other(format!("the unpacked kernel has {} bytes, not {expected}", done.len())));
    }
    Ok(done)
}

/// Strips the guest's program of its function names, because the machine has little memory.
fn stripped(guest: &Path, folder: &Path) -> io::Result<PathBuf> {
    let program = folder.join("guest");
    output(Command::new("strip").arg("-o").arg(&program).arg(guest))?;
    Ok(program)
}

/// Returns the paths of the C libraries that a program is linked with, and of their loader.
fn libraries(program: &Path) -> io::Result<Vec<String>> {
    let text = output(Command::new("ldd").arg(program))?;
    let paths = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    Ok(String::from_utf8_lossy(&text).lines().filter_map(paths).collect())
}

/// Returns an empty file system up to its last byte that is not zero. The kept memory is zero at first.
fn image(folder: &Path) -> io::Result<Vec<u8>> {
    let path = folder.join("fs.img");
    let file = fs::File::create(&path)?;
    file.set_len(MEMORY << 20)?;
    let arguments =
        ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,packed_meta_blocks=1", "-J", "size=4", "-N", "256"];
    // mkfs.ext4 is in a directory that only root's PATH contains.
    let path_variable = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    output(Command::new("mkfs.ext4").args(arguments).args(["-m", "0"]).arg(&path).env("PATH", path_variable))?;
    let mut bytes = fs::read(&path)?;
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(length.next_multiple_of(4096));
    Ok(bytes)
}

/// Returns a file in a directory or below it.
fn find(directory: &Path, is_it: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(found) = find(&path, is_it) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|name| is_it(&name.to_string_lossy())) {
            return Some(path);
        }
    }
    None
}
