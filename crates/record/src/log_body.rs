//! The layout of a log record's body: a little-endian struct, then the bytes it counts.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use libtp_txn::Damage;

/// Declares the struct in front of a log record's body, and proves its size.
macro_rules! body {
    ($(#[$doc:meta])* $name:ident, $size:literal { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Unaligned, zerocopy::Immutable, zerocopy::KnownLayout,
            Clone, Copy, Debug, Default,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}
pub(crate) use body;

/// Takes the struct off the front of a body.
///
/// # Errors
/// The body is shorter than the struct.
#[inline]
pub fn read<T: FromBytes + KnownLayout + Immutable + Unaligned>(body: &[u8]) -> Result<(&T, &[u8]), Damage> {
    T::ref_from_prefix(body).map_err(|_| Damage("the log record is shorter than its type".into()))
}

/// Takes `count` bytes off the front.
///
/// # Errors
/// Fewer bytes are left.
#[inline]
pub fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], Damage> {
    let Some((front, rest)) = bytes.split_at_checked(count) else {
        return Err(Damage("the log record is shorter than the lengths in it say".into()));
    };
    *bytes = rest;
    Ok(front)
}

/// Converts a length or an index on a page to 16 bits.
pub fn short(value: usize) -> U16 {
    u16::try_from(value).expect("lengths and indexes on a page are below 64 KiB").into()
}

/// Returns the page number of a packed page identifier.
#[allow(clippy::cast_possible_truncation)] // only the low half is wanted
pub fn page_number(packed: u64) -> u32 {
    packed as u32
}

/// Returns the file of a packed page identifier.
#[allow(clippy::cast_possible_truncation)] // the high half of 64 bits is 32 bits
pub fn file_number(packed: u64) -> u32 {
    (packed >> 32) as u32
}
