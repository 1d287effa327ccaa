//! A disk of real files that loses unsynced bytes when a test crashes the machine.
//!
//! Several processes use the disk at once and may be killed: the files are in a real directory and outlive the
//! processes. Each file has a *shadow*: the bytes that a disk would have. A sync copies the file into its shadow. When
//! the machine crashes, each sector in which the file and its shadow differ gets the bytes of one of them; the files
//! keep their inodes.
//!
//! Names are durable at once. This finds code that gives a file its name before the file's contents are durable.
//!
//! Invariants
//! 1. A shadow has all synced bytes of its file: a sync holds the shadow's lock from its first read to its last store,
//!    so no sync stores older bytes over the bytes of a later sync.
//! 2. A file has the same shadow as long as the file exists. A later file with the same inode number has another
//!    shadow.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtp_io::{Directory, File, Identity, OpenMode, PosixDirectory, Result};
use libtp_sim::{DirectoryLayer, LayeredDirectory, LayeredFile, Random};
use rustix::fs::{flock, FlockOperation};

use crate::wrapped::{Calls, WrappedFile};

const SECTOR: usize = 512;

/// The number of unsynced sectors that a crash of the machine lost and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Unsynced sectors that are lost.
    pub sectors: u64,
    /// Unsynced sectors that are kept.
    pub kept: u64,
}

/// A directory on a disk that loses unsynced bytes.
#[derive(Debug)]
pub struct LosingDirectory {
    real: PosixDirectory,
    path: PathBuf,
    shadows: PathBuf,
}

impl LosingDirectory {
    /// Opens the files in `path`, with their shadows in `shadows`; makes both directories if they are missing.
    ///
    /// # Errors
    /// The errors of the real directory.
    pub fn open(path: &Path, shadows: &Path) -> Result<LosingDirectory> {
        PosixDirectory::create(shadows)?;
        let real = PosixDirectory::create(path)?;
        Ok(LosingDirectory { real, path: path.to_path_buf(), shadows: shadows.to_path_buf() })
    }

    /// Crashes the machine. No process may have the files open. Each unsynced sector keeps its last stored bytes with a
    /// chance of `kept` in ten.
    ///
    /// # Panics
    /// If the real disk refuses a call.
    pub fn crash(&self, random: &mut Random, kept: u64) -> Lost {
        let mut lost = Lost::default();
        for name in self.real.list().expect("the directory is there") {
            let file = self.real.open(&name, OpenMode::ReadOnly).expect("the file is there");
            let shadow = self.shadow(&*file).expect("the file has an identity");
            let synced = read(&shadow);
            let path = self.path.join(&name);
            let stored = read(&path);
            if stored == synced {
                continue;
            }
            let length = if random.below(10) < kept { stored.len() } else { synced.len() };
            let mut left = vec![0; length];
            for (nth, sector) in left.chunks_mut(SECTOR).enumerate() {
                let (then, now) = (part(&synced, nth), part(&stored, nth));
                let is_kept = then == now || random.below(10) < kept;
                lost.sectors += u64::from(!is_kept);
                lost.kept += u64::from(is_kept && then != now);
                let from = if is_kept { now } else { then };
                let bytes = sector.len().min(from.len());
                sector[..bytes].copy_from_slice(&from[..bytes]);
            }
            put(&path, &left);
            // The disk has these bytes now.
            put(&shadow, &left);
        }
        lost
    }

    fn shadow(&self, file: &dyn File) -> Result<PathBuf> {
        let Identity { inode, birth_ns, .. } = file.identity()?;
        Ok(self.shadows.join(format!("{inode}-{birth_ns}")))
    }
}

fn part(bytes: &[u8], nth: usize) -> &[u8] {
    let from = (nth * SECTOR).min(bytes.len());
    &bytes[from..(from + SECTOR).min(bytes.len())]
}

/// Reads a file's bytes; no bytes if the file does not exist.
fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = std::fs::File::open(path) {
        file.read_to_end(&mut bytes).expect("a file of the machine can be read");
    }
    bytes
}

/// Gives the file these bytes; the file keeps its inode.
fn put(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).expect("it can be written");
    file.write_all_at(bytes, 0).and_then(|()| file.set_len(bytes.len() as u64)).expect("the machine has room");
}

/// The shadow of a file.
struct Shadow(PathBuf);

impl Shadow {
    /// Copies the file into its shadow: a sync.
    fn bring_up_to_date(&self, real: &dyn File) -> std::io::Result<()> {
        let shadow = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.0)?;
        // The kernel releases the lock when the shadow's file is closed, even if the process is killed during the copy.
        // Then the shadow has a part of an unfinished sync, as a real disk may have.
        flock(&shadow, FlockOperation::LockExclusive)?;
        let length = real.len().map_err(std::io::Error::other)?;
        let mut piece = vec![0; 64 << 10];
        let mut at = 0;
        while at < length {
            let bytes = real.read_at(&mut piece, at).map_err(std::io::Error::other)?;
            if bytes == 0 {
                break;
            }
            shadow.write_all_at(&piece[..bytes], at)?;
            at += bytes as u64;
        }
        shadow.set_len(at)
    }
}

impl Calls for Shadow {
    fn sync(&self, real: &dyn File) -> Result<()> {
        self.bring_up_to_date(real).expect("the machine has room for a copy of its files");
        Ok(())
    }
}

impl DirectoryLayer for LosingDirectory {
    fn below(&self) -> &dyn Directory {
        &self.real
    }
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.real.open(name, mode)?;
        let calls = Arc::new(Shadow(self.shadow(&*inner)?));
        Ok(Arc::new(LayeredFile(WrappedFile { inner, calls })))
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let shadows = self.shadows.join(name);
        Ok(Arc::new(LayeredDirectory(LosingDirectory::open(&self.path.join(name), &shadows)?)))
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_survive_a_crash_and_unsynced_bytes_may_be_lost() {
        let home = tempfile::tempdir().unwrap();
        let disk = LosingDirectory::open(&home.path().join("files"), &home.path().join("shadows")).unwrap();
        let file = disk.open("log", OpenMode::Create).unwrap();
        file.write_at(&[1; 2 * SECTOR], 0).unwrap();
        file.sync().unwrap();
        disk.real.rename("log", "log.1").unwrap();
        file.write_at(&[2; 2 * SECTOR], SECTOR as u64).unwrap();
        let look = || read(&home.path().join("files/log.1"));
        assert_eq!(disk.crash(&mut Random::new(1), 0).sectors, 1);
        assert_eq!(look(), [1; 2 * SECTOR]);
        file.write_at(&[2; 2 * SECTOR], SECTOR as u64).unwrap();
        for kept in [10, 0] {
            let lost = disk.crash(&mut Random::new(1), kept);
            assert_eq!(
                lost.kept,
                if kept == 10 { 2 } else { 0 },
                "bytes that survived a crash are on the disk and survive the next crash"
            );
            assert_eq!(look()[SECTOR..], [2; 2 * SECTOR]);
        }
        let never = disk.open("never synced", OpenMode::Create).unwrap();
        never.write_at(&[1], 0).unwrap();
        disk.crash(&mut Random::new(1), 0);
        assert_eq!(never.len().unwrap(), 0);
    }
}
