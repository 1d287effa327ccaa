//! Tests of sessions and latches: every region is mapped twice, and used through both mappings.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rio::{Offset, Region, RootSlot, Word};

use crate::{Error, Latch, ProcessManager, Rank, Repairer, Rounds, Session, SessionId, Settings, Work};

/// Two handles to one region, mapped at different addresses, as two processes have them.
fn two_processes() -> (ProcessManager, ProcessManager) {
    let region = Region::anonymous(1 << 30).expect("memory file");
    ProcessManager::init(&region).expect("room");
    let again = region.map_again().expect("second mapping");
    (attach(&region), attach(&again))
}

fn attach(region: &Region) -> ProcessManager {
    ProcessManager::attach(region, &Settings::default()).expect("a new process manager")
}

fn new_latch(processes: &ProcessManager) -> Offset<Latch> {
    processes.region().allocate::<Latch>(1).expect("room")
}

/// Returns whether `condition` becomes true within five seconds.
fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    true
}

#[test]
fn one_of_two_processes_leads_the_rounds_until_it_is_late_or_resigns() {
    let (here, there) = two_processes();
    let (mut mine, mut theirs) = (Rounds::new(Work::House), Rounds::new(Work::House));
    // Longer than the machine has been up.
    let long = Duration::MAX;
    assert!(mine.begin(&here, long), "no process has begun a round");
    assert!(!theirs.begin(&there, long));
    assert!(mine.begin(&here, long) && mine.leads(), "the leader also begins the next round");
    assert!(Rounds::new(Work::Log).begin(&there, long), "other work has another leader");
    assert!(theirs.begin(&there, Duration::ZERO), "the last round is too long ago");
    assert!(!mine.begin(&here, long) && !mine.leads());
    theirs.resign(&there);
    assert!(mine.begin(&here, long), "no process leads");
    assert!(here.begin_if_due(Work::Dead, long) && !there.begin_if_due(Work::Dead, long));
}

#[test]
fn a_latch_held_through_one_mapping_is_held_in_the_other() {
    let (here, there) = two_processes();
    let (mine, theirs) = (here.join().expect("room"), there.join().expect("room"));
    let place = new_latch(&here);
    let (latch, same) = (here.region().at(place), there.region().at(place));
    let guard = latch.exclusive(&mine, Rank::CATALOGUE);
    assert_eq!(same.owner(), Some(mine.id()));
    assert!(same.try_exclusive(&theirs, Rank::CATALOGUE).is_none());
    assert!(same.try_shared(&theirs, Rank::CATALOGUE).is_none());
    drop(guard);
    let (one, two) = (latch.shared(&mine, Rank::CATALOGUE), same.shared(&theirs, Rank::CATALOGUE));
    assert_eq!(latch.shared_count(), 2);
    assert!(same.try_exclusive(&theirs, Rank::META).is_none());
    drop((one, two));
    assert!(same.try_exclusive(&theirs, Rank::CATALOGUE).is_some());
    assert_eq!((latch.owner(), latch.shared_count(), mine.latch_count()), (None, 0, 0));
}

#[test]
fn sessions_of_two_mappings_count_together_under_one_latch() {
    let (here, there) = two_processes();
    let latch = new_latch(&here);
    let counter = here.region().allocate::<Word<u64>>(1).expect("room");
    let highest = AtomicU64::new(0);
    const ROUNDS: u64 = 20_000;
    let write = |processes: &ProcessManager| {
        let session = processes.join().expect("room");
        for _ in 0..ROUNDS {
            let _guard = processes.region().at(latch).exclusive(&session, Rank::CATALOGUE);
            let counter = processes.region().at(counter);
            counter.init(counter.get() + 1);
        }
    };
    let read = |processes: &ProcessManager| {
        let session = processes.join().expect("room");
        for _ in 0..ROUNDS {
            let _guard = processes.region().at(latch).shared(&session, Rank::CATALOGUE);
            let counter = processes.region().at(counter);
            let seen = counter.get();
            highest.fetch_max(seen, Ordering::Relaxed);
            assert_eq!(counter.get(), seen, "a writer held the latch together with a reader");
        }
    };
    std::thread::scope(|scope| {
        for processes in [&here, &there] {
            scope.spawn(|| write(processes));
            scope.spawn(|| read(processes));
            scope.spawn(|| write(processes));
        }
    });
    assert_eq!(here.region().at(counter).get(), 4 * ROUNDS);
    assert!(highest.into_inner() <= 4 * ROUNDS);
    assert_eq!(here.region().at(latch).shared_count(), 0);
}

