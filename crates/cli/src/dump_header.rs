//! The header of a dump, which describes the dump's database.
//!
//! Every line is either understood, or known to change no record, or refused. An unknown line is not ignored, because
//! it could state how keys are compared. docs/formats/dump.md lists all lines.

use std::io::Write;

use libtp::Duplicates;

use crate::dump_spelling::{from_print, to_print};

/// The kind of a dump's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpType {
    /// Pairs in the order of their keys.
    Btree,
    /// Pairs in no order.
    Hash,
    /// Numbered values, all of one length.
    Recno,
    /// Numbered values of any length. Insertions and deletions renumber them.
    List,
    /// Numbered pages, whose contents belong to a program.
    Pages,
}

impl DumpType {
    /// Returns the type's name in text and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DumpType::Btree => "btree",
            DumpType::Hash => "hash",
            DumpType::Recno => "recno",
            DumpType::List => "list",
            DumpType::Pages => "pages",
        }
    }

    /// Returns whether the keys of the records are numbers.
    pub fn is_numbered(self) -> bool {
        matches!(self, DumpType::Recno | DumpType::List)
    }

    /// Returns the type's lines in a header.
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

/// Bytes of a page's header in its file, before the program's bytes.
pub const PAGE_HEADER_BYTES: u32 = 32;
/// Possible sizes of pages.
const PAGE_BYTES: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Length of the longest name of an order.
const ORDER_NAME_BYTES_MAX: usize = 64;
/// Largest record length of a record-number database.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// The parts of a dump's header that affect records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of database.
    pub kind: DumpType,
    /// Whether bytes are spelled as in `format=print`.
    pub print: bool,
    /// Whether values are preceded by their keys.
    pub keys: bool,
    /// The record length of a record-number database, if all records have the same length.
    pub record_bytes: Option<usize>,
    /// The filler byte of shorter records of a record-number database; `None` if shorter records are refused.
    pub pad: Option<u8>,
    /// Whether a key may have several values.
    pub duplicates: Duplicates,
    /// The order of the keys, if it is not the order of their bytes.
    pub order: Option<String>,
    /// Whether keys are written as their order encodes and stores them.
    pub keys_as_stored: bool,
    /// Size of pages in the file, for a file of pages.
    pub page_bytes: Option<u32>,
}

impl Header {
    /// Returns the header of a database of this kind, with one value per key, in the order of the keys' bytes.
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

    /// Returns the number of bytes in a page that belong to the program.
    pub fn bytes_of_a_page(&self) -> usize {
        self.page_bytes.map_or(0, |bytes| bytes.saturating_sub(PAGE_HEADER_BYTES) as usize)
    }
}

/// The order for two options of LMDB: keys that are native integers (`integerkey`), and keys that are compared from the
/// last byte to the first (`reversekey`). Both options compare the bytes from the end.
const BACKWARDS: &str = "little-endian";

