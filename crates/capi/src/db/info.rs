//! The info argument of `dbopen`: `BTREEINFO`, `HASHINFO`, `RECNOINFO`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::path::{Path, PathBuf};

use crate::arguments::Text;
use crate::db::dbt::Dbt;
use crate::db::flags::{R_DUP, R_FIXEDLEN, R_NOKEY, R_SNAPSHOT};
use crate::db::numbered::Length;
use crate::db::refusal::{Answer, Refusal};
use crate::db::rule::{Compare, HashFunction};

/// `BTREEINFO`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BtreeInfo {
    flags: c_ulong,
    cachesize: c_uint,
    maxkeypage: c_int,
    minkeypage: c_int,
    psize: c_uint,
    compare: Option<Compare>,
    prefix: Option<extern "C" fn(*const Dbt, *const Dbt) -> usize>,
    lorder: c_int,
}

/// `HASHINFO`.
#[repr(C)]
#[derive(Clone, Copy)]
struct HashInfo {
    bsize: c_uint,
    ffactor: c_uint,
    nelem: c_uint,
    cachesize: c_uint,
    hash: Option<HashFunction>,
    lorder: c_int,
}

/// `RECNOINFO`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RecnoInfo {
    flags: c_ulong,
    cachesize: c_uint,
    psize: c_uint,
    lorder: c_int,
    reclen: usize,
    bval: u8,
    bfname: Text,
}

/// The members of `openinfo` that the library uses. The library decides about cache sizes, page fill and common
/// prefixes of keys itself.
#[derive(Clone)]
pub(crate) enum FileInfo {
    Pairs(PairsInfo),
    Recno(RecordsInfo),
}

/// The info structure of a DB_BTREE or a DB_HASH.
#[derive(Clone)]
pub(crate) enum PairsInfo {
    Btree { has_duplicates: bool, compare: Option<Compare>, page_bytes: u64 },
    Hash { hash: Option<HashFunction>, page_bytes: u64 },
}

/// The info structure of a DB_RECNO.
#[derive(Clone)]
pub(crate) struct RecordsInfo {
    pub(crate) length: Length,
    /// The byte that ends a record of variable length.
    pub(crate) end: u8,
    pub(crate) is_without_keys: bool,
    /// `bfname`: a second file that has the records.
    pub(crate) kept_in: Option<PathBuf>,
}

/// `openinfo`.
#[repr(transparent)]
pub struct Info(*const c_void);

const DB_BTREE: c_uint = 0;
const DB_HASH: c_uint = 1;
const DB_RECNO: c_uint = 2;
const LITTLE_ENDIAN: c_int = 1234;
const BIG_ENDIAN: c_int = 4321;
const PAGE_BYTES_MIN: c_uint = 512;
const PAGE_BYTES_MAX: c_uint = 65536;

fn check_order(lorder: c_int) -> Answer<()> {
    match lorder {
        0 | LITTLE_ENDIAN | BIG_ENDIAN => Ok(()),
        other => Err(Refusal::invalid(format!("lorder is 0, 1234 or 4321, and {other} was given"))),
    }
}

fn check_flags(flags: c_ulong, known: u64) -> Answer<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Refusal::invalid(format!("the flags have bits that mean nothing: {unknown:#x}"))),
    }
}

fn check_page(bytes: c_uint) -> Answer<()> {
    match bytes {
        0 => Ok(()),
        even if even % 2 == 0 && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&even) => Ok(()),
        other => Err(Refusal::invalid(format!("a page has 512 to 65536 bytes, an even number, and psize is {other}"))),
    }
}

impl Info {
    /// Returns the structure that `openinfo` points to, or `None` for NULL.
    ///
    /// # Safety
    /// The pointer is NULL or the address of a `T`.
    unsafe fn read<T: Copy>(&self) -> Option<T> {
        // SAFETY: the caller promises that the pointer is NULL or the address of a `T`.
        unsafe { self.0.cast::<T>().as_ref() }.copied()
    }

    pub(crate) fn parse(&self, kind: c_uint) -> Answer<FileInfo> {
        match kind {
            // SAFETY: C promises that `openinfo` is NULL or points to the structure of the requested type.
            DB_BTREE => btree(unsafe { self.read() }).map(FileInfo::Pairs),
            // SAFETY: as above.
            DB_HASH => hash(unsafe { self.read() }).map(FileInfo::Pairs),
            // SAFETY: as above.
            DB_RECNO => recno(unsafe { self.read() }).map(FileInfo::Recno),
            other => {
                Err(Refusal::invalid(format!("{other} is not a type of file: give DB_BTREE, DB_HASH or DB_RECNO")))
            }
        }
    }
}

fn btree(info: Option<BtreeInfo>) -> Answer<PairsInfo> {
    let Some(info) = info else {
        return Ok(PairsInfo::Btree { has_duplicates: false, compare: None, page_bytes: 0 });
    };
    check_flags(info.flags, R_DUP)?;
    check_order(info.lorder)?;
    check_page(info.psize)?;
    if info.minkeypage != 0 && info.minkeypage < 2 {
        return Err(Refusal::invalid(format!("minkeypage is 2 or more, and {} was given", info.minkeypage)));
    }
    Ok(PairsInfo::Btree {
        has_duplicates: info.flags & R_DUP != 0,
        compare: info.compare,
        page_bytes: info.psize.into(),
    })
}

fn hash(info: Option<HashInfo>) -> Answer<PairsInfo> {
    let Some(info) = info else { return Ok(PairsInfo::Hash { hash: None, page_bytes: 0 }) };
    check_order(info.lorder)?;
    if info.bsize > PAGE_BYTES_MAX {
        return Err(Refusal::invalid(format!("bsize is at most 65536, and {} was given", info.bsize)));
    }
    Ok(PairsInfo::Hash { hash: info.hash, page_bytes: info.bsize.into() })
}

fn recno(info: Option<RecnoInfo>) -> Answer<RecordsInfo> {
    let Some(info) = info else {
        let lines = RecordsInfo { length: Length::Variable, end: b'\n', is_without_keys: false, kept_in: None };
        return Ok(lines);
    };
    check_flags(info.flags, R_FIXEDLEN | R_NOKEY | R_SNAPSHOT)?;
    check_order(info.lorder)?;
    check_page(info.psize)?;
    let length = match (info.flags & R_FIXEDLEN != 0, info.reclen) {
        (false, _) => Length::Variable,
        (true, 0) => return Err(Refusal::invalid("R_FIXEDLEN was given, and reclen is 0")),
        (true, bytes) => Length::Fixed(bytes, info.bval),
    };
    let kept_in = info.bfname.optional_path().map(Path::to_path_buf);
    Ok(RecordsInfo { length, end: info.bval, is_without_keys: info.flags & R_NOKEY != 0, kept_in })
}
