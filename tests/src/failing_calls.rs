//! A workload of which one call fails, judged in three ways (RELIABILITY R4).
//!
//! Live: what can still be read is right, and after a failed sync nothing more is acknowledged. After a power cut. And
//! opened again by new processes on the mended disk, with the memory the old ones left.

use libtp_sim::{Calls, Fault, LossMode, Random, Repeat};

use crate::crash_image::{judge, judge_machine, Sequel, Thoroughness};
use crate::library::Layout;
use crate::watchdog::caught;
use crate::workload::{self, Plan};

/// Every kind of failure.
pub const KINDS: [(Fault, Repeat); 6] = [
    (Fault::Eio, Repeat::Once),
    (Fault::Eio, Repeat::Forever),
    (Fault::Enospc, Repeat::Once),
    (Fault::Enospc, Repeat::Forever),
    (Fault::ShortWrite, Repeat::Once),
    (Fault::ShortWrite, Repeat::Forever),
];

/// One call that fails, in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingCall {
    /// The call's number.
    pub call: u64,
    /// Which of [`KINDS`].
    pub kind: usize,
}

impl FailingCall {
    /// The variables that repeat it.
    pub fn replay(self, seed: u64) -> String {
        format!("LIBTP_TEST_SEED={seed} LIBTP_TEST_CALL={} LIBTP_TEST_FAULT={}", self.call, self.kind)
    }
}

/// The workload: short, because every call of it is to fail.
pub fn plan(seed: u64) -> Plan {
    Plan { seed, transactions: 40, has_faults: true }
}

/// How many calls the workload makes when none fails.
///
/// # Errors
/// It does not run.
pub fn count_calls(seed: u64) -> Result<u64, String> {
    let run = caught(|| workload::run(plan(seed), |_| {}))?;
    Ok(run.machine.disk.calls(&Calls::Any))
}

/// So many of all failing calls, at equal steps; the kinds take turns.
pub fn sample(calls: u64, wanted: u64) -> Vec<FailingCall> {
    let kinds = KINDS.len() as u64;
    let all = calls * kinds;
    let wanted = wanted.min(all);
    let is_taken = |at: &u64| at * wanted / all != (at + 1) * wanted / all;
    let one = |at: u64| {
        let call = at / kinds;
        FailingCall { call, kind: usize::try_from((at + call) % kinds).unwrap_or(0) }
    };
    (0..all).filter(is_taken).map(one).collect()
}

/// Runs the workload with this call failing, and judges what is left.
///
/// # Errors
/// What is wrong.
pub fn judge_failing_call(seed: u64, failing: FailingCall) -> Result<(), String> {
    let (fault, repeat) = KINDS[failing.kind];
    let run = workload::run(plan(seed), |disk| disk.fail_call(Calls::Any, failing.call, fault, repeat))?;
    let disk = &run.machine.disk;
    let mut random = Random::new(seed ^ failing.call << 8);
    let layout = Layout::of_seed(seed);
    let history = run.history();
    let allowed = history.allowed_at(disk.io_index());
    for mode in [LossMode::DropAll, LossMode::Torn512] {
        let image = disk.crash_image(mode, random.next_u64());
        judge(&image, layout, history, allowed, Thoroughness::default())
            .map_err(|what| format!("after a power cut ({mode:?}): {what}"))?;
    }
    disk.clear_faults();
    let thoroughness = Thoroughness { reads_back: true, sequel: Sequel::OrderlyEnd };
    judge_machine(&run.machine, history, run.allowed_at_end(), thoroughness)
        .map_err(|what| format!("opened again on the mended disk: {what}"))?;
    Ok(())
}
