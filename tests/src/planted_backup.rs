//! The yardstick of backups: bugs that a test build can switch on, each to be noticed by a case of `tests/backup`.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

const TORN: &str = "simulated::pages_written_in_the_middle_of_being_read_do_no_harm";
const CLOCKS: &str = "clocks::times_in_the_log_never_go_back_and_durations_do_not_follow_the_wall_clock";
const DAMAGED: &str = "harm::a_damaged_backup_is_noticed";

/// All of them.
pub const PLANTED_BACKUP: &[PlantedDeath] = &[
    by("log: times of flush marks go back", CLOCKS),
    by("process: durations come from the wall clock", CLOCKS),
    by("txn: the log does not wait for who copies it", TORN),
    by("libtp: a torn copy is believed", TORN),
    by("libtp: a backup's log ends before its pages", TORN),
    by("libtp: databases made meanwhile are not in a backup", "rules::what_is_made_meanwhile_is_in_it"),
    by("libtp: a restore believes what it reads", DAMAGED),
    by("libtp: a restored environment is the old one", "rules::a_restored_environment_is_another_one"),
    by("libtp: a state before the copied pages is restored", "harm::what_is_no_backup_of_this_environment_is_refused"),
    by("libtp: another log is added to a backup", "rules::a_log_that_went_another_way_is_not_added"),
    by("libtp: two backups go to one directory", "rules::two_backups_to_one_directory_leave_one_that_is_whole"),
    by("libtp: salvaged values keep their numbers", "salvage::what_can_be_read_is_salvaged_and_what_cannot_is_named"),
    by("libtp: lost pages are not told of", "salvage::what_can_be_read_is_salvaged_and_what_cannot_is_named"),
];
