//! The work of a demonstration: runs the processes, kills and replaces a process from time to time, and shows the
//! progress.

use std::path::Path;
use std::time::{Duration, Instant};

use libtp::{Env, Repairs, Settings};
use libtp_bank::{Scale, Transfers};
use serde::Serialize;

use crate::acknowledgements::{Acknowledged, Acknowledgement};
use crate::demo_crew::Workers;
use crate::demo_worker;
use crate::failure::Result;
use crate::live_rate::{LiveRate, Rates, Second};
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::grouped;
use crate::stalls::{StallReport, Stalls};
use libtp_bank::clock;

/// The time between two checks of the clock.
const TICK: Duration = Duration::from_millis(20);

/// Settings of a demonstration.
pub struct Plan<'p> {
    /// The bank's directory.
    pub path: &'p Path,
    /// The bank's size.
    pub scale: Scale,
    /// The number of processes at work.
    pub processes: usize,
    /// Time between two kills; no kills if it is zero.
    pub kill_every: Duration,
    /// Length of the work, from the first commit on.
    pub time: Duration,
    /// The first client number that was never used.
    pub first_client: u32,
    /// Decides the random choice of transfers and of processes to kill.
    pub seed: u64,
}

/// Result of the work.
pub struct Business {
    /// Everything that was acknowledged.
    pub acknowledged: Acknowledged,
    /// Throughput and latency.
    pub rates: Rates,
    /// Time from the first commit to the last.
    pub time: Duration,
    /// The number of processes killed while others continued.
    pub kills: usize,
    /// The time that other processes stood still after the kills.
    pub stalls: StallReport,
    /// The repairs during the work.
    pub repairs: Repairs,
}

/// Report of one second.
#[derive(Serialize)]
struct Summary<'t> {
    #[serde(flatten)]
    second: &'t Second,
    kills: usize,
    repairs: u64,
    stall_max_ms: f64,
}

/// The work in progress.
struct Running {
    acknowledged: Acknowledged,
    stalls: Stalls,
    /// `None` before the first acknowledgement: the opening of the bank is not part of the work.
    live: Option<(Instant, LiveRate)>,
    last: Instant,
}

impl Running {
    fn note(&mut self, client: u32, told: &Acknowledgement) {
        self.last = Instant::now();
        self.acknowledged.note(told);
        self.stalls.committed(client, told.at_nanos);
        let last = self.last;
        self.live.get_or_insert_with(|| (last, LiveRate::begin(last))).1.note(told);
    }
}

/// Lets the processes work, kills one of them from time to time, and kills all of them at the end.
pub fn run(plan: &Plan<'_>, output: &mut Output) -> Result<Business> {
    let Scale { accounts, tellers, branches } = plan.scale;
    let (env, seed, client) = (plan.path.to_path_buf(), plan.seed, plan.first_client);
    let durability = demo_worker::durability_of(0);
    let words = demo_worker::Arguments { env, accounts, tellers, branches, seed, client, durability };
    let mut crew = Workers::start(words, plan.processes)?;
    let bar = Progress::clock(output.may_draw(), plan.time);
    let mut running =
        Running { acknowledged: Acknowledged::default(), stalls: Stalls::default(), live: None, last: Instant::now() };
    while running.live.is_none() {
        crew.hear(TICK, &mut |client, told| running.note(client, told))?;
    }
    // Processes are at work, so this process joins them by opening the bank. This process only reads figures.
    let settings = Settings { no_background: true, ..Settings::default() };
    let watcher = Env::builder().create(false).settings(settings).open(plan.path)?;
    let mut victims = Victims::new(plan);
    let begin = Instant::now();
    let mut next_kill = begin + plan.kill_every;
    while begin.elapsed() < plan.time {
        crew.hear(TICK, &mut |client, told| running.note(client, told))?;
        if !plan.kill_every.is_zero() && Instant::now() >= next_kill {
            next_kill += plan.kill_every;
            let killed = crew.replace(victims.choose())?;
            running.stalls.killed(killed.victim, killed.at, killed.survivors);
        }
        show(&mut running, watcher.repairs(), false, &bar, output)?;
    }
    let repairs = watcher.repairs();
    // The watcher must not outlive the other processes: the next open is a recovery only if no process is left.
    drop(watcher);
    let end = clock::now_nanos();
    crew.kill_all(&mut |client, told| running.note(client, told))?;
    show(&mut running, repairs, true, &bar, output)?;
    Ok(running.finish(end, repairs))
}

impl Running {
    fn finish(self, end: u64, repairs: Repairs) -> Business {
        let (begin, live) = self.live.expect("the business began with a commit");
        Business {
            acknowledged: self.acknowledged,
            rates: live.finish(self.last),
            time: self.last - begin,
            kills: self.stalls.kills(),
            stalls: self.stalls.finish(end),
            repairs,
        }
    }
}

/// Chooses the next process to kill, at random.
struct Victims(Transfers);

impl Victims {
    /// Makes a chooser that uses the random numbers of a client number that no process has. It chooses the place of a
    /// process in the way in which a transfer chooses an account.
    fn new(plan: &Plan<'_>) -> Victims {
        let places = u32::try_from(plan.processes).expect("there are few processes");
        Victims(Transfers::new(Scale::with_branches(places, 1), plan.seed, u32::MAX >> 8))
    }

    fn choose(&mut self) -> usize {
        self.0.next_transfer().account as usize
    }
}

/// Draws the bar, and writes a line after each second. The last line is written if it covers at least half a second.
fn show(running: &mut Running, repairs: Repairs, is_last: bool, bar: &Progress, output: &mut Output) -> Result<()> {
    let Some((begin, live)) = &mut running.live else { return Ok(()) };
    bar.set(u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX));
    let over = if is_last { live.last_tick(running.last) } else { live.tick(Instant::now()) };
    let Some(second) = over else { return Ok(()) };
    let told = Summary {
        second: &second,
        kills: running.stalls.kills(),
        repairs: repairs.sessions_repaired,
        stall_max_ms: running.stalls.worst_ms(),
    };
    let deaths =
        format!("{} kills, {} sessions repaired, longest stall {} ms", told.kills, told.repairs, told.stall_max_ms);
    bar.say(format!(
        "{} transactions per second, {} acknowledged; {deaths}",
        grouped(second.rates.tps),
        grouped(running.acknowledged.count())
    ));
    bar.aside(|| {
        output.object(&told)?;
        let Rates { sync, relaxed, .. } = &second.rates;
        output.line(format_args!("{:>4} s  sync {sync}  relaxed {relaxed}  {deaths}", second.second))?;
        output.flush()
    })
}
