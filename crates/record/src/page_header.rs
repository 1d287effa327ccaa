//! stand-in
use crate::stand_in::*;
pub fn kind(p: &[u8]) -> u8 { p.get(20).copied().unwrap_or(0) }
pub fn level(p: &[u8]) -> u8 { p.get(21).copied().unwrap_or(0) }
pub fn deleter_lsn(p: &[u8]) -> Lsn { Lsn::new(u64::from_le_bytes(p[24..32].try_into().unwrap())) }
pub fn set_deleter_lsn(p: &mut PageMut<'_, '_>, l: Lsn) { p.range(24..32).copy_from_slice(&l.raw().to_le_bytes()) }
pub fn make_new(p: &mut [u8], file: u32, page: u32, kind: u8, level: u8) {
    p.fill(0);
    p[4..8].copy_from_slice(&page.to_le_bytes());
    p[16..20].copy_from_slice(&file.to_le_bytes());
    p[20] = kind;
    p[21] = level;
}
pub fn set_level(p: &mut [u8], level: u8) { p[21] = level; }
