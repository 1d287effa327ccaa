//! The work of one process on many rows. The figure is the processor time of all its threads, including time in the
//! kernel.

use std::path::Path;
use std::time::Duration;

use rusqlite::{params, Connection, Result as Answer};
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;

use super::{begin, of, open, Side};
use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::random::Random;

/// A step of the work: statements on all rows of a table, or on many rows one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// Insert all rows of two tables, in one transaction.
    Insert,
    /// Make an index.
    CreateIndex,
    /// Find random rows by their key.
    PointSelect,
    /// Read all rows.
    Scan,
    /// Read all entries of an index.
    CoveringScan,
    /// Find, for each row, a row of another table.
    Join,
    /// Change a column of all rows.
    UpdateAll,
    /// Delete all rows, row by row.
    DeleteAll,
}

impl Step {
    /// All steps, in the order in which they run.
    pub const ALL: [Step; 8] = [
        Step::Insert,
        Step::CreateIndex,
        Step::PointSelect,
        Step::Scan,
        Step::CoveringScan,
        Step::Join,
        Step::UpdateAll,
        Step::DeleteAll,
    ];

    /// Returns the step's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Step::Insert => "bulk INSERT",
            Step::CreateIndex => "CREATE INDEX",
            Step::PointSelect => "point SELECT",
            Step::Scan => "scan",
            Step::CoveringScan => "covering scan",
            Step::Join => "join",
            Step::UpdateAll => "UPDATE of all",
            Step::DeleteAll => "DELETE of all",
        }
    }

    /// Runs the step. Returns a number that must be equal to `rows`.
    fn run(self, connection: &mut Connection, rows: u32) -> Answer<i64> {
        let number = |connection: &Connection, query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
        match self {
            Step::Insert => {
                let transaction = begin(connection)?;
                let mut random = Random(1);
                let mut row = transaction.prepare("INSERT INTO row (other, text, number) VALUES (?1, ?2, 1)")?;
                let mut other = transaction.prepare("INSERT INTO other VALUES (?1, 1)")?;
                for id in 1..=rows {
                    let to = random.below(rows) + 1;
                    row.execute(params![to, format!("the text of a row that has the number {id:8}")])?;
                    other.execute([id])?;
                }
                drop((row, other));
                transaction.commit()?;
                number(connection, "SELECT max(id) FROM row")
            }
            Step::CreateIndex => {
                connection.execute_batch("CREATE INDEX row_other ON row (other)")?;
                Ok(i64::from(rows))
            }
            Step::PointSelect => {
                let mut random = Random(2);
                let mut found = connection.prepare("SELECT number FROM row WHERE id = ?1")?;
                (0..rows).try_fold(0, |sum, _| {
                    let one: i64 = found.query_row([random.below(rows) + 1], |row| row.get(0))?;
                    Ok(sum + one)
                })
            }
            Step::Scan => number(connection, "SELECT sum(number) FROM row WHERE length(text) > 1"),
            Step::CoveringScan => number(connection, "SELECT count(*) FROM row INDEXED BY row_other WHERE other > 0"),
            Step::Join => {
                number(connection, "SELECT sum(o.one) FROM row r NOT INDEXED CROSS JOIN other o ON o.id = r.other")
            }
            Step::UpdateAll => {
                connection.execute_batch("UPDATE row SET number = number + 1")?;
                Ok(number(connection, "SELECT sum(number - 1) FROM row")?)
            }
            Step::DeleteAll => connection.execute("DELETE FROM row WHERE id > 0", []).map(|deleted| deleted as i64),
        }
    }
}

/// Runs all steps on a new database in `directory`. Returns the processor time of each step.
///
/// # Errors
/// `Engine` if SQLite refuses a call; `Settings` if a step gives a wrong answer.
pub fn measure(side: Side, directory: &Path, rows: u32) -> Result<Vec<(Step, Duration)>> {
    std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let mut connection = open(side, directory, Durability::Relaxed)?;
    connection
        .execute_batch(
            "CREATE TABLE row (id INTEGER PRIMARY KEY, other INTEGER NOT NULL, text TEXT NOT NULL, number INTEGER NOT NULL);
             CREATE TABLE other (id INTEGER PRIMARY KEY, one INTEGER NOT NULL);",
        )
        .map_err(of(side, "making the tables"))?;
    let mut times = Vec::new();
    for step in Step::ALL {
        let begun = processor_time();
        let found = step.run(&mut connection, rows).map_err(of(side, step.name()))?;
        times.push((step, processor_time().saturating_sub(begun)));
        if found != i64::from(rows) {
            let (side, step) = (side.name(), step.name());
            return Err(Error::Settings(format!("{side}, {step}: the result is {found} instead of {rows}")));
        }
    }
    Ok(times)
}

/// Returns the processor time of all threads of this process.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
