//! The formats in which rows are printed.

use std::io::{Result, Write};
use std::str::FromStr;

use serde_json::{Map, Number, Value as Json};
use unicode_width::UnicodeWidthStr;

use crate::rusqlite::types::Value;

/// A format of printed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Columns of equal width.
    Column,
    /// A table with lines around its cells.
    Table,
    /// Comma-separated values.
    Csv,
    /// For each statement, a JSON array of objects.
    Json,
    /// One value on each line, after the name of its column.
    Line,
    /// Values separated by `|`.
    List,
    /// One JSON object on each line, as `--json` demands.
    Objects,
}

/// The modes that have names for `--mode` and `.mode`.
const MODES: [(&str, Mode); 6] = [
    ("column", Mode::Column),
    ("table", Mode::Table),
    ("csv", Mode::Csv),
    ("json", Mode::Json),
    ("line", Mode::Line),
    ("list", Mode::List),
];

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Mode, String> {
        let found = MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
        found.ok_or_else(|| {
            let known = MODES.map(|(known, _)| known).join(", ");
            format!("there is no mode {name:?}; the modes are {known}")
        })
    }
}

/// The settings of the shell.
pub struct Settings {
    /// The format of printed rows.
    pub mode: Mode,
    /// Whether the modes csv and list print the names of the columns before the rows.
    pub has_headers: bool,
    /// Whether the time of each statement is printed.
    pub has_timer: bool,
    /// Whether standard output is a terminal. If so, control characters are escaped.
    pub is_terminal: bool,
}

impl Settings {
    /// Returns the default settings, for a terminal or for a file or pipe.
    pub fn of(is_terminal: bool) -> Settings {
        let mode = if is_terminal { Mode::Column } else { Mode::List };
        Settings { mode, has_headers: false, has_timer: false, is_terminal }
    }
}

/// Prints the rows of one statement.
pub struct Printer<'p> {
    settings: &'p Settings,
    columns: Vec<String>,
    /// In the modes column and table, the rows that are not printed yet: the widths of the columns depend on all rows.
    kept: Vec<Vec<String>>,
    count: u64,
}

impl<'p> Printer<'p> {
    /// Returns a printer of rows with these column names.
    pub fn new(settings: &'p Settings, columns: Vec<String>) -> Printer<'p> {
        Printer { settings, columns, kept: Vec::new(), count: 0 }
    }

    /// Prints a row. In the modes column and table, keeps the row until `end`.
    pub fn row(&mut self, row: &[Value], out: &mut impl Write) -> Result<()> {
        let is_first = self.count == 0;
        self.count += 1;
        if is_first && self.settings.has_headers && matches!(self.settings.mode, Mode::Csv | Mode::List) {
            self.line(&self.columns, out)?;
        }
        match self.settings.mode {
            Mode::Csv => csv_line(row.iter().map(bytes), out),
            Mode::List => self.line(&self.texts(row), out),
            Mode::Json => {
                out.write_all(if is_first { b"[" } else { b",\n" })?;
                serde_json::to_writer(&mut *out, &self.object(row)).map_err(std::io::Error::from)
            }
            Mode::Objects => {
                serde_json::to_writer(&mut *out, &self.object(row)).map_err(std::io::Error::from)?;
                out.write_all(b"\n")
            }
            Mode::Line => self.named_lines(row, is_first, out),
            Mode::Column | Mode::Table => {
                self.kept.push(self.texts(row));
                Ok(())
            }
        }
    }

    /// Prints the kept rows, or the end of a JSON array.
    pub fn end(&mut self, out: &mut impl Write) -> Result<()> {
        match self.settings.mode {
            Mode::Json if self.count > 0 => out.write_all(b"]\n"),
            Mode::Column if self.count > 0 => self.columns_of_equal_width(out),
            Mode::Table if self.count > 0 => self.table(out),
            _ => Ok(()),
        }
    }

    fn line(&self, texts: &[String], out: &mut impl Write) -> Result<()> {
        match self.settings.mode {
            Mode::Csv => csv_line(texts.iter().map(|text| text.clone().into_bytes()), out),
            _ => writeln!(out, "{}", texts.join("|")),
        }
    }

    fn named_lines(&self, row: &[Value], is_first: bool, out: &mut impl Write) -> Result<()> {
        if !is_first {
            writeln!(out)?;
        }
        let widest = self.columns.iter().map(|name| name.width()).max().unwrap_or(0);
        for (name, text) in self.columns.iter().zip(self.texts(row)) {
            writeln!(out, "{}{name} = {text}", " ".repeat(widest - name.width()))?;
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let width = |text: &String| text.lines().map(|line| line.width()).max().unwrap_or(0);
        let rows = std::iter::once(&self.columns).chain(&self.kept);
        rows.fold(vec![0; self.columns.len()], |widths, row| {
            widths.iter().zip(row).map(|(widest, text)| width(text).max(*widest)).collect()
        })
    }

    fn columns_of_equal_width(&self, out: &mut impl Write) -> Result<()> {
        let widths = self.widths();
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        for row in [&self.columns, &rules].into_iter().chain(&self.kept) {
            cells(row, &widths, ["", "  ", ""], out)?;
        }
        Ok(())
    }

    fn table(&self, out: &mut impl Write) -> Result<()> {
        let widths = self.widths();
        let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<String>>().join("+");
        writeln!(out, "+{rule}+")?;
        cells(&self.columns, &widths, ["| ", " | ", " |"], out)?;
        writeln!(out, "+{rule}+")?;
        for row in &self.kept {
            cells(row, &widths, ["| ", " | ", " |"], out)?;
        }
        writeln!(out, "+{rule}+")
    }

    fn texts(&self, row: &[Value]) -> Vec<String> {
        row.iter().map(|value| self.shown(text(value))).collect()
    }

    /// Escapes characters that control a terminal, if the output is a terminal.
    fn shown(&self, text: String) -> String {
        let controls = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
        if !self.settings.is_terminal || !text.contains(controls) {
            return text;
        }
        let mut shown = String::with_capacity(text.len() + 8);
        for character in text.chars() {
            match controls(character) {
                true => shown.extend(character.escape_default()),
                false => shown.push(character),
            }
        }
        shown
    }

    fn object(&self, row: &[Value]) -> Map<String, Json> {
        self.columns.iter().cloned().zip(row.iter().map(json)).collect()
    }
}

/// Prints the cells of a row, in as many lines as the cell with the most lines has.
fn cells(row: &[String], widths: &[usize], [begin, between, end]: [&str; 3], out: &mut impl Write) -> Result<()> {
    let height = row.iter().map(|text| text.lines().count()).max().unwrap_or(1).max(1);
    for line in 0..height {
        let padded = row.iter().zip(widths).map(|(text, width)| {
            let part = text.lines().nth(line).unwrap_or("");
            format!("{part}{}", " ".repeat(width - part.width()))
        });
        let text = format!("{begin}{}{end}", padded.collect::<Vec<String>>().join(between));
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn csv_line(fields: impl Iterator<Item = Vec<u8>>, out: &mut impl Write) -> Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).map_err(std::io::Error::other)?;
    let line = writer.into_inner().map_err(|error| std::io::Error::other(error.to_string()))?;
    out.write_all(&line)
}

/// Returns a value as text. NULL becomes the empty text.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_infinite() => if *number > 0.0 { "Inf" } else { "-Inf" }.to_owned(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Blob(bytes) => bytes.clone(),
        other => text(other).into_bytes(),
    }
}

