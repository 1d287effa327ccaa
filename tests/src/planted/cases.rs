//! Bugs that a case of one suite must notice.

use super::Suite::{Backup, Files, Isolation, Joint, Lived, Model, Multiprocess, Snapshots, Stepped, Vista, Warm};
use super::{case, seldom, Planted};

const TORN: &str = "simulated::pages_written_while_a_backup_reads_them_do_no_harm";
const MISSING: &str = "refused::a_log_file_that_is_missing_or_cut_is_refused_and_nothing_is_changed";
const CUT_OFF: &str = "refused::a_power_cut_in_a_restore_leaves_a_whole_environment_or_no_environment";
const CLOCKS: &str = "clocks::times_in_the_log_never_go_back_and_durations_do_not_follow_the_wall_clock";
const DROPPED: &str =
    "dropped::deaths::a_death_while_databases_are_dropped_or_renamed_leaves_all_of_the_change_or_nothing";
const FAILING: &str = "dropped_simulated::names_do_not_count_as_durable_after_a_failed_sync";
const TRADED: &str = "dropped_simulated::databases_keep_exchanged_names_after_a_restore_with_any_crash";
const LOSER: &str = "missing::an_unfinished_transaction_is_undone_in_a_missing_file_when_the_file_returns";
const DAMAGED: &str = "harm::a_damaged_backup_is_noticed";
const CRASHES: &str = "simulated::files_and_records_have_the_same_version_after_any_crash";
const ANSWERED: &str = "rules::s1_a_snapshot_waits_for_unanswered_sync_commits_but_for_no_answered_commits";
const UNDONE: &str = "rules::s3_an_undone_record_has_its_old_lsn";
const GHOSTS: &str = "rules::s3_ghosts_wait_for_the_oldest_snapshot";
const GONE: &str = "rules::s3_a_snapshot_beyond_the_bounds_gets_an_error_if_it_needs_removed_ghosts";
const CHAINS: &str = "rules::s3_replaced_chains_wait_for_the_oldest_snapshot";
const BOUND: &str = "rules::s4_the_log_that_a_snapshot_needs_is_kept_within_the_bound";
const CACHE: &str = "simulated::answered_commits_survive_the_loss_of_the_cache";
const HOUSE: &str = "yardstick::a_small_environment_does_not_grow";

