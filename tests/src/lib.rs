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
//! | `found_tail` | records that a restart finds and that were never synced |
//! | `log_life` | a log alone, with one session |
//! | `stale_log` | a log that ends where an old record begins |
//! | `log_ends` | a log that ends at each sector of its flushes |
//! | `small_disk` | small disks, and being alone or nobody, in namespaces of our own |
//! | `standstill` | a process that stands still at a call |
//! | `stopped_writer` | a checkpoint while another process stands still in the middle of writing pages |
//! | `counted_ranges` | keys put into a range that another process has counted |
//! | `dead_leader` | a leader of the log's flush that dies of a failed sync |
//! | `bank` | transfers by several processes, from which it follows what has to be there |
//! | `losing_disk` | a disk of real files that loses what was not synced |
//! | `forking` | fork, and clone behind the C library's back |
//! | `orphan` | a child that outlives its killed parent |
//! | `process` | a process that a test starts: this program again |
//! | `sizes`, `threads`, `watchdog` | how much is tried, by how many; panics and hangs |
//! | `planted_bugs` | the yardstick: bugs a test build can switch on |
//! | `planted_deaths`, `trial` | the same for what happens after a death, and trying each in a process of its own |
//! | `planted_backup` | the same for backups |
//! | `planted_files` | the same for plain files |
//! | `planted_joint` | the same for transactions over records and memory |
//! | `planted_lived` | the same for long-lived use |
//! | `planted_stores` | the same for the stores of recoverable memory |
//! | `failpoints` | where a process of the tests dies, and how it comes there |
#![deny(unsafe_code)]

pub mod bank;
pub mod counted_ranges;
pub mod crash_image;
pub mod crash_states;
pub mod damage;
pub mod dead_leader;
pub mod failing_calls;
pub mod failpoints;
pub mod forking;
pub mod found_tail;
pub mod indices;
pub mod library;
pub mod limited_process;
pub mod log_ends;
pub mod log_life;
pub mod losing_disk;
pub mod oracle;
pub mod orphan;
pub mod planted_backup;
pub mod planted_bugs;
pub mod planted_deaths;
pub mod planted_files;
pub mod planted_isolation;
pub mod planted_joint;
pub mod planted_lived;
pub mod planted_model;
pub mod planted_rio;
pub mod planted_snapshots;
pub mod planted_stores;
pub mod process;
pub mod sizes;
pub mod small_disk;
pub mod stale_log;
pub mod standstill;
pub mod stopped_writer;
pub mod threads;
pub mod trial;
pub mod watchdog;
pub mod workload;
