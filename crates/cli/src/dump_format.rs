//! Berkeley DB's text format, as `db_dump` writes and `db_load` reads it.
//!
//! A header of `NAME=value` lines from `VERSION=3` to `HEADER=END`, then one line for each key and each value, begun by
//! a space, then `DATA=END`. Two spellings of bytes: `format=bytevalue` is hexadecimal; `format=print` shows printable
//! characters as they are, `\\` for a backslash and `\xx` in hexadecimal for the rest. A record-number database has
//! lines for values only, unless its header says `keys=1`.
//!
//! `duplicates=1` says that keys have several values, and `dupsort=1` that these are sorted. Some lines are ours alone: db_load
//! refuses what it does not know, and so cannot lose what they say. `libtp_order=NAME` names the order of the keys where it is
//! not that of their bytes; `libtp_keys=stored` says that the keys are the bytes that this order's program made of them, because who
//! wrote the dump has not got the order; `type=libtp_pages` is a file of pages, each a pair of its number and its bytes. All of it:
//! docs/formats/dump.md.

use std::io::{BufRead, Write};

use libtp::Duplicates;

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

/// What a dump's header says that matters to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of database.
    pub kind: DumpType,
    /// Whether bytes are spelled `print`.
    pub print: bool,
    /// Whether values are preceded by their keys.
    pub keys: bool,
    /// The length of fixed-length records, if it says.
    pub record_bytes: Option<usize>,
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

/// What can be wrong with a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A line is not what the format asks for.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, one-based.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
}

/// Reads a dump: the header at once, then pair after pair.
pub struct Reader<R> {
    input: R,
    header: Header,
    line: u64,
    text: Vec<u8>,
    done: bool,
    /// The number of the page that comes next.
    next_page: u64,
}

