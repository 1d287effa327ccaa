//! A handle's state of plain files: the data of the floor `files`.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use libtp_io::PlainFiles;

/// A handle's state of plain files.
#[derive(Default)]
pub(crate) struct Home {
    pub(crate) door: OnceLock<Door>,
    /// The directories whose rows are known to exist.
    pub(crate) noted: Mutex<HashSet<String>>,
    /// Whether rows of finished files are left, because another transaction was reading them.
    pub(crate) is_left: AtomicBool,
}

/// Access to plain files.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) plain: Arc<dyn PlainFiles>,
    /// The environment's tag; a copy of the environment has another tag.
    pub(crate) tag: u64,
}
