//! The static header of a database file: page 0, which is written only when the file is made.
//!
//! Byte table: docs/formats/file.md.

use libtp_buffer::{
    check, file_name, is_page_size, is_zero, seal, FileId, FileInfo, PageHeader, PageId, PageNo, PoolId, PAGE_BYTES_MAX,
};
use libtp_io::File;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::database::{Duplicates, KeyFormat, Method};
use crate::order::{OrderName, ORDER_NAME_BYTES_MAX};
use crate::page::recno::Arithmetic;
use crate::page::PageKind;
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"libtp.tp";
/// The newest version of the file format that this library reads. Lists, indices and files of pages have this version.
/// Trees with several values of a key, or with another order than the order of bytes, have version 2. All other files
/// have version 1.
pub const FILE_VERSION: u32 = 3;
const FILE_VERSION_KEYED: u32 = 2;
/// The oldest version of the file format.
pub const FILE_VERSION_PLAIN: u32 = 1;
pub(crate) const AT: usize = size_of::<PageHeader>();
pub(crate) const END: usize = AT + size_of::<FileHeader>();
/// The number of pages of a new file: the header, and room for the meta page and the first page after it. A file with
/// fewer pages was truncated, and is not an unfinished file.
pub(crate) const PAGES_MIN: u64 = 3;
const METHOD_BTREE: u32 = 1;
const METHOD_RECNO: u32 = 2;
const METHOD_HASH: u32 = 3;
const METHOD_PAGES: u32 = 4;

/// Bytes 32 to 143 of page 0; zeros follow. See docs/formats/file.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FileHeader {
    /// 32: `libtp.tp`.
    pub magic: [u8; 8],
    /// 40: the format's version.
    pub version: U32,
    /// 44: bytes of a page.
    pub page_bytes: U32,
    /// 48: the environment the file belongs to.
    pub environment: [u8; 16],
    /// 64: 1 a B-tree, 2 records by number, 3 a hash file, 4 pages with the program's contents.
    pub method: U32,
    /// 68: bytes of a record of a recno file, otherwise zero.
    pub record_bytes: U32,
    /// 72: for a B-tree: 0 each key once, 1 keys with several values, sorted, 2 several values in insertion order.
    pub duplicates: u8,
    /// 73: bytes of the order's name; 0 for the order of the keys' bytes.
    pub order_bytes: u8,
    /// 74: 1 if the B-tree has the entries of a list, otherwise 0.
    pub list: u8,
    /// 75: zero.
    pub unused: u8,
    /// 76: the file that this index belongs to, otherwise zero.
    pub index_of: U32,
    /// 80: the name of the order of the keys.
    pub order: [u8; ORDER_NAME_BYTES_MAX],
}

const _: () = {
    assert!(size_of::<FileHeader>() == 112);
    assert!(std::mem::offset_of!(FileHeader, order) == 48);
    assert!(std::mem::offset_of!(FileHeader, version) == 8);
    assert!(std::mem::offset_of!(FileHeader, method) == 32);
};

/// The key format of a list's tree.
pub const LIST: KeyFormat = KeyFormat { duplicates: Duplicates::None, order: None, is_list: true, index_of: None };

/// A database file, as its header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The buffer manager's description of the file.
    pub info: FileInfo,
    /// The file's access method.
    pub method: Method,
    /// The format of the keys.
    pub key_format: KeyFormat,
}

pub(crate) fn unsuitable(name: &str, what: impl Into<String>) -> Error {
    Error::Unsuitable { name: name.to_string(), what: what.into() }
}

/// Returns the oldest format version that has this key format.
fn version_of(key_format: &KeyFormat) -> u32 {
    match key_format {
        KeyFormat { index_of: Some(_), .. } | KeyFormat { is_list: true, .. } => FILE_VERSION,
        key_format if key_format.is_plain() => FILE_VERSION_PLAIN,
        _ => FILE_VERSION_KEYED,
    }
}

impl FileHeader {
    pub(crate) fn method(&self) -> Option<Method> {
        match (self.method.get(), self.record_bytes.get()) {
            (METHOD_BTREE, 0) => Some(Method::Btree),
            (METHOD_HASH, 0) => Some(Method::Hash),
            (METHOD_PAGES, 0) if self.version.get() == FILE_VERSION => Some(Method::Pages),
            (METHOD_RECNO, record_bytes) => Some(Method::Recno { record_bytes }),
            _ => None,
        }
    }

    fn key_format(&self) -> Option<KeyFormat> {
        let duplicates = match self.duplicates {
            0 => Duplicates::None,
            1 => Duplicates::Sorted,
            2 => Duplicates::AsTheyCame,
            _ => return None,
        };
        let order = match self.order_bytes {
            0 if self.order == [0; ORDER_NAME_BYTES_MAX] => None,
            length => Some(OrderName::of_file(&self.order, length)?),
        };
        let index_of = Some(self.index_of.get()).filter(|&file| file != 0).map(FileId::new);
        let key_format = KeyFormat { duplicates, order, is_list: self.list == 1, index_of };
        let is_tree = self.method() == Some(Method::Btree);
        let fits = match key_format.is_list {
            _ if self.list > 1 => false,
            true => is_tree && key_format == LIST && self.version.get() == FILE_VERSION,
            false => key_format.is_plain() || (is_tree && version_of(&key_format) <= self.version.get()),
        };
        fits.then_some(key_format)
    }

