//! Salvage: the readable records of a partly damaged database file, without its environment.
//!
//! Not in the paper; the model is Berkeley DB's `db_dump -r`. Every page with records has the whole keys of its records
//! and states its own kind. So salvage follows no links between pages: it reads all pages one after the other. It
//! reports a page with a wrong checksum as lost, and returns the records of the other pages. A long value is lost if
//! one of its pages is lost.
//!
//! No process may change the file meanwhile. The file has the pages as they were written back. After a crash it may
//! lack the last commits, and may have changes of transactions that did not commit: salvage does not read the log.

use std::sync::Arc;

use libtp_buffer::{check, is_page_size, is_zero, FileId, PageHeader, PageId, PageNo, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use libtp_io::File;
use libtp_log::Lsn;

use crate::btree::value::Value;
use crate::btree::verify::Finding;
use crate::database::{KeyFormat, Method};
use crate::file_header::{found, read_header, LIST};
use crate::hash::page::BucketPage;
use crate::list::entries::Entry;
use crate::page::free_pages::{Meta, META_PAGE};
use crate::page::node::Node;
use crate::page::overflow::{self, ChainRef};
use crate::page::recno::{Arithmetic, RecnoPage};
use crate::page::PageKind;
use crate::page_header;
use crate::{Error, Result};

/// The length of the longest value that salvage accepts.
const VALUE_BYTES_MAX: u64 = 1 << 32;

/// A readable record, as it was in the file. If the file has an order of keys, the key is encoded in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SalvagedRecord {
    /// A record of a B-tree or a hash file.
    Pair {
        /// The record's key.
        key: Vec<u8>,
        /// The record's value.
        value: Vec<u8>,
        /// The LSN of the record's last change. If two records have the same key, the record with the higher LSN is the
        /// newer one.
        lsn: Lsn,
    },
    /// A record of a recno file.
    Numbered {
        /// The record's number.
        number: u64,
        /// The record's bytes.
        value: Vec<u8>,
    },
}

/// A damaged database file that is read.
pub struct DamagedFile {
    file: Arc<dyn File>,
    id: FileId,
    page_bytes: u32,
    method: Method,
    key_format: KeyFormat,
    /// Findings, page by page.
    lost: Vec<Finding>,
}

impl DamagedFile {
    /// Opens a file. If its first page is damaged, determines the file's kind from the other pages.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] if no page belongs to a database; [`Error::Io`].
    pub fn open(file: Arc<dyn File>, full_name: &str) -> Result<DamagedFile> {
        let name = full_name.strip_suffix(".tp").unwrap_or(full_name);
        let first = read_header(&*file, name).and_then(|(id, header)| found(name, id, &header));
        let wrong = match first {
            Ok(found) => {
                let (page_bytes, id) = (found.info.page_bytes, found.info.id);
                let (method, key_format) = (found.method, found.key_format);
                return Ok(DamagedFile { file, id, page_bytes, method, key_format, lost: Vec::new() });
            }
            Err(error @ Error::Io(_)) => return Err(error),
            // The remedy of the whole message is the salvage itself.
            Err(Error::Corrupt { what, .. }) => what,
            Err(Error::Unsuitable { what, .. }) => what.split(['.', ';']).next().unwrap_or_default().into(),
            Err(error) => error.to_string(),
        };
        let guessed = guess(&*file)?;
        let Some((page_bytes, id, method)) = guessed else {
            let what = format!("none of its pages is a page of a database file (page 0: {wrong}), so it has no records that could be salvaged. Check the path");
            return Err(Error::Unsuitable { name: full_name.to_string(), what });
        };
        let mut wreck =
            DamagedFile { file, id, page_bytes, method, key_format: KeyFormat::default(), lost: Vec::new() };
        let also = match wreck.is_like_a_list()? {
            true => {
                wreck.key_format = LIST;
                "Its keys show that it is a list"
            }
            false => "If the database had an order of keys, or keys with several values, this is unknown now: the keys are given as they were stored in the file",
        };
        let what = format!("{wrong}; the kind of the file was found by its other pages. {also}");
        wreck.lost.push(Finding { page: 0, what });
        Ok(wreck)
    }

