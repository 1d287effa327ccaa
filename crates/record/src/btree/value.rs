//! The record at a slot of a leaf, and its value.

use crate::locking::Access;
use crate::page::node::{Node, Record};
use crate::page::overflow::{ChainRef, CHAIN_REF_BYTES};
use crate::page::record_lsn::RecordFlags;
use crate::{Error, Result};

/// A value as a leaf stores it.
pub(crate) enum Value<'p> {
    /// The bytes themselves.
    Here(&'p [u8]),
    /// A reference to a chain of overflow pages.
    Chain(ChainRef),
}

impl<'p> Record<'p> {
    /// Returns the stored value without the reference to a replaced chain.
    #[inline]
    pub(crate) fn current(&self) -> Option<&'p [u8]> {
        if !self.flags.has(RecordFlags::REPLACED) {
            return Some(self.stored);
        }
        self.stored.get(..self.stored.len().checked_sub(CHAIN_REF_BYTES)?)
    }

    /// Returns the chain that the last change replaced, if the chain is not freed yet.
    pub(crate) fn replaced(&self) -> Option<ChainRef> {
        if !self.flags.has(RecordFlags::REPLACED) {
            return None;
        }
        ChainRef::read(self.stored.get(self.stored.len().checked_sub(CHAIN_REF_BYTES)?..)?)
    }

    /// Returns the value; `None` if the stored bytes are impossible.
    #[inline]
    pub(crate) fn value(&self) -> Option<Value<'p>> {
        let current = self.current()?;
        if self.flags.has(RecordFlags::OVERFLOW) {
            return ChainRef::read(current).map(Value::Chain);
        }
        Some(Value::Here(current))
    }
}

impl Access<'_> {
    /// Returns the record at a slot of a leaf.
    #[inline]
    pub(crate) fn record_at<'p>(&self, number: u32, node: &Node<'p>, slot: usize) -> Result<Record<'p>> {
        node.record(slot).ok_or_else(|| self.no_record(number, slot))
    }

    #[cold]
    pub(crate) fn no_record(&self, number: u32, slot: usize) -> Error {
        self.pages.corrupt(number, format!("the record at slot {slot} is outside the page's heap"))
    }

    #[cold]
    pub(crate) fn no_value(&self, number: u32, slot: usize) -> Error {
        self.pages.corrupt(
            number,
            format!("the record at slot {slot} has a flag for a value on other pages, but names no page"),
        )
    }

    #[inline]
    pub(crate) fn value_of<'p>(&self, number: u32, slot: usize, record: &Record<'p>) -> Result<Value<'p>> {
        record.value().ok_or_else(|| self.no_value(number, slot))
    }
}
