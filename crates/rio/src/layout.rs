//! One number for the layout of a build's shared types.
//!
//! [`shared!`](crate::shared) gives each type a number, made of its name, its size and alignment, and each field's
//! name, type and place, with the number of the field's type. Each manager combines the numbers of its types
//! ([`layout!`](crate::layout)), and the library combines those of the managers. Two builds with different numbers
//! refuse each other's regions (PROTOCOLS F1).
//!
//! The number does not cover the meaning of a word's bits.

/// A hash (FNV-1a) that is made at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutHash(u64);

impl LayoutHash {
    /// Makes the hash of nothing.
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

/// The number of several shared types together: `layout![Header, Slot]`.
#[macro_export]
macro_rules! layout {
    ($($type:ty),* $(,)?) => {
        $crate::LayoutHash::new()$(.number(<$type as $crate::Shared>::LAYOUT))*.get()
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::Shared;

    /// A type `Pair` and a type that holds it, in several variants, each in a module of its own.
    macro_rules! written {
        ($($module:ident: $($field:ident $type:ty),*; $size:literal in $holder:literal)*) => {
            $(mod $module {
                use crate::Word;
                crate::shared! {
                    /// A pair, mostly of two words.
                    pub struct Pair { $(pub $field: $type),* } size $size
                }
                crate::shared! {
                    /// Looks the same everywhere.
                    pub struct Holder { pub pair: Pair, pub last: Word<u64> } size $holder
                }
                // The tests use only the layouts.
                const _: fn(&Holder) = |holder| { $(let _ = &holder.pair.$field;)* let _ = &holder.last; };
            })*
            /// For each module, the number of the pair and of its holder.
            const NUMBERS: &[(&str, u64, u64)] =
                &[$((stringify!($module), <$module::Pair as Shared>::LAYOUT, <$module::Holder as Shared>::LAYOUT)),*];
        };
    }

    written! {
        original: left Word<u64>, right Word<u64>; 16 in 24
        another_order: right Word<u64>, left Word<u64>; 16 in 24
        another_type: left Word<u64>, right [Word<u32>; 2]; 16 in 24
        another_name: left Word<u64>, other Word<u64>; 16 in 24
        another_length: left [Word<u64>; 1], right [Word<u64>; 1]; 16 in 24
        one_more: left Word<u64>, right Word<u64>, third Word<u64>; 24 in 32
    }
    mod again {
        use crate::Word;
        crate::shared! {
            /// As the original.
            pub struct Pair { pub left: Word<u64>, pub right: Word<u64> } size 16
        }
        const _: fn(&Pair) = |pair| {
            let _ = (&pair.left, &pair.right);
        };
    }

    #[test]
    fn whatever_changes_in_a_type_changes_its_number_and_that_of_what_it_lies_in() {
        assert_eq!(<again::Pair as Shared>::LAYOUT, NUMBERS[0].1, "the same text has the same number");
        let pairs: HashSet<u64> = NUMBERS.iter().map(|(_, pair, _)| *pair).collect();
        let holders: HashSet<u64> = NUMBERS.iter().map(|(_, _, holder)| *holder).collect();
        assert_eq!((pairs.len(), holders.len()), (NUMBERS.len(), NUMBERS.len()), "{NUMBERS:x?}");
    }

    #[test]
    fn each_type_counts_in_the_number_of_several_and_so_does_their_order() {
        let all = [
            crate::layout![original::Pair],
            crate::layout![original::Pair, original::Holder],
            crate::layout![original::Holder, original::Pair],
            crate::layout![another_type::Pair, original::Holder],
        ];
        assert_eq!(HashSet::from(all).len(), all.len());
    }
}