#[test]
fn a_writer_gets_in_among_readers_that_never_pause() {
    let (here, there) = two_processes();
    let latch = new_latch(&here);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for processes in [&here, &there, &here] {
            scope.spawn(|| {
                let session = processes.join().expect("room");
                let latch = processes.region().at(latch);
                // The thread takes the latch again before it drops its previous guard.
                let mut held = latch.shared(&session, Rank::page(0));
                while !stop.load(Ordering::Relaxed) {
                    if let Some(next) = latch.try_shared(&session, Rank::page(0)) {
                        held = next;
                    } else {
                        drop(held);
                        held = latch.shared(&session, Rank::page(0));
                    }
                }
                drop(held);
            });
        }
        let session = there.join().expect("room");
        let started = Instant::now();
        for _ in 0..50 {
            drop(there.region().at(latch).exclusive(&session, Rank::page(0)));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(started.elapsed() < Duration::from_secs(5), "50 writes took {:?}", started.elapsed());
    });
}

#[test]
fn a_waiter_is_woken_when_the_latch_is_released() {
    let (here, there) = two_processes();
    let latch = new_latch(&here);
    let mine = here.join().expect("room");
    let guard = here.region().at(latch).exclusive(&mine, Rank::CATALOGUE);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let theirs = there.join().expect("room");
            drop(there.region().at(latch).exclusive(&theirs, Rank::CATALOGUE));
            let _guard = there.region().at(latch).shared(&theirs, Rank::CATALOGUE);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(guard);
        assert!(soon(|| waiter.is_finished()));
    });
}

#[test]
fn notes_name_the_latches_a_session_holds() {
    let (here, there) = two_processes();
    let mine = here.join().expect("room");
    let latches: Vec<_> = (0..crate::NOTES).map(|_| new_latch(&here)).collect();
    let held = |expected: usize| {
        let info = there.sessions().into_iter().find(|info| info.id == mine.id()).expect("the session has joined");
        assert_eq!(info.latches, expected);
    };
    let mut guards: Vec<_> =
        latches.iter().map(|latch| here.region().at(*latch).shared(&mine, Rank::page(0))).collect();
    held(crate::NOTES);
    // Guards may be dropped in any order.
    drop(guards.remove(3));
    drop(guards.remove(0));
    held(crate::NOTES - 2);
    let guard = here.region().at(latches[0]).exclusive(&mine, Rank::page(1));
    held(crate::NOTES - 1);
    drop((guards, guard));
    held(0);
}

#[test]
#[cfg(debug_assertions)]
fn a_wait_for_a_latch_of_lower_rank_is_refused() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let (low, high) = (here.region().at(new_latch(&here)), here.region().at(new_latch(&here)));
    let _guard = high.exclusive(&mine, Rank::LOG_APPEND);
    assert!(
        low.try_exclusive(&mine, Rank::LOCK_BUCKET).is_some(),
        "an attempt that does not wait may violate the order"
    );
    let refused = catch_unwind(AssertUnwindSafe(|| drop(low.exclusive(&mine, Rank::LOCK_BUCKET))));
    assert!(refused.is_err());
}

#[test]
fn a_panic_above_an_open_section_frees_nothing_and_kills_the_session() {
    let (here, there) = two_processes();
    let mine = here.join().expect("room");
    let latch = new_latch(&here);
    let word = here.region().allocate::<Word<u64>>(1).expect("room");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = here.region().at(latch).exclusive(&mine, Rank::CATALOGUE);
        let mut section = mine.section();
        here.region().at(word).set(&mut section, 9);
        panic!("planned");
    }));
    assert!(panicked.is_err());
    assert!(mine.is_dead());
    let id = mine.id();
    assert_eq!(there.region().at(latch).owner(), Some(id));
    assert!(!there.is_alive(id));
    drop(mine);
    assert!(!there.is_alive(id) && there.sessions().iter().any(|info| info.id == id), "the slot waits for repair");
}

