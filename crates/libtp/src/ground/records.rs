//! Plain values about databases and their records.

/// Whether a key of a B-tree may have several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// A key has one value.
    #[default]
    None,
    /// A key has a set of values, in the order of their bytes.
    Sorted,
    /// A key has a list of values, in the order of their insertion.
    AsTheyCame,
}

same_variants!(libtp_record, Duplicates: None Sorted AsTheyCame);

/// A record's place and the hash of its key: sixteen bytes, which a program can store in other records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(pub(crate) libtp_record::Link);

impl Link {
    /// Returns the link as bytes, for storage in a record.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// Makes a link from stored bytes. Any sixteen bytes are accepted; a link from arbitrary bytes finds no record.
    pub fn from_bytes(bytes: [u8; 16]) -> Link {
        Link(libtp_record::Link::from_bytes(bytes))
    }
}

/// A fault of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The page.
    pub page: u32,
    /// The fault's description.
    pub what: String,
}

impl From<libtp_record::Finding> for Finding {
    fn from(finding: libtp_record::Finding) -> Finding {
        Finding { page: finding.page, what: finding.what }
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The faults; empty for an undamaged file.
    pub findings: Vec<Finding>,
    /// Records that are no ghosts.
    pub records: u64,
    /// Ghosts.
    pub ghosts: u64,
    /// Pages of the tree.
    pub tree_pages: u64,
    /// Pages that hold long values.
    pub value_pages: u64,
    /// Pages in the free list.
    pub free_pages: u64,
    /// Pages that are unlinked, and become free when no session can be on the way to them.
    pub unlinked_pages: u64,
}

impl From<libtp_record::Verified> for Verified {
    fn from(verified: libtp_record::Verified) -> Verified {
        Verified {
            findings: verified.findings.into_iter().map(Finding::from).collect(),
            records: verified.records,
            ghosts: verified.ghosts,
            tree_pages: verified.tree_pages,
            value_pages: verified.value_pages,
            free_pages: verified.free_pages,
            unlinked_pages: verified.unlinked_pages,
        }
    }
}
