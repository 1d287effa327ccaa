//! `tp`: an environment's records, a benchmark and a demonstration from the command line.
//!
//! One file per command, `command_VERB.rs`: its arguments, and `run`. What they share: [`output`] is the only place
//! that writes to standard output, [`progress`] the only one that draws on standard error, [`spelling`] says how bytes
//! are written on the command line and in JSON.
//!
//! Exit: 0 done, 1 failed or an audit disagrees, 2 wrong usage. With `--json` standard output has only JSON, one object
//! a line, and the last line is the result.
#![forbid(unsafe_code)]

mod acknowledgements;
mod bank;
mod clock;
mod command_abort;
mod command_archive;
mod command_backup;
mod command_bench;
mod command_bench_growth;
mod command_bench_memory;
mod command_bench_paper;
mod command_checkpoint;
mod command_compact;
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
mod command_stat;
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
mod dumped_pages;
mod environment;
mod facts;
mod failure;
mod in_order;
mod live_rate;
mod load_at_once;
mod lock_names;
mod output;
mod progress;
mod records;
mod shell_command;
mod shell_session;
mod spelling;
mod stalls;
mod wait_graph;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Ending, Result};
use output::Output;

/// Transactions over records on disk, shared by any number of processes.
#[derive(Parser)]
#[command(name = "tp", version, disable_help_subcommand = true, arg_required_else_help = true)]
struct CommandLine {
    /// Write JSON to standard output, one object a line; the last line is the result.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a bank, kill processes in the middle of its business, recover it, and audit every record.
    Demo(command_demo::Arguments),
    /// Run a workload and audit what it did.
    Bench(command_bench::Arguments),
    /// Print the value of a key.
    Get(command_get::Arguments),
    /// Keep a value under a key.
    Put(command_put::Arguments),
    /// Delete a key and its value.
    Del(command_del::Arguments),
    /// Carry out commands from standard input, line by line: records, transactions, locks and pages (`help` lists them).
    Shell(command_shell::Arguments),
    /// Print keys and values in order.
    Scan(command_scan::Arguments),
    /// Read a dump (db_dump's text) into a database, which is made if it is missing.
    ///
    /// A B-tree that is new or empty is loaded all at once, and so is a file of pages, which has to be. Other databases keep the
    /// records that came before a fault. A dump of a tree in an order that only its program has makes such a tree, for that program.
    Load(command_load::Arguments),
    /// Write a database as text that db_load and `tp load` read.
    ///
    /// Files of pages, and trees in an order that only their program has, are for `tp load` alone. Of such a tree the keys are
    /// written as they are stored. A file of pages is locked, and nobody changes it, until all is written.
    Dump(command_dump::Arguments),
    /// List the databases: of what kind each is, the bytes of its file, how many records it has.
    List(command_list::Arguments),
    /// Drop a database, or give up one whose file is missing, so that its name can be used again.
    Drop(command_drop::Arguments),
    /// Give a database another name.
    Rename(command_rename::Arguments),
    /// Remove all records of a database.
    Empty(command_empty::Arguments),
    /// Merge pages of B-trees that hold little, while others use them.
    Compact(command_compact::Arguments),
    /// Say how the environment is: files, memory, log, pages, locks, transactions.
    Stat(command_stat::Arguments),
    /// List the locks that are held and waited for, or who waits for whom.
    Locks(command_locks::Arguments),
    /// List the transactions at work.
    Txns(command_txns::Arguments),
    /// List the snapshots: who holds which since when, and how much log is kept for it.
    Snapshots(command_snapshots::Arguments),
    /// List who is in the environment: alive, stopped or dead, and what each waits for.
    Sessions(command_sessions::Arguments),
    /// Ends a transaction that was passed on and that nobody takes over.
    Abort(command_abort::Arguments),
    /// List plain files that committed transactions have changed and that are not in their places, or give one up.
    Files(command_files::Arguments),
    /// Search once for transactions that wait for each other in a circle, and let one give way.
    Deadlock(command_deadlock::Arguments),
    /// Print the log's records.
    Printlog(command_printlog::Arguments),
    /// Take a checkpoint: the next restart begins here.
    Checkpoint(command_checkpoint::Arguments),
    /// Open the environment, which recovers it if it has to be, and say what was done.
    Recover(command_recover::Arguments),
    /// List the files of the log that nobody needs any more, copy or remove them.
    Archive(command_archive::Arguments),
    /// Copy the environment while it is at work, or add what was logged since to such a copy.
    Backup(command_backup::Arguments),
    /// Make an environment of a backup, as it was at its end, at a place in the log, or at a time.
    Restore(command_restore::Arguments),
    /// Say which versions the environment's files have, and what has to be done about them.
    Upgrade(command_upgrade::Arguments),
    /// Read every page and check that it is whole and fits its neighbours.
    Verify(command_verify::Arguments),
    /// Put every record of a damaged database file that can be read into a new database, and say what is lost.
    Salvage(command_salvage::Arguments),
    /// Look into a segment of recoverable memory.
    Vista(command_vista::Arguments),
    #[command(hide = true, name = "demo-worker")]
    DemoWorker(demo_worker::Arguments),
    #[command(hide = true, name = "bench-client")]
    BenchClient(command_bench::ClientArguments),
    #[command(hide = true, name = "bench-memory-client")]
    BenchMemoryClient(command_bench_memory::ClientArguments),
}

fn main() -> ExitCode {
    let CommandLine { json, verb } = CommandLine::parse();
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

fn run(verb: Verb, output: &mut Output) -> Result<Ending> {
    match verb {
        Verb::Demo(arguments) => command_demo::run(&arguments, output),
        Verb::Bench(arguments) => command_bench::run(&arguments, output),
        Verb::Get(arguments) => command_get::run(&arguments, output),
        Verb::Put(arguments) => command_put::run(&arguments, output),
        Verb::Del(arguments) => command_del::run(&arguments, output),
        Verb::Shell(arguments) => command_shell::run(&arguments, output),
        Verb::Scan(arguments) => command_scan::run(&arguments, output),
        Verb::Load(arguments) => command_load::run(&arguments, output),
        Verb::Dump(arguments) => command_dump::run(&arguments, output),
        Verb::Compact(arguments) => command_compact::run(&arguments, output),
        Verb::Stat(arguments) => command_stat::run(&arguments, output),
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
        Verb::DemoWorker(arguments) => demo_worker::run(&arguments),
        Verb::BenchClient(arguments) => command_bench::run_client(&arguments),
        Verb::BenchMemoryClient(arguments) => command_bench_memory::run_client(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }
}
