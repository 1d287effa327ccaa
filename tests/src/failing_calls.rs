//! Runs a workload with one failing call, and judges the result in three ways.
//!
//! First, while the processes live: records that can still be read are right, and after a failed sync no more commits
//! are acknowledged. Second, after power cuts at several times. Third, when all calls of the disk succeed again, and
//! new processes open the environment with the memory that the old processes left.

use std::collections::BTreeSet;

use libtp_io::Operation;
use libtp_sim::{Calls, Change, Fault, LossMode, Random, Repeat, TraceEntry};

use crate::crash_image::{judge, judge_machine, Sequel, Thoroughness};
use crate::library::Layout;
use crate::watchdog::caught;
use crate::workload::{self, Plan, Run};

/// The end of the names of database files.
const DATABASE_END: &str = ".tp";

/// Every kind of failure.
pub const KINDS: [(Fault, Repeat); 6] = [
    (Fault::Eio, Repeat::Once),
    (Fault::Eio, Repeat::Forever),
    (Fault::Enospc, Repeat::Once),
    (Fault::Enospc, Repeat::Forever),
    (Fault::ShortWrite, Repeat::Once),
    (Fault::ShortWrite, Repeat::Forever),
];

/// A class of calls. The calls of one class are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// All calls that can fail.
    Any,
    /// Syncs of files.
    Syncs,
    /// Syncs of directories.
    DirectorySyncs,
    /// Writes of database files.
    PageWrites,
}

impl CallClass {
    fn calls(self) -> Calls {
        match self {
            CallClass::Any => Calls::Any,
            CallClass::Syncs => Calls::Of(Operation::Sync),
            CallClass::DirectorySyncs => Calls::Of(Operation::SyncDirectory),
            CallClass::PageWrites => Calls::On(Operation::Write, DATABASE_END.into()),
        }
    }

    /// Returns the class of that name.
    pub fn named(name: &str) -> Option<CallClass> {
        [CallClass::Any, CallClass::Syncs, CallClass::DirectorySyncs, CallClass::PageWrites]
            .into_iter()
            .find(|class| format!("{class:?}") == name)
    }
}

/// One failing call, and how it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingCall {
    /// The class of calls.
    pub class: CallClass,
    /// The call's number in its class.
    pub call: u64,
    /// An index into [`KINDS`].
    pub kind: usize,
}

impl FailingCall {
    /// Returns the variables that repeat this failure.
    pub fn replay(self, seed: u64) -> String {
        let FailingCall { class, call, kind } = self;
        format!("LIBTP_TEST_SEED={seed} LIBTP_TEST_CALL={call} LIBTP_TEST_FAULT={kind} LIBTP_TEST_WHICH={class:?}")
    }
}

/// The number of power cuts soon after the fault. "Soon" is within [`SOON`] changes of the disk.
const CUTS_SOON: usize = 4;
const SOON: usize = 60;

/// Returns the workload. It is short, because it runs once for each call that fails.
pub fn plan(seed: u64) -> Plan {
    Plan { seed, transactions: 40, has_faults: true }
}

/// Counts the calls of a class that the workload makes when no call fails.
///
/// # Errors
/// The workload does not run.
pub fn count_calls(seed: u64, class: CallClass) -> Result<u64, String> {
    let run = caught(|| workload::run(plan(seed), |_| {}))?;
    Ok(match class {
        CallClass::Any | CallClass::Syncs | CallClass::DirectorySyncs => run.machine.disk.calls(&class.calls()),
        CallClass::PageWrites => page_writes(&run.machine.disk.trace()),
    })
}

/// Counts the writes of database files, including files that got a database's name by a renaming.
fn page_writes(trace: &[TraceEntry]) -> u64 {
    let mut files = BTreeSet::new();
    let mut count = 0;
    for entry in trace {
        match &entry.change {
            Change::CreateFile { name, file: node, .. } | Change::Rename { to: name, node, .. }
                if name.ends_with(DATABASE_END) =>
            {
                files.insert(*node);
            }
            Change::Write { file, .. } if files.contains(file) => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns `wanted` of all failing calls, at equal steps. The kinds of failure alternate.
pub fn sample(class: CallClass, calls: u64, wanted: u64) -> Vec<FailingCall> {
    let kinds = KINDS.len() as u64;
    let all = calls * kinds;
    let wanted = wanted.min(all);
    let is_taken = |at: &u64| at * wanted / all != (at + 1) * wanted / all;
    let one = |at: u64| {
        let call = at / kinds;
        FailingCall { class, call, kind: usize::try_from((at + call) % kinds).unwrap_or(0) }
    };
    (0..all).filter(is_taken).map(one).collect()
}

/// Runs the workload with this failing call, and judges the result.
///
/// # Errors
/// Describes the fault.
pub fn judge_failing_call(seed: u64, failing: FailingCall) -> Result<(), String> {
    let (fault, repeat) = KINDS[failing.kind];
    let run = workload::run(plan(seed), |disk| disk.fail_call(failing.class.calls(), failing.call, fault, repeat))?;
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
    let mut walk = disk.crash_images();
    for position in positions_after(&run, &mut random) {
        walk.advance_to(position);
        let (mode, earlier) = (LossMode::ALL[random.index(LossMode::ALL.len())], run.history_at(position));
        let image = walk.image(mode, random.next_u64());
        judge(&image, layout, earlier, earlier.allowed_at(position), Thoroughness::default())
            .map_err(|what| format!("after a power cut at {position} ({mode:?}): {what}"))?;
    }
    disk.clear_faults();
    let thoroughness = Thoroughness { reads_back: true, looks_up: true, sequel: Sequel::OrderlyEnd };
    judge_machine(&run.machine, history, run.allowed_at_end(), thoroughness)
        .map_err(|what| format!("opened again on the disk without faults: {what}"))?;
    Ok(())
}

/// Returns positions for power cuts: some are soon after the fault, when work may be half done, and one is anywhere.
fn positions_after(run: &Run, random: &mut Random) -> Vec<usize> {
    let end = run.machine.disk.io_index();
    let strike = run.machine.disk.first_strike().unwrap_or(end);
    let soon = (end - strike).min(SOON) + 1;
    let mut positions: Vec<usize> = (0..CUTS_SOON).map(|_| strike + random.index(soon)).collect();
    positions.push(random.index(end + 1));
    positions.sort_unstable();
    positions
}