/// Returns a value as JSON. A blob becomes hexadecimal digits, and an infinite number becomes null.
fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => Json::from(*number),
        Value::Real(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Blob(bytes) => Json::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(mode: Mode) -> String {
        let settings = Settings { mode, has_headers: true, has_timer: false, is_terminal: true };
        let mut printer = Printer::new(&settings, vec!["id".into(), "name".into()]);
        let mut out = Vec::new();
        for row in [
            [Value::Integer(1), Value::Text("a, \"b\"".into())],
            [Value::Real(0.5), Value::Text("雪\u{1b}".into())],
            [Value::Null, Value::Blob(vec![0x41, 0x0a])],
        ] {
            printer.row(&row, &mut out).expect("memory is written");
        }
        printer.end(&mut out).expect("memory is written");
        String::from_utf8(out).expect("the text is UTF-8")
    }

    #[test]
    fn rows_are_printed_in_each_mode() {
        assert_eq!(printed(Mode::List), "id|name\n1|a, \"b\"\n0.5|雪\\u{1b}\n|A\n\n");
        assert_eq!(printed(Mode::Csv), "id,name\n1,\"a, \"\"b\"\"\"\n0.5,雪\u{1b}\n,\"A\n\"\n");
        assert_eq!(
            printed(Mode::Json),
            "[{\"id\":1,\"name\":\"a, \\\"b\\\"\"},\n{\"id\":0.5,\"name\":\"雪\\u001b\"},\n{\"id\":null,\"name\":\"410a\"}]\n"
        );
        assert_eq!(printed(Mode::Column), "id   name\n---  --------\n1    a, \"b\"\n0.5  雪\\u{1b}\n     A\n");
        assert!(printed(Mode::Table).starts_with("+-----+----------+\n| id  | name     |\n+-----+"));
        assert!(printed(Mode::Line).starts_with("  id = 1\nname = a, \"b\"\n\n  id = 0.5\n"));
        assert_eq!(printed(Mode::Objects).lines().count(), 3);
    }

    #[test]
    fn a_mode_is_found_by_its_name() {
        assert_eq!("table".parse(), Ok(Mode::Table));
        assert!("tables".parse::<Mode>().is_err_and(|error| error.contains("column, table")));
    }
}
