//! Checks that indices and records agree.
//!
//! There are three checks:
//!
//! 1. Each entry leads to a record. This check needs no function.
//! 2. For each entry, the index's function computes this entry from the record.
//! 3. Each record has all entries that the index's function computes from the record.
//!
//! `Env::verify` of a database checks the database's list of indices, and makes check 3. For an index, it makes checks
//! 1 and 2.

use libtp_record::copies::copy_of;
use std::sync::Arc;

use libtp_buffer::FileId;
use libtp_record::{duplicates, KeyRange, Listed, Method};
use rio::planted;

use super::Index;
use crate::db::handle::Db;
use crate::db::opening;
use crate::region::inner::Inner;
use crate::region::kept_indices::Kept;
use crate::region::open_database::OpenDatabase;
use crate::txn::snapshot::Snapshot;
use crate::{Error, Reader, Result};

/// The largest number of findings that are reported.
const FINDINGS_MAX: usize = 100;
/// The number of snapshots that are tried, one after the other, if writers make a snapshot too old.
const TRIES: u32 = 5;

/// The findings, up to the limit.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn report(&mut self, what: impl FnOnce() -> String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(what());
        }
    }
}

/// A database, its index, and the function if this process has it.
struct Compared<'c> {
    of: &'c Db,
    tree: &'c Db,
    kept: Option<&'c Kept>,
}

impl Index {
    /// Returns the faults of the index: records that it does not lead to, entries that lead to no record, and entries
    /// that do not belong to their record. Reads all records and entries. A transaction locks them; a snapshot does
    /// not.
    ///
    /// # Errors
    /// As [`Index::keys`], and the errors of the index's function.
    pub fn verify(&self, reader: &impl Reader) -> Result<Vec<String>> {
        self.check_listed(reader)?;
        let compared = Compared { of: &self.of, tree: &self.tree, kept: Some(&self.kept) };
        let mut findings = Findings::default();
        compared.records(reader, &mut findings)?;
        compared.entries(reader, &mut findings)?;
        Ok(findings.0)
    }
}

impl Compared<'_> {
    /// Checks that each record's entries exist, if the function is known.
    fn records(&self, reader: &impl Reader, findings: &mut Findings) -> Result<()> {
        let Some(kept) = self.kept else { return Ok(()) };
        let mut records = self.of.raw_cursor(reader, KeyRange::default());
        while let Some((stored, value)) = records.next()? {
            for entry in kept.entries(&stored, &value)? {
                if reader.read(self.tree, &entry, |_| ())?.is_none() {
                    let (name, of, key) = (self.tree.name(), self.of.name(), stored.escape_ascii());
                    findings.report(|| format!("the index `{name}` does not lead to the record \"{key}\" of `{of}`"));
                }
            }
        }
        Ok(())
    }

    /// Checks that each entry leads to a record and, if the function is known, belongs to the record. Also checks the
    /// tree's count of entries.
    fn entries(&self, reader: &impl Reader, findings: &mut Findings) -> Result<()> {
        let (name, of) = (self.tree.name(), self.of.name());
        let mut entries = self.tree.raw_cursor(reader, KeyRange::default());
        let mut walked = 0;
        while let Some((entry, _)) = entries.next()? {
            walked += 1;
            let Some((index_key, stored)) = duplicates::read(&entry) else {
                findings.report(|| {
                    format!(
                        "`{name}` has an entry that does not have the form of an index entry: \"{}\"",
                        entry.escape_ascii()
                    )
                });
                continue;
            };
            let found = reader.read(self.of, stored, copy_of)?.transpose()?;
            let (under, key) = (index_key.escape_ascii(), stored.escape_ascii());
            match found.as_deref().zip(self.kept) {
                _ if found.is_none() => {
                    findings.report(|| {
                        format!("`{name}` has an entry \"{under}\" for a record \"{key}\", which is not in `{of}`")
                    });
                }
                Some((value, kept)) if !kept.entries(stored, value)?.contains(&entry) => {
                    findings.report(|| {
                        format!(
                            "`{name}` has \"{key}\" of `{of}` under \"{under}\", where its function does not put it"
                        )
                    });
                }
                _ => {}
            }
        }
        let counted = reader.count(self.tree, KeyRange::default())?;
        if counted != walked {
            findings.report(|| {
                format!("`{name}` has {walked} entries when they are read, and {counted} when they are counted")
            });
        }
        Ok(())
    }
}

/// Returns the disagreements between a database and its indices, or between an index and its database.
///
/// # Errors
/// An error that prevents reading. The verification of pages reports damaged pages.
pub(crate) fn disagreements(env: &Arc<Inner>, name: &str) -> Result<Vec<String>> {
    if planted("libtp: indices are not verified") {
        return Ok(Vec::new());
    }
    let open = opening::open(env, name, None)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let found = match open.key_format().index_of {
            Some(of) => of_index(env, &open, of),
            None if open.method() == Method::Hash || open.method() == Method::Btree => of_database(env, &open),
            None => Ok(Vec::new()),
        };
        match found {
            Err(Error::SnapshotTooOld(_)) if tries < TRIES => {}
            found => return found,
        }
    }
}

/// Returns the indices on the list of a database, and a snapshot of that moment. The `IX` lock keeps other transactions
/// from making or dropping an index.
fn listed<'e>(env: &'e Arc<Inner>, of: &Db) -> Result<(Vec<FileId>, Snapshot<'e>)> {
    crate::txn::run::run(env, env.durability, |txn| {
        let listed = txn.guarded(|| Ok(of.access(txn).indices()?))?;
        Ok((listed, Snapshot::begin(env)?))
    })
}

fn name_of(env: &Inner, file: FileId) -> Option<String> {
    env.newest().managers.buffers.file_by_id(file).map(|info| info.name)
}

fn of_database(env: &Arc<Inner>, open: &Arc<OpenDatabase>) -> Result<Vec<String>> {
    let of = Db::as_stored(env, open);
    let (files, snapshot) = listed(env, &of)?;
    let mut findings = Findings::default();
    for file in files {
        // After a failed sync a snapshot shows less than transactions do.
        if snapshot.is_index(&of, file)? != Listed::Then {
            continue;
        }
        let Some(name) = name_of(env, file) else {
            findings.report(|| format!("its list of indices names file {file}, and this environment has no such file"));
            continue;
        };
        let tree = opening::open(env, &name, None)?;
        if tree.key_format().index_of != Some(open.id()) {
            findings.report(|| format!("its list of indices names `{name}`, which is not an index of it"));
            continue;
        }
        let kept = env.indices.of(file);
        let tree = Db::as_stored(env, &tree);
        Compared { of: &of, tree: &tree, kept: kept.as_deref() }.records(&snapshot, &mut findings)?;
    }
    Ok(findings.0)
}

fn of_index(env: &Arc<Inner>, open: &Arc<OpenDatabase>, of: FileId) -> Result<Vec<String>> {
    let mut findings = Findings::default();
    let Some(name) = name_of(env, of) else {
        findings.report(|| format!("it is an index of file {of}, and this environment has no such file"));
        return Ok(findings.0);
    };
    let of = Db::as_stored(env, &opening::open(env, &name, None)?);
    let (files, snapshot) = listed(env, &of)?;
    // An index that was dropped or not finished is never read.
    if files.contains(&open.id()) && snapshot.is_index(&of, open.id())? == Listed::Then {
        let (tree, kept) = (Db::as_stored(env, open), env.indices.of(open.id()));
        Compared { of: &of, tree: &tree, kept: kept.as_deref() }.entries(&snapshot, &mut findings)?;
    }
    Ok(findings.0)
}
