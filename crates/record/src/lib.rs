//! Record Manager: records in files of pages, by key (B-tree) or by number (recno), under transactions.
//!
//! Paper: LIBTP 3.2.6 and 4.4: the access routines of db(3), which call the log, lock and buffer managers, and define a
//! collection of log-record types with their redo and undo. [`record_types`] is that collection; the transaction manager
//! knows nothing else of this crate.
//!
//! | file | what |
//! |---|---|
//! | `open`, `database` | files made and found; a database as a process knows it |
//! | `access` | a database on behalf of a transaction: pages and locks |
//! | `btree`, `recno` | the access methods |
//! | `cursor` | one record after the other, whatever the method |
//! | `page`, `free_pages` | what pages look like; which are to be had |
//! | `key_hash`, `lock_names` | what the lock manager is asked for |
#![forbid(unsafe_code)]

pub mod access;
pub mod btree;
pub mod database;
mod error;
pub mod free_pages;
pub mod key_hash;
pub mod lock_names;
pub mod log_body;
pub mod page;
mod page_header;
mod pages;
pub mod recno;

pub use access::Access;
pub use database::{Database, Granularity, Method};
pub use error::{Error, Result};
