//! The report: a table for each figure in Markdown, its picture, and every sample.

use std::fmt::Write as _;
use std::path::Path;

use super::figure::{spelled, Figure, Goal, Place, Point};
use super::machine::Machine;
use crate::error::{Error, Result};

/// What a report is made of.
pub struct Report<'r> {
    /// What it was measured on.
    pub machine: &'r Machine,
    /// The command line that made it.
    pub command: &'r str,
    /// The peers with their versions and settings.
    pub peers: &'r [(String, String)],
    /// The figures.
    pub figures: &'r [Figure],
    /// The goals.
    pub goals: &'r [Goal],
    /// How long it took.
    pub seconds: f64,
    /// What is to be known of the whole.
    pub notes: &'r [String],
}

impl Report<'_> {
    /// Writes `report.md` and a picture of each figure into `directory`.
    ///
    /// # Errors
    /// `File` if one cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        for figure in self.figures {
            write(&directory.join(format!("{}.svg", figure.id)), &super::draw::svg(figure)?)?;
        }
        write(&directory.join("report.md"), &self.markdown())
    }

    /// The report's text.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# The papers' figures, measured here\n\n");
        let machine = self.machine;
        let _ = writeln!(
            text,
            "`{}` ({:.0} s). {} x {}, {} GiB, {}, Linux {}, {}; load when it began {}. libtp {}.\n",
            self.command,
            self.seconds,
            machine.processors,
            machine.processor,
            machine.memory_gib,
            machine.system,
            machine.kernel,
            machine.filesystem,
            machine.load,
            machine.libtp,
        );
        text.push_str(
            "Each figure's cases were measured in turns; shown are medians, and the least and the greatest in brackets. Every bank was \
             audited after every run. All samples are in `raw.jsonl`.\n\n",
        );
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "* {note}");
        });
        if !self.peers.is_empty() {
            text.push_str("\n| peer | version, and how it was set |\n|---|---|\n");
            for (name, about) in self.peers {
                let _ = writeln!(text, "| {name} | {about} |");
            }
        }
        self.write_goals(&mut text);
        for figure in self.figures {
            let _ = writeln!(text, "\n## {}: {}\n\n{}\n\n{}\n", figure.id, figure.title, figure.paper, figure.here);
            table(figure, &mut text);
            for note in &figure.notes {
                let _ = writeln!(text, "\n{note}");
            }
            let _ = writeln!(text, "\n![{}]({}.svg)", figure.title, figure.id);
        }
        text
    }

    fn write_goals(&self, text: &mut String) {
        if self.goals.is_empty() {
            return;
        }
        text.push_str("\n| goal | figure | beside | wanted | reached | |\n|---|---|---|---|---|---|\n");
        for goal in self.goals {
            let reached = goal.reached.map_or_else(|| "not measured".to_owned(), spelled);
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

/// A row for each series, a column for each place.
fn table(figure: &Figure, text: &mut String) {
    let places = figure.places();
    let _ = write!(text, "| {} by {} |", figure.y.name, figure.x.name);
    places.iter().for_each(|place| {
        let _ = write!(text, " {place} |");
    });
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(places.len()));
    let mut refused: Vec<String> = Vec::new();
    for series in &figure.series {
        let _ = write!(text, "| {} |", series.name);
        for place in &places {
            let point = series.points.iter().find(|point| point.x == *place);
            let _ = write!(text, " {} |", cell(point, &series.name, place, &mut refused));
        }
        text.push('\n');
    }
    if !refused.is_empty() {
        text.push('\n');
    }
    refused.iter().for_each(|why| {
        let _ = writeln!(text, "* {why}");
    });
}

fn cell(point: Option<&Point>, series: &str, place: &Place, refused: &mut Vec<String>) -> String {
    let Some(point) = point else { return String::new() };
    if let Some(why) = &point.refused {
        refused.push(format!("{series}, {place}: not measured: {why}"));
        return "not measured".to_owned();
    }
    match (point.median(), point.spread()) {
        (Some(median), Some((least, greatest))) if point.samples.len() > 1 => {
            format!("{} ({} to {})", spelled(median), spelled(least), spelled(greatest))
        }
        (Some(median), _) => spelled(median),
        (None, _) => "-".to_owned(),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::figure::{Axis, Series};

    #[test]
    fn a_report_has_a_table_and_a_picture_of_each_figure_and_says_what_could_not_be_measured() {
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
            beside: "peer".into(),
        };
        let directory = tempfile::tempdir().unwrap();
        let report = Report {
            machine: &Machine::look(directory.path()),
            command: "tp bench paper",
            peers: &[("peer".into(), "1.0".into())],
            figures: &[figure],
            goals: &[goal(Some(2.5)), goal(Some(1.5)), goal(None)],
            seconds: 1.0,
            notes: &[],
        };
        report.write(directory.path()).unwrap();
        let text = std::fs::read_to_string(directory.path().join("report.md")).unwrap();
        for words in [
            "| libtp | 2,000 (1,000 to 3,000) | 5 |",
            "| peer |  | not measured |",
            "peer, 2: not measured: it has one process",
            "| 2.5 | met |",
            "| 1.5 | **missed** |",
            "not measured |  |",
            "![Many](libtp-8.svg)",
        ] {
            assert!(
                text.contains(words)
                    || words == "| 2.5 | met |" && text.contains("| 2.50 | met |")
                    || words == "| 1.5 | **missed** |" && text.contains("| 1.50 | **missed** |"),
                "{words}: {text}"
            );
        }
        assert!(std::fs::read_to_string(directory.path().join("libtp-8.svg")).unwrap().contains("<svg"));
    }
}
