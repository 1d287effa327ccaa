//! Salvage: copies the readable records of a damaged database file to a new database.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::Lsn;
use libtp_record::list::entries::Entry;
use libtp_record::list::remains::Remains;
use libtp_record::{duplicates, DamagedFile, Duplicates, Method, SalvagedRecord};
use rio::planted;
use serde::Serialize;

use crate::db::opening::{access, open};
use crate::db::sort::Sorter;
use crate::ground::progress::{Progress, Watch};
use crate::{Env, Error, Finding, Result};

/// The number of records that one transaction puts into the new database.
const BATCH_RECORDS: usize = 500;
/// The number of bytes of records after which one transaction ends, even with fewer records.
const BATCH_BYTES: usize = 1 << 20;
/// Memory for sorting records that get new numbers.
const SORT_BYTES: u64 = 64 << 20;

/// The result of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Records that were read and are in the new database.
    pub records: u64,
    /// The losses: pages, and values with lost pages. If a list has lost the order of its records, the loss has page
    /// number 0.
    pub lost: Vec<Finding>,
}

/// The numbers of a salvage, for reports.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SalvagedCount {
    /// Records that were read.
    pub records: u64,
    /// Losses: a page, the missing pages at the end of a file, or a long value.
    pub lost: usize,
}

impl Env {
    /// Reads every page of the database file at `file`, of this or another environment, and puts each readable record
    /// into a new database `name` of the same kind. The file is only read, and must not be in use. The log of its
    /// environment is ignored: changes that had not been written to the file are missing, and uncommitted changes may
    /// be included.
    ///
    /// The records of a list ([`Env::list`]) get new numbers, in their order. If the pages that hold the order are
    /// lost, each record follows the record that was stored before it.
    ///
    /// # Errors
    /// `Database` if a database `name` exists already, or the file is no database file. `Database` also for a file of
    /// the program's pages ([`Env::pages`]), which have no records, and for an index, which is made again from its
    /// database. `Full`, `Io`. The records that were salvaged before an error are in the new database.
    pub fn salvage(&self, file: impl AsRef<Path>, name: &str, watch: &mut Watch<'_>) -> Result<Salvaged> {
        self.0.check_writable("salvaging records")?;
        let file = file.as_ref();
        let refused = |what: &str| Error::Database { name: name.to_string(), what: what.to_string() };
        if self.databases()?.iter().any(|known| known == name) {
            return Err(refused("the database exists already; nothing was changed. Salvage to another name"));
        }
        let directory = file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let full_name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            refused("the path of the damaged file does not end with a name; nothing was changed. Name the file")
        })?;
        let opened = PosixDirectory::open(directory)?.open(full_name, OpenMode::ReadOnly)?;
        let wreck = DamagedFile::open(opened, full_name)?;
        if wreck.method() == Method::Pages {
            return Err(refused("the damaged file is a file of pages, which has no records that could be salvaged; nothing was made. Restore its environment from a backup with `tp restore`, or read its pages with the program that wrote them"));
        }
        if wreck.key_format().index_of.is_some() {
            return Err(refused("the damaged file is an index, and all its data are in its database, too; nothing was made. Salvage the database; the program makes its indices again (`Db::index`)"));
        }
        let remains = wreck.key_format().is_list.then(Remains::default);
        let directory = self.0.platform.directory.as_ref();
        let is_numbered = wreck.key_format().duplicates == Duplicates::AsTheyCame;
        let numbered = is_numbered.then(|| Sorter::new(directory, name, SORT_BYTES));
        let open = open(&self.0, name, Some((wreck.method(), *wreck.key_format())))?;
        let (waiting, seen) = (Vec::new(), HashMap::new());
        let mut into = Into { env: self, open, waiting, waiting_bytes: 0, records: 0, seen, remains, numbered };
        let lost = wreck
            .records(&mut |record| into.take(record), &mut |done, total| watch(Progress::new("pages", done, total)))?;
        let mut lost: Vec<Finding> = lost.into_iter().map(Finding::from).collect();
        into.put()?;
        into.put_numbered()?;
        lost.extend(into.put_in_order()?);
        if planted("libtp: salvage does not report lost pages") {
            lost.clear();
        }
        Ok(Salvaged { records: into.records, lost })
    }
}

impl Salvaged {
    /// Returns the numbers, for reports.
    pub fn count(&self) -> SalvagedCount {
        SalvagedCount { records: self.records, lost: self.lost.len() }
    }
}

