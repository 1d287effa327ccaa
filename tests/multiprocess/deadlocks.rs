//! Processes whose transactions wait for each other in a circle: one transaction is the victim, the others continue.

use std::time::{Duration, Instant};

use crate::child::CIRCLE_MAX;
use crate::crew::Member;

/// The number of circles of each size.
const ROUNDS: u32 = 10;
/// A circle counts as missed if it is not found within this time.
const HANG: Duration = Duration::from_secs(30);

/// Starts `processes` processes, and makes a database for each.
fn circle_of(directory: &std::path::Path, processes: usize, granularity: &str) -> Vec<Member> {
    let mut crew: Vec<Member> =
        (0..processes).map(|number| Member::start_with(directory, number as u64, granularity)).collect();
    for number in 0..processes {
        crew[0].ask("begin");
        crew[0].ask(&format!("put-in table{number} key 0"));
        crew[0].ask("commit");
    }
    crew
}

/// Closes a circle: each process locks its own record, then requests the record of the next process. Returns the time
/// of the last request, which closes the circle.
fn close(crew: &mut [Member]) -> Instant {
    let count = crew.len();
    for (number, member) in crew.iter_mut().enumerate() {
        member.ask("begin");
        member.ask(&format!("put-in table{number} key 1"));
    }
    for (number, member) in crew.iter_mut().enumerate().take(count - 1) {
        member.order(&format!("put-in table{} key 2", number + 1));
    }
    std::thread::sleep(Duration::from_millis(5));
    let closed = Instant::now();
    crew[count - 1].order("put-in table0 key 2");
    closed
}

/// Ends all transactions: each process that is granted its request commits, until every process has an answer. Returns
/// the time until the first victim got its error, and the number of victims.
fn resolve(crew: &mut [Member], closed: Instant) -> (Duration, usize) {
    let (mut found, mut victims) = (HANG, 0);
    let mut waiting: Vec<usize> = (0..crew.len()).collect();
    while !waiting.is_empty() {
        assert!(closed.elapsed() < HANG, "the circle was not found: {waiting:?} still wait");
        waiting.retain(|&at| match crew[at].answer_within(Duration::from_micros(100)).as_deref() {
            None => true,
            Some("deadlock") => {
                found = found.min(closed.elapsed());
                victims += 1;
                false
            }
            Some(answer) => {
                assert_eq!(answer, "put");
                assert_eq!(crew[at].ask("commit"), "committed");
                false
            }
        });
    }
    (found, victims)
}

fn circles(granularity: &str) {
    for processes in [2, 3, CIRCLE_MAX] {
        let directory = tempfile::tempdir().unwrap();
        let mut crew = circle_of(directory.path(), processes, granularity);
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let closed = close(&mut crew);
            let (found, victims) = resolve(&mut crew, closed);
            assert_eq!(victims, 1, "round {round}: a circle must have exactly one victim");
            times.push(found);
        }
        times.sort();
        println!(
            "figures: {ROUNDS} circles of {processes} processes, locks on {granularity}s: found after {:.1} ms (median), \
             {:.1} ms (longest)",
            times[times.len() / 2].as_secs_f64() * 1e3,
            times[times.len() - 1].as_secs_f64() * 1e3
        );
        crew.into_iter().for_each(Member::leave);
    }
}

#[test]
fn exactly_one_of_the_processes_in_a_circle_of_record_locks_is_a_victim() {
    circles("record");
}

#[test]
fn exactly_one_of_the_processes_in_a_circle_of_page_locks_is_a_victim() {
    circles("page");
}

/// Makes a circle of three processes. Process `stopped` waits in the circle; it is stopped just before the last request
/// closes the circle. Another process must be the victim.
fn circle_with_one_stopped(stopped: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut crew = circle_of(directory.path(), 3, "record");
    for (number, member) in crew.iter_mut().enumerate() {
        member.ask("begin");
        member.ask(&format!("put-in table{number} key 1"));
    }
    let (second, last) = ((stopped + 1) % 3, (stopped + 2) % 3);
    for (number, waits) in [(stopped, "1"), (second, "2")] {
        crew[number].order(&format!("put-in table{} key 2", (number + 1) % 3));
        while crew[last].ask("count-waits") != waits {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    crew[stopped].stop();
    let closed = Instant::now();
    crew[last].order(&format!("put-in table{stopped} key 2"));
    let told = || {
        [second, last]
            .iter()
            .any(|&at| crew[at].answer_within(Duration::from_millis(5)).is_some_and(|answer| answer == "deadlock"))
    };
    while !told() {
        assert!(closed.elapsed() < HANG / 3, "process {stopped} is stopped, and no other process was chosen as victim");
    }
    println!(
        "figures: process {stopped} of a circle stopped: another was the victim after {:.1} ms",
        closed.elapsed().as_secs_f64() * 1e3
    );
    crew[stopped].resume();
}

#[test]
fn a_stopped_process_in_a_circle_does_not_delay_the_victim() {
    // The victim is the youngest transaction, that of process 2.
    circle_with_one_stopped(0);
    circle_with_one_stopped(1);
}

#[test]
fn if_the_youngest_transaction_of_a_circle_is_stopped_another_victim_is_chosen() {
    circle_with_one_stopped(2);
}
