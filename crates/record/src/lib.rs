//! Record Manager.
#![forbid(unsafe_code)]
pub mod btree;
pub mod free_pages;
pub mod key_hash;
pub mod page;
mod page_header;
mod stand_in;
