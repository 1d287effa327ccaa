//! Arbitrary bytes for everything that is read from disk: one function for each kind of input.
//!
//! Each function takes bytes, makes one kind of input of them, calls the functions that the library calls for that
//! input, and asserts the promises about the answer. An input with a checksum gets a right checksum: the suite `damage`
//! tests wrong checksums. A panic is a finding.
//!
//! | file | input |
//! |---|---|
//! | `page` | a page of a database, read, salvaged and changed |
//! | `log_record` | a log record's body, redone and undone |
//! | `log_file` | the log's records at a restart |
//! | `control` | the control file |
//! | `dump_text` | a dump, as `tp load` reads it |
//! | `settings` | `libtp.toml` |
//! | `world`, `scene` | the small environment that pages and records belong to |
//! | `corpus`, `input` | the kept inputs and their mutations; numbers from bytes |
//! | `seeds` | the inputs that a fuzzer starts from, as they were once made |
//!
//! Two callers use the functions: the suite `fuzz`, on any toolchain, over the corpus and over random mutations of it
//! (`suite/main.rs`), and libFuzzer, which sees the code that an input reaches (`libfuzzer/`, `cargo xtask soak
//! fuzz`). libFuzzer's findings are kept in `corpus/TARGET/`.
#![forbid(unsafe_code)]

// Used by the command's files below.
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

/// The command's own format; the command is not a library, so only these files of it are included.
#[path = "../../../crates/cli/src/dump_format.rs"]
#[allow(missing_docs)]
pub mod dump_format;
#[path = "../../../crates/cli/src/dump_header.rs"]
#[allow(missing_docs)]
pub mod dump_header;
#[path = "../../../crates/cli/src/dump_spelling.rs"]
#[allow(missing_docs)]
pub mod dump_spelling;
#[path = "../../../crates/cli/src/hexadecimal.rs"]
#[allow(missing_docs)]
pub mod hexadecimal;

/// A target: its name, which is also its corpus's name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("page", page::page),
    ("log_record", log_record::log_record),
    ("log_file", log_file::log_file),
    ("control", control::control),
    ("dump_text", dump_text::dump_text),
    ("settings", settings::settings),
];