    /// Returns whether every key in the tree is a key of a list, and at least one is the key of a node.
    fn is_like_a_list(&self) -> Result<bool> {
        let pages = self.file.len()?.div_ceil(u64::from(self.page_bytes));
        let mut has_nodes = false;
        for number in 1..u32::try_from(pages).unwrap_or(u32::MAX) {
            let Ok(page) = self.page(number)? else { continue };
            if self.method != Method::Btree || PageKind::from_byte(page_header::kind(&page)) != Some(PageKind::Btree) {
                continue;
            }
            let Some(node) = Node::over(&page).filter(|node| node.is_leaf() && !node.is_deleted()) else { continue };
            for slot in 0..node.count() {
                match Entry::of(&node.key(slot).to_vec()) {
                    Some(Entry::Node(_)) => has_nodes = true,
                    Some(_) => {}
                    None => return Ok(false),
                }
            }
        }
        Ok(has_nodes)
    }

    /// Returns the access method of the file.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the format of the keys.
    pub fn key_format(&self) -> &KeyFormat {
        &self.key_format
    }

    /// Passes every readable record to `take`, in arbitrary order. Passes the number of bytes read so far and the
    /// number of all bytes to `watch`. Returns the lost pages and the lost long values.
    ///
    /// # Errors
    /// Any error of `take`; [`Error::Io`] where the disk refuses.
    pub fn records<E: From<Error>>(
        mut self,
        take: &mut dyn FnMut(SalvagedRecord) -> std::result::Result<(), E>,
        watch: &mut dyn FnMut(u64, u64),
    ) -> std::result::Result<Vec<Finding>, E> {
        let length = self.file.len().map_err(Error::from)?;
        let pages = length.div_ceil(u64::from(self.page_bytes));
        let used = self.page(META_PAGE)?.ok().and_then(|page| Meta::of(&page).map(|meta| meta.page_count.get()));
        for number in 1..u32::try_from(pages).unwrap_or(u32::MAX) {
            watch(u64::from(number) * u64::from(self.page_bytes), length);
            match self.page(number)? {
                Err(what) => self.lost.push(Finding { page: number, what }),
                Ok(page) if is_zero(&page) => {
                    if self.method == Method::Btree && used.is_some_and(|used| number < used) {
                        self.lost.push(Finding {
                            page: number,
                            what: "it is all zeros, but later pages show that it was in use".into(),
                        });
                    }
                }
                Ok(page) => self.of_page(number, &page, take)?,
            }
        }
        watch(length, length);
        // The pages of a B-tree are used in the order of their numbers. The other kinds leave gaps, so only the damage
        // of a page shows that it is missing.
        if let Some(used) = used.filter(|&used| self.method == Method::Btree && u64::from(used) > pages) {
            let first = u32::try_from(pages).unwrap_or(u32::MAX);
            let what = format!(
                "this page and the later pages up to page {} are missing: the file ends at byte {length}",
                used - 1
            );
            self.lost.push(Finding { page: first, what });
        }
        Ok(self.lost)
    }

    /// Returns a page, or the reason why it is lost.
    fn page(&self, number: u32) -> Result<std::result::Result<Vec<u8>, String>> {
        let mut page = vec![0; self.page_bytes as usize];
        let id = PageId::new(self.id, PageNo::new(number));
        let read = self.file.read_at(&mut page, id.page().offset(self.page_bytes))?;
        if read < page.len() {
            return Ok(Err(format!("the file ends after {read} of its bytes")));
        }
        Ok(check(&page, id).map(|()| page).map_err(|damage| damage.to_string()))
    }

