//! Which types may lie in shared memory, and the macro that declares them.
//!
//! A shared type is made of atomic words and nothing else: any bytes are a valid value of it, another process may store
//! to it at any time, and it means the same at every address.

use crate::{Atom, Bits, Checkable, Checked, LayoutHash, Link, Word};

/// A type that may lie in a region. Declare it with [`shared!`](crate::shared); do not implement it by hand.
///
/// # Safety
/// Every field is an atomic word, an array of such, or another `Shared` type; there is no padding; every bit pattern,
/// zero included, is valid; it holds no address, reference or descriptor.
pub unsafe trait Shared: Sync + 'static {
    /// A number that differs between layouts and between names ([`layout!`](crate::layout)).
    const LAYOUT: u64;
}

// SAFETY: one atomic integer; every pattern is a value because `Bits::from_raw` is total.
unsafe impl<T: Bits> Shared for Word<T>
where
    Word<T>: Sync,
{
    // The meaning of the word is in the text of the field's type.
    const LAYOUT: u64 = LayoutHash::new().text("Word").number(T::Raw::BYTES as u64).get();
}
// SAFETY: one atomic `u64`, transparently; every pattern is a value, because it is checked when it is read.
unsafe impl<T: Checkable> Shared for Checked<T>
where
    Checked<T>: Sync,
{
    // As above, with the bits of the check.
    const LAYOUT: u64 = LayoutHash::new().text("Checked").number(T::FREE).get();
}
// SAFETY: one atomic `u64`; an offset is checked when it is followed.
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
/// Nor does one with padding:
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
