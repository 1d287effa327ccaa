//! The report of `tp bench paper` in Markdown: the goals, and a table and a picture of each figure.

use std::fmt::Write as _;
use std::path::Path;

use super::build::Build;
use super::figure::{spelled, Figure, Goal};
use super::machine::Machine;
use super::tables::{line_of_run, table, write_files, By};
use crate::error::Result;

/// The contents of a report.
pub struct Report<'r> {
    /// The machine of the measurements.
    pub machine: &'r Machine,
    /// The program's source and compiler.
    pub build: &'r Build,
    /// The command that the user typed.
    pub command: &'r str,
    /// The names of the engines, each with its version and settings.
    pub peers: &'r [(String, String)],
    /// The figures.
    pub figures: &'r [Figure],
    /// The goals.
    pub goals: &'r [Goal],
    /// Duration of the run.
    pub seconds: f64,
    /// The part of the processors' time that other machines on the same hardware used during the run, in percent;
    /// `None` if unknown.
    pub stolen_percent: Option<f64>,
    /// Remarks about the whole run.
    pub notes: &'r [String],
}

impl Report<'_> {
    /// Writes `report.md` and a picture of each figure into `directory`.
    ///
    /// # Errors
    /// `File` if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_files(directory, self.figures.iter(), &self.markdown())
    }

    /// Returns the report's text.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# The papers' figures, measured here\n\n");
        let stolen =
            self.stolen_percent.map_or_else(|| "an unknown part".to_owned(), |percent| format!("{percent:.1} %"));
        let load = format!("{}; {stolen} of the processors' time stolen by other machines", self.machine.load);
        text.push_str(&line_of_run(self.command, self.seconds, self.machine, self.build, &load));
        text.push_str(
            "A round measures each case of a figure once; every other round has the reverse order. Each value is the median over the rounds, \
             with the least and the greatest value in brackets. A rate of several clients is the rate of all of them together. A goal \
             compares two values of the same round by their ratio, and its value is the median of the ratios of all rounds. Every bank was \
             audited at the end. If a bank's audit failed, its figures are not shown, and this report has the reason. All samples are in `raw.jsonl`.\n\n",
        );
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "* {note}");
        });
        if !self.peers.is_empty() {
            text.push_str("\n| engine | version and settings |\n|---|---|\n");
            for (name, about) in self.peers {
                let _ = writeln!(text, "| {name} | {about} |");
            }
        }
        self.write_goals(&mut text);
        for figure in self.figures {
            let _ = writeln!(text, "\n## {}: {}\n\n{}\n\n{}\n", figure.id, figure.title, figure.paper, figure.here);
            table(figure, By::Series, &mut text);
            for note in &figure.notes {
                let _ = writeln!(text, "\n{note}");
            }
            if let (Some(part), false) = (super::part_of(&figure.id), self.command.contains("--only")) {
                let _ = writeln!(
                    text,
                    "\nTo measure this part again: `{} --only {part}`, with another directory",
                    self.command
                );
            }
            let _ = writeln!(text, "\n![{}]({}.svg)", figure.title, figure.id);
        }
        text
    }

    fn write_goals(&self, text: &mut String) {
        if self.goals.is_empty() {
            return;
        }
        text.push_str("\n| goal | figure | compared with | wanted | reached | |\n|---|---|---|---|---|---|\n");
        for goal in self.goals {
            let reached = match (goal.reached, goal.spread) {
                (Some(reached), Some((least, greatest))) if least < greatest => {
                    format!("{} ({} to {})", spelled(reached), spelled(least), spelled(greatest))
                }
                (Some(reached), _) => spelled(reached),
                (None, _) => "not measured".to_owned(),
            };
            let verdict = match goal.is_met() {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "",
            };
            let Goal { what, figure, beside, wanted, .. } = goal;
            let _ = writeln!(text, "| {what} | {figure} | {beside} | {} | {reached} | {verdict} |", spelled(*wanted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::figure::{Axis, Place, Point, Series};

    #[test]
    fn a_report_has_a_table_and_a_picture_of_each_figure_and_the_reasons_for_missing_measurements() {
        let point = |x: f64, samples: &[f64], refused: Option<&str>| Point {
            x: Place::Number(x),
            samples: samples.to_vec(),
            refused: refused.map(str::to_owned),
        };
        let series = vec![
            Series {
                name: "libtp".into(),
                points: vec![point(1.0, &[1000.0, 3000.0, 2000.0], None), point(2.0, &[5.0], None)],
            },
            Series { name: "peer".into(), points: vec![point(2.0, &[], Some("it has one process"))] },
        ];
        let figure = Figure {
            id: "libtp-8".into(),
            title: "Many".into(),
            paper: "LIBTP figure 8.".into(),
            here: "Processes.".into(),
            x: Axis::logarithmic("processes"),
            y: Axis::linear("a second"),
            series,
            notes: vec!["A note.".into()],
        };
        let goal = |reached| Goal {
            what: "faster".into(),
            figure: "libtp-8".into(),
            wanted: 2.0,
            reached,
            spread: reached.map(|reached| (reached - 0.25, reached)),
            beside: "peer".into(),
        };
        let directory = tempfile::tempdir().unwrap();
        let report = Report {
            machine: &Machine::look(directory.path()),
            build: &Build { commit: "0123456789ab".into(), compiler: "rustc 1.99.0".into() },
            command: "tp bench paper",
            peers: &[("peer".into(), "1.0".into())],
            figures: &[figure],
            goals: &[goal(Some(2.5)), goal(Some(1.5)), goal(None)],
            seconds: 1.0,
            stolen_percent: Some(3.21),
            notes: &["libtp-9: not measured: no room".into()],
        };
        report.write(directory.path()).unwrap();
        let text = std::fs::read_to_string(directory.path().join("report.md")).unwrap();
        for words in [
            "| libtp | 2,000 (1,000 to 3,000) | 5 |",
            "| peer |  | not measured |",
            "peer, 2: not measured: it has one process",
            "| 2.50 (2.25 to 2.50) | met |",
            "| 1.50 (1.25 to 1.50) | **missed** |",
            "3.2 % of the processors' time stolen",
            "commit 0123456789ab, rustc 1.99.0.",
            "* libtp-9: not measured: no room\n",
            "To measure this part again: `tp bench paper --only libtp-8`",
            "not measured |  |",
            "![Many](libtp-8.svg)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(std::fs::read_to_string(directory.path().join("libtp-8.svg")).unwrap().contains("<svg"));
    }
}
