//! The B-tree: a B-link tree of slotted pages. btree/README.md explains the design.
//!
//! | file | contents |
//! |---|---|
//! | `search`, `descent`, `glance` | finds the leaf of a key; goes down with latches; reads an inner page without its latch |
//! | `get`, `value`, `scan` | reads one record; the record's value; reads record after record |
//! | `neighbour` | goes from one leaf to the next, in either direction |
//! | `change`, `insert` | puts and deletes records, also in a hash file; the code for a leaf |
//! | `update`, `part` | changes a value by a function; changes a part of a value in place, also in a hash file |
//! | `ghosts`, `horizon`, `long_value` | makes room on a leaf; versions that are still needed; values too long for a leaf |
//! | `range` | counts, deletes and cleans ranges of keys |
//! | `unlink`, `absorb`, `unlinked` | unlinks emptied leaves; absorbs inner pages that have one child; frees the unlinked pages |
//! | `load`, `filling`, `redo_load` | fills an empty tree with sorted records, page after page |
//! | `dense` | optional: a full leaf moves records to its left neighbour before it splits |
//! | `merge`, `redo_merge` | merges neighbouring leaves that hold little |
//! | `split`, `split_plan` | splits a page and posts the new page in the parent; chooses the separator |
//! | `log_records`, `encode`, `difference` | the log records, and how their bodies are built |
//! | `redo`, `undo`, `record_types` | redo and undo of the log records; their table |
//! | `verify` | checks the whole tree |

mod absorb;
pub(crate) mod change;
mod dense;
pub(crate) mod descent;
pub mod difference;
pub mod encode;
mod filling;
pub(crate) mod get;
pub(crate) mod ghosts;
mod glance;
pub(crate) mod horizon;
pub(crate) mod insert;
pub mod load;
pub mod log_records;
pub(crate) mod long_value;
pub mod merge;
pub(crate) mod neighbour;
mod part;
mod range;

pub mod record_types;
pub mod redo;
pub mod redo_load;
pub mod redo_merge;
pub(crate) mod scan;
pub(crate) mod search;
mod split;
pub mod split_plan;
pub mod undo;
mod unlink;
mod unlinked;
mod update;
pub(crate) mod value;
pub mod verify;

#[cfg(test)]
mod page_tests;

pub use scan::BtreeCursor;
