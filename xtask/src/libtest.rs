//! Reads libtest's output: how many tests passed, failed and were ignored, the figures that suites report, and the
//! messages of failed tests.
//!
//! A test that has figures worth keeping (states tried, records lost) prints one line that starts with `figures: `.

use crate::child::HUNG;
use crate::outcome::Counts;

const RESULT: &str = "test result: ";
const FIGURES: &str = "figures: ";
const FAILED: &str = " ... FAILED";
const PANICKED: &str = " panicked at ";
const SLOW: &str = " has been running for over ";
/// Largest number of shown lines of a message, which may be a long table of locks. The log has all lines.
const MESSAGE_LINES: usize = 12;
/// The beginning of lines that only help a reader of the log.
const BACKTRACE: [&str; 2] = ["stack backtrace:", "note: run with `RUST_BACKTRACE"];

/// Sums every `test result:` line of a run.
pub fn counts(output: &str) -> Counts {
    let mut sums = Counts::default();
    for line in output.lines() {
        // With --nocapture a test's own unfinished line may precede libtest's text.
        let Some(at) = line.find(RESULT) else {
            continue;
        };
        for part in line[at + RESULT.len()..].split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => sums.passed += number,
                "failed" => sums.failed += number,
                "ignored" => sums.skipped += number,
                _ => {}
            }
        }
    }
    sums
}

/// Returns the texts that tests printed after `figures: `, in order.
pub fn figures(output: &str) -> Vec<String> {
    let after = |line: &str| line.find(FIGURES).map(|at| line[at + FIGURES.len()..].trim().to_owned());
    output.lines().filter_map(after).collect()
}

/// Returns, for each failed test, its name and the first lines of its panic message. A thread has the name of its test.
pub fn failures(output: &str) -> Vec<String> {
    let names = output.lines().filter_map(|line| line.strip_suffix(FAILED)).filter_map(|line| line.rsplit(' ').next());
    let mut said: Vec<String> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        said.push(format!("{name}:"));
        let thread = format!("thread '{name}'");
        let message = output
            .lines()
            .skip_while(|line| !(line.contains(&thread) && line.contains(PANICKED)))
            .take_while(|line| !BACKTRACE.iter().any(|end| line.starts_with(end)))
            .take(MESSAGE_LINES);
        said.extend(message.map(|line| format!("  {line}")));
    }
    said.extend(hung(output));
    said
}

/// Returns the facts about commands that hung: each command, its threads, and the tests that had not ended after a
/// minute.
fn hung(output: &str) -> impl Iterator<Item = String> + use<'_> {
    let is_hung = output.lines().any(|line| line.starts_with(HUNG));
    let has_ended =
        |slow: &str| output.lines().any(|line| line.strip_prefix(slow).is_some_and(|end| end.starts_with(" ... ")));
    let tells =
        move |line: &&str| line.starts_with(HUNG) || line.split_once(SLOW).is_some_and(|(test, _)| !has_ended(test));
    output.lines().filter(move |_| is_hung).filter(tells).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a ... ok
test b ... figures: 200 states, 0 lost
ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";

    #[test]
    fn every_result_line_of_a_run_is_summed() {
        assert_eq!(counts(OUTPUT), Counts { passed: 3, failed: 2, skipped: 1 });
    }

    #[test]
    fn output_without_a_result_line_counts_nothing() {
        assert_eq!(counts("error: could not compile `rio`\n"), Counts::default());
    }

    #[test]
    fn a_failed_test_is_shown_with_its_message_and_without_the_backtrace() {
        let output = "\
thread 'child' (7) panicked at a.rs:1:1:
another's
thread 'b::c' (8) panicked at b.rs:2:2:
process 3 does not leave
stack backtrace:
   0: rust_begin_unwind
test b::c ... FAILED
test d ... ok
failures:
    b::c
";
        let said = failures(output);
        assert_eq!(said, ["b::c:", "  thread 'b::c' (8) panicked at b.rs:2:2:", "  process 3 does not leave"]);
    }

    #[test]
    fn a_hung_program_is_shown_with_its_unfinished_tests() {
        let output = "\
test a has been running for over 60 seconds
test b has been running for over 60 seconds
test a ... ok
hung: target/full still runs after 10:00 and is ended
";
        let told =
            ["test b has been running for over 60 seconds", "hung: target/full still runs after 10:00 and is ended"];
        assert_eq!(failures(output), told);
        assert!(failures("test a has been running for over 60 seconds\n").is_empty(), "the test did not hang");
    }

    #[test]
    fn figures_are_found_after_an_unfinished_line() {
        assert_eq!(figures(OUTPUT), ["200 states, 0 lost"]);
    }
}
