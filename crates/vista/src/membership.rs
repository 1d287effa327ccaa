//! The environment to which a segment belongs: the header that names the environment, and the check at the opening.

use crate::{Error, Result};
use rio::{Offset, Region, RootSlot, Word};

/// The version of the header below.
const LAYOUT: u64 = rio::layout![MemberHeader];

rio::shared! {
    /// The header of a segment that belongs to an environment.
    pub struct MemberHeader {
        /// The layout of this header.
        pub layout: Word<u64>,
        /// The environment's id.
        pub environment: [Word<u64>; 2],
        /// The environment's number for the segment.
        pub number: Word<u64>,
        /// The transaction of the undo log; zero if there is no transaction.
        pub txn: Word<u64>,
        /// The handle at work on the transaction, by the environment's number; zero once that handle leaves the
        /// transaction to the log.
        pub holder: Word<u64>,
        /// The last decision that was followed: the log's incarnation.
        pub incarnation: Word<u64>,
        /// The last decision that was followed: the LSN.
        pub lsn: Word<u64>,
        /// The transaction whose decision is about to be followed. `ending_incarnation` and `ending_lsn` are valid
        /// while this number equals `txn`.
        pub ending: Word<u64>,
        /// The decision about to be followed: the log's incarnation.
        pub ending_incarnation: Word<u64>,
        /// The decision about to be followed: the LSN.
        pub ending_lsn: Word<u64>,
        /// The process of the handle at work, as the environment numbers it.
        pub process: Word<u64>,
        /// Zero, kept for later.
        pub spare: [Word<u64>; 4],
    } size 128
}

/// The environment that a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The environment's id.
    pub environment: [u8; 16],
    /// The environment's number for the segment. A new segment gets this number.
    pub number: u32,
}

/// Returns the header's offset, if the segment belongs to an environment.
pub(crate) fn owner_of(region: &Region) -> Option<Offset<MemberHeader>> {
    region.root(RootSlot::Owner)
}

/// Records the environment that a new segment belongs to.
pub(crate) fn found(region: &Region, member: Membership) -> Result<()> {
    let offset = region.allocate::<MemberHeader>(1)?;
    let header = region.at(offset);
    header.layout.init(LAYOUT);
    for (word, half) in header.environment.iter().zip(halves(member.environment)) {
        word.init(half);
    }
    header.number.init(u64::from(member.number));
    region.set_root(RootSlot::Owner, offset);
    Ok(())
}

/// Refuses a segment that is opened by another environment than its own, or without its environment. Called before
/// anything is stored in the segment.
pub(crate) fn check_owner(region: &Region, member: Option<Membership>) -> Result<()> {
    let path = || region.path().to_path_buf();
    match (owner_of(region), member) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Error::Alone { path: path() }),
        (Some(offset), member) => {
            let damaged = |what: &str| Error::Damaged { path: path(), what: what.into() };
            let header = region
                .try_at(offset)
                .ok_or_else(|| damaged("the header that names its environment is outside the file"))?;
            if header.layout.get() != LAYOUT {
                return Err(damaged(
                    "the header that names its environment has another layout, of another version of the library",
                ));
            }
            let found = header.environment.each_ref().map(Word::get);
            if member.is_some_and(|member| halves(member.environment) == found) {
                return Ok(());
            }
            Err(Error::Belongs { path: path(), environment: format!("{:016x}{:016x}", found[0], found[1]) })
        }
    }
}

fn halves(id: [u8; 16]) -> [u64; 2] {
    let (low, high) = id.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes")))
}
