//! Comparison functions that the library has a name for, so that a file that is shared can be in their order
//! (docs/design/0011).

use std::ffi::c_int;

use crate::db::dbt::{compare, Dbt};

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_descending(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| other.cmp(one))
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_caseless(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| {
        one.iter().map(u8::to_ascii_lowercase).cmp(other.iter().map(u8::to_ascii_lowercase))
    })
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_little_endian(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| one.iter().rev().cmp(other.iter().rev()))
}
