//! The kept figures: a table in docs/instructions.md between two markers, so that the comparison reads the same figures
//! as a reader of the document.

use std::fs;
use std::path::Path;

/// Where the figures are kept.
pub const DOCUMENT: &str = "docs/instructions.md";
const BEGIN: &str = "<!-- counts: begin -->";
const END: &str = "<!-- counts: end -->";
const HEAD: &str = "| path | instructions |\n|---|---|\n";
const WITH: &str = "Counted with ";

/// The cost of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The path.
    pub name: String,
    /// Instructions of one operation.
    pub instructions: f64,
}

/// The document's contents.
pub struct Kept {
    /// The compiler and the other programs on which counts depend.
    pub with: String,
    counts: Vec<Count>,
    before: String,
    after: String,
}

impl Kept {
    /// Reads the document.
    ///
    /// # Errors
    /// When the document is missing or has lost its markers, or a row is no count.
    pub fn read(root: &Path) -> Result<Kept, String> {
        let text =
            fs::read_to_string(root.join(DOCUMENT)).map_err(|error| format!("{DOCUMENT} cannot be read: {error}"))?;
        Kept::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Kept, String> {
        let missing = || format!("{DOCUMENT} has lost its markers {BEGIN} and {END}: put them back");
        let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
        let (table, after) = rest.split_once(END).ok_or_else(missing)?;
        let with =
            table.lines().find_map(|line| line.strip_prefix(WITH)).unwrap_or("").trim_end_matches('.').to_owned();
        let rows = table.lines().filter(|line| line.starts_with("| ") && *line != HEAD.lines().next().unwrap_or(""));
        let counts = rows.map(|row| count_of(row).ok_or_else(|| format!("{DOCUMENT}: {row:?} is no count")));
        Ok(Kept { with, counts: counts.collect::<Result<_, _>>()?, before: before.into(), after: after.into() })
    }

    /// Returns the paths in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.counts.iter().map(|count| count.name.as_str())
    }

    /// Returns the instructions kept for a path.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.counts.iter().find(|count| count.name == name).map(|count| count.instructions)
    }

    /// Returns the document with the counts `now`. If `are_all` is true, figures of paths that were not counted are
    /// removed; otherwise they stay.
    #[must_use]
    pub fn blessed(self, now: &[Count], with: &str, are_all: bool) -> Kept {
        let mut counts: Vec<Count> = if are_all { Vec::new() } else { self.counts };
        for count in now {
            match counts.iter_mut().find(|kept| kept.name == count.name) {
                Some(kept) => kept.instructions = count.instructions,
                None => counts.push(count.clone()),
            }
        }
        Kept { with: with.into(), counts, ..self }
    }

    /// Writes the document.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        fs::write(root.join(DOCUMENT), self.text()).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))
    }

    fn text(&self) -> String {
        let row = |count: &Count| format!("| {} | {:.1} |\n", count.name, count.instructions);
        let rows: String = self.counts.iter().map(row).collect();
        format!("{}{BEGIN}\n{WITH}{}.\n\n{HEAD}{rows}{END}{}", self.before, self.with, self.after)
    }
}

fn count_of(row: &str) -> Option<Count> {
    let mut cells = row.trim_matches('|').split('|').map(str::trim);
    let (name, instructions) = (cells.next()?, cells.next()?);
    Some(Count { name: name.into(), instructions: instructions.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Kept {
        let rows = "| latch | 30.0 |\n| get | 900.5 |\n";
        let text = format!("# I\n{BEGIN}\n{WITH}rustc 1.95.0.\n\n{HEAD}{rows}{END}\nend\n");
        let kept = Kept::parse(&text).expect("the sample is well formed");
        assert_eq!(kept.text(), text, "the text that is read is written again");
        kept
    }

    fn count(name: &str, instructions: f64) -> Count {
        Count { name: name.into(), instructions }
    }

    #[test]
    fn figures_that_are_read_are_written_unchanged() {
        let kept = sample();
        assert_eq!((kept.with.as_str(), kept.of("get"), kept.of("put")), ("rustc 1.95.0", Some(900.5), None));
    }

    #[test]
    fn blessing_some_paths_leaves_the_other_paths() {
        let kept = sample().blessed(&[count("get", 800.0)], "rustc 1.96.0", false);
        assert_eq!((kept.of("get"), kept.of("latch")), (Some(800.0), Some(30.0)));
        let kept = kept.blessed(&[count("get", 700.0)], "rustc 1.96.0", true);
        assert_eq!((kept.of("get"), kept.of("latch"), kept.with.as_str()), (Some(700.0), None, "rustc 1.96.0"));
    }

    #[test]
    fn a_document_without_markers_or_with_a_row_that_is_no_count_is_refused() {
        assert!(Kept::parse("# nothing").is_err());
        assert!(Kept::parse(&format!("{BEGIN}\n{HEAD}| get | many |\n{END}")).is_err());
    }
}
