//! Whichever byte of any file is damaged, no read may silently return wrong data.
//!
//! `LIBTP_TEST_FLIPS` is the number of damages, `LIBTP_TEST_SEED` the first seed; `LIBTP_TEST_INDEX` and
//! `LIBTP_TEST_FLIP` repeat one damage.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use libtp_sim::Random;
use libtp_tests::crash_states::THREADS;
use libtp_tests::damage::{plan, DamagedImage, Effect, IMAGES};
use libtp_tests::sizes;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::workload::{self, Run};

const FLIPS_OF_SEED: u64 = 1_000;

#[derive(Default)]
struct Verdicts {
    effects: BTreeMap<Effect, u64>,
    wrong: Vec<String>,
}

#[test]
fn damage_is_never_silent() {
    let watchdog = Watchdog::start(THREADS);
    let (first, wanted, start) = (sizes::first_seed(), sizes::flips(), Instant::now());
    let seeds = wanted.div_ceil(FLIPS_OF_SEED);
    let verdicts = Mutex::new(Verdicts::default());
    for seed in first..first + seeds {
        watchdog.begin(0, format!("LIBTP_TEST_SEED={seed}, the workload itself"));
        let run = caught(|| workload::run(plan(seed), |_| {}))
            .unwrap_or_else(|what| panic!("LIBTP_TEST_SEED={seed}: {what}"));
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (run, next, verdicts, watchdog) = (&run, &next, &verdicts, &watchdog);
                scope.spawn(move || {
                    // Relaxed: a plain counter, which publishes nothing.
                    while let Some(patient) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < IMAGES) {
                        damage_image(seed, run, patient, wanted / seeds / IMAGES as u64, verdicts, &|what| {
                            watchdog.begin(thread, what)
                        });
                    }
                });
            }
        });
    }
    let Verdicts { effects, wrong } = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let count = |effect| effects.get(&effect).copied().unwrap_or(0);
    println!(
        "figures: {} damages of {seeds} seeds: {} refused at opening, {} named by reads, {} without effect, {} stale data pages \
         taken for right; {} silent; {:.0} s",
        effects.values().sum::<u64>() + wrong.len() as u64,
        count(Effect::Refused),
        count(Effect::ReadsFailed),
        count(Effect::None),
        count(Effect::StalePage),
        wrong.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        count(Effect::Refused) > 0 && count(Effect::ReadsFailed) > 0,
        "no damage was noticed at an opening or at reads, so the test shows nothing"
    );
}

/// Damages one image `flips` times, each time in another way.
fn damage_image(seed: u64, run: &Run, patient: usize, flips: u64, verdicts: &Mutex<Verdicts>, begin: &dyn Fn(String)) {
    if sizes::chosen("LIBTP_TEST_INDEX").is_some_and(|index: usize| index != patient) {
        return;
    }
    let image = DamagedImage::of_run(seed, run, patient);
    for flip in 0..flips.max(1) {
        if sizes::chosen("LIBTP_TEST_FLIP").is_some_and(|chosen: u64| chosen != flip) {
            continue;
        }
        let damage = image.any_damage(&mut Random::new(seed << 40 ^ (patient as u64) << 32 ^ flip));
        let replay = format!("LIBTP_TEST_SEED={seed} LIBTP_TEST_INDEX={patient} LIBTP_TEST_FLIP={flip}");
        begin(replay.clone());
        let suffered = caught(|| image.open_and_read(&damage));
        let mut verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        match suffered {
            Ok(effect) => *verdicts.effects.entry(effect).or_default() += 1,
            Err(what) => verdicts.wrong.push(format!("{replay} ({damage}): {what}")),
        }
    }
}
