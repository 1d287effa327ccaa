//! `tp`: works on an environment's records from the command line, and has a demonstration.
//!
//! `tp bench` and `tp sql` are other programs, `tp-bench` and `tp-sql`, because most installations need neither the other
//! engines and the charts of `tp-bench` nor the SQLite of `tp-sql`.
//!
//! Each command has one file, `command_VERB.rs`, with its arguments and `run`. `tp-bench` also uses [`output`],
//! [`progress`] and [`failure`]. [`spelling`] defines how bytes are written on the command line and in JSON.
//!
//! Exit code: 0: done; 1: failed, or an audit disagrees; 2: wrong usage; 141: the reader closed standard output, as in
//! `tp scan NAME | head`. With `--json` standard output has only JSON: one object per line, and the last object is the
//! result.
#![forbid(unsafe_code)]

mod acknowledgements;
mod command_abort;
mod command_archive;
mod command_backup;
mod command_bench;
mod command_checkpoint;
mod command_compact;
mod command_completions;
mod command_deadlock;
mod command_del;
mod command_demo;
mod command_drop;
mod command_dump;
mod command_empty;
mod command_files;
mod command_get;
mod command_list;
mod command_load;
mod command_locks;
mod command_man;
mod command_printlog;
mod command_put;
mod command_recover;
mod command_rename;
mod command_restore;
mod command_salvage;
mod command_scan;
mod command_sessions;
mod command_shell;
mod command_snapshots;
mod command_sql;
mod command_stat;
mod command_top;
mod command_txns;
mod command_upgrade;
mod command_verify;
mod command_vista;
mod demo_audit;
mod demo_business;
mod demo_crew;
mod demo_worker;
mod dump_format;
mod dump_header;
mod dump_source;
mod dump_spelling;
mod dumped_pages;
mod environment;
mod environment_directory;
mod facts;
mod hexadecimal;
mod in_order;
mod live_rate;
mod live_terminal;
mod load_arguments;
mod load_at_once;
mod load_target;
mod lock_names;
mod program_beside;
mod records;
mod room;
mod shell_command;
mod shell_session;
mod spelling;
mod stalls;
mod top_frame;
mod top_sample;
mod verb_groups;
mod wait_graph;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use libtp_console::{failure, output, progress};

use failure::{Ending, Result};
use output::Output;

