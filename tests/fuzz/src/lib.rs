//! What is read of the disk, given what nobody wrote: one function for each door.
//!
//! Each function takes bytes, makes of them what lies behind one door of the library (with a checksum that is right, where there is
//! one: what a wrong one does is the suite `damage`'s to ask), calls what the library itself calls there, and asserts what is
//! promised of the answer. A panic is a finding.
//!
//! | file | door |
//! |---|---|
//! | `page` | a page of a database, read, salvaged and changed |
//! | `log_record` | a log record's body, redone and undone |
//! | `log_file` | the log's records at a restart |
//! | `control` | the control file |
//! | `dump_text` | a dump, as `tp load` reads it |
//! | `settings` | `libtp.toml` |
//! | `world`, `scene` | the small environment that pages and records are of |
//! | `corpus`, `input` | what is tried again, and mutated; numbers out of bytes |
//! | `seeds` | what a fuzzer starts from, as it was once made |
//!
//! The functions are called by two who differ in what they know: the suite `fuzz` on any toolchain, over the corpus and over
//! mutations of it that a seed tells (`suite/main.rs`), and libFuzzer, which sees what code an input reaches (`libfuzzer/`,
//! `cargo xtask soak fuzz`). What it finds is kept in `corpus/TARGET/`.
#![forbid(unsafe_code)]

// Named by the file of the command below.
use thiserror as _;

pub mod control;
pub mod corpus;
pub mod dump_text;
pub mod input;
pub mod log_file;
pub mod log_record;
pub mod page;
pub mod scene;
pub mod seeds;
pub mod settings;
pub mod world;

/// The command's own, which is no library: these files alone of it.
#[path = "../../../crates/cli/src/dump_format.rs"]
#[allow(missing_docs)]
pub mod dump_format;
#[path = "../../../crates/cli/src/dump_header.rs"]
#[allow(missing_docs)]
pub mod dump_header;

/// A door: its name, which is that of its corpus, and who knocks at it.
pub type Target = (&'static str, fn(&[u8]));

/// Every door.
pub const TARGETS: [Target; 6] = [
    ("page", page::page),
    ("log_record", log_record::log_record),
    ("log_file", log_file::log_file),
    ("control", control::control),
    ("dump_text", dump_text::dump_text),
    ("settings", settings::settings),
];
