//! Log Manager: the write-ahead log, its tail in shared memory, its body in segment files.
#![forbid(unsafe_code)]

mod control;
mod error;
mod incarnation;
mod lsn;
mod record;
mod segment;
mod settings;

pub use control::{Control, ControlFile, CONTROL_BYTES, CONTROL_NAME, CONTROL_VERSION};
pub use error::{Error, Result};
pub use incarnation::{Incarnation, Incarnations};
pub use lsn::Lsn;
pub use record::{
    record_bytes, Record, RecordHeader, RecordRef, TxnId, BODY_BYTES_MAX, KIND_FILLER, KIND_FLUSH_MARK,
    RECORD_BYTES_MAX, RECORD_HEADER_BYTES,
};
pub use segment::{segment_name, segment_number, Geometry, Place, LOG_VERSION, SEGMENT_HEADER_BYTES};
pub use settings::Settings;
