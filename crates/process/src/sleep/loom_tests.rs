//! One thread takes a ticket, checks the condition and sleeps. Another thread makes the condition true and wakes the
//! first thread. Loom runs every interleaving. Only a wake ends a sleep here.

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

use super::{add_wake, sleep_on, take_ticket, SleepWord};
use crate::latch_word::Wait;

impl SleepWord for AtomicU32 {
    fn look(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    fn swap_if(&self, old: u32, new: u32) -> bool {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    fn add(&self, value: u32) -> u32 {
        self.fetch_add(value, Ordering::AcqRel)
    }
    fn and(&self, bits: u32) -> u32 {
        self.fetch_and(bits, Ordering::AcqRel)
    }
}

/// A slot's word, the kernel's queue for it, and two conditions.
struct Model {
    word: AtomicU32,
    kernel: Mutex<()>,
    queue: Condvar,
    ready: [AtomicBool; 2],
}

impl Model {
    fn sleep_until_both_are_ready(&self) {
        loop {
            let ticket = take_ticket(&self.word);
            // Relaxed: the wake gives the order, and the test checks that.
            if self.ready.iter().all(|ready| ready.load(Ordering::Relaxed)) {
                return;
            }
            sleep_on(&self.word, ticket, |asleep| {
                let kernel = self.kernel.lock().expect("no test panics with it");
                if self.word.load(Ordering::Relaxed) == asleep {
                    drop(self.queue.wait(kernel).expect("no test panics with it"));
                }
                Wait::Woken
            });
        }
    }

    fn make_ready(&self, which: usize) {
        self.ready[which].store(true, Ordering::Relaxed);
        add_wake(&self.word, || {
            let _kernel = self.kernel.lock().expect("no test panics with it");
            self.queue.notify_all();
        });
    }
}

#[test]
fn loom_no_wake_is_lost_between_the_look_and_the_sleep() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Arc::new(Model {
            word: AtomicU32::new(0),
            kernel: Mutex::new(()),
            queue: Condvar::new(),
            ready: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        let wakers = [0, 1].map(|which| {
            let model = model.clone();
            loom::thread::spawn(move || model.make_ready(which))
        });
        model.sleep_until_both_are_ready();
        wakers.into_iter().for_each(|waker| waker.join().expect("no waker panics"));
    });
}
