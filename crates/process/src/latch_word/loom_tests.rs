//! The latch's state machine under every interleaving that loom finds.
//!
//! The model of the kernel is a futex: a comparison of the word and a queue, under one mutex. No sleeper wakes by
//! itself in the model, so a lost wake is a deadlock, which loom reports. The latch protects a counter that is loaded
//! and then stored, relaxed: two holders at once, or a missing release or acquire, lose an increment.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

use super::{
    acquire_exclusive, acquire_shared, leave_exclusive, leave_shared, release_exclusive, release_shared, try_exclusive,
    wait_exclusive, wait_shared, Class, StateWord, Wait, Waiter, COUNT, OWNER_SHIFT,
};

impl StateWord for AtomicU64 {
    fn look(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
    }
    fn free(&self) {
        // A swap, not a store, because of a fault of loom. After a plain store by another thread, loom lets this thread
        // read the older value of its own swap again, even if the two threads have synchronised since. No machine does
        // that, and loom does not do it after a swap.
        self.swap(0, Ordering::Release);
    }
}

/// A latch, the kernel's queues for it, and the protected counter.
struct Model {
    word: AtomicU64,
    kernel: Mutex<()>,
    readers: Condvar,
    writers: Condvar,
    counter: AtomicU32,
    /// Whether time passes in the model. If so, every sleeper times out at some moment after each release, whether it
    /// was woken or not. Only then does the model also use the release that can lose a wake.
    time_passes: bool,
}

impl Model {
    fn new(time_passes: bool) -> Arc<Model> {
        Arc::new(Model {
            word: AtomicU64::new(0),
            kernel: Mutex::new(()),
            readers: Condvar::new(),
            writers: Condvar::new(),
            counter: AtomicU32::new(0),
            time_passes,
        })
    }

    fn queue(&self, class: Class) -> &Condvar {
        match class {
            Class::Reader => &self.readers,
            Class::Writer => &self.writers,
        }
    }

    fn pass_time(&self) {
        if self.time_passes {
            let _kernel = self.kernel.lock().expect("no test panics with it");
            self.readers.notify_all();
            self.writers.notify_all();
        }
    }

    fn increment(&self) {
        let before = self.counter.load(Ordering::Relaxed);
        self.counter.store(before + 1, Ordering::Relaxed);
    }

    fn exclusive(&self, thread: u64) {
        let owner = thread << OWNER_SHIFT;
        if !acquire_exclusive(&self.word, owner) {
            wait_exclusive(&self.word, owner, self);
        }
        self.increment();
        if !(self.time_passes && leave_exclusive(&self.word, owner)) {
            release_exclusive(&self.word, owner, self);
        }
        self.pass_time();
    }

    fn shared(&self) -> u32 {
        if !acquire_shared(&self.word) {
            wait_shared(&self.word, self);
        }
        assert!(self.word.look() & COUNT != 0, "a shared holder is counted");
        let seen = self.counter.load(Ordering::Relaxed);
        assert_eq!(seen, self.counter.load(Ordering::Relaxed), "a writer held the latch together with a reader");
        if !leave_shared(&self.word) {
            release_shared(&self.word, self);
        }
        self.pass_time();
        seen
    }
}

impl Waiter<AtomicU64> for Model {
    const SPINS: u32 = 0;

    fn pause(&self, _round: u32) {}

    fn wait(&self, word: &AtomicU64, seen: u64, class: Class, _round: u32) -> Wait {
        let kernel = self.kernel.lock().expect("no test panics with it");
        if word.look() != seen {
            return Wait::Woken;
        }
        drop(self.queue(class).wait(kernel).expect("no test panics with it"));
        if self.time_passes {
            Wait::TimedOut
        } else {
            Wait::Woken
        }
    }

    fn thaw(&self, _word: &AtomicU64) -> bool {
        unreachable!("no session freezes a word in the model");
    }

    fn wake(&self, _word: &AtomicU64, class: Class) {
        let _kernel = self.kernel.lock().expect("no test panics with it");
        match class {
            Class::Reader => self.readers.notify_all(),
            Class::Writer => self.writers.notify_one(),
        }
    }
}

type Step = fn(&Model, u64);

/// Runs each step in its own thread; the last step runs in the calling thread. Checks that all steps end and that the
/// latch is free afterwards.
fn run(time_passes: bool, preemptions: usize, steps: &'static [Step], expected: u32) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Model::new(time_passes);
        let (mine, others) = steps.split_last().expect("there is a step");
        let threads: Vec<_> = others
            .iter()
            .zip(1..)
            .map(|(step, number)| {
                let model = model.clone();
                loom::thread::spawn(move || step(&model, number))
            })
            .collect();
        mine(&model, 9);
        threads.into_iter().for_each(|thread| thread.join().expect("no step panics"));
        assert_eq!(model.counter.load(Ordering::Relaxed), expected, "an increment was lost");
        let advice = if time_passes { super::ASLEEP | super::PENDING } else { 0 };
        assert_eq!(model.word.look() & !advice, 0, "the latch is free at the end, and no waiting bit is set");
        assert!(try_exclusive(&model.word, 1 << OWNER_SHIFT), "the latch can be taken at the end");
    });
}

const WRITE: Step = |model, thread| model.exclusive(thread);
const READ: Step = |model, _| {
    model.shared();
};
const READ_TWICE: Step = |model, _| {
    let first = model.shared();
    assert!(model.shared() >= first, "a reader sees an older state after a newer state");
};
const WRITE_TWICE: Step = |model, thread| {
    model.exclusive(thread);
    model.exclusive(thread);
};

/// The number of preemptions in the largest tests. With three, a test takes half a minute or longer.
fn preemptions() -> usize {
    std::env::var("LIBTP_TEST_PREEMPTIONS").map_or(2, |number| number.parse().expect("a number"))
}

#[test]
fn loom_three_writers_exclude_each_other_and_no_wake_is_lost() {
    run(false, 3, &[WRITE, WRITE, WRITE], 3);
}

#[test]
fn loom_a_writer_that_comes_again_does_not_steal_the_wake_of_another_writer() {
    run(false, 2, &[WRITE, WRITE, WRITE_TWICE], 4);
}

#[test]
fn loom_two_writers_and_a_reader_all_get_in() {
    run(false, preemptions(), &[WRITE, WRITE, READ], 2);
}

#[test]
fn loom_a_writer_gets_in_between_readers() {
    run(false, preemptions(), &[READ, READ, WRITE], 1);
}

#[test]
fn loom_a_reader_never_sees_an_older_state() {
    run(false, 3, &[WRITE, READ_TWICE], 1);
}

#[test]
fn loom_a_release_by_a_plain_store_keeps_mutual_exclusion() {
    run(true, preemptions(), &[WRITE, WRITE, READ], 2);
}

#[test]
fn loom_time_outs_admit_no_session_too_early() {
    run(true, 2, &[WRITE, READ, READ], 1);
}