/// Transactions over records on disk, shared by any number of processes.
#[derive(Parser)]
#[command(name = "tp", version, arg_required_else_help = true, subcommand_value_name = "VERB")]
struct CommandLine {
    /// Write JSON to standard output, one object per line; the last line is the result.
    #[arg(short = 'j', long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a bank, kill processes in the middle of transfers, recover the bank, and audit every record.
    ///
    /// The audit compares each balance with the history, and the history with the transfers that were acknowledged.
    /// Example: tp demo --seconds 10 --processes 8
    Demo(command_demo::Arguments),
    /// Run a benchmark and audit its result, with the program tp-bench.
    #[command(disable_help_flag = true)]
    Bench(command_bench::Arguments),
    /// Work with SQL on an environment or on an SQLite file, with the program tp-sql.
    #[command(disable_help_flag = true)]
    Sql(command_sql::Arguments),
    /// Print the value of a key.
    Get(command_get::Arguments),
    /// Store a value under a key.
    ///
    /// A missing database is made. A missing environment is also made, if --env or TP_ENV names its directory. Example:
    /// tp put --env shop stock apples 12
    Put(command_put::Arguments),
    /// Delete a key and its value.
    Del(command_del::Arguments),
    /// Run commands from standard input, one per line: records, transactions, locks, pages (`help` lists the commands).
    ///
    /// A missing environment is made, if --env or TP_ENV names its directory.
    Shell(command_shell::Arguments),
    /// Print keys and values in order.
    ///
    /// Example: tp scan stock apples --to pears --limit 10
    Scan(command_scan::Arguments),
    /// Load a dump, as `tp dump` and db_dump write it, into a database, which is made if it is missing.
    ///
    /// Example: db_dump old.db | tp load --env shop stock
    ///
    /// A missing environment is also made, if --env or TP_ENV names its directory. Of several records with the same key,
    /// the last is kept, unless the database keeps several values for a key.
    ///
    /// A new or empty B-tree is loaded completely or not at all. A file of pages, which must be new or empty, is also
    /// loaded completely or not at all. Other databases keep the records that were loaded before a fault. If a program
    /// has defined its own order for the keys of the dumped B-tree, only that program can open the loaded B-tree.
    Load(command_load::Arguments),
    /// Write a database as text that db_load and `tp load` read.
    ///
    /// Example: tp dump stock > stock.dump
    ///
    /// A file of pages is a database without records, whose pages a program fills. Only `tp load` can read the dump of a
    /// file of pages, and the dump of a B-tree whose keys have an order that a program has defined. The keys of such a
    /// B-tree are written in their stored form. A file of pages is locked against changes until the dump is written.
    Dump(command_dump::Arguments),
    /// List the databases: name, kind, bytes of the file, number of records.
    List(command_list::Arguments),
    /// Drop a database, or with --missing a database whose file is lost.
    ///
    /// The database's name can be used again.
    Drop(command_drop::Arguments),
    /// Give a database another name.
    Rename(command_rename::Arguments),
    /// Remove all records of a database.
    Empty(command_empty::Arguments),
    /// Merge sparse pages of B-trees and lists, while other processes use them.
    ///
    /// The pages that become free are used for later records.
    Compact(command_compact::Arguments),
    /// Show the state of the environment: files, memory, log, pages, locks, transactions.
    Stat(command_stat::Arguments),
    /// Show the environment live: throughput, log, cache, sessions, waits, snapshots.
    Top(command_top::Arguments),
    /// List the locks with their holders and waiters, or each waiting transaction and the transaction that it waits for.
    Locks(command_locks::Arguments),
    /// List the open transactions.
    Txns(command_txns::Arguments),
    /// List the snapshots: holder, age, and the log that is kept for each.
    Snapshots(command_snapshots::Arguments),
    /// List the sessions: whether each is alive, stopped or dead, and the object that it waits for.
    ///
    /// A session is one thread of one process that uses the environment.
    Sessions(command_sessions::Arguments),
    /// Abort a transaction that was detached from its thread and that no thread continues.
    ///
    /// A program detaches a transaction so that another thread or process can continue it. `tp txns` lists the open
    /// transactions.
    Abort(command_abort::Arguments),
    /// List committed changes of plain files that are not carried out yet, or abandon such a change.
    ///
    /// A program can change ordinary files in a transaction, together with records. The library makes these changes by
    /// itself when the directory of the file exists again.
    Files(command_files::Arguments),
    /// Search for deadlocks once, and choose in each deadlock a victim, which must abort.
    Deadlock(command_deadlock::Arguments),
    /// Print the log's records.
    ///
    /// Each line begins with the record's place in the log, its LSN. Example: tp printlog --txn 17 --limit 20
    Printlog(command_printlog::Arguments),
    /// Take a checkpoint, so that recovery after a crash begins at this checkpoint and takes less time.
    Checkpoint(command_checkpoint::Arguments),
    /// Open the environment, recover it if necessary, and show the work that was done.
    ///
    /// Other verbs recover the environment, too, when they open it. If the shared memory and the log files disagree,
    /// use --keep-files or --keep-region to decide which of them is right. The region is the file of the shared memory,
    /// which has the newest part of the log.
    ///
    /// In the answer, `how` is the way of opening: for example, clean if there was nothing to do, and restarted if the
    /// log was replayed. `lost` says whether commits that did not wait for the disk may be lost. `mended` counts the
    /// repaired pages: their last write was cut off.
    Recover(command_recover::Arguments),
    /// List, copy or remove the log files that are no longer needed: no recovery, snapshot or `keep_log` needs them.
    ///
    /// Example: tp archive --to /backup/log --remove
    Archive(command_archive::Arguments),
    /// Copy the environment while it is in use, or add newer log to an existing copy.
    ///
    /// Example: tp backup --env shop /backup/shop, and later tp backup --env shop --incremental /backup/shop
    Backup(command_backup::Arguments),
    /// Make an environment from a backup, in its latest state, or in its state at an LSN or at a time.
    ///
    /// An LSN is a place in the log; `tp printlog` shows the LSNs. Example: tp restore /backup/shop --env new --until
    /// 2026-01-31T23:59:59
    ///
    /// In the answer, `clock_behind` counts the flushes that were made while the clock was set back: a time cannot name
    /// the states between them. `settings_aside` says that the backup's libtp.toml was stored without effect, as
    /// libtp.toml.backup.
    Restore(command_restore::Arguments),
    /// Show the versions of the environment's files, and what to do about a version that this build does not read.
    Upgrade(command_upgrade::Arguments),
    /// Read every page, and check all pages and the structures that they form.
    Verify(command_verify::Arguments),
    /// Copy the readable records of a damaged database file into a new database, and list the losses.
    ///
    /// Example: tp salvage --env shop damaged/stock.tp stock-salvaged
    Salvage(command_salvage::Arguments),
    /// Check a segment of recoverable memory.
    ///
    /// A segment is a file that a program maps and changes in memory, in transactions. Example: tp vista verify bank.seg
    Vista(command_vista::Arguments),
    /// Print the script by which a shell completes verbs and options.
    ///
    /// Example: tp completions bash > ~/.local/share/bash-completion/completions/tp
    Completions(command_completions::Arguments),
    /// Print the manual page tp(1).
    #[command(hide = true)]
    Man,
    #[command(hide = true, name = "demo-worker")]
    DemoWorker(demo_worker::Arguments),
}

