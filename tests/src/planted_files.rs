//! The yardstick of plain files: bugs that a test build can switch on. A case of `tests/files` must notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

const CRASHES: &str = "simulated::files_and_records_are_of_one_version_after_any_crash";

/// All planted bugs.
pub const PLANTED_FILES: &[PlantedDeath] = &[
    by("libtp: a new plain file is not synced", CRASHES),
    by("libtp: names of new plain files are not synced", CRASHES),
    by("libtp: plain files are in their places before the commit is on disk", CRASHES),
    by("libtp: rows of plain files go before their directories are synced", CRASHES),
    by(
        "libtp: a plain file that another program changed is replaced",
        "rules::what_another_program_changed_is_not_replaced",
    ),
    by(
        "libtp: a plain file is removed again that another program put back",
        "rules::what_was_removed_and_is_put_back_stays",
    ),
    by("libtp: temporary files of the living are swept", "rules::who_opens_sweeps_nothing_of_the_living"),
    by("libtp: a copy puts files of its original in place", "rules::a_copy_leaves_the_files_of_its_original_alone"),
    by(
        "libtp: a plain file that is not in its directory has its name",
        "rules::what_is_on_a_disk_that_is_not_mounted_waits_for_it",
    ),
    by(
        "libtp: plain files of the dead stay where they are",
        "deaths::survivors_put_the_files_of_the_dead_in_their_places",
    ),
];
