//! Record Manager.
#![forbid(unsafe_code)]
pub mod btree;
pub mod free_pages;
pub mod key_hash;
mod log_body;
pub mod page;
pub mod recno;
mod page_header;
mod stand_in;
