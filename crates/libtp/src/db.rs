//! Databases: trees, hash files, lists and records by number, with cursors and indices.

pub(crate) mod any_kind;
pub(crate) mod compact;
pub(crate) mod cursor;
pub(crate) mod database;
pub(crate) mod databases;
mod debug;
pub(crate) mod handle;
pub(crate) mod index;
pub(crate) mod iterators;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod load;
mod many;
pub(crate) mod multi;
pub(crate) mod opening;
pub(crate) mod page_file;
mod part;
pub(crate) mod reader;
pub(crate) mod sort;
pub(crate) mod stored;
pub(crate) mod text_file;
