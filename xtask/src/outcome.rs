//! The outcome of a suite: its counts, its time, its figures; and the table of all outcomes.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

/// Numbers of tests (or checks), by result.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Tests that ran and had the expected result.
    pub passed: u64,
    /// Tests that ran and had another result, or could not run.
    pub failed: u64,
    /// Tests that did not run.
    pub skipped: u64,
}

impl Counts {
    /// One check that passed.
    pub const ONE_PASSED: Counts = Counts { passed: 1, failed: 0, skipped: 0 };
    /// One check that failed.
    pub const ONE_FAILED: Counts = Counts { passed: 0, failed: 1, skipped: 0 };
    /// One check that could not be made here.
    pub const ONE_SKIPPED: Counts = Counts { passed: 0, failed: 0, skipped: 1 };
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The outcome of one suite.
pub struct Outcome {
    /// The suite's name.
    pub name: String,
    /// Wall time without the build of the test programs.
    pub elapsed: Duration,
    /// How its tests ended.
    pub counts: Counts,
    /// The texts that its tests printed after `figures: `.
    pub figures: Vec<String>,
}

impl Outcome {
    /// Returns 0 if no test failed, else 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.counts.failed > 0))
    }
}

/// Formats a time as minutes and seconds.
pub fn clock(elapsed: Duration) -> String {
    format!("{}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

/// Returns the final table with the total time, then the failures, and on the last line only the sums.
pub fn table(outcomes: &[Outcome], total: Duration, failures: &str) -> String {
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0).max("suite".len());
    let mut text = format!("{:width$} {:>7} {:>7} {:>7} {:>8}\n", "suite", "time", "passed", "failed", "skipped");
    let mut sums = Counts::default();
    for outcome in outcomes {
        let Counts { passed, failed, skipped } = outcome.counts;
        let time = clock(outcome.elapsed);
        text += &format!("{:width$} {time:>7} {passed:>7} {failed:>7} {skipped:>8}\n", outcome.name);
        for figures in &outcome.figures {
            text += &format!("{:width$}   {figures}\n", "");
        }
        sums += outcome.counts;
    }
    format!("{text}{:width$} {:>7}\n{failures}{sums}\n", "all", clock(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_with_the_sums_alone_on_a_line() {
        let outcomes = [
            Outcome {
                name: "fmt".into(),
                elapsed: Duration::from_secs(2),
                counts: Counts::ONE_PASSED,
                figures: Vec::new(),
            },
            Outcome {
                name: "crash".into(),
                elapsed: Duration::from_secs(125),
                counts: Counts { passed: 7, failed: 1, skipped: 2 },
                figures: vec!["20000 states, 0 lost".into()],
            },
        ];
        let text = table(&outcomes, Duration::from_secs(126), "failed in crash:\n");
        assert_eq!(text.lines().last(), Some("8 passed, 1 failed, 2 skipped"));
        assert!(text.contains("2:05") && text.contains("20000 states, 0 lost") && text.contains("2:06"));
    }
}
