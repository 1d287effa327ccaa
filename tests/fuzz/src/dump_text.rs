//! The text of a dump: Berkeley DB's format, as `tp load` reads it and `tp dump` writes it.
//!
//! If the dump cannot be read, the error must name a line. Otherwise the records are written as `tp dump` does. Reading
//! the written dump must give the same records, and writing these must give the same text. The tests of the command run
//! `tp load` and `tp dump` over the corpus.

use std::io::BufRead;

use crate::dump_format::{write_datum, write_end, DumpError, Pair, Reader};
use crate::dump_header::{write_header, DumpType, Header, PAGE_HEADER_BYTES};

/// Tests one input.
pub fn dump_text(input: &[u8]) {
    let (header, pairs) = match read(input) {
        Ok(read) => read,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("line ") && message.len() > 10, "the error names no line: {message}");
            return;
        }
    };
    let text = written(&header, &pairs);
    let (again, read_again) = match read(&*text) {
        Ok(read) => read,
        Err(error) => panic!("the written dump cannot be read: {error}"),
    };
    assert!(
        pairs.iter().map(|(_, value)| value).eq(read_again.iter().map(|(_, value)| value)),
        "the written dump has other values"
    );
    let keyed = header.keys && again.keys;
    assert!(!keyed || pairs == read_again, "the written dump has other keys");
    assert_eq!((header.kind, header.duplicates), (again.kind, again.duplicates));
    assert_eq!((&header.order, header.keys_as_stored), (&again.order, again.keys_as_stored));
    assert_eq!(header.page_bytes, again.page_bytes);
    check_pages(&header, &pairs);
    assert_eq!(written(&again, &read_again), text, "the second written dump differs from the first");
}

/// Checks that the pages have consecutive numbers from 0 on, and that each is empty or has its full length.
fn check_pages(header: &Header, pairs: &[Pair]) {
    let whole = header.page_bytes.map(|bytes| bytes as usize - PAGE_HEADER_BYTES as usize);
    assert_eq!(whole.is_some(), header.kind == DumpType::Pages);
    let Some(whole) = whole else { return };
    for (number, (key, value)) in pairs.iter().enumerate() {
        assert_eq!(key.as_deref(), Some(number.to_string().as_bytes()), "a page has another number than expected");
        assert!(value.is_empty() || value.len() == whole, "a page has {} bytes", value.len());
    }
}

/// Reads a whole dump as `tp load` does.
///
/// # Errors
/// Names the line that cannot be read.
pub fn read(input: impl BufRead) -> Result<(Header, Vec<Pair>), DumpError> {
    let mut reader = Reader::open(input, None)?;
    let mut pairs = Vec::new();
    while let Some(pair) = reader.next_pair()? {
        pairs.push(pair);
    }
    let _ = reader.has_more()?;
    Ok((reader.header().clone(), pairs))
}

/// Returns the text that `tp dump` writes for a database with these records. A list and records by number have keys
/// only in a dump by `tp dump --keys`.
fn written(header: &Header, pairs: &[Pair]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut write = || {
        write_header(&mut text, header)?;
        for (key, value) in pairs {
            let keyed = header.keys || matches!(header.kind, DumpType::Btree | DumpType::Hash);
            if let Some(key) = key.as_ref().filter(|_| keyed) {
                write_datum(&mut text, key)?;
            }
            write_datum(&mut text, value)?;
        }
        write_end(&mut text)
    };
    write().expect("a vector takes all bytes");
    text
}
