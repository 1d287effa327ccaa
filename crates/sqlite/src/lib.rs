//! SQLite, with its B-tree layer on libtp: SQL databases that many processes can write at the same time.
//!
//! The library is SQLite with a second implementation of the functions of its `btree.h`. For a database that is a file,
//! SQLite's own functions run. For a database that is an environment
//! ([`docs/sql.md`](https://github.com/libtp/libtp/blob/main/docs/sql.md) says which databases are environments), the
//! shim in `c/` calls this crate, which uses only the public interface of `libtp`.
//!
//! | module | contents |
//! |---|---|
//! | `door` | the functions that the shim calls, with `arguments` and `answer` |
//! | `connection` | a session and its cursors |
//! | `cursor` | a cursor over a tree |
//! | `session`, `spans` | the transaction of a connection, and the key ranges that it has read |
//! | `keys` | the encoding of keys |
//! | `home`, `roots` | an environment that is open in this process, and its trees |
//! | `meta`, `settings`, `rowid` | its header values, its settings, and the rowids of new rows |
//! | `owned` | transactions and cursors without lifetimes |
//! | `chosen` | the list of files that are environments whatever their names |
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

/// SQLite for programs in Rust: `rusqlite`, which calls this crate's SQLite (feature `rusqlite`).
#[cfg(feature = "rusqlite")]
pub use rusqlite;