/// A record of a dump: its key, unless the dump has values only, and its value.
pub type Pair = (Option<Vec<u8>>, Vec<u8>);

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// A line that the format does not know how to read, or the end of the input.
    pub fn open(input: R) -> Result<Reader<R>, DumpError> {
        let header = Header::of(DumpType::Btree);
        let mut reader = Reader { input, header, line: 0, text: Vec::new(), done: false, next_page: 0 };
        reader.read_header()?;
        Ok(reader)
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn read_header(&mut self) -> Result<(), DumpError> {
        let (mut kind, mut keys, mut is_renumbered, mut page_bytes) = (None, None, false, None);
        let (mut has_duplicates, mut are_sorted) = (false, false);
        loop {
            self.next_line()?;
            let text = String::from_utf8_lossy(&self.text).into_owned();
            let Some((name, value)) = text.split_once('=') else {
                return Err(self.wrong(format!("`{text}` is no header line (NAME=value); is this a dump?")));
            };
            match (name, value) {
                ("HEADER", "END") => break,
                ("VERSION", "1" | "2" | "3") => {}
                ("VERSION", other) => {
                    return Err(self.wrong(format!("dump version {other} is unknown; 3 is the newest")))
                }
                ("format", "bytevalue") => self.header.print = false,
                ("format", "print") => self.header.print = true,
                ("format", other) => return Err(self.wrong(format!("format `{other}` is unknown"))),
                ("type", "btree") => kind = Some(DumpType::Btree),
                ("type", "hash") => kind = Some(DumpType::Hash),
                ("type", "recno" | "queue") => kind = Some(DumpType::Recno),
                ("type", "libtp_pages") => kind = Some(DumpType::Pages),
                ("type", other) => return Err(self.wrong(format!("databases of type `{other}` cannot be loaded"))),
                ("renumber", value) => is_renumbered = value == "1",
                ("keys", value) => keys = Some(value == "1"),
                ("re_len", value) => self.header.record_bytes = value.parse().ok(),
                ("duplicates", value) => has_duplicates = value == "1",
                ("dupsort", value) => are_sorted = value == "1",
                ("db_pagesize", value) => page_bytes = value.parse().ok(),
                ("libtp_order", name) => self.header.order = Some(self.order_name(name)?),
                ("libtp_keys", "stored") => self.header.keys_as_stored = true,
                ("libtp_keys", other) => return Err(self.wrong(format!("keys that are `{other}` are unknown"))),
                _ => {}
            }
        }
        let kind = kind.ok_or_else(|| self.wrong("the header names no type".into()))?;
        if kind != DumpType::Recno && keys == Some(false) {
            return Err(
                self.wrong(format!("it has no keys (keys=0), and records of a {} database have some", kind.name()))
            );
        }
        self.header.keys = keys.unwrap_or(kind != DumpType::Recno);
        self.header.kind = if kind == DumpType::Recno && is_renumbered { DumpType::List } else { kind };
        self.header.duplicates = match (has_duplicates, are_sorted) {
            (_, true) => Duplicates::Sorted,
            (true, false) => Duplicates::AsTheyCame,
            (false, false) => Duplicates::None,
        };
        if self.header.kind != DumpType::Btree && self.header.duplicates != Duplicates::None {
            let what = format!("keys of a {} database with several values cannot be kept", self.header.kind.name());
            return Err(self.wrong(what));
        }
        self.check_keys_as_stored()?;
        if self.header.kind == DumpType::Pages {
            self.header.page_bytes = page_bytes.filter(|bytes| PAGE_BYTES.contains(bytes));
            self.header.page_bytes.ok_or_else(|| {
                self.wrong("it does not say that its pages have 4, 8, 16, 32 or 64 KiB (db_pagesize, in bytes)".into())
            })?;
        }
        Ok(())
    }

    /// The name of an order, which is spelled as data are in `format=print`.
    fn order_name(&self, spelled: &str) -> Result<String, DumpError> {
        let bytes = from_print(spelled.as_bytes()).map_err(|what| self.wrong(what))?;
        let name = String::from_utf8(bytes).ok().filter(|name| (1..=ORDER_NAME_BYTES_MAX).contains(&name.len()));
        name.ok_or_else(|| self.wrong(format!("the name of an order has 1 to {ORDER_NAME_BYTES_MAX} bytes of UTF-8")))
    }

    fn check_keys_as_stored(&self) -> Result<(), DumpError> {
        if !self.header.keys_as_stored {
            return Ok(());
        }
        if self.header.kind != DumpType::Btree {
            let what =
                format!("keys of a {} database are in no order that they could be stored in", self.header.kind.name());
            return Err(self.wrong(what));
        }
        match self.header.order {
            Some(_) => Ok(()),
            None => {
                Err(self.wrong("its keys are as they are stored, and the header does not say in which order".into()))
            }
        }
    }

    /// The next record, or none after the last.
    ///
    /// # Errors
    /// A line that cannot be read, a key without its value, the input ending before `DATA=END`.
    pub fn next_pair(&mut self) -> Result<Option<Pair>, DumpError> {
        let Some(first) = self.next_datum()? else { return Ok(None) };
        if !self.header.keys {
            return Ok(Some((None, first)));
        }
        self.check_page_number(&first)?;
        match self.next_datum()? {
            Some(value) => {
                self.check_page(&value)?;
                Ok(Some((Some(first), value)))
            }
            None => Err(self.wrong("a key without a value before DATA=END".into())),
        }
    }

    /// Of pages each comes behind the one before it: where one is missing, all behind it would get another's place.
    fn check_page_number(&mut self, number: &[u8]) -> Result<(), DumpError> {
        if self.header.kind != DumpType::Pages {
            return Ok(());
        }
        let next = self.next_page.to_string();
        if number != next.as_bytes() {
            let number = String::from_utf8_lossy(number).escape_debug().to_string();
            return Err(self.wrong(format!("page {next} is missing: `{number}` stands where its number is to be")));
        }
        self.next_page += 1;
        Ok(())
    }

    /// A page is whole, or nothing is said of it and it is zeros.
    fn check_page(&self, bytes: &[u8]) -> Result<(), DumpError> {
        let whole = self.header.bytes_of_a_page();
        if self.header.kind != DumpType::Pages || [0, whole].contains(&bytes.len()) {
            return Ok(());
        }
        let what = format!("a page has {whole} bytes, or none where it is zeros, and this one has {}", bytes.len());
        Err(self.wrong(what))
    }

    /// Whether the input goes on after the last record: a second dump follows, which [`Reader::next_pair`] does not read.
    ///
    /// # Errors
    /// The input's.
    pub fn has_more(&mut self) -> Result<bool, DumpError> {
        Ok(!self.input.fill_buf()?.is_empty())
    }

    fn next_datum(&mut self) -> Result<Option<Vec<u8>>, DumpError> {
        if self.done {
            return Ok(None);
        }
        self.next_line()?;
        if self.text == b"DATA=END" {
            self.done = true;
            return Ok(None);
        }
        let Some(spelled) = self.text.strip_prefix(b" ") else {
            return Err(self.wrong("a data line begins with a space".into()));
        };
        let bytes = if self.header.print { from_print(spelled) } else { from_hexadecimal(spelled) };
        bytes.map(Some).map_err(|what| self.wrong(what))
    }

    fn next_line(&mut self) -> Result<(), DumpError> {
        self.text.clear();
        self.line += 1;
        if self.input.read_until(b'\n', &mut self.text)? == 0 {
            return Err(self.wrong("the dump ends here, before DATA=END".into()));
        }
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> DumpError {
        DumpError::Line { line: self.line, what }
    }
}

fn from_hexadecimal(spelled: &[u8]) -> Result<Vec<u8>, String> {
    if spelled.len() % 2 != 0 {
        return Err("an odd number of hexadecimal digits".into());
    }
    spelled.chunks_exact(2).map(|pair| byte_of(pair[0], pair[1])).collect()
}

fn from_print(spelled: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(spelled.len());
    let mut rest = spelled;
    while let Some((&letter, after)) = rest.split_first() {
        rest = after;
        if letter != b'\\' {
            bytes.push(letter);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [high, low, after @ ..] => {
                bytes.push(byte_of(*high, *low)?);
                rest = after;
            }
            _ => return Err("a backslash at the end of a line".into()),
        }
    }
    Ok(bytes)
}

/// As data are spelled in `format=print`.
fn to_print(bytes: &[u8]) -> String {
    let mut spelled = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => spelled.push_str("\\\\"),
            b' '..=b'~' => spelled.push(char::from(byte)),
            other => spelled.push_str(&format!("\\{other:02x}")),
        }
    }
    spelled
}

