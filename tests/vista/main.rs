//! Recoverable memory under attack: killed at any moment, and crashed between any two stores.
//!
//! | file | what |
//! |---|---|
//! | `killed` | a process that changes a segment is killed many times, at random moments |
//! | `trace` | steps a child one instruction at a time; reports each store, each write-back of a line and each fence |
//! | `traced` | after each event the segment is recovered as if the machine had stopped there |
//! | `lines` | the possible states of memory that outlives the cache |
//! | `joined` | the test of `traced` for a transaction that changes both records and memory |
//! | `members` | the test of `traced` for a segment of an environment in which a transaction's number recurs |
//! | `parts` | the test of `traced` for parts of a transaction that are rolled back |
//! | `business` | the children's work with a segment, and its check |
//! | `several` | the work of several threads that contend for locks, and its check |
//! | `typed` | the children's work with typed memory, and its check |
//! | `boxes` | the children's work with values in boxes, and its check |
//! | `mappings` | a process with few mappings left, and automatic ranges |
//! | `forks` | children that outlive their killed parent |
//! | `inherited` | a child cannot use its parent's transactions |
//! | `gates` | transactions for which the quick path is closed: with a refused range, or with freed blocks |
//! | `calls` | a child whose system calls are reported, one after another |
//! | `creation` | a new segment and its name are on its disk before the segment is used |
//! | `commit` | the end of a transaction: one store, no system call |
//! | `modes` | the ways in which a child uses recoverable memory until it is killed |
//! | `hidden` | stores to vista's own structures, and to the ends of both mappings, without a guard |
//! | `wild` | wild stores, with the guard and without |
//! | `wild_found` | the checks that notice wild stores without the guard |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

mod boxes;
mod business;
mod calls;
mod commit;
mod creation;
mod forks;
mod gates;
mod hidden;
mod inherited;
mod joined;
mod killed;
mod lines;
mod mappings;
mod members;
mod modes;
mod parts;
mod several;
mod trace;
mod traced;
mod typed;
mod wild;
mod wild_found;
