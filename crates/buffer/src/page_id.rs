//! The name of a page: a file, and a number in the file.
//!
//! Paper: LIBTP 3.2.2 and 3.2.3, "two 4-byte integers (a file id and page number)". Both fit into one word, so the name
//! of a frame's page is read and changed in one access.

use std::fmt;

/// The number of a database file. It is assigned by a counter in the control file, and never used again. Zero is no
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FileId(u32);

rio::bits!(FileId: u32);

impl FileId {
    /// No file.
    pub const NONE: FileId = FileId(0);

    /// Makes the number from a stored number.
    #[inline]
    pub const fn new(number: u32) -> FileId {
        FileId(number)
    }

    /// Returns the number for storage.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a page in its file. Page 0 is the file's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageNo(u32);

rio::bits!(PageNo: u32);

impl PageNo {
    /// The page of the file's header, which is never a page of an access method.
    pub const HEADER: PageNo = PageNo(0);

    /// Makes the number from a stored number.
    #[inline]
    pub const fn new(number: u32) -> PageNo {
        PageNo(number)
    }

    /// Returns the number for storage.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the offset of the page in its file, for pages of `page_bytes` bytes.
    #[inline]
    pub const fn offset(self, page_bytes: u32) -> u64 {
        // Both are below 2^32, so the product is below 2^64.
        (self.0 as u64) * (page_bytes as u64)
    }
}

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A page: the file in the high half, the page number in the low half. Zero is no page, because no file has the number
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageId(u64);

rio::bits!(PageId: u64);

impl PageId {
    /// No page.
    pub const NONE: PageId = PageId(0);

    /// Names page `page` of `file`.
    #[inline]
    pub const fn new(file: FileId, page: PageNo) -> PageId {
        PageId(((file.0 as u64) << 32) | page.0 as u64)
    }

    /// Makes the id from a stored number.
    #[inline]
    pub const fn from_u64(number: u64) -> PageId {
        PageId(number)
    }

    /// Returns the number for storage.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns whether this names no page.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the file.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half of 64 bits is 32 bits
    pub const fn file(self) -> FileId {
        FileId((self.0 >> 32) as u32)
    }

    /// Returns the page's number in the file.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low half is wanted
    pub const fn page(self) -> PageNo {
        PageNo(self.0 as u32)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of file {}", self.page(), self.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_id_keeps_both_halves() {
        for (file, page) in [(1, 0), (1, 1), (u32::MAX, u32::MAX), (7, u32::MAX), (u32::MAX, 0)] {
            let id = PageId::new(FileId::new(file), PageNo::new(page));
            assert_eq!((id.file().raw(), id.page().raw()), (file, page));
            assert!(!id.is_none());
            assert_eq!(PageId::from_u64(id.raw()), id);
        }
    }

    #[test]
    fn the_last_page_of_the_largest_file_has_an_offset() {
        assert_eq!(PageNo::new(u32::MAX).offset(65536), u64::from(u32::MAX) << 16);
    }
}
