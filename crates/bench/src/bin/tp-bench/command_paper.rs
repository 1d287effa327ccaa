//! `tp bench paper`: measures the figures of both papers, and the peers, on this machine, and writes a report with
//! pictures.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use libtp_bench::paper::{
    run_paper, Build, Contender, Goal, News, PaperOutcome, PaperSettings, StartClient, KERNEL_LATCHES,
};
use libtp_bench::EngineKind;

use libtp_bank::BankDirectory;
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::{note, Output};
use libtp_console::progress::Progress;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Directory for report.md, raw.jsonl and the pictures.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Measure every figure with fewer points and 100000 accounts, in three minutes instead of an hour.
    #[arg(long)]
    quick: bool,
    /// Measure as little as possible of every figure: for tests of this command.
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Peers to compare with libtp. Default: `light` if the light peers are built in, else `none`.
    #[arg(long, value_enum)]
    peers: Option<Peers>,
    /// Measure only figures whose names begin with this text, for example `libtp-8`. Default: all.
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory on a disk for the databases. Default: a new directory. The run removes everything that it makes there.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory in memory for the files that the papers have in memory.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peers {
    /// No peers.
    None,
    /// SQLite, LMDB, redb, fjall.
    Light,
    /// The light peers, and RocksDB, Berkeley DB and libpmemobj, which need Debian packages.
    All,
}

impl Arguments {
    /// Measures, and writes the report.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        let peers = self.peers.unwrap_or_else(Peers::at_hand).names()?;
        let mut directory = BankDirectory::open(self.dir.as_deref(), "libtp-paper")?;
        if self.dir.is_none() {
            directory = directory.removed_at_end();
        }
        let own = BankDirectory::inside(directory.path(), "libtp-paper")?;
        let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
        let client = |contender: &Contender, bank: &Path| client(&program, contender, bank);
        let kernel_program = kernel_program(&program);
        let kernel_client = kernel_program
            .as_ref()
            .map(|program| move |contender: &Contender, bank: &Path| self::client(program, contender, bank));
        let memory_client = |job: &str| {
            let mut command = Command::new(&program);
            command.arg("memory-client").arg(job);
            command
        };
        let shell = |env: &Path| {
            // `tp` is installed next to this program.
            let mut command = Command::new(program.with_file_name("tp"));
            command.args(["shell", "--env"]).arg(env);
            command
        };
        let settings = PaperSettings {
            out: self.out.clone(),
            disk: own.path().to_path_buf(),
            memory: self.memory.clone(),
            is_quick: self.quick || self.tiny,
            is_tiny: self.tiny,
            peers,
            only: self.only.clone(),
            command: typed(),
            build: build(),
            client: &client,
            kernel_client: kernel_client.as_ref().map(|client| client as StartClient<'_>),
            memory_client: &memory_client,
            shell: &shell,
        };
        let mut bar: Option<Progress> = None;
        let shown = output.may_draw();
        let outcome = run_paper(&settings, &mut |news| show(&mut bar, shown, news))?;
        drop(bar);
        let report = self.out.join("report.md");
        let PaperOutcome { goals, failed_audits } = &outcome;
        output.object(&serde_json::json!({ "report": report, "goals": goals, "failed_audits": failed_audits }))?;
        goals.iter().try_for_each(|goal| write(goal, output))?;
        failed_audits.iter().try_for_each(|failed| output.line(failed.clone()))?;
        output.line(format!("the report is {}", report.display()))?;
        Ok(ending(&outcome))
    }
}

/// Returns the ending of a run. With a failed audit, the run fails, because its figures cannot be trusted.
fn ending(outcome: &PaperOutcome) -> Ending {
    Ending::of(outcome.failed_audits.is_empty())
}

