//! A cache of the versions that a snapshot has found far back in the log. A snapshot always shows the same version of a
//! record, so one search for each record is enough.
//!
//! If all transactions change a record, it has a long history after a minute. A reader that reads the record repeatedly
//! must not follow the whole history each time. The cache has two generations, each with a bounded number of bytes. A
//! found entry moves to the younger generation. When the younger generation is full, the older generation is dropped,
//! and the younger generation becomes the older.

use std::collections::HashMap;

use libtp_buffer::FileId;

use super::history::Version;
use crate::shortcuts::Name;

/// Bytes of one generation.
const BYTES_MAX: usize = 8 << 20;
/// The approximate number of bytes of an entry without its key and value.
const ENTRY_BYTES: usize = 128;

type Generation = HashMap<Vec<u8>, Option<Version>>;

/// Versions by file and name; `None` if there was no record.
#[derive(Debug, Default)]
pub(super) struct Cache {
    young: Generation,
    young_bytes: usize,
    old: Generation,
}

impl Cache {
    pub(super) fn get(&mut self, file: FileId, name: Name<'_>) -> Option<Option<Version>> {
        if self.young.is_empty() && self.old.is_empty() {
            return None;
        }
        let key = name.bytes(file);
        if let Some(found) = self.young.get(&key) {
            return Some(found.clone());
        }
        let found = self.old.remove(&key)?;
        self.put_as(key, found.clone());
        Some(found)
    }

    pub(super) fn put(&mut self, file: FileId, name: Name<'_>, found: Option<&Version>) {
        self.put_as(name.bytes(file), found.cloned());
    }

    fn put_as(&mut self, key: Vec<u8>, found: Option<Version>) {
        let bytes = ENTRY_BYTES + key.len() + found.as_ref().map_or(0, |found| found.stored.len());
        if self.young_bytes + bytes > BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::record_lsn::RecordFlags;
    use libtp_log::Lsn;

    #[test]
    fn requested_versions_stay_and_the_bytes_are_bounded() {
        let mut cache = Cache::default();
        let version = Version { lsn: Lsn::new(8), flags: RecordFlags::NONE, stored: vec![1; 100_000] };
        let file = FileId::new(1);
        cache.put(file, Name::Key(b"hot"), Some(&version));
        cache.put(file, Name::Key(b"gone"), None);
        for number in 0..1000_u32 {
            cache.put(file, Name::Key(&number.to_le_bytes()), Some(&version));
            assert_eq!(cache.get(file, Name::Key(b"hot")), Some(Some(version.clone())));
            assert!(cache.young.len() + cache.old.len() <= 2 * BYTES_MAX / 100_000 + 2);
        }
        assert_eq!(cache.get(file, Name::Key(b"gone")), None);
        assert_eq!(cache.get(FileId::new(2), Name::Key(b"hot")), None);
    }
}
