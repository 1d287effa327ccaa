//! Runs the statements of a text and prints their rows.

use std::io::Write;
use std::time::Instant;

use libtp_console::failure::Result;

use crate::format::{Printer, Settings};
use crate::rusqlite::fallible_iterator::FallibleIterator;
use crate::rusqlite::types::{Value, ValueRef};
use crate::rusqlite::{Batch, Connection, Statement};
use crate::sentence;
use crate::sink::Sink;

/// The numbers of the columns id, parent and detail in the rows of EXPLAIN QUERY PLAN.
const PLAN: [usize; 3] = [0, 1, 3];

/// Runs the statements of a text, up to the first statement that fails.
pub fn run(connection: &Connection, text: &str, settings: &Settings, sink: &mut Sink<'_>) -> Result<()> {
    let mut batch = Batch::new(connection, text);
    while let Some(mut statement) = batch.next().map_err(sentence)? {
        let begin = Instant::now();
        let rows = match is_plan(&statement) {
            true => print_plan(&mut statement, sink)?,
            false => print(&mut statement, settings, sink)?,
        };
        if settings.has_timer {
            let written = writeln!(sink, "time {:.6} s, {rows} rows", begin.elapsed().as_secs_f64());
            written.map_err(|error| sink.failed(error))?;
        }
    }
    Ok(())
}

fn is_plan(statement: &Statement<'_>) -> bool {
    statement.is_explain() == 2
}

/// Prints the rows of a statement. Returns their number.
fn print(statement: &mut Statement<'_>, settings: &Settings, sink: &mut Sink<'_>) -> Result<u64> {
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let (width, mut count) = (columns.len(), 0);
    let mut printer = Printer::new(settings, columns);
    let mut rows = statement.query([]).map_err(sentence)?;
    while let Some(row) = rows.next().map_err(sentence)? {
        count += 1;
        let values =
            (0..width).map(|column| row.get_ref(column).map(owned)).collect::<std::result::Result<Vec<_>, _>>();
        let values = values.map_err(sentence)?;
        printer.row(&values, sink).map_err(|error| sink.failed(error))?;
    }
    printer.end(sink).map_err(|error| sink.failed(error))?;
    Ok(count)
}

/// Returns a copy of a value. In a text, bytes that are not UTF-8 become replacement characters.
pub fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Prints a plan as a tree. Returns the number of its steps.
fn print_plan(statement: &mut Statement<'_>, sink: &mut Sink<'_>) -> Result<u64> {
    let mut steps: Vec<(i64, usize)> = Vec::new();
    let mut rows = statement.query([]).map_err(sentence)?;
    while let Some(row) = rows.next().map_err(sentence)? {
        let [id, parent, detail] = PLAN;
        let id: i64 = row.get(id).map_err(sentence)?;
        let parent: i64 = row.get(parent).map_err(sentence)?;
        let detail: String = row.get(detail).map_err(sentence)?;
        let depth = steps.iter().rev().find(|(known, _)| *known == parent).map_or(0, |(_, depth)| depth + 1);
        steps.push((id, depth));
        writeln!(sink, "{}{detail}", "  ".repeat(depth)).map_err(|error| sink.failed(error))?;
    }
    Ok(steps.len() as u64)
}
