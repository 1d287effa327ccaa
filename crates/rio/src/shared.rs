//! The types that shared memory may contain, and the macro that declares them.
//!
//! A shared type is made of atomic words and nothing else. So any bytes are a valid value of the type, another process
//! may store to the value at any time, and the value means the same at every address.
//!
//! [`shared!`](crate::shared) gives each type a number. The number is made of the type's name, size and alignment, and
//! of each field's name, type and place, with the number of the field's type. Each manager combines the numbers of its
//! types ([`layout!`](crate::layout)), and the library combines the numbers of the managers. Two builds with different
//! numbers refuse each other's regions (PROTOCOLS F1). The number does not cover the meaning of a word's bits.

use crate::{Atom, Bits, Checkable, Checked, LayoutHash, Link, Word};

/// A type whose values a region may contain. Declare it with [`shared!`](crate::shared); do not implement it by hand.
///
/// # Safety
/// Every field is an atomic word, another `Shared` type, or an array of these; there is no padding; every bit pattern,
/// zero included, is valid; the type holds no address, reference or descriptor.
pub unsafe trait Shared: Sync + 'static {
    /// A number that differs between layouts and between names ([`layout!`](crate::layout)).
    const LAYOUT: u64;
}

// SAFETY: one atomic integer; every pattern is a value because `Bits::from_raw` is total.
unsafe impl<T: Bits> Shared for Word<T>
where
    Word<T>: Sync,
{
    // `T` is not included here: the number of a struct already includes the text of each field's type, which names `T`.
    const LAYOUT: u64 = LayoutHash::new().text("Word").number(T::Raw::BYTES as u64).get();
}
// SAFETY: one atomic `u64`, transparently; every pattern is a value, because it is checked when it is read.
unsafe impl<T: Checkable> Shared for Checked<T>
where
    Checked<T>: Sync,
{
    // As for `Word`, with the bits of the check in addition.
    const LAYOUT: u64 = LayoutHash::new().text("Checked").number(T::FREE).get();
}
// SAFETY: one atomic `u64`; every use of an offset checks it.
unsafe impl<T: 'static> Shared for Link<T> {
    // The number of the target type is not included: links may form a circle.
    const LAYOUT: u64 = LayoutHash::new().text("Link").get();
}
// SAFETY: an array of `Shared` has no padding between elements and adds nothing of its own.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {
    const LAYOUT: u64 = LayoutHash::new().text("array").number(T::LAYOUT).number(N as u64).get();
}

/// Declares a type for shared memory: `repr(C)`, every field proved `Shared`, the size and the absence of padding
/// proved at compile time. The manager that owns the type names it in its [`layout!`](crate::layout).
///
/// ```
/// rio::shared! {
///     /// A counter and its name.
///     pub struct Counter { pub value: rio::Word<u64>, pub name: [rio::Word<u64>; 2] } size 24
/// }
/// ```
/// A type with a reference in it does not compile:
/// ```compile_fail
/// rio::shared! { /// No.
///     pub struct Bad { pub text: &'static str } size 16 }
/// ```
/// A type with padding does not compile, either:
/// ```compile_fail
/// rio::shared! { /// No.
///     pub struct Bad { pub small: rio::Word<u32>, pub large: rio::Word<u64> } size 16 }
/// ```
#[macro_export]
macro_rules! shared {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty),* $(,)? } size $size:literal) => {
        $(#[$meta])*
        #[repr(C)]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $type),* }
        const _: () = {
            assert!(::core::mem::size_of::<$name>() == $size, "the declared size is wrong");
            assert!(0 $(+ ::core::mem::size_of::<$type>())* == $size, "a shared type may have no padding");
            const fn all_shared<T: $crate::Shared>() {}
            $(all_shared::<$type>();)*
        };
        // SAFETY: `repr(C)`; the constant above proves that every field is `Shared` and that there is no padding.
        unsafe impl $crate::Shared for $name {
            const LAYOUT: u64 = $crate::LayoutHash::new()
                .text(stringify!($name))
                .number(::core::mem::size_of::<$name>() as u64)
                .number(::core::mem::align_of::<$name>() as u64)
                $(.text(stringify!($field))
                    .text(stringify!($type))
                    .number(::core::mem::offset_of!($name, $field) as u64)
                    .number(<$type as $crate::Shared>::LAYOUT))*
                .get();
        }
    };
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
                    /// The text of this type is the same in every module.
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
            /// The same type as the original.
            pub struct Pair { pub left: Word<u64>, pub right: Word<u64> } size 16
        }
        const _: fn(&Pair) = |pair| {
            let _ = (&pair.left, &pair.right);
        };
    }

    #[test]
    fn every_change_of_a_type_changes_its_number_and_the_number_of_its_container() {
        assert_eq!(<again::Pair as Shared>::LAYOUT, NUMBERS[0].1, "the same text has the same number");
        let pairs: HashSet<u64> = NUMBERS.iter().map(|(_, pair, _)| *pair).collect();
        let holders: HashSet<u64> = NUMBERS.iter().map(|(_, _, holder)| *holder).collect();
        assert_eq!((pairs.len(), holders.len()), (NUMBERS.len(), NUMBERS.len()), "{NUMBERS:x?}");
    }

    #[test]
    fn the_number_of_several_types_depends_on_each_type_and_on_their_order() {
        let all = [
            crate::layout![original::Pair],
            crate::layout![original::Pair, original::Holder],
            crate::layout![original::Holder, original::Pair],
            crate::layout![another_type::Pair, original::Holder],
        ];
        assert_eq!(HashSet::from(all).len(), all.len());
    }
}
