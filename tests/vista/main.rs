//! Recoverable memory under attack: killed at any moment, and crashed between any two stores.
//!
//! | file | what |
//! |---|---|
//! | `killed` | a process that changes a segment is killed many times, at random moments |
//! | `trace` | steps a child one instruction at a time; reports each store, each line written back and each fence |
//! | `traced` | after each event the segment is recovered as if the machine had stopped there |
//! | `lines` | the possible states of memory that outlives the cache |
//! | `joined` | as `traced`, with a transaction over records and memory: all changes of both are there, or no change |
//! | `members` | as `traced`, with a segment of an environment in which a transaction's number recurs |
//! | `parts` | as `traced`, with parts of a transaction that are rolled back |
//! | `business` | the children's work with a segment, and its check |
//! | `several` | as `business`, by several threads that contend for locks |
//! | `typed` | as `business`, with typed memory |
//! | `boxes` | as `business`, with values in boxes |
//! | `mappings` | a process with few mappings left, and automatic ranges |
//! | `forks` | children that outlive their killed parent |
//! | `inherited` | a child cannot use its parent's transactions |
//! | `gates` | the quick path is closed to transactions that need more than it does |
//! | `calls` | a child whose system calls are reported, one after another |
//! | `creation` | a new segment and its name are on its disk before the segment is used |
//! | `commit` | the end of a transaction: one store, no system call |
//! | `modes` | the ways to use recoverable memory until the child is killed |
//! | `hidden` | stores to vista's own structures, and to the ends of both mappings, without a guard |
//! | `wild` | wild stores, with the guard and without |
//! | `wild_found` | wild stores without the guard: which check notices each |
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
