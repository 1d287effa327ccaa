//! The warm-reboot lab: a machine whose kernel crashes again and again under recoverable memory, and what is there afterwards.
//!
//! Paper: Rio Vista, section 3. The machine is QEMU's (emulated, on no virtualisation of the host's), with Debian's cloud kernel
//! and one program, `tests/rio`, linked statically. A part of its memory is kept over warm starts and has a file system that maps
//! it directly. It is crashed in turns by a panic of the kernel (c), a start without writing anything (b), a reset from
//! outside (m), an interrupt from outside that is a panic (n), and by killing QEMU, whose memory is a file (k).
//!
//! The machine is not its own witness: what has ended it says through a port (`judge`).
//!
//! | file | what |
//! |---|---|
//! | `build` | the kernel, the guest's program, its initial file system |
//! | `cpio` | the archive that a kernel unpacks |
//! | `machine` | QEMU, its console, its monitor |
//! | `judge` | what was announced, and what was found |

mod build;
mod cpio;
mod judge;
#[cfg(test)]
mod judge_tests;
mod machine;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::command_test::logs;
use crate::outcome::Counts;
use crate::setup;
use crate::workspace::Workspace;

/// Each is crashed in turn by these.
const KINDS: &str = "c,b,m,n,k";
/// How many crashes, where a suite says it (`suites`).
const CYCLES: &str = "LIBTP_TEST_CYCLES";
/// The crashes take no longer, however long the building took; nor does one start.
const LIMIT: Duration = Duration::from_secs(240);
const BOOT_LIMIT: Duration = Duration::from_secs(90);

/// `cargo xtask lab`.
pub fn lab(workspace: &Workspace, cycles: u64) -> Result<ExitCode, String> {
    let run = run(workspace, cycles).map_err(|error| format!("the lab could not run: {error}"));
    let (counts, figures) = run?;
    figures.iter().for_each(|figures| println!("  {figures}"));
    let is_good = counts.failed == 0 && counts.skipped == 0;
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// The suite of `cargo xtask test` and `soak`, as many crashes as `env` says.
///
/// # Errors
/// When the machine cannot be built or started, or `env` does not say how many.
pub fn suite(workspace: &Workspace, env: &[(&str, &str)]) -> io::Result<(Counts, Vec<String>)> {
    let cycles = env.iter().find(|(name, _)| *name == CYCLES).and_then(|(_, value)| value.parse().ok());
    run(workspace, cycles.ok_or_else(|| io::Error::other(format!("{CYCLES} does not say how many crashes")))?)
}

fn run(workspace: &Workspace, cycles: u64) -> io::Result<(Counts, Vec<String>)> {
    // A few seconds a cycle, however long the building takes.
    let limit = LIMIT.max(Duration::from_secs(cycles * 30));
    let missing = setup::packages_for_lab(&logs(workspace))?;
    if missing.skipped + missing.failed != 0 {
        println!("  SKIPPED: no system was crashed, and nothing is known of what memory survives");
        return Ok((missing, Vec::new()));
    }
    let folder = workspace.target.join("lab");
    let built = build::build(workspace, &folder)?;
    let state = folder.join("state");
    let _ = std::fs::remove_dir_all(&state);
    std::fs::create_dir_all(&state)?;
    let (start, seed) = (Instant::now(), u64::from(std::process::id()));
    let mut machine = machine::Machine::start(&built, &state, KINDS, seed)?;
    let mut judge = judge::Judge::new(&state);
    let end = start + limit;
    let mut lines = Vec::new();
    let mut since = Instant::now();
    while judge.cycles() < cycles && !judge.has_failed() {
        let left = end.min(since + BOOT_LIMIT).saturating_duration_since(Instant::now());
        let Some(line) = machine.line(left) else {
            judge.fail("the machine did not come back, or ended, or time was up");
            break;
        };
        let Some(said) = line.strip_prefix("LAB ") else {
            judge.console(&line);
            continue;
        };
        lines.push(said.to_owned());
        if let Some(kind) = said.strip_prefix("YOURS ") {
            // At any moment.
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
    drop(machine);
    let (summary, is_good) = judge.summary(cycles);
    let counts = if is_good { Counts::ONE_PASSED } else { Counts::ONE_FAILED };
    Ok((counts, vec![format!("{summary}, {} s", start.elapsed().as_secs())]))
}
