//! LIBTP figure 4: the time in which the shell gets a record, by one command for records, or by several commands of the
//! lock manager and the buffer manager.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use libtp::{Durability, Env, PageLock};

use crate::error::{Error, Result};
use crate::median::median;
use crate::random::Random;

use super::figure::{spelled, Axis, Figure, Place, Series};
use super::rounds::{Case, Sample};
use super::Paper;

const ID: &str = "libtp-4";
const PLACE: &str = "one process";
const CALLS: [&str; 2] = ["record call", "lock and buffer calls"];
const RECORDS: u32 = 10_000;
const RECORD_BYTES: u32 = 64;
/// Number of records on a page.
const ON_PAGE: u32 = 50;
/// Bytes of a page's head, which has the number of records on the page.
const HEAD_BYTES: u32 = 8;
/// Number of records of a sample.
const BATCH: usize = 1000;
/// Number of commands that get one record by the lock and buffer calls.
const COMMANDS: usize = 8;
/// The index of the answer that has the record, among the answers of these commands.
const ANSWER: usize = 4;

/// Measures both ways of getting random records, with one shell.
fn measured(paper: &mut Paper<'_>, directory: &Path) -> Result<Vec<Series>> {
    paper.run_record.doing("making the records");
    make(directory)?;
    let shell = std::cell::RefCell::new(Shell::start((paper.settings.shell)(directory))?);
    let mut cases = Vec::new();
    for (by_record, name) in [true, false].into_iter().zip(CALLS) {
        let (shell, mut random) = (&shell, Random(0x9e37_79b9_7f4a_7c15));
        let place = Place::Name(PLACE.to_owned());
        cases.push(Case::new(name, place, move || sample(&mut shell.borrow_mut(), by_record, &mut random)));
    }
    // One run of each case before the measurement warms the caches.
    cases.iter_mut().try_for_each(|case| (case.sample)().map(|_| ()))?;
    let series = paper.measure(ID, &mut cases, paper.pace.rounds.max(5))?;
    drop(cases);
    shell.into_inner().end()?;
    Ok(series)
}

/// Makes the figure.
pub(super) fn figure_4(paper: &mut Paper<'_>) -> Result<()> {
    let place = Place::Name(PLACE.to_owned());
    let directory = paper.settings.disk.join("interfaces");
    let series = measured(paper, &directory)
        .unwrap_or_else(|why| CALLS.map(|name| Series::refused(name, [place.clone()], &why.to_string())).into());
    // After an error the directory may not exist. Then the removal fails, too.
    let _ = std::fs::remove_dir_all(&directory);
    let mut figure = Figure {
        id: ID.into(),
        title: "A record by one call, and by calls of the lock and buffer managers".into(),
        paper: "LIBTP figure 4 (3.2): a command line gets one record, by the record manager's call or by eight commands of the lock and buffer \
                managers, in one process and through a server. The text says that the second way takes twice as long in one process, and three \
                times as long through a server."
            .into(),
        here: format!(
            "Microseconds per record. `tp shell` receives the commands for {BATCH} records at once. By one call: `get`, which is a \
             transaction, from a B-tree of {} records. By eight commands: begin, lock, buf_get, buf_look at the page's head, buf_look at \
             the record, buf_unpin, unlock, commit. These commands know the record's place and do not search for it. There is no server.",
            spelled(f64::from(RECORDS))
        ),
        x: Axis::linear("where"),
        y: Axis::linear("microseconds"),
        series,
        notes: Vec::new(),
    };
    let times = figure.ratios((CALLS[1], &place), (CALLS[0], &place));
    if let Some(times) = median(times) {
        figure
            .notes
            .push(format!("The lock and buffer calls take {} times as long as the record call.", spelled(times)));
    }
    paper.figures.push(figure);
    Ok(())
}

/// Returns the text of a record.
fn record(id: u32) -> String {
    format!("record {id:0width$}", width = RECORD_BYTES as usize - "record ".len())
}

/// Makes the same records in a B-tree and in a file of pages.
fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let failed = || Error::engine::<libtp::Error>("libtp", "making the records");
    let env = Env::open_or_create(directory).map_err(failed())?;
    let (tree, pages) = (env.btree("records").map_err(failed())?, env.pages("pages").map_err(failed())?);
    for page in 0..RECORDS / ON_PAGE {
        let ids = page * ON_PAGE..(page + 1) * ON_PAGE;
        let put = env.run_with(Durability::Relaxed, |txn| {
            pages.lock(txn, page, PageLock::Write)?;
            let mut copy = pages.get(txn, page)?;
            for (nth, id) in ids.clone().enumerate() {
                tree.put(txn, id.to_string().as_bytes(), record(id).as_bytes())?;
                let at = HEAD_BYTES as usize + nth * RECORD_BYTES as usize;
                copy.bytes[at..at + RECORD_BYTES as usize].copy_from_slice(record(id).as_bytes());
            }
            copy.bytes[..HEAD_BYTES as usize].copy_from_slice(format!("{ON_PAGE:08}").as_bytes());
            pages.put(txn, &copy).map(|_| ())
        });
        put.map_err(failed())?;
    }
    env.flush().map_err(failed())
}

