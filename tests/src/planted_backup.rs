//! The yardstick of backups: bugs that a test build can switch on. A case of `tests/backup` must notice each bug.

use crate::planted_deaths::{Judge, PlantedDeath};

const fn by(name: &'static str, case: &'static str) -> PlantedDeath {
    PlantedDeath { name, judge: Judge::OwnCase(case), is_seldom: false }
}

const TORN: &str = "simulated::pages_written_in_the_middle_of_being_read_do_no_harm";
const MISSING: &str = "refused::a_log_file_that_is_missing_or_cut_is_refused_and_nothing_is_changed";
const CUT_OFF: &str = "refused::a_power_cut_in_a_restore_leaves_an_environment_or_none";
const CLOCKS: &str = "clocks::times_in_the_log_never_go_back_and_durations_do_not_follow_the_wall_clock";
const DROPPED: &str = "dropped::deaths::who_dies_over_databases_leaves_all_of_it_or_nothing";
const FAILING: &str = "dropped_simulated::no_name_is_taken_for_durable_after_a_failed_sync";
const TRADED: &str = "dropped_simulated::databases_that_traded_names_have_them_after_a_restore_and_any_crash_in_it";
const LOSER: &str = "missing::a_loser_is_taken_back_in_a_missing_file_when_that_is_there_again";
const DAMAGED: &str = "harm::a_damaged_backup_is_noticed";

/// All planted bugs.
pub const PLANTED_BACKUP: &[PlantedDeath] = &[
    by("log: times of flush marks go back", CLOCKS),
    by("process: durations come from the wall clock", CLOCKS),
    by("txn: the log does not wait for who copies it", TORN),
    by("libtp: a torn copy is believed", TORN),
    by("libtp: a backup's log ends before its pages", TORN),
    by("libtp: databases made meanwhile are not in a backup", "rules::what_is_made_meanwhile_is_in_it"),
    by("log: a new segment is not noted", MISSING),
    by("log: a restart that is refused has begun", MISSING),
    by("libtp: a restore that was cut off passes for an environment", CUT_OFF),
    by(
        "libtp: an environment whose load was cut off passes for a whole one",
        "filling::a_power_cut_in_a_load_leaves_all_of_it_or_no_environment",
    ),
    by("libtp: a restore believes what it reads", DAMAGED),
    by("libtp: a restored environment is the old one", "rules::a_restored_environment_is_another_one"),
    by("libtp: a state before the copied pages is restored", "harm::what_is_no_backup_of_this_environment_is_refused"),
    by("libtp: another log is added to a backup", "rules::a_log_that_went_another_way_is_not_added"),
    by("libtp: two backups go to one directory", "rules::two_backups_to_one_directory_leave_one_that_is_whole"),
    by(
        "txn: redo passes over a file that is away",
        "missing::after_a_restart_a_missing_file_loses_nothing_and_stops_its_own_database_alone",
    ),
    by(
        "record: a database whose file is missing is made anew",
        "missing::after_a_clean_close_a_missing_file_is_not_made_anew",
    ),
    by(
        "buffer: a file is taken for a database's by its name",
        "missing::an_empty_cut_or_foreign_file_stops_its_own_database_alone",
    ),
    by(
        "buffer: a file that is away stops every checkpoint",
        "missing::in_living_memory_a_file_that_is_away_or_replaced_stops_its_own_database_alone",
    ),
    by(
        "buffer: a file that was replaced is written on",
        "missing::in_living_memory_a_file_that_an_older_copy_replaces_is_not_given_up",
    ),
    by(
        "buffer: images of a file that is away are not kept",
        "missing_simulated::torn_pages_are_mended_when_their_file_is_back",
    ),
    by(
        "record: a limit of a process that makes a database stops all",
        "dropped_simulated::a_limit_of_a_process_that_makes_a_database_stops_no_other",
    ),
    by(
        "txn: each process keeps the log that it asks for itself",
        "rules::log_that_one_process_keeps_is_kept_by_the_checkpoints_of_all",
    ),
    by("txn: what a loser changed in a missing file is forgotten", LOSER),
    by("txn: a missing file of a loser refuses the restart", LOSER),
    by(
        "buffer: a slot that a dead process made live is not counted",
        "dropped::deaths::a_database_that_a_process_died_making_in_a_used_slot_is_found_and_can_be_dropped",
    ),
    by(
        "txn: what is left of a transaction that has no end is taken back twice",
        "missing_simulated::a_file_that_is_back_after_a_restart_was_cut_is_taken_back_once",
    ),
    by("buffer: a drop is not in the register", DROPPED),
    by("buffer: the register forgets a name too early", DROPPED),
    by("buffer: a name is given that another database has", TRADED),
    by(
        "txn: locks are released before a drop or a new name is over",
        "dropped_simulated::a_renaming_is_not_carried_out_again_when_another_has_followed",
    ),
    by("record: a name is entered after a failed sync", FAILING),
    by("buffer: a name that is there is taken for durable", FAILING),
    by("txn: lives of a log that is kept are forgotten", "rules::log_that_is_kept_over_many_openings_is_added"),
    by("txn: databases are dropped before the commit is on disk", DROPPED),
    by("txn: what a dead one decided of databases is left", DROPPED),
    by("txn: restart leaves what was decided of databases", DROPPED),
    by("libtp: salvaged values keep their numbers", "salvage::what_can_be_read_is_salvaged_and_what_cannot_is_named"),
    by("libtp: lost pages are not told of", "salvage::what_can_be_read_is_salvaged_and_what_cannot_is_named"),
];
