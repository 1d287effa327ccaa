//! A disk that counts the syncs of its files. Each of them takes a millisecond or more, so that commits are concurrent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use libtp_io::{Directory, File, OpenMode, Result};
use libtp_sim::{DirectoryLayer, FileLayer, LayeredFile};

pub(super) struct SlowDisk {
    pub(super) below: Arc<dyn Directory>,
    pub(super) syncs: Arc<AtomicU64>,
}

struct SlowFile {
    below: Arc<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl DirectoryLayer for SlowDisk {
    fn below(&self) -> &dyn Directory {
        &*self.below
    }
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let below = self.below.open(name, mode)?;
        Ok(Arc::new(LayeredFile(SlowFile { below, syncs: Arc::clone(&self.syncs) })))
    }
}

impl FileLayer for SlowFile {
    fn below(&self) -> &dyn File {
        &*self.below
    }
    fn sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        self.below.sync()
    }
}
