//! Bugs that a case of one suite must notice.

use super::Suite::{Backup, Files, Isolation, Joint, Lived, Model, Snapshots, Vista, Warm};
use super::{case, Planted};

const TORN: &str = "simulated::pages_written_in_the_middle_of_being_read_do_no_harm";
const MISSING: &str = "refused::a_log_file_that_is_missing_or_cut_is_refused_and_nothing_is_changed";
const CUT_OFF: &str = "refused::a_power_cut_in_a_restore_leaves_an_environment_or_none";
const CLOCKS: &str = "clocks::times_in_the_log_never_go_back_and_durations_do_not_follow_the_wall_clock";
const DROPPED: &str = "dropped::deaths::a_death_over_databases_leaves_all_of_the_change_or_nothing";
const FAILING: &str = "dropped_simulated::no_name_is_taken_for_durable_after_a_failed_sync";
const TRADED: &str = "dropped_simulated::databases_that_traded_names_have_them_after_a_restore_and_any_crash_in_it";
const LOSER: &str = "missing::a_loser_is_taken_back_in_a_missing_file_when_that_is_there_again";
const DAMAGED: &str = "harm::a_damaged_backup_is_noticed";
const CRASHES: &str = "simulated::files_and_records_are_of_one_version_after_any_crash";
const ANSWERED: &str = "rules::s1_a_snapshot_waits_for_commits_on_their_way_to_disk_and_not_for_answered_ones";
const UNDONE: &str = "rules::s3_an_undone_record_has_its_old_lsn";
const GHOSTS: &str = "rules::s3_ghosts_wait_for_the_oldest_snapshot";
const GONE: &str = "rules::s3_a_snapshot_beyond_the_bounds_learns_that_ghosts_are_gone";
const CHAINS: &str = "rules::s3_replaced_chains_wait_for_the_oldest_snapshot";
const BOUND: &str = "rules::s4_the_log_that_a_snapshot_needs_is_kept_within_the_bound";
const CACHE: &str = "simulated::answered_commits_survive_the_loss_of_the_cache";
const HOUSE: &str = "yardstick::a_small_house_does_not_grow_either";

