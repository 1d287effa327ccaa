//! Tests with real processes in one environment. Each process sees the commits of the others at once. Processes leave
//! in good order or die, one at a time or all together.
//!
//! | file | contents |
//! |---|---|
//! | `child` | a process that a test starts: the same program, which gets orders over a pipe |
//! | `crew` | the processes that a test has started: their orders and answers |
//! | `call_checks` | the checks at the beginning and end of a call |
//! | `barrier` | memory is declared broken while a commit record is published |
//! | `admission` | a process with another log directory, or without standard descriptors |
//! | `together` | processes that work at the same time |
//! | `leaving` | leaving in either order, opening twice, opening all at once |
//! | `forks` | children of a fork: an inherited handle returns an error; a dead parent counts as dead |
//! | `builds` | another build of the library |
//! | `users` | users with and without access |
//! | `death` | all processes die; their shared memory survives and is repaired, or is lost |
//! | `survivors` | one of several processes dies; the others repair its sessions and continue |
//! | `rebuild` | the shared memory is found broken, and is rebuilt while all processes work |
//! | `wild` | a process stores random values into the shared memory and dies |
//! | `deadlocks` | processes wait for each other in a circle |
//! | `forked` | children that outlive the process that forked them |
//! | `stopped` | a process is stopped in the middle of its work |
//! | `stopped_leader` | the process that writes the log is stopped in a flush |
//! | `halted` | a process is stopped in a role that one session has at a time, or with a latch or slot |
//! | `given_up` | a process is stopped before a write, and continues after the memory was rebuilt |
//! | `wild_words` | a wild store hits chosen words of the shared memory |
//! | `indices` | indices of a database that several handles use |
//! | `late` | a process leaves while another is stopped with a latch or a role |
//! | `closed` | a program closes descriptors of the library |
//! | `copies` | copies of an environment in use, and backups restored into its directory |
//! | `missing` | files and directories that vanish while processes work |
//! | `containers` | processes that see other memory or other pids |
//! | `strangers` | files that another user made where the library looks for shared memory |
//! | `orphaned_memory` | shared memory that deleted and moved environments left |
//! | `limits` | processes with less memory or lower limits than others |
//! | `durable` | the commit of a dead session is on disk before a transaction that has read its changes is answered |
//! | `primitives` | the program's own pages and log-record types |
//! | `readers` | a reader of a page dies while other sessions wait for the page |
//! | `snapshots` | snapshots, while other processes write, are killed, and take checkpoints |
//! | `twice_alone` | all processes die, and the next process dies in its repair |
//! | `unfinished` | openings that are refused before and after they change the first byte of a file |
//! | `yardstick` | planted bugs, each of which one of these cases must notice |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

mod admission;
mod barrier;
mod builds;
#[cfg(feature = "failpoints")]
mod call_checks;
mod child;
mod closed;
mod containers;
mod copies;
mod crew;
mod deadlocks;
mod death;
#[cfg(feature = "failpoints")]
mod durable;
mod forked;
mod forks;
mod full_disk;
#[cfg(feature = "failpoints")]
mod given_up;
#[cfg(feature = "failpoints")]
mod glances;
#[cfg(feature = "failpoints")]
mod halted;
mod indices;
#[cfg(feature = "failpoints")]
mod late;
mod leaving;
mod limits;
mod missing;
mod nameless;
mod orphaned_memory;
mod passing;
mod primitives;
#[cfg(feature = "failpoints")]
mod readers;
mod rebuild;
#[cfg(feature = "failpoints")]
mod snapshots;
mod stopped;
#[cfg(feature = "failpoints")]
mod stopped_leader;
mod strangers;
mod survivors;
mod together;
#[cfg(feature = "failpoints")]
mod twice_alone;
mod unfinished;
mod users;
mod wild;
#[cfg(feature = "failpoints")]
mod wild_words;
#[cfg(all(feature = "planted", feature = "failpoints"))]
libtp_tests::yardstick!(Multiprocess);
