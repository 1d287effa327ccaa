//! Transaction Manager: begin, commit, abort, checkpoint and recovery.
//!
//! Paper: LIBTP 3.2.5. The manager assigns transaction identifiers, keeps each running transaction's state in shared
//! memory, and directs commit and abort. It names no access method: the [`RecordTable`] defines what a log record
//! means, how it is repeated and how it is undone (LIBTP 3.2.6).
//!
//! The order in which to read the files: [`slot`](mod@slot) (the shared state), `session` (sessions that run
//! transactions), `change` (the one driver of every page change), `commit`, `answered_from_memory`, `abort`,
//! `savepoint`, `snapshot` (reads without locks), `shortcuts`, `checkpoint`, `recovery`.
#![forbid(unsafe_code)]

mod abort;
mod answered_from_memory;
pub mod application;
mod attach;
mod begin;
mod change;
mod checkpoint;
mod commit;
mod control;
mod databases;
mod error;
mod inspect;
mod joined;
mod joining;
mod kept_log;
mod log_records;
mod managers;
mod own_types;
mod pass;
mod reaper;
mod recovery;
mod repair;
mod roles;
mod room;
mod savepoint;
mod session;
mod shortcut_words;
mod shortcuts;
pub mod slot;
mod snapshot;
mod spares;
mod table;
mod unresolved;

pub use application::{ApplicationType, Applications, PageFn, Signature, SignatureFn};
pub use commit::{Committed, Durability};
pub use control::Checkpointed;
pub use error::{Error, Result};
pub use joined::segment_lock;
pub use log_records::{Checkpoint, CheckpointEntry, OpenOutcome, ABORT_END, CHECKPOINT, CLR_FLAG, COMMIT, DATABASES};
pub use managers::record_table::{Change, Damage, PageList, RecordTable, RecordType, RedoFn, UndoFn};
pub use managers::{Managers, Parts, Settings};
pub use own_types::record_table;
pub use pass::Offer;
pub use reaper::Reaped;
pub use recovery::{look, restart, Recovered, Watcher};
pub use repair::Repaired;
pub use savepoint::Mark;
pub use session::TxnSession;
pub use shortcut_words::OldVersion;
pub use slot::{State, TxnInfo, SEGMENTS_MAX};
pub use snapshot::{Sight, SnapshotInfo, View};
