//! The order of a database's keys, if it is not the order of their bytes.
//!
//! Not in the paper; db(3) has a comparison function. Here an order is a *normalising* function: it encodes a key as
//! bytes whose order is the wanted order. The tree has only the encoded bytes, so no code below this file
//! knows of orders: searching, splitting, locking, undo and recovery work as for any keys. A process without the
//! function can also repair the tree (docs/design/0011-order-of-keys.md). Two keys that are equal in the order have the
//! same encoded bytes, so they have the same lock and the same record.
//!
//! Page 0 of the file has the order's name. A program that opens the file must give the same name.

use std::sync::Arc;

/// The longest name of an order, in bytes.
pub const ORDER_NAME_BYTES_MAX: usize = 64;

/// An order of keys.
///
/// Both functions must return the same bytes for the same input at any time, in every process and program version that
/// uses the database: the tree is sorted by their results. An order with a changed function needs another name.
pub trait Order: Send + Sync {
    /// Returns the order's name, which is stored in the file: 1 to 64 bytes.
    fn name(&self) -> &str;

    /// Appends the encoded key to `encoded`, which is empty. The encoded bytes have the wanted order of the keys.
    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>);

    /// Appends the key with this encoding to `key`, which is empty. If several equal keys have this encoding, always
    /// appends the same key.
    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>);
}

/// The reverse of the order of the bytes: from the greatest key to the smallest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descending;

impl Order for Descending {
    fn name(&self) -> &str {
        "descending"
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        // Every byte is inverted. A key must come after all keys of which it is a prefix, so two bytes of 255 end a
        // key. A zero byte of the key, inverted to 255, is followed by a 0 to distinguish it from the end.
        for &byte in key {
            encoded.push(!byte);
            if byte == 0 {
                encoded.push(0);
            }
        }
        encoded.extend_from_slice(&[255, 255]);
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        let mut bytes = encoded.iter();
        while let Some(&byte) = bytes.next() {
            if byte == 255 && bytes.next() != Some(&0) {
                return;
            }
            key.push(!byte);
        }
    }
}

/// An order in which A to Z and a to z are the same letters. Keys are stored in lower case.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsciiCaseless;

impl Order for AsciiCaseless {
    fn name(&self) -> &str {
        "ascii-caseless"
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        encoded.extend(key.iter().map(u8::to_ascii_lowercase));
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        key.extend_from_slice(encoded);
    }
}

/// The order of little-endian unsigned numbers of the same length.
#[derive(Clone, Copy, Debug, Default)]
pub struct LittleEndian;

impl Order for LittleEndian {
    fn name(&self) -> &str {
        "little-endian"
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        encoded.extend(key.iter().rev());
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        key.extend(encoded.iter().rev());
    }
}

/// An order of which only the name is known: keys are given and returned as their encoded bytes. Tools use this order
/// to copy encoded keys, because they do not have the programs' functions.
#[derive(Clone, Debug)]
pub struct AsStored {
    name: String,
}

impl AsStored {
    /// Returns the order with the name `name`.
    pub fn named(name: &str) -> AsStored {
        AsStored { name: name.to_string() }
    }
}

impl Order for AsStored {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        encoded.extend_from_slice(key);
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        key.extend_from_slice(encoded);
    }
}

impl Order for Arc<dyn Order> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        (**self).encode(key, encoded);
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        (**self).decode(encoded, key);
    }
}

/// Returns the order with the name `name`, if this module has it.
pub fn by_name(name: &str) -> Option<Arc<dyn Order>> {
    let known: [Arc<dyn Order>; 3] = [Arc::new(Descending), Arc::new(AsciiCaseless), Arc::new(LittleEndian)];
    known.into_iter().find(|order| order.name() == name)
}

/// An order's name as a file stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderName {
    bytes: [u8; ORDER_NAME_BYTES_MAX],
    length: usize,
}

impl OrderName {
    /// Returns a name; `None` if `name` is too long or empty.
    pub fn new(name: &str) -> Option<OrderName> {
        let mut bytes = [0; ORDER_NAME_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (!name.is_empty()).then_some(OrderName { bytes, length: name.len() })
    }

    /// Returns the name in the first `length` bytes. Returns `None` if these bytes are no name, or the other bytes are
    /// not zero.
    pub(crate) fn of_file(bytes: &[u8; ORDER_NAME_BYTES_MAX], length: u8) -> Option<OrderName> {
        let length = usize::from(length);
        let name = std::str::from_utf8(bytes.get(..length)?).ok()?;
        OrderName::new(name).filter(|name| name.bytes == *bytes)
    }

    pub(crate) fn bytes(&self) -> (&[u8; ORDER_NAME_BYTES_MAX], u8) {
        (&self.bytes, u8::try_from(self.length).unwrap_or(u8::MAX))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn encoded(order: &dyn Order, key: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        order.encode(key, &mut bytes);
        bytes
    }

    fn assert_orders(order: &dyn Order, wanted: impl Fn(&[u8], &[u8]) -> Ordering, keys: &[Vec<u8>]) {
        for a in keys {
            let mut again = Vec::new();
            order.decode(&encoded(order, a), &mut again);
            assert_eq!(wanted(a, &again), Ordering::Equal, "{}: {a:?} came back as {again:?}", order.name());
            for b in keys {
                assert_eq!(encoded(order, a).cmp(&encoded(order, b)), wanted(a, b), "{}: {a:?} {b:?}", order.name());
            }
        }
    }

    fn short_keys() -> Vec<Vec<u8>> {
        let bytes = [0, 1, 65, 97, 254, 255];
        let longer = |key: &Vec<u8>| bytes.map(|byte| [&key[..], &[byte]].concat());
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let more: Vec<_> = keys.iter().filter(|key| key.len() == length).flat_map(longer).collect();
            keys.extend(more);
        }
        keys
    }

    #[test]
    fn encoded_keys_have_the_order_that_the_program_wants() {
        let keys = short_keys();
        assert_orders(&Descending, |a, b| b.cmp(a), &keys);
        assert_orders(&AsciiCaseless, |a, b| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()), &keys);
        let numbers: Vec<Vec<u8>> = keys.into_iter().filter(|key| key.len() == 2).collect();
        assert_orders(&LittleEndian, |a, b| a.iter().rev().cmp(b.iter().rev()), &numbers);
    }

    #[test]
    fn a_stored_name_reads_back_unchanged() {
        let name = OrderName::new("descending").unwrap();
        let (bytes, length) = name.bytes();
        assert_eq!(OrderName::of_file(bytes, length), Some(name));
        assert_eq!(OrderName::of_file(bytes, 3), None, "bytes after the name");
        assert!(OrderName::new("").is_none() && OrderName::new(&"x".repeat(65)).is_none());
    }
}
