//! Databases compared with models, for example std's `BTreeMap`: random transactions, and closes and crashes between
//! them (proptest).
//!
//! | file | what |
//! |---|---|
//! | `life` | an environment's life on a simulated disk: transactions, closing, deaths of processes, power cuts |
//! | `btree` | B-trees with keys up to the limit and values of up to three pages |
//! | `pairs` | changes of key-value pairs in a database and in its model |
//! | `hash` | hash files with the same keys and values as the B-trees, and scans during which records are put |
//! | `multi` | keys with several values, sorted or in the order of insertion |
//! | `list` | lists, whose records are renumbered, and their cursors |
//! | `index` | a database with indices |
//! | `recno` | records by number |
//! | `long_values` | values longer than one reservation of log |
//! | `yardstick` | planted bugs, each of which one of these tests must notice |
//!
//! `LIBTP_TEST_CASES` sets how many cases a test runs; a slow test runs only a half, a quarter or a sixth of this
//! number. `LIBTP_TEST_SEED` determines the cases. A failure prints its case, shrunk as far as possible.
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod btree;
mod hash;
mod index;
mod life;
mod list;
mod long_values;
mod multi;
mod pairs;
mod recno;
#[cfg(feature = "planted")]
libtp_tests::yardstick!(Model);
