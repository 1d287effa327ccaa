//! The doors for C. `libtp.h` is the records'; `vista.h` is [`vista`](mod@vista)'s, and `db.h`, the interface of 4.4BSD's db(3), [`db`](mod@db)'s.
//!
//! What C holds is looked up and never followed ([`handles`](mod@handles)); what it points to is its promise
//! ([`arguments`](mod@arguments)); every call answers with a code and a sentence ([`answer`](mod@answer)), and no panic leaves it.
//! docs/design/0012 has the choices.
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
