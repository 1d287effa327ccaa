//! The words of a registered file in the region, and of the table of files.
//!
//! Invariant: a slot's words are stored before `state` states that the slot is live. A reader of the slot reads `state`
//! and `generation` before and after the other words.

use libtp_log::Lsn;
use libtp_process::Latch;
use rio::{Link, SlabHeader, Word};

use crate::page_header::is_page_size;
use crate::registry::{file_name, NAME_BYTES_MAX};
use crate::{Entry, Error, FileId, PoolId, Result};

const NAME_WORDS: usize = 26;
/// A slot that no file has.
pub(super) const FREE: u32 = 0;
/// A slot that has a file.
pub(super) const LIVE: u32 = 1;

rio::shared! {
    /// A registered file.
    pub(crate) struct FileSlot {
        /// Whether the slot has a file.
        pub(crate) state: Word<u32>,
        /// Counts the files that had this slot.
        pub(crate) generation: Word<u32>,
        /// The file's number.
        pub(crate) id: Word<FileId>,
        /// Bytes of a page.
        pub(crate) page_bytes: Word<u32>,
        /// The pool of the file's pages.
        pub(crate) pool: Word<u32>,
        /// Bytes of the name.
        pub(crate) name_bytes: Word<u32>,
        /// The number of bytes of the file that are known to have blocks. Only grows.
        pub(crate) allocated: Word<u64>,
        /// The number on which all users of the file have agreed, see [`BufferManager::agree`]; zero before the
        /// agreement.
        pub(crate) agreed: Word<u64>,
        /// The end of the pages that may ever have been written; zero while it is unknown. Only grows.
        pub(crate) written: Word<u64>,
        /// The name, padded with zeros.
        pub(crate) name: [Word<u64>; 26],
        /// The oldest log record that a restart could not repeat because the file was missing; `Lsn::NONE` if there is
        /// no such record.
        pub(crate) unrepeated_from: Word<Lsn>,
        /// The identity of the file that had the name when it was first opened, see `identity_word`; zero before the
        /// first opening.
        pub(crate) identity: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 6],
    } size 320
}

rio::shared! {
    /// The table of files.
    pub(crate) struct FileTable {
        /// Guards registering.
        pub(crate) latch: Latch,
        /// The slots.
        pub(crate) slots: Link<SlabHeader>,
        /// The slots up to this number were live at some time. Only grows.
        pub(crate) used: Word<u32>,
        /// Counts the reuses of slots and the renamings of their files.
        pub(crate) changed: Word<u32>,
        /// A lower bound of the number of slots that are free again.
        pub(crate) freed: Word<u32>,
        /// Counts the databases that got other names.
        pub(crate) renamed: Word<u32>,
        /// The smallest `unrepeated_from` of all slots: redo begins there as long as this region exists. `Lsn::NONE` if
        /// there is no such record.
        pub(crate) unrepeated_from: Word<Lsn>,
        /// Not zero while `changed` may have missed the reuse of a slot or the renaming of a slot's file.
        pub(crate) uncounted: Word<u64>,
    } size 48
}

/// A registered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file's number.
    pub id: FileId,
    /// The file's name, without `.tp`.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The pool of the file's pages.
    pub pool: PoolId,
}

impl FileInfo {
    /// Returns the file of an entry of the register, in the environment's common pool.
    pub fn of(entry: &Entry) -> FileInfo {
        FileInfo { id: entry.id, name: entry.name.clone(), page_bytes: entry.page_bytes, pool: PoolId::DEFAULT }
    }

    /// Returns the file's name in the environment's directory.
    pub fn file_name(&self) -> String {
        file_name(&self.name)
    }
}

/// Checks the name, the number and the page size of a file.
pub(super) fn check(info: &FileInfo) -> Result<()> {
    let what = if info.id == FileId::NONE {
        "no file has the number zero".to_string()
    } else if info.name.is_empty() || info.name.len() > NAME_BYTES_MAX {
        format!("its name has {} bytes, and a name has 1 to {NAME_BYTES_MAX}", info.name.len())
    } else if !is_page_size(info.page_bytes) {
        format!("its pages have {} bytes; pages have 4, 8, 16, 32 or 64 KiB", info.page_bytes)
    } else {
        return Ok(());
    };
    Err(Error::Unsuitable { name: info.name.clone(), what })
}

/// Returns the contents of a live slot, with its generation, if the slot did not change meanwhile.
pub(super) fn read(slot: &FileSlot) -> Option<(FileInfo, u32)> {
    let generation = slot.generation.load();
    if slot.state.load() != LIVE {
        return None;
    }
    let bytes: Vec<u8> = slot.name.iter().flat_map(|word| word.load().to_le_bytes()).collect();
    let name = bytes.get(..slot.name_bytes.load() as usize)?;
    let info = FileInfo {
        id: slot.id.load(),
        name: String::from_utf8(name.to_vec()).ok()?,
        page_bytes: slot.page_bytes.load(),
        pool: PoolId(slot.pool.load()),
    };
    let same = slot.state.load() == LIVE && slot.generation.load() == generation;
    (same && check(&info).is_ok()).then_some((info, generation))
}

/// Returns eight bytes of a name, padded with zeros.
pub(super) fn word_of(name: &[u8], index: usize) -> u64 {
    let mut eight = [0; 8];
    let rest = name.get(index * 8..).unwrap_or(&[]);
    let count = rest.len().min(8);
    eight[..count].copy_from_slice(&rest[..count]);
    u64::from_le_bytes(eight)
}

const _: () = assert!(NAME_WORDS * 8 >= NAME_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_words() {
        for name in ["a", "accounts", "a name of just over eight bytes, naïve"] {
            let bytes: Vec<u8> =
                (0..NAME_WORDS).flat_map(|index| word_of(name.as_bytes(), index).to_le_bytes()).collect();
            assert_eq!(&bytes[..name.len()], name.as_bytes());
            assert!(bytes[name.len()..].iter().all(|&byte| byte == 0));
        }
    }
}
