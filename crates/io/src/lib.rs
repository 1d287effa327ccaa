//! What libtp asks of a disk: a few small traits, their contract, and the POSIX disk that keeps it.
//!
//! The managers above (log, buffer, the environment) reach the disk only through [`File`] and
//! [`Directory`]; they do not know whether a kernel or a simulated disk answers.  This room in turn
//! knows no pages, no logs and no LSNs: it moves bytes between memory and named files, and says
//! exactly when a byte or a name is safe from a power cut.
//!
//! Papers: LIBTP 3.2.1 and 3.2.2 assume `read`, `write` and `fsync`; what those promise is spelt out
//! in [`contract`](crate::File), because eleven studied systems each assumed something else.
//!
//! | file | what |
//! |---|---|
//! | `contract` | the two traits and what they promise |
//! | `error` | what failed, by what a caller can do about it |
//! | `fork` | how a child comes to have none of its parent's locks |
//! | `plain` | what is asked of files that are not ours: those of other programs |
//! | `posix` | Linux files, byte locks of the open file description, which filesystem this is |
#![deny(unsafe_code)]

mod contract;
mod error;
mod fork;
mod plain;
mod posix;

pub use contract::{Directory, File, Identity, LockMode, OpenMode};
pub use error::{check_name, Error, Operation, Result};
pub use fork::{give_up_inherited, Uninherited};
pub use plain::{PlainFiles, PlainKind, PlainStatus};
pub use posix::{PosixDirectory, PosixFile};
