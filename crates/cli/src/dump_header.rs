//! The header of a dump: which database it is of.
//!
//! Every line is either understood, or of those that change no record, or refused: a line that is passed over may be the one that says
//! how keys are compared. All of them: docs/formats/dump.md.

use std::io::Write;

use libtp::Duplicates;

use crate::dump_format::{from_print, to_print};

/// What kind of database a dump is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpType {
    /// Pairs in the order of their keys.
    Btree,
    /// Pairs in no order.
    Hash,
    /// Values of one length by number.
    Recno,
    /// Values of any length by number, which are renumbered.
    List,
    /// Pages by number, whose bytes are a program's.
    Pages,
}

impl DumpType {
    /// Its name for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DumpType::Btree => "btree",
            DumpType::Hash => "hash",
            DumpType::Recno => "recno",
            DumpType::List => "list",
            DumpType::Pages => "pages",
        }
    }

    /// Whether its records have numbers for keys.
    pub fn is_numbered(self) -> bool {
        matches!(self, DumpType::Recno | DumpType::List)
    }

    /// What a header says of it.
    fn header(self) -> &'static str {
        match self {
            DumpType::Btree => "type=btree",
            DumpType::Hash => "type=hash",
            DumpType::Recno => "type=recno",
            DumpType::List => "type=recno\nrenumber=1",
            DumpType::Pages => "type=libtp_pages",
        }
    }
}

/// What pages begin with in their file, before what is the program's.
pub const PAGE_HEADER_BYTES: u32 = 32;
/// How long pages can be.
const PAGE_BYTES: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// How long the name of an order can be.
const ORDER_NAME_BYTES_MAX: usize = 64;
/// How long records by number can be that have one length.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// What a dump's header says that matters to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of database.
    pub kind: DumpType,
    /// Whether bytes are spelled `print`.
    pub print: bool,
    /// Whether values are preceded by their keys.
    pub keys: bool,
    /// The length of all records by number, if they have one.
    pub record_bytes: Option<usize>,
    /// What fills up records by number that are shorter, if they may be.
    pub pad: Option<u8>,
    /// Whether a key may have several values.
    pub duplicates: Duplicates,
    /// The order of the keys, if it is not that of their bytes.
    pub order: Option<String>,
    /// Whether keys are the bytes that stand for them in that order.
    pub keys_as_stored: bool,
    /// How long pages are in the file, if it is one of pages.
    pub page_bytes: Option<u32>,
}

impl Header {
    /// Of a database of that kind, with one value a key and in the order of bytes.
    pub fn of(kind: DumpType) -> Header {
        Header {
            kind,
            print: false,
            keys: !kind.is_numbered(),
            record_bytes: None,
            pad: None,
            duplicates: Duplicates::None,
            order: None,
            keys_as_stored: false,
            page_bytes: None,
        }
    }

    /// The bytes of a page that are the program's.
    pub fn bytes_of_a_page(&self) -> usize {
        self.page_bytes.map_or(0, |bytes| bytes.saturating_sub(PAGE_HEADER_BYTES) as usize)
    }
}

/// LMDB's orders of keys: native integers, and bytes from the last one to the first. Both are that of the bytes backwards.
const BACKWARDS: &str = "little-endian";

/// The lines of a header, as they come.
#[derive(Default)]
pub struct HeaderLines {
    kind: Option<DumpType>,
    is_queue: bool,
    is_renumbered: bool,
    print: bool,
    keys: Option<bool>,
    record_bytes: Option<usize>,
    pad: Option<u8>,
    has_duplicates: bool,
    are_sorted: bool,
    page_bytes: Option<u32>,
    order: Option<String>,
    keys_as_stored: bool,
}

