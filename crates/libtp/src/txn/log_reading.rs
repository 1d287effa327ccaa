//! Reading the log: one record, all records forward, or one transaction's records backward.
//!
//! Paper: LIBTP 3.2.1, *log_read*, *log_roll* and *log_unroll*. The library's own restart and abort use the calls of
//! `crates/log`. The calls here are for programs, and change nothing.

use libtp_log::{Lsn, RecordRef};
use libtp_txn::{Managers, RecordTable};
use serde::Serialize;

use crate::{Error, Result};

/// A record of the log.
#[derive(Clone, Debug, Serialize)]
pub struct LogRecord {
    /// The record's log sequence number.
    pub lsn: u64,
    /// The name of the record's type.
    pub kind: String,
    /// The code of the record's type.
    pub code: u16,
    /// The transaction's number, zero for none.
    pub txn: u64,
    /// The LSN of the transaction's previous record.
    pub prev: u64,
    /// Whether the record is a CLR.
    pub compensation: bool,
    /// The record's contents in words.
    pub text: String,
    /// The bytes of the record's body, in the form that docs/formats/log.md gives for the record's type.
    #[serde(skip)]
    pub body: Vec<u8>,
}

impl crate::Env {
    /// Reads one record: the paper's *log_read*. Returns `None` if the log no longer has the record, or does not have
    /// it yet.
    ///
    /// # Errors
    /// `Corrupt` if no record, or a damaged record, begins at that LSN; `Io`; `Rebuilt` or `Panicked` if the shared
    /// memory is damaged.
    pub fn log_record(&self, lsn: u64) -> Result<Option<LogRecord>> {
        self.0.check_process()?;
        let generation = self.0.newest();
        let managers = &generation.managers;
        generation.guarded(|| match managers.log.read(Lsn::new(lsn)) {
            Ok(record) => Ok(Some(shown(&managers.types, &record.borrow()))),
            Err(error) => missing(error),
        })
    }

    /// Calls `each` with every record of the log from `from` on (zero: from the log's oldest record on), until `each`
    /// returns false: the paper's *log_roll*.
    ///
    /// # Errors
    /// `Corrupt` at a damaged record, `Io`; `Rebuilt` or `Panicked` if the shared memory is damaged. The records after
    /// the error were not visited.
    pub fn log_records(&self, from: u64, mut each: impl FnMut(LogRecord) -> bool) -> Result<()> {
        self.0.check_process()?;
        let generation = self.0.newest();
        let managers = &generation.managers;
        let from = |managers: &Managers| Lsn::new(from).max(managers.log.oldest()).max(Lsn::FIRST);
        let mut roll = generation.guarded(|| Ok(managers.log.roll(from(managers))))?;
        let mut next = || -> Result<Option<LogRecord>> {
            let record = roll.next_record().transpose()?;
            Ok(record.map(|record| shown(&managers.types, &record)))
        };
        // The caller's function is called outside of the guarded call, so that its panic reaches the caller.
        while let Some(record) = generation.guarded(&mut next)? {
            if !each(record) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with the record at `last`, then with the transaction's previous record, and so on back to its first
    /// record, until `each` returns false: the paper's *log_unroll*, "following backward transaction pointers". Also
    /// ends at a record that the log no longer has.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let words = env.btree("words")?;
    /// let last = env.run(|txn| {
    ///     words.put(txn, b"one", b"eins")?;
    ///     words.put(txn, b"two", b"zwei")?;
    ///     Ok(txn.last_lsn())
    /// })?;
    /// let mut kinds = Vec::new();
    /// env.log_unroll(last, |record| {
    ///     kinds.push(record.kind);
    ///     true
    /// })?;
    /// assert_eq!(kinds, ["btree insert", "btree insert"]);
    /// assert_eq!(env.log_record(last)?.expect("the record was just logged").lsn, last);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Env::log_record`](crate::Env::log_record).
    pub fn log_unroll(&self, last: u64, mut each: impl FnMut(LogRecord) -> bool) -> Result<()> {
        let mut next = last;
        while next != 0 {
            let Some(record) = self.log_record(next)? else { break };
            // A link to a later record is damage: the loop might follow it for ever.
            if record.prev >= next {
                return Err(Error::Corrupt(
                    format!("the log record at LSN {next} names LSN {} as the previous record of its transaction, and that LSN is not a lower one; nothing was changed", record.prev).into(),
                ));
            }
            next = record.prev;
            if !each(record) {
                break;
            }
        }
        Ok(())
    }
}

/// Returns `None` for a record that is past the log's end, or whose log was freed.
fn missing(error: libtp_log::Error) -> Result<Option<LogRecord>> {
    match error {
        libtp_log::Error::TooOld { .. } | libtp_log::Error::PastEnd { .. } => Ok(None),
        libtp_log::Error::NoRecord { .. } => Err(Error::Corrupt(error.to_string().into())),
        other => Err(other.into()),
    }
}

fn shown(types: &RecordTable, record: &RecordRef<'_>) -> LogRecord {
    let header = &record.header;
    let compensation = header.flags() & libtp_txn::CLR_FLAG != 0;
    let body = if compensation { record.body.get(8..).unwrap_or(&[]) } else { record.body };
    let (kind, text) = match types.get(header.kind()) {
        Some(known) => (known.name.to_string(), (known.describe)(body)),
        None if header.kind() == libtp_log::KIND_FLUSH_MARK => {
            let time =
                header.time().map(|time| format!("at {}.{:06} s since 1970", time / 1_000_000, time % 1_000_000));
            ("flush mark".into(), time.unwrap_or_default())
        }
        None => (format!("unknown {}", header.kind()), String::new()),
    };
    LogRecord {
        lsn: record.lsn.raw(),
        kind,
        code: header.kind(),
        txn: header.txn().raw(),
        prev: header.prev().raw(),
        compensation,
        text,
        body: body.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Durability, Env, Settings};

    #[test]
    fn the_oldest_record_that_a_snapshot_keeps_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { no_background: true, ..Settings::default() };
        let env = Env::builder().settings(settings).durability(Durability::Relaxed).open(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        let put = || env.run(|txn| tree.put(txn, b"key", b"value")).unwrap();
        put();
        // The last answered commits are not on disk, and no session is running that would write them.
        let snapshot = env.snapshot().unwrap();
        put();
        assert!(env.checkpoint().unwrap());
        let kept = env.snapshots()[0].needs_from;
        let mut first = None;
        let read = env.log_records(0, |record| {
            first.get_or_insert((record.lsn, record.kind));
            true
        });
        read.unwrap();
        assert_eq!(first, Some((kept, "commit".to_string())));
        drop(snapshot);
    }
}
