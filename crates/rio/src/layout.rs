//! The hash that combines the layouts of a build's shared types into one number ([`layout!`](crate::layout)).

/// A hash (FNV-1a) that is made at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutHash(u64);

impl LayoutHash {
    /// Makes the hash of no input.
    #[must_use]
    pub const fn new() -> LayoutHash {
        LayoutHash(0xcbf2_9ce4_8422_2325)
    }

    const fn bytes(self, bytes: &[u8]) -> LayoutHash {
        let (mut hash, mut at) = (self.0, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
            at += 1;
        }
        LayoutHash(hash)
    }

    /// Adds a number.
    #[must_use]
    pub const fn number(self, number: u64) -> LayoutHash {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a text and its length.
    #[must_use]
    pub const fn text(self, text: &str) -> LayoutHash {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for LayoutHash {
    fn default() -> LayoutHash {
        LayoutHash::new()
    }
}
