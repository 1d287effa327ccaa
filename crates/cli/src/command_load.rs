//! `tp load`: loads a dump's records into a database.
//!
//! The dump is first read to its end (`dump_source.rs`), so a dump that cannot be loaded changes nothing. A new
//! environment cannot be used before everything is loaded, and is removed if the load fails ([`libtp::Filling`]).
//!
//! A new or empty B-tree is loaded completely or not at all (`load_at_once.rs`), and so is a file of pages
//! (`dumped_pages.rs`). Other databases are loaded in transactions of some thousand records each. These commits are
//! relaxed, and the log is flushed once at the end. If such a load into an existing environment is interrupted, the
//! records of its earlier transactions stay, and the load can be run again.

use std::time::Instant;

use libtp::{Bytes, Env, Filling};
use serde_json::json;

use crate::dump_header::DumpType;
use crate::dump_source::{Checked, Source};
use crate::dumped_pages;
use crate::failure::{Ending, Failure, Result};
pub use crate::load_arguments::Arguments;
use crate::load_at_once::load_at_once;
use crate::load_target::{check_keys, Target};
use crate::output::Output;
use crate::spelling::grouped;

/// Loads the dump. Makes the environment and the database if they are missing.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    // If no environment is named, this call fails, and the dump is not read.
    arguments.at.environment.directory()?;
    let mut source = Source::open(arguments)?;
    let checked = source.check()?;
    let (database, kind) = (&arguments.at.database, source.reader.header().kind);
    let made_with = match source.reader.header().page_bytes {
        None => Env::builder(),
        Some(bytes) => Env::builder().page_size(database, Bytes(bytes.into())),
    };
    let filling = arguments.at.environment.open_to_fill(&made_with, output)?;
    let begin = Instant::now();
    let loaded = match kind {
        DumpType::Pages => dumped_pages::load(filling.env(), database, &mut source, output.may_draw()),
        _ => load_records(filling.env(), arguments, &mut source, checked, output),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => return Err(given_up(filling, &failure)),
    };
    let made = filling.env().list_database(database)?.kind;
    filling.finish()?;
    // The database may have existed before, and be of another kind than the dump.
    let kind = made.unwrap_or_else(|| kind.name());
    let seconds = begin.elapsed().as_secs_f64();
    output.object(&json!({
        "database": database, "type": kind, "records": loaded, "seconds": seconds,
    }))?;
    let what = if kind == DumpType::Pages.name() { "pages" } else { "records" };
    output.line(format!("{} {what} into {database} ({kind}) in {seconds:.1} s", grouped(loaded)))?;
    Ok(Ending::Done)
}

/// Removes the environment if the failed load had made it. Returns the failure to report.
fn given_up(filling: Filling, failure: &Failure) -> Failure {
    let what = match filling.abandon() {
        Ok(true) => "; the environment that was made for it is removed".to_string(),
        Ok(false) => String::new(),
        Err(error) => format!("; the environment that was made for it cannot be removed: {error}"),
    };
    Failure::Failed(format!("{failure}{what}"))
}

/// Loads the records, all at once if possible. Returns the number of loaded records.
fn load_records(
    env: &Env,
    arguments: &Arguments,
    source: &mut Source,
    checked: Checked,
    output: &Output,
) -> Result<u64> {
    let name = &arguments.at.database;
    let is_new = matches!(env.database(name), Err(libtp::Error::NoDatabase { .. }));
    let target = Target::open(env, arguments, source, checked)?;
    let at_once =
        check_keys(&target, source, checked).and_then(|()| load_at_once(&target, arguments, source, output.may_draw()));
    let loaded = match at_once {
        Ok(None) => load_in_batches(env, &target, source, output),
        Ok(Some(loaded)) => Ok(loaded),
        Err(failure) => Err(failure),
    };
    if loaded.is_err() && is_new {
        drop(target);
        // Fails if another process has put records into the database. That error is ignored: the load's error is
        // reported.
        let _ = env.drop_if_empty(name);
    }
    loaded
}

/// Loads the records in batches, each in a transaction. Returns the number of loaded records.
fn load_in_batches(env: &Env, target: &Target, source: &mut Source, output: &Output) -> Result<u64> {
    let bar = source.progress(output.may_draw());
    let mut loaded = 0;
    let broken_off = |failure: &Failure, loaded| {
        Failure::Failed(format!("{failure} (the {loaded} records before this record are in `{}`)", target.name()))
    };
    loop {
        let batch = source.next_batch().map_err(|failure| broken_off(&failure, loaded))?;
        if batch.is_empty() {
            break;
        }
        target.store(env, loaded, &batch).map_err(|failure| broken_off(&failure, loaded))?;
        loaded += batch.len() as u64;
        bar.set(source.read.get());
    }
    env.flush()?;
    Ok(loaded)
}