#[test]
fn a_section_dropped_by_an_early_return_kills_the_session_too() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    {
        let _guard = latch.exclusive(&mine, Rank::CATALOGUE);
        let _section = mine.section();
    }
    assert!(mine.is_dead());
    assert_eq!(latch.owner(), Some(mine.id()));
}

#[test]
fn a_panic_without_a_section_leaves_the_same_state_as_a_kill() {
    let (here, there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    let seen_by_others = Cell::new(None);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        /// A value that is dropped after the guard.
        struct Last<'l>(&'l dyn Fn());
        impl Drop for Last<'_> {
            fn drop(&mut self) {
                (self.0)();
            }
        }
        let look = || seen_by_others.set(Some(there.is_alive(mine.id())));
        let _last = Last(&look);
        let _guard = latch.exclusive(&mine, Rank::CATALOGUE);
        panic!("planned");
    }));
    assert!(panicked.is_err() && mine.is_dead());
    assert_eq!(latch.owner(), Some(mine.id()));
    assert_eq!(seen_by_others.get(), Some(true), "no session may repair the dead session while its thread unwinds");
    assert!(!there.is_alive(mine.id()));
}

#[test]
fn a_call_from_a_destructor_during_another_panic_takes_and_releases_latches_as_usual() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    struct Calls<'l>(&'l dyn Fn());
    impl Drop for Calls<'_> {
        fn drop(&mut self) {
            assert!(crate::catch_call(self.0).is_ok());
        }
    }
    let call = || drop(latch.exclusive(&mine, Rank::CATALOGUE));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _calls = Calls(&call);
        panic!("planned");
    }));
    assert!(panicked.is_err() && !mine.is_dead());
    assert_eq!(latch.owner(), None);
}

/// Calls `die` in a destructor while the thread unwinds, so the thread's panic did not begin in a call of the session.
fn dies_in_a_foreign_panic(die: impl Fn(&Session, &Latch)) {
    struct Calls<'l>(&'l dyn Fn());
    impl Drop for Calls<'_> {
        fn drop(&mut self) {
            assert!(crate::catch_call(self.0).is_ok());
        }
    }
    let (here, there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    let call = || die(&mine, latch);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _calls = Calls(&call);
        panic!("planned");
    }));
    assert!(panicked.is_err() && mine.is_dead());
    assert_eq!(latch.owner(), Some(mine.id()), "a guard above a section that was not closed frees nothing");
    assert!(!there.is_alive(mine.id()));
}

#[test]
fn a_section_dropped_in_a_destructor_during_a_foreign_panic_kills_the_session() {
    dies_in_a_foreign_panic(|session, latch| {
        let _guard = latch.exclusive(session, Rank::CATALOGUE);
        let _section = session.section();
    });
}

#[test]
fn a_panic_in_a_destructor_during_a_foreign_panic_kills_a_session_with_an_open_section() {
    dies_in_a_foreign_panic(|session, latch| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = latch.exclusive(session, Rank::CATALOGUE);
            let _section = session.section();
            panic!("planned too");
        }));
        assert!(panicked.is_err());
    });
}

#[test]
fn a_section_of_a_grown_undo_log_dooms_its_session_too() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    mine.ensure_undo(1 << 18).expect("room");
    let panicked = crate::catch_call(|| {
        let _guard = latch.exclusive(&mine, Rank::CATALOGUE);
        let _section = mine.section();
        crate::is_callers_panic();
        panic!("planned");
    });
    assert!(panicked.is_err() && mine.is_dead());
    assert_eq!(latch.owner(), Some(mine.id()));
}

#[test]
fn a_latch_guard_dropped_after_its_session_was_marked_dead_frees_nothing() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    let guard = latch.exclusive(&mine, Rank::CATALOGUE);
    mine.mark_dead();
    drop(guard);
    assert_eq!(latch.owner(), Some(mine.id()), "its repairer releases the latch");
}

