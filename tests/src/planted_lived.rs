//! The yardstick of long-lived use: bugs that a test build can switch on. Each bug makes something grow, and the short
//! case of `tests/lived` must notice it.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn grows(name: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase("yardstick::a_small_house_does_not_grow_either"), is_seldom: false }
}

/// All planted bugs.
pub const PLANTED_LIVED: &[PlantedDeath] = &[
    grows("record: who empties a leaf leaves it to others"),
    grows("record: free pages are not taken"),
    grows("log: files that nobody needs stay"),
    grows("libtp: sessions that were given back are not taken again"),
];
