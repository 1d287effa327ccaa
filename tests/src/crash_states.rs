//! Crashes a workload at its I/Os, in every loss mode, and crashes some recoveries again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libtp_sim::{CrashImages, LossMode, Random, SimDisk};

use crate::crash_image::{judge, Judged, Sequel, Thoroughness};
use crate::library::Layout;
use crate::oracle::{Allowed, History};
use crate::sizes;
use crate::watchdog::{caught, Watchdog};
use crate::workload::Run;

/// Threads that judge states.
pub const THREADS: usize = 2;
/// Depth of nested crashes.
const DEPTH: usize = 3;
/// One of this number of states is crashed again inside its recovery.
const DEEP_EVERY: u64 = 10;

/// A state to try: the place of the crash, and its effect on unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashState {
    /// The number of changes before the crash.
    pub position: usize,
    /// The crash's effect on unsynced changes.
    pub mode: LossMode,
}

/// The result of judging states.
#[derive(Debug, Default)]
pub struct Explored {
    /// The number of judged states.
    pub states: u64,
    /// The number of these states whose crash was inside a recovery or in the work after it.
    pub deep: u64,
    /// The failures, each with the variables that repeat it.
    pub failures: Vec<String>,
}

/// Returns every state of the workload: at each I/O every mode, or one mode if all changes are synced.
///
/// At each I/O the list of modes begins with another mode, so a sample at equal steps has all modes.
pub fn all_states(walk: &mut CrashImages) -> Vec<CrashState> {
    let mut states = Vec::new();
    loop {
        let position = walk.position();
        let modes = if walk.unsynced() == 0 { 1 } else { LossMode::ALL.len() };
        states.extend((0..modes).map(|at| {
            let mode = if modes == 1 { LossMode::DropAll } else { LossMode::ALL[(at + 3 * position) % modes] };
            CrashState { position, mode }
        }));
        if walk.advance().is_none() {
            return states;
        }
    }
}

/// Returns `wanted` of the states, at equal steps.
pub fn sample(states: &[CrashState], wanted: u64) -> Vec<CrashState> {
    let all = states.len() as u64;
    let wanted = wanted.min(all);
    let is_taken = |at: u64| at * wanted / all != (at + 1) * wanted / all;
    states.iter().zip(0..).filter(|(_, at)| is_taken(*at)).map(|(state, _)| *state).collect()
}

/// Returns the variables that repeat one state.
pub fn replay(seed: u64, state: CrashState) -> String {
    format!("LIBTP_TEST_SEED={seed} LIBTP_TEST_INDEX={} LIBTP_TEST_MODE={:?}", state.position, state.mode)
}

/// Returns the loss mode that `name` names, in small or large letters.
pub fn mode_named(name: &str) -> Option<LossMode> {
    LossMode::ALL.into_iter().find(|mode| format!("{mode:?}").eq_ignore_ascii_case(name))
}

/// Judges the states of a workload, on [`THREADS`] threads.
pub fn explore(seed: u64, run: &Run, states: &[CrashState], watchdog: &Watchdog) -> Explored {
    let (done, deep) = (AtomicU64::new(0), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let walk = run.machine.disk.crash_images();
    let worker = |thread: usize| {
        let mut walk = walk.clone();
        loop {
            // Relaxed: a plain counter, which publishes nothing.
            let Some(state) = states.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            walk.advance_to(state.position);
            watchdog.begin(thread, replay(seed, *state));
            let explorer = Explorer { seed, layout: Layout::of_seed(seed), history: run.history_at(state.position) };
            let judged = caught(|| explorer.state(&walk, *state, states.len() == 1));
            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
            match judged {
                Ok(judged) => {
                    done.fetch_add(judged, Ordering::Relaxed);
                    deep.fetch_add(judged - 1, Ordering::Relaxed);
                }
                Err(what) => failures.push(format!("{}: {what}", replay(seed, *state))),
            }
            if failures.len() as u64 >= sizes::number("LIBTP_TEST_FAILURES", 3) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let worker = &worker;
            scope.spawn(move || worker(thread));
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    Explored { states: done.into_inner(), deep: deep.into_inner(), failures }
}

struct Explorer<'a> {
    seed: u64,
    layout: Layout,
    history: &'a History,
}

impl Explorer<'_> {
    /// Judges one state, and for some states crashes inside the recovery; returns the number of judged images.
    fn state(&self, walk: &CrashImages, state: CrashState, is_alone: bool) -> Result<u64, String> {
        let mode = LossMode::ALL.iter().position(|&mode| mode == state.mode).unwrap_or(0) as u64;
        let mut random = Random::new(self.seed << 32 ^ (state.position as u64) << 3 ^ mode);
        let allowed = self.history.allowed_at(state.position);
        let image = walk.image(state.mode, random.next_u64());
        let is_deep = random.chance(1, DEEP_EVERY) || is_alone;
        let lives_on = random.coin();
        let thoroughness = match (is_deep, lives_on) {
            (false, _) => Thoroughness::any(&mut random),
            (true, false) => Thoroughness::default(),
            (true, true) => Thoroughness::and_then(Sequel::LivesOn),
        };
        let judged = judge(&image, self.layout, self.history, allowed, thoroughness)?;
        if is_deep {
            return Ok(1 + self.deeper(image, allowed, judged, &mut random)?);
        }
        Ok(1)
    }

    /// Crashes the machine in the recovery of `image`, or in the work after that recovery. The image of each crash is
    /// recovered and crashed again, [`DEPTH`] times in all.
    fn deeper(
        &self,
        mut image: SimDisk,
        mut allowed: Allowed,
        judged: Judged,
        random: &mut Random,
    ) -> Result<u64, String> {
        let mut history = self.history.clone();
        let mut later = judged.later;
        let mut way = String::new();
        for depth in 1..=DEPTH {
            let mut walk = image.crash_images();
            let (position, mode) = (random.index(walk.end() + 1), LossMode::ALL[random.index(LossMode::ALL.len())]);
            walk.advance_to(position);
            way += &format!(", then at I/O {position} of the {} after that crash, {mode:?}", walk.end());
            if let Some(era) = later.take().filter(|era| era.from <= position) {
                allowed = era.history.allowed_at(position);
                history = era.history;
            }
            let next = walk.image(mode, random.next_u64());
            let sequel = match depth {
                DEPTH => Sequel::OrderlyEnd,
                _ if random.coin() => Sequel::LivesOn,
                _ => Sequel::None,
            };
            let judged = judge(&next, self.layout, &history, allowed, Thoroughness::and_then(sequel));
            later = judged.map_err(|what| format!("{what}{way}"))?.later;
            image = next;
        }
        Ok(DEPTH as u64)
    }
}
