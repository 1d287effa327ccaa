//! The entries of a list in its tree: the head, the nodes, the records. Byte table: docs/formats/list.md.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The key of the head.
pub const HEAD_KEY: [u8; 1] = [0];
/// The key of the notes on a text file.
pub const TEXT_KEY: [u8; 1] = [3];
const NODE: u8 = 1;
const RECORD: u8 = 2;
/// Bytes of a node before its children.
const NODE_HEAD_BYTES: usize = 1;
const LEAF_CHILD_BYTES: usize = 8;
const INNER_CHILD_BYTES: usize = 16;
/// The number of nodes of the largest size that fit on one page.
const NODES_PER_PAGE: usize = 8;

/// Returns the key of an id. Nodes and records have ids from one counter.
fn key_of(kind: u8, id: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// Returns the key of a node.
#[inline]
pub fn node_key(id: u64) -> [u8; 9] {
    key_of(NODE, id)
}

/// Returns the key of a record.
#[inline]
pub fn record_key(id: u64) -> [u8; 9] {
    key_of(RECORD, id)
}

/// The kind of an entry, with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The head.
    Head,
    /// A node.
    Node(u64),
    /// A record.
    Record(u64),
    /// The notes on a text file.
    Text,
}

impl Entry {
    /// Reads a key; `None` if no list has such a key.
    pub fn of(key: &[u8]) -> Option<Entry> {
        if *key == HEAD_KEY {
            return Some(Entry::Head);
        }
        if *key == TEXT_KEY {
            return Some(Entry::Text);
        }
        let (kind, id) = key.split_first()?;
        let id = u64::from_be_bytes(id.try_into().ok()?);
        match *kind {
            NODE => Some(Entry::Node(id)),
            RECORD => Some(Entry::Record(id)),
            _ => None,
        }
    }
}

/// The head, which names the root of the counted tree.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// 00: the first id that was never used. Ids begin with 1.
    pub next_id: U64,
    /// 08: the number of records.
    pub count: U64,
    /// 16: the id of the root node; zero if there is no record.
    pub root: U64,
    /// 24: zero.
    pub unused: U64,
}

const _: () = assert!(size_of::<Head>() == 32);

impl Head {
    /// Returns the head of a list that was never written to.
    pub fn new() -> Head {
        Head { next_id: 1.into(), ..Head::default() }
    }

    /// Reads a head; `None` if the bytes are no valid head.
    pub fn of(bytes: &[u8]) -> Option<Head> {
        let head = Head::read_from_bytes(bytes).ok()?;
        let is_empty = head.count.get() == 0;
        let fits = is_empty == (head.root.get() == 0) && head.root.get() < head.next_id.get() && head.unused.get() == 0;
        fits.then_some(head)
    }

    /// Returns a new id.
    pub(crate) fn take_id(&mut self) -> u64 {
        let id = self.next_id.get();
        self.next_id = (id + 1).into();
        id
    }
}

/// The notes on a list's text file.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TextNotes {
    /// 00: the last text that equalled the list.
    pub last: TextNote,
    /// 16: the text that is being written; equal to `last` if no write runs.
    pub next: TextNote,
}

const _: () = assert!(size_of::<TextNotes>() == 32);

impl TextNotes {
    /// Returns the notes for a file that equals the list.
    pub fn both(note: TextNote) -> TextNotes {
        TextNotes { last: note, next: note }
    }
}

/// The identity of a text.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TextNote {
    /// 00: the text's length in bytes, including the end of the last record.
    pub bytes: U64,
    /// 08: the FNV-1a hash of the text's bytes.
    pub hash: U64,
}

const _: () = assert!(size_of::<TextNote>() == 16);

impl TextNote {
    /// Returns the note of a text.
    pub fn of(text: &[u8]) -> TextNote {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325, step);
        TextNote { bytes: (text.len() as u64).into(), hash: hash.into() }
    }
}

/// A child of a node: a record, if the node is a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The child's id.
    pub id: u64,
    /// The number of records below the child; 1 for a record.
    pub count: u64,
}

/// A node of the counted tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node's level above the leaves.
    pub level: u8,
    /// The node's children, in the order of the records.
    pub children: Vec<Child>,
}

impl Node {
    /// Reads a node; `None` if the bytes are no valid node.
    pub fn of(bytes: &[u8]) -> Option<Node> {
        let (&level, rest) = bytes.split_first()?;
        let child_bytes = if level == 0 { LEAF_CHILD_BYTES } else { INNER_CHILD_BYTES };
        if rest.is_empty() || rest.len() % child_bytes != 0 {
            return None;
        }
        let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let child = |bytes: &[u8]| match level {
            0 => Some(Child { id: word(bytes)?, count: 1 }),
            _ => Some(Child { id: word(&bytes[..8])?, count: word(&bytes[8..])? }),
        };
        let children: Option<Vec<Child>> = rest.chunks_exact(child_bytes).map(child).collect();
        let node = Node { level, children: children? };
        node.checked_count()?;
        Some(node)
    }

