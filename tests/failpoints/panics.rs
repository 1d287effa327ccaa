//! A thread panics inside the library (PROTOCOLS D10): only its session dies. Its process continues with the same
//! handle, the other processes continue, and the memory is not rebuilt.
//!
//! `crates/libtp/src/region/panics.rs` describes the effect of repeated panics.

use std::panic::{catch_unwind, AssertUnwindSafe};

use libtp_process::{catch_call, Latch, ProcessManager, Rank, Settings};
use libtp_sim::Random;
use libtp_tests::failpoints::{self, Failpoint, Scene};
use libtp_tests::sizes;

use crate::child::PANICKED;
use crate::role::Role;
use crate::scenes::{self, ANY_TIME, PATIENCE};
use crate::town::Scenario;
use crate::watchdog;

/// Lets a thread of a victim panic at the failpoint; returns whether it did. The victim must continue like the others.
pub fn dies_of_a_panic(town: &mut Scenario, point: &str, random: &mut Random) -> bool {
    let what = format!("after a panic at {point:?}");
    let managers = town.observe().managers();
    let mut victim = town.launch(&Role::Victim(point.into()), "");
    // The failpoint is armed after the opening, because a panic in the opening has another effect.
    assert!(victim.acknowledges_more_than(0, watchdog()), "process {} does not begin to work", victim.number);
    victim.arm(&format!("{point}@{}!panic", scenes::any_hit(random)));
    let mut is_hit = victim.panics_within(PATIENCE, 1);
    if !is_hit {
        victim.arm(&format!("{point}@1!panic"));
        is_hit = victim.panics_within(ANY_TIME, 1);
    }
    town.go_on(&what);
    let count = victim.told.len() + 2;
    assert!(victim.acknowledges_more_than(count, watchdog()), "process {} does not continue {what}", victim.number);
    victim.order("stop");
    victim.leaves(&what);
    assert!(victim.death().is_none(), "process {} died {what}", victim.number);
    town.record_death(&mut victim, point);
    town.wait_for_repairs(&what);
    town.go_on(&what);
    // If the victim reached the failpoint just before the second order, it has panicked twice.
    let is_twice = victim.panics_within(PATIENCE / 10, 2);
    assert!(is_twice || !managers.region.is_broken(), "the memory was given up {what}");
    drop(managers);
    if is_twice {
        // After a second panic the region is given up and rebuilt, which
        // `a_repeated_panic_breaks_the_region_and_then_reaches_the_caller` tests.
        town.expect_rebuild();
    }
    town.audit(&what);
    is_hit
}

/// The number of panics in one environment. After them the journal is long, so the test makes a new environment.
const PANICS_OF_ONE: usize = 40;

#[test]
fn a_panic_at_any_failpoint_ends_only_its_session() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_FAILPOINT");
    let most = usize::try_from(sizes::number("LIBTP_TEST_PANICS", 12)).unwrap();
    let seed = sizes::first_seed();
    let mut random = Random::new(seed);
    // Only failpoints of the scene `Work` are tried: working processes reach no others.
    let is_chosen = |it: &&Failpoint| it.scene == Scene::Work && chosen.as_ref().is_none_or(|name| it.name == name);
    let mut points: Vec<&Failpoint> = failpoints::all().filter(is_chosen).collect();
    random.shuffle(&mut points);
    points.truncate(most);
    let (mut hit, mut town): (usize, Option<Scenario>) = (0, None);
    for point in &points {
        println!("panics at {:?}", point.name);
        let here = town.get_or_insert_with(|| scenes::settled(seed));
        hit += usize::from(dies_of_a_panic(here, point.name, &mut random));
        if here.deaths.len() >= PANICS_OF_ONE {
            town.take().expect("the town is open").close(&format!("seed {seed}, about {:?}", point.name));
        }
    }
    if let Some(town) = town {
        town.close(&format!("seed {seed}"));
    }
    println!("figures: {hit} panics at {} failpoints, 0 lost, 0 stuck, 0 rebuilds", points.len());
    assert!(4 * hit >= 3 * points.len(), "only {hit} of {} failpoints were reached", points.len());
}

