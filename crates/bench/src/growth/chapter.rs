//! A figure with its counts and the reasons for its bends; and the report made from all figures.

use std::fmt::Write as _;
use std::path::Path;

use super::bends::{Bend, Seen, TOLERANCE};
use super::space::mib;
use super::tree::Size;
use crate::error::Result;
use crate::paper::{line_of_run, number, spelled, table, write_files, Build, By, Figure, Machine};

/// A part of the report.
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
            "Nanoseconds an operation, each in a transaction of its own with relaxed durability, on records with keys \
             of 16 bytes that are drawn from a fixed seed. The sizes of a figure are open at once and measured in \
             turns. Each value is a median, with the least and the greatest value in brackets. Each value that is \
             read is checked, and the records and their updates are counted at the end. All samples are in \
             `raw.jsonl`.\n\nUnder each figure are the counted quantities. For every two neighbouring places they \
             explain a cost at the larger place: the cost at the smaller place times the ratio of the tree's heights, \
             and the cost of lines of memory that are farther away, of pages that are read and written, and of bytes. \
             Where most rounds took more than {TOLERANCE} times the explained cost, the line says **cliff?**. By \
             processes it says so where most rounds took more than {TOLERANCE} times as long as the fastest smaller \
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
            let _ = writeln!(text, "None, of {} steps.", bends().count());
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
