//! The pages of a hash file: its header, and the pages of a bucket.
//!
//! A bucket is a page and a chain of further pages. Each page has the layout of a B-tree leaf without fences
//! (../page/slotted.rs), with its records in key order. Three fields of the slotted header have another meaning: `left`
//! is the bucket's number, `right` is the next page of the chain, and `unlinked` is the number of hash bits that decide
//! whether a key belongs to the bucket.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::database::geometry::{low_bits, BUCKETS_MAX, EXTENTS};
use crate::page::free_pages::FIRST_PAGE;
use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::page::PageKind;
use crate::page_header;
use crate::pages::Pages;
use crate::{Error, Result};
use libtp_buffer::PageMut;

/// The header's page number.
pub const HEADER_PAGE: u32 = FIRST_PAGE;
/// The page of the first bucket.
pub const FIRST_BUCKET: u32 = FIRST_PAGE + 1;

const AT: usize = 32;
const END: usize = AT + size_of::<HashHeader>();

/// Bytes 32 to 1007 of the header page. See docs/formats/hash.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub struct HashHeader {
    /// 32: the number of buckets.
    pub buckets: U32,
    /// 36: zero.
    pub unused: [u8; 12],
    /// 48: the first page of each extent, zero for none.
    pub extents: [U32; EXTENTS],
}

const _: () = assert!(size_of::<HashHeader>() == 16 + 4 * EXTENTS);

impl HashHeader {
    /// Reads the header page; `None` for another kind of page or an impossible header.
    pub fn of(page: &[u8]) -> Option<&HashHeader> {
        if page_header::kind(page) != PageKind::HashHeader as u8 {
            return None;
        }
        let header = HashHeader::ref_from_bytes(page.get(AT..END)?).ok()?;
        (1..=BUCKETS_MAX).contains(&header.buckets.get()).then_some(header)
    }
}

/// Makes the header page of a new file with one bucket.
pub fn make_header(page: &mut PageMut<'_, '_>, file: u32) {
    let bytes = page.fresh();
    page_header::make_new(bytes, file, HEADER_PAGE, PageKind::HashHeader as u8, 0);
    bytes[AT..AT + 4].copy_from_slice(&1_u32.to_le_bytes());
    let extents = std::mem::offset_of!(HashHeader, extents);
    bytes[AT + extents..AT + extents + 4].copy_from_slice(&FIRST_BUCKET.to_le_bytes());
}

/// Stores the number of buckets and, for a new extent, its index and first page.
pub fn set_buckets(page: &mut PageMut<'_, '_>, buckets: u32, extent: Option<(usize, u32)>) {
    page.range(AT..AT + 4).copy_from_slice(&buckets.to_le_bytes());
    if let Some((index, first)) = extent {
        let at = AT + std::mem::offset_of!(HashHeader, extents) + 4 * index;
        page.range(at..at + 4).copy_from_slice(&first.to_le_bytes());
    }
}

/// Bits of [`SlottedHeader::flags`](crate::page::slotted::SlottedHeader) on a page of a bucket.
pub struct BucketFlags;

impl BucketFlags {
    /// During a split, on the first page of the bucket that gives records: this bucket's further pages may still have
    /// records that belong to the new bucket.
    pub const GIVING: u16 = 8;
    /// During a split, on the first page of the new bucket: records that belong to this bucket may still be in the
    /// bucket that gives records.
    pub const TAKING: u16 = 16;
    /// A page of the chain, not the first.
    pub const FURTHER: u16 = 4;
}

/// A page of a bucket, for reading.
#[derive(Clone, Copy)]
pub struct BucketPage<'p>(Node<'p>);

impl<'p> std::ops::Deref for BucketPage<'p> {
    type Target = Node<'p>;

    fn deref(&self) -> &Node<'p> {
        &self.0
    }
}

impl<'p> BucketPage<'p> {
    /// Reads a page; `None` if the page is no page of a bucket or contradicts itself.
    #[inline]
    pub fn over(page: &'p [u8]) -> Option<BucketPage<'p>> {
        if page_header::kind(page) != PageKind::Hash as u8 {
            return None;
        }
        let node = Node::over_records(page)?;
        let has_fences = node.header().high_bytes.get() != 0 || node.header().low_bytes.get() != 0;
        (node.is_leaf() && !has_fences && node.header().unlinked.get() <= 32).then_some(BucketPage(node))
    }

    /// Returns the bucket's number.
    #[inline]
    pub fn bucket(&self) -> u32 {
        self.header().left.get()
    }

    /// Returns the number of hash bits that decide whether a key belongs to the bucket; zero on further pages.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.header().unlinked.get()
    }

    /// Returns the next page of the chain.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        self.right()
    }

    fn has(&self, flag: u16) -> bool {
        self.header().flags.get() & flag != 0
    }

    /// Returns whether the page has [`BucketFlags::GIVING`].
    pub fn is_giving(&self) -> bool {
        self.has(BucketFlags::GIVING)
    }

    /// Returns whether the page has [`BucketFlags::TAKING`].
    pub fn is_taking(&self) -> bool {
        self.has(BucketFlags::TAKING)
    }

    /// Returns whether this is a further page of its bucket.
    pub fn is_further(&self) -> bool {
        self.has(BucketFlags::FURTHER)
    }

    /// Returns whether this is the first page of the bucket of `hash`.
    #[inline]
    pub fn is_first_of(&self, hash: u64) -> bool {
        !self.is_further() && low_bits(hash, self.bits()) == self.bucket()
    }
}

/// The header fields of a bucket's page.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketFrame {
    /// The bucket.
    pub bucket: u32,
    /// See [`BucketPage::bits`].
    pub bits: u32,
    /// [`BucketFlags`].
    pub flags: u16,
    /// The next page, zero for none.
    pub next: u32,
}

impl BucketFrame {
    /// Converts to a frame of a slotted page.
    pub fn to_frame(self) -> Frame {
        let BucketFrame { bucket, bits, flags, next } = self;
        Frame { left: bucket, right: next, flags, unlinked: bits, ..Frame::default() }
    }
}

/// Reads a page as a page of a bucket.
#[inline]
pub(crate) fn bucket_page<'p>(pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<BucketPage<'p>> {
    BucketPage::over(page).ok_or_else(|| no_bucket(pages, number))
}

#[cold]
fn no_bucket(pages: &Pages<'_>, number: u32) -> Error {
    pages.corrupt(number, "other pages lead to it as a page of a bucket, and it is not such a page")
}
