//! Jobs in parallel: each lane takes the next job of a list until the list is empty.

use crate::outcome::{clock, Counts, Outcome};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The result of a job.
pub type JobResult = io::Result<(Counts, Vec<String>)>;

/// One job.
pub struct Job<'a> {
    /// The job's name in the table.
    pub name: String,
    /// Does the job.
    pub run: Box<dyn FnOnce() -> JobResult + Send + 'a>,
}

impl<'a> Job<'a> {
    /// Returns a job with this name.
    pub fn new(name: &str, run: impl FnOnce() -> JobResult + Send + 'a) -> Job<'a> {
        Job { name: name.to_owned(), run: Box::new(run) }
    }
}

/// Runs the jobs in `count` lanes, in their order. The calling thread runs `first`, and then takes jobs as the lanes
/// do. The outcomes have no order.
pub fn run(jobs: Vec<Job<'_>>, count: usize, first: impl FnOnce() -> Vec<Outcome> + Send) -> Vec<Outcome> {
    let (waiting, outcomes) = (Mutex::new(jobs.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let keep = |come: Vec<Outcome>| outcomes.lock().unwrap_or_else(PoisonError::into_inner).extend(come);
    let take_jobs = || {
        while let Some(job) = next() {
            keep(vec![measured(&job.name, job.run)]);
        }
    };
    std::thread::scope(|scope| {
        (0..count).for_each(|_| _ = scope.spawn(take_jobs));
        keep(first());
        take_jobs();
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one job, turns an error into a failure, and prints the outcome.
pub fn measured(name: &str, run: impl FnOnce() -> JobResult) -> Outcome {
    let start = Instant::now();
    let (counts, figures) = run().unwrap_or_else(|error| {
        println!("  {name} could not run: {error}");
        (Counts::ONE_FAILED, Vec::new())
    });
    let elapsed = start.elapsed();
    let verdict = if counts.failed > 0 { "FAILED" } else { "ok" };
    println!("{verdict:6} {name}: {counts}, {}", clock(elapsed));
    Outcome { name: name.to_owned(), elapsed, counts, figures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_one_job_is_a_failure_and_the_other_jobs_run() {
        let fails = || Job::new("broken", || Err(io::Error::other("no cargo")));
        let passes = || Job::new("whole", || Ok((Counts::ONE_PASSED, Vec::new())));
        let before = || vec![measured("before", || Ok((Counts::ONE_PASSED, Vec::new())))];
        for count in 0..3 {
            let jobs = vec![fails(), passes()];
            let mut outcomes = run(jobs, count, before);
            outcomes.sort_by(|one, other| one.name.cmp(&other.name));
            let counts: Vec<Counts> = outcomes.iter().map(|outcome| outcome.counts).collect();
            assert_eq!(counts, [Counts::ONE_PASSED, Counts::ONE_FAILED, Counts::ONE_PASSED], "{count} lanes");
        }
    }
}
