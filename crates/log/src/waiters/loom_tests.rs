//! Group commit under every interleaving. Sleeps end only by a wake, so loom reports a lost wake as a deadlock. A
//! commit gets the answer "durable" only after the flush that synced its record.

use loom::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

use super::{wait, wake, WaiterTable};
use crate::Lsn;
use libtp_process::SessionId;

const SESSIONS: usize = 3;

/// The place where a session sleeps: the number of wakes, and the kernel's queue.
struct SleepPlace {
    wakes: AtomicU32,
    kernel: Mutex<()>,
    queue: Condvar,
}

struct Model {
    tail: AtomicU64,
    durable: AtomicU64,
    /// The disk's contents, written only by the present leader.
    synced: AtomicU64,
    poison: AtomicBool,
    leader: AtomicU64,
    tenants: [AtomicU64; SESSIONS],
    wanted: [AtomicU64; SESSIONS],
    high: AtomicUsize,
    sleep_places: [SleepPlace; SESSIONS],
    fails: bool,
}

fn session(number: usize) -> SessionId {
    SessionId::from_raw(1 << 32 | number as u64)
}

impl WaiterTable for Model {
    const PLACES: usize = SESSIONS;

    fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }
    fn is_poisoned(&self) -> bool {
        self.poison.load(Ordering::Acquire)
    }
    fn waiter_at(&self, place: usize) -> SessionId {
        SessionId::from_raw(self.tenants[place].load(Ordering::Acquire))
    }
    fn swap_waiter(&self, place: usize, old: SessionId, new: SessionId) -> bool {
        let word = &self.tenants[place];
        word.compare_exchange(old.raw(), new.raw(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    fn wanted(&self, place: usize) -> Lsn {
        Lsn::new(self.wanted[place].load(Ordering::Acquire))
    }
    fn set_wanted(&self, place: usize, lsn: Lsn) {
        self.wanted[place].store(lsn.raw(), Ordering::Release);
    }
    fn high(&self) -> usize {
        self.high.load(Ordering::Acquire)
    }
    fn raise_high(&self, high: usize) {
        self.high.fetch_max(high, Ordering::AcqRel);
    }
    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn wake(&self, session: SessionId) {
        let sleep_place = &self.sleep_places[session.index() as usize];
        sleep_place.wakes.fetch_add(1, Ordering::AcqRel);
        let _kernel = sleep_place.kernel.lock().expect("no test panics with it");
        sleep_place.queue.notify_all();
    }
}

impl Model {
    fn new(fails: bool) -> Arc<Model> {
        Arc::new(Model {
            tail: AtomicU64::new(8),
            durable: AtomicU64::new(8),
            synced: AtomicU64::new(8),
            poison: AtomicBool::new(false),
            leader: AtomicU64::new(0),
            tenants: std::array::from_fn(|_| AtomicU64::new(0)),
            wanted: std::array::from_fn(|_| AtomicU64::new(0)),
            high: AtomicUsize::new(0),
            sleep_places: std::array::from_fn(|_| SleepPlace {
                wakes: AtomicU32::new(0),
                kernel: Mutex::new(()),
                queue: Condvar::new(),
            }),
            fails,
        })
    }

    /// Like `LogManager::force`, but a sleep ends only by a wake. Returns whether the record is durable.
    fn commit(&self, number: usize) -> bool {
        let me = session(number);
        let lsn = Lsn::new(self.tail.fetch_add(8, Ordering::AcqRel));
        loop {
            if self.is_poisoned() {
                return false;
            }
            if self.durable() > lsn {
                assert!(self.synced.load(Ordering::Relaxed) > lsn.raw(), "acknowledged before it was synced");
                return true;
            }
            if self.leader.compare_exchange(0, me.raw(), Ordering::AcqRel, Ordering::Acquire).is_ok() {
                if self.durable() <= lsn {
                    self.flush();
                } else {
                    self.leader.store(0, Ordering::Release);
                    wake(self, self.durable());
                }
                continue;
            }
            let sleep_place = &self.sleep_places[number];
            let ticket = sleep_place.wakes.load(Ordering::Acquire);
            wait(
                self,
                me,
                lsn,
                || self.leader.load(Ordering::Acquire) == 0,
                || {
                    let mut kernel = sleep_place.kernel.lock().expect("no test panics with it");
                    while sleep_place.wakes.load(Ordering::Acquire) == ticket {
                        kernel = sleep_place.queue.wait(kernel).expect("no test panics with it");
                    }
                },
            );
        }
    }

    /// Like `LogManager::flush`.
    fn flush(&self) {
        // A swap, not a load, because `LogManager` reads the tail under the append latch and so gets its latest value.
        let to = self.tail.fetch_add(0, Ordering::AcqRel);
        if self.fails {
            self.poison.store(true, Ordering::Release);
            self.leader.store(0, Ordering::Release);
            wake(self, Lsn::new(u64::MAX));
            return;
        }
        // Relaxed: `durable` publishes it.
        self.synced.store(to, Ordering::Relaxed);
        self.durable.fetch_max(to, Ordering::AcqRel);
        self.leader.store(0, Ordering::Release);
        wake(self, Lsn::new(to));
    }
}

fn check(sessions: usize, preemptions: usize, fails: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Model::new(fails);
        let others: Vec<_> = (1..sessions)
            .map(|number| {
                let model = model.clone();
                loom::thread::spawn(move || model.commit(number))
            })
            .collect();
        let mut durable = vec![model.commit(0)];
        durable.extend(others.into_iter().map(|other| other.join().expect("no committer panics")));
        assert!(durable.iter().all(|&durable| durable != fails), "each commit gets the right answer: {durable:?}");
    });
}

#[test]
fn loom_two_committers_are_both_durable_and_no_wake_is_lost() {
    check(2, 3, false);
}

#[test]
fn loom_three_committers_are_all_durable_and_no_wake_is_lost() {
    check(3, 2, false);
}

#[test]
fn loom_every_waiter_gets_the_error_of_a_failed_flush() {
    check(2, 3, true);
}
