//! Whether index and records agree.

use libtp_record::KeyRange;

use super::Index;
use crate::{Reader, Result};

/// More findings than these are not told.
const FINDINGS_MAX: usize = 100;

impl Index {
    /// What is wrong with the index: records that it does not lead to, and entries that lead to no record or to one of which its
    /// function makes something else. Reads everything, and in a transaction locks it; a snapshot does not.
    ///
    /// # Errors
    /// As [`crate::Db::get`], and those of the index's function.
    pub fn verify(&self, reader: &impl Reader) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        let mut tell = |what: String| {
            if findings.len() < FINDINGS_MAX {
                findings.push(what);
            }
        };
        let (name, of) = (self.name(), self.of.name());
        let mut records = self.of.raw_cursor(reader, KeyRange::default());
        while let Some((stored, value)) = records.next()? {
            for entry in self.kept.entries(&stored, &value)? {
                if reader.read(&self.tree, &entry, |_| ())?.is_none() {
                    let key = stored.escape_ascii();
                    tell(format!("the index `{name}` does not lead to the record \"{key}\" of `{of}`"));
                }
            }
        }
        let mut entries = self.tree.raw_cursor(reader, KeyRange::default());
        while let Some(entry) = entries.next()? {
            let (index_key, stored) = self.read(&entry)?;
            let (under, key) = (index_key.escape_ascii(), stored.escape_ascii());
            match reader.read(&self.of, stored, <[u8]>::to_vec)? {
                None => tell(format!("`{name}` has \"{key}\" under \"{under}\", and `{of}` has no such record")),
                Some(value) if !self.kept.entries(stored, &value)?.contains(&entry.0) => {
                    tell(format!(
                        "`{name}` has \"{key}\" of `{of}` under \"{under}\", where its function does not put it"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(findings)
    }
}