#[test]
fn the_panic_of_a_callers_function_releases_latches() {
    let (here, _there) = two_processes();
    let mine = here.join().expect("room");
    let latch = here.region().at(new_latch(&here));
    let panicked = crate::catch_call(|| {
        let _guard = latch.exclusive(&mine, Rank::CATALOGUE);
        crate::is_callers_panic();
        panic!("planned");
    });
    assert!(panicked.is_err() && !mine.is_dead());
    assert_eq!(latch.owner(), None);
}

#[test]
fn a_waiter_repairs_the_dead_holder_and_gets_the_latch() {
    for share in [false, true] {
        let (here, there) = two_processes();
        let place = new_latch(&here);
        let dead = here.join().expect("room");
        if share {
            std::mem::forget(here.region().at(place).shared(&dead, Rank::CATALOGUE));
        } else {
            std::mem::forget(here.region().at(place).exclusive(&dead, Rank::CATALOGUE));
        }
        drop(dead);
        let living = here.join().expect("room");
        let also = share.then(|| here.region().at(place).shared(&living, Rank::CATALOGUE));
        there.set_repairer(Box::new(Undertaker(there.clone())));
        let session = there.join().expect("room");
        if also.is_some() {
            assert!(there.dead_sessions().len() == 1);
            there.help_the_dead(&session);
            assert_eq!(there.region().at(place).shared_count(), 1, "the living session still holds the latch");
        }
        drop(also);
        drop(there.region().at(place).exclusive(&session, Rank::CATALOGUE));
        there.help_the_dead(&session);
        assert_eq!(there.dead_sessions(), []);
        assert_eq!(there.repaired_count(), 1);
    }
}

/// The repairer of an environment that has only latches and words.
struct Undertaker(ProcessManager);

impl Repairer for Undertaker {
    fn give_up(&self, why: &str) {
        panic!("{why}");
    }

    fn free_latches(&self, waiting: &Session, dead: SessionId) {
        if let Some(dead_session) = self.0.take_dead(waiting, dead) {
            dead_session.roll_back();
            dead_session.release_latches();
        }
    }
    fn repair_all(&self, by: &Session) {
        for dead in self.0.dead_sessions() {
            self.free_latches(by, dead);
            if let Some(dead_session) = self.0.take_dead(by, dead) {
                dead_session.bury(std::time::Instant::now());
            }
        }
    }
}

#[test]
fn the_open_section_of_a_dead_session_is_rolled_back_before_its_latch_is_free() {
    let (here, there) = two_processes();
    let place = new_latch(&here);
    let word = here.region().allocate::<Word<u64>>(1).expect("room");
    here.region().at(word).init(1);
    let dead = here.join().expect("room");
    let guard = here.region().at(place).exclusive(&dead, Rank::CATALOGUE);
    let mut section = dead.section();
    here.region().at(word).set(&mut section, 2);
    std::mem::forget((guard, section));
    drop(dead);
    there.set_repairer(Box::new(Undertaker(there.clone())));
    let session = there.join().expect("room");
    let guard = there.region().at(place).exclusive(&session, Rank::CATALOGUE);
    assert_eq!(there.region().at(word).get(), 1);
    drop(guard);
}

#[test]
fn a_dead_repairers_right_goes_to_the_next_repairer() {
    let (here, there) = two_processes();
    let place = new_latch(&here);
    let (dead, first) = (here.join().expect("room"), here.join().expect("room"));
    let guard = here.region().at(place).exclusive(&dead, Rank::CATALOGUE);
    std::mem::forget(guard);
    let id = dead.id();
    drop(dead);
    let dead_session = here.take_dead(&first, id).expect("no session repairs it");
    let second = there.join().expect("room");
    assert!(there.take_dead(&second, id).is_none(), "one session repairs at a time");
    std::mem::forget(dead_session);
    first.mark_dead();
    drop(first);
    let dead_session = there.take_dead(&second, id).expect("the right of the dead repairer is free");
    dead_session.release_latches();
    dead_session.bury(std::time::Instant::now());
    assert_eq!(there.region().at(place).owner(), None);
}

