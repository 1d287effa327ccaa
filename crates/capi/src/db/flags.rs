//! The flags of the calls, as in `db.h`.

use crate::db::refusal::{Answer, Refusal};

pub(crate) const R_CURSOR: u32 = 1;
pub(crate) const R_FIRST: u32 = 3;
pub(crate) const R_IAFTER: u32 = 4;
pub(crate) const R_IBEFORE: u32 = 5;
pub(crate) const R_LAST: u32 = 6;
pub(crate) const R_NEXT: u32 = 7;
pub(crate) const R_NOOVERWRITE: u32 = 8;
pub(crate) const R_PREV: u32 = 9;
pub(crate) const R_SETCURSOR: u32 = 10;
pub(crate) const R_RECNOSYNC: u32 = 11;

pub(crate) const R_DUP: u64 = 1;
pub(crate) const R_FIXEDLEN: u64 = 1;
pub(crate) const R_NOKEY: u64 = 2;
pub(crate) const R_SNAPSHOT: u64 = 4;

pub(crate) const DB_LOCK: u32 = 0x2000_0000;
pub(crate) const DB_SHMEM: u32 = 0x4000_0000;
pub(crate) const DB_TXN: u32 = 0x8000_0000;

pub(crate) fn unknown(call: &str, flags: u32) -> Refusal {
    Refusal::invalid(format!("{call} does not take the flag {flags} with a file of this type; nothing was changed"))
}

pub(crate) fn check_none(call: &str, flags: u32) -> Answer<()> {
    match flags {
        0 => Ok(()),
        other => Err(unknown(call, other)),
    }
}
