//! The figures of the report.

use std::time::Duration;

use crate::town::Scenario;

/// The figures of the report.
#[derive(Default)]
pub struct Figures {
    /// The number of processes that died at a failpoint.
    pub deaths: u64,
    /// The time from each death until no session was dead any more.
    pub repairs: Vec<Duration>,
    /// The times that the library measured from the detection of a death on.
    pub own: libtp::RepairTimes,
}

impl Figures {
    /// Describes how long repairs took.
    pub fn repairs(&self) -> String {
        let mut times = self.repairs.clone();
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        let text = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
        let (half, most, longest) = (text(at(50)), text(at(99)), text(times.last()));
        let own = |times: &libtp::Times| {
            let millis = |time: Duration| time.as_secs_f64() * 1000.0;
            let (half, most) = (millis(times.percentile(50)), millis(times.percentile(99)));
            format!("p50 {half:.2} ms, p99 {most:.2} ms, max {:.2} ms of {}", millis(times.max()), times.count())
        };
        format!(
            "from a death to the end of the repair, seen from outside: p50 {half:.1} ms, p99 {most:.1} ms, \
             max {longest:.1} ms; from the detection of a death to the end of a session's repair: {}; \
             its physical half: {}",
            own(&self.own.total),
            own(&self.own.physical)
        )
    }

    /// Adds the times that the library measured. The town must still be open.
    pub fn count(&mut self, town: &mut Scenario) {
        self.own.add(&town.observe().repair_times());
    }
}
