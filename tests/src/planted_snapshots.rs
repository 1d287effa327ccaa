//! The yardstick of snapshots: bugs that a test build can switch on. A case of `tests/snapshots` must notice each bug.
//!
//! Ordered by the rules that they break (PROTOCOLS S1 to S4).

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

const ANSWERED: &str = "rules::s1_what_waits_for_the_disk_is_waited_for_and_what_was_answered_is_not";
const UNDONE: &str = "rules::s3_what_is_undone_has_the_lsn_it_had";
const GHOSTS: &str = "rules::s3_ghosts_wait_for_the_oldest_snapshot";
const GONE: &str = "rules::s3_who_is_beyond_the_bounds_is_told_that_ghosts_are_gone";
const CHAINS: &str = "rules::s3_replaced_chains_wait_for_the_oldest_snapshot";
const BOUND: &str = "rules::s4_the_log_that_a_snapshot_needs_is_kept_within_the_bound";

/// All planted bugs.
pub const PLANTED_SNAPSHOTS: &[PlantedDeath] = &[
    by("snapshot: what is not durable is shown at once", ANSWERED),
    by("snapshot: relaxed commits are waited for", ANSWERED),
    by("snapshot: all that was logged before is seen", "rules::s2_what_runs_is_not_seen_though_it_logged_before"),
    by("snapshot: who has ended is forgotten", "rules::s2_who_has_ended_beyond_what_is_sure_is_remembered"),
    by("record: what is undone is a new version", UNDONE),
    by("snapshot: ghosts do not wait", GHOSTS),
    by("snapshot: what was removed was never there", GONE),
    by("record: a split forgets what was removed", GONE),
    by("record: a freed chain leaves no trace", CHAINS),
    by("snapshot: the log does not wait", BOUND),
    by("snapshot: what it needs is kept for ever", BOUND),
    by("snapshot: recycled log counts as damage", BOUND),
    by("snapshot: what was found is forgotten", "rules::s4_a_long_history_is_walked_once"),
    by("snapshot: no shortcuts are left", "rules::s4_who_comes_late_is_led_past_a_long_history"),
    by("snapshot: a shortcut of before is taken", "rules::s4_a_shortcut_is_not_for_who_came_after_it"),
    by(
        "snapshot: a shortcut of before it was taken",
        "rules::s4_what_was_undone_before_a_snapshot_is_no_shortcut_of_it",
    ),
];
