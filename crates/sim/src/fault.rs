//! Planted faults: calls that fail on purpose, and the counts of faults that really struck.
//!
//! A fault is planted for the n-th matching call from now on. Calls that only inspect a file (`len`, `exists`,
//! `identity`) and calls for byte locks never fail. All other calls are counted and can fail.
//!
//! A test that shows "nothing lost" proves nothing if its faults never struck. So a count for each class of fault shows
//! how often the class was really *active*, on a disk and on all crash images of this disk.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use libtp_io::{Error, Operation};

use crate::loss::LossMode;

/// The error number of every call after the simulated crash: Linux's ESHUTDOWN, which no file returns.
pub const CRASHED_ERRNO: i32 = 108;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Returns whether a call failed because the simulated machine, or its process, is dead.
pub fn is_crash(error: &Error) -> bool {
    matches!(error, Error::Io { errno: CRASHED_ERRNO, .. })
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The disk is broken.  A failing write may have written any part of its bytes.
    Eio,
    /// The disk is full.  A failing write may have written any part of its bytes.
    Enospc,
    /// A write stores some of its bytes, not all, and then the disk is full. Other calls do not fail.
    ShortWrite,
    /// The call meets a limit of its process: it fails with this error number. A failing write may have written any
    /// part of its bytes.
    Limit(i32),
}

impl Fault {
    pub(crate) fn errno(self) -> i32 {
        match self {
            Fault::Eio => EIO,
            Fault::Enospc | Fault::ShortWrite => ENOSPC,
            Fault::Limit(errno) => errno,
        }
    }
}

/// The number of calls that a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// At the chosen call only.
    Once,
    /// At the chosen call and every later matching call.
    Forever,
}

/// The calls that a fault concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calls {
    /// Every call that can fail.
    Any,
    /// Calls of one kind.
    Of(Operation),
    /// Calls of one kind on files whose path contains this text.
    On(Operation, String),
}

impl Calls {
    fn matches(&self, operation: Operation, path: &str) -> bool {
        match self {
            Calls::Any => true,
            Calls::Of(wanted) => *wanted == operation,
            Calls::On(wanted, part) => *wanted == operation && path.contains(part),
        }
    }
}

#[derive(Debug)]
struct Planted {
    calls: Calls,
    to_come: u64,
    fault: Fault,
    repeat: Repeat,
    is_spent: bool,
}

/// The planted faults of one disk, and the count of its calls.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    planted: Vec<Planted>,
    counts: BTreeMap<Operation, u64>,
}

impl Faults {
    pub(crate) fn plant(&mut self, calls: Calls, after: u64, fault: Fault, repeat: Repeat) {
        self.planted.push(Planted { calls, to_come: after, fault, repeat, is_spent: false });
    }

    pub(crate) fn clear(&mut self) {
        self.planted.clear();
    }

    pub(crate) fn count(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }

