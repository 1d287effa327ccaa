//! Real processes in one environment: what one commits the others see at once; they leave, and they die, all of them.
//!
//! | file | what |
//! |---|---|
//! | `child` | a process that a test starts: this very program, told what to do over a pipe |
//! | `crew` | the test's end of the pipes |
//! | `bank` | transfers whose sums tell whether a transaction was cut in two |
//! | `barrier` | memory is declared broken at the very moment of a commit |
//! | `admission` | a process with another log directory, or without standard descriptors |
//! | `together` | at work at the same time |
//! | `leaving` | leaving in either order, opening twice, opening all at once |
//! | `forks` | children of a fork: they are told, and keep nobody alive |
//! | `builds` | another build of the library |
//! | `users` | other users, strangers and friends |
//! | `death` | all processes die; then their shared memory is repaired, or it is gone too |
//! | `survivors` | one of several dies; the others repair what it left and go on |
//! | `rebuild` | the shared memory is found broken and made anew under all of them |
//! | `wild` | a process stores nonsense into the shared memory and dies |
//! | `deadlocks` | processes wait for each other in a circle |
//! | `forked`, `fork` | children that outlive the process that forked them |
//! | `stopped` | a process stands still in the middle of its work |
//! | `halted` | a process stands still at a task that one session has at a time |
//! | `given_up` | a process stands still before a write, and goes on when the memory was given up |
//! | `hit` | words that check themselves are hit by a wild store |
//! | `indices` | indices of a database that several handles use |
//! | `late` | who leaves while another stands still goes without what that one has |
//! | `copies` | copies of an environment at work, and backups restored in its place |
//! | `missing` | files and directories that vanish under those at work |
//! | `containers` | processes that see other memory or other pids |
//! | `strangers` | memory that another user planted |
//! | `left` | what deleted and moved environments leave behind in shared memory |
//! | `limits` | processes that may have less memory than others |
//! | `durable` | what was read of one who died is as durable as its reader asked for |
//! | `primitives` | the program's own pages and log-record types |
//! | `readers` | who reads a page dies as others wait for it |
//! | `snapshots` | a snapshot among processes that write, are killed, and take checkpoints |
//! | `twice_alone` | all die, and so does who opens next |
//! | `yardstick` | planted bugs, each to be noticed by one of these cases |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

mod admission;
mod bank;
mod barrier;
mod builds;
mod child;
mod containers;
mod copies;
mod crew;
mod deadlocks;
mod death;
#[cfg(feature = "failpoints")]
mod durable;
mod fork;
mod forked;
mod forks;
mod full_disk;
#[cfg(feature = "failpoints")]
mod given_up;
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
mod yardstick;
