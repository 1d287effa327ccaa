//! The lowest floor: errors, settings and other plain data that every floor uses.
//! Nothing here calls another floor.

pub(crate) mod damage;
pub(crate) mod error;
pub(crate) mod lock_wait;
pub(crate) mod mutex;
pub(crate) mod process_state;
pub(crate) mod progress;
pub(crate) mod settings;
