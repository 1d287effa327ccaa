//! A database of one size: a number of records with values of a given length, in a B-tree in a new environment.
//!
//! Keys have 16 bytes and are spread evenly over all possible keys, so a random new key is between two loaded keys.
//! Values begin with the record's number in eight little-endian bytes, and every read checks that number. Updates
//! change the ninth byte.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use libtp::{Db, Env, Load};

use crate::error::{Error, Result};

const NAME: &str = "records";
/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
/// The load fills pages to this percentage. The pages of a tree that grew by insertions are about as full.
const FILL_PERCENT: u8 = 70;
/// Bytes of a page (docs/formats/page.md).
pub(super) const PAGE_BYTES: usize = 8192;
/// Page number of a tree's root.
const ROOT_PAGE: u64 = 2;
/// Offset of a page's kind.
const KIND_AT: usize = 20;
/// Offset of a page's level.
const LEVEL_AT: usize = 21;
const KIND_BTREE: u8 = 3;

/// Filler byte of loaded values, after the number.
const FILLED: u8 = b'.';
/// Filler byte of inserted values.
pub(super) const OF_INSERTED: u8 = b'+';
/// The first eight bytes of inserted values, which are no record's number.
const INSERTED: [u8; 8] = [OF_INSERTED; 8];

/// The engine's name in errors.
pub(super) const ENGINE: &str = "libtp";

/// The size of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Number of records.
    pub records: u64,
    /// Bytes of a value, at least nine.
    pub value_bytes: usize,
    /// Bytes of the page cache; `None`: the library's default.
    pub cache: Option<u64>,
}

/// The database.
pub(super) struct Tree {
    pub env: Env,
    pub db: Db,
    pub size: Size,
    directory: PathBuf,
    state: Cell<u64>,
    /// Keys inserted since the load and not yet deleted, the oldest first.
    pub inserted: RefCell<VecDeque<[u8; KEY_BYTES]>>,
    /// Number of acknowledged updates.
    pub updates: Cell<u64>,
}

impl Size {
    /// Returns the approximate length of the file. A record has its value and 38 bytes for key, cell and slot, in pages
    /// that the load fills to `FILL_PERCENT`. A long value is in overflow pages.
    pub fn file_bytes(&self) -> u64 {
        let record = self.value_bytes as u64 + 38;
        match self.value_bytes > PAGE_BYTES / 4 {
            true => self.records * record.next_multiple_of(PAGE_BYTES as u64),
            false => self.records * record * 100 / u64::from(FILL_PERCENT),
        }
    }

    /// Returns the bytes that the environment needs on the disk during the load, for the file and the log.
    pub fn disk_bytes(&self) -> u64 {
        self.file_bytes() * 2 + (64 << 20)
    }

    /// Returns the bytes of memory that the database needs if the library may take a quarter of `machine` bytes.
    pub fn memory_bytes(&self, machine: u64) -> u64 {
        self.file_bytes().min(self.cache.unwrap_or(machine / 4)) + (64 << 20)
    }
}

impl Tree {
    /// Makes and loads the database in the new directory `directory`. Calls `watch` with the number of loaded records.
    ///
    /// # Errors
    /// The library's error; `File` if the directory cannot be made.
    pub fn make(directory: &Path, size: Size, watch: &mut dyn FnMut(u64)) -> Result<Tree> {
        let failed = || Error::engine::<libtp::Error>(ENGINE, "loading records");
        std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        let mut builder = Env::builder().durability(libtp::Durability::Relaxed);
        if let Some(bytes) = size.cache {
            builder = builder.memory(libtp::Bytes(bytes));
        }
        let env = builder.open(directory).map_err(failed())?;
        let db = env.btree(NAME).map_err(failed())?;
        let (directory, state) = (directory.to_path_buf(), Cell::new(size.records));
        let tree = Tree { env, db, size, directory, state, inserted: RefCell::default(), updates: Cell::new(0) };
        let pairs = (0..size.records).map(|number| Ok((tree.key(number).to_vec(), tree.value(number))));
        let how = Load::sorted().fill_percent(FILL_PERCENT);
        tree.db.try_load(&how, pairs, &mut |now| watch(now.done)).map_err(failed())?;
        // Counting reads the pages into the cache, as long as there is room, so the measurement begins with a warm
        // cache.
        if tree.count()? != size.records {
            return Err(Error::Settings(format!(
                "{} records were loaded, and {} are in the database",
                size.records,
                tree.count()?
            )));
        }
        tree.env.checkpoint().map_err(failed())?;
        Ok(tree)
    }

