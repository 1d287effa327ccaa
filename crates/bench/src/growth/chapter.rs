//! The report: a chapter for each figure, with its counts and the reasons for its rises.

use std::fmt::Write as _;
use std::path::Path;

use super::bends::{Bend, Seen, TOLERANCE};
use super::space::mib;
use super::tree::Size;
use crate::error::Result;
use crate::paper::{line_of_run, number, spelled, table, write_files, Build, By, Figure, Machine};

/// A chapter of the report: a figure, its counts, and its steps.
pub(super) struct Chapter {
    pub figure: Figure,
    pub counted: Vec<Counted>,
    pub bends: Vec<Bend>,
}

/// The counts of an operation on a database.
pub(super) struct Counted {
    pub operation: &'static str,
    pub size: Size,
    /// Bytes of the file.
    pub bytes: u64,
    pub seen: Seen,
}

/// The report.
pub(super) struct Report<'r> {
    pub machine: &'r Machine,
    pub build: &'r Build,
    pub command: &'r str,
    pub seconds: f64,
    pub chapters: &'r [Chapter],
}

impl Report<'_> {
    /// Writes `report.md` and a picture of each figure into `directory`.
    ///
    /// # Errors
    /// `File` if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_files(directory, self.chapters.iter().map(|chapter| &chapter.figure), &self.markdown())
    }

    fn markdown(&self) -> String {
        let mut text = String::from("# What growth costs\n\n");
        text.push_str(&line_of_run(self.command, self.seconds, self.machine, self.build, &self.machine.load));
        let _ = writeln!(
            text,
            "Figures are nanoseconds per operation. Each operation is a transaction with relaxed durability, on \
             records with keys of 16 bytes that are drawn from a fixed seed. The databases of all sizes of a figure \
             are open at the same time, and their rounds alternate. Each figure is a median, with the least and the \
             greatest value in brackets. The benchmark checks each value that it reads, and at the end counts the \
             records and their updates. All samples are in `raw.jsonl`.\n\nUnder each figure are the counted \
             quantities. For a step between two neighbouring places, they explain the following cost at the larger \
             place: the cost at the smaller place times the ratio of the tree's heights, plus the cost of slower loads \
             from memory, of pages read and written, and of longer values. If most rounds took more than {TOLERANCE} \
             times the explained cost, the step is marked with **cliff?**. In the figure by processes, a number \
             of processes is marked if most rounds took more than {TOLERANCE} times as long as with the fastest smaller \
             number of processes.\n",
        );
        self.write_cliffs(&mut text);
        self.chapters.iter().for_each(|chapter| chapter.write(&mut text));
        text
    }

    fn write_cliffs(&self, text: &mut String) {
        text.push_str("## Cliffs\n\n");
        let bends = || self.chapters.iter().flat_map(|chapter| &chapter.bends);
        for bend in bends().filter(|bend| bend.is_cliff) {
            let _ = writeln!(text, "* {}", bend.text);
        }
        if bends().all(|bend| !bend.is_cliff) {
            let _ = writeln!(text, "No cliff in {} steps.", bends().count());
        }
    }
}

impl Chapter {
    fn write(&self, text: &mut String) {
        let figure = &self.figure;
        let _ = writeln!(text, "\n## {}: {}\n\n{}\n", figure.id, figure.title, figure.here);
        let _ = writeln!(text, "![{}]({}.svg)\n", figure.title, figure.id);
        table(figure, By::Place, text);
        if !self.counted.is_empty() {
            self.write_counted(text);
        }
        text.push('\n');
        figure.notes.iter().for_each(|note| {
            let _ = writeln!(text, "* {note}");
        });
        self.bends.iter().for_each(|bend| {
            let _ = writeln!(text, "* {}", bend.text);
        });
    }

    fn write_counted(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n| {} | records | file | height | operation | misses | pages written | evictions | bytes of log |\n\
             |---|---|---|---|---|---|---|---|---|",
            self.figure.x.name
        );
        for Counted { operation, size, bytes, seen } in &self.counted {
            let (counts, records) = (&seen.counts, spelled(number(size.records)));
            let [x, misses, writes, evictions, log] =
                [seen.x, counts.misses, counts.writes, counts.evictions, counts.log_bytes].map(spelled);
            let (file, height) = (mib(*bytes), seen.height);
            let _ = writeln!(
                text,
                "| {x} | {records} | {file} | {height} | {operation} | {misses} | {writes} | {evictions} | {log} |"
            );
        }
    }
}
