//! The yardstick of transactions over records and memory: bugs that a test build can switch on, each to be noticed by a case of
//! `tests/joint`.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// All of them.
#[rustfmt::skip]
pub const PLANTED_JOINT: &[PlantedDeath] = &[
    by("libtp: memory is told before the log", "deaths::what_is_not_committed_is_taken_back"),
    by("txn: memory is told before the disk", "deaths::a_restart_finds_what_was_committed"),
    by("txn: the memory of who died committed is forgotten", "deaths::survivors_find_what_was_committed"),
    by("txn: repair forgets the memory of who committed", "deaths::who_opens_next_finds_what_was_committed"),
    by("txn: restart forgets the memory of who committed", "deaths::a_restart_finds_what_was_committed"),
    by("txn: checkpoint forgets the memory of who committed", "deaths::checkpoints_carry_what_nobody_has_told"),
    by("libtp: a segment is taken from who works on it", "doubt::who_died_of_a_panic_keeps_memory_until_it_lets_go"),
];
