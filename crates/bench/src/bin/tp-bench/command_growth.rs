//! `tp bench growth`: measures the cost of operations as a database grows, and writes a report with pictures. The
//! report names the steps whose rise in cost has no explanation.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use libtp_bench::growth::{run_growth, Growth, GrowthSettings};
use libtp_bench::paper::Contender;

use crate::command_paper::{build, client, show, typed};
use libtp_bank::BankDirectory;
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::Output;
use libtp_console::progress::Progress;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Directory for report.md, raw.jsonl and the pictures.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Measure only up to 1000000 records and 8 processes, which takes about a minute.
    #[arg(long)]
    quick: bool,
    /// Sizes of the databases of the figure growth-records, in records, such as 1000,10000. Default: the figure's own
    /// sizes.
    #[arg(long, value_name = "RECORDS", value_delimiter = ',')]
    records: Vec<u64>,
    /// Measure only figures whose names begin with this text, for example `growth-cache`. Default: all.
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    only: Vec<String>,
    /// Directory on a disk for the databases. Default: a new directory. The run removes everything that it makes there.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Arguments {
    /// Measures, and writes the report.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        let mut directory = BankDirectory::open(self.dir.as_deref(), "libtp-growth")?;
        if self.dir.is_none() {
            directory = directory.removed_at_end();
        }
        let own = BankDirectory::inside(directory.path(), "libtp-growth")?;
        let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
        let client = |contender: &Contender, bank: &Path| -> Command { client(&program, contender, bank) };
        let settings = GrowthSettings {
            out: self.out.clone(),
            disk: own.path().to_path_buf(),
            is_quick: self.quick,
            records: self.records.clone(),
            only: self.only.clone(),
            command: typed(),
            build: build(),
            client: &client,
        };
        let shown = output.may_draw();
        let mut bar: Option<Progress> = None;
        let growth = run_growth(&settings, &mut |news| show(&mut bar, shown, news))?;
        drop(bar);
        self.write(&growth, output)?;
        Ok(ending(&growth))
    }

    fn write(&self, growth: &Growth, output: &mut Output) -> Result<()> {
        let Growth { figures, steps, cliffs, failed_audits } = growth;
        let report = self.out.join("report.md");
        output.object(&serde_json::json!({
            "report": report, "figures": figures, "steps": steps, "cliffs": cliffs, "failed_audits": failed_audits,
        }))?;
        failed_audits.iter().try_for_each(|failed| output.line(failed))?;
        cliffs.iter().try_for_each(|cliff| output.line(cliff))?;
        output.line(format!("{steps} steps, {} of them with a rise in cost that has no explanation", cliffs.len()))?;
        output.line(format!("the report is {}", report.display()))
    }
}

/// Returns the ending of a run. With a failed audit, the run fails, because its figures cannot be trusted.
fn ending(growth: &Growth) -> Ending {
    Ending::of(growth.failed_audits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_a_failed_audit_ends_with_disagrees() {
        let growth = |failed_audits| Growth { figures: Vec::new(), steps: 0, cliffs: Vec::new(), failed_audits };
        assert_eq!(ending(&growth(Vec::new())), Ending::Done);
        assert_eq!(ending(&growth(vec!["growth-processes: the audit failed".into()])), Ending::Disagrees);
    }
}
