//! For arbitrary bytes from the disk, the library must return answers or errors, and must not panic.
//!
//! The inputs are the corpus, which has the starting inputs and libFuzzer's findings, and mutations of it. A seed
//! determines the mutations (`LIBTP_TEST_SEED`); their number is limited by time (`LIBTP_TEST_FUZZ_MILLIS` for each
//! target). `cargo xtask soak fuzz` runs libFuzzer on the same targets for longer.
#![allow(clippy::unwrap_used)] // the whole file is tests

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use libtp_fuzz::input::Random;
use libtp_fuzz::{corpus, Target, TARGETS};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs a target on an input; a panic becomes an error with its message.
fn judged((_, run): Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(input))).map_err(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        message.or_else(|| payload.downcast_ref::<&str>().map(|message| (*message).to_owned())).unwrap_or_default()
    })
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_input_of_the_corpus_is_answered() {
    let mut replayed = Vec::new();
    let mut wrong = Vec::new();
    for target in TARGETS {
        let inputs = corpus::read(target.0);
        replayed.push(format!("{} {}", target.0, inputs.len()));
        for (name, input) in inputs {
            if let Err(message) = judged(target, &input) {
                wrong.push(format!("corpus/{}/{name}: {message}", target.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{} inputs:\n{}", wrong.len(), wrong.join("\n"));
    println!("figures: corpus replayed: {}", replayed.join(", "));
}

#[test]
fn mutations_of_the_corpus_are_answered() {
    let limit = Duration::from_millis(number("LIBTP_TEST_FUZZ_MILLIS", 500));
    let seed = number("LIBTP_TEST_SEED", 1);
    let mut tried = Vec::new();
    for target in TARGETS {
        let inputs = corpus::read(target.0);
        let (start, mut count, mut slowest) = (Instant::now(), 0, (Duration::ZERO, 0));
        while start.elapsed() < limit {
            // Each input has a seed of its own, so that each finding can be repeated on any machine.
            let mut random = Random::new(seed.wrapping_mul(1 << 32).wrapping_add(count));
            let (one, other) = (random.below(inputs.len()), random.below(inputs.len()));
            let input = corpus::mutated(&inputs[one].1, &inputs[other].1, &mut random);
            let begun = Instant::now();
            let answer = judged(target, &input);
            slowest = slowest.max((begun.elapsed(), count));
            if let Err(message) = answer {
                let file = std::env::temp_dir().join(format!("libtp-fuzz-{}-{seed}-{count}", target.0));
                std::fs::write(&file, &input).unwrap();
                let (hex, name) = (in_hexadecimal(&input[..input.len().min(64)]), &inputs[one].0);
                panic!(
                    "{}: LIBTP_TEST_SEED={seed}, input {count}, of {name}, is in {} and begins {hex}: {message}",
                    target.0,
                    file.display()
                );
            }
            count += 1;
        }
        let (took, number) = slowest;
        tried.push(format!("{} {count} (the slowest, input {number}, in {} ms)", target.0, took.as_millis()));
    }
    println!("figures: mutated with seed {seed}: {}; 0 findings", tried.join(", "));
}

#[test]
fn mutations_depend_on_their_seed() {
    let make = || corpus::mutated(b"some bytes that are changed", b"other bytes", &mut Random::new(9));
    assert_eq!(make(), make());
    assert_ne!(make(), b"some bytes that are changed");
}
