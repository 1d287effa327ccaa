//! The log as a whole, on a simulated disk, through two mappings of its region.

// Numbers in these tests are small, or meant to wrap.
#![allow(clippy::cast_possible_truncation)]

mod appending;
mod flushing;
mod missing;
mod recycling;
mod restarting;
mod rig;
mod saving;
mod slow_disk;
mod wild_words;