/// The destination of salvaged records.
struct Into<'e> {
    env: &'e Env,
    open: Arc<libtp_record::Database>,
    waiting: Vec<SalvagedRecord>,
    waiting_bytes: usize,
    records: u64,
    /// The LSN of the newest record of each key, by the key's hash: a file whose pages were written back at different
    /// times may have a key twice.
    seen: HashMap<u64, Lsn>,
    /// For a list, the remains of the order of its records.
    remains: Option<Remains>,
    /// Duplicates in the order of their insertion. Their numbers are LSNs of the damaged file's log, but later values
    /// of the new database must have higher numbers. So these values wait here until all are read, and get new numbers
    /// in their order.
    numbered: Option<Sorter<'e>>,
}

impl Into<'_> {
    fn take(&mut self, record: SalvagedRecord) -> Result<()> {
        match &record {
            SalvagedRecord::Pair { key, value, lsn } => {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                let newest = self.seen.entry(hasher.finish()).or_insert(Lsn::NONE);
                if *newest > *lsn {
                    return Ok(());
                }
                let is_first = newest.is_none();
                *newest = *lsn;
                if let Some(remains) = &mut self.remains {
                    match Entry::of(key) {
                        Some(Entry::Record(id)) => remains.record(id),
                        Some(Entry::Node(id)) => {
                            remains.node(id, value);
                            return Ok(());
                        }
                        Some(Entry::Head) => {
                            remains.head(value);
                            return Ok(());
                        }
                        // The new list has no text file.
                        Some(Entry::Text) | None => return Ok(()),
                    }
                }
                self.records += u64::from(is_first);
                if let Some(numbered) = &mut self.numbered {
                    return numbered.push(key, value);
                }
            }
            SalvagedRecord::Numbered { .. } => self.records += 1,
        }
        self.wait(record)
    }

    fn wait(&mut self, record: SalvagedRecord) -> Result<()> {
        self.waiting_bytes += match &record {
            SalvagedRecord::Pair { key, value, .. } => key.len() + value.len(),
            SalvagedRecord::Numbered { value, .. } => value.len(),
        };
        self.waiting.push(record);
        if self.waiting.len() >= BATCH_RECORDS || self.waiting_bytes >= BATCH_BYTES {
            self.put()?;
        }
        Ok(())
    }

    /// Puts the records of a list in their order; returns the loss, if any.
    fn put_in_order(&self) -> Result<Option<Finding>> {
        let Some(remains) = &self.remains else { return Ok(None) };
        let order = remains.order();
        self.env.run(|txn| txn.guarded(|| Ok(access(&self.env.0, &self.open, txn).list_made_of(&order.ids)?)))?;
        let what = || {
            format!("the order of {} records is lost; each follows the record that was stored before it", order.guessed)
        };
        Ok((order.guessed > 0).then(|| Finding { page: 0, what: what() }))
    }

    fn put_numbered(&mut self) -> Result<()> {
        let Some(sorter) = self.numbered.take() else { return Ok(()) };
        let mut merge = sorter.finish()?;
        let mut next = merge.next()?;
        while let Some((key, value)) = next {
            next = merge.next()?;
            // If a record was found twice, the later one is kept.
            if next.as_ref().is_none_or(|(later, _)| *later != key) {
                self.wait(SalvagedRecord::Pair { key, value, lsn: Lsn::NONE })?;
            }
        }
        self.put()
    }

    fn put(&mut self) -> Result<()> {
        let is_numbered = self.open.key_format().duplicates == Duplicates::AsTheyCame
            && !planted("libtp: salvaged values keep their old order numbers");
        self.env.run(|txn| {
            // Each record takes more than one byte of log, so the next batch's numbers are higher.
            let first = txn.generation().managers.log.tail().raw();
            for (number, record) in (first..).zip(&self.waiting) {
                txn.guarded(|| {
                    let access = access(&self.env.0, &self.open, txn);
                    match record {
                        SalvagedRecord::Pair { key, value, .. } if is_numbered => {
                            Ok(access.put(&duplicates::renumbered(key, number), value)?)
                        }
                        SalvagedRecord::Pair { key, value, .. } => Ok(access.put(key, value)?),
                        SalvagedRecord::Numbered { number, value } => Ok(access.recno_put(*number, value)?),
                    }
                })?;
            }
            Ok(())
        })?;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }
}
