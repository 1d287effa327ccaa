//! The yardstick of models: bugs that a test build can switch on. A case of `tests/model` must notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// All planted bugs.
pub const PLANTED_MODEL: &[PlantedDeath] =
    &[by("record: a cursor that seeks in vain stands behind all", "btree::a_btree_with_pages_of_4_kib_is_as_a_map")];
