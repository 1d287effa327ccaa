//! Progress of long work, drawn on standard error if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval between two redraws of a counter without a total.
const TICK: Duration = Duration::from_millis(200);

/// The progress of work in several steps: one bar at a time, with the name of the present step.
pub struct Steps {
    shown: bool,
    now: Option<(&'static str, Progress)>,
}

impl Steps {
    /// Makes the progress of work whose first step has not begun. Bars are drawn only if `shown`.
    pub fn new(shown: bool) -> Steps {
        Steps { shown, now: None }
    }

    /// Shows that `done` of `total` bytes of the step `what` are done.
    pub fn set(&mut self, what: &'static str, done: u64, total: u64) {
        if self.now.as_ref().is_none_or(|(shown_for, _)| *shown_for != what) {
            self.now = Some((what, Progress::bytes(self.shown, what, total)));
        }
        if let Some((_, bar)) = &self.now {
            bar.set(done);
        }
    }
}

/// A progress bar, drawn only if `shown`. Dropping the value removes the bar from the screen.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Makes a bar that counts to `total`.
    pub fn count(shown: bool, what: &'static str, total: u64) -> Progress {
        Progress::styled(shown, what, Some(total), "{msg} {wide_bar} {human_pos} of {human_len} ({eta})")
    }

    /// Makes a bar that counts bytes to `total`.
    pub fn bytes(shown: bool, what: &'static str, total: u64) -> Progress {
        Progress::styled(shown, what, Some(total), "{msg} {wide_bar} {bytes} of {total_bytes} ({eta})")
    }

    /// Makes a counter without a total.
    pub fn endless(shown: bool, what: &'static str) -> Progress {
        Progress::styled(shown, what, None, "{spinner} {msg} {human_pos} in {elapsed}")
    }

    /// Makes a bar that shows the elapsed part of the time `total`, in milliseconds, and a message.
    pub fn clock(shown: bool, total: Duration) -> Progress {
        let millis = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
        Progress::styled(shown, "", Some(millis), "{elapsed} {bar:24} {wide_msg}")
    }

    fn styled(shown: bool, what: &'static str, total: Option<u64>, template: &str) -> Progress {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are well-formed"));
        bar.set_message(what);
        if shown && total.is_none() {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar }
    }

    /// Sets how much work is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Sets the message.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Removes the bar from the screen, runs `write`, and draws the bar again.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
