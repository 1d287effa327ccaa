//! Steps a child's thread by instructions, from one store to the next.
//!
//! A step costs two switches of process. So the child runs through quiet instructions at once, up to a breakpoint.
//!
//! | file | contents |
//! |---|---|
//! | `tracee` | a child that asks to be traced, and its stop |
//! | `instructions` | the possible effects of the child's next instruction on a file or on shared memory |
//! | `quiet` | instructions that store to nothing but the stack |
//! | `events` | stops the child before each store to shared memory and before each system call |
//! | `source` | a place in the child's code, and its line in the source |
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