impl HeaderLines {
    /// Takes a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("VERSION", "1" | "2" | "3") => {}
            ("VERSION", other) => return Err(format!("dump version {other} is unknown; 3 is the newest")),
            ("format", "bytevalue") => self.print = false,
            ("format", "print") => self.print = true,
            ("format", other) => return Err(format!("format `{other}` is unknown")),
            ("type", "btree") => self.kind = Some(DumpType::Btree),
            ("type", "hash") => self.kind = Some(DumpType::Hash),
            ("type", kind @ ("recno" | "queue")) => {
                self.kind = Some(DumpType::Recno);
                self.is_queue = kind == "queue";
            }
            ("type", "libtp_pages") => self.kind = Some(DumpType::Pages),
            ("type", other) => {
                return Err(format!(
                    "databases of type `{other}` cannot be loaded, but btree, hash, recno and queue can"
                ))
            }
            ("renumber", value) => self.is_renumbered = value == "1",
            ("keys", value) => self.keys = Some(value == "1"),
            ("re_len", value) => {
                let bytes = value.parse().ok().filter(|&bytes| bytes <= RECORD_BYTES_MAX);
                self.record_bytes = Some(bytes.ok_or_else(|| {
                    format!("`{value}` is no length of records that can be loaded: they have {RECORD_BYTES_MAX} bytes at most")
                })?);
            }
            ("re_pad", value) => self.pad = Some(pad_of(value)?),
            ("duplicates", value) => self.has_duplicates = value == "1",
            ("dupsort", value) => self.are_sorted = value == "1",
            ("db_pagesize", value) => self.page_bytes = value.parse().ok(),
            ("libtp_order", name) => self.order = Some(order_name(name)?),
            ("libtp_keys", "stored") => self.keys_as_stored = true,
            ("libtp_keys", other) => return Err(format!("keys that are `{other}` are unknown")),
            _ => return self.take_foreign(name, value),
        }
        Ok(())
    }

    /// Takes a line that only Berkeley DB or LMDB writes: most say how the records lie in its file, which changes no record.
    fn take_foreign(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("integerkey" | "reversekey" | "integerdup" | "reversedup", "0") => {}
            ("integerkey" | "reversekey", "1") => self.order = Some(BACKWARDS.to_string()),
            ("integerdup" | "reversedup", _) => {
                return Err(format!(
                    "with `{name}` LMDB sorts the values of a key by their last bytes first, and no database here does. Take the line \
                     out of the dump to load the values sorted by their first bytes first"
                ));
            }
            (
                "database" | "subdatabase" | "mapsize" | "mapaddr" | "maxreaders" | "dupfixed" | "bt_minkey"
                | "bt_maxkey" | "h_ffactor" | "h_nelem" | "chksum" | "db_lorder" | "extentsize" | "recnum"
                | "compressed" | "nparts",
                _,
            ) => {}
            _ => {
                return Err(format!(
                    "the header line `{name}` is unknown, and what it says would be lost. Take the line out of the dump to load it all \
                     the same"
                ));
            }
        }
        Ok(())
    }

    /// The header that these lines are; records by number are so long, if that is known.
    ///
    /// # Errors
    /// What is missing, or contradicts itself.
    pub fn header(self, record_bytes: Option<usize>) -> Result<Header, String> {
        let kind = self.kind.ok_or("the header names no type")?;
        if kind != DumpType::Recno && self.keys == Some(false) {
            return Err(format!("it has no keys (keys=0), and records of a {} database have some", kind.name()));
        }
        // Berkeley DB fills up with spaces, if nobody says something else.
        let pad = self.record_bytes.map(|_| self.pad.unwrap_or(b' '));
        let record_bytes = record_bytes.or(self.record_bytes).filter(|_| kind == DumpType::Recno);
        let kind = match record_bytes {
            None if self.is_queue => {
                return Err(
                    "it does not say how long the records of the queue are (re_len); give --record-bytes".into()
                );
            }
            // Records of any length, in Berkeley DB's words: only a list has them.
            None if kind == DumpType::Recno => DumpType::List,
            Some(_) if self.is_renumbered => DumpType::List,
            _ => kind,
        };
        let duplicates = match (self.has_duplicates, self.are_sorted) {
            (_, true) => Duplicates::Sorted,
            (true, false) => Duplicates::AsTheyCame,
            (false, false) => Duplicates::None,
        };
        if !matches!(kind, DumpType::Btree | DumpType::Hash) && duplicates != Duplicates::None {
            return Err(format!("keys of a {} database with several values cannot be kept", kind.name()));
        }
        let header = Header {
            kind,
            print: self.print,
            keys: self.keys.unwrap_or(!kind.is_numbered()),
            record_bytes,
            pad,
            duplicates,
            order: self.order,
            keys_as_stored: self.keys_as_stored,
            page_bytes: self.page_bytes.filter(|bytes| kind == DumpType::Pages && PAGE_BYTES.contains(bytes)),
        };
        header.check()?;
        Ok(header)
    }
}

impl Header {
    fn check(&self) -> Result<(), String> {
        if self.order.is_some() && self.kind != DumpType::Btree {
            return Err(format!("keys of a {} database are in no order", self.kind.name()));
        }
        if self.keys_as_stored && self.kind != DumpType::Btree {
            return Err(format!(
                "keys of a {} database are in no order that they could be stored in",
                self.kind.name()
            ));
        }
        if self.keys_as_stored && self.order.is_none() {
            return Err("its keys are as they are stored, and the header does not say in which order".into());
        }
        if self.kind == DumpType::Pages && self.page_bytes.is_none() {
            return Err("it does not say that its pages have 4, 8, 16, 32 or 64 KiB (db_pagesize, in bytes)".into());
        }
        Ok(())
    }
}

/// The byte that short records are filled up with: as `db_dump` writes it, or as `db_load` takes it.
fn pad_of(spelled: &str) -> Result<u8, String> {
    let hexadecimal = spelled.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match (hexadecimal, spelled.as_bytes()) {
        (Some(pad), _) => Ok(pad),
        (None, &[pad]) => Ok(pad),
        _ => Err(format!(
            "`{spelled}` is no byte that could fill up records: write one character, or 0x and its hexadecimal digits"
        )),
    }
}

/// The name of an order, which is spelled as data are in `format=print`.
fn order_name(spelled: &str) -> Result<String, String> {
    let name = String::from_utf8(from_print(spelled.as_bytes())?).ok();
    let name = name.filter(|name| (1..=ORDER_NAME_BYTES_MAX).contains(&name.len()));
    name.ok_or_else(|| format!("the name of an order has 1 to {ORDER_NAME_BYTES_MAX} bytes of UTF-8"))
}

/// Writes a dump's header as `db_load` reads it.
///
/// # Errors
/// The output's.
pub fn write_header(out: &mut impl Write, header: &Header) -> std::io::Result<()> {
    writeln!(out, "VERSION=3\nformat=bytevalue\n{}", header.kind.header())?;
    match header.duplicates {
        Duplicates::None => {}
        Duplicates::Sorted => writeln!(out, "duplicates=1\ndupsort=1")?,
        Duplicates::AsTheyCame => writeln!(out, "duplicates=1")?,
    }
    if header.keys && header.kind.is_numbered() {
        writeln!(out, "keys=1")?;
    }
    if let Some(bytes) = header.record_bytes {
        writeln!(out, "re_len={bytes}")?;
    }
    if let Some(bytes) = header.page_bytes {
        writeln!(out, "db_pagesize={bytes}")?;
    }
    if let Some(order) = &header.order {
        writeln!(out, "libtp_order={}", to_print(order.as_bytes()))?;
    }
    if header.keys_as_stored {
        writeln!(out, "libtp_keys=stored")?;
    }
    writeln!(out, "HEADER=END")
}
