//! Stand-ins until the managers land.
pub use rio::BytesMut as PageMut;
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Lsn(u64);
impl Lsn {
    pub const NONE: Lsn = Lsn(0);
    pub const fn new(n: u64) -> Lsn { Lsn(n) }
    pub const fn raw(self) -> u64 { self.0 }
    pub const fn is_none(self) -> bool { self.0 == 0 }
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);
