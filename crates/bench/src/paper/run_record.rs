//! The record of a run: its progress, the file of samples, and the failed audits.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::figure::Series;
use super::rounds::{in_turns, Case, Order};
use super::News;
use crate::error::{Error, Result};

/// The record of a run that makes a report.
pub(crate) struct RunRecord<'w> {
    watch: &'w mut dyn FnMut(News<'_>),
    samples: File,
    path: PathBuf,
    /// Descriptions of the failed audits.
    pub(crate) failed_audits: Vec<String>,
}

impl<'w> RunRecord<'w> {
    /// Makes the report's directory and the file of samples in it.
    ///
    /// # Errors
    /// `File` if the directory or the file cannot be made.
    pub(crate) fn begin(out: &Path, watch: &'w mut dyn FnMut(News<'_>)) -> Result<RunRecord<'w>> {
        std::fs::create_dir_all(out).map_err(Error::file("make", out))?;
        let path = out.join("raw.jsonl");
        let samples = File::create(&path).map_err(Error::file("make", &path))?;
        Ok(RunRecord { watch, samples, path, failed_audits: Vec::new() })
    }

    /// Reports progress to the watcher.
    pub(crate) fn tell(&mut self, news: News<'_>) {
        (self.watch)(news);
    }

    /// Reports the current work.
    pub(crate) fn doing(&mut self, what: &str) {
        self.tell(News::Doing(what));
    }

    /// Adds a line to the file of samples.
    ///
    /// # Errors
    /// `File` if the file cannot be written.
    pub(crate) fn keep(&mut self, line: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string(line).map_err(|why| Error::Settings(why.to_string()))?;
        writeln!(self.samples, "{text}").map_err(Error::file("write", &self.path))
    }

    /// Measures the samples of a figure's cases. Writes each sample to the file at once, so that an interrupted run
    /// leaves its samples.
    ///
    /// # Errors
    /// `File` if the file of samples cannot be written.
    pub(crate) fn in_turns(
        &mut self,
        figure: &str,
        cases: &mut [Case<'_>],
        order: Order,
        rounds: u32,
    ) -> Result<Vec<Series>> {
        let (run_record, mut kept) = (RefCell::new(self), Ok(()));
        let mut watch = |what: &str| run_record.borrow_mut().doing(what);
        let series = in_turns(figure, cases, order, rounds, &mut watch, &mut |line| {
            let mut run_record = run_record.borrow_mut();
            if let (true, Some(why)) = (line.audit_failed, &line.refused) {
                run_record.failed_audits.push(format!("{figure}, {}, {}: {why}", line.series, line.x));
            }
            // Keeps the first error of a write, which is returned at the end.
            let now = run_record.keep(&line);
            kept = std::mem::replace(&mut kept, Ok(())).and(now);
        });
        kept.map(|()| series)
    }
}

/// Returns the parts whose names begin with one of the chosen names; all parts if no name was chosen.
///
/// # Errors
/// `Settings`, with the names of all parts, if no part has a chosen name.
pub(crate) fn wanted<'p, P>(parts: &'p [(&'static str, P)], only: &[String]) -> Result<Vec<&'p (&'static str, P)>> {
    let is_wanted = |part: &str| only.is_empty() || only.iter().any(|name| part.starts_with(name.as_str()));
    let wanted: Vec<_> = parts.iter().filter(|(name, _)| is_wanted(name)).collect();
    if wanted.is_empty() {
        let known: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        return Err(Error::Settings(format!("there is no figure {}; there are {}", only.join(", "), known.join(", "))));
    }
    Ok(wanted)
}
