//! The reads of a connection: spans, which are ranges of keys, in the connection's own memory.
//!
//! Reads of a snapshot take no locks. When the connection then writes, it reads the spans again in a transaction, which
//! locks them, and compares the records with those of the snapshot. If all are the same, the transaction could have
//! made all its reads at this moment, so it may continue. In the same way the spans of an open SELECT are compared
//! before and after a commit.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::time::Duration;

use libtp::Keys;

use crate::answer::Outcome;
use crate::home::Home;
use crate::owned::{with_source, Reader};

/// A range of the keys of one tree, with both bounds included; `None` is the beginning or the end of the tree.
struct Span {
    root: u32,
    low: Option<Box<[u8]>>,
    high: Option<Box<[u8]>>,
}

/// All spans of a connection.
#[derive(Default)]
pub(crate) struct Spans {
    spans: Vec<Span>,
    /// The roots of the trees that count as completely read.
    whole: BTreeSet<u32>,
}

/// The largest number of spans. With more, each tree that has a span counts as completely read.
const SPANS_MAX: usize = 10_000;

impl Spans {
    /// Adds the lookup of one key.
    pub(crate) fn add_key(&mut self, root: u32, key: &[u8]) {
        self.add(root, Some(key.into()), Some(key.into()));
    }

    /// Adds the keys from `low` to `high`.
    pub(crate) fn add(&mut self, root: u32, low: Option<Box<[u8]>>, high: Option<Box<[u8]>>) {
        if self.whole.contains(&root) {
            return;
        }
        if low.is_none() && high.is_none() {
            self.whole.insert(root);
            return;
        }
        if self.spans.len() == SPANS_MAX {
            self.whole.extend(self.spans.drain(..).map(|span| span.root));
        }
        self.spans.push(Span { root, low, high });
    }

    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.whole.clear();
    }

    fn all(&self) -> impl Iterator<Item = (u32, Option<&[u8]>, Option<&[u8]>)> {
        let whole = self.whole.iter().map(|root| (*root, None, None));
        whole.chain(self.spans.iter().map(|span| (span.root, span.low.as_deref(), span.high.as_deref())))
    }

    /// Returns whether two readers see the same records in all spans. Waits at most for the time `wait` if a tree is
    /// opened.
    pub(crate) fn are_same(&self, home: &Home, one: &Reader, other: &Reader, wait: Duration) -> Outcome<bool> {
        for (root, low, high) in self.all() {
            let tree = home.tree(root, wait)?;
            if let (Some(key), true) = (low, low == high) {
                let get = |reader: &Reader| with_source!(reader, source => tree.get(source, key));
                if get(one)? != get(other)? {
                    return Ok(false);
                }
                continue;
            }
            let mut ours = with_source!(one, source => tree.range(source, keys(low, high)))?;
            let mut others = with_source!(other, source => tree.range(source, keys(low, high)))?;
            loop {
                let (ours, others) = (ours.next()?, others.next()?);
                if ours != others {
                    return Ok(false);
                }
                if ours.is_none() {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Returns a hash of the records in all spans. Waits at most for the time `wait` if a tree is opened.
    pub(crate) fn digest(&self, home: &Home, reader: &Reader, wait: Duration) -> Outcome<u64> {
        let mut hasher = DefaultHasher::new();
        for (root, low, high) in self.all() {
            let tree = home.tree(root, wait)?;
            let mut records = with_source!(reader, source => tree.range(source, keys(low, high)))?;
            while let Some(record) = records.next()? {
                record.hash(&mut hasher);
            }
            root.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

fn keys(low: Option<&[u8]>, high: Option<&[u8]>) -> Keys {
    Keys::between(low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Included))
}
