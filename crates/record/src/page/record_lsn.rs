//! What every record carries, whatever the access method: the LSN of its last change, and its flags in the same word.
//!
//! The LSN leads to the log record that made this version, which holds the one before and *its* LSN: the log is the version
//! store (DESIGN 7). An undone change gives a record its old LSN back (PROTOCOLS S3).

use libtp_log::Lsn;
use libtp_txn::Damage;
use zerocopy::little_endian::U64;

/// What is true of a record beside its bytes. Stored in the top byte of the record's LSN.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordFlags(pub u8);

impl RecordFlags {
    /// A plain record.
    pub const NONE: RecordFlags = RecordFlags(0);
    /// Deleted (or never committed), still on the page: a key, not a record.
    pub const GHOST: RecordFlags = RecordFlags(1);
    /// The stored value is (before what else it holds) a reference to a chain of overflow pages.
    pub const OVERFLOW: RecordFlags = RecordFlags(2);
    /// The stored value ends in a reference to a chain that the last change replaced and that is to be freed when the
    /// transaction has ended.
    pub const REPLACED: RecordFlags = RecordFlags(4);

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: RecordFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[inline]
    pub fn with(self, other: RecordFlags) -> RecordFlags {
        RecordFlags(self.0 | other.0)
    }

    /// These bits without those of `other`.
    #[inline]
    pub fn without(self, other: RecordFlags) -> RecordFlags {
        RecordFlags(self.0 & !other.0)
    }
}

impl std::fmt::Debug for RecordFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [(Self::GHOST, "ghost"), (Self::OVERFLOW, "overflow"), (Self::REPLACED, "replaced")];
        let set: Vec<&str> = names.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name).collect();
        f.write_str(if set.is_empty() { "plain" } else { "" })?;
        f.write_str(&set.join("+"))
    }
}

const LSN_BITS: u32 = 56;

/// A record's LSN and flags in one word.
#[inline]
pub fn pack_lsn(lsn: Lsn, flags: RecordFlags) -> u64 {
    debug_assert!(lsn.raw() >> LSN_BITS == 0, "an LSN passes 2^56 after 72 petabytes of log");
    (u64::from(flags.0) << LSN_BITS) | lsn.raw()
}

/// Refuses what is no LSN of a record: one that a log record says it had.
///
/// # Errors
/// It has too many bits.
pub fn check_lsn(lsn: U64) -> Result<(), Damage> {
    if lsn.get() >> LSN_BITS == 0 {
        return Ok(());
    }
    Err(Damage(format!("the log record says of a record that it had LSN {lsn}, which no log reaches")))
}

/// Takes the word apart again.
#[inline]
pub fn unpack_lsn(word: u64) -> (Lsn, RecordFlags) {
    let [.., top] = word.to_le_bytes();
    (Lsn::new(word & ((1 << LSN_BITS) - 1)), RecordFlags(top))
}
