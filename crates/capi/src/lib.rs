//! The libraries for C: `libtp.h` for records, `vista.h` ([`vista`](mod@vista)) for recoverable memory, and `db.h`
//! ([`db`](mod@db)), the interface of 4.4BSD's db(3).
//!
//! A handle from C is a number in a table, never a pointer ([`handles`](mod@handles)). C promises that other pointers
//! are valid ([`arguments`](mod@arguments)). Every call returns a code, and stores a text about a failure
//! ([`answer`](mod@answer)). No panic leaves a call. docs/design/0012 explains the choices.
#![deny(unsafe_code)]

mod answer;
mod arguments;
mod backup;
mod cursor;
mod database;
mod databases;
mod db;
mod ending;
mod environment;
mod files;
mod handles;
mod index;
mod list;
mod load;
mod log_reading;
mod log_types;
mod multi;
mod order;
mod passing;
mod places;
mod primitives;
mod ranges;
mod segment;
mod text;
mod transaction;
mod vista;
