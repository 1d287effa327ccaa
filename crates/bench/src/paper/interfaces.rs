//! The time to get one record from the shell, by one record command or by several commands of the lock and buffer
//! managers: LIBTP figure 4.

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
/// Records of a page. The page begins with their number.
const ON_PAGE: u32 = 50;
const HEAD_BYTES: u32 = 8;
/// Records of a sample.
const BATCH: usize = 1000;
/// Commands that get one record by the lock and buffer calls.
const COMMANDS: usize = 8;
/// The index of the answer with the record.
const ANSWER: usize = 4;

/// Gets random records in both ways, from one shell.
fn measured(paper: &mut Paper<'_>, directory: &Path) -> Result<Vec<Series>> {
    paper.minutes.doing("making the records");
    make(directory)?;
    let shell = std::cell::RefCell::new(Shell::start((paper.settings.shell)(directory))?);
    let mut cases = Vec::new();
    for (by_record, name) in [true, false].into_iter().zip(CALLS) {
        let (shell, mut random) = (&shell, Random(0x9e37_79b9_7f4a_7c15));
        let place = Place::Name(PLACE.to_owned());
        cases.push(Case::new(name, place, move || sample(&mut shell.borrow_mut(), by_record, &mut random)));
    }
    // The first run warms the caches.
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
    // The directory may not exist.
    let _ = std::fs::remove_dir_all(&directory);
    let mut figure = Figure {
        id: ID.into(),
        title: "A record by one call, and by the calls of the managers below".into(),
        paper: "LIBTP figure 4 (3.2): one record from a command line, by the record manager's call or by eight commands of the lock and buffer \
                managers, in one process and by a server. The text says that the second way takes twice as long in one process, and three \
                times as long by a server."
            .into(),
        here: format!(
            "`tp shell` gets the commands for {BATCH} records at once; microseconds of a record. By one call: `get`, a transaction by \
             itself, of a B-tree of {} records. By eight: begin, lock, buf_get, a look at the page's head, a look at the record, \
             buf_unpin, unlock, commit; the record's place is known, and not searched. There is no server.",
            spelled(f64::from(RECORDS))
        ),
        x: Axis::linear("where"),
        y: Axis::linear("microseconds"),
        series,
        notes: Vec::new(),
    };
    let times = figure.ratios((CALLS[1], &place), (CALLS[0], &place));
    if let Some(times) = median(times) {
        figure.notes.push(format!("The calls below take {} times as long as the record call.", spelled(times)));
    }
    paper.figures.push(figure);
    Ok(())
}

/// Returns a record, which is text.
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

/// Appends the commands that get a record.
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

/// Returns the microseconds of a record. Each answer is compared with the record.
fn sample(shell: &mut Shell, by_record: bool, random: &mut Random) -> Result<Sample> {
    let ids: Vec<u32> = (0..BATCH).map(|_| random.below(RECORDS)).collect();
    let mut text = String::new();
    ids.iter().for_each(|id| commands(*id, by_record, &mut text));
    let (each, answer) = if by_record { (1, 0) } else { (COMMANDS, ANSWER) };
    let (took, answers) = shell.ask(&text, BATCH * each)?;
    let wrong = ids.iter().zip(answers.chunks(each)).find(|(id, said)| said.get(answer) != Some(&record(**id)));
    let audit = wrong.map_or_else(|| "ok".to_owned(), |(id, said)| format!("record {id} was printed as {said:?}"));
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
        let input = child.stdin.take().expect("its standard input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("its standard output is a pipe"));
        Ok(Shell { child, input, output })
    }

    /// Sends commands and reads `answers` answers.
    fn ask(&mut self, commands: &str, answers: usize) -> Result<(Duration, Vec<String>)> {
        let Shell { input, output, .. } = self;
        std::thread::scope(|scope| {
            let begin = Instant::now();
            // Another thread writes, because the shell answers while commands come: a caller that first wrote
            // everything would wait for ever.
            let asker = scope.spawn(move || input.write_all(commands.as_bytes()).and_then(|()| input.flush()));
            let said = output.lines().take(answers).collect::<std::io::Result<Vec<String>>>();
            let took = begin.elapsed();
            asker.join().expect("a writer does not panic").map_err(failed("takes no commands"))?;
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
        assert!(sample.audit.contains("was printed as"), "{}", sample.audit);
        cat.end()?;
        let mut gone = Shell::start(Command::new("true"))?;
        gone.child.wait().map_err(failed("cannot be waited for"))?;
        assert!(gone.ask("get records 1\n", 1).is_err());
        Ok(())
    }

    #[test]
    fn a_record_takes_the_stated_number_of_commands() {
        let mut text = String::new();
        commands(1234, false, &mut text);
        assert_eq!(text.lines().count(), COMMANDS);
        assert!(text.lines().nth(ANSWER).is_some_and(|line| line == "buf_look 2184 64"), "{text}");
        assert_eq!(record(7).len(), RECORD_BYTES as usize);
    }
}
