//! Arbitrary bytes for everything that is read from disk: one function for each kind of input.
//!
//! Each function makes one kind of input from the bytes, calls the functions that the library calls for this input, and
//! asserts the promises about the answer. An input with a checksum gets a right checksum; the test of damaged files
//! (`tests/src/damage.rs`) tries wrong checksums. A panic is a finding.
//!
//! | file | input |
//! |---|---|
//! | `page` | a page of a database, read, salvaged and changed |
//! | `log_record` | a log record's body, redone and undone |
//! | `log_file` | the log's records at a restart |
//! | `control` | the control file |
//! | `dump_text` | a dump, as `tp load` reads it |
//! | `settings` | `libtp.toml` |
//! | `world`, `scene` | the small environment to which the pages and log records belong |
//! | `corpus`, `input` | the kept inputs and their mutations; numbers from an input's bytes |
//! | `seeds` | makes the inputs with which a fuzzer starts |
//!
//! The functions have two callers. The suite `fuzz` (`suite/main.rs`) runs on any toolchain, over the corpus and over
//! random mutations of it. libFuzzer (`libfuzzer/`, `cargo xtask soak fuzz`) chooses its mutations by the code that an
//! input reaches; its findings are kept in `corpus/TARGET/`.
#![forbid(unsafe_code)]

// The included files of the command, below, use this crate.
use thiserror as _;

pub mod control;
pub mod corpus;
pub mod dump_text;
pub mod environment;
pub mod input;
pub mod log_file;
pub mod log_record;
pub mod page;
pub mod scene;
pub mod seeds;
pub mod settings;
pub mod world;

/// The format of dumps, a file of the command. The command is no library, so its files are included by path.
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
#[path = "../../../crates/cli/src/room.rs"]
#[allow(missing_docs)]
pub mod room;

/// A target: its name, which is also the name of its corpus, and its function.
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