    fn of_page<E: From<Error>>(
        &mut self,
        number: u32,
        page: &[u8],
        take: &mut dyn FnMut(SalvagedRecord) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match (self.method, PageKind::from_byte(page_header::kind(page))) {
            (Method::Btree, Some(PageKind::Btree)) => match Node::over(page) {
                Some(node) if node.is_deleted() || !node.is_leaf() => Ok(()),
                Some(node) => self.of_node(number, &node, take),
                None => self.contradicts(number),
            },
            (Method::Hash, Some(PageKind::Hash)) => match BucketPage::over(page) {
                Some(bucket) => self.of_node(number, &bucket, take),
                None => self.contradicts(number),
            },
            (Method::Recno { record_bytes }, Some(PageKind::Recno)) => {
                let arithmetic = Arithmetic::new(page.len(), record_bytes as usize);
                let recno = RecnoPage::over(page).filter(|recno| recno.record_bytes() == record_bytes as usize);
                let (Some(recno), Some(arithmetic)) = (recno, arithmetic) else { return self.contradicts(number) };
                for slot in 0..recno.capacity() {
                    if let Some(record) = recno.slot(slot).filter(|slot| slot.is_record()) {
                        let value = record.bytes.to_vec();
                        take(SalvagedRecord::Numbered { number: arithmetic.number(number, slot), value })?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn contradicts<E>(&mut self, number: u32) -> std::result::Result<(), E> {
        self.lost.push(Finding { page: number, what: "its header contradicts itself".into() });
        Ok(())
    }

    fn of_node<E: From<Error>>(
        &mut self,
        number: u32,
        node: &Node<'_>,
        take: &mut dyn FnMut(SalvagedRecord) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for slot in 0..node.count() {
            let Some(record) = node.record(slot) else {
                self.lost
                    .push(Finding { page: number, what: format!("the record at slot {slot} is outside the page") });
                continue;
            };
            if record.is_ghost() {
                continue;
            }
            let value = match record.value() {
                Some(Value::Here(value)) => Ok(value.to_vec()),
                Some(Value::Chain(chain)) => self.chain(chain)?,
                None => Err("the reference to it cannot be read".to_string()),
            };
            let (key, lsn) = (node.key(slot).to_vec(), record.lsn);
            match value {
                Ok(value) => take(SalvagedRecord::Pair { key, value, lsn })?,
                Err(what) => {
                    let what = format!("the value of its key {:?} is lost: {what}", String::from_utf8_lossy(&key));
                    self.lost.push(Finding { page: number, what });
                }
            }
        }
        Ok(())
    }

    /// Returns a long value, or the reason why it is lost.
    fn chain(&self, chain: ChainRef) -> Result<std::result::Result<Vec<u8>, String>> {
        let wanted = chain.bytes.get();
        let mut value = Vec::new();
        let mut number = chain.first.get();
        while number != 0 && (value.len() as u64) < wanted.min(VALUE_BYTES_MAX) {
            let page = match self.page(number)? {
                Ok(page) => page,
                Err(what) => return Ok(Err(format!("page {number}: {what}"))),
            };
            let piece = overflow::piece(&page).filter(|piece| !piece.is_empty());
            let (Some(header), Some(piece)) = (overflow::header(&page), piece) else {
                return Ok(Err(format!("page {number} is no part of it")));
            };
            value.extend_from_slice(piece);
            number = if number == chain.last.get() { 0 } else { header.next.get() };
        }
        let is_whole = value.len() as u64 == wanted;
        Ok(if is_whole { Ok(value) } else { Err(format!("only {} of its {wanted} bytes could be read", value.len())) })
    }
}

/// Determines the page size, number and method of a file whose first page is damaged, from the first undamaged page.
fn guess(file: &dyn File) -> Result<Option<(u32, FileId, Method)>> {
    let length = file.len()?;
    let sizes = (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).filter(|&bytes| is_page_size(bytes));
    for page_bytes in sizes {
        let mut page = vec![0; page_bytes as usize];
        for number in 1..u32::try_from(length / u64::from(page_bytes)).unwrap_or(u32::MAX) {
            let at = PageNo::new(number);
            if file.read_at(&mut page, at.offset(page_bytes))? < page.len() || is_zero(&page) {
                continue;
            }
            let id = FileId::new(PageHeader::of(&page).file_id.get());
            if check(&page, PageId::new(id, at)).is_err() {
                continue;
            }
            let method = match PageKind::from_byte(page_header::kind(&page)) {
                Some(PageKind::Btree) => Method::Btree,
                Some(PageKind::Hash | PageKind::HashHeader) => Method::Hash,
                Some(PageKind::Application) => Method::Pages,
                Some(PageKind::Recno) => match RecnoPage::over(&page).map(|page| u32::try_from(page.record_bytes())) {
                    Some(Ok(record_bytes)) => Method::Recno { record_bytes },
                    _ => continue,
                },
                _ => continue,
            };
            return Ok(Some((page_bytes, id, method)));
        }
    }
    Ok(None)
}