/// Appends the commands that get a record to `text`.
fn commands(id: u32, by_record: bool, text: &mut String) {
    let (page, at) = (id / ON_PAGE, HEAD_BYTES + id % ON_PAGE * RECORD_BYTES);
    let written = match by_record {
        true => writeln!(text, "get records {id}"),
        false => writeln!(
            text,
            "begin\nlock pages {page} read\nbuf_get pages {page}\nbuf_look 0 {HEAD_BYTES}\nbuf_look {at} {RECORD_BYTES}\nbuf_unpin\n\
             unlock pages {page}\ncommit"
        ),
    };
    written.expect("a write to a string does not fail");
}

/// Gets a batch of random records. Returns the microseconds per record. The audit compares each answer with the record.
fn sample(shell: &mut Shell, by_record: bool, random: &mut Random) -> Result<Sample> {
    let ids: Vec<u32> = (0..BATCH).map(|_| random.below(RECORDS)).collect();
    let mut text = String::new();
    ids.iter().for_each(|id| commands(*id, by_record, &mut text));
    let (each, answer) = if by_record { (1, 0) } else { (COMMANDS, ANSWER) };
    let (took, answers) = shell.ask(&text, BATCH * each)?;
    let wrong = ids.iter().zip(answers.chunks(each)).find(|(id, said)| said.get(answer) != Some(&record(**id)));
    let audit =
        wrong.map_or_else(|| "ok".to_owned(), |(id, said)| format!("for record {id}, the shell printed {said:?}"));
    let micros = took.as_secs_f64() * 1e6;
    let value = micros / ids.len() as f64;
    Ok(Sample {
        value,
        audit,
        raw: serde_json::json!({ "records": BATCH, "commands": BATCH * each, "microseconds": micros }),
    })
}

/// A running shell.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |why| Error::Client { client: 0, what: format!("the shell {what}: {why}") }
}

impl Shell {
    fn start(mut command: Command) -> Result<Shell> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed("does not start"))?;
        let input = child.stdin.take().expect("the shell's standard input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("the shell's standard output is a pipe"));
        Ok(Shell { child, input, output })
    }

    /// Sends commands and reads `answers` answers. Returns the time that this took, and the answers.
    fn ask(&mut self, commands: &str, answers: usize) -> Result<(Duration, Vec<String>)> {
        let Shell { input, output, .. } = self;
        std::thread::scope(|scope| {
            let begin = Instant::now();
            // Another thread writes, because the shell answers before it has read all commands. If this thread wrote
            // first, both pipes could fill up, and both processes would wait for ever.
            let asker = scope.spawn(move || input.write_all(commands.as_bytes()).and_then(|()| input.flush()));
            let said = output.lines().take(answers).collect::<std::io::Result<Vec<String>>>();
            let took = begin.elapsed();
            asker.join().expect("a writer does not panic").map_err(failed("does not read its commands"))?;
            let said = said.map_err(failed("does not answer"))?;
            match said.len() == answers {
                true => Ok((took, said)),
                false => Err(failed("ended")(std::io::ErrorKind::UnexpectedEof.into())),
            }
        })
    }

    /// Ends the shell cleanly.
    fn end(self) -> Result<()> {
        let Shell { mut child, input, .. } = self;
        drop(input);
        let ended = child.wait().map_err(failed("cannot be waited for"))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Error::Client { client: 0, what: format!("the shell ended with {ended}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_with_a_wrong_answer_fails_the_audit_and_a_shell_that_ends_is_an_error() -> Result<()> {
        let mut cat = Shell::start(Command::new("cat"))?;
        let sample = sample(&mut cat, true, &mut Random(1))?;
        assert!(sample.audit.contains("the shell printed"), "{}", sample.audit);
        cat.end()?;
        let mut gone = Shell::start(Command::new("true"))?;
        gone.child.wait().map_err(failed("cannot be waited for"))?;
        assert!(gone.ask("get records 1\n", 1).is_err());
        Ok(())
    }

    #[test]
    fn a_record_takes_eight_commands_and_the_fifth_reads_it() {
        let mut text = String::new();
        commands(1234, false, &mut text);
        assert_eq!(text.lines().count(), COMMANDS);
        assert!(text.lines().nth(ANSWER).is_some_and(|line| line == "buf_look 2184 64"), "{text}");
        assert_eq!(record(7).len(), RECORD_BYTES as usize);
    }
}
