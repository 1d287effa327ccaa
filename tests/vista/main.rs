//! Recoverable memory under attack: killed at any moment, and crashed between any two stores.
//!
//! | file | what |
//! |---|---|
//! | `killed` | a process that changes a segment is killed again and again, at random moments |
//! | `trace` | a child is stepped through its transactions, one instruction at a time; each store it does, each line it writes back and each fence is told |
//! | `instructions` | what the child's next instruction may do to the file |
//! | `traced` | after each of them the segment is recovered as if the machine had stopped there |
//! | `lines` | what memory may have then, where it outlives the cache |
//! | `joined` | the same of a transaction over records and memory: of both, or of neither |
//! | `members` | the same of a segment of an environment in which a transaction's number comes again |
//! | `parts` | the same of parts of a transaction that are taken back |
//! | `business` | what they do with a segment, and how it is judged |
//! | `several` | the same by several threads, which are in each other's way |
//! | `typed` | the same with typed memory |
//! | `boxes` | the same with values in boxes |
//! | `mappings` | a process that may have few mappings more, and ranges that are found by themselves |
//! | `forks` | children that outlive their killed parent |
//! | `inherited` | what a child inherits of its parent's transactions is not its to use |
//! | `calls` | a child whose system calls are told, one after the other |
//! | `creation` | a new segment is on its disk, name and all, before it is used |
//! | `commit` | the end of a transaction: one store, no system call |
//! | `modes` | what it does until it is killed: all ways to use recoverable memory, one after the other |
//! | `hidden` | stores to what is vista's, and to the ends of both mappings, where nobody guards anything |
//! | `wild` | stores to anywhere, with the guard and without |
//! | `wild_found` | without it: who notices each of them |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

mod boxes;
mod business;
mod calls;
mod commit;
mod creation;
mod forks;
mod hidden;
mod inherited;
mod instructions;
mod joined;
mod killed;
mod lines;
mod mappings;
mod members;
mod modes;
mod parts;
mod quiet;
mod several;
mod trace;
mod traced;
mod typed;
mod wild;
mod wild_found;