    /// Returns the key of a loaded record.
    pub fn key(&self, number: u64) -> [u8; KEY_BYTES] {
        let stride = u64::MAX / self.size.records.max(1);
        spelled(number * stride, mixed(number))
    }

    /// Returns the value of a loaded record.
    pub fn value(&self, number: u64) -> Vec<u8> {
        let mut value = vec![FILLED; self.size.value_bytes];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    }

    /// Returns whether `value` is a value of record `number`. An update may have changed the ninth byte.
    pub fn is_intact(&self, number: u64, value: &[u8]) -> bool {
        value.len() == self.size.value_bytes && value[..8] == number.to_le_bytes()
    }

    /// Draws the number of a loaded record. The sequence of numbers is the same in every run.
    pub fn draw(&self) -> u64 {
        let wide = u128::from(self.draw_word()) * u128::from(self.size.records);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits has 64")
    }

    /// Draws a random key, which no record has.
    pub fn draw_new_key(&self) -> [u8; KEY_BYTES] {
        spelled(self.draw_word(), self.draw_word())
    }

    fn draw_word(&self) -> u64 {
        self.state.set(self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        mixed(self.state.get())
    }

    /// Counts the database's records, in a snapshot.
    ///
    /// # Errors
    /// The library's error.
    pub fn count(&self) -> Result<u64> {
        let failed = || Error::engine::<libtp::Error>(ENGINE, "counting records");
        let snapshot = self.env.snapshot().map_err(failed())?;
        self.db.count(&snapshot, ..).map_err(failed())
    }

    /// Returns `ok`, or a message with the found and the expected number of records or updates. Each update raises a
    /// record's ninth byte by one, so the audit counts updates modulo 256.
    ///
    /// # Errors
    /// The library's error.
    pub fn audit(&self) -> Result<String> {
        let failed = || Error::engine::<libtp::Error>(ENGINE, "reading all records");
        let (mut found, mut raised) = (0, 0_u8);
        let snapshot = self.env.snapshot().map_err(failed())?;
        let mut all = self.db.range(&snapshot, ..).map_err(failed())?;
        let seen = all.for_each(|_, value| {
            found += 1;
            // Inserted records are never updated.
            if let Some((number, [changed, ..])) = value.split_at_checked(INSERTED.len()) {
                let updates = if number == INSERTED { 0 } else { changed.wrapping_sub(FILLED) };
                raised = raised.wrapping_add(updates);
            }
            ControlFlow::<()>::Continue(())
        });
        seen.map_err(failed())?;
        let (wanted, updates) = (self.size.records + self.inserted.borrow().len() as u64, self.updates.get());
        Ok(match (found == wanted, u64::from(raised) == updates % 256) {
            (true, true) => "ok".to_owned(),
            (false, _) => format!("{found} records are in the database, and {wanted} were stored"),
            (true, false) => {
                format!("some of {updates} updates are lost: the database has {raised} updates, modulo 256")
            }
        })
    }

    /// Opens the database's file, for reads without the library.
    ///
    /// # Errors
    /// `File` if the file cannot be opened.
    pub fn file(&self) -> Result<File> {
        let path = self.directory.join(format!("{NAME}.tp"));
        File::open(&path).map_err(Error::file("open", &path))
    }

    /// Returns the length of the database's file.
    ///
    /// # Errors
    /// `File` if the length cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        let length = self.file()?.metadata().map_err(Error::file("look at", &self.directory))?.len();
        Ok(length)
    }

    /// Closes the database, which writes every page to the file, and removes the directory. Returns the height of the
    /// tree: the number of pages from the root to a leaf, including both.
    ///
    /// # Errors
    /// `File` if a file cannot be read or removed; `Settings` if the page of the root has another kind.
    pub fn remove(self) -> Result<u32> {
        let (directory, file) = (self.directory.clone(), self.file()?);
        drop(self);
        let height = height(&file, &directory)?;
        std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
        Ok(height)
    }
}

fn height(file: &File, directory: &Path) -> Result<u32> {
    let mut header = [0; 32];
    file.read_exact_at(&mut header, ROOT_PAGE * PAGE_BYTES as u64)
        .map_err(Error::file("read the root in", directory))?;
    match header[KIND_AT] {
        KIND_BTREE => Ok(u32::from(header[LEVEL_AT]) + 1),
        kind => Err(Error::Settings(format!("the root's page in {} is of kind {kind}", directory.display()))),
    }
}

fn spelled(high: u64, low: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&high.to_be_bytes());
    key[8..].copy_from_slice(&low.to_be_bytes());
    key
}

/// Returns SplitMix64's output for a word.
pub(super) fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
