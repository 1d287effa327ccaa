//! Berkeley DB's text format, as `db_dump` writes and `db_load` reads it.
//!
//! A dump is a header of `NAME=value` lines from `VERSION=3` to `HEADER=END`, then one line for each key and each
//! value, which begins with a space, then `DATA=END`. There are two spellings of bytes. `format=bytevalue` is
//! hexadecimal. `format=print` shows printable characters as they are, `\\` for a backslash, and `\xx` in hexadecimal
//! for all other bytes. A record-number database has lines for values only, unless its header has `keys=1`.
//!
//! `duplicates=1` states that keys have several values, and `dupsort=1` that these are sorted. Some lines exist only in
//! this library's dumps. db_load refuses unknown lines, so it cannot misunderstand them. `libtp_order=NAME` names the
//! order of the keys, if it is not the order of their bytes. `libtp_keys=stored` states that the keys are written in
//! the encoded form in which the database stores them: the program that wrote the dump does not have the order, so it
//! could not decode the keys. `type=libtp_pages` is a file of pages; each pair is the number of a page and the page's
//! bytes. docs/formats/dump.md has all details.

use std::io::{BufRead, Read, Write};

use crate::dump_header::{DumpType, Header, HeaderLines};
use crate::dump_spelling::from_print;
use crate::hexadecimal::from_hex;
use crate::room::make_room;

/// The number of bytes of a line that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A fault of a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A line does not follow the format.
    #[error("line {line}: {what}")]
    Line {
        /// The line's number, from 1.
        line: u64,
        /// The fault of the line.
        what: String,
    },
}

/// Reads a dump: first the header, then the pairs, one after another.
pub struct Reader<R> {
    input: R,
    header: Header,
    line: u64,
    text: Vec<u8>,
    done: bool,
    /// The record length of a record-number database, if the caller has given a length.
    record_bytes: Option<usize>,
    /// Whether lines may end with a carriage return before the newline: true if the first line does.
    has_returns: bool,
    /// The number that the next page must have.
    next_page: u64,
}

/// A record of a dump: its key, unless the dump has values only, and its value.
pub type Pair = (Option<Vec<u8>>, Vec<u8>);

