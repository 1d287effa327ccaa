//! The log records of pages whose contents the program defines.
//!
//! Paper: LIBTP 3.2.1 and 4.4: "all log records are referenced by a header structure, a log record type, and a
//! character buffer"; before and after images. Departure: all these log records have the same record type of
//! the library, and the body has the code and name of the program's type. So a process without the program's type can
//! redo the change, and can name the missing type in an error. Byte tables: docs/formats/log.md.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::IntoBytes;

use crate::btree::difference::Difference;
use crate::log_body::{body, read, short, take};
use libtp_txn::{Damage, Signature};

/// A change of a page's bytes. Roles: the page, the meta page if the file grows. Undo: by the program's function, or by
/// the old bytes.
pub const CHANGE: u16 = 128;
/// The compensation of [`CHANGE`].
pub const RESTORE: u16 = 129;

/// The longest name of a type.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest argument of a record.
pub const ARGUMENT_BYTES_MAX: usize = 64 << 10;
/// A flag in [`Change::flags`]: the program's function undoes the change.
pub const LOGICAL: u8 = 1;

body! {
    /// Body of [`CHANGE`], followed by the type's name, the argument, the old bytes and the new bytes.
    Change, 24 {
        /// 00: the page.
        page: U64,
        /// 08: the page count afterwards if the page is new, otherwise zero.
        page_count: U32,
        /// 12: bytes of the argument.
        argument_bytes: U32,
        /// 16: the offset on the page at which the change begins.
        at: U16,
        /// 18: number of bytes that change.
        bytes: U16,
        /// 20: the code of the program's type, zero for none.
        code: U16,
        /// 22: bytes of the name of the program's type.
        name_bytes: u8,
        /// 23: 1 if the program's function undoes the change.
        flags: u8,
    }
}

body! {
    /// Body of [`RESTORE`], followed by the bytes that are restored.
    Restore, 16 {
        /// 00: the page.
        page: U64,
        /// 08: the offset on the page at which the bytes are stored.
        at: U16,
        /// 10: number of bytes that follow.
        bytes: U16,
        /// 12: zero.
        unused: U32,
    }
}

/// The parsed body of a page change.
pub struct Parsed<'b> {
    /// The fixed part of the body.
    pub record: &'b Change,
    /// The name of the program's type.
    pub name: &'b [u8],
    /// The argument of the program's functions.
    pub argument: &'b [u8],
    /// The bytes before the change.
    pub before: &'b [u8],
    /// The bytes after the change.
    pub after: &'b [u8],
}

/// Reads the body of a [`CHANGE`].
///
/// # Errors
/// The body is shorter than its lengths state.
pub fn parse(body: &[u8]) -> Result<Parsed<'_>, Damage> {
    let (record, mut rest) = read::<Change>(body)?;
    let bytes = usize::from(record.bytes.get());
    let name = take(&mut rest, record.name_bytes.into())?;
    let argument = take(&mut rest, record.argument_bytes.get() as usize)?;
    let before = take(&mut rest, bytes)?;
    let after = take(&mut rest, bytes)?;
    Ok(Parsed { record, name, argument, before, after })
}

/// Returns the program's type of a record; `None` if the record has none.
pub fn signature(kind: u16, body: &[u8]) -> Option<Signature> {
    if kind != CHANGE {
        return None;
    }
    let parsed = parse(body).ok().filter(|parsed| parsed.record.code.get() != 0)?;
    Some(Signature {
        code: parsed.record.code.get(),
        name: String::from_utf8_lossy(parsed.name).into_owned(),
        is_logical: parsed.record.flags & LOGICAL != 0,
    })
}

/// The program's type, and the argument of its functions.
#[derive(Clone, Copy, Default)]
pub struct Typed<'t> {
    /// The type's code, zero for none.
    pub code: u16,
    /// The type's name.
    pub name: &'t str,
    /// Whether the type's function undoes the change.
    pub is_logical: bool,
    /// The argument of the type's functions.
    pub argument: &'t [u8],
}

/// Returns an offset on a page as 16 bits. Returns zero if there are no bytes: the offset after the last byte of the
/// largest page would not fit.
fn place(at: usize, bytes: usize) -> U16 {
    short(if bytes == 0 { 0 } else { at })
}

/// Appends the body of a change that replaces the bytes `before` by `after`, from the offset `begin` on.
pub fn encode_change(
    body: &mut Vec<u8>,
    page: u64,
    page_count: u32,
    typed: &Typed<'_>,
    (begin, before, after): (usize, &[u8], &[u8]),
) {
    let middle = Difference::between(before, after);
    let (changed, name) = (middle.offset..middle.offset + middle.cut, typed.name.as_bytes());
    let record = Change {
        page: page.into(),
        page_count: page_count.into(),
        argument_bytes: u32::try_from(typed.argument.len()).expect("an argument has at most 64 KiB").into(),
        at: place(begin + middle.offset, middle.cut),
        bytes: short(middle.cut),
        code: typed.code.into(),
        name_bytes: u8::try_from(name.len()).expect("a name has at most 64 bytes"),
        flags: if typed.is_logical { LOGICAL } else { 0 },
    };
    body.extend_from_slice(record.as_bytes());
    for part in [name, typed.argument, &before[changed.clone()], &after[changed]] {
        body.extend_from_slice(part);
    }
}

/// Appends the body of a compensation that stores these bytes at offset `at`.
pub fn encode_restore(body: &mut Vec<u8>, page: u64, at: usize, bytes: &[u8]) {
    let record = Restore { page: page.into(), at: place(at, bytes.len()), bytes: short(bytes.len()), unused: 0.into() };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(bytes);
}
