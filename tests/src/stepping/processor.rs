//! Puts a child and its tracer on one processor. Waking another processor for each step would take many times as long
//! as the step.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Runs `work` on one processor. The thread `other`, if there is one, and the children that `work` starts run on the
/// same processor.
///
/// # Panics
/// If the kernel does not say which processors there are.
pub fn on_one_processor<R>(other: Option<Pid>, work: impl FnOnce() -> R) -> R {
    let here = Pid::from_raw(0);
    let all = sched_getaffinity(here).expect("a thread may ask for its processors");
    let is_ours = |nth: &usize| all.is_set(*nth).unwrap_or(false);
    let ours: Vec<usize> = (0..CpuSet::count()).filter(is_ours).collect();
    let mine = least_busy(&ours);
    let mut one = CpuSet::new();
    one.set(mine).expect("the processor is in the set");
    sched_setaffinity(here, &one).expect("the processor is one of this thread's");
    if let Some(other) = other {
        sched_setaffinity(other, &one).expect("the thread is of a child");
    }
    let result = work();
    sched_setaffinity(here, &all).expect("the processors are this thread's");
    busy()[mine] -= 1;
    result
}

/// Returns the number of pairs (a child and its tracer) on each processor. A pair whose test failed stays counted,
/// which does no harm: the suite has failed then.
fn busy() -> MutexGuard<'static, Vec<usize>> {
    static PAIRS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    PAIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the processor among `ours` with the fewest pairs, and counts one more pair on it.
fn least_busy(ours: &[usize]) -> usize {
    let mut busy = busy();
    busy.resize(CpuSet::count(), 0);
    let mine = *ours.iter().min_by_key(|&&nth| busy[nth]).expect("this thread runs on a processor");
    busy[mine] += 1;
    mine
}
