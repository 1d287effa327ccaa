//! The B-tree: a B-link tree of slotted pages. btree/README.md tells how it works.
//!
//! | file | what |
//! |---|---|
//! | `node`, `rebuild` | a page read; a page written as a whole |
//! | `search`, `get`, `scan` | down the tree; one record; record after record |
//! | `neighbour` | from one leaf to the next, either way |
//! | `insert`, `ghosts`, `long_value` | a record put or deleted; room made on a leaf; values too long for one |
//! | `range` | ranges of keys counted, deleted, cleared away |
//! | `unlink`, `absorb` | emptied leaves given back; pages above them that have one child |
//! | `load`, `filling`, `redo_load` | an empty tree made of sorted records, page after page |
//! | `dense` | a full leaf shares with its left neighbour before it splits, for who asks for it |
//! | `merge`, `redo_merge` | neighbouring leaves that hold little become one |
//! | `split`, `split_plan`, `post` | a page cut in two; where; its parent told |
//! | `log_records`, `encode`, `difference` | what is logged, and how it is put together |
//! | `redo`, `undo`, `record_types` | what a log record does to a page; how it is taken back; the list |
//! | `verify` | everything looked at |

mod absorb;
mod dense;
pub mod difference;
pub mod encode;
mod filling;
pub(crate) mod get;
pub(crate) mod ghosts;
pub(crate) mod insert;
pub mod load;
pub mod log_records;
pub(crate) mod long_value;
pub mod merge;
pub(crate) mod neighbour;
pub mod node;
mod post;
mod range;
pub mod rebuild;
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
mod update;
pub mod verify;

#[cfg(test)]
mod page_tests;

pub use scan::{BtreeCursor, Stand};