impl<R: BufRead> Reader<R> {
    /// Reads the header. `record_bytes` overrides the header's record length of a record-number database.
    ///
    /// # Errors
    /// A line that is not part of the format, or the end of the input.
    pub fn open(input: R, record_bytes: Option<usize>) -> Result<Reader<R>, DumpError> {
        let header = Header::of(DumpType::Btree);
        let (line, text, done, has_returns, next_page) = (0, Vec::new(), false, false, 0);
        let mut reader = Reader { input, header, line, text, done, record_bytes, has_returns, next_page };
        reader.read_header()?;
        Ok(reader)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn read_header(&mut self) -> Result<(), DumpError> {
        let mut lines = HeaderLines::default();
        loop {
            self.next_line()?;
            let text = String::from_utf8_lossy(&self.text).into_owned();
            let Some((name, value)) = text.split_once('=') else {
                return Err(
                    self.wrong(format!("`{text}` is not a header line (NAME=value); check that the input is a dump"))
                );
            };
            if (name, value) == ("HEADER", "END") {
                break;
            }
            lines.take(name, value).map_err(|what| self.wrong(what))?;
        }
        self.header = lines.header(self.record_bytes).map_err(|what| self.wrong(what))?;
        Ok(())
    }

    /// Returns the next record; `None` after the last.
    ///
    /// # Errors
    /// A line that cannot be read, a key without its value, or an input that ends before `DATA=END`.
    pub fn next_pair(&mut self) -> Result<Option<Pair>, DumpError> {
        let Some(first) = self.next_datum()? else { return Ok(None) };
        if !self.header.keys {
            return Ok(Some((None, self.padded(first)?)));
        }
        self.check_page_number(&first)?;
        match self.next_datum()? {
            Some(value) => {
                self.check_page(&value)?;
                Ok(Some((Some(first), self.padded(value)?)))
            }
            None => Err(self.wrong("the last key before DATA=END has no value, so the dump is incomplete".into())),
        }
    }

    /// Brings a record of a record-number database to the database's record length: a shorter record gets the header's
    /// filler byte at its end.
    fn padded(&self, mut record: Vec<u8>) -> Result<Vec<u8>, DumpError> {
        let Some(length) = self.header.record_bytes.filter(|&length| length != record.len()) else { return Ok(record) };
        match self.header.pad {
            Some(pad) if record.len() < length => {
                let missing = length - record.len();
                make_room(&mut record, missing).map_err(|what| self.wrong(what))?;
                record.resize(length, pad);
                Ok(record)
            }
            _ => Err(self.wrong(format!(
                "the record has {} bytes, and each record of this database must have {length}",
                record.len()
            ))),
        }
    }

    /// Checks that a page has the next number. Otherwise a page would be missing, and all later pages would get wrong
    /// numbers.
    fn check_page_number(&mut self, number: &[u8]) -> Result<(), DumpError> {
        if self.header.kind != DumpType::Pages {
            return Ok(());
        }
        let next = self.next_page.to_string();
        if number != next.as_bytes() {
            let number = String::from_utf8_lossy(number).escape_debug().to_string();
            return Err(self.wrong(format!("page {next} is missing: the line should be its number, and is `{number}`")));
        }
        self.next_page += 1;
        Ok(())
    }

    /// Checks that a page is complete or empty. A page without bytes means a page of zeros.
    fn check_page(&self, bytes: &[u8]) -> Result<(), DumpError> {
        let whole = self.header.bytes_of_a_page();
        if self.header.kind != DumpType::Pages || [0, whole].contains(&bytes.len()) {
            return Ok(());
        }
        let what = format!("a page has {whole} bytes, or no byte if all bytes are zero; this page has {}", bytes.len());
        Err(self.wrong(what))
    }

    /// Returns whether the input continues after the last record. Then a second dump follows, which
    /// [`Reader::next_pair`] does not read.
    ///
    /// # Errors
    /// An error of the input.
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
            return Err(self.wrong("the line does not begin with a space, as a data line must".into()));
        };
        let bytes = if self.header.print { from_print(spelled) } else { from_hex(spelled) };
        bytes.map(Some).map_err(|what| self.wrong(what))
    }

    fn next_line(&mut self) -> Result<(), DumpError> {
        self.text.clear();
        self.line += 1;
        if self.read_to_newline()? == 0 {
            return Err(self.wrong("the dump ends before DATA=END, so it is incomplete".into()));
        }
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        }
        let has_return = self.text.last() == Some(&b'\r');
        self.has_returns |= has_return && self.line == 1;
        if has_return && !self.has_returns {
            return Err(self.wrong(
                "the line ends with a carriage return, and the first line of the dump does not. Spell a carriage return of the \
                 data as \\0d, and end all lines alike"
                    .into(),
            ));
        }
        if has_return {
            self.text.pop();
        }
        Ok(())
    }

    /// Appends the input up to the next newline to `text`. Returns the number of bytes.
    fn read_to_newline(&mut self) -> Result<usize, DumpError> {
        loop {
            // The room for the piece is made here, because `read_until` aborts the process if there is no memory.
            make_room(&mut self.text, PIECE_BYTES).map_err(|what| self.wrong(what))?;
            let read = self.input.by_ref().take(PIECE_BYTES as u64).read_until(b'\n', &mut self.text)?;
            if read < PIECE_BYTES || self.text.last() == Some(&b'\n') {
                return Ok(self.text.len());
            }
        }
    }

    /// Returns an error about the line that was read last.
    pub fn wrong(&self, what: String) -> DumpError {
        DumpError::Line { line: self.line, what }
    }
}
/// Writes a key or a value.
///
/// # Errors
/// An error of the output.
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
/// An error of the output.
pub fn write_end(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "DATA=END")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump_header::write_header;

    fn read(text: &str) -> Result<Vec<Pair>, DumpError> {
        let mut reader = Reader::open(text.as_bytes(), None)?;
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
    fn a_written_dump_reads_back() {
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

    /// The name of an order may contain any character: no character in the name ends the header line.
    #[test]
    fn the_name_of_an_order_reads_back() {
        for name in ["u64", "a\nHEADER=END", "\\ = \r", "größer"] {
            let order = Some(name.to_string());
            let header = Header { order, keys_as_stored: true, ..Header::of(DumpType::Btree) };
            let mut out = Vec::new();
            write_header(&mut out, &header).unwrap();
            assert_eq!(Reader::open(&*out, None).unwrap().header(), &header);
        }
    }

    #[test]
    fn a_broken_dump_names_its_line() {
        let header = "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n";
        let ordered = "VERSION=3\ntype=btree\n";
        let pages = "type=libtp_pages\ndb_pagesize=4096\nHEADER=END\n";
        for (text, part) in [
            ("hello\n".to_string(), "line 1"),
            (format!("{header} 6\n"), "digits is odd"),
            (format!("{header} zz\n"), "not a hexadecimal digit"),
            (format!("{header}61\n"), "begin with a space"),
            (format!("{header} 61\nDATA=END\n"), "has no value"),
            (format!("{header} 61\n"), "before DATA=END"),
            ("VERSION=9\n".to_string(), "version 9"),
            ("VERSION=3\ntype=heap\n".to_string(), "`heap`"),
            (format!("{ordered}libtp_keys=stored\nHEADER=END\n"), "does not name the order"),
            (format!("{ordered}libtp_keys=somehow\n"), "line 3: libtp_keys is `somehow`"),
            (format!("{ordered}libtp_order=\n"), "line 3: the name of an order"),
            (format!("{ordered}libtp_order=\\ff\n"), "line 3: the name of an order"),
            ("type=hash\nlibtp_order=u\nlibtp_keys=stored\nHEADER=END\n".to_string(), "no order"),
            ("type=libtp_pages\nHEADER=END\n".to_string(), "line 2: the header does not give the size of the pages"),
            ("type=libtp_pages\ndb_pagesize=512\nHEADER=END\n".to_string(), "db_pagesize"),
            ("type=libtp_pages\nkeys=0\ndb_pagesize=4096\nHEADER=END\n".to_string(), "no keys"),
            (format!("{pages} 31\n \n"), "line 4: page 0 is missing: the line should be its number, and is `1`"),
            (
                format!("{pages} 30\n \n 30\n \n"),
                "line 6: page 1 is missing: the line should be its number, and is `0`",
            ),
            (format!("{pages} 30\n 00\n"), "line 5: a page has 4064 bytes, or no byte"),
            (format!("{pages} 30\nDATA=END\n"), "has no value"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
