//! Bugs in the handling of a process's death. Each bug must be noticed by a scene in which a process dies and others
//! continue, or by a case of the suites `multiprocess` and `failpoints`.
//!
//! The bugs are grouped by the rules of PROTOCOLS that they break.

use super::Scene::{At, Panicking, Repairing, Standing, Young};
use super::Suite::{Failpoints, Multiprocess};
use super::{case, seldom, Judge, Planted, Scene};

const fn by(name: &'static str, scenes: &'static [Scene]) -> Planted {
    Planted::new(Failpoints, name, Judge::Scenes(scenes))
}

const fn by_case(name: &'static str, of: &'static str) -> Planted {
    case(Multiprocess, name, of)
}

const BELIEVED: &str = "glances::a_page_whose_writer_died_is_not_read_before_it_is_whole";
const CLOSED: &str = "closed::a_program_whose_files_get_the_librarys_descriptors_keeps_its_files_and_loses_no_commit";
const FORKED: &str = "forks::a_handle_in_a_forked_child_reports_the_fork_and_the_parents_handle_is_unchanged";

#[rustfmt::skip]
pub(super) const DEATHS: &[Planted] = &[
    // Limits of a process.
    by_case("rio: a region reserves all remaining address space", "limits::a_process_can_work_under_any_limit_of_its_address_space"),
    by_case("libtp: the free space for shared memory is ignored", "limits::without_a_setting_pages_take_half_of_the_room_for_shared_memory"),
    // L3: the leader's process is stopped.
    by_case("log: a wait for a stopped leader has no bound", "stopped_leader::a_commit_with_a_bound_does_not_wait_for_a_stopped_leader"),
    by_case("log: a leader with a slow disk counts as stopped", "stopped_leader::a_commit_with_a_bound_waits_for_a_leader_that_is_only_slow"),
    by_case("txn: a repair waits for a stopped leader of the log without a bound", "stopped_leader::a_drop_with_a_bound_does_not_wait_for_a_stopped_leader_and_is_done_later"),
    // F3: the program closes descriptors, or a segment is moved.
    by_case("log: descriptors are checked only when a flush begins a new segment", CLOSED),
    by_case("buffer: pages are written into files of the program", CLOSED),
    by_case("buffer: batches are written into files of the program", CLOSED),
    by_case("log: a recycled segment takes the name of a finished segment", "full_disk::a_segment_that_another_process_has_open_is_not_replaced_by_a_recycled_segment"),
    by_case("log: a flush into a segment file that was moved away succeeds", "missing::a_commit_whose_log_segment_was_moved_away_is_not_answered"),
    // L5: processes have different bounds.
    by_case("log: the bound of relaxed commits is not shared", "together::a_relaxed_commit_is_on_disk_within_its_processs_bound_although_another_process_has_a_longer_bound"),
    // L5: the file of the memory is removed.
    by_case("libtp: sessions continue in memory whose file was removed", "nameless::memory_with_a_removed_file_is_rebuilt_with_its_relaxed_commits"),
    by_case("txn: the control file does not record relaxed commits", "nameless::an_opening_after_memory_with_relaxed_commits_was_removed_reports_the_loss"),
    by_case("rio: shared memory is in core dumps", "nameless::core_dumps_contain_the_shared_memory_only_on_request"),
    // D11: the disk is full.
    by_case("log: only whole segments are allocated on a full disk", "full_disk::puts_fill_the_disk_and_deletes_succeed_on_the_full_disk"),
    by_case("log: blocks of unneeded segments are not freed on a full disk", "full_disk::puts_fill_the_disk_and_deletes_succeed_on_the_full_disk"),
    by_case("txn: no checkpoint is taken when the log is full", "full_disk::puts_fill_the_disk_and_deletes_succeed_on_the_full_disk"),
    by_case("log: no room is reserved for deletes", "full_disk::deletes_succeed_where_no_checkpoint_can_free_space"),
    // D1, D2
    by("rio: changes of areas save no before-images", &[At("change: page changed, LSN old")]),
    seldom(by("rio: the end of an inner section discards all images", &[At("rio: a section has closed"), At("change: page changed, LSN old")])),
    by("process: sections of dead sessions are not rolled back", &[At("change: page changed, LSN old")]),
    seldom(by("lock: the latch is released before the section closes", &[At("lock: released, section open")])),
    by("txn: repair releases latches before the rollback", &[At("change: page changed, LSN old")]),
    // D3
    by("log: sessions do not note their appends", &[At("change: logged, no page changed")]),
    by("process: repair ignores the notes of appends", &[At("change: logged, no page changed")]),
    by("txn: the append note is cleared before the pages change", &[At("change: logged, no page changed")]),
    by_case("process: notes of unpublished appends are not cleared", "twice_alone::a_session_that_died_in_an_append_is_undone_though_the_repairer_dies_too"),
    seldom(by("record: a changed length has no before-image", &[At("change: page changed, LSN old")])),
    by("txn: repair does not make the redone record the last record of its transaction", &[At("change: pages changed, record not in the slot")]),
    // D4
    by("txn: repair does not redo the last append of the dead session", &[At("change: logged, no page changed")]),
    by("txn: repair releases latches before the redo", &[At("change: logged, no page changed")]),
    by_case("buffer: a lone repairer writes pages before it has redone the last appends", "twice_alone::a_half_made_update_does_not_reach_the_disk_before_its_record_is_redone"),
    seldom(by("buffer: the page LSN is stored byte by byte", &[At("rio: first repeated store made")])),
    // T2, and D4 for pages that are read without their latches.
    seldom(by_case("process: page visits are checked without a barrier", "barrier::a_visit_that_finds_a_page_is_seen_before_the_page_is_freed")),
    by_case("buffer: a change leaves the count even", BELIEVED),
    by_case("buffer: a page that changes counts as readable", BELIEVED),
    seldom(by_case("buffer: a glance reads the count only once", BELIEVED)),
    by_case("buffer: a repair leaves counts odd", BELIEVED),
    // D5
    by("process: latches of dead sessions stay held", &[At("change: logged, no page changed")]),
    seldom(by("process: two sessions repair the same dead session", &[At("change: logged, no page changed")])),
    seldom(by("process: the repair claim is released before the slot", &[At("change: logged, no page changed")])),
    by_case("process: a dead repairer's section is rolled back too late", "readers::a_frame_in_the_hand_of_a_dead_session_is_not_lost_when_the_repairer_dies_too"),
    by("txn: transactions of dead sessions are not ended", &[At("change: append cleared, pages latched")]),
    by("txn: a repairer does not adopt the transaction", &[Repairing("change: append cleared, pages latched", "change: compensated, record not in the slot")]),
    by_case("process: a repair claim outlives the slot's tenant", "halted::a_repairer_stopped_after_a_repair_blocks_no_repair_of_the_slots_next_tenant"),
    by_case("txn: new slots are lost when their maker dies", "halted::a_death_while_adding_transaction_slots_leaves_the_slots_to_the_next_session"),
    by_case("lock: a transaction counts as ownerless during a takeover", "passing::a_process_stopped_during_a_takeover_is_waited_for"),
    by_case("txn: no spare session is kept for repairs", "limits::a_dead_session_in_full_memory_is_repaired_without_a_new_session"),
    by("txn: spare lockers of a dead session are not freed", &[At("txn: locker without a slot")]),
    by("lock: lock waits of dead sessions are not ended", &[At("lock: waits")]),
    by("lock: a session notes a thin lock only after the swap", &[At("lock: thin, the swap is made")]),
    by("lock: a release under the latch does not remove the request from the word", &[At("lock: request in its chain, state still thin")]),
    by("lock: the release of a queued request does not remove the request from the word", &[At("lock: inflated, word still names its owner")]),
    by("lock: a dead session keeps its role", &[At("lock: victim chosen, not notified"), At("lock: split done, splitter role held")]),
    by("log: sessions wait for a dead leader", &[At("log: written, not synced")]),
    by("log: sessions wait for a dead preparer", &[At("log: recycles"), Young("log: prepares a segment")]),
    by("buffer: sessions wait for a dead writer", &[At("buffer: became the writer")]),
    by("buffer: sessions wait for a dead grower", &[Young("buffer: makes its pool grow")]),
    by("txn: sessions wait for a dead checkpointer", &[At("checkpoint: has the role")]),
    by("buffer: the claims of a dead writer are not undone", &[At("buffer: claimed, latched, not copied")]),
    by("buffer: a dead session keeps the frame in hand", &[At("buffer: evicted, frame in hand"), At("buffer: frame in the table, loading")]),
    by("buffer: a partly read page stays in the table", &[At("buffer: frame in the table, loading")]),
    by_case("buffer: the resident state is rolled back", "readers::a_waiter_for_a_page_of_a_dead_reader_gets_the_same_frame_as_all_others"),
    by_case("buffer: a resident page stays in a dead session's hand", "readers::a_waiter_for_a_page_of_a_dead_reader_gets_the_same_frame_as_all_others"),
    seldom(by("txn: repair rolls transactions back before it releases the frame in hand", &[At("buffer: frame in the table, loading")])),
    seldom(by("buffer: a loading page counts as resident", &[At("buffer: frame in the table, loading")])),
    // D6
    by("txn: repair aborts a committed transaction", &[At("commit: locks released, not ended")]),
    by("txn: repair ends an uncommitted transaction without undo", &[At("change: append cleared, pages latched")]),
    // The admission of a process.
    by_case("log: a process with another log directory is admitted", "admission::a_process_with_another_log_directory_is_refused_and_the_others_continue"),
    by_case("rio: a file keeps the number of a standard descriptor", "admission::a_program_that_closed_its_standard_descriptors_prints_into_no_file_of_the_library"),
    // T2
    by("record: a merged leaf is not marked as deleted", &[At("merge: merged, not remembered")]),
    // D7
    // These bugs may stay unnoticed: a session also recounts the holders if it waits long for a latch without a known
    // holder.
    seldom(by("process: shared holders of a latch are not recounted", &[At("latch: shared taken, not noted as held")])),
    seldom(by("process: a waiter counts as a holder of the latch", &[At("latch: shared taken, not noted as held")])),
    seldom(by("process: a recount does not freeze the latch", &[At("latch: shared taken, not noted as held")])),
    by("buffer: pins of dead sessions are not removed", &[At("pin: counted, not noted as held")]),
    // D8
    by("process: a sleep has no bound", &[At("lock: between granting and waking")]),
    by("log: the sleep of a flush waiter has no bound", &[At("log: leader role free, no waiter woken"), At("log: durable, leader role held")]),
    by("process: the sleep of a latch waiter has no bound", &[At("latch: free, no waiter woken"), At("latch: shared released, no waiter woken")]),
    // D9
    case(Failpoints, "libtp: a repeated panic counts as the first", "panics::a_repeated_panic_breaks_the_region_and_then_reaches_the_caller"),
    by("process: a leaving process frees the slot of the next tenant", &[Young("txn: room promised, not noted")]),
    by_case("process: the attachment lock alone decides whether a process is dead", "forked::a_raw_clone_does_not_keep_its_dead_parent_alive"),
    by_case("io: a forked child keeps its parent's locks", "containers::a_forked_child_in_another_pid_namespace_does_not_keep_its_dead_parent_alive"),
    by_case("process: the process table of another pid namespace is trusted", "containers::processes_that_see_the_proc_of_another_pid_namespace_do_not_take_each_other_for_dead"),
    by_case("process: a process that runs another program counts as alive", "forked::a_process_that_runs_another_program_counts_as_dead_even_without_a_waiter"),
    by_case("libtp: spare sessions are not dropped before the attachment lock is released", "stopped::a_process_stopped_just_after_it_left_needs_no_repair"),
    by_case("process: a forked child counts as its parent", FORKED),
    by_case("libtp: a child of a fork begins in its parent's environment", FORKED),
    by_case("libtp: a child of a fork works in its parent's transaction", FORKED),
    by_case("libtp: a child of a fork commits its parent's transaction", FORKED),
    by_case("lock: a stopped session keeps its role", "halted::a_stopped_deadlock_search_hides_no_deadlock"),
    by_case("buffer: sessions wait for a stopped grower", "halted::a_process_stopped_while_adding_frames_blocks_no_use_of_existing_frames"),
    by_case("buffer: a checkpoint waits for a latched page without a bound", "halted::a_process_stopped_with_a_latched_changed_page_blocks_no_checkpoint"),
    by_case("process: a stopped process counts as dead", "stopped::a_stopped_process_is_waited_for_and_never_counts_as_dead"),
    // D10
    by("rio: a panic closes the section", &[Panicking("change: page changed, LSN old")]),
    case(Failpoints, "rio: the drop of an open section does not doom its session", "panics::a_panic_in_an_open_section_kills_the_session_although_the_program_was_panicking_already"),
    case(Failpoints, "process: after a panic of the program, the library's panics count as the program's", "panics::after_a_panic_of_the_program_a_panic_of_the_library_kills_the_session"),
    by_case("libtp: calls of a transaction whose session is dead are accepted", "call_checks::the_calls_of_a_transaction_whose_session_has_died_are_refused"),
    by("process: a panic releases latches above an open section", &[Panicking("change: page changed, LSN old")]),
    by("process: a panic returns the session's roles", &[Panicking("buffer: page claimed, still dirty")]),
    by("libtp: a first panic breaks the region", &[Panicking("commit: committing, nothing logged")]),
    by("libtp: a commit that panics counts as aborted", &[Panicking("commit: logged, not the last commit")]),
    // D13
    by_case("txn: a rebuild does not wait for the writer of the control file", "stopped::a_rebuild_waits_for_a_process_stopped_at_the_control_file"),
    by_case("libtp: a pooled session of abandoned memory is used", "call_checks::a_pooled_session_of_abandoned_memory_is_not_used"),
    by_case("libtp: a commit in abandoned memory is answered", "call_checks::a_relaxed_commit_in_abandoned_memory_is_not_answered"),
    by_case("libtp: a snapshot of abandoned memory is read", "call_checks::a_snapshot_of_abandoned_memory_is_refused"),
    by_case("libtp: a rebuild does not wait for writers", "stopped::a_rebuild_waits_for_a_process_stopped_in_a_write"),
    // On a machine whose processors are all busy, the declaration and the commit seldom coincide.
    seldom(by_case("process: a region is declared broken without a barrier", "barrier::a_declaration_of_broken_memory_and_a_commit_see_each_other")),
    by_case("libtp: a rebuild drops the log in memory", "rebuild::if_the_memory_is_found_broken_all_processes_continue_with_the_same_handles"),
    by_case("libtp: a rebuild attaches to the old memory", "stopped::a_process_stopped_in_a_write_is_seen_though_the_process_table_is_full"),
    by_case("log: a session flushes in a broken region", "stopped::a_process_stopped_before_a_flush_does_not_write_the_log_of_abandoned_memory"),
    by_case("log: a session makes segments in a broken region", "given_up::a_process_stopped_before_a_new_segment_makes_no_segment_for_abandoned_memory"),
    // Takeovers and indices; `record/indices.rs` has the rules of indices.
    by_case("pass: a transaction that was taken over is still offered", "passing::a_transaction_cannot_be_aborted_while_a_process_takes_it_over"),
    by_case("pass: a takeover keeps the intent locks for later transactions", "indices::a_handle_without_an_index_s_function_may_not_write_in_a_transaction_that_it_took_over"),
    by_case("libtp: an index build loses sorted entries", "indices::an_index_is_made_of_all_records"),
    by_case("libtp: indices are not verified", "indices::an_index_that_differs_from_its_function_is_found"),
    by_case("libtp: a handle of an index can write", "indices::an_index_opened_by_its_name_can_be_read_and_not_written"),
    by_case("libtp: a failed index build keeps its function", "indices::a_failed_index_build_leaves_no_function"),
    by_case("libtp: a record that an index refuses is stored", "indices::a_record_that_an_index_refuses_is_not_stored"),
    by_case("libtp: an index that is not kept up to date is read", "indices::an_index_dropped_or_made_later_does_not_read_as_empty"),
    by_case("buffer: a session writes pages in a broken region", "given_up::a_process_stopped_before_page_writes_writes_no_pages_of_abandoned_memory"),
    by_case("buffer: after a long sync, a writer continues in a broken region", "given_up::a_process_writes_no_page_of_abandoned_memory_after_a_long_sync"),
    by("libtp: a commit during a rebuild counts as lost", &[Standing("commit: waits for the disk")]),
    by("libtp: a commit during a rebuild counts as kept", &[Standing("change: logged, no page changed")]),
    // D12
    by_case("txn: restart skips unregistered record types", "primitives::a_restart_without_a_log_type_is_refused_even_if_nothing_must_be_undone"),
    by_case("txn: changes without a registered undo are dropped", "primitives::a_process_without_a_log_type_leaves_the_undo_to_a_process_with_the_type"),
    by_case("paged: an undo restores bytes and does not call the program", "primitives::concurrent_transactions_change_one_page_and_each_undoes_its_own_changes"),
    by_case("paged: a stale copy overwrites a changed page", "primitives::a_page_that_was_not_locked_first_is_not_stored"),
    // D14
    case(Failpoints, "rio: a slab remembers a chunk that is not counted", "slabs::no_handle_remembers_a_chunk_that_is_not_counted"),
    by_case("libtp: a rebuilt region is as large as its maker can map", "limits::rebuilt_memory_is_not_too_large_for_its_attached_processes"),
    by_case("rio: a region is mapped only partly", "limits::a_process_with_too_small_an_address_space_is_refused_and_the_others_continue"),
    // The door
    by_case("process: a leaving process waits without a bound", "late::a_process_that_leaves_does_not_wait_for_latches_of_a_stopped_process"),
    by_case("libtp: sessions end while their process holds the door", "stopped::a_leaving_process_that_waits_for_a_stopped_latch_holder_does_not_block_the_door"),
    by_case("libtp: the wait for the name of a database has no bound", "stopped::a_wait_for_a_process_stopped_while_it_makes_a_database_ends_with_an_error_that_names_the_process"),
    by_case("libtp: the wait for the door does not check the process at the door", "stopped::a_process_stopped_at_the_door_is_named_and_the_others_leave"),
    by_case("libtp: a commit record during a rebuild is ignored", "wild_words::a_commit_published_during_a_rebuild_is_reported_as_kept"),
    // F3
    by_case("log: a damaged log in memory is not salvaged", "wild_words::relaxed_commits_are_kept_if_stray_stores_hit_all_words_of_the_log"),
    by_case("process: the checksum of a process identity is ignored", "wild_words::a_process_with_a_damaged_identity_is_not_taken_for_dead"),
    by_case("lock: the check bits of requests are ignored", "wild_words::a_lock_with_a_damaged_name_is_not_granted_to_a_second_session"),
    // S1, S3, S4
    by_case("snapshot: the pin of a dead session is not removed", "snapshots::the_pin_of_a_dead_session_is_released"),
    by_case("snapshot: the log is pinned after the view is taken", "snapshots::nothing_that_a_new_snapshot_needs_is_removed_while_the_snapshot_is_taken"),
    // L4
    by_case("txn: the commit of a dead session does not raise the last commit", "durable::changes_read_from_a_dead_session_are_on_disk_before_the_answer"),
    // F1
    by_case("libtp: a copied environment counts as the original", "copies::a_copy_of_a_live_environment_is_a_separate_environment"),
    by_case("libtp: the log of another build is dropped", "builds::another_build_takes_over_answered_commits_that_were_not_synced"),
    by_case("libtp: the choice between memory and files is ignored", "copies::broken_memory_and_a_restored_backup_are_refused_with_the_choices"),
    by_case("log: memory and files are not compared", "copies::surviving_memory_and_a_restored_backup_are_refused_with_the_choices"),
];
