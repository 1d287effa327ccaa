//! SQLite, with its B-tree layer on libtp: SQL that many processes write at once.
//!
//! The library is SQLite with a second set of the functions of its `btree.h`. A database that is a file goes to
//! SQLite's own code. A database that is an environment
//! ([`docs/sql.md`](https://github.com/libtp/libtp/blob/main/docs/sql.md) states which database is an environment) goes
//! through the shim in `c/` to this crate, which uses the public interface of `libtp` and nothing below it.
//!
//! `chosen` reads the list of files that are environments whatever their names. From below upwards: `owned` holds
//! transactions and cursors without lifetimes; `home` is an environment in this process, with its trees (`roots`),
//! header values (`meta`), `settings` and numbers of rows (`rowid`); `keys` encodes keys of indices in bytes; `session`
//! is the transaction of a connection, and `spans` its reads; `cursor` is a place in a tree; `connection` has a session
//! and its cursors; `door` is the part that C calls.
#![deny(unsafe_code)]

mod answer;
mod arguments;
mod chosen;
mod connection;
mod cursor;
mod door;
mod home;
mod keys;
mod meta;
mod owned;
mod roots;
mod rowid;
mod session;
mod settings;
mod spans;

/// SQLite for programs in Rust: `rusqlite`, whose calls are to this crate's SQLite (feature `rusqlite`).
#[cfg(feature = "rusqlite")]
pub use rusqlite;
