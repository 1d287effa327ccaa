//! The warm-reboot lab: programs use recoverable memory on a machine whose kernel is crashed repeatedly. After each
//! crash the memory is checked.
//!
//! Paper: Rio Vista, section 3. The machine is QEMU (emulated, without the host's virtualisation) with Debian's cloud
//! kernel and one program, `tests/lab`. A part of the machine's memory is kept over warm starts. This part has a file
//! system that maps the memory directly. The kinds of crashes take turns: a panic of the kernel (c), a restart that
//! writes nothing (b), a reset from outside (m), an interrupt from outside that causes a panic (n), and a kill of QEMU,
//! which keeps the machine's memory in a file (k). A machine with enough crashes also has a panic after which a second
//! kernel, loaded in advance, takes over (p, known as kdump).
//!
//! Two things are judged at each crash: segments of memory, which vista changes, and records, whose commits the library
//! acknowledges from memory (docs/design/0007). The judge does not rely on the machine's memory alone: the machine also
//! announces each ended transaction through a port (`announcements`).
//!
//! | file | contents |
//! |---|---|
//! | `build` | the kernel, and the initial file system with the guest's program and its C libraries |
//! | `cpio` | the archive that a kernel unpacks |
//! | `machine` | QEMU, its console, its monitor |
//! | `announcements` | the announcements |
//! | `judge` | the comparison of announcements and findings, for segments |
//! | `records` | the comparison of announcements and findings, for records |

mod announcements;
mod build;
mod cpio;
mod judge;
#[cfg(test)]
mod judge_tests;
mod machine;
mod records;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::command_test::logs;
use crate::outcome::Counts;
use crate::programs::{self, Profile};
use crate::setup;
use crate::suites::{Build, LAB, SUITES};
use crate::workspace::Workspace;

/// The kinds of crashes, in turns.
const KINDS: &str = "c,b,m,n,k";
/// The kinds for a machine with many crashes: a second kernel takes long to start.
const KINDS_OF_MANY: &str = "c,b,m,n,k,p";
const KIND_COUNT: u64 = 6;
/// The number of crashes, set by a suite (`suites`).
const CYCLES: &str = "LIBTP_TEST_CYCLES";
/// Longest time of a run with few crashes, without the build; and of one start of the machine.
const LIMIT: Duration = Duration::from_secs(240);
const BOOT_LIMIT: Duration = Duration::from_secs(90);
/// From this number of crashes on, two machines share them, and there is no limit for the total time.
const MANY: u64 = 20;
/// Longest time of a start on a busy machine.
const PATIENT_BOOT_LIMIT: Duration = Duration::from_secs(3600);

