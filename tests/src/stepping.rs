//! Runs a child's thread from one store instruction to the next.
//!
//! A single step costs two context switches. So the child runs through many quiet instructions without a stop, up to a
//! breakpoint.
//!
//! | file | contents |
//! |---|---|
//! | `tracee` | a child that asks to be traced, and stops |
//! | `instructions` | the possible effects of the child's next instruction on a file or on shared memory |
//! | `quiet` | instructions that store to nothing but the stack |
//! | `events` | stops the child before each store to shared memory and before each system call |
//! | `source` | the source line of an address in the child's code |
//! | `processor` | puts the child and its tracer on one processor |

mod events;
mod instructions;
mod processor;
mod quiet;
mod source;
mod tracee;

pub use events::{Event, Events};
pub use instructions::{Effect, Instructions, Memory};
pub use processor::on_one_processor;
pub use source::Place;
pub use tracee::{be_traced, mark, stopped, MARK};