/// Shows the current figure and step.
pub fn show(bar: &mut Option<Progress>, shown: bool, news: News<'_>) {
    match news {
        News::Figure { id, nth, of } => {
            let total = u64::try_from(of).unwrap_or(u64::MAX);
            let now = bar.get_or_insert_with(|| Progress::count(shown, "figures", total));
            now.set(u64::try_from(nth).unwrap_or(u64::MAX) - 1);
            now.say(id.to_owned());
        }
        News::Doing(what) => {
            if let Some(bar) = bar {
                bar.say(what.to_owned());
            }
        }
    }
}

/// Returns the commit and the compiler that this program was built from.
pub fn build() -> Build {
    Build { commit: env!("TP_COMMIT").to_owned(), compiler: env!("TP_COMPILER").to_owned() }
}

impl Peers {
    /// Returns the light peers. If this program was built without them, writes a note and returns no peers.
    fn at_hand() -> Peers {
        if EngineKind::LIGHT.iter().all(|kind| kind.is_built_in()) {
            return Peers::Light;
        }
        note(
            "this program was built without peers, so it measures libtp alone; `cargo xtask bench paper` builds a program with peers",
        );
        Peers::None
    }

    /// Returns the peers' names.
    ///
    /// # Errors
    /// `Usage` if a peer is not in this build; the message names the command that builds the peers in.
    fn names(self) -> Result<Vec<String>> {
        let kinds = match self {
            Peers::None => Vec::new(),
            Peers::Light => EngineKind::LIGHT.to_vec(),
            Peers::All => [&EngineKind::LIGHT[..], &EngineKind::HEAVY[..]].concat(),
        };
        if let Some(left_out) = kinds.iter().find(|kind| !kind.is_built_in()) {
            let option = if self == Peers::All { " --peers all" } else { "" };
            return Err(Failure::Usage(format!(
                "{} is not in this build: `cargo xtask bench paper{option} --out DIR` installs the packages that the \
                 peers need, builds the peers in and measures; `--peers none` measures libtp alone",
                left_out.name()
            )));
        }
        Ok(kinds.into_iter().map(|kind| kind.name().to_owned()).collect())
    }
}

/// Environment variable with the command that the user typed. `cargo xtask bench` sets it when it starts this program.
const COMMAND: &str = "LIBTP_BENCH_COMMAND";

/// Returns the command that the user typed, for the report. Without the environment variable, this is `tp bench` and
/// this program's arguments.
pub fn typed() -> String {
    if let Ok(command) = std::env::var(COMMAND) {
        return command;
    }
    std::iter::once("tp bench".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// Returns a program whose latches can be made to call the kernel: this program if it was built with the feature
/// `kernel-latches`, else the program that the environment variable `LIBTP_KERNEL_LATCHES` names, if it is set.
fn kernel_program(own: &Path) -> Option<PathBuf> {
    match cfg!(feature = "kernel-latches") {
        true => Some(own.to_path_buf()),
        false => std::env::var_os(KERNEL_LATCHES).map(PathBuf::from),
    }
}

/// Returns the command that starts `program` as one client of a contender.
pub fn client(program: &Path, contender: &Contender, bank: &Path) -> Command {
    let mut command = Command::new(program);
    let contender = serde_json::to_string(contender).expect("names and switches are text");
    command.arg("client").arg("--contender").arg(contender).arg("--env").arg(bank);
    command
}

fn write(goal: &Goal, output: &mut Output) -> Result<()> {
    let verdict = match goal.is_met() {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not measured",
    };
    let reached = goal.reached.map_or_else(String::new, |reached| format!("{reached:.2}, "));
    output.line(format!(
        "{} ({}), compared with {}: {reached}wanted {}: {verdict}",
        goal.what, goal.figure, goal.beside, goal.wanted
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_a_failed_audit_ends_with_disagrees() {
        let outcome = |failed_audits: Vec<String>| PaperOutcome { goals: Vec::new(), failed_audits };
        assert_eq!(ending(&outcome(Vec::new())), Ending::Done);
        assert_eq!(ending(&outcome(vec!["libtp: the audit failed".into()])), Ending::Disagrees);
    }
}
