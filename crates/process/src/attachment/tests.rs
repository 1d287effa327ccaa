//! Tests with attachment locks of a simulated kernel; the tests of the whole library cover the real attachment locks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rio::Region;

use super::AttachmentLocks;
use crate::{ProcessManager, Settings};

/// The locks of a simulated kernel: attachment lock to process.
#[derive(Default)]
struct Kernel(Mutex<BTreeMap<u64, u32>>);

impl Kernel {
    fn kill(&self, process: u32) {
        self.0.lock().unwrap().retain(|_, owner| *owner != process);
    }
}

/// One process's view of that kernel.
struct SimulatedLocks(Arc<Kernel>, u32);

impl AttachmentLocks for SimulatedLocks {
    fn take(&self, lock: u64) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let mut owners = self.0 .0.lock().unwrap();
        let owner = *owners.entry(lock).or_insert(self.1);
        Ok(owner == self.1)
    }
    fn give_back(&self, lock: u64) {
        let mut owners = self.0 .0.lock().unwrap();
        if owners.get(&lock) == Some(&self.1) {
            owners.remove(&lock);
        }
    }
    fn is_free(&self, lock: u64) -> bool {
        self.0 .0.lock().unwrap().get(&lock).is_none_or(|owner| *owner == self.1)
    }
}

fn new_region() -> (Region, Arc<Kernel>) {
    let region = Region::anonymous(1 << 30).expect("memory file");
    ProcessManager::init(&region).expect("room");
    (region, Arc::default())
}

fn attach(region: &Region, kernel: &Arc<Kernel>, process: u32) -> ProcessManager {
    let locks = Arc::new(SimulatedLocks(Arc::clone(kernel), process));
    ProcessManager::attach_locked(region, &Settings::default(), locks).expect("a new process manager")
}

#[test]
fn a_session_is_dead_when_its_seat_is_free_and_not_before() {
    let (region, kernel) = new_region();
    let (one, two) = (attach(&region, &kernel, 1), attach(&region, &kernel, 2));
    let (mine, theirs) = (one.join().expect("room"), two.join().expect("room"));
    assert!(one.is_alive(theirs.id()) && two.is_alive(mine.id()));
    kernel.kill(2);
    assert!(!one.is_alive(theirs.id()), "its attachment lock is free");
    assert!(two.is_alive(mine.id()));
    assert!(two.is_alive(theirs.id()), "a running process regards itself as alive");
}

#[test]
fn no_process_takes_the_seat_of_a_dead_process_that_still_has_a_session() {
    let (region, kernel) = new_region();
    let observer = attach(&region, &kernel, 1);
    let victim = attach(&region, &kernel, 2);
    let theirs = victim.join().expect("room");
    kernel.kill(2);
    let newcomers: Vec<ProcessManager> = (3..40).map(|process| attach(&region, &kernel, process)).collect();
    assert!(!observer.is_alive(theirs.id()), "a new process must not make a dead session count as alive");
    assert!(newcomers.iter().all(|newcomer| !newcomer.is_alive(theirs.id())));
    // The slot is freed when its last session is repaired.
    let pids = || observer.0.attachments.others().count();
    let before = pids();
    observer.forget_gone();
    assert_eq!(pids(), before);
    drop(theirs);
    observer.forget_gone();
    assert_eq!(pids(), before - 1);
}

#[test]
fn a_process_that_leaves_releases_its_seat_and_slot() {
    let (region, kernel) = new_region();
    let observer = attach(&region, &kernel, 1);
    for _ in 0..100 {
        let guest = attach(&region, &kernel, 2);
        drop(guest.join().expect("room"));
        drop(guest);
        assert_eq!(kernel.0.lock().unwrap().len(), 1);
        assert_eq!(observer.0.attachments.others().count(), 0);
    }
    assert_eq!(observer.0.attachments.slots.capacity(), super::FIRST_PROCESSES);
}

#[test]
fn a_seat_that_another_process_still_holds_is_skipped() {
    let (region, kernel) = new_region();
    let first = attach(&region, &kernel, 1);
    let next = super::Tenant(2).next(2).id().raw();
    kernel.0.lock().unwrap().insert(next, 99);
    let second = attach(&region, &kernel, 2);
    assert_ne!(second.0.attachments.own().raw(), next);
    let (mine, theirs) = (first.join().expect("room"), second.join().expect("room"));
    assert!(first.is_alive(theirs.id()) && second.is_alive(mine.id()));
}

#[test]
fn a_process_that_died_while_it_attached_leaves_nothing_behind() {
    let (region, kernel) = new_region();
    let observer = attach(&region, &kernel, 1);
    let slot = observer.0.attachments.slots.at(2);
    slot.tenant.publish(slot.tenant.load().next(2));
    let newcomer = attach(&region, &kernel, 2);
    assert_eq!(newcomer.0.attachments.own().raw() & 0xffff, 2, "the slot is free again");
}

#[test]
fn the_claim_of_a_process_that_died_while_it_added_sessions_is_taken_over() {
    let (region, kernel) = new_region();
    let (one, two) = (attach(&region, &kernel, 1), attach(&region, &kernel, 2));
    one.0.header.growing.publish(two.0.attachments.own().raw());
    kernel.kill(2);
    drop(one.join().expect("the claim of the dead process is taken over"));
}

#[test]
fn a_dead_process_whose_pid_is_used_again_is_reported_as_dead() {
    let (region, kernel) = new_region();
    let (observer, victim) = (attach(&region, &kernel, 1), attach(&region, &kernel, 2));
    let _session = victim.join().expect("room");
    // A running process has the victim's pid, but another start time. A child of the dead process still has the
    // attachment lock.
    let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let slot = victim.0.attachments.slot(victim.0.attachments.own()).expect("the victim is attached");
    let known = super::Identity { pid: other.id(), start_time: 1, ..slot.identity() };
    slot.pid.publish(known.pid.into());
    slot.start_time.publish(known.start_time);
    slot.check.publish(super::checksum(victim.0.attachments.own(), known));
    let mut watch = crate::DeathWatch::new(&observer);
    let told = watch.wait(std::time::Duration::from_millis(1));
    other.kill().expect("a test may kill its child");
    other.wait().expect("the child was killed");
    assert!(told, "the death is not reported, because a running process has the pid");
}
