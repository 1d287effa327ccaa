//! `tp bench paper`: the papers' figures and the peers, measured on this machine, as a report with a picture of each.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use libtp_bench::paper::{
    run_paper, Build, Contender, Goal, News, PaperOutcome, PaperSettings, StartClient, KERNEL_LATCHES,
};
use libtp_bench::EngineKind;

use crate::bank::BankDirectory;
use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Where report.md, raw.jsonl and the pictures go.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Every figure with fewer points and 100000 accounts: within three minutes, instead of an hour.
    #[arg(long)]
    quick: bool,
    /// Every figure with next to nothing measured: for tests of this command.
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Who is measured beside us; the light ones, if none is named and they are in this program.
    #[arg(long, value_enum)]
    peers: Option<Peers>,
    /// Figures whose names begin so, for example `libtp-8`; all of them if none is named.
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    only: Vec<String>,
    /// A directory on the disk for the databases; without it a fresh one is used. What is made there is removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A directory in memory.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peers {
    /// Nobody.
    None,
    /// Those that are in this program: SQLite, LMDB, redb, fjall.
    Light,
    /// Those, and RocksDB, Berkeley DB and libpmemobj, whose Debian packages are installed.
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
        let own = Own::make(directory.path())?;
        let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
        let client = |contender: &Contender, bank: &Path| client(&program, contender, bank);
        let kernel_program = kernel_program(&program);
        let kernel_client = kernel_program
            .as_ref()
            .map(|program| move |contender: &Contender, bank: &Path| self::client(program, contender, bank));
        let memory_client = |job: &str| {
            let mut command = Command::new(&program);
            command.arg("bench-memory-client").arg(job);
            command
        };
        let shell = |env: &Path| {
            let mut command = Command::new(&program);
            command.args(["shell", "--env"]).arg(env);
            command
        };
        let settings = PaperSettings {
            out: self.out.clone(),
            disk: own.0.clone(),
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

/// Figures of what does not add up are worth nothing, and a run with such is no good one.
fn ending(outcome: &PaperOutcome) -> Ending {
    Ending::of(outcome.failed_audits.is_empty())
}

/// Shows which figure it is, and what is done.
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

/// What this program was made from.
pub fn build() -> Build {
    Build { commit: env!("TP_COMMIT").to_owned(), compiler: env!("TP_COMPILER").to_owned() }
}

impl Peers {
    /// The light ones, or nobody and a word of it where they were not built in.
    fn at_hand() -> Peers {
        if EngineKind::LIGHT.iter().all(|kind| kind.is_built_in()) {
            return Peers::Light;
        }
        eprintln!(
            "tp: no peers are in this program: libtp is measured alone; `cargo xtask bench paper` builds one that has them",
        );
        Peers::None
    }

    /// By name.
    ///
    /// # Errors
    /// Who is not in this build, and what brings them.
    fn names(self) -> Result<Vec<String>> {
        let kinds = match self {
            Peers::None => Vec::new(),
            Peers::Light => EngineKind::LIGHT.to_vec(),
            Peers::All => [&EngineKind::LIGHT[..], &EngineKind::HEAVY[..]].concat(),
        };
        if let Some(left_out) = kinds.iter().find(|kind| !kind.is_built_in()) {
            let option = if self == Peers::All { " --peers all" } else { "" };
            return Err(Failure::Usage(format!(
                "{} is not in this build: `cargo xtask bench paper{option} --out DIR` installs what the peers need, builds them in \
                 and measures; `--peers none` measures libtp alone",
                left_out.name()
            )));
        }
        Ok(kinds.into_iter().map(|kind| kind.name().to_owned()).collect())
    }
}

/// A directory of this run alone, in one that may be somebody's; removed in the end, whatever the end is.
pub struct Own(PathBuf);

impl Own {
    /// Makes it.
    pub fn make(parent: &Path) -> Result<Own> {
        let path = parent.join(format!("libtp-paper-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(Failure::doing(format!("make the directory {}", path.display())))?;
        Ok(Own(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("tp: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Where who starts this program for somebody says what that one typed.
const COMMAND: &str = "LIBTP_BENCH_COMMAND";

/// What was typed, without the directory that the program lies in.
pub fn typed() -> String {
    if let Ok(command) = std::env::var(COMMAND) {
        return command;
    }
    let mut words = std::env::args();
    let program = words.next().map(|word| word.rsplit('/').next().unwrap_or(&word).to_owned());
    program.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The program whose latches can be made to call the kernel: this one, or one that is named.
fn kernel_program(own: &Path) -> Option<PathBuf> {
    match cfg!(feature = "kernel-latches") {
        true => Some(own.to_path_buf()),
        false => std::env::var_os(KERNEL_LATCHES).map(PathBuf::from),
    }
}

/// This program again, as one client of a contender.
pub fn client(program: &Path, contender: &Contender, bank: &Path) -> Command {
    let mut command = Command::new(program);
    let contender = serde_json::to_string(contender).expect("names and switches are text");
    command.arg("bench-client").arg("--contender").arg(contender).arg("--env").arg(bank);
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
        "{} ({}), beside {}: {reached}wanted {}: {verdict}",
        goal.what, goal.figure, goal.beside, goal.wanted
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_an_audit_that_failed_ends_with_it() {
        let outcome = |failed_audits: Vec<String>| PaperOutcome { goals: Vec::new(), failed_audits };
        assert_eq!(ending(&outcome(Vec::new())), Ending::Done);
        assert_eq!(ending(&outcome(vec!["libtp: the audit failed".into()])), Ending::Disagrees);
    }
}
