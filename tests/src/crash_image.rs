//! Opens the disk image that a crash left, and judges its state.
//!
//! Every image is opened with its memory lost, read completely, and checked page by page. Some images are also read
//! backwards. In some images a transaction is committed, and the environment is closed in good order and opened again.

use libtp::Durability;
use libtp_sim::{Random, SimDisk};

use crate::library::{Layout, Machine, Process, Trouble, Way, HASH};
use crate::oracle::{brief, name, Allowed, Effects, Era, History, Table, Value};

/// The next step with an image whose state was right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequel {
    /// Nothing.
    #[default]
    None,
    /// A transaction commits, the process closes the environment in good order, and the next process must find the
    /// changes.
    OrderlyEnd,
    /// Some transactions write, and then the machine stops. The caller crashes the machine somewhere in this work.
    LivesOn,
}

/// The optional checks of an image, and the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thoroughness {
    /// The image is also read from high keys to low.
    pub reads_back: bool,
    /// Each record is also looked up by its key.
    pub looks_up: bool,
    /// The step after the checks.
    pub sequel: Sequel,
}

impl Thoroughness {
    /// Returns a random choice. Over many images, each check and an orderly end are chosen.
    pub fn any(random: &mut Random) -> Thoroughness {
        let sequel = if random.chance(1, 8) { Sequel::OrderlyEnd } else { Sequel::None };
        Thoroughness { reads_back: random.chance(1, 8), looks_up: random.chance(3, 4), sequel }
    }

    /// Returns no optional check, and the next step `sequel`.
    pub fn and_then(sequel: Sequel) -> Thoroughness {
        Thoroughness { sequel, ..Thoroughness::default() }
    }
}

/// The result for an image whose state was right.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The number of commits in the state that was found. `None` if no such number exists, because commits of unknown
    /// outcome are missing and later commits are there.
    pub commits: Option<usize>,
    /// The history since the restart, if the machine lived on.
    pub later: Option<Era>,
}

/// Opens the image and judges its state.
///
/// # Errors
/// Describes the fault of the image.
pub fn judge(
    disk: &SimDisk,
    layout: Layout,
    history: &History,
    allowed: Allowed,
    thoroughness: Thoroughness,
) -> Result<Judged, String> {
    judge_machine(&Machine::new(disk.clone(), layout), history, allowed, thoroughness)
}

/// Opens the environment on a machine, whose memory may have survived, and judges its state.
///
/// # Errors
/// Describes the fault of the image.
pub fn judge_machine(
    machine: &Machine,
    history: &History,
    allowed: Allowed,
    thoroughness: Thoroughness,
) -> Result<Judged, String> {
    let process = machine.start().map_err(|trouble| format!("REFUSED: opening failed: {trouble}"))?;
    let judged = judge_open(&process, history, allowed, thoroughness);
    let Ok(commits) = judged else {
        let opened = process.opened();
        leave_in_haste(&machine.disk, process);
        return Err(format!("{} ({opened})", judged.err().unwrap_or_default()));
    };
    let mut later = None;
    match (commits, thoroughness.sequel) {
        (Some(commits), Sequel::OrderlyEnd) => end_orderly(machine, process, history, commits)?,
        (Some(commits), Sequel::LivesOn) => later = Some(live_on(machine, process, history, commits)?),
        _ => leave_in_haste(&machine.disk, process),
    }
    Ok(Judged { commits, later })
}

/// Stops the disk and drops the process, so the process cannot close the environment in good order.
fn leave_in_haste(disk: &SimDisk, process: Process) {
    disk.halt();
    drop(process);
}

