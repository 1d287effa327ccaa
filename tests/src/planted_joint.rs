//! The yardstick of transactions over records and memory: bugs that a test build can switch on. A case of
//! `tests/joint` must notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// All planted bugs.
#[rustfmt::skip]
pub const PLANTED_JOINT: &[PlantedDeath] = &[
    by("libtp: memory is told before the log", "deaths::what_is_not_committed_is_taken_back"),
    by("txn: memory is told before the disk", "deaths::a_restart_finds_what_was_committed"),
    by("txn: the memory of who died committed is forgotten", "deaths::survivors_find_what_was_committed"),
    by("txn: repair forgets the memory of who committed", "deaths::who_opens_next_finds_what_was_committed"),
    by("txn: restart forgets the memory of who committed", "deaths::a_restart_finds_what_was_committed"),
    by("txn: checkpoint forgets the memory of who committed", "deaths::checkpoints_carry_what_nobody_has_told"),
    by("vista: what is followed is noted when that is over", "deaths::a_restart_notices_memory_whose_records_are_lost"),
    by("vista: what is rolled back is still about to be followed", "deaths::what_was_rolled_back_is_not_what_was_followed"),
    by("undo: a part is cut off before it is put back", "deaths::what_dies_while_a_part_is_taken_back_is_taken_back_whole"),
    by("vista: what goes back leaves memory as it is", "parts::what_a_part_did_to_memory_is_taken_back"),
    by("vista: what was freed in a part that was taken back is gone", "parts::what_a_part_did_to_memory_is_taken_back"),
    by("libtp: memory that was joined in a part keeps what that stored", "parts::what_a_part_did_to_memory_is_taken_back"),
    by("txn: open outcomes are read without the latch", "moments::a_checkpoint_takes_no_transaction_for_another"),
    by("libtp: a segment is joined without its row", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    by("libtp: a commit that nobody made sure of counts as aborted", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    by("txn: memory is told by memory that was given up", "doubt::what_commits_in_memory_that_was_given_up_is_told_to_no_segment"),
    by("libtp: a child of a fork keeps its parent's segments", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    by("libtp: a ghost is at work in a segment", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    by("libtp: a segment is taken from who works on it", "doubt::who_died_of_a_panic_keeps_memory_until_it_lets_go"),
];
