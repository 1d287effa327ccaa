//! R1, R2 and R4: no acknowledged commit is lost and no unfinished transaction is seen, whichever call the machine
//! stops at or fails.
#![forbid(unsafe_code)]

mod dead_leader;
mod every_io;
mod failing_calls;
mod found_tail;
mod limited_process;
mod log_ends;
mod many_restarts;
mod passing_errors;
mod same_again;
mod stale_log;
mod stopped_writer;
