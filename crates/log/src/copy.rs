//! Copies of the log: bytes of a log in use, or of another copy, in segment files elsewhere.
//!
//! A copy's segments have the names, sizes and headers of the log's segments, so [`LogFiles`] reads them. But the last
//! segment ends where the copy ends, and a copy need not begin with segment 1. No record is appended to a copy; only
//! further bytes of the original log are copied to its end. [`LogFiles::make_segments`] makes a log from a copy, for
//! another environment.
//!
//! If we die here: the next copying continues from the last LSN below which the whole copy is known to be synced.

use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::failpoint;

use crate::segment::header_block;
use crate::segment_files::Opened;
use crate::{segment_name, Control, Error, Geometry, LogFiles, LogManager, Lsn, Result, SEGMENT_HEADER_BYTES};

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The segment files that receive a copy.
pub struct LogCopy<'c> {
    directory: &'c Arc<dyn Directory>,
    control: &'c Control,
}

impl<'c> LogCopy<'c> {
    /// Returns a copy in `directory`, of the log of the environment with the control file contents `control`.
    pub fn new(directory: &'c Arc<dyn Directory>, control: &'c Control) -> LogCopy<'c> {
        LogCopy { directory, control }
    }

    /// Appends the bytes `from .. to`, which `read` delivers, to the copy, and syncs the files. If a segment's file is
    /// missing, makes the file and copies from the start of the segment. Reports the number of bytes copied to
    /// `watch`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: a part may have been copied. [`Error::PastEnd`] if `read` delivers too few
    /// bytes.
    pub fn append(
        &self,
        from: Lsn,
        to: Lsn,
        read: &dyn Fn(Lsn, &mut [u8]) -> Result<usize>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let geometry = self.control.geometry();
        let mut at = from;
        let mut piece = vec![0; PIECE_BYTES];
        while at < to {
            let number = geometry.locate(at).segment;
            let (file, begin) = self.open(&geometry, number, at)?;
            at = begin;
            let end = to.min(geometry.end(number));
            while at < end {
                let want = usize::try_from(end.since(at)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                let have = read(at, &mut piece[..want])?;
                if have < want {
                    return Err(Error::PastEnd { lsn: to, end: at.plus(have as u64) });
                }
                file.write_at(&piece[..want], geometry.locate(at).offset).map_err(no_room)?;
                failpoint("log copy: a piece written");
                at = at.plus(want as u64);
                watch(at.since(from));
            }
            file.sync().map_err(no_room)?;
        }
        Ok(())
    }

    /// Returns the file of segment `number`, and the LSN from which to copy: `at`, or the segment's start if the file
    /// is new.
    fn open(&self, geometry: &Geometry, number: u32, at: Lsn) -> Result<(Arc<dyn File>, Lsn)> {
        let name = segment_name(number);
        let file = self.directory.open(&name, OpenMode::Create).map_err(no_room)?;
        if file.len()? >= geometry.locate(at).offset && at != geometry.start(number) {
            return Ok((file, at));
        }
        let incarnation = self.control.incarnations.at(at);
        file.write_at(&header_block(geometry, number, incarnation, self.control.environment_id), 0).map_err(no_room)?;
        Ok((file, geometry.start(number)))
    }
}

impl LogManager {
    /// Copies the log's bytes from `from` on into `buffer`, as far as they are durable and in the files. Returns their
    /// number.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn copy_durable(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize> {
        let bytes = usize::try_from(self.durable().since(from)).unwrap_or(usize::MAX).min(buffer.len());
        self.files.copy_out(from, &mut buffer[..bytes])
    }

    /// Returns whether the files have a record at `lsn`.
    pub fn is_in_files(&self, lsn: Lsn) -> bool {
        matches!(self.files.roll(lsn, self.durable()).next_record(), Some(Ok(_)))
    }

    /// Returns the LSN from which on the files have the log without a gap. It need not be the beginning of a record.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn files_from(&self) -> Result<Lsn> {
        let mut first = self.files.geometry().locate(self.oldest()).segment;
        while first > 1 && matches!(self.files.segment(first - 1)?, Opened::Good(_)) {
            first -= 1;
        }
        Ok(self.files.geometry().start(first).max(Lsn::FIRST))
    }
}

/// A segment's file, as tools see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// The segment's number.
    pub number: u32,
    /// The LSN of its first byte.
    pub start: Lsn,
    /// The LSN after its last byte.
    pub end: Lsn,
}

impl LogManager {
    /// Returns the existing segment files, in order: segments with log that a restart may need, older segments kept for
    /// other purposes, and segments made ahead.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn segments(&self) -> Result<Vec<SegmentFile>> {
        let geometry = self.files.geometry();
        let of = |number| SegmentFile { number, start: geometry.start(number), end: geometry.end(number) };
        Ok(self.files.present()?.into_iter().map(of).collect())
    }
}

impl LogFiles {
    /// Copies the log's bytes from `from` on into `buffer`. Returns their number.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn copy_bytes(&self, from: Lsn, buffer: &mut [u8]) -> Result<usize> {
        self.copy_out(from, buffer)
    }

    /// Makes the segments of a new log. The log has the bytes of `source` from the start of `from`'s segment up to
    /// `to`, then zeros: it ends at `to`. The names of the segments are durable on return. Reports the number of bytes
    /// done to `watch`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: a part may have been made. [`Error::PastEnd`] if `source` has too few bytes.
    pub fn make_segments(&self, source: &LogFiles, from: Lsn, to: Lsn, watch: &mut dyn FnMut(u64)) -> Result<()> {
        let geometry = *self.geometry();
        for number in geometry.locate(from).segment..=geometry.locate(to).segment {
            let (start, end) = (geometry.start(number), geometry.end(number).min(to));
            let bytes = usize::try_from(end.since(start)).map_err(|_| Error::PastEnd { lsn: to, end: start })?;
            let mut contents = vec![0; bytes];
            let read = source.copy_out(start, &mut contents)?;
            if read < bytes {
                return Err(Error::PastEnd { lsn: to, end: start.plus(read as u64) });
            }
            self.prepare_with(number, self.incarnations().at(start.max(from)), &contents)?;
            failpoint("log copy: a segment made");
            watch(end.since(from));
        }
        self.directory().sync()?;
        Ok(())
    }
}

fn no_room(error: libtp_io::Error) -> Error {
    Error::from_disk("the copy of the log", error)
}

const _: () = assert!(SEGMENT_HEADER_BYTES == 4096);
