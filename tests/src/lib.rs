//! Code that the whole-system tests share.
//!
//! | file | contents |
//! |---|---|
//! | `library` | the adapter to the library: machines, processes, transactions |
//! | `oracle` | the history of a workload, and the check that a state found later agrees with the history |
//! | `workload` | 500 mixed transactions of four simulated processes, determined by one seed |
//! | `crash_states` | lists the crash states and judges them on two threads; crashes some recoveries again |
//! | `crash_image` | opens and judges the image that a crash left |
//! | `failing_calls` | the workload with one call failing |
//! | `damage` | damages files, and judges the bytes read from them |
//! | `found_tail` | records that were never synced, and that a restart finds |
//! | `whole_writes` | power cuts after pages were written whole |
//! | `lone_log` | a log without the other managers, and one session |
//! | `stale_log` | a log that ends where an old record begins |
//! | `log_ends` | a log that ends at each sector of its flushes |
//! | `small_disk` | small disks mounted in a namespace of the test, and tests run as an ordinary user |
//! | `short_run` | a few commits, and the images that a power cut then leaves |
//! | `versions` | work that brings all data from version to version; after a power cut, all data has one version |
//! | `wrapped` | a directory whose files' reads and syncs call a test's functions |
//! | `stepping` | runs a child from one store instruction to the next, and stops it before each |
//! | `standstill` | a process that stops at a chosen call |
//! | `stopped_writer` | a checkpoint while another process is stopped in the middle of writing pages |
//! | `counted_ranges` | keys put into a range that another process has counted |
//! | `dead_leader` | a leader of the log's flush, which dies of a failed sync |
//! | `bank` | a bank whose records can be checked against the number of each worker's transfers |
//! | `transfers` | transfers between a few accounts, whose sum never changes, and a journal of the transfers |
//! | `audit` | checks of an environment whose processes have left or died |
//! | `losing_disk` | a disk of real files that loses unsynced bytes |
//! | `forking` | fork, and clone without the C library's knowledge |
//! | `orphan` | a child that outlives its killed parent |
//! | `process` | a process that a test starts: the same program again |
//! | `sizes`, `threads`, `watchdog` | the number of cases of a test, its threads, its panics and hangs |
//! | `planted`, `trial` | the yardstick: bugs that a test build can switch on, and a check that a suite finds each |
//! | `sources` | the names of planted bugs and failpoints in the sources |
//! | `failpoints` | the places where a test process dies, and how a process reaches each |
#![deny(unsafe_code)]

pub mod audit;
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
pub mod library;
pub mod limited_process;
pub mod log_ends;
pub mod lone_log;
pub mod losing_disk;
pub mod oracle;
pub mod orphan;
pub mod planted;
pub mod process;
pub mod short_run;
pub mod sizes;
pub mod small_disk;
pub mod sources;
pub mod stale_log;
pub mod standstill;
pub mod stepping;
pub mod stopped_writer;
pub mod threads;
pub mod transfers;
pub mod trial;
pub mod versions;
pub mod watchdog;
pub mod whole_writes;
pub mod workload;
pub mod wrapped;