/// The header lines that were read so far.
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
    /// A message about the fault of the line.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("VERSION", "1" | "2" | "3") => {}
            ("VERSION", other) => {
                return Err(format!(
                    "this build does not know dump version {other}; the newest version that it reads is 3"
                ))
            }
            ("format", "bytevalue") => self.print = false,
            ("format", "print") => self.print = true,
            ("format", other) => return Err(format!("the format `{other}` is unknown; write bytevalue or print")),
            ("type", "btree") => self.kind = Some(DumpType::Btree),
            ("type", "hash") => self.kind = Some(DumpType::Hash),
            ("type", kind @ ("recno" | "queue")) => {
                self.kind = Some(DumpType::Recno);
                self.is_queue = kind == "queue";
            }
            ("type", "libtp_pages") => self.kind = Some(DumpType::Pages),
            ("type", other) => {
                return Err(format!(
                    "databases of type `{other}` cannot be loaded; the known types are btree, hash, recno and queue"
                ))
            }
            ("renumber", value) => self.is_renumbered = value == "1",
            ("keys", value) => self.keys = Some(value == "1"),
            ("re_len", value) => {
                let bytes = value.parse().ok().filter(|&bytes| bytes <= RECORD_BYTES_MAX);
                self.record_bytes = Some(bytes.ok_or_else(|| {
                    format!("`{value}` is not a length of records that can be loaded: a record has at most {RECORD_BYTES_MAX} bytes")
                })?);
            }
            ("re_pad", value) => self.pad = Some(pad_of(value)?),
            ("duplicates", value) => self.has_duplicates = value == "1",
            ("dupsort", value) => self.are_sorted = value == "1",
            ("db_pagesize", value) => self.page_bytes = value.parse().ok(),
            ("libtp_order", name) => self.order = Some(order_name(name)?),
            ("libtp_keys", "stored") => self.keys_as_stored = true,
            ("libtp_keys", other) => {
                return Err(format!("libtp_keys is `{other}`, and the only known value is `stored`"))
            }
            _ => return self.take_foreign(name, value),
        }
        Ok(())
    }

    /// Takes a line that only Berkeley DB or LMDB writes. Most of these lines describe the layout of that library's
    /// file, which changes no record.
    fn take_foreign(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("integerkey" | "reversekey" | "integerdup" | "reversedup", "0") => {}
            ("integerkey" | "reversekey", "1") => self.order = Some(BACKWARDS.to_string()),
            ("integerdup" | "reversedup", _) => {
                return Err(format!(
                    "with `{name}` LMDB compares the values of a key from their last byte to their first, and no database of libtp has that order. Remove the line from the dump to load the values in the order from their first byte to their last"
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
                    "the header line `{name}` is unknown, and its setting would be lost. Remove the line from the dump to load the dump without the setting"
                ));
            }
        }
        Ok(())
    }

    /// Returns the header that the lines describe. `record_bytes` overrides the record length of a record-number
    /// database.
    ///
    /// # Errors
    /// A message about a missing line or a contradiction.
    pub fn header(self, record_bytes: Option<usize>) -> Result<Header, String> {
        let kind = self.kind.ok_or("the header names no type; add a line such as type=btree")?;
        if kind != DumpType::Recno && self.keys == Some(false) {
            return Err(format!(
                "the dump has no keys (keys=0), and the records of a {} database have keys",
                kind.name()
            ));
        }
        // Berkeley DB fills up with spaces by default.
        let pad = self.record_bytes.map(|_| self.pad.unwrap_or(b' '));
        let record_bytes = record_bytes.or(self.record_bytes).filter(|_| kind == DumpType::Recno);
        let kind = match record_bytes {
            None if self.is_queue => {
                return Err(
                    "the header does not give the length of the queue's records (re_len); give it with --record-bytes"
                        .into(),
                );
            }
            // Without a length, the records of a recno dump may have any length: only a list can store them.
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
            return Err(format!(
                "the keys of the dump have several values (duplicates=1), and a key of a {} database has one value",
                kind.name()
            ));
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
            return Err(format!(
                "the header names an order of keys (libtp_order), and a {} database has no order of keys",
                self.kind.name()
            ));
        }
        if self.keys_as_stored && self.kind != DumpType::Btree {
            return Err(format!(
                "the dump has keys in their stored form (libtp_keys=stored), and a {} database has no order of keys",
                self.kind.name()
            ));
        }
        if self.keys_as_stored && self.order.is_none() {
            return Err("the dump has keys in their stored form (libtp_keys=stored), and the header does not name the order (libtp_order)".into());
        }
        if self.kind == DumpType::Pages && self.page_bytes.is_none() {
            return Err(
                "the header does not give the size of the pages: 4, 8, 16, 32 or 64 KiB (db_pagesize, in bytes)".into(),
            );
        }
        Ok(())
    }
}

/// Parses the filler byte of short records, in the form that `db_dump` writes or in the form that `db_load` takes.
fn pad_of(spelled: &str) -> Result<u8, String> {
    let hexadecimal = spelled.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match (hexadecimal, spelled.as_bytes()) {
        (Some(pad), _) => Ok(pad),
        (None, &[pad]) => Ok(pad),
        _ => Err(format!(
            "`{spelled}` is not a byte that fills up short records: write one character, or 0x and two hexadecimal digits"
        )),
    }
}

/// Parses the name of an order. The name is spelled like the data in `format=print`.
fn order_name(spelled: &str) -> Result<String, String> {
    let name = String::from_utf8(from_print(spelled.as_bytes())?).ok();
    let name = name.filter(|name| (1..=ORDER_NAME_BYTES_MAX).contains(&name.len()));
    name.ok_or_else(|| format!("the name of an order has 1 to {ORDER_NAME_BYTES_MAX} bytes of UTF-8"))
}

/// Writes a dump's header as `db_load` reads it.
///
/// # Errors
/// An error of the output.
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
