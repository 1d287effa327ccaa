//! The numbers of files and directories.

use crate::content::index;

/// The number of a file or directory on a simulated disk: 0 is the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        index(u64::from(self.0))
    }
}