fn byte_of(high: u8, low: u8) -> Result<u8, String> {
    Ok(digit_of(high)? << 4 | digit_of(low)?)
}

fn digit_of(letter: u8) -> Result<u8, String> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        b'A'..=b'F' => Ok(letter - b'A' + 10),
        other => Err(format!("`{}` is no hexadecimal digit", char::from(other))),
    }
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

/// Writes a key or a value.
///
/// # Errors
/// The output's.
pub fn write_datum(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = Vec::with_capacity(2 * bytes.len() + 2);
    line.push(b' ');
    for byte in bytes {
        line.push(DIGITS[usize::from(byte >> 4)]);
        line.push(DIGITS[usize::from(byte & 15)]);
    }
    line.push(b'\n');
    out.write_all(&line)
}

/// Writes the last line.
///
/// # Errors
/// The output's.
pub fn write_end(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "DATA=END")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Pair>, DumpError> {
        let mut reader = Reader::open(text.as_bytes())?;
        let mut pairs = Vec::new();
        while let Some(pair) = reader.next_pair()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }

    #[test]
    fn both_spellings_read_as_the_same_bytes() {
        let bytevalue =
            "VERSION=3\nformat=bytevalue\ntype=btree\ndb_pagesize=4096\nHEADER=END\n 6b5c\n 0001ff\nDATA=END\n";
        let print = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n k\\\\\n \\00\\01\\ff\nDATA=END\n";
        let expected = vec![(Some(b"k\\".to_vec()), vec![0, 1, 255])];
        assert_eq!(read(bytevalue).unwrap(), expected);
        assert_eq!(read(print).unwrap(), expected);
    }

    #[test]
    fn record_numbers_are_left_out_unless_the_header_says_keys() {
        let without = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n one\n two\nDATA=END\n";
        assert_eq!(read(without).unwrap(), vec![(None, b"one".to_vec()), (None, b"two".to_vec())]);
        let with = "VERSION=3\nformat=print\ntype=recno\nkeys=1\nHEADER=END\n 1\n one\nDATA=END\n";
        assert_eq!(read(with).unwrap(), vec![(Some(b"1".to_vec()), b"one".to_vec())]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut out = Vec::new();
        write_header(&mut out, &Header::of(DumpType::Btree)).unwrap();
        for datum in [&b""[..], b"\n \\", &[0, 128, 255]] {
            write_datum(&mut out, datum).unwrap();
            write_datum(&mut out, b"v").unwrap();
        }
        write_end(&mut out).unwrap();
        let pairs = read(std::str::from_utf8(&out).unwrap()).unwrap();
        let keys: Vec<Vec<u8>> = pairs.into_iter().filter_map(|pair| pair.0).collect();
        assert_eq!(keys, vec![b"".to_vec(), b"\n \\".to_vec(), vec![0, 128, 255]]);
    }

    /// Whatever a program calls its order: a line is not ended by it.
    #[test]
    fn the_name_of_an_order_reads_back() {
        for name in ["u64", "a\nHEADER=END", "\\ = \r", "größer"] {
            let order = Some(name.to_string());
            let header = Header { order, keys_as_stored: true, ..Header::of(DumpType::Btree) };
            let mut out = Vec::new();
            write_header(&mut out, &header).unwrap();
            assert_eq!(Reader::open(&*out).unwrap().header(), &header);
        }
    }

    #[test]
    fn a_broken_dump_names_its_line() {
        let header = "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n";
        let ordered = "VERSION=3\ntype=btree\n";
        let pages = "type=libtp_pages\ndb_pagesize=4096\nHEADER=END\n";
        for (text, part) in [
            ("hello\n".to_string(), "line 1"),
            (format!("{header} 6\n"), "odd number"),
            (format!("{header} zz\n"), "no hexadecimal digit"),
            (format!("{header}61\n"), "begins with a space"),
            (format!("{header} 61\nDATA=END\n"), "a key without a value"),
            (format!("{header} 61\n"), "before DATA=END"),
            ("VERSION=9\n".to_string(), "version 9"),
            ("VERSION=3\ntype=heap\n".to_string(), "`heap`"),
            (format!("{ordered}libtp_keys=stored\nHEADER=END\n"), "in which order"),
            (format!("{ordered}libtp_keys=somehow\n"), "line 3: keys that are `somehow`"),
            (format!("{ordered}libtp_order=\n"), "line 3: the name of an order"),
            (format!("{ordered}libtp_order=\\ff\n"), "line 3: the name of an order"),
            ("type=hash\nlibtp_order=u\nlibtp_keys=stored\nHEADER=END\n".to_string(), "no order"),
            ("type=libtp_pages\nHEADER=END\n".to_string(), "line 2: it does not say that its pages"),
            ("type=libtp_pages\ndb_pagesize=512\nHEADER=END\n".to_string(), "db_pagesize"),
            ("type=libtp_pages\nkeys=0\ndb_pagesize=4096\nHEADER=END\n".to_string(), "no keys"),
            (format!("{pages} 31\n \n"), "line 4: page 0 is missing: `1` stands"),
            (format!("{pages} 30\n \n 30\n \n"), "line 6: page 1 is missing: `0` stands"),
            (format!("{pages} 30\n 00\n"), "line 5: a page has 4064 bytes, or none"),
            (format!("{pages} 30\nDATA=END\n"), "a key without a value"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
