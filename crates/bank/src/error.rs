//! The errors of a benchmark, each with its remedy.

use std::path::PathBuf;

use libtp_console::failure::Failure;

use crate::tpcb::Table;

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a benchmark could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine under test refused an operation.
    #[error("{engine} failed while {doing}: {why}")]
    Engine {
        /// The engine's name, as in the report.
        engine: &'static str,
        /// The operation.
        doing: &'static str,
        /// The engine's error text.
        why: String,
    },
    /// A record that the load wrote does not exist.
    #[error("{engine} has no {table} record {id}: load the bank first, with the same --accounts")]
    Missing {
        /// The engine's name.
        engine: &'static str,
        /// The table's name.
        table: &'static str,
        /// The record's id.
        id: u64,
    },
    /// A file of the benchmark, not of an engine, could not be used.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The settings contradict each other or ask for nothing.
    #[error("{0}")]
    Settings(String),
    /// A client process or thread died, or its output could not be understood.
    #[error("client {client} {what}")]
    Client {
        /// The client's number.
        client: u32,
        /// The client's failure, as the rest of a sentence that begins with the client.
        what: String,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Settings(what) => Failure::Usage(what),
            other => Failure::Failed(other.to_string()),
        }
    }
}

impl Error {
    /// Returns a function that wraps an engine's own error; for use in `map_err`.
    pub fn engine<E: std::fmt::Display>(engine: &'static str, doing: &'static str) -> impl FnOnce(E) -> Error {
        move |why| Error::Engine { engine, doing, why: why.to_string() }
    }

    /// Returns the error for a record that does not exist.
    pub fn missing(engine: &'static str, table: Table, id: u32) -> Error {
        Error::Missing { engine, table: table.name(), id: u64::from(id) }
    }

    /// Returns a function that wraps an error of the file system; for use in `map_err`.
    pub fn file(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { doing, path, source }
    }
}
