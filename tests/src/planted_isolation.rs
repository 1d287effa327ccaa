//! The yardstick of isolation: bugs that a test build can switch on. A case of `tests/isolation` must notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

/// All planted bugs.
pub const PLANTED_ISOLATION: &[PlantedDeath] = &[
    by(
        "libtp: a transaction is run again after a lock timeout",
        "waits::run_does_not_run_again_after_a_timeout_unless_it_is_asked_to",
    ),
    by("process: a wait is not cancelled", "cancelled::the_program_ends_its_waits"),
    by(
        "snapshot: what others have read is not seen",
        "session_order::reads_never_go_backwards_where_commits_are_synced",
    ),
    by(
        "libtp: the order of a key's values is not locked",
        "appended::appends_without_a_look_are_strictly_serializable",
    ),
    by("lock: a thread waits for itself", "waits::two_transactions_of_one_thread_that_wait_for_each_other_are_refused"),
];
