//! A disk that counts the syncs of its files. Each of them takes a millisecond or more, so that commits are concurrent.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

#[derive(Debug, Clone)]
pub(super) struct SlowDisk {
    pub(super) below: Arc<dyn Directory>,
    pub(super) syncs: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SlowFile {
    below: Arc<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl File for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.below.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.below.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.below.len()
    }
    fn set_len(&self, bytes: u64) -> Result<()> {
        self.below.set_len(bytes)
    }
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.below.allocate(range)
    }
    fn notes_first_writes(&self) -> bool {
        self.below.notes_first_writes()
    }
    fn sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        self.below.sync()
    }
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        self.below.lock(byte, mode, wait)
    }
    fn unlock(&self, byte: u64) -> Result<()> {
        self.below.unlock(byte)
    }
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        self.below.locked_by_other(from, bytes)
    }
    fn identity(&self) -> Result<Identity> {
        self.below.identity()
    }
}

impl Directory for SlowDisk {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let below = self.below.open(name, mode)?;
        Ok(Arc::new(SlowFile { below, syncs: Arc::clone(&self.syncs) }))
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.below.subdirectory(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.below.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.below.list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.below.exists(name)
    }
    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        self.below.identity_of(name)
    }
    fn sync(&self) -> Result<()> {
        self.below.sync()
    }
    fn describe(&self, name: &str) -> String {
        self.below.describe(name)
    }
    fn is_network(&self) -> Result<bool> {
        self.below.is_network()
    }
}