    pub(crate) fn new(environment: [u8; 16], page_bytes: u32, method: Method, key_format: &KeyFormat) -> FileHeader {
        let (code, record_bytes) = match method {
            Method::Btree => (METHOD_BTREE, 0),
            Method::Recno { record_bytes } => (METHOD_RECNO, record_bytes),
            Method::Hash => (METHOD_HASH, 0),
            Method::Pages => (METHOD_PAGES, 0),
        };
        let (order, order_bytes) = key_format.order.as_ref().map_or((&[0; ORDER_NAME_BYTES_MAX], 0), OrderName::bytes);
        FileHeader {
            magic: MAGIC,
            version: if method == Method::Pages { FILE_VERSION } else { version_of(key_format) }.into(),
            page_bytes: page_bytes.into(),
            environment,
            method: code.into(),
            record_bytes: record_bytes.into(),
            duplicates: match key_format.duplicates {
                Duplicates::None => 0,
                Duplicates::Sorted => 1,
                Duplicates::AsTheyCame => 2,
            },
            order_bytes,
            list: key_format.is_list.into(),
            unused: 0,
            index_of: key_format.index_of.map_or(0, FileId::raw).into(),
            order: *order,
        }
    }

    /// Returns page 0 of a file with this header.
    pub fn to_page(self, file: FileId) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes.get() as usize];
        let id = PageId::new(file, PageNo::HEADER);
        page[..AT].copy_from_slice(PageHeader::new(id, PageKind::FileHeader as u8, 0).as_bytes());
        page[AT..END].copy_from_slice(self.as_bytes());
        seal(&mut page);
        page
    }
}

/// Reads the header of an open file.
pub(crate) fn read_header(file: &dyn File, name: &str) -> Result<(FileId, FileHeader)> {
    let mut front = vec![0; PAGE_BYTES_MAX as usize];
    let read = file.read_at(&mut front, 0)?;
    let full_name = file_name(name);
    let damaged = |what: String| Error::Corrupt { file: full_name.clone(), page: 0, what };
    let header = front.get(AT..END).and_then(|bytes| FileHeader::ref_from_bytes(bytes).ok()).copied();
    let Some(header) = header.filter(|header| header.magic == MAGIC) else {
        return Err(unsuitable(
            &full_name,
            "it does not begin like a database file. Move a file of another kind away; if it is a damaged database file, restore the environment from a backup with `tp restore`, or save the file's readable records with `tp salvage`",
        ));
    };
    if !(FILE_VERSION_PLAIN..=FILE_VERSION).contains(&header.version.get()) {
        let what = format!(
            "it has format version {}, and this build reads versions up to {FILE_VERSION}; use the build that made the file",
            header.version
        );
        return Err(unsuitable(&full_name, what));
    }
    let page_bytes = header.page_bytes.get();
    if !is_page_size(page_bytes) || read < page_bytes as usize {
        return Err(damaged(format!(
            "its header names pages of {page_bytes} bytes, and only {read} bytes could be read"
        )));
    }
    let length = file.len()?;
    if length < PAGES_MIN * u64::from(page_bytes) {
        return Err(damaged(format!("the file ends after {length} bytes, and every database file is longer")));
    }
    let page = &front[..page_bytes as usize];
    let file_id = FileId::new(PageHeader::of(page).file_id.get());
    check(page, PageId::new(file_id, PageNo::HEADER)).map_err(|damage| damaged(damage.to_string()))?;
    let is_consistent =
        header.key_format().is_some() && header.method().is_some() && header.unused == 0 && is_zero(&page[END..]);
    if !is_consistent {
        return Err(damaged(
            "its header names a kind of database that this build does not know, or has bytes where zeros should be"
                .into(),
        ));
    }
    Ok((file_id, header))
}

pub(crate) fn found(name: &str, id: FileId, header: &FileHeader) -> Result<FoundFile> {
    let method = header.method().ok_or_else(|| {
        unsuitable(
            name,
            "its header names a kind of database that this build does not know; use the build that made the file",
        )
    })?;
    let key_format = header.key_format().ok_or_else(|| {
        unsuitable(
            name,
            "its header names an order of keys that this build does not know; use the build that made the file",
        )
    })?;
    let page_bytes = header.page_bytes.get();
    if let Method::Recno { record_bytes } = method {
        check_record_bytes(name, page_bytes, record_bytes)?;
    }
    let info = FileInfo { id, name: name.to_string(), page_bytes, pool: PoolId::DEFAULT };
    Ok(FoundFile { info, method, key_format })
}

pub(crate) fn check_record_bytes(name: &str, page_bytes: u32, record_bytes: u32) -> Result<()> {
    if Arithmetic::new(page_bytes as usize, record_bytes as usize).is_some() {
        return Ok(());
    }
    Err(unsuitable(name, format!("records of {record_bytes} bytes do not fit pages of {page_bytes}; a record has at least 1 byte, and at most 56 bytes less than a page")))
}