/// If the right were released earlier, another session could take it and bury the slot's next tenant, which is alive.
#[test]
fn the_right_to_repair_is_released_only_when_the_slot_is_free() {
    let (here, there) = two_processes();
    let (dead, first) = (here.join().expect("room"), here.join().expect("room"));
    let id = dead.id();
    dead.mark_dead();
    drop(dead);
    let second = there.join().expect("room");
    let dead_session = here.take_dead(&first, id).expect("no session repairs it");
    // A burial that is stopped half way.
    here.slot(id).expect("the slot is not free yet").clear();
    assert!(there.take_dead(&second, id).is_none(), "the first repairer has not finished");
    dead_session.bury(std::time::Instant::now());
    let next = here.join().expect("room");
    assert_eq!(next.id().index(), id.index());
    next.mark_dead();
    assert!(there.take_dead(&second, next.id()).is_some(), "the right is free again");
}

#[test]
fn a_count_that_a_dead_repairer_froze_is_thawed_by_the_next_session_that_wants_the_latch() {
    let (here, there) = two_processes();
    let place = new_latch(&here);
    let latch = here.region().at(place);
    let (freezer, holder) = (here.join().expect("room"), here.join().expect("room"));
    let held = latch.shared(&holder, Rank::CATALOGUE);
    // The state left by a repairer that dies between freezing and thawing.
    let header = &here.0.header;
    header.freezer.publish(freezer.id());
    header.frozen.publish(place.raw());
    latch.cell().fetch_or(crate::latch_word::FREEZE, Ordering::AcqRel);
    freezer.mark_dead();
    drop(freezer);
    let session = there.join().expect("room");
    drop(there.region().at(place).shared(&session, Rank::CATALOGUE));
    assert_eq!(latch.shared_count(), 1);
    drop(held);
    assert_eq!(latch.shared_count(), 0);
}

#[test]
fn counts_are_right_while_holders_die_and_other_sessions_take_and_release_the_latch() {
    let (here, there) = two_processes();
    let place = new_latch(&here);
    let stop = AtomicBool::new(false);
    let inside = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for processes in [&here, &there] {
            processes.set_repairer(Box::new(Undertaker(processes.clone())));
            scope.spawn(|| {
                let session = processes.join().expect("room");
                let latch = processes.region().at(place);
                while !stop.load(Ordering::Relaxed) {
                    drop(latch.shared(&session, Rank::CATALOGUE));
                    let guard = latch.exclusive(&session, Rank::CATALOGUE);
                    assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0, "alone");
                    inside.fetch_sub(1, Ordering::AcqRel);
                    drop(guard);
                }
            });
        }
        for round in 0..300 {
            let victim = here.join().expect("room");
            let latch = here.region().at(place);
            if round % 3 == 0 {
                std::mem::forget(latch.exclusive(&victim, Rank::CATALOGUE));
            } else {
                std::mem::forget(latch.shared(&victim, Rank::CATALOGUE));
            }
            drop(victim);
            let session = there.join().expect("room");
            there.help_the_dead(&session);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!((here.region().at(place).shared_count(), here.region().at(place).owner()), (0, None));
}

#[test]
fn a_waiter_without_a_repairer_names_the_dead_holder() {
    let (here, there) = two_processes();
    let latch = new_latch(&here);
    let dead = here.join().expect("room");
    std::mem::forget(here.region().at(latch).exclusive(&dead, Rank::CATALOGUE));
    let name = dead.id().to_string();
    drop(dead);
    let session = there.join().expect("room");
    let panic = catch_unwind(AssertUnwindSafe(|| drop(there.region().at(latch).shared(&session, Rank::CATALOGUE))));
    let message =
        *panic.expect_err("the waiter cannot wait for ever").downcast::<String>().expect("a formatted message");
    assert!(message.starts_with(&name), "{message}");
}

#[test]
fn a_session_that_leaves_a_broken_region_does_not_hold_the_latch_that_it_waited_for() {
    for share in [false, true] {
        let (here, there) = two_processes();
        let (place, lower) = (new_latch(&here), new_latch(&here));
        let holder = here.join().expect("room");
        let _guard = here.region().at(place).exclusive(&holder, Rank::LOG_APPEND);
        here.declare_broken();
        let session = there.join().expect("room");
        let latch = there.region().at(place);
        let left = catch_unwind(AssertUnwindSafe(|| match share {
            false => drop(latch.exclusive(&session, Rank::LOG_APPEND)),
            true => drop(latch.shared(&session, Rank::LOG_APPEND)),
        }));
        assert!(left.expect_err("the region is broken").is::<crate::Broken>());
        assert_eq!(session.latch_count(), 0);
        drop(there.region().at(lower).exclusive(&session, Rank::LOCK_BUCKET));
    }
}

