//! Progress of long work, drawn on standard error when somebody looks at it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar that only spins is drawn.
const TICK: Duration = Duration::from_millis(200);

/// A bar for each step of some work, one after the other; the step's name is on it.
pub struct Steps {
    shown: bool,
    now: Option<(&'static str, Progress)>,
}

impl Steps {
    /// No step yet.
    pub fn new(shown: bool) -> Steps {
        Steps { shown, now: None }
    }

    /// Says how many bytes of a step are done.
    pub fn set(&mut self, what: &'static str, done: u64, total: u64) {
        if self.now.as_ref().is_none_or(|(shown_for, _)| *shown_for != what) {
            self.now = Some((what, Progress::bytes(self.shown, what, total)));
        }
        if let Some((_, bar)) = &self.now {
            bar.set(done);
        }
    }
}

/// A bar; invisible when nobody looks. It goes away when dropped.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// So many of something.
    pub fn count(shown: bool, what: &'static str, total: u64) -> Progress {
        Progress::styled(shown, what, Some(total), "{msg} {wide_bar} {human_pos} of {human_len} ({eta})")
    }

    /// So many bytes.
    pub fn bytes(shown: bool, what: &'static str, total: u64) -> Progress {
        Progress::styled(shown, what, Some(total), "{msg} {wide_bar} {bytes} of {total_bytes} ({eta})")
    }

    /// Nobody knows how many.
    pub fn endless(shown: bool, what: &'static str) -> Progress {
        Progress::styled(shown, what, None, "{spinner} {msg} {human_pos} in {elapsed}")
    }

    /// Time passes, and a message says what happens in it.
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

    /// Says how far the work is.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Says what happens.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Runs `write` while the bar is out of the way.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
