//! What the whole-system tests share.
//!
//! | file | what |
//! |---|---|
//! | `library` | the adapter to the library: machines, processes, transactions |
//! | `oracle` | what was done and promised, and whether a state found later is allowed |
//! | `workload` | 500 mixed transactions of four simulated processes, from one seed |
//! | `crash_states` | which crashes there are, and trying them on two threads, nested too |
//! | `crash_image` | opening and judging what a crash left |
//! | `failing_calls` | the workload with one call failing |
//! | `damage` | damaging files, and judging what is read then |
//! | `sizes`, `watchdog` | how much is tried; panics and hangs |
//! | `planted_bugs` | the yardstick: bugs a test build can switch on |
#![forbid(unsafe_code)]

pub mod crash_image;
pub mod crash_states;
pub mod damage;
pub mod failing_calls;
pub mod library;
pub mod oracle;
pub mod planted_bugs;
pub mod sizes;
pub mod watchdog;
pub mod workload;