#[test]
fn a_session_that_sleeps_is_woken_by_another_mapping() {
    let (here, there) = two_processes();
    let ready = here.region().allocate::<Word<u64>>(1).expect("room");
    std::thread::scope(|scope| {
        let session = here.join().expect("room");
        let id = session.id();
        let region = here.region().clone();
        let sleeper = scope.spawn(move || {
            for round in 1..=200 {
                assert!(session.sleep_until(None, || region.at(ready).load() >= round));
            }
        });
        for round in 1..=200 {
            there.region().at(ready).publish(round);
            there.wake(id);
        }
        assert!(soon(|| sleeper.is_finished()));
    });
}

#[test]
fn a_wake_between_ticket_and_sleep_is_not_lost() {
    let (here, there) = two_processes();
    let session = here.join().expect("room");
    let ticket = session.prepare_sleep();
    there.wake(session.id());
    let started = Instant::now();
    assert!((0..1000).all(|_| session.sleep_on(ticket, Duration::from_secs(1))));
    assert!(started.elapsed() < Duration::from_secs(1), "no call slept");
}

#[test]
fn no_sleep_is_longer_than_its_bound() {
    let (here, _there) = two_processes();
    let session = here.join().expect("room");
    let started = Instant::now();
    assert!(!session.sleep(Duration::from_secs(3600)));
    assert!(started.elapsed() >= crate::SLEEP_MAX && started.elapsed() < Duration::from_secs(5));
    let deadline = Instant::now() + Duration::from_millis(12);
    assert!(!session.sleep_until(Some(deadline), || false));
    assert!(Instant::now() >= deadline);
}

#[test]
fn slots_and_undo_logs_are_used_again_under_a_new_name() {
    let (here, there) = two_processes();
    let first = here.join().expect("room").id();
    let used = here.region().used();
    for _ in 0..10 {
        let next = there.join().expect("room");
        assert_eq!(next.id().index(), first.index());
        assert_ne!(next.id(), first);
        assert!(here.is_alive(next.id()) && !here.is_alive(first));
    }
    assert_eq!(here.region().used(), used);
}

#[test]
fn sessions_come_and_go_from_many_threads_and_names_are_never_shared() {
    let (here, there) = two_processes();
    let names = std::sync::Mutex::new(std::collections::HashSet::new());
    std::thread::scope(|scope| {
        for processes in [&here, &there, &here, &there] {
            scope.spawn(|| {
                for _ in 0..10 {
                    let sessions: Vec<Session> = (0..9).map(|_| processes.join().expect("room")).collect();
                    let mut names = names.lock().expect("no test panics with it");
                    assert!(sessions.iter().all(|session| names.insert(session.id())));
                }
            });
        }
    });
    assert_eq!(names.into_inner().expect("no test panics with it").len(), 360);
    assert!(here.sessions().is_empty());
}

#[test]
fn a_new_environment_stays_small() {
    let (here, _there) = two_processes();
    let before = here.region().used();
    let _session = here.join().expect("room");
    assert!(here.region().used() - before <= 80 << 10);
    assert!(here.region().used() <= ProcessManager::size(&Settings::default()) + rio::HEADER_BYTES + 4096);
}

#[test]
fn an_undo_log_grows_on_demand_and_keeps_its_size_for_the_next_tenant() {
    let (here, there) = two_processes();
    let words = here.region().allocate::<Word<u64>>(1000).expect("room");
    let session = here.join().expect("room");
    for bytes in [100, 1 << 17, 1 << 18, 1000] {
        session.ensure_undo(bytes).expect("room");
        assert!(session.undo().capacity() >= bytes);
        let mut section = session.section();
        here.region().slice(words, 1000).iter().for_each(|word| word.set(&mut section, bytes));
        section.roll_back();
        assert!(here.region().slice(words, 1000).iter().all(|word| word.get() == 0));
    }
    drop(session);
    assert!(there.join().expect("room").undo().capacity() >= 1 << 18);
}

