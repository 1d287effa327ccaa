//! The values that SQLite stores in a file's header. In an environment they are one record, which each transaction
//! reads when it begins.
//!
//! Each writing transaction locks this record for reading until it ends. So a change of the schema, which changes the
//! record, waits until no other writer is open. Format: docs/formats/sql.md.

use libtp::Txn;

use crate::answer::{Outcome, Refusal, CORRUPT, ERROR};
use crate::home::Home;
use crate::owned::{with_source, Reader};

/// The key of the record in `sql.meta`.
const KEY: &[u8] = b"m";
const VALUES: usize = 16;
const BYTES: usize = 4 + 4 * VALUES;
/// The version of the format of all records that this crate stores.
const VERSION: u32 = 1;

/// The header values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta([u32; VALUES]);

impl Meta {
    pub(crate) fn load(home: &Home, reader: &Reader) -> Outcome<Meta> {
        let found = with_source!(reader, source => home.meta().get(source, KEY))?;
        found.map_or(Ok(Meta::default()), |record| Meta::of_record(&record))
    }

    fn of_record(record: &[u8]) -> Outcome<Meta> {
        let words = |record: &[u8]| {
            let mut words = record.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            (words.next(), words.collect::<Vec<u32>>())
        };
        match (record.len(), words(record)) {
            (_, (Some(version), _)) if version != VERSION => Err(Refusal::new(
                ERROR,
                format!("the tables of this environment have format {version}, and this library supports only format {VERSION}; nothing was changed. Use the version of the library that has made them"),
            )),
            (BYTES, (_, values)) => Ok(Meta(std::array::from_fn(|place| values[place]))),
            (bytes, _) => Err(Refusal::new(CORRUPT, format!("the header values in sql.meta have {bytes} bytes, and should have {BYTES}"))),
        }
    }

    pub(crate) fn get(&self, place: usize) -> u32 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// Changes one value, and stores the record with all values.
    pub(crate) fn put(&mut self, home: &Home, txn: &Txn<'_>, place: usize, value: u32) -> Outcome<()> {
        let mut changed = *self;
        let Some(kept) = changed.0.get_mut(place) else { return Ok(()) };
        *kept = value;
        let record: Vec<u8> = [VERSION].iter().chain(&changed.0).flat_map(|word| word.to_le_bytes()).collect();
        home.meta().put(txn, KEY, &record)?;
        *self = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_version_or_length_is_refused() {
        let record = |version: u32, bytes: usize| [&version.to_le_bytes()[..], &vec![0; bytes - 4]].concat();
        assert_eq!(Meta::of_record(&record(VERSION, BYTES)).unwrap(), Meta::default());
        assert!(Meta::of_record(&record(VERSION + 1, 400)).unwrap_err().sentence.contains("format 2"));
        assert_eq!(Meta::of_record(&record(VERSION, 8)).unwrap_err().code, CORRUPT);
    }
}