    pub(crate) fn count_all(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Counts a call and returns the fault that strikes it, if any.
    pub(crate) fn strike(&mut self, operation: Operation, path: &str) -> Option<Fault> {
        *self.counts.entry(operation).or_default() += 1;
        let mut answer = None;
        for planted in self.planted.iter_mut().filter(|planted| planted.calls.matches(operation, path)) {
            if planted.to_come > 0 {
                planted.to_come -= 1;
                continue;
            }
            if planted.is_spent || (planted.fault == Fault::ShortWrite && operation != Operation::Write) {
                continue;
            }
            planted.is_spent = planted.repeat == Repeat::Once;
            answer = answer.or(Some(planted.fault));
        }
        answer
    }
}

/// Declares the classes: each field, and the faults that it counts.
macro_rules! activity {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// How often each class of fault was really active.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Activity {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Activity {
            /// Returns every class by name, for a table.
            pub fn classes(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }

        /// The counts themselves, shared by a disk and all its crash images.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Activity {
                // Relaxed: each count is independent of other data and publishes nothing.
                Activity { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

activity! {
    /// Calls that failed with a planted EIO.
    eio,
    /// Calls that failed with a planted ENOSPC.
    enospc,
    /// Writes that stopped half-way because of a planted fault.
    short_write,
    /// Calls that failed with a planted limit of their process.
    limit,
    /// Syncs of a file or directory that failed.
    failed_sync,
    /// Failed syncs by which some change was lost for ever. A walk of crash images counts them when it passes them.
    failed_sync_lost,
    /// Pieces that the disk has promised to write whole, and accepted.
    whole_write,
    /// Pieces that the disk has refused to write whole.
    whole_refused,
    /// Pieces that the disk has promised to write whole, and torn.
    whole_torn,
    /// Calls refused because the disk's capacity was used up.
    disk_full,
    /// Disks that crashed at a chosen call or were halted.
    crash,
    /// Processes that were killed while the disk continued to work.
    process_killed,
    /// Images with a write of which some 512-byte sectors were lost and some kept.
    torn_512,
    /// Images with a write of which some 4096-byte blocks were lost and some kept.
    torn_4096,
    /// Images that kept the first of the unsynced changes and lost the rest.
    prefix,
    /// Images that kept a sector of a later write and lost or delayed a sector of an earlier write.
    reordered,
    /// Images that kept the changes of one file and lost the changes of another file.
    per_file,
    /// Images that lost all unsynced changes, if there were any.
    drop_all,
    /// Images that kept all unsynced changes, if there were any.
    keep_all,
    /// Images that lost a creation, renaming or removal.
    name_lost,
    /// Images that lost a change of a file's length or blocks.
    length_lost,
}

impl Counters {
    pub(crate) fn add(count: &AtomicU64) {
        // Relaxed: each count is independent of other data and publishes nothing.
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of_fault(&self, fault: Fault) -> &AtomicU64 {
        match fault {
            Fault::Eio => &self.eio,
            Fault::Enospc => &self.enospc,
            Fault::ShortWrite => &self.short_write,
            Fault::Limit(_) => &self.limit,
        }
    }

    pub(crate) fn of_mode(&self, mode: LossMode) -> &AtomicU64 {
        match mode {
            LossMode::Torn512 => &self.torn_512,
            LossMode::Torn4096 => &self.torn_4096,
            LossMode::Prefix => &self.prefix,
            LossMode::Reordered => &self.reordered,
            LossMode::PerFile => &self.per_file,
            LossMode::DropAll => &self.drop_all,
            LossMode::KeepAll => &self.keep_all,
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (class, count)) in self.classes().into_iter().enumerate() {
            write!(f, "{}{class} {count}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_chosen_call_and_no_other() {
        let mut faults = Faults::default();
        faults.plant(Calls::Of(Operation::Write), 2, Fault::Eio, Repeat::Once);
        let struck: Vec<bool> = (0..6).map(|_| faults.strike(Operation::Write, "a").is_some()).collect();
        assert_eq!(struck, [false, false, true, false, false, false]);
        assert_eq!(faults.strike(Operation::Read, "a"), None);
        assert_eq!((faults.count(Operation::Write), faults.count_all()), (6, 7));
    }

    #[test]
    fn a_repeated_fault_strikes_every_later_call() {
        let mut faults = Faults::default();
        faults.plant(Calls::On(Operation::Sync, "log.".into()), 1, Fault::Enospc, Repeat::Forever);
        assert_eq!(faults.strike(Operation::Sync, "log.1"), None);
        assert_eq!(faults.strike(Operation::Sync, "bank.tp"), None);
        for _ in 0..5 {
            assert_eq!(faults.strike(Operation::Sync, "log.2"), Some(Fault::Enospc));
        }
        faults.clear();
        assert_eq!(faults.strike(Operation::Sync, "log.2"), None);
    }

    #[test]
    fn a_short_write_is_a_write() {
        let mut faults = Faults::default();
        faults.plant(Calls::Any, 0, Fault::ShortWrite, Repeat::Once);
        assert_eq!(faults.strike(Operation::Sync, "a"), None);
        assert_eq!(faults.strike(Operation::Write, "a"), Some(Fault::ShortWrite));
        assert_eq!(faults.strike(Operation::Write, "a"), None);
    }
}