#[test]
fn the_undo_log_of_a_full_region_keeps_its_size() {
    let region = Region::anonymous(1 << 20).expect("memory file");
    ProcessManager::init(&region).expect("room");
    let session = attach(&region).join().expect("room");
    let before = session.undo().capacity();
    assert!(matches!(session.ensure_undo(1 << 24), Err(Error::Region(_))));
    assert_eq!(session.undo().capacity(), before);
    session.section().close();
}

#[test]
fn after_the_death_of_all_processes_sections_are_rolled_back_appends_are_listed_and_slots_are_freed_last() {
    let (here, there) = two_processes();
    let word = here.region().allocate::<Word<u64>>(1).expect("room");
    let latch = here.region().at(new_latch(&here));
    let (dead, bystander) = (here.join().expect("room"), here.join().expect("room"));
    let (dead_id, bystander_id) = (dead.id(), bystander.id());
    std::mem::forget(latch.exclusive(&dead, Rank::CATALOGUE));
    dead.note_append(4711, 12);
    let mut section = dead.section();
    here.region().at(word).set(&mut section, 5);
    std::mem::forget(section);
    // Killed: no destructor runs.
    std::mem::forget((dead, bystander));

    let again = there.region().map_again().expect("third mapping");
    let next = attach(&again);
    let living = next.join().expect("room");
    let repair = next.repair_alone();
    assert_eq!((repair.sessions(), repair.images()), (2, 1));
    assert_eq!(again.at(word).get(), 0);
    let append = repair.appends()[0];
    assert_eq!((append.session, append.lsn, append.txn), (dead_id, 4711, 12));
    drop(repair);

    // The first repairer was killed before the end: the second finds the same append and no image.
    let repair = next.repair_alone();
    assert_eq!((repair.appends().len(), repair.images()), (1, 0));
    latch.reset_alone();
    repair.finish();
    assert!(!next.is_alive(dead_id) && !next.is_alive(bystander_id) && next.is_alive(living.id()));
    assert_eq!(next.sessions().len(), 1);
    assert_eq!(next.repair_alone().sessions(), 0);
    drop(latch.exclusive(&here.join().expect("room"), Rank::CATALOGUE));
}

#[test]
fn a_noted_append_or_a_held_latch_keeps_the_slot_of_a_session_that_leaves() {
    let (here, _there) = two_processes();
    let session = here.join().expect("room");
    session.note_append(8, 0);
    session.clear_append();
    drop(session);
    assert!(here.sessions().is_empty());
    let session = here.join().expect("room");
    session.note_append(8, 0);
    drop(session);
    assert!(matches!(here.sessions().as_slice(), [info] if !info.alive && info.append_lsn == 8));
}

#[test]
fn a_tree_epoch_has_passed_when_the_sessions_inside_have_left() {
    let (here, there) = two_processes();
    let (mine, theirs) = (here.join().expect("room"), there.join().expect("room"));
    mine.enter_tree();
    mine.enter_tree();
    let epoch = there.next_tree_epoch();
    theirs.enter_tree();
    assert!(!here.tree_epoch_passed(epoch));
    mine.leave_tree();
    assert!(!here.tree_epoch_passed(epoch), "the session is still in the outer operation");
    mine.leave_tree();
    assert!(here.tree_epoch_passed(epoch), "a session that entered later does not count");
    assert!(!here.tree_epoch_passed(there.next_tree_epoch()));
    theirs.leave_tree();
}

#[test]
fn the_object_that_a_session_waits_for_is_shown() {
    let (here, there) = two_processes();
    let session = here.join().expect("room");
    session.wait_info(3, 99);
    let info = &there.sessions()[0];
    assert_eq!((info.wait_kind, info.wait_subject, info.pid), (3, 99, std::process::id()));
}

#[test]
fn a_region_without_a_process_manager_is_refused() {
    let region = Region::anonymous(1 << 20).expect("memory file");
    assert!(region.root::<Latch>(RootSlot::Process).is_none());
    assert!(matches!(ProcessManager::attach(&region, &Settings::default()), Err(Error::NotInitialised { .. })));
}
