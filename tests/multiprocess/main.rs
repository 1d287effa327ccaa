//! Real processes in one environment. Each sees the commits of the others at once. Processes leave in good order or
//! die, one at a time or all together.
//!
//! | file | contents |
//! |---|---|
//! | `child` | a process that a test starts: the same program, with orders over a pipe |
//! | `crew` | the test's end of the pipes |
//! | `asked` | the checks that a call makes before it begins its work |
//! | `barrier` | memory is declared broken at the very moment of a commit |
//! | `admission` | a process with another log directory, or without standard descriptors |
//! | `together` | processes that work at the same time |
//! | `leaving` | leaving in either order, opening twice, opening all at once |
//! | `forks` | children of a fork: an inherited handle returns an error, and a child keeps no dead process alive |
//! | `builds` | another build of the library |
//! | `users` | users with and without access |
//! | `death` | all processes die; then their shared memory is repaired, or is lost too |
//! | `survivors` | one of several processes dies; the others repair its sessions and go on |
//! | `rebuild` | the shared memory is found broken and made anew under all of them |
//! | `wild` | a process stores nonsense into the shared memory and dies |
//! | `deadlocks` | processes wait for each other in a circle |
//! | `forked` | children that outlive the process that forked them |
//! | `stopped` | a process is stopped in the middle of its work |
//! | `halted` | a process is stopped at a task that one session has at a time |
//! | `given_up` | a process is stopped before a write, and goes on after the memory was given up |
//! | `hit` | a wild store hits words that check themselves |
//! | `indices` | indices of a database that several handles use |
//! | `late` | a process leaves while another is stopped with a latch or a task |
//! | `closed` | a program closes descriptors of the library |
//! | `copies` | copies of an environment at work, and backups restored in its place |
//! | `missing` | files and directories that vanish while processes work |
//! | `containers` | processes that see other memory or other pids |
//! | `strangers` | memory that another user planted |
//! | `left` | shared memory that deleted and moved environments leave behind |
//! | `limits` | processes that may have less memory than others |
//! | `durable` | changes read from a dead session are as durable as their reader asked for |
//! | `primitives` | the program's own pages and log-record types |
//! | `readers` | a reader of a page dies while other sessions wait for the page |
//! | `snapshots` | a snapshot among processes that write, are killed, and take checkpoints |
//! | `twice_alone` | all processes die, and the next one dies in its repair |
//! | `yardstick` | planted bugs, each noticed by one of these cases |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

mod admission;
#[cfg(feature = "failpoints")]
mod asked;
mod barrier;
mod builds;
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
#[cfg(feature = "failpoints")]
mod hit;
mod indices;
#[cfg(feature = "failpoints")]
mod late;
mod leaving;
mod left;
mod limits;
mod missing;
mod nameless;
mod passing;
mod primitives;
#[cfg(feature = "failpoints")]
mod readers;
mod rebuild;
#[cfg(feature = "failpoints")]
mod snapshots;
mod stopped;
mod strangers;
mod survivors;
mod together;
#[cfg(feature = "failpoints")]
mod twice_alone;
mod users;
mod wild;
#[cfg(all(feature = "planted", feature = "failpoints"))]
libtp_tests::yardstick!(Multiprocess);
