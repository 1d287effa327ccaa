//! Engines measured in turns, a slice each, so that a drifting machine treats them alike.
//!
//! The development machine's disk changes its speed tenfold within an hour, and other people's work comes and goes: two
//! figures compare only if both are from the same minutes. A [`Turns`] is used like [`crate::BareDisk`]: run a slice,
//! then another contender's slice, then report.

use std::time::Duration;

use crate::engine::Engine;
use crate::error::Result;
use crate::report::{sent, ClientReport, ClientsAs, Report, RunSettings};
use crate::run::{all_threads, check, Before, Progress};

/// The warm-up of a slice after the first: it evicts the other contenders' data from the caches.
const WARMUP_AGAIN: Duration = Duration::from_millis(50);

/// One engine's run, paused between slices.
pub struct Turns<'a> {
    engine: &'a dyn Engine,
    settings: RunSettings,
    before: Before,
    next_client: u32,
    clients: Vec<ClientReport>,
}

impl<'a> Turns<'a> {
    /// Inspects the bank; no client runs yet. `measured` of the settings is not used.
    ///
    /// # Errors
    /// `Settings` if they ask for nothing; the engine's error.
    pub fn new(engine: &'a dyn Engine, settings: &RunSettings) -> Result<Turns<'a>> {
        check(settings)?;
        let before = Before::look(engine)?;
        let (settings, next_client) = (settings.clone(), before.history.first_client);
        Ok(Turns { engine, settings, before, next_client, clients: Vec::new() })
    }

    /// Leaves the next `count` client numbers to another run on the same bank at the same time, so that the transfers'
    /// ids stay unique.
    #[must_use]
    pub fn leaving_clients(mut self, count: u32) -> Turns<'a> {
        self.next_client += count;
        self
    }

    /// Runs all clients, as threads, for this long.
    ///
    /// # Errors
    /// The first client's error.
    pub fn run_for(&mut self, time: Duration, progress: &mut dyn FnMut(&Progress)) -> Result<()> {
        self.settings.measured = time;
        let slice = all_threads(self.engine, &self.settings, self.next_client, progress)?;
        // Every slice has its own client numbers, so that transfers' ids never repeat.
        self.next_client += self.settings.clients;
        self.settings.warmup = self.settings.warmup.min(WARMUP_AGAIN);
        if self.clients.is_empty() {
            self.clients = slice;
            return Ok(());
        }
        self.clients.iter_mut().zip(&slice).for_each(|(client, more)| client.extend(more));
        Ok(())
    }

    /// Returns the number of transfers that it has written into the bank so far.
    pub fn written(&self) -> u64 {
        if self.settings.read_only {
            return 0;
        }
        sent(&self.clients)
    }

    /// Audits the bank and reports all slices as one run.
    ///
    /// # Errors
    /// The engine's error, if the bank could not be read. The report states whether it adds up.
    pub fn report(&self) -> Result<Report> {
        self.report_beside(0)
    }

    /// Does the same if other runs have [written](Turns::written) `by_others` transfers into the same bank since this
    /// was made.
    ///
    /// # Errors
    /// As [`Turns::report`].
    pub fn report_beside(&self, by_others: u64) -> Result<Report> {
        self.before.report(self.engine, &self.settings, ClientsAs::Threads, &self.clients, by_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_in_memory::{InMemory, MapKind};
    use crate::tpcb::Scale;

    #[test]
    fn two_banks_in_turns_report_all_their_slices_and_add_up() {
        let banks = [InMemory::new(MapKind::Hash), InMemory::new(MapKind::Tree)];
        banks.iter().for_each(|bank| bank.load(&Scale::SMALL, &mut |_| {}).unwrap());
        let settings =
            RunSettings { scale: Scale::SMALL, clients: 2, warmup: Duration::from_millis(5), ..RunSettings::default() };
        let mut turns = banks.each_ref().map(|bank| Turns::new(bank, &settings).unwrap());
        for _ in 0..3 {
            for turn in &mut turns {
                turn.run_for(Duration::from_millis(20), &mut |_| {}).unwrap();
            }
        }
        for turn in &turns {
            let report = turn.report().unwrap();
            assert_eq!(report.audit, "ok");
            assert_eq!(report.clients, 2);
            assert!((0.06..10.0).contains(&report.seconds), "{} s", report.seconds);
        }
    }

    #[test]
    fn two_turns_in_one_bank_are_audited_against_what_both_have_written() {
        let bank = InMemory::new(MapKind::Hash);
        bank.load(&Scale::SMALL, &mut |_| {}).unwrap();
        let settings = |clients| RunSettings {
            scale: Scale::SMALL,
            clients,
            warmup: Duration::from_millis(2),
            ..RunSettings::default()
        };
        let (one, two) = (settings(1), settings(2));
        let mut turns = [Turns::new(&bank, &one).unwrap(), Turns::new(&bank, &two).unwrap().leaving_clients(100)];
        turns.iter_mut().for_each(|turn| turn.run_for(Duration::from_millis(10), &mut |_| {}).unwrap());
        let [one, two] = turns;
        assert_eq!(one.report_beside(two.written()).unwrap().audit, "ok");
        assert_eq!(two.report_beside(one.written()).unwrap().audit, "ok");
        assert!(one.report_beside(two.written() + 1).unwrap().audit.contains("were acknowledged"));
        assert!(!one.report().unwrap().audit_is_ok(), "the other's transfers are too many");
    }
}
