//! Files of pages in dumps: a file is written as a whole and loaded as a whole.
//!
//! Only a program knows the contents of its pages, so each page is copied unchanged under its number. A dump has the
//! state of all pages at one moment. Snapshots do not cover pages, so the file is locked while its pages are written. A
//! load is one transaction, because pages refer to each other: a part of a file is useless to the program.

use libtp::{Durability, Env, PageFile, PageLock, Txn};
use serde_json::json;

use crate::dump_format::{write_datum, write_end};
use crate::dump_header::{write_header, DumpType, Header, PAGE_HEADER_BYTES};
use crate::dump_source::Source;
use crate::failure::{Ending, Failure, Result};
use crate::hexadecimal::to_hex;
use crate::output::{cannot_write, Output};
use crate::progress::Progress;

/// The greatest number of tries to lock the whole file. After a deadlock there is another try.
const TRIES: u32 = 100;

/// Begins a transaction and locks the whole file. If the lock is refused, tries again with another transaction: the
/// refused transaction has not read or written anything yet.
fn begin<'e>(env: &'e Env, file: &PageFile, lock: PageLock) -> Result<Txn<'e>> {
    let mut tries = 0;
    loop {
        let txn = env.begin_with(Durability::Sync)?;
        tries += 1;
        match file.lock_all(&txn, lock) {
            Ok(()) => return Ok(txn),
            Err(error) if error.is_retryable() && tries < TRIES => txn.abort()?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes all pages to standard output; with `--json`, writes an object for each page.
pub fn dump(env: &Env, file: &PageFile, output: &mut Output) -> Result<Ending> {
    let txn = begin(env, file, PageLock::Read)?;
    let bar = Progress::endless(output.may_draw() && !output.is_terminal(), "pages written");
    let page_bytes = u32::try_from(file.page_bytes()).map_or(u32::MAX, |bytes| bytes.saturating_add(PAGE_HEADER_BYTES));
    let header = Header { page_bytes: Some(page_bytes), ..Header::of(DumpType::Pages) };
    let as_text = !output.is_json();
    if as_text {
        write_header(output, &header).map_err(cannot_write)?;
    }
    let count = file.count(&txn)?;
    for number in 0..count {
        let page = file.get(&txn, number)?;
        if as_text {
            let bytes = if is_zeros(&page.bytes) { &[] } else { &page.bytes[..] };
            let written = write_datum(output, number.to_string().as_bytes());
            written.and_then(|()| write_datum(output, bytes)).map_err(cannot_write)?;
        } else {
            output.object(&json!({ "page": number, "value_hex": to_hex(&page.bytes) }))?;
        }
        bar.set(u64::from(number) + 1);
    }
    if as_text {
        write_end(output).map_err(cannot_write)?;
    }
    txn.commit()?;
    output.object(&json!({ "database": file.name(), "type": header.kind.name(), "records": count }))?;
    Ok(Ending::Done)
}

/// Loads all pages into a file that has no pages. Makes the file if it is missing. Returns the number of pages.
pub fn load(env: &Env, name: &str, source: &mut Source, shown: bool) -> Result<u64> {
    let file = env.pages(name)?;
    let refused = |what: String| {
        Failure::Failed(format!("database `{name}`: {what}; nothing was loaded. Load the dump into a new database"))
    };
    let (ours, theirs) = (file.page_bytes(), source.reader.header().bytes_of_a_page());
    if ours != theirs {
        return Err(refused(format!(
            "each page of the database has {ours} bytes for its program, and each page of the dump has {theirs}"
        )));
    }
    let txn = begin(env, &file, PageLock::Write)?;
    if has_pages(&file, &txn)? {
        return Err(refused("the database has pages already".into()));
    }
    let loaded = put_all(&file, &txn, source, shown);
    let loaded = loaded.map_err(|failure| Failure::Failed(format!("{failure} (nothing was loaded)")))?;
    txn.commit()?;
    Ok(loaded)
}

/// Returns whether any page has contents. Pages of zeros do not count: they remain after a transaction was undone or a
/// load was interrupted.
fn has_pages(file: &PageFile, txn: &Txn<'_>) -> Result<bool> {
    for number in 0..file.count(txn)? {
        if !is_zeros(&file.get(txn, number)?.bytes) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn put_all(file: &PageFile, txn: &Txn<'_>, source: &mut Source, shown: bool) -> Result<u64> {
    let bar = source.progress(shown);
    let mut next = 0;
    while let Some((_, bytes)) = source.next_pair()? {
        put(file, txn, next, bytes)?;
        next += 1;
        bar.set(source.read.get());
    }
    Ok(u64::from(next))
}

/// Writes a page under its number. Empty `bytes` stand for a page of zeros.
fn put(file: &PageFile, txn: &Txn<'_>, number: u32, bytes: Vec<u8>) -> Result<()> {
    let mut page = file.get(txn, number)?;
    if !is_zeros(&bytes) {
        page.bytes = bytes;
        file.put(txn, &page)?;
    } else if number >= file.count(txn)? {
        // A missing page reads as zeros, and a put of zeros would not add it: the next page would leave a gap. So the
        // page is first stored with another byte.
        page.bytes[0] = 1;
        file.put(txn, &page)?;
        let mut page = file.get(txn, number)?;
        page.bytes[0] = 0;
        file.put(txn, &page)?;
    }
    Ok(())
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