#[rustfmt::skip]
pub(super) const CASES: &[Planted] = &[
    // Backups.
    case(Backup, "log: times of flush marks go back", CLOCKS),
    case(Backup, "process: durations come from the wall clock", CLOCKS),
    case(Backup, "txn: the log does not wait for who copies it", TORN),
    case(Backup, "libtp: a torn copy is believed", TORN),
    case(Backup, "libtp: a backup's log ends before its pages", TORN),
    case(Backup, "libtp: databases made meanwhile are not in a backup", "rules::databases_made_during_a_backup_are_in_it"),
    case(Backup, "log: a new segment is not noted", MISSING),
    case(Backup, "log: a restart that is refused has begun", MISSING),
    case(Backup, "libtp: a restore that was cut off passes for an environment", CUT_OFF),
    case(Backup, "libtp: an environment whose load was cut off passes for a whole one", "filling::a_power_cut_in_a_load_leaves_all_of_it_or_no_environment"),
    case(Backup, "libtp: a restore believes what it reads", DAMAGED),
    case(Backup, "libtp: a restored environment is the old one", "rules::a_restored_environment_is_another_one"),
    case(Backup, "libtp: a state before the copied pages is restored", "harm::a_directory_that_is_no_backup_of_this_environment_is_refused"),
    case(Backup, "libtp: another log is added to a backup", "rules::a_log_that_went_another_way_is_not_added"),
    case(Backup, "libtp: two backups go to one directory", "rules::two_backups_to_one_directory_leave_one_that_is_whole"),
    case(Backup, "txn: redo passes over a file that is away", "missing::after_a_restart_a_missing_file_loses_nothing_and_stops_its_own_database_alone"),
    case(Backup, "record: a database whose file is missing is made anew", "missing::after_a_clean_close_a_missing_file_is_not_created_again"),
    case(Backup, "buffer: a file is taken for a database's by its name", "missing::an_empty_cut_or_foreign_file_stops_its_own_database_alone"),
    case(Backup, "buffer: a file that is away stops every checkpoint", "missing::in_living_memory_a_file_that_is_away_or_replaced_stops_its_own_database_alone"),
    case(Backup, "buffer: a file that was replaced is written on", "missing::in_living_memory_a_file_that_an_older_copy_replaces_is_not_given_up"),
    case(Backup, "buffer: images of a file that is away are not kept", "missing_simulated::torn_pages_are_mended_when_their_file_is_back"),
    case(Backup, "record: a limit of a process that makes a database stops all", "dropped_simulated::a_limit_of_a_process_that_makes_a_database_stops_no_other"),
    case(Backup, "txn: each process keeps the log that it asks for itself", "rules::log_that_one_process_keeps_is_kept_by_the_checkpoints_of_all"),
    case(Backup, "txn: what a loser changed in a missing file is forgotten", LOSER),
    case(Backup, "txn: a missing file of a loser refuses the restart", LOSER),
    case(Backup, "buffer: a slot that a dead process made live is not counted", "dropped::deaths::a_database_that_a_process_died_making_in_a_used_slot_is_found_and_can_be_dropped"),
    case(Backup, "txn: what is left of a transaction that has no end is taken back twice", "missing_simulated::a_file_that_is_back_after_a_restart_was_cut_is_taken_back_once"),
    case(Backup, "buffer: a drop is not in the register", DROPPED),
    case(Backup, "buffer: the register forgets a name too early", DROPPED),
    case(Backup, "buffer: a name is given that another database has", TRADED),
    case(Backup, "txn: locks are released before a drop or a new name is over", "dropped_simulated::a_renaming_is_not_carried_out_again_when_another_has_followed"),
    case(Backup, "record: a name is entered after a failed sync", FAILING),
    case(Backup, "buffer: a name that is there is taken for durable", FAILING),
    case(Backup, "txn: lives of a log that is kept are forgotten", "rules::log_that_is_kept_over_many_openings_is_added"),
    case(Backup, "txn: databases are dropped before the commit is on disk", DROPPED),
    case(Backup, "txn: what a dead one decided of databases is left", DROPPED),
    case(Backup, "txn: restart leaves what was decided of databases", DROPPED),
    case(Backup, "libtp: salvaged values keep their numbers", "salvage::readable_records_are_salvaged_and_lost_ones_are_named"),
    case(Backup, "libtp: lost pages are not told of", "salvage::readable_records_are_salvaged_and_lost_ones_are_named"),
    // Plain files.
    case(Files, "libtp: a new plain file is not synced", CRASHES),
    case(Files, "libtp: names of new plain files are not synced", CRASHES),
    case(Files, "libtp: plain files are in their places before the commit is on disk", CRASHES),
    case(Files, "libtp: rows of plain files go before their directories are synced", CRASHES),
    case(Files, "libtp: a plain file that another program changed is replaced", "rules::a_file_that_another_program_changed_is_not_replaced"),
    case(Files, "libtp: a plain file is removed again that another program put back", "rules::a_removed_file_that_is_put_back_stays"),
    case(Files, "libtp: temporary files of the living are swept", "rules::an_opener_sweeps_no_files_of_running_transactions"),
    case(Files, "libtp: a copy puts files of its original in place", "rules::a_copy_leaves_the_files_of_its_original_alone"),
    case(Files, "libtp: a plain file that is not in its directory has its name", "rules::a_file_on_an_unmounted_disk_waits_for_the_disk"),
    case(Files, "libtp: plain files of the dead stay where they are", "deaths::survivors_put_the_files_of_the_dead_in_their_places"),
    // Isolation.
    case(Isolation, "libtp: a transaction is run again after a lock timeout", "waits::run_does_not_run_again_after_a_timeout_unless_it_is_asked_to"),
    case(Isolation, "process: a wait is not cancelled", "cancelled::the_program_ends_its_waits"),
    case(Isolation, "snapshot: what others have read is not seen", "session_order::reads_never_go_backwards_where_commits_are_synced"),
    case(Isolation, "libtp: the order of a key's values is not locked", "appended::appends_without_a_look_are_strictly_serializable"),
    case(Isolation, "lock: a thread waits for itself", "waits::two_transactions_of_one_thread_that_wait_for_each_other_are_refused"),
    // Transactions over records and memory.
    case(Joint, "libtp: memory is told before the log", "deaths::an_uncommitted_change_is_undone"),
    case(Joint, "txn: memory is told before the disk", "deaths::a_restart_finds_the_commit"),
    case(Joint, "txn: the memory of who died committed is forgotten", "deaths::survivors_find_the_commit"),
    case(Joint, "txn: repair forgets the memory of who committed", "deaths::the_next_opener_finds_the_commit"),
    case(Joint, "txn: restart forgets the memory of who committed", "deaths::a_restart_finds_the_commit"),
    case(Joint, "txn: checkpoint forgets the memory of who committed", "deaths::checkpoints_carry_outcomes_that_no_session_has_applied"),
    case(Joint, "vista: what is followed is noted when that is over", "deaths::a_restart_notices_memory_whose_records_are_lost"),
    case(Joint, "vista: what is rolled back is still about to be followed", "deaths::a_rollback_is_not_taken_for_a_followed_decision"),
    case(Joint, "undo: a part is cut off before it is put back", "deaths::a_death_in_a_rollback_to_a_savepoint_undoes_the_whole_transaction"),
    case(Joint, "vista: what goes back leaves memory as it is", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "vista: what was freed in a part that was taken back is gone", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "libtp: memory that was joined in a part keeps what that stored", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "txn: open outcomes are read without the latch", "moments::a_checkpoint_takes_no_transaction_for_another"),
    case(Joint, "libtp: a segment is joined without its row", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    case(Joint, "libtp: a commit that nobody made sure of counts as aborted", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    case(Joint, "txn: memory is told by memory that was given up", "doubt::a_commit_in_abandoned_memory_reaches_no_segment"),
    case(Joint, "libtp: a child of a fork keeps its parent's segments", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Joint, "libtp: a ghost is at work in a segment", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Joint, "libtp: a segment is taken from who works on it", "doubt::a_session_dead_of_a_panic_keeps_the_segment_until_its_guard_ends"),
    // Each bug makes something grow.
    case(Lived, "record: who empties a leaf leaves it to others", HOUSE),
    case(Lived, "record: free pages are not taken", HOUSE),
    case(Lived, "log: files that nobody needs stay", HOUSE),
    case(Lived, "libtp: sessions that were given back are not taken again", HOUSE),
    // Models.
    case(Model, "record: a cursor that seeks in vain stands behind all", "btree::a_btree_with_pages_of_4_kib_is_as_a_map"),
    // Snapshots, ordered by the rules that they break (PROTOCOLS S1 to S4).
    case(Snapshots, "snapshot: what is not durable is shown at once", ANSWERED),
    case(Snapshots, "snapshot: relaxed commits are waited for", ANSWERED),
    case(Snapshots, "snapshot: all that was logged before is seen", "rules::s2_a_running_transaction_is_not_seen_though_it_logged_before"),
    case(Snapshots, "snapshot: who has ended is forgotten", "rules::s2_transactions_that_ended_beyond_the_sure_place_are_remembered"),
    case(Snapshots, "record: what is undone is a new version", UNDONE),
    case(Snapshots, "snapshot: ghosts do not wait", GHOSTS),
    case(Snapshots, "snapshot: what was removed was never there", GONE),
    case(Snapshots, "record: a split forgets what was removed", GONE),
    case(Snapshots, "record: a freed chain leaves no trace", CHAINS),
    case(Snapshots, "snapshot: the log does not wait", BOUND),
    case(Snapshots, "snapshot: what it needs is kept for ever", BOUND),
    case(Snapshots, "snapshot: recycled log counts as damage", BOUND),
    case(Snapshots, "snapshot: what was found is forgotten", "rules::s4_a_long_history_is_walked_once"),
    case(Snapshots, "snapshot: no shortcuts are left", "rules::s4_a_late_reader_is_led_past_a_long_history"),
    case(Snapshots, "snapshot: a shortcut of before is taken", "rules::s4_a_shortcut_is_not_for_a_later_snapshot"),
    case(Snapshots, "snapshot: a shortcut of before it was taken", "rules::s4_a_change_undone_before_a_snapshot_is_no_shortcut_of_it"),
    // Commits that are answered from memory.
    case(Warm, "libtp: a commit is answered before its record is in memory", CACHE),
    case(Warm, "libtp: the log's tail in memory that survived is forgotten", CACHE),
    case(Warm, "log: a torn record in memory that survived is believed", CACHE),
    case(Warm, "log: what is answered is not written back", CACHE),
    case(Warm, "log: the ring's directory is not written back", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "log: chunks are used again before memory says that they may", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "log: where lines were lost the ring's end is believed", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "txn: the control file is not told of Rio", "basics::lost_memory_is_reported"),
    case(Warm, "txn: after the dead the control file is not told of Rio again", "deaths::commits_after_a_close_that_did_not_end_are_known_of"),
    case(Warm, "libtp: who may not answer from memory is refused too late", "basics::a_process_without_lasting_memory_changes_nothing"),
    case(Warm, "libtp: who dies before a loss is told takes it along", "deaths::a_death_after_the_memory_was_found_lost_leaves_the_report_to_the_next_process"),
    case(Warm, "libtp: what memory survives is not noted anew", "basics::a_process_after_the_dead_may_declare_it"),
    case(Warm, "libtp: memory that is not there is done without", "basics::memory_that_cannot_be_seen_yet_is_waited_for"),
    case(Warm, "libtp: what is declared is believed of any memory", "basics::the_declaration_of_a_directory_does_not_apply_to_another"),
    // Locks and memory that a forked child inherits.
    case(Vista, "rio: a child keeps its parent's lock", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Vista, "io: a clone keeps its parent's lock", "forks::a_child_that_outlives_its_killed_parent_keeps_no_memory_on_a_disk"),
    case(Vista, "rvm: a child writes its parent's log", "inherited::a_child_writes_nothing_to_its_parents_redo_log"),
    case(Vista, "rio: a child is its parent", "inherited::a_child_is_refused_in_its_parents_transaction_which_is_whole"),
];
