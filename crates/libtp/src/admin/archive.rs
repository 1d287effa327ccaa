//! Archives the log's segment files: lists, copies and removes those that are not needed.
//!
//! The library itself reuses the files of unneeded log. The setting `keep_log` keeps more of the log, which these calls
//! list and copy. They are modelled on Berkeley DB's `db_archive`.

use std::path::Path;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_name, Lsn};
use serde::Serialize;

use crate::{Env, Error, Result};

/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The name of a copy until it is whole.
const UNFINISHED: &str = "log.copying";

/// A segment file of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogFile {
    /// The file's name in the log's directory.
    pub name: String,
    /// The LSN of its first byte.
    pub start: u64,
    /// The LSN just after its last byte.
    pub end: u64,
    /// Whether a restart, a running transaction, a snapshot or a backup may need the file, or the file is not fully
    /// written yet.
    pub is_needed: bool,
}

impl Env {
    /// Returns the files of the log, in order.
    ///
    /// # Errors
    /// `Io`.
    pub fn log_files(&self) -> Result<Vec<LogFile>> {
        self.0.with_session(|managers, _| {
            let oldest = managers.log.oldest();
            let of = |file: libtp_log::SegmentFile| LogFile {
                name: segment_name(file.number),
                start: file.start.raw(),
                end: file.end.raw(),
                is_needed: file.end > oldest,
            };
            Ok(managers.log.segments()?.into_iter().map(of).collect())
        })
    }

    /// Copies the unneeded files of the log to the directory `to`, except those that are there already; returns the
    /// files that were copied. A copy gets its name when it is complete and synced.
    ///
    /// # Errors
    /// `Full`, `Io`: the files that were copied before the error stay.
    pub fn archive_log(&self, to: impl AsRef<Path>) -> Result<Vec<LogFile>> {
        self.0.check_writable("moving log files")?;
        let to = PosixDirectory::create(to)?;
        let mut copied = Vec::new();
        for file in self.log_files()?.into_iter().filter(|file| !file.is_needed) {
            if to.exists(&file.name)? {
                continue;
            }
            let from = match self.0.platform.log_directory.open(&file.name, OpenMode::ReadOnly) {
                Err(libtp_io::Error::NotFound { .. }) => continue,
                from => from?,
            };
            let copy = to.open(UNFINISHED, OpenMode::Create)?;
            copy.set_len(0)?;
            let mut piece = vec![0; PIECE_BYTES];
            let mut at = 0;
            loop {
                let read = from.read_at(&mut piece, at)?;
                copy.write_at(&piece[..read], at)?;
                at += read as u64;
                if read < piece.len() {
                    break;
                }
            }
            // When a segment is given up, its file may be reused under another name: the copy may then have parts of
            // two segments.
            if !self.log_files()?.contains(&file) {
                to.remove(UNFINISHED)?;
                return Err(Error::Io(format!("the log file {} was used again while it was copied. The files copied before it are complete; set a larger `keep_log` in libtp.toml, which keeps more of the log, and copy again", file.name).into()));
            }
            copy.sync()?;
            to.rename(UNFINISHED, &file.name)?;
            copied.push(file);
        }
        to.sync()?;
        Ok(copied)
    }

    /// Takes a checkpoint, and removes the unneeded files of the log, also those that `keep_log` keeps. Afterwards, the
    /// next backup must be a full backup.
    ///
    /// # Errors
    /// As [`Env::checkpoint`].
    pub fn remove_old_log(&self) -> Result<()> {
        self.0.check_writable("removing log files")?;
        self.remove_log_below(u64::MAX)
    }

    /// Takes a checkpoint as [`Env::remove_old_log`] does, but removes only the unneeded files that end at or below
    /// `end`, for example files that were copied. After the checkpoint, later files may be unneeded too. These files
    /// stay.
    ///
    /// # Errors
    /// As [`Env::checkpoint`].
    pub fn remove_log_below(&self, end: u64) -> Result<()> {
        self.0.check_writable("removing log files")?;
        self.0.with_session(|managers, txn| Ok(managers.give_up_log(txn, Lsn::new(end))?))
    }
}
