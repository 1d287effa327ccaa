//! The B-tree. See btree/README.md.
pub mod difference;
pub mod encode;
pub mod log_records;
pub mod node;
pub mod rebuild;
pub mod redo;
pub mod split_plan;
#[cfg(test)]
mod page_tests;
