//! The interface for redo logging: a redo log gets a transaction's changes before the transaction ends.
//!
//! Paper: Rio Vista, section 2 and figure 2: in recoverable virtual memory the new bytes of each declared range go to a
//! log. Vista itself needs no such log. A redo log implements [`Redo`]; the transactions that it keeps end by
//! [`Txn::end_with`].
//!
//! A place counts from the beginning of the file, not of the flat part, because a transaction also changes vista's
//! internal data.

use std::path::Path;

use crate::{Error, Options, Result, Segment, Txn};
use rio::{Bytes, Nameless, Offset};

/// Keeps the changes of transactions.
pub trait Redo {
    /// The error type.
    type Error: From<Error>;

    /// Takes the changes of a transaction that is about to end. If this fails, the caller aborts the transaction.
    ///
    /// # Errors
    /// Any failure to keep the changes.
    fn commit(&mut self, changes: &Changes<'_>) -> Result<(), Self::Error>;
}

/// The changes of a transaction.
pub struct Changes<'s> {
    segment: &'s Segment,
}

impl Changes<'_> {
    /// Calls `each` with the place and the current bytes of every declared range, widened to whole words.
    pub fn for_each(&self, mut each: impl FnMut(u64, &[u8])) {
        for (place, bytes) in self.segment.undo.saved() {
            let (from, to) = (place & !7, (place + bytes).next_multiple_of(8));
            each(from, self.segment.part(from, to - from));
        }
    }

    /// As [`Segment::growth`]. If the values differ from those at an earlier transaction, [`Changes::for_each_header`]
    /// has further changes.
    pub fn growth(&self) -> [u64; 5] {
        self.segment.growth()
    }

    /// Calls `each` with the words that change outside of any transaction when the file grows.
    pub fn for_each_header(&self, mut each: impl FnMut(u64, &[u8])) {
        let segment = self.segment;
        let mut parts = vec![rio::SIZES, segment.undo.header_place()];
        let of_header = (segment.region().offset_of(&*segment.header).raw(), size_of_val(&*segment.header) as u64);
        parts.push(of_header);
        let heap = &*segment.heap.header;
        parts.push((segment.region().offset_of(heap).raw(), size_of_val(heap) as u64));
        parts.extend(heap.table.load().map(|table| (table.raw(), size_of::<rio::SlabHeader>() as u64)));
        for (place, bytes) in parts {
            each(place, segment.part(place, bytes));
        }
    }
}

impl Txn<'_> {
    /// Ends the transaction after `redo` has taken its changes.
    ///
    /// # Errors
    /// As [`Txn::end`], and the errors of `redo`. The transaction is aborted then.
    pub fn end_with<R: Redo>(mut self, redo: &mut R) -> Result<(), R::Error> {
        self.segment.check_process()?;
        if !self.segment.freed.is_empty() {
            self.in_log(Segment::release_all)?;
        }
        redo.commit(&Changes { segment: &self.segment })?;
        Ok(self.end()?)
    }
}

impl Segment {
    /// Returns how many bytes of the file are used.
    pub fn file_used(&self) -> u64 {
        self.region().used()
    }

    /// Returns the flat part's range of places in the file. The range contains none of vista's internal data.
    pub fn flat_places(&self) -> std::ops::Range<u64> {
        self.from..self.from + self.bytes
    }

    /// Returns the values that change when the file grows, or when taken units become fresh. These values change
    /// outside of any transaction, so no undo log has them.
    pub fn growth(&self) -> [u64; 5] {
        let heap = &self.heap.header;
        let [_, fresh] = &heap.fresh;
        let [from, to] = &heap.taken;
        [self.file_used(), fresh.get(), from.get(), to.get(), self.header.bytes.get()]
    }

    /// Copies the file's bytes from `place` on, including vista's internal data.
    ///
    /// # Errors
    /// `Memory` if the file is shorter, or cannot be read.
    pub fn read_file(&self, place: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.region().read_file(place, buffer)?)
    }

    /// As [`Changes::for_each_header`], for a caller that is not ending a transaction.
    pub fn for_each_header(&mut self, each: impl FnMut(u64, &[u8])) {
        Changes { segment: self }.for_each_header(each);
    }

    /// Returns the file's bytes from `place` on, including vista's internal data. The bytes are whole words, and the
    /// file's first word is not among them. The call borrows the segment exclusively, because other threads change
    /// vista's internal data while they share the segment.
    /// ```compile_fail,E0596
    /// fn tables(segment: &vista::Segment) -> &[u8] {
    ///     segment.file_part(4096, 64)
    /// }
    /// ```
    ///
    /// # Panics
    /// If the bytes are not a part of the file.
    pub fn file_part(&mut self, place: u64, bytes: u64) -> &[u8] {
        self.part(place, bytes)
    }

    fn part(&self, place: u64, bytes: u64) -> &[u8] {
        let bytes = usize::try_from(bytes).expect("a part of the file is mapped");
        let at = Offset::<Bytes>::from_raw(place).expect("the requested bytes are after the first word");
        self.region().bytes(at, bytes, &self.owner)
    }
}

impl Options {
    /// Opens a new segment in private memory: a file that never has a name, in the filesystem of `path`'s directory.
    /// Error texts name `path`. The segment ends with the process.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_in_memory(&self, path: &Path) -> Result<Segment> {
        self.open_nameless(Nameless::new(path)?, path)
    }

    /// As [`Options::open_in_memory`], with contents: `fill` stores the bytes of an earlier segment's file, each part
    /// at its place in that file.
    ///
    /// # Errors
    /// As [`Options::open`], and the errors of `fill`.
    pub fn open_copy<E: From<Error>>(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<(), E>,
    ) -> Result<Segment, E> {
        let mut file = Nameless::new(path).map_err(Error::from)?;
        fill(&mut |place, bytes| Ok(file.store(place, bytes)?))?;
        file.admit().map_err(Error::from)?;
        Ok(self.open_nameless(file, path)?)
    }

    fn open_nameless(&self, file: Nameless, path: &Path) -> Result<Segment> {
        Options { nameless: Some(file), ..self.clone() }.open(path)
    }
}
