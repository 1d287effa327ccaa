//! The yardstick of histories: bugs that a test build can switch on, each to be noticed by a case of `tests/isolation`.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// By a case of `tests/isolation`.
pub const PLANTED_ISOLATION: &[PlantedDeath] = &[by(
    "libtp: the order of a key's values is not locked",
    "appended::appends_without_a_look_are_strictly_serializable",
)];
