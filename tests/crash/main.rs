//! The machine stops at any call, or any call fails. No acknowledged commit may be lost, and no change of an unfinished
//! transaction may be there afterwards.
#![forbid(unsafe_code)]

mod dead_leader;
mod every_io;
mod failed_reads;
mod failing_calls;
mod found_tail;
mod limited_process;
mod log_ends;
mod many_restarts;
mod same_again;
mod stale_log;
mod stopped_writer;
mod whole_writes;
