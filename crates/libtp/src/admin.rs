//! The work of an administrator: backup and restore, watching, counts, and the copy of a damaged file.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod filling;
pub(crate) mod look;
pub(crate) mod opening;
pub(crate) mod restore;
pub(crate) mod salvage;
pub(crate) mod stats;
pub(crate) mod versions;
pub(crate) mod watching;
