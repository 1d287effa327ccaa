//! One session declares memory broken while another publishes a commit record (PROTOCOLS D13). The first session must
//! see the record, or the second must see the declaration. Otherwise the commit is answered, but its record is not in
//! the log from which the region is rebuilt.
//!
//! Each session stores one word and then loads the other's word. A processor may execute the load before the store.
//! Therefore the declaring session issues a barrier on all processors; the committing session issues none, because
//! commits are frequent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libtp_process::{ProcessManager, Settings};
use libtp_sim::Random;
use libtp_tests::sizes;
use rio::{Region, Word};

/// A report. In the first test, the committing session has not seen that memory is broken. In the second test, the
/// visiting session has not found the page.
const UNSEEN: u64 = 1;
/// A report. In the first test, the committing session has seen that memory is broken. In the second test, the visiting
/// session has found the page.
const SEEN: u64 = 2;

fn wait_until(ready: impl Fn() -> bool) {
    let mut looks = 0_u32;
    while !ready() {
        looks += 1;
        if looks % 1024 == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

#[test]
fn a_declaration_of_broken_memory_and_a_commit_see_each_other() {
    let region = Region::anonymous(1 << 20).unwrap();
    ProcessManager::init(&region).unwrap();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    let tail = region.hold(region.allocate::<Word<u64>>(1).unwrap());
    let (round, message, over) = (AtomicU64::new(0), AtomicU64::new(0), u64::MAX);
    let (mut random, mut count) = (Random::new(sizes::first_seed()), 0_u64);
    let run = Duration::from_millis(sizes::number("LIBTP_TEST_BARRIER_MILLIS", 1500));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for mine in 1.. {
                wait_until(|| round.load(Ordering::Acquire) >= mine);
                if round.load(Ordering::Acquire) == over {
                    return;
                }
                tail.publish(1);
                let is_broken = region.is_broken();
                message.store(if is_broken { SEEN } else { UNSEEN }, Ordering::Release);
            }
        });
        let (begun, mut failure) = (Instant::now(), None);
        while begun.elapsed() < run && failure.is_none() {
            tail.publish(0);
            region.header().panic.publish(0);
            message.store(0, Ordering::Release);
            count += 1;
            round.store(count, Ordering::Release);
            (0..random.below(100)).for_each(|_| std::hint::spin_loop());
            processes.declare_broken();
            let found = tail.load();
            wait_until(|| message.load(Ordering::Acquire) != 0);
            if found == 0 && message.load(Ordering::Acquire) == UNSEEN {
                failure = Some(count);
            }
        }
        round.store(over, Ordering::Release);
        assert_eq!(
            failure, None,
            "in this round neither session saw the other's store: an answered commit would be lost"
        );
    });
    println!("figures: memory declared broken {count} times while a commit was published; a session noticed each time");
}

/// A session enters a tree, and then finds a page, without a fence in between. Another session unlinks the page, and
/// then asks which sessions are in a tree (PROTOCOLS T2). One of the two sessions must see the other's store. Otherwise
/// the page is used again while the first session reads it.
#[test]
fn a_visit_that_finds_a_page_is_seen_before_the_page_is_freed() {
    let region = Region::anonymous(1 << 24).unwrap();
    ProcessManager::init(&region).unwrap();
    let processes = ProcessManager::attach(&region, &Settings::default()).unwrap();
    processes.join_barriers();
    if !processes.has_barriers() {
        return;
    }
    let link = region.hold(region.allocate::<Word<u64>>(1).unwrap());
    let (round, message, looked, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), u64::MAX);
    let (mut random, mut count) = (Random::new(sizes::first_seed()), 0_u64);
    let run = Duration::from_millis(sizes::number("LIBTP_TEST_BARRIER_MILLIS", 1500));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = processes.join().unwrap();
            for mine in 1.. {
                wait_until(|| round.load(Ordering::Acquire) >= mine);
                if round.load(Ordering::Acquire) == over {
                    return;
                }
                session.enter_tree();
                let is_found = link.load() != 0;
                message.store(if is_found { SEEN } else { UNSEEN }, Ordering::Release);
                wait_until(|| looked.load(Ordering::Acquire) >= mine);
                session.leave_tree();
            }
        });
        let (begun, mut failure) = (Instant::now(), None);
        while begun.elapsed() < run && failure.is_none() {
            link.publish(1);
            message.store(0, Ordering::Release);
            count += 1;
            round.store(count, Ordering::Release);
            (0..random.below(100)).for_each(|_| std::hint::spin_loop());
            link.publish(0);
            let epoch = processes.next_tree_epoch();
            processes.barrier_of_visits();
            let is_free = processes.tree_epoch_passed(epoch);
            wait_until(|| message.load(Ordering::Acquire) != 0);
            if is_free && message.load(Ordering::Acquire) == SEEN {
                failure = Some(count);
            }
            looked.store(count, Ordering::Release);
        }
        round.store(over, Ordering::Release);
        assert_eq!(
            failure, None,
            "in this round neither session saw the other's store: a page would be used again while a session reads it"
        );
    });
    println!("figures: a page unlinked {count} times while a session looked for it; a session noticed each time");
}