/// `cargo xtask lab`.
pub fn lab(workspace: &Workspace, cycles: u64) -> Result<ExitCode, String> {
    let run = || {
        let suites: Vec<_> = SUITES.iter().filter(|suite| suite.name == LAB).collect();
        let programs = programs::build_suites(&suites, Build::ForTests, Profile::Suite, &logs(workspace))?;
        let guest = programs.as_deref().and_then(<[_]>::first);
        run(workspace, &guest.ok_or_else(|| io::Error::other("the guest was not built"))?.path, cycles)
    };
    let (counts, figures) = run().map_err(|error| format!("the lab could not run: {error}"))?;
    figures.iter().for_each(|figures| println!("  {figures}"));
    let is_good = counts.failed == 0 && counts.skipped == 0;
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Runs the suite of `cargo xtask test` and `soak`: `guest` runs on the machine. `env` sets the number of crashes.
///
/// # Errors
/// When the machine cannot be built or started, or `env` does not set the number.
pub fn suite(workspace: &Workspace, guest: &Path, env: &[(&str, &str)]) -> io::Result<(Counts, Vec<String>)> {
    let cycles = env.iter().find(|(name, _)| *name == CYCLES).and_then(|(_, value)| value.parse().ok());
    run(workspace, guest, cycles.ok_or_else(|| io::Error::other(format!("{CYCLES} is not a number of crashes")))?)
}

fn run(workspace: &Workspace, guest: &Path, cycles: u64) -> io::Result<(Counts, Vec<String>)> {
    let missing = setup::packages_for_lab(&logs(workspace))?;
    if missing.skipped + missing.failed != 0 {
        println!("  SKIPPED: no system was crashed, so this run does not show what the memory survives");
        return Ok((missing, Vec::new()));
    }
    let folder = workspace.target.join("lab");
    let built = build::build(guest, &folder)?;
    let state = folder.join("state");
    let _ = std::fs::remove_dir_all(&state);
    let start = Instant::now();
    let (machines, limits) = match cycles >= MANY {
        true => (2, Limits { boot: PATIENT_BOOT_LIMIT, end: None }),
        false => (1, Limits { boot: BOOT_LIMIT, end: Some(start + LIMIT) }),
    };
    let seed = u64::from(std::process::id());
    let judges = std::thread::scope(|scope| {
        let one = |number: u64| {
            // The first machine takes the remainder.
            let cycles = cycles / machines + u64::from(number == 0) * (cycles % machines);
            let (built, state) = (&built, state.join(number.to_string()));
            let name = if machines == 1 { String::new() } else { format!(" of machine {}", number + 1) };
            scope.spawn(move || crash_again_and_again(built, &state, &name, seed + number * 1_000_003, cycles, limits))
        };
        let running: Vec<_> = (0..machines).map(one).collect();
        let joined = running.into_iter().map(|one| one.join().expect("a thread that watches a machine does not panic"));
        joined.collect::<io::Result<Vec<_>>>()
    })?;
    let mut judges = judges.into_iter();
    let mut judge = judges.next().expect("there is a machine");
    judges.for_each(|other| judge.add(other));
    let (mut figures, is_good) = judge.summary(cycles);
    let counts = if is_good { Counts::ONE_PASSED } else { Counts::ONE_FAILED };
    figures.insert(0, format!("{machines} machines at a time, {} s", start.elapsed().as_secs()));
    Ok((counts, figures))
}

/// Time limits of a machine.
#[derive(Clone, Copy)]
struct Limits {
    /// The time from one start of the machine to the next.
    boot: Duration,
    /// The end of the whole run.
    end: Option<Instant>,
}

/// Runs one machine until it has crashed `cycles` times, a check fails, or time is up.
fn crash_again_and_again(
    built: &build::Built,
    state: &Path,
    name: &str,
    seed: u64,
    cycles: u64,
    limits: Limits,
) -> io::Result<judge::Judge> {
    std::fs::create_dir_all(state)?;
    let kinds = if cycles < KIND_COUNT { KINDS } else { KINDS_OF_MANY };
    let mut machine = machine::Machine::start(built, state, kinds, seed)?;
    let mut judge = judge::Judge::new(name, state);
    let mut lines = Vec::new();
    let mut since = Instant::now();
    while judge.cycles() < cycles && !judge.has_failed() {
        let boot = since + limits.boot;
        let left = limits.end.map_or(boot, |end| end.min(boot)).saturating_duration_since(Instant::now());
        let Some(line) = machine.line(left) else {
            judge.fail("the machine did not start again, or ended, or the time was up");
            break;
        };
        let Some(said) = line.strip_prefix("LAB ") else {
            judge.console(&line);
            continue;
        };
        lines.push(said.to_owned());
        if let Some(kind) = said.strip_prefix("YOURS ") {
            // The crash comes at a random moment.
            std::thread::sleep(Duration::from_millis(judge.draw(300)));
            machine.crash(kind.trim())?;
        } else if let Some(boot) = said.strip_prefix("BOOT ") {
            judge.boot(boot, &lines);
            lines.clear();
            since = Instant::now();
        } else if said.starts_with("ERROR ") {
            judge.fail(said);
        }
    }
    Ok(judge)
}
