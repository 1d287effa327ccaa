//! The word that every record has in every access method: the LSN of its last change, and its flags.
//!
//! The LSN leads to the log record that made this version. That log record has the previous version and the LSN of the
//! *previous* version: the log is the version store. The undo of a change restores the record's old LSN (PROTOCOLS S3).

use libtp_log::Lsn;
use libtp_txn::Damage;

/// Flags of a record, stored in the top byte of its LSN.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordFlags(pub u8);

impl RecordFlags {
    /// A plain record.
    pub const NONE: RecordFlags = RecordFlags(0);
    /// A key without a record: the record was deleted, or its insertion was undone, and the key is still on the page.
    pub const GHOST: RecordFlags = RecordFlags(1);
    /// The stored value is (or begins with) a reference to a chain of overflow pages.
    pub const OVERFLOW: RecordFlags = RecordFlags(2);
    /// The stored value ends in a reference to a chain that the last change replaced. The chain is freed after the
    /// transaction has ended.
    pub const REPLACED: RecordFlags = RecordFlags(4);

    /// Returns whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: RecordFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets of bits.
    #[inline]
    pub fn with(self, other: RecordFlags) -> RecordFlags {
        RecordFlags(self.0 | other.0)
    }

    /// Returns these bits without the bits of `other`.
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

/// Packs a record's LSN and flags into one word.
#[inline]
pub fn pack_lsn(lsn: Lsn, flags: RecordFlags) -> u64 {
    debug_assert!(lsn.raw() >> LSN_BITS == 0, "an LSN passes 2^56 after 72 petabytes of log");
    (u64::from(flags.0) << LSN_BITS) | lsn.raw()
}

/// Returns a record's LSN. Log records store an eighth of the LSN: `eighth`.
///
/// # Errors
/// No log can reach that LSN: it has too many bits.
pub fn lsn_of_eighth(eighth: u64) -> Result<Lsn, Damage> {
    if eighth >> (LSN_BITS - 3) == 0 {
        return Ok(Lsn::new(eighth << 3));
    }
    Err(Damage(format!("the log record names LSN 8 * {eighth} as an earlier LSN, which no log reaches")))
}

/// Unpacks the word. An LSN is a multiple of eight, and log records store it divided by eight. So the lowest three bits
/// are ignored: they are zero except in a damaged word.
#[inline]
pub fn unpack_lsn(word: u64) -> (Lsn, RecordFlags) {
    let [.., top] = word.to_le_bytes();
    (Lsn::new(word & ((1 << LSN_BITS) - 8)), RecordFlags(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lsn_of_a_damaged_word_can_be_stored_in_a_log_record() {
        let (lsn, flags) = unpack_lsn(0x0100_0000_0000_100D);
        assert_eq!((lsn, flags), (Lsn::new(0x1008), RecordFlags::GHOST));
        assert_eq!(lsn_of_eighth(lsn.raw() / 8), Ok(lsn));
    }
}
