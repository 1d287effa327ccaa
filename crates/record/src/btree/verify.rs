//! Verification: checks everything that a B-tree's pages state about each other, and accounts for every page.
//!
//! Verification needs a database that no session changes: otherwise it may report concurrent changes as faults. It
//! changes nothing and takes no lock.

use std::collections::HashMap;

use crate::btree::descent::ROOT;
use crate::btree::value::Value;
use crate::locking::Access;
use crate::page::free_pages::{FIRST_PAGE, META_PAGE};
use crate::page::node::Node;
use crate::page::overflow::{self, ChainRef};
use crate::page::slotted::{common_prefix, head_of, Flags};
use crate::Result;

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The page.
    pub page: u32,
    /// The fault's description.
    pub what: String,
}

/// The number of findings after which a check stops if every page may be a finding.
pub(crate) const FINDINGS_MAX: usize = 1_000;

/// The use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Tree,
    /// A page of a hash file that is reserved for future buckets.
    Ahead,
    Unlinked,
    Value,
    Free,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The faults; empty for an undamaged file.
    pub findings: Vec<Finding>,
    /// Records that are no ghosts.
    pub records: u64,
    /// Ghosts.
    pub ghosts: u64,
    /// Pages of the tree.
    pub tree_pages: u64,
    /// Pages that hold long values.
    pub value_pages: u64,
    /// Pages in the free list.
    pub free_pages: u64,
    /// Pages that are unlinked, and become free when no session can be on the way to them.
    pub unlinked_pages: u64,
}

/// A copy of a page, so that no latch is held while other pages are read.
pub(crate) struct Copied {
    number: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A walk through a file, and its result so far.
pub(crate) struct Verifier<'v, 'a> {
    access: &'v Access<'a>,
    result: Verified,
    uses: HashMap<u32, Use>,
}

/// Verifies a B-tree.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is no error, but a finding in the result.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    access.check_btree()?;
    let mut verifier = Verifier::new(access);
    verifier.tree()?;
    verifier.free_list()?;
    verifier.lost_pages()?;
    Ok(verifier.into_result())
}

impl<'v, 'a> Verifier<'v, 'a> {
    pub(crate) fn new(access: &'v Access<'a>) -> Verifier<'v, 'a> {
        Verifier { access, result: Verified::default(), uses: HashMap::new() }
    }

    pub(crate) fn result_mut(&mut self) -> &mut Verified {
        &mut self.result
    }

    pub(crate) fn into_result(self) -> Verified {
        self.result
    }

    pub(crate) fn report(&mut self, page: u32, what: impl Into<String>) {
        self.result.findings.push(Finding { page, what: what.into() });
    }

