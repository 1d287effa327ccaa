//! The yardsticks of models and histories: bugs that a test build can switch on, each to be noticed by a case of `tests/model` or
//! `tests/isolation`.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// By a case of `tests/model`.
pub const PLANTED_MODEL: &[PlantedDeath] =
    &[by("record: a cursor that seeks in vain stands behind all", "btree::a_btree_with_pages_of_4_kib_is_as_a_map")];

/// By a case of `tests/isolation`.
pub const PLANTED_ISOLATION: &[PlantedDeath] = &[by(
    "libtp: the order of a key's values is not locked",
    "appended::appends_without_a_look_are_strictly_serializable",
)];
