//! Bugs in the handling of a process's death. Each bug must be noticed by a death among processes that go on, or by a
//! case of the suites `multiprocess` and `failpoints`.
//!
//! Ordered by the rules that they break (PROTOCOLS D1 to D13, L3, L4).

use super::Scene::{At, Panicking, Repairing, Standing, Young};
use super::Suite::{Failpoints, Multiprocess};
use super::{case, seldom, Judge, Planted, Scene};

const fn by(name: &'static str, scenes: &'static [Scene]) -> Planted {
    Planted::new(Failpoints, name, Judge::Scenes(scenes))
}

const fn by_case(name: &'static str, of: &'static str) -> Planted {
    case(Multiprocess, name, of)
}

#[rustfmt::skip]
pub(super) const DEATHS: &[Planted] = &[
    // Limits of a process.
    by_case("rio: memory takes all address space that is left", "limits::under_any_limit_of_address_space_some_memory_is_left_to_work_with"),
    by_case("libtp: the room for shared memory is not looked at", "limits::without_a_setting_pages_take_half_of_the_room_for_shared_memory"),
    // L5, where the memory is removed.
    by_case("libtp: memory without a name is worked in", "nameless::memory_with_a_removed_file_is_rebuilt_with_its_relaxed_commits"),
    by_case("txn: the control file is not told of relaxed commits", "nameless::an_opening_after_memory_with_relaxed_commits_was_removed_reports_the_loss"),
    by_case("rio: shared memory is in core dumps", "nameless::core_dumps_are_without_the_shared_memory_unless_it_is_asked_for"),
    // D11, on a full disk.
    by_case("log: segments of a full disk are whole", "full_disk::puts_use_the_disk_up_and_deletes_go_through_on_the_full_disk"),
    by_case("log: a full disk is not given back what nobody needs", "full_disk::puts_use_the_disk_up_and_deletes_go_through_on_the_full_disk"),
    by_case("txn: a full log waits for a checkpoint that nobody takes", "full_disk::puts_use_the_disk_up_and_deletes_go_through_on_the_full_disk"),
    by_case("log: nothing is kept back for deletes", "full_disk::deletes_go_through_where_no_checkpoint_can_make_room"),
    // D1, D2
    by("rio: areas change without before-images", &[At("change: page changed, LSN old")]),
    seldom(by("rio: closing cuts the outer section's images", &[At("rio: a section has closed"), At("change: page changed, LSN old")])),
    by("process: the dead are not rolled back", &[At("change: page changed, LSN old")]),
    seldom(by("lock: the latch falls before the section closes", &[At("lock: released, section open")])),
    by("txn: latches are given back before the roll-back", &[At("change: page changed, LSN old")]),
    // D3
    by("log: appends are not noted", &[At("change: logged, no page changed")]),
    by("process: noted appends are not looked at", &[At("change: logged, no page changed")]),
    by("txn: the note is cleared before the pages change", &[At("change: logged, no page changed")]),
    by_case("process: appends that never came to be stay noted", "twice_alone::a_session_that_died_in_an_append_is_undone_though_the_repairer_dies_too"),
    by("txn: the noted record is not the last", &[At("change: pages changed, record not in the slot")]),
    // D4
    by("txn: the noted record is not redone", &[At("change: logged, no page changed")]),
    by("txn: latches are given back before the redo", &[At("change: logged, no page changed")]),
    // D5
    by("process: latches of the dead stay", &[At("change: logged, no page changed")]),
    seldom(by("process: two repair one session", &[At("change: logged, no page changed")])),
    seldom(by("process: the right to repair is free before the slot", &[At("change: logged, no page changed")])),
    by_case("process: the section of a dead repairer goes back later", "readers::a_frame_in_a_dead_hand_is_not_lost_when_its_repairer_dies_too"),
    by("txn: transactions of the dead are left", &[At("change: append cleared, pages latched")]),
    by("txn: transactions are not adopted", &[Repairing("change: append cleared, pages latched", "change: compensated, record not in the slot")]),
    by_case("process: the right to repair outlives the tenant", "halted::a_repairer_stopped_after_a_repair_blocks_no_repair_of_the_slots_next_tenant"),
    by_case("txn: slots that were added and not used are lost", "halted::a_death_while_adding_transaction_slots_leaves_the_slots_to_the_next_session"),
    by_case("lock: who is taken over belongs to nobody", "passing::a_process_stopped_during_a_takeover_is_waited_for"),
    by_case("txn: no session is kept for repairs", "limits::a_dead_session_in_full_memory_is_repaired_without_a_new_session"),
    by("txn: spare lockers stay", &[At("txn: locker without a slot")]),
    by("lock: the dead wait on", &[At("lock: waits")]),
    by("lock: a dead one's task is waited for", &[At("lock: victim chosen, not told"), At("lock: still the splitter")]),
    by("log: a dead leader is waited for", &[At("log: written, not synced")]),
    by("log: a dead preparer is waited for", &[At("log: recycles"), Young("log: prepares a segment")]),
    by("buffer: a dead writer is waited for", &[At("buffer: became the writer")]),
    by("buffer: a dead grower is waited for", &[Young("buffer: makes its pool grow")]),
    by("txn: a dead checkpointer is waited for", &[At("checkpoint: has the role")]),
    by("buffer: a dead writer's claims stay", &[At("buffer: claimed, latched, not copied")]),
    by("buffer: the dead keep what is in hand", &[At("buffer: evicted, in hand"), At("buffer: frame in the table, loading")]),
    by("buffer: a page half read stays in the table", &[At("buffer: frame in the table, loading")]),
    by_case("buffer: that a page is there is taken back", "readers::a_waiter_for_a_page_of_a_dead_reader_gets_the_same_frame_as_all_others"),
    by_case("buffer: a page that is there stays in a dead hand", "readers::a_waiter_for_a_page_of_a_dead_reader_gets_the_same_frame_as_all_others"),
    seldom(by("txn: hands are emptied last", &[At("buffer: frame in the table, loading")])),
    seldom(by("buffer: a page half read is taken for whole", &[At("buffer: frame in the table, loading")])),
    // D6
    by("txn: who had committed is aborted", &[At("commit: locks released, not over")]),
    by("txn: who had not committed is finished", &[At("change: append cleared, pages latched")]),
    // The admission of a process.
    by_case("log: another directory of the log is admitted", "admission::a_process_with_another_log_directory_is_refused_with_both_and_the_others_go_on"),
    by_case("rio: a standard descriptor is kept", "admission::a_program_that_closed_its_standard_descriptors_prints_into_no_file_of_the_library"),
    // T2
    by("record: a leaf that was merged is not marked", &[At("merge: merged, not remembered")]),
    // D7
    // A session that waits long for a latch without a known holder counts the latch's holders, too.
    seldom(by("process: shared holders are not recounted", &[At("latch: shared taken, not noted as held")])),
    seldom(by("process: who wants a latch holds it", &[At("latch: shared taken, not noted as held")])),
    seldom(by("process: counts without freezing", &[At("latch: shared taken, not noted as held")])),
    by("buffer: the dead keep their pins", &[At("pin: counted, not noted as held")]),
    // D8
    by("process: sleeps until woken", &[At("lock: between granting and waking")]),
    by("log: who waits for a flush sleeps until woken", &[At("log: leader no more, nobody woken"), At("log: durable, still the leader")]),
    by("process: waits for a latch until woken", &[At("latch: free, nobody woken"), At("latch: shared let go, nobody woken")]),
    // D9
    case(Failpoints, "libtp: a panic that comes again is the first", "panics::a_repeated_panic_breaks_the_region_and_then_reaches_the_caller"),
    by("process: who leaves frees the slot, whoever has it", &[Young("txn: room promised, not noted")]),
    by_case("process: the seat alone says who is dead", "forked::a_raw_clone_does_not_keep_its_dead_parent_alive"),
    by_case("io: the child of a fork keeps its parent's locks", "containers::a_forked_child_in_another_pid_namespace_does_not_keep_its_dead_parent_alive"),
    by_case("process: the table of another pid namespace is believed", "containers::processes_that_see_the_proc_of_another_pid_namespace_do_not_take_each_other_for_dead"),
    by_case("process: who runs another program lives", "forked::a_process_that_runs_another_program_is_dead_though_no_session_waits_for_it"),
    by_case("libtp: sessions for repairs outlive the seat", "stopped::a_process_stopped_just_after_it_left_needs_no_repair"),
    by_case("process: the child of a fork is its parent", "forks::a_handle_in_a_forked_child_reports_the_fork_and_the_parents_is_unchanged"),
    by_case("lock: a stopped one's task is waited for", "halted::a_stopped_deadlock_search_hides_no_deadlock"),
    by_case("buffer: a stopped grower is waited for", "halted::a_process_stopped_while_adding_frames_blocks_no_use_of_existing_frames"),
    by_case("buffer: a page that stays latched is waited for", "halted::a_process_stopped_with_a_latched_changed_page_blocks_no_checkpoint"),
    by_case("process: who is stopped is dead", "stopped::a_process_that_stands_still_is_waited_for_and_never_taken_for_dead"),
    // D10
    by("rio: a panic closes the section", &[Panicking("change: page changed, LSN old")]),
    by("process: a panic frees latches above an open section", &[Panicking("change: page changed, LSN old")]),
    by("process: a panic gives roles back", &[Panicking("buffer: page claimed, still dirty")]),
    by("libtp: a panic is the end of the region", &[Panicking("commit: committing, nothing logged")]),
    by("libtp: who panics has not committed", &[Panicking("commit: logged, not the last commit")]),
    // D13
    by_case("txn: who changes the control file is not waited for", "stopped::a_rebuild_waits_for_a_process_stopped_at_the_control_file"),
    by_case("libtp: memory is made anew while somebody writes", "stopped::a_rebuild_waits_for_a_process_stopped_in_a_write"),
    // On a machine whose processors are all busy, the two seldom meet.
    seldom(by_case("process: broken memory is declared without a barrier", "barrier::a_declaration_of_broken_memory_and_a_commit_see_each_other")),
    by_case("libtp: the log of broken memory is not kept", "rebuild::when_the_memory_is_found_broken_all_processes_go_on_with_the_same_handles"),
    by_case("libtp: who makes memory anew takes a place in the old", "stopped::a_process_stopped_in_a_write_is_seen_though_the_process_table_is_full"),
    by_case("log: flushes in a broken region", "stopped::a_process_stopped_before_a_flush_does_not_write_the_log_of_abandoned_memory"),
    by_case("log: makes segments in a broken region", "given_up::a_process_stopped_before_a_new_segment_makes_none_for_abandoned_memory"),
    // Indices: `record/indices.rs` has the argument.
    by_case("pass: what is taken over is still offered", "passing::a_transaction_that_was_taken_over_cannot_be_ended_by_another"),
    by_case("pass: intent locks stay kept", "indices::a_process_that_takes_over_a_transaction_keeps_the_indices_or_may_not_write"),
    by_case("libtp: some of the entries that are sorted are lost", "indices::an_index_is_made_of_all_records"),
    by_case("libtp: indices are not verified", "indices::an_index_that_differs_from_its_function_is_found"),
    by_case("libtp: who has an index open may write to it", "indices::an_index_opened_by_its_name_can_be_read_and_not_written"),
    by_case("libtp: who fails to make an index keeps it", "indices::a_failed_index_build_leaves_no_function"),
    by_case("libtp: a record that an index refuses is stored", "indices::a_record_that_an_index_refuses_is_not_stored"),
    by_case("libtp: an index is read whether it is kept or not", "indices::an_index_dropped_or_made_later_does_not_read_as_empty"),
    by_case("buffer: writes pages in a broken region", "given_up::a_process_stopped_before_page_writes_writes_no_pages_of_abandoned_memory"),
    by_case("buffer: who was at a sync for long goes on in a broken region", "given_up::a_process_at_a_long_sync_writes_no_page_of_abandoned_memory_afterwards"),
    by("libtp: a caught commit counts as lost", &[Standing("commit: waits for the disk")]),
    by("libtp: a caught commit counts as kept", &[Standing("change: logged, no page changed")]),
    // D12
    by_case("txn: restart passes over a type that nobody registered", "primitives::a_restart_without_a_type_is_refused_also_where_nothing_is_to_be_taken_back"),
    by_case("txn: what nobody here can take back is given up", "primitives::a_process_without_a_type_leaves_its_undo_to_a_process_with_it"),
    by_case("paged: undone by bytes and not by the program", "primitives::changes_of_several_transactions_go_side_by_side_and_each_takes_back_its_own"),
    by_case("paged: a page that has changed is overwritten", "primitives::a_page_that_was_not_locked_first_is_not_stored"),
    // D14
    by_case("libtp: memory made anew is as large as its maker can map it", "limits::rebuilt_memory_is_not_too_large_for_its_attached_processes"),
    by_case("rio: a region is mapped in part", "limits::a_process_that_may_map_less_memory_is_refused_and_the_others_go_on"),
    // The door
    by_case("process: who leaves waits without end", "late::a_process_that_leaves_does_not_wait_for_latches_of_a_stopped_process"),
    by_case("libtp: sessions leave at the door", "stopped::a_process_that_leaves_beside_a_stopped_latch_holder_does_not_block_the_door"),
    by_case("libtp: a name is waited for as long as it takes", "stopped::a_process_stopped_while_it_makes_a_database_is_named_and_keeps_no_other_waiting_for_ever"),
    by_case("libtp: the door is waited for without a look", "stopped::a_process_stopped_at_the_door_is_named_and_the_others_leave"),
    by_case("libtp: who is caught at its commit record has none", "hit::a_commit_published_during_a_rebuild_is_reported_as_kept"),
    // F3
    by_case("log: what was hit is lost", "hit::relaxed_commits_are_kept_when_all_words_of_the_log_are_hit"),
    by_case("process: what names a process is not checked", "hit::a_process_with_a_damaged_identity_is_not_taken_for_dead"),
    by_case("lock: requests are not checked", "hit::a_lock_with_a_damaged_name_is_not_granted_to_a_second_session"),
    // S1, S3, S4
    by_case("snapshot: a dead one's pin stays", "snapshots::the_pin_of_a_dead_session_is_released"),
    by_case("snapshot: pinned when it is taken", "snapshots::nothing_is_given_up_while_a_snapshot_is_taken"),
    // L4
    by_case("txn: a dead one's commit is not the last", "durable::changes_read_from_a_dead_session_are_on_disk_before_the_answer"),
    // F1
    by_case("libtp: a copy is the same environment", "copies::a_copy_of_a_live_environment_is_another_one"),
    by_case("libtp: the log of another build is forgotten", "builds::another_build_takes_over_answered_commits_that_were_not_synced"),
    by_case("libtp: what to keep of broken memory is not asked", "copies::memory_that_was_found_broken_under_a_backup_is_the_users_to_decide_about_too"),
    by_case("log: memory and files are not compared", "copies::a_backup_restored_under_surviving_memory_is_refused_with_the_choices"),
];