/// A failpoint that every transaction with a change passes.
const OFTEN: &str = "commit: committing, nothing logged";

#[test]
fn a_repeated_panic_breaks_the_region_and_then_reaches_the_caller() {
    let mut town = scenes::settled(sizes::first_seed());
    // The role must not open the environment a second time, because each handle counts its own panics.
    let mut victim = town.launch(&Role::Survivor, "");
    assert!(victim.acknowledges_more_than(0, watchdog()), "the victim does not begin to work");
    let panics = format!("{OFTEN}@1!panic");
    for (count, is_end) in [(1, false), (2, true)] {
        let managers = town.observe().managers();
        victim.arm(&panics);
        assert!(victim.panics_within(watchdog(), count), "no transaction commits");
        let what = format!("after panic {count} at {OFTEN:?}");
        let more = victim.told.len() + 3;
        assert!(victim.acknowledges_more_than(more, watchdog()), "the victim does not continue {what}");
        town.go_on(&what);
        assert_eq!(managers.region.is_broken(), is_end, "{what}");
        drop(managers);
        if is_end {
            town.expect_rebuild();
        }
        // This process must also work in the new memory.
        town.audit(&what);
    }
    victim.arm(&panics);
    let failed = victim.fails_within(watchdog());
    assert!(failed.as_ref().is_some_and(|what| what.starts_with(PANICKED)), "{failed:?}");
    victim.kill();
    let what = "after the third panic";
    assert!(!town.observe().managers().region.is_broken(), "the memory was given up {what}");
    town.record_death(&mut victim, OFTEN);
    town.wait_for_repairs(what);
    town.go_on(what);
    town.close(what);
}

/// The program panics. While the thread unwinds, one of the program's destructors calls the library, and the library
/// panics in an open section. The thread was already unwinding, so the library learns only from the open section that
/// the session must die.
#[test]
fn a_panic_in_an_open_section_kills_the_session_although_the_program_was_panicking_already() {
    struct Calls<'l>(&'l dyn Fn());
    impl Drop for Calls<'_> {
        fn drop(&mut self) {
            assert!(catch_call(self.0).is_ok());
        }
    }
    let region = rio::Region::anonymous(1 << 24).unwrap();
    ProcessManager::init(&region).unwrap();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    let session = processes.join().unwrap();
    let latch = region.at(region.allocate::<Latch>(1).unwrap());
    let dies = || {
        let own = catch_unwind(AssertUnwindSafe(|| {
            let _guard = latch.exclusive(&session, Rank::CATALOGUE);
            let _section = session.section();
            panic!("the library's");
        }));
        assert!(own.is_err());
    };
    let programs = catch_unwind(AssertUnwindSafe(|| {
        let _calls = Calls(&dies);
        panic!("the program's");
    }));
    assert!(programs.is_err());
    assert_eq!(latch.owner(), Some(session.id()), "the guard must not release the latch above an open section");
    assert!(session.is_dead() && !processes.is_alive(session.id()));
}

/// In a call, the library calls a function of the program, which panics, and the program catches the panic. Then the
/// library panics: this must kill the session, although the first panic did not.
#[test]
fn after_a_panic_of_the_program_a_panic_of_the_library_kills_the_session() {
    let region = rio::Region::anonymous(1 << 24).unwrap();
    ProcessManager::init(&region).unwrap();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    let session = processes.join().unwrap();
    let latch = region.at(region.allocate::<Latch>(1).unwrap());
    let programs = catch_call(|| {
        libtp_process::is_callers_panic();
        panic!("the program's");
    });
    assert!(programs.is_err() && !session.is_dead());
    let own = catch_call(|| {
        let _guard = latch.exclusive(&session, Rank::CATALOGUE);
        panic!("the library's");
    });
    assert!(own.is_err());
    assert_eq!(latch.owner(), Some(session.id()), "the guard must not release the latch");
    assert!(session.is_dead());
}
