//! The shared memory as one handle uses it: the present generation, the sessions, and the library's threads.
//!
//! This floor guards each call that enters the shared memory. When the region is broken, it begins the next generation.

pub(crate) mod background;
pub(crate) mod blockers;
pub(crate) mod generation;
pub(crate) mod huge_pages;
pub(crate) mod idle_sessions;
pub(crate) mod inner;
pub(crate) mod kept_indices;
pub(crate) mod lasting;
pub(crate) mod leave;
pub(crate) mod open_database;
pub(crate) mod open_segment;
pub(crate) mod panics;
pub(crate) mod passed_on;
pub(crate) mod plain_files;
pub(crate) mod renewal;
pub(crate) mod sessions;
pub(crate) mod threads;
pub(crate) mod unclaimed;
pub(crate) mod visit;
pub(crate) mod visits;
