//! Lets processes die in an operation, one after the other, at different moments.

use std::fmt;
use std::time::Instant;

use libtp_sim::Random;
use libtp_tests::watchdog::caught;

use crate::member::UNTRACED;
use crate::operations::Operation;
use crate::town::Town;

/// The largest number of deaths in one environment. Deaths add records by number, and each check reads all records.
const DEATHS_OF_ONE: u64 = 100;
/// The number of rounds in which repairers die. In each round the first process dies at another moment.
const ROUNDS: u64 = 3;

/// The events of a repair are divided into this number of equal parts. The first part has the physical half of the
/// repair.
const PHYSICAL: u64 = 10;

/// Which process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dies {
    /// The process that does the operation.
    AtWork,
    /// The process that does the operation, and then the process that repairs it.
    Repairing,
}

impl fmt::Display for Dies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dies::AtWork => "at work",
            Dies::Repairing => "repairing",
        })
    }
}

/// A plan of deaths in an operation.
pub struct Deaths {
    pub operation: Operation,
    pub dies: Dies,
    /// The number of deaths. Zero means one death before each event.
    pub each: u64,
    pub seed: u64,
    /// The number of failures after which the remaining deaths are left out.
    pub failures_max: usize,
}

/// The result of a plan.
pub struct Figures {
    operation: Operation,
    dies: Dies,
    /// The number of stores and system calls of the stepped part.
    pub events: u64,
    /// The number of processes that died.
    pub deaths: u64,
    pub failures: Vec<String>,
    /// Why no process can be stepped here.
    pub untried: Option<String>,
    seconds: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { operation, dies, events, deaths, failures, seconds, .. } = self;
        write!(f, "{operation:?}, {dies}: {events} stores and system calls, {deaths} deaths, ")?;
        write!(f, "{} failures, {seconds} s", failures.len())
    }
}

impl Deaths {
    /// Carries out the plan.
    pub fn run(&self) -> Figures {
        let start = Instant::now();
        let mut figures = Figures {
            operation: self.operation,
            dies: self.dies,
            events: 0,
            deaths: 0,
            failures: Vec::new(),
            untried: None,
            seconds: 0,
        };
        let mut random = Random::new(self.seed);
        match self.dies {
            Dies::AtWork => {
                self.of_series(&mut random, &mut figures, |town, at| town.dies(at).map(|death| death.events));
            }
            Dies::Repairing => {
                let events = self.events_of_the_operation(&mut figures).unwrap_or(0);
                let of_each = Deaths { each: self.each.div_ceil(ROUNDS), ..*self };
                for round in (0..ROUNDS).filter(|_| events > 0) {
                    let mut moments = Random::new(self.seed + round);
                    of_each.of_series(&mut random, &mut figures, |town, at| {
                        let first = moments.below(events);
                        let second = town.dies_repairing(first, at);
                        second.map(|death| death.events).map_err(|what| format!("first death at {first}: {what}"))
                    });
                }
            }
        }
        figures.seconds = start.elapsed().as_secs();
        figures
    }

    /// Lets a process die at the end of the operation. Returns the number of events of the operation.
    fn events_of_the_operation(&self, figures: &mut Figures) -> Option<u64> {
        let counted = caught(|| {
            let mut town = Town::new(self.operation, false)?;
            let events = town.dies(None)?.events;
            town.close()?;
            Ok(events)
        });
        self.take(counted, "at the end", figures)
    }

    /// Lets processes die before events of a part. The first process dies at the end of the part; its death gives the
    /// number of events.
    fn of_series(
        &self,
        random: &mut Random,
        figures: &mut Figures,
        mut dies: impl FnMut(&mut Town, Option<u64>) -> Result<u64, String>,
    ) {
        let mut town: Option<Town> = None;
        let mut try_one = |at: Option<u64>, what: &str, figures: &mut Figures| {
            let has_keeper = self.dies == Dies::AtWork && figures.deaths / DEATHS_OF_ONE % 2 == self.seed % 2;
            let deaths_of_town = figures.deaths % DEATHS_OF_ONE;
            let died = caught(|| {
                let mut here = match town.take() {
                    Some(town) if deaths_of_town != 0 => town,
                    old => {
                        old.map_or(Ok(()), Town::close)?;
                        Town::new(self.operation, has_keeper)?
                    }
                };
                let events = dies(&mut here, at)?;
                town = Some(here);
                Ok(events)
            });
            figures.deaths += if self.dies == Dies::AtWork { 1 } else { 2 };
            self.take(died, what, figures)
        };
        let Some(events) = try_one(None, "at the end", figures) else { return };
        figures.events += events;
        let count = if self.each == 0 { events } else { self.each.min(events) };
        let offset = random.below(events.max(1));
        for nth in 0..count {
            if figures.failures.len() >= self.failures_max {
                break;
            }
            // The deaths are spread evenly over the events, with another offset for each seed. The physical half of a
            // repair comes first and is short, so half of the deaths of a sample are placed there.
            let is_early = self.dies == Dies::Repairing && count < events && nth % 2 == 0;
            let among = if is_early { events.div_ceil(PHYSICAL) } else { events };
            let at = (offset + nth * events / count) % among;
            try_one(Some(at), &format!("before event {at} of {events}"), figures);
        }
        let closed = caught(|| town.take().map_or(Ok(()), Town::close));
        self.take(closed, "after all deaths", figures);
    }

    /// Returns the value of a result, or notes its failure.
    fn take<T>(&self, result: Result<T, String>, what: &str, figures: &mut Figures) -> Option<T> {
        let why = match result {
            Ok(value) => return Some(value),
            Err(why) => why,
        };
        if let Some((_, why)) = why.split_once(UNTRACED) {
            figures.untried = Some(format!("{UNTRACED}{why}"));
        } else {
            let failure = format!("seed {}, {:?}, {}, {what}: {why}", self.seed, self.operation, self.dies);
            println!("FAILED: {failure}");
            figures.failures.push(failure);
        }
        None
    }
}
