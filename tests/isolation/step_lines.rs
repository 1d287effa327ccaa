//! A transaction's steps as a line of words, in which a process reports them.
//!
//! ```text
//! R7:10,11          read list 7            A7:10,11>12       read list 7 and appended 12
//! c3:40             read cell 3            w3:40>41          replaced 40 in cell 3 by 41
//! S2:0-99:5.60,9.61 scanned range 2, places 0 to 99, and found two rows
//! I2:5.60           inserted a row         D2:5.60           deleted the row
//! P7:13             appended 13 to list 7 without reading it
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;
use std::str::FromStr;

use crate::history::{Row, Step};

/// Returns the line for these steps.
pub fn tell(steps: &[Step]) -> String {
    let mut line = String::new();
    let list = |elements: &[u64]| elements.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let row = |row: &Row| format!("{}.{}", row.place, row.element);
    for step in steps {
        let separator = if line.is_empty() { "" } else { " " };
        let written = match step {
            Step::ReadList { list: of, elements } => write!(line, "{separator}R{of}:{}", list(elements)),
            Step::Append { list: of, before, element } => write!(line, "{separator}A{of}:{}>{element}", list(before)),
            Step::Push { list: of, element } => write!(line, "{separator}P{of}:{element}"),
            Step::ReadCell { cell, found } => write!(line, "{separator}c{cell}:{found}"),
            Step::WriteCell { cell, before, element } => write!(line, "{separator}w{cell}:{before}>{element}"),
            Step::Scan { range, from, to, rows } => {
                let rows: Vec<String> = rows.iter().map(row).collect();
                write!(line, "{separator}S{range}:{from}-{to}:{}", rows.join(","))
            }
            Step::Insert { row: of } => write!(line, "{separator}I{}:{}", of.range, row(of)),
            Step::Delete { row: of } => write!(line, "{separator}D{}:{}", of.range, row(of)),
        };
        written.expect("a string takes all");
    }
    line
}

/// Returns the steps of a line, or `None` if the line is malformed, for example because a kill cut it off.
pub fn understand(line: &str) -> Option<Vec<Step>> {
    line.split(' ').filter(|word| !word.is_empty()).map(step).collect()
}

fn step(word: &str) -> Option<Step> {
    let (kind, rest) = word.split_at_checked(1)?;
    let (of, rest) = rest.split_once(':')?;
    let of: u32 = of.parse().ok()?;
    Some(match kind {
        "R" => Step::ReadList { list: of, elements: numbers(rest)? },
        "A" => {
            let (before, element) = rest.split_once('>')?;
            Step::Append { list: of, before: numbers(before)?, element: element.parse().ok()? }
        }
        "P" => Step::Push { list: of, element: rest.parse().ok()? },
        "c" => Step::ReadCell { cell: of, found: rest.parse().ok()? },
        "w" => {
            let (before, element) = rest.split_once('>')?;
            Step::WriteCell { cell: of, before: before.parse().ok()?, element: element.parse().ok()? }
        }
        "S" => {
            let (places, rows) = rest.split_once(':')?;
            let (from, to) = places.split_once('-')?;
            let rows = rows.split(',').filter(|row| !row.is_empty()).map(|one| row(of, one));
            let rows: Option<BTreeSet<Row>> = rows.collect();
            Step::Scan { range: of, from: from.parse().ok()?, to: to.parse().ok()?, rows: rows? }
        }
        "I" => Step::Insert { row: row(of, rest)? },
        "D" => Step::Delete { row: row(of, rest)? },
        _ => return None,
    })
}

fn numbers<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').filter(|one| !one.is_empty()).map(|one| one.parse().ok()).collect()
}

fn row(range: u32, text: &str) -> Option<Row> {
    let (place, element) = text.split_once('.')?;
    Some(Row { range, place: place.parse().ok()?, element: element.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_step_is_understood() {
        let one = Row { range: 2, place: 5, element: 60 };
        let two = Row { range: 2, place: 9, element: 61 };
        let steps = vec![
            Step::ReadList { list: 7, elements: vec![10, 11] },
            Step::ReadList { list: 8, elements: vec![] },
            Step::Append { list: 7, before: vec![10, 11], element: 12 },
            Step::Append { list: 8, before: vec![], element: 13 },
            Step::Push { list: 7, element: 13 },
            Step::ReadCell { cell: 3, found: 40 },
            Step::WriteCell { cell: 3, before: 40, element: 41 },
            Step::Scan { range: 2, from: 0, to: 99, rows: [one, two].into() },
            Step::Scan { range: 2, from: 0, to: 1, rows: BTreeSet::new() },
            Step::Insert { row: one },
            Step::Delete { row: two },
        ];
        assert_eq!(understand(&tell(&steps)), Some(steps));
        assert_eq!(understand(""), Some(vec![]));
        for cut in ["A7:10", "S2:0-9", "I2:5", "w3:40", "R", "x1:2"] {
            assert_eq!(understand(cut), None, "{cut}");
        }
    }
}
