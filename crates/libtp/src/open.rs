//! Opening an environment: the directory, its shared memory, and the restart from the log.
//!
//! The lowest floor above `ground`. Here a process gets the managers of a region, and the attachment lock that shows
//! other processes that it is attached.

pub(crate) mod attach;
pub(crate) mod builder;
pub(crate) mod keep;
pub(crate) mod left_memory;
pub(crate) mod liveness;
pub(crate) mod log_type;
pub(crate) mod old_memory;
pub(crate) mod opening;
pub(crate) mod platform;
pub(crate) mod rebuild;
pub(crate) mod record_types;
pub(crate) mod rescue;
pub(crate) mod restart;
pub(crate) mod trial;
pub(crate) mod unfinished;
pub(crate) mod warm_start;
