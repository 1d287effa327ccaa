//! The yardstick of commits answered from memory: bugs that a test build can switch on. A case of `tests/warm` must
//! notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

const CACHE: &str = "simulated::what_was_answered_survives_where_the_cache_is_lost";

/// All planted bugs.
pub const PLANTED_RIO: &[PlantedDeath] = &[
    by("libtp: a commit is answered before its record is in memory", CACHE),
    by("libtp: the log's tail in memory that survived is forgotten", CACHE),
    by("log: a torn record in memory that survived is believed", CACHE),
    by("log: what is answered is not written back", CACHE),
    by("log: the ring's directory is not written back", "ring::what_was_kept_is_found_whatever_the_cache_had"),
    by(
        "log: chunks are used again before memory says that they may",
        "ring::what_was_kept_is_found_whatever_the_cache_had",
    ),
    by("log: where lines were lost the ring's end is believed", "ring::what_was_kept_is_found_whatever_the_cache_had"),
    by("txn: the control file is not told of Rio", "basics::memory_that_is_lost_is_told_of"),
    by(
        "txn: after the dead the control file is not told of Rio again",
        "deaths::commits_after_a_close_that_did_not_end_are_known_of",
    ),
    by(
        "libtp: who may not answer from memory is refused too late",
        "basics::who_may_not_answer_from_memory_changes_nothing",
    ),
    by(
        "libtp: who dies before a loss is told takes it along",
        "deaths::who_dies_after_it_found_that_memory_is_lost_leaves_that_to_be_told",
    ),
    by("libtp: what memory survives is not noted anew", "basics::who_comes_after_the_dead_may_declare_it"),
    by("libtp: memory that is not there is done without", "basics::memory_that_cannot_be_seen_yet_is_waited_for"),
    by(
        "libtp: what is declared is believed of any memory",
        "basics::what_is_declared_of_a_directory_is_not_of_another",
    ),
];
