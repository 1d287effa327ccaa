//! The layout of a log record's body: a little-endian struct, then the bytes whose lengths the struct states.
//!
//! The struct begins with the packed identifier of the first page that the record changes. Other fields name a page of
//! the same file by its page number alone; zero means no page.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use libtp_buffer::PageId;
use libtp_txn::{Damage, PageList};

/// Declares the struct at the beginning of a log record's body, and proves its size.
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
    T::ref_from_prefix(body).map_err(|_| Damage("the log record is shorter than records of its type".into()))
}

/// Removes `count` bytes from the front of `bytes`, and returns them.
///
/// # Errors
/// Fewer bytes are left.
#[inline]
pub fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], Damage> {
    let Some((front, rest)) = bytes.split_at_checked(count) else {
        return Err(Damage("the log record is shorter than its lengths state".into()));
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

/// The result of a redo function.
pub(crate) type Redone = Result<(), Damage>;

/// Returns the error for a page that the log record does not name.
#[cold]
pub(crate) fn no_role(role: usize) -> Redone {
    Err(Damage(format!("the record has no page of role {role}")))
}

/// Returns the page whose identifier is at the beginning of the body.
pub(crate) fn first_page(body: &[u8]) -> PageList {
    let Some(packed) = body.first_chunk::<8>() else { return PageList::NONE };
    PageList::one(PageId::from_u64(u64::from_le_bytes(*packed)))
}

/// Returns the page whose identifier is at the beginning of the body, and other pages of its file, by role. Returns no
/// page if the body is too short.
pub(crate) fn pages_of<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    body: &[u8],
    others: impl FnOnce(&T) -> [u32; 3],
) -> PageList {
    let (Ok((record, _)), Some(packed)) = (read::<T>(body), body.first_chunk::<8>()) else { return PageList::NONE };
    let packed = u64::from_le_bytes(*packed);
    let sibling = |number: u32| PageId::from_u64((packed & !u64::from(u32::MAX)) | u64::from(number));
    let [second, third, fourth] = others(record).map(|number| (number != 0).then(|| sibling(number)));
    PageList::of([Some(PageId::from_u64(packed)), second, third, fourth])
}

/// The description of a body that is too short for its type.
pub(crate) const UNREADABLE: &str = "unreadable";

/// Returns a readable description of a body. `say` gets the struct, the name of the first page, and the bytes after the
/// struct.
pub(crate) fn describe<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    body: &[u8],
    say: impl FnOnce(&T, &str, &[u8]) -> String,
) -> String {
    let (Ok((record, rest)), Some(packed)) = (read::<T>(body), body.first_chunk::<8>()) else {
        return UNREADABLE.into();
    };
    say(record, &name_page(u64::from_le_bytes(*packed)), rest)
}

/// Returns a readable name of a page.
pub(crate) fn name_page(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

/// Formats the first `count` bytes for messages.
pub(crate) fn show_first(bytes: &[u8], count: U16) -> String {
    show(bytes.get(..usize::from(count.get())).unwrap_or_default())
}

/// Formats bytes for messages.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    let more = if bytes.len() > SHOWN { ".." } else { "" };
    format!("\"{}{more}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}