fn main() -> ExitCode {
    let matches = verb_groups::with_groups(CommandLine::command()).try_get_matches();
    let parsed = matches.and_then(|matches| CommandLine::from_arg_matches(&matches));
    let CommandLine { json, verb } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return wrong_usage(&error),
    };
    let mut output = Output::new(json);
    let done = run(verb, &mut output).and_then(|ending| output.finish().map(|()| ending));
    match done {
        Ok(ending) => ending.exit_code(),
        Err(failure) => {
            output.failed(&failure);
            failure.exit_code()
        }
    }
}

/// Reports a wrong command line as every other failure, or prints the help or the version that was asked for.
fn wrong_usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    // Clap writes the message itself, in colours if the terminal has them. A closed standard error is no other failure.
    let _ = write!(std::io::stderr(), "tp: ");
    let _ = error.print();
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let is_json = |word: std::ffi::OsString| word == "--json" || word == "-j";
    let mut output = Output::new(std::env::args_os().skip(1).any(is_json));
    let _ = output.object(&serde_json::json!({ "error": text })).and_then(|()| output.finish());
    ExitCode::from(2)
}

fn run(verb: Verb, output: &mut Output) -> Result<Ending> {
    match verb {
        Verb::Demo(arguments) => command_demo::run(&arguments, output),
        Verb::Bench(arguments) => command_bench::run(&arguments, output),
        Verb::Sql(arguments) => command_sql::run(&arguments, output),
        Verb::Get(arguments) => command_get::run(&arguments, output),
        Verb::Put(arguments) => command_put::run(&arguments, output),
        Verb::Del(arguments) => command_del::run(&arguments, output),
        Verb::Shell(arguments) => command_shell::run(&arguments, output),
        Verb::Scan(arguments) => command_scan::run(&arguments, output),
        Verb::Load(arguments) => command_load::run(&arguments, output),
        Verb::Dump(arguments) => command_dump::run(&arguments, output),
        Verb::Compact(arguments) => command_compact::run(&arguments, output),
        Verb::Stat(arguments) => command_stat::run(&arguments, output),
        Verb::Top(arguments) => command_top::run(&arguments, output),
        Verb::Locks(arguments) => command_locks::run(&arguments, output),
        Verb::Txns(arguments) => command_txns::run(&arguments, output),
        Verb::Snapshots(arguments) => command_snapshots::run(&arguments, output),
        Verb::Sessions(arguments) => command_sessions::run(&arguments, output),
        Verb::Abort(arguments) => command_abort::run(&arguments, output),
        Verb::Files(arguments) => command_files::run(&arguments, output),
        Verb::Deadlock(arguments) => command_deadlock::run(&arguments, output),
        Verb::Printlog(arguments) => command_printlog::run(&arguments, output),
        Verb::Drop(arguments) => command_drop::run(&arguments, output),
        Verb::Empty(arguments) => command_empty::run(&arguments, output),
        Verb::List(arguments) => command_list::run(&arguments, output),
        Verb::Rename(arguments) => command_rename::run(&arguments, output),
        Verb::Checkpoint(arguments) => command_checkpoint::run(&arguments, output),
        Verb::Recover(arguments) => command_recover::run(&arguments, output),
        Verb::Archive(arguments) => command_archive::run(&arguments, output),
        Verb::Backup(arguments) => command_backup::run(&arguments, output),
        Verb::Restore(arguments) => command_restore::run(&arguments, output),
        Verb::Upgrade(arguments) => command_upgrade::run(&arguments, output),
        Verb::Verify(arguments) => command_verify::run(&arguments, output),
        Verb::Salvage(arguments) => command_salvage::run(&arguments, output),
        Verb::Vista(arguments) => command_vista::run(&arguments, output),
        Verb::Completions(arguments) => command_completions::run(&arguments, output),
        Verb::Man => command_man::run(output),
        Verb::DemoWorker(arguments) => demo_worker::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        verb_groups::with_groups(CommandLine::command()).debug_assert();
    }
}