    /// Returns the number of records below the node; `None` if the sum overflows, or a child has no records.
    fn checked_count(&self) -> Option<u64> {
        let mut count = 0_u64;
        for child in &self.children {
            count = count.checked_add(child.count).filter(|_| child.count != 0)?;
        }
        Some(count)
    }

    /// Returns the node's bytes in the tree.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NODE_HEAD_BYTES + self.children.len() * INNER_CHILD_BYTES);
        bytes.push(self.level);
        for child in &self.children {
            bytes.extend_from_slice(&child.id.to_le_bytes());
            if self.level != 0 {
                bytes.extend_from_slice(&child.count.to_le_bytes());
            }
        }
        bytes
    }

    /// Returns the number of records below the node.
    pub fn count(&self) -> u64 {
        self.children.iter().map(|child| child.count).sum()
    }

    /// Returns the largest number of children of a node on a level.
    pub(crate) fn capacity(page_bytes: usize, level: u8) -> usize {
        let child_bytes = if level == 0 { LEAF_CHILD_BYTES } else { INNER_CHILD_BYTES };
        (page_bytes / NODES_PER_PAGE - NODE_HEAD_BYTES) / child_bytes
    }

    /// Finds the record after the first `index` records of this node. Returns the index of the child that has the
    /// record, and the number of the child's records before the record. If `index` is the number of all records,
    /// returns the place after the last record.
    pub(crate) fn place(&self, index: u64) -> (usize, u64) {
        let mut before = 0;
        for (at, child) in self.children.iter().enumerate() {
            if index < before + child.count {
                return (at, index - before);
            }
            before += child.count;
        }
        match (self.level, self.children.last()) {
            (0, _) | (_, None) => (self.children.len(), 0),
            (_, Some(last)) => (self.children.len() - 1, last.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_head_are_the_same_after_they_were_stored() {
        let child = |id, count| Child { id, count };
        let leaf = Node { level: 0, children: vec![child(7, 1), child(3, 1)] };
        let inner = Node { level: 2, children: vec![child(9, 100), child(8, 1)] };
        assert_eq!(Node::of(&leaf.to_bytes()), Some(leaf.clone()));
        assert_eq!(Node::of(&inner.to_bytes()), Some(inner.clone()));
        assert_eq!((leaf.count(), inner.count()), (2, 101));
        assert_eq!((leaf.to_bytes().len(), inner.to_bytes().len()), (17, 33));
        assert_eq!(Head::of(Head::new().as_bytes()), Some(Head::new()));
        for key in [Entry::Node(5), Entry::Record(u64::MAX), Entry::Head, Entry::Text] {
            let bytes = match key {
                Entry::Text => TEXT_KEY.to_vec(),
                Entry::Head => HEAD_KEY.to_vec(),
                Entry::Node(id) => node_key(id).to_vec(),
                Entry::Record(id) => record_key(id).to_vec(),
            };
            assert_eq!(Entry::of(&bytes), Some(key));
        }
        assert_eq!(Entry::of(b""), None);
        assert_eq!(Entry::of(b"\x03\0\0\0\0\0\0\0\x01"), None);
    }

    #[test]
    fn bytes_that_are_no_node_read_as_none() {
        for bytes in [&b""[..], b"\0", b"\0\x01\x02", b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(Node::of(bytes), None, "{bytes:?}");
        }
        let two = Node { level: 1, children: vec![Child { id: 1, count: u64::MAX }, Child { id: 2, count: 1 }] };
        assert_eq!(Node::of(&two.to_bytes()), None);
        let head = Head { count: 1.into(), ..Head::new() };
        assert_eq!(Head::of(head.as_bytes()), None);
    }

    #[test]
    fn a_place_is_found_by_the_counts() {
        let child = |id, count| Child { id, count };
        let inner = Node { level: 1, children: vec![child(1, 3), child(2, 1), child(3, 2)] };
        let places: Vec<(usize, u64)> = (0..=6).map(|index| inner.place(index)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]);
        let leaf = Node { level: 0, children: vec![child(1, 1), child(2, 1)] };
        assert_eq!([0, 1, 2].map(|index| leaf.place(index).0), [0, 1, 2]);
    }

    #[test]
    fn nodes_of_the_smallest_pages_have_several_children() {
        assert!(Node::capacity(512, 0) >= 4 && Node::capacity(512, 1) >= 3);
        assert_eq!((Node::capacity(8192, 0), Node::capacity(8192, 1)), (127, 63));
    }
}
