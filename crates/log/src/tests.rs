//! The log as a whole, on a simulated disk, through two mappings of its region.

mod appending;
mod flushing;
mod recycling;
mod restarting;
mod rig;