    /// Reads a page. A damaged page is a finding.
    pub(crate) fn read(&mut self, number: u32) -> Result<Option<Copied>> {
        match self.access.pages.shared(number, 0) {
            Ok(page) => Ok(Some(Copied { number, bytes: page.to_vec() })),
            Err(crate::Error::Buffer(error @ libtp_buffer::Error::Corrupt { .. })) => {
                self.report(number, error.to_string());
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    pub(crate) fn claim(&mut self, page: u32, as_what: Use) -> bool {
        match self.uses.insert(page, as_what) {
            None => true,
            Some(before) => {
                self.report(page, format!("it is used twice, as {before:?} and as {as_what:?}"));
                false
            }
        }
    }

    /// Walks through the levels from the root down, and through each level from left to right.
    fn tree(&mut self) -> Result<()> {
        let mut leftmost = Some(ROOT);
        let mut expected: Option<Vec<Downlink>> = None;
        let mut above = None;
        while let Some(first) = leftmost {
            let (next_level, downlinks) = self.level(first, expected, &mut above)?;
            leftmost = next_level;
            expected = Some(downlinks);
        }
        Ok(())
    }

    /// Compares the pages of one level with the downlinks of the level above. Compares the level's number with `above`,
    /// and stores the number there. Returns the first page of the level below, and all downlinks to the level below.
    fn level(
        &mut self,
        first: u32,
        expected: Option<Vec<Downlink>>,
        above: &mut Option<u8>,
    ) -> Result<(Option<u32>, Vec<Downlink>)> {
        let mut downlinks = Vec::new();
        let mut expected = expected.map(Vec::into_iter);
        let (mut number, mut left) = (first, 0);
        let (mut below, mut low): (Option<u32>, Vec<u8>) = (None, Vec::new());
        let mut level = None;
        let mut unposted = false;
        while let Some(copied) = self.read(number)? {
            if !self.claim(number, Use::Tree) {
                break;
            }
            let Some(node) = Node::over(&copied.bytes) else {
                self.report(number, "it is not a page of a B-tree, or its header contradicts itself");
                break;
            };
            self.result.tree_pages += 1;
            if node.level() != *level.get_or_insert(node.level()) {
                self.report(number, format!("its level is {}, and it is among pages of another level", node.level()));
                break;
            }
            if let Some(above) = above.replace(node.level()).filter(|_| number == first) {
                if node.level().checked_add(1) != Some(above) {
                    self.report(
                        number,
                        format!("its level is {}, and the level of the page that leads to it is {above}", node.level()),
                    );
                }
            }
            if node.header().left.get() != left {
                self.report(number, format!("its left link leads to {}, not to {left}", node.header().left.get()));
            }
            if node.header().flags.get() & !Flags::ALL != 0 {
                self.report(
                    number,
                    format!("its flags are {:#x}, and some of these bits have no meaning", node.header().flags.get()),
                );
            }
            self.downlink(&mut expected, number, &low, unposted);
            self.page(&copied, &node, &low)?;
            if !node.is_leaf() {
                below = below.or(node.child(0));
                downlinks.extend((0..node.count()).map(|slot| Downlink::of(number, &node, slot, &low)));
            }
            self.unlinked(&node)?;
            unposted = node.is_incomplete();
            match (node.high(), node.right()) {
                (Some(high), Some(right)) => {
                    low = high.to_vec();
                    left = number;
                    number = right;
                }
                (None, None) => break,
                _ => {
                    self.report(number, "it has only one of a high key and a right link");
                    break;
                }
            }
        }
        if let Some(rest) = expected.and_then(|mut rest| rest.next()) {
            self.report(
                rest.parent,
                format!("it has a downlink to page {}, and no right link on that level leads to the page", rest.child),
            );
        }
        Ok((below, downlinks))
    }

    /// Compares a page with the next downlink of the level above.
    fn downlink(
        &mut self,
        expected: &mut Option<std::vec::IntoIter<Downlink>>,
        number: u32,
        low: &[u8],
        unposted: bool,
    ) {
        if unposted {
            return;
        }
        let Some(links) = expected else { return };
        match links.next() {
            None => self.report(number, "no page of the level above leads to it"),
            Some(link) if link.child != number => {
                self.report(
                    link.parent,
                    format!("it has a downlink to page {} in the place of page {number}", link.child),
                );
            }
            Some(link) if link.low != low => {
                self.report(link.parent, format!("its key for page {number} is not the lower bound of that page"));
            }
            Some(_) => {}
        }
    }

    /// Checks one page by itself, and counts its records.
    pub(crate) fn page(&mut self, copied: &Copied, node: &Node<'_>, low: &[u8]) -> Result<()> {
        let number = copied.number;
        if node.is_deleted() {
            self.report(number, "it is marked as deleted, and other pages lead to it");
        }
        if !low.starts_with(node.low()) && !node.low().is_empty() {
            self.report(number, "its low fence is not the upper bound of its left neighbour");
        }
        let high = node.high().unwrap_or_default();
        if usize::from(node.header().prefix_bytes.get()) != common_prefix(node.low(), high) {
            self.report(number, "its prefix is not the common beginning of its fences");
        }
        let common = node.key(node.first_key()).suffix;
        let common = common.get(..usize::from(node.header().skip_bytes.get())).unwrap_or_default();
        let mut cells = Vec::with_capacity(node.count());
        let mut previous: Option<Vec<u8>> = None;
        for slot in 0..node.count() {
            let key = node.key(slot);
            cells.push((node.cell_at(slot), node.cell_bytes(slot)));
            let is_first_child = !node.is_leaf() && slot == 0;
            let skip = if is_first_child { 0 } else { usize::from(node.header().skip_bytes.get()) };
            if key.suffix.get(skip..).map(head_of) != Some(node.slots()[slot].head.get()) {
                self.report(number, format!("the head of slot {slot} is not the beginning of its key"));
            }
            let key = key.to_vec();
            if previous.as_ref().is_some_and(|previous| *previous >= key) {
                self.report(number, format!("the key of slot {slot} is not above the key before it"));
            }
            if !is_first_child && (&key[..] < low || node.belongs_right(&key)) {
                self.report(number, format!("the key of slot {slot} is outside the page's range"));
            }
            if !is_first_child && !node.key(slot).suffix.starts_with(common) {
                self.report(
                    number,
                    format!("the key of slot {slot} does not begin with the bytes that its head assumes"),
                );
            }
            previous = Some(key);
            if node.is_leaf() {
                self.record(number, node, slot)?;
            } else if node.child(slot).is_none() {
                self.report(number, format!("slot {slot} leads to no child"));
            }
        }
        let heap_start = node.header().heap_start.get() as usize;
        let cell_bytes: usize = cells.iter().map(|(_, bytes)| bytes).sum();
        if cell_bytes + node.header().garbage_bytes.get() as usize != node.page_bytes() - heap_start {
            self.report(number, "its cells and its garbage are not all of its heap");
        }
        cells.sort_unstable();
        let mut end = heap_start;
        for (at, bytes) in cells {
            if at < end || at + bytes > node.page_bytes() {
                self.report(
                    number,
                    format!("the cell at byte {at} is outside the page's heap, or overlaps another cell"),
                );
            }
            end = end.max(at + bytes);
        }
        Ok(())
    }

    fn record(&mut self, number: u32, node: &Node<'_>, slot: usize) -> Result<()> {
        let Some(record) = node.record(slot) else {
            self.report(number, format!("the record at slot {slot} is outside the page's heap"));
            return Ok(());
        };
        if record.is_ghost() {
            self.result.ghosts += 1;
        } else {
            self.result.records += 1;
        }
        let replaced = record.replaced().unwrap_or_default();
        match record.value() {
            Some(Value::Chain(chain)) => {
                if self.chain(number, chain)?.is_some_and(|older| older != replaced) {
                    self.report(
                        number,
                        format!("the record at slot {slot} and its value disagree on the replaced value"),
                    );
                }
            }
            Some(Value::Here(_)) => {}
            None => self.report(
                number,
                format!("the record at slot {slot} has a flag for a value on other pages, but names no page"),
            ),
        }
        let mut next = replaced;
        while next.first.get() != 0 {
            let Some(older) = self.chain(number, next)? else { break };
            next = older;
        }
        Ok(())
    }

    /// Follows the chain of a long value. Returns the chain that it replaced, or `None` if it cannot be followed.
    fn chain(&mut self, leaf: u32, chain: ChainRef) -> Result<Option<ChainRef>> {
        let mut bytes = 0;
        let mut older = ChainRef::default();
        let mut number = chain.first.get();
        while number != 0 {
            let Some(copied) = self.read(number)? else { return Ok(None) };
            if !self.claim(number, Use::Value) {
                return Ok(None);
            }
            self.result.value_pages += 1;
            let (Some(header), Some(piece)) = (overflow::header(&copied.bytes), overflow::piece(&copied.bytes)) else {
                self.report(
                    number,
                    format!("it is not a part of the long value to which a record on page {leaf} leads"),
                );
                return Ok(None);
            };
            bytes += piece.len() as u64;
            if number == chain.first.get() {
                older = ChainRef { first: header.older_first, last: header.older_last, bytes: header.older_bytes };
            }
            number = if number == chain.last.get() { 0 } else { header.next.get() };
        }
        if bytes != chain.bytes.get() {
            self.report(leaf, format!("a long value should have {} bytes and has {bytes}", chain.bytes.get()));
        }
        Ok(Some(older))
    }

    /// Accounts for an unlinked page that is not yet free.
    fn unlinked(&mut self, node: &Node<'_>) -> Result<()> {
        let gone = node.header().unlinked.get();
        if gone == 0 {
            return Ok(());
        }
        if self.claim(gone, Use::Unlinked) {
            self.result.unlinked_pages += 1;
            if let Some(copied) = self.read(gone)? {
                if !Node::over(&copied.bytes).is_some_and(|node| node.is_deleted()) {
                    self.report(gone, "it should be unlinked, and is not marked as unlinked");
                }
            }
        }
        Ok(())
    }

    pub(crate) fn free_list(&mut self) -> Result<()> {
        let mut number = self.access.pages.meta()?.free_head.get();
        while number != 0 {
            let Some(copied) = self.read(number)? else { return Ok(()) };
            if !self.claim(number, Use::Free) {
                return Ok(());
            }
            self.result.free_pages += 1;
            let Some(header) = overflow::header(&copied.bytes) else {
                self.report(number, "it is in the free list, and is not free");
                return Ok(());
            };
            number = header.next.get();
        }
        Ok(())
    }

    pub(crate) fn lost_pages(&mut self) -> Result<()> {
        let count = self.access.pages.meta()?.page_count.get();
        let mut used: Vec<u32> = self.uses.keys().copied().collect();
        used.sort_unstable();
        let known = used.partition_point(|&page| page < count);
        for &page in &used[known..] {
            self.report(META_PAGE, format!("it says that page {page} was never used, and the page is in use"));
        }
        // Report each gap between used pages as one finding: a wrong page count would otherwise give very many
        // findings.
        let mut next = FIRST_PAGE;
        for page in used[..known].iter().copied().chain([count]) {
            match page.saturating_sub(next) {
                0 => {}
                1 => self.report(next, "no page leads to it, so it is lost"),
                pages => self.report(
                    next,
                    format!("no page leads to it or to the next pages up to {}, so {pages} pages are lost", page - 1),
                ),
            }
            next = page.saturating_add(1);
        }
        Ok(())
    }
}

/// A downlink, with the lower bound of its child.
struct Downlink {
    parent: u32,
    child: u32,
    low: Vec<u8>,
}

impl Downlink {
    fn of(parent: u32, node: &Node<'_>, slot: usize, low: &[u8]) -> Downlink {
        let low = if slot == 0 { low.to_vec() } else { node.key(slot).to_vec() };
        Downlink { parent, child: node.child(slot).unwrap_or_default(), low }
    }
}
