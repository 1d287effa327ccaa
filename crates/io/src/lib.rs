//! The disk interface: a few small traits, their contract, and its POSIX implementation.
//!
//! The managers above (log, buffer, the environment) reach the disk only through [`File`] and [`Directory`]. They do
//! not know whether a kernel or a simulated disk answers. This crate has no knowledge of pages, logs and LSNs: it moves
//! bytes between memory and named files, and states exactly when a byte or a name is safe from a power cut.
//!
//! Papers: LIBTP 3.2.1 and 3.2.2 assume `read`, `write` and `fsync`. [`contract`](crate::File) states what those calls
//! promise, because eleven studied systems assumed eleven different contracts.
//!
//! | file | content |
//! |---|---|
//! | `contract` | the traits of files, directories, and files of other programs, and what they promise |
//! | `error` | errors, by what the caller can do about them |
//! | `fork` | keeps the locks of a process from its forked children |
//! | `posix` | Linux files, byte locks of the open file description, network filesystems |
#![deny(unsafe_code)]

mod contract;
mod error;
mod fork;
mod posix;

pub use contract::{
    is_foreign, Directory, File, Identity, LockMode, MayBegin, OpenMode, PlainFiles, PlainKind, PlainStatus,
};
pub use error::{check_name, Error, Operation, Result};
pub use fork::{give_up_inherited, Uninherited};
pub use posix::{PosixDirectory, PosixFile};