#[rustfmt::skip]
pub(super) const CASES: &[Planted] = &[
    // Backups.
    case(Backup, "log: times of flush marks go back", CLOCKS),
    case(Backup, "process: durations come from the wall clock", CLOCKS),
    case(Backup, "txn: checkpoints recycle log that a backup copies", TORN),
    case(Backup, "libtp: a backup keeps a torn page", TORN),
    case(Backup, "libtp: a backup's log ends before its pages", TORN),
    case(Backup, "libtp: a backup lacks databases that are made while it runs", "rules::databases_made_during_a_backup_are_in_the_backup"),
    case(Backup, "log: no note states that a new segment has log", MISSING),
    case(Backup, "log: a refused restart begins an incarnation", MISSING),
    case(Backup, "txn: a restart looks at no record before the redo point", "refused::damage_in_log_that_only_undo_needs_is_refused_and_nothing_is_changed"),
    case(Backup, "libtp: an unfinished restore opens as an environment", CUT_OFF),
    case(Backup, "libtp: an environment with an unfinished load opens", "filling::a_power_cut_during_a_load_leaves_all_records_or_no_environment"),
    case(Backup, "libtp: a creation that was cut off counts as an environment", "filling::the_next_call_completes_a_creation_that_was_cut_off"),
    case(Backup, "libtp: a restore does not check pages", DAMAGED),
    case(Backup, "libtp: a restored environment keeps the identity of the original", "rules::a_restored_environment_has_its_own_identity"),
    case(Backup, "libtp: a restore to a state before the copied pages is accepted", "harm::a_directory_that_is_no_backup_of_this_environment_is_refused"),
    case(Backup, "libtp: a diverged log is added to a backup", "rules::a_log_that_diverged_from_the_backed_up_log_is_not_added"),
    case(Backup, "libtp: two backups write to one directory at once", "rules::a_second_backup_into_the_same_directory_is_refused_and_the_first_is_complete"),
    case(Backup, "txn: redo skips a missing file", "missing::after_a_restart_a_missing_file_loses_nothing_and_stops_only_its_own_database"),
    case(Backup, "record: a database with a missing file is created again", "missing::after_a_clean_close_a_missing_file_is_not_created_again"),
    case(Backup, "buffer: a file is accepted by its name alone", "missing::an_empty_truncated_or_foreign_file_stops_only_its_own_database"),
    case(Backup, "buffer: a missing file stops all checkpoints", "missing::a_file_that_is_missing_or_replaced_while_the_environment_is_open_stops_only_its_own_database"),
    case(Backup, "buffer: pages are written to a replaced file", "missing::a_file_replaced_by_an_older_copy_while_it_is_open_loses_no_changes"),
    case(Backup, "buffer: double-write images of a missing file are dropped", "missing_simulated::torn_pages_are_mended_when_their_file_is_back"),
    case(Backup, "record: a creation that meets a limit of its process poisons the log", "dropped_simulated::a_failed_register_write_of_one_process_does_not_stop_other_processes"),
    case(Backup, "txn: the setting for kept log is not shared", "rules::checkpoints_of_all_processes_keep_the_log_that_one_process_asks_to_keep"),
    case(Backup, "txn: restart drops a loser's changes in a missing file", LOSER),
    case(Backup, "txn: a restart fails if a file that a loser changed is missing", LOSER),
    case(Backup, "buffer: a dead process's new file slot is not counted", "dropped::deaths::an_unfinished_database_in_a_used_slot_is_found_and_can_be_dropped"),
    case(Backup, "txn: a loser's changes in a file that was missing are undone twice", "missing_simulated::changes_are_undone_once_in_a_file_that_returns_after_an_interrupted_restart"),
    case(Backup, "buffer: a drop is not written to the register", DROPPED),
    case(Backup, "buffer: the register drops the old name before the rename", DROPPED),
    case(Backup, "buffer: a rename replaces the file of another database", TRADED),
    case(Backup, "txn: locks are released before a drop or rename has ended", "dropped_simulated::repair_does_not_repeat_a_rename_that_another_rename_followed"),
    case(Backup, "record: a name is registered after a failed sync", FAILING),
    case(Backup, "buffer: a new name counts as durable if the directory has it", FAILING),
    case(Backup, "txn: the control file drops incarnations whose log is kept", "rules::log_that_was_kept_over_many_openings_is_added_to_a_backup"),
    case(Backup, "txn: databases are dropped before the commit is on disk", DROPPED),
    case(Backup, "txn: repair skips drops and renames of a dead session", DROPPED),
    case(Backup, "txn: restart skips committed drops and renames", DROPPED),
    case(Backup, "libtp: salvaged values keep their old order numbers", "salvage::salvage_copies_readable_records_and_names_lost_pages"),
    case(Backup, "libtp: salvage does not report lost pages", "salvage::salvage_copies_readable_records_and_names_lost_pages"),
    // Plain files.
    case(Files, "libtp: a new plain file is not synced", CRASHES),
    case(Files, "libtp: directories of new plain files are not synced", CRASHES),
    case(Files, "libtp: plain files are put in place before the commit is durable", CRASHES),
    case(Files, "libtp: rows of plain files are deleted before the directory sync", CRASHES),
    case(Files, "libtp: a plain file that another program changed is overwritten", "rules::a_file_that_another_program_changed_is_not_replaced"),
    case(Files, "libtp: a plain file that another program put back is removed", "rules::a_removed_file_that_was_restored_is_kept"),
    case(Files, "libtp: temporary files of running transactions are swept", "rules::an_opener_sweeps_no_files_of_running_transactions"),
    case(Files, "libtp: a copied environment puts plain files of the original in place", "rules::a_copied_environment_does_not_finish_files_of_the_original"),
    case(Files, "libtp: a replaced directory is accepted for a plain file", "rules::a_file_on_an_unmounted_disk_waits_for_the_disk"),
    case(Files, "libtp: survivors do not finish plain files of dead sessions", "deaths::survivors_finish_the_files_of_the_dead"),
    // Isolation.
    case(Isolation, "libtp: a lock timeout counts as retryable", "waits::run_repeats_a_transaction_after_a_timeout_only_on_request"),
    case(Isolation, "record: a part is changed without a lock", "waits::a_sum_waits_for_the_transaction_that_changed_the_number"),
    case(Isolation, "record: several records are locked in the order of the call", "waits::several_records_are_locked_in_the_order_of_their_keys"),
    case(Isolation, "process: a wait ignores its cancellation", "cancelled::the_program_cancels_its_waits"),
    case(Isolation, "snapshot: commits that other sessions read are not visible", "session_order::reads_never_go_backwards_where_commits_are_synced"),
    case(Isolation, "libtp: the order of a key's values is not locked", "appended::appends_without_reads_are_strictly_serializable"),
    case(Isolation, "record: an append in order keeps no lock", "appended::appends_without_reads_are_strictly_serializable"),
    case(Isolation, "lock: the epoch is read before the intent lock is active", "whole::a_transaction_that_has_locked_a_database_works_alone_in_the_database"),
    case(Isolation, "lock: the revocation of an intent lock does not end the epoch", "whole::a_transaction_that_has_locked_a_database_works_alone_in_the_database"),
    seldom(case(Isolation, "lock: intent locks are revoked without a barrier", "whole::a_transaction_that_has_locked_a_database_works_alone_in_the_database")),
    case(Isolation, "lock: a locker does not look for its own request", "waits::a_transaction_can_write_a_record_after_another_reader_of_the_record_has_ended"),
    case(Isolation, "lock: a wait for another transaction of the same thread is allowed", "waits::two_transactions_of_one_thread_that_wait_for_each_other_are_refused"),
    case(Isolation, "libtp: an opening ignores its time limit", "waits::an_opening_with_a_time_limit_waits_no_longer"),
    case(Isolation, "libtp: a compaction waits for its own thread", "waits::a_compaction_that_waits_for_a_transaction_of_its_own_thread_is_refused"),
    // Transactions over records and memory.
    case(Joint, "libtp: segments commit before the commit record", "deaths::an_uncommitted_change_is_undone"),
    case(Joint, "txn: segments commit before the commit record is durable", "deaths::a_restart_finds_the_commit"),
    case(Joint, "txn: the reaper forgets the segments of a committed transaction", "deaths::survivors_find_the_commit"),
    case(Joint, "txn: repair forgets the segments of a committed transaction", "deaths::the_next_opener_finds_the_commit"),
    case(Joint, "txn: restart forgets the segments of a committed transaction", "deaths::a_restart_finds_the_commit"),
    case(Joint, "txn: checkpoints omit the segments of committed transactions", "deaths::checkpoints_carry_outcomes_that_no_session_has_applied"),
    case(Joint, "vista: a decision is recorded only after its application", "deaths::a_restart_notices_memory_whose_records_are_lost"),
    case(Joint, "vista: a rollback does not clear the recorded decision", "deaths::a_rolled_back_segment_has_not_applied_a_decision"),
    case(Joint, "undo: records after a savepoint are cut before their images are restored", "deaths::a_death_in_a_rollback_to_a_savepoint_undoes_the_whole_transaction"),
    case(Joint, "vista: a rollback to a savepoint restores no memory", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "vista: a rollback to a savepoint does not restore freed blocks", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "libtp: a segment joined after a savepoint is not rolled back", "parts::a_rollback_to_a_savepoint_restores_memory"),
    case(Joint, "txn: open outcomes are read without the latch", "moments::a_checkpoint_does_not_confuse_unresolved_transactions"),
    case(Joint, "libtp: a segment is joined without a row in the table of outcomes", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    case(Joint, "libtp: a commit of unknown durability is reported as aborted", "moments::a_commit_on_a_failed_disk_needs_no_room"),
    case(Joint, "txn: a session in a broken region commits segments", "doubt::a_commit_in_abandoned_memory_reaches_no_segment"),
    case(Joint, "libtp: a forked child keeps its parent's segment locks", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Joint, "libtp: a dead process counts as the user of a segment", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Joint, "libtp: a segment is taken from a working transaction", "doubt::a_session_that_died_of_a_panic_keeps_the_segment_until_its_guard_ends"),
    // Each bug makes something grow.
    case(Lived, "record: an empty leaf is not unlinked", HOUSE),
    case(Lived, "record: free pages are not reused", HOUSE),
    case(Lived, "log: unneeded segments are not removed", HOUSE),
    case(Lived, "libtp: returned sessions are not reused", HOUSE),
    // Credits in the log (PROTOCOLS D11).
    case(Lived, "log: a large reservation gives the session a credit", "log_room::the_smallest_commits_after_a_large_reservation_stay_within_the_ring"),
    case(Lived, "log: appends on credit use the bytes reserved for deletions", "log_room::appends_on_credit_do_not_use_the_bytes_reserved_for_deletions"),
    case(Lived, "process: a new session has a credit in the log", "log_room::a_session_of_the_next_life_has_no_old_credit"),
    case(Multiprocess, "libtp: an opening changes files before it has tried to make its memory", "unfinished::an_opening_that_cannot_make_its_memory_changes_no_file"),
    case(Multiprocess, "libtp: a refused recovery states that nothing was changed", "unfinished::a_restart_that_fails_after_its_first_change_says_so_and_the_next_opening_has_every_commit"),
    case(Multiprocess, "txn: a record that ends or frees has no log space of its own", "full_disk::a_drop_succeeds_on_the_full_disk_and_frees_room"),
    case(Multiprocess, "record: a copy for which memory is missing aborts", "limits::a_value_for_which_a_process_has_no_memory_is_an_error_and_the_process_continues"),
    // Models.
    case(Model, "record: pages of a long value stay allocated although its record was refused", "long_values::the_pages_of_a_long_value_are_freed_if_its_record_is_refused"),
    case(Model, "record: a record is changed at its old place although its leaf has changed", "btree::a_record_that_moves_while_it_is_changed_is_changed_in_its_new_place"),
    case(Model, "record: any page counts as the last leaf", "btree::a_btree_with_pages_of_4_kib_agrees_with_a_map"),
    case(Model, "record: a part of a long value is changed on the leaf", "btree::a_btree_with_pages_of_4_kib_agrees_with_a_map"),
    case(Model, "record: a cursor continues on a page that has changed", "btree::a_btree_with_pages_of_4_kib_agrees_with_a_map"),
    case(Model, "record: a cursor that finds no key loses its place", "btree::a_btree_with_pages_of_4_kib_agrees_with_a_map"),
    case(Model, "record: a hash cursor at the end finds no later record", "hash::a_hash_file_with_pages_of_4_kib_agrees_with_a_map"),
    case(Model, "record: a cursor loses its place at the end", "btree::a_btree_with_pages_of_4_kib_agrees_with_a_map"),
    // Snapshots, ordered by the rules that they break (PROTOCOLS S1 to S4).
    case(Snapshots, "snapshot: commits that are not durable are visible", ANSWERED),
    case(Snapshots, "snapshot: a snapshot waits for relaxed commits", ANSWERED),
    case(Snapshots, "snapshot: records of running transactions are visible", "rules::s2_changes_logged_before_a_snapshot_by_a_running_transaction_are_not_visible"),
    case(Snapshots, "snapshot: ended transactions are dropped too early", "rules::s2_a_commit_that_is_not_on_disk_is_visible_after_its_session_has_begun_another_transaction"),
    case(Snapshots, "record: an undo makes a new version", UNDONE),
    case(Snapshots, "snapshot: ghosts that a snapshot needs are removed", GHOSTS),
    case(Snapshots, "snapshot: a reader does not notice that a version was removed", GONE),
    case(Snapshots, "txn: repair releases latches before the redo of an update", "half::a_snapshot_sees_no_part_of_an_update_whose_session_died"),
    case(Snapshots, "buffer: no before-images are saved for changes without a log record", "half::an_unprotected_update_whose_session_died_is_rolled_back"),
    case(Snapshots, "record: a split drops the mark of removed versions", GONE),
    case(Snapshots, "record: the release of a chain sets no mark of removed versions", CHAINS),
    case(Snapshots, "snapshot: log that a snapshot needs is recycled", BOUND),
    case(Snapshots, "snapshot: a snapshot keeps log without a bound", BOUND),
    case(Snapshots, "snapshot: recycled log counts as damage", BOUND),
    case(Snapshots, "snapshot: found versions are not cached", "rules::s4_a_long_history_is_walked_once"),
    case(Snapshots, "snapshot: writers make no shortcuts", "rules::s4_a_shortcut_lets_a_late_reader_skip_a_long_history"),
    case(Snapshots, "snapshot: a snapshot uses shortcuts of any age", "rules::s4_a_snapshot_uses_no_shortcut_that_was_made_for_an_earlier_snapshot"),
    case(Snapshots, "snapshot: a snapshot uses shortcuts made between its LSN and its begin", "rules::s4_a_snapshot_uses_no_shortcut_of_a_change_that_was_undone_before_the_snapshot"),
    // The order of stores (PROTOCOLS D3, D4, D15). No failpoint is between two of these stores.
    case(Stepped, "rio: a word changes before its before-image is saved", "deaths_in_a_lock"),
    case(Stepped, "rio: the before-image of a word is published before its bytes", "deaths_in_a_lock"),
    seldom(case(Stepped, "rio: before-images are discarded before they are put back", "deaths_of_repairers_of_an_insert")),
    case(Stepped, "txn: the page LSN precedes the page's bytes", "deaths_in_an_insert"),
    case(Stepped, "record: the header of an insertion has no before-image", "deaths_in_an_insert"),
    case(Stepped, "log: the tail is published before the session notes its append", "deaths_in_an_append_to_records_by_number"),
    // Commits that are answered from memory.
    case(Warm, "libtp: a commit returns before its record is in memory", CACHE),
    case(Warm, "libtp: a warm start ignores the log's tail in memory", CACHE),
    case(Warm, "log: a warm start accepts a torn record", CACHE),
    case(Warm, "log: answered commits are not written back", CACHE),
    case(Warm, "log: the ring's directory is not written back", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "log: a chunk is reused before the durable end is written back", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "log: the ring's end is trusted after lost cache lines", "ring::kept_records_are_found_after_any_loss_of_the_cache"),
    case(Warm, "txn: the control file does not record Rio commits", "basics::lost_memory_is_reported"),
    case(Warm, "txn: the control file does not record Rio commits after a repair", "deaths::commits_after_an_interrupted_close_are_not_forgotten"),
    case(Warm, "libtp: a process without lasting memory is refused too late", "basics::a_process_without_lasting_memory_changes_nothing"),
    case(Warm, "libtp: a death before the report of a loss hides the loss", "deaths::a_death_after_the_memory_was_found_lost_leaves_the_report_to_the_next_process"),
    case(Warm, "libtp: the region does not record a changed setting of surviving memory", "basics::a_process_that_repairs_a_dead_process_may_declare_that_the_memory_survives"),
    case(Warm, "libtp: an environment opens without its missing memory", "basics::an_opening_without_the_memory_is_refused_until_the_memory_is_back"),
    case(Warm, "libtp: the setting of surviving memory applies to any directory", "basics::the_declaration_that_one_directory_survives_does_not_apply_to_another_directory"),
    // Locks and memory that a forked child inherits.
    case(Vista, "rio: a forked child keeps its parent's lock", "forks::a_child_that_outlives_its_killed_parent_keeps_no_segment"),
    case(Vista, "io: a cloned child keeps its parent's lock", "forks::a_child_that_outlives_its_killed_parent_does_not_keep_its_memory_on_a_disk_in_use"),
    case(Vista, "rvm: a forked child writes to its parent's log", "inherited::a_child_writes_nothing_to_its_parents_redo_log"),
    case(Vista, "rio: a forked child counts as its parent", "inherited::a_child_cannot_use_its_parents_transaction"),
    case(Vista, "rio: a child finds the gates of its parent open", "inherited::a_child_cannot_use_its_parents_transaction"),
    // The quick path of recoverable memory.
    case(Vista, "rio: the gate is open though the quick path is off", "gates::blocks_that_a_transaction_frees_are_free_after_its_end"),
    case(Vista, "rio: the gate is open after a range has failed", "gates::a_range_after_a_refused_range_is_undone"),
];