fn judge_open(
    process: &Process,
    history: &History,
    allowed: Allowed,
    thoroughness: Thoroughness,
) -> Result<Option<usize>, String> {
    let reading = |trouble: Trouble| format!("UNREADABLE: {trouble}");
    let state = process.state(Way::Up).map_err(reading)?;
    let commits = history.judge(&state, allowed)?;
    if thoroughness.reads_back {
        let back = process.state(Way::Down).map_err(reading)?;
        if back != state {
            return Err(format!("WRONG: a backward scan finds another state: {}", state.difference(&back)));
        }
    }
    if thoroughness.looks_up {
        let txn = process.begin(Durability::Relaxed).map_err(reading)?;
        for (place, value) in state.records() {
            let found = process.get(&txn, place).map_err(reading)?;
            if found.as_ref() != Some(value) {
                return Err(format!(
                    "WRONG: a scan returned {}, and a lookup of its key finds: {}",
                    name(place),
                    brief(found.as_ref())
                ));
            }
        }
    }
    let findings = process.findings().map_err(|trouble| format!("UNREADABLE: checking failed: {trouble}"))?;
    match findings.first() {
        None => Ok(commits),
        Some(first) => Err(format!("DAMAGED: {} findings, the first: {first}", findings.len())),
    }
}

/// Commits one more transaction, closes the environment in good order, and checks the state at the next opening.
fn end_orderly(machine: &Machine, process: Process, history: &History, commits: usize) -> Result<(), String> {
    let failed = |what: &'static str| move |trouble: Trouble| format!("UNUSABLE: {what} failed: {trouble}");
    let mut wanted = history.state_after(commits);
    let txn = process.begin(Durability::Sync).map_err(failed("beginning"))?;
    for (tree, key) in [("accounts", "account/0100"), ("journal", "journal/zzz"), (HASH, "part/0100")] {
        let place = (Table::Tree(tree), key.as_bytes().to_vec());
        let value = Value::from(b"after the crash".as_slice());
        process.put(&txn, &place, &value).map_err(failed("a put"))?;
        wanted.put(&place, Some(&value));
    }
    let value = Value::from(vec![b'c'; crate::library::CELL_BYTES as usize]);
    let number = process.append(&txn, &value).map_err(failed("an append"))?;
    let place = crate::oracle::cell(number);
    if wanted.get(&place).is_some() {
        return Err(format!("WRONG: an append took number {number}, which is in use"));
    }
    wanted.put(&place, Some(&value));
    txn.commit().map_err(failed("a commit"))?;
    process.checkpoint().map_err(failed("a checkpoint"))?;
    drop(process);

    let process = machine.start().map_err(failed("opening again"))?;
    let found = process.state(Way::Up).map_err(failed("reading again"));
    let opened = process.opened();
    leave_in_haste(&machine.disk, process);
    let found = found?;
    if found != wanted {
        return Err(format!("WRONG: after an orderly end: {} ({opened})", wanted.difference(&found)));
    }
    Ok(())
}

/// Runs a few more transactions, whose log records have only a few lengths. So these records often end exactly where a
/// lost record of the previous life ended. The log still has the bytes of the old records after that end: the next
/// restart must not take them for records of this life.
fn live_on(machine: &Machine, process: Process, history: &History, commits: usize) -> Result<Era, String> {
    let from = machine.disk.io_index();
    let mut random = Random::new((from as u64) << 20 ^ commits as u64);
    let mut history = history.resumed(commits, from);
    let mut lived = || -> Result<(), Trouble> {
        for number in 0..2 + random.below(6) {
            let durability = if random.chance(1, 3) { Durability::Sync } else { Durability::Relaxed };
            let begun = machine.disk.io_index();
            let txn = process.begin(durability)?;
            let mut effects = Effects::new();
            for _ in 0..=random.below(2) {
                let place = (Table::Tree("accounts"), format!("account/{:04}", random.below(300)).into_bytes());
                let mut text = format!("later {number} ").into_bytes();
                text.resize(24 + 8 * random.index(8), b'.');
                let value = Value::from(text);
                process.put(&txn, &place, &value)?;
                effects.insert(place, Some(value));
            }
            txn.commit()?;
            let commits = history.commit(effects, begun, false);
            if durability == Durability::Sync {
                history.promise(machine.disk.io_index(), commits);
            }
            if random.chance(1, 8) {
                process.checkpoint()?;
            }
        }
        process.flush()?;
        history.promise(machine.disk.io_index(), history.len());
        Ok(())
    };
    let lived = lived();
    leave_in_haste(&machine.disk, process);
    lived.map_err(|trouble| format!("UNUSABLE: a transaction after the crash failed: {trouble}"))?;
    Ok(Era { from, history })
}
