//! Reading the log after the death of all processes: recovered transactions per second, compared with every peer that
//! has a log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::bank::{number, Contender};
use super::figure::{spelled, Axis, Figure, Place, Series};
use super::rounds::{Case, Sample};
use super::Paper;
use crate::engine::{Durability, Engine};
use crate::error::{Error, Result};
use crate::processes::killed_process;
use crate::report::RunSettings;
use crate::run::Before;
use crate::tpcb::{Scale, Transfers};

/// The peers without a log, whose files are consistent at any moment.
const WITHOUT_LOG: [&str; 2] = ["lmdb", "redb"];
/// Longest time for which a process uses its bank before it is killed.
const AT_MOST: Duration = Duration::from_secs(60);

/// Measures the opening of a bank after a process that used it was killed.
pub(super) fn after_a_death(paper: &mut Paper<'_>) -> Result<()> {
    let (wanted, scale, rounds) = (paper.pace.recovered, paper.pace.recovered_scale, paper.pace.rounds);
    let place = Place::Number(number(wanted));
    let (mut cases, mut without) = (Vec::new(), Vec::new());
    for (name, contender) in paper.everybody(Durability::Relaxed) {
        if WITHOUT_LOG.contains(&name.as_str()) {
            let why = "it has no log";
            without.push(Series::refused(&name, [place.clone()], why));
            continue;
        }
        let client = paper.settings.client;
        let doomed = Doomed {
            directory: paper.settings.disk.join(format!("doomed-{name}")),
            // Only libtp has shared memory that outlives the process.
            memory: (name == "libtp").then(|| paper.settings.memory.join(format!("doomed-{}", std::process::id()))),
            contender: contender.doomed(),
            scale,
        };
        cases.push(Case::new(&name, place.clone(), move || {
            doomed.sample(wanted, &|contender, directory| client(contender, directory))
        }));
    }
    let mut series = paper.measure("peers-recovery", &mut cases, rounds)?;
    drop(cases);
    series.extend(without);
    let figure = Figure {
        id: "peers-recovery".to_owned(),
        title: "Transactions recovered from the log per second".to_owned(),
        paper: "LIBTP 3.1.1: after a crash the log is read, and its changes are repeated. The papers do not have the speed.".to_owned(),
        here: format!(
            "A client process does {1} transactions of TPC-B on {0} accounts, and is killed with SIGKILL half a second later. Then the bank is \
             opened and three balances are read. The value is the number of transactions, which must all be found, divided by the time of the \
             opening and the reads. libtp's shared memory is removed before the opening, as a restart of the machine would do, because libtp \
             would not read the log otherwise. Until the kill, SQLite's automatic checkpoints are off, and libtp makes a checkpoint only after \
             2 GiB of log. The other engines have their usual settings.",
            spelled(f64::from(scale.accounts)),
            spelled(number(wanted)),
        ),
        x: Axis::logarithmic("transactions in the log"),
        y: Axis::logarithmic("recovered transactions per second"),
        series,
        notes: Vec::new(),
    };
    let Place::Number(x) = place else { return Ok(()) };
    paper.goal_beside_best("log read again after a death, beside the best peer", &figure, x, &[], 1.0);
    paper.figures.push(figure);
    Ok(())
}

/// A bank whose process will be killed.
struct Doomed {
    directory: PathBuf,
    /// The directory of the bank's shared memory, if that memory outlives the process.
    memory: Option<PathBuf>,
    contender: Contender,
    scale: Scale,
}

impl Doomed {
    /// Makes the bank, kills a process that uses it, opens it, and removes it.
    fn sample(&self, transactions: u64, client: &dyn Fn(&Contender, &Path) -> std::process::Command) -> Result<Sample> {
        self.remove()?;
        std::fs::create_dir_all(&self.directory).map_err(Error::file("make", &self.directory))?;
        if let Some(memory) = &self.memory {
            std::fs::create_dir_all(memory).map_err(Error::file("make", memory))?;
            let path = self.directory.join(libtp::SETTINGS_NAME);
            let settings =
                format!("region_directory = {:?}\ncheckpoint_log = \"2 GiB\"\n", memory.display().to_string());
            std::fs::write(&path, settings).map_err(Error::file("write", &path))?;
        }
        let bank = self.contender.open(&self.directory, false)?;
        bank.load(&self.scale, &mut |_| {})?;
        bank.close()?;
        let settings = RunSettings {
            scale: self.scale,
            seed: 1,
            clients: 1,
            warmup: Duration::ZERO,
            measured: AT_MOST,
            read_only: false,
            durability: self.contender.durability,
            most: None,
        };
        killed_process(&settings, client(&self.contender, &self.directory), transactions)?;
        if let Some(memory) = &self.memory {
            std::fs::remove_dir_all(memory).map_err(Error::file("remove", memory))?;
            std::fs::create_dir_all(memory).map_err(Error::file("make", memory))?;
        }
        let begin = Instant::now();
        let bank = self.contender.open(&self.directory, false)?;
        read_one(bank.as_ref(), &settings)?;
        let seconds = begin.elapsed().as_secs_f64();
        let found = Before::look(bank.as_ref())?.history.count;
        let mut audit = bank.audit(&self.scale)?.verdict(found);
        if found != transactions {
            audit = format!("{transactions} transactions were acknowledged, and {found} were found");
        }
        bank.close()?;
        self.remove()?;
        let raw = json!({ "found": found, "seconds": seconds });
        Ok(Sample { value: number(found) / seconds, audit, raw })
    }

    fn remove(&self) -> Result<()> {
        for path in std::iter::once(&self.directory).chain(&self.memory).filter(|path| path.exists()) {
            std::fs::remove_dir_all(path).map_err(Error::file("remove", path))?;
        }
        Ok(())
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        // After a failed sample, the bank still exists. If it cannot be removed here, the error is reported when the
        // run removes all its files.
        self.remove().ok();
    }
}

/// Reads three balances, so that the measured time includes work that an engine postpones until the first read.
fn read_one(bank: &dyn Engine, settings: &RunSettings) -> Result<()> {
    let mut session = bank.session()?;
    session.read_only(&Transfers::new(settings.scale, settings.seed, 0).next_transfer()).map(drop)
}
