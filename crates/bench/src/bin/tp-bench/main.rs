//! `tp-bench`: the benchmarks, from the command line; `tp bench ARGUMENTS` starts it.
//!
//! Each verb has one file, `command_VERB.rs`, with its arguments and `run`. Exit code: 0: done; 1: failed, or an audit
//! disagrees; 2: wrong usage. With `--json`, standard output has only JSON, one object in each line.
#![forbid(unsafe_code)]

mod command_growth;
mod command_memory;
mod command_paper;
mod command_recovery;
mod command_snapshots;
#[cfg(feature = "sql")]
mod command_sql;
mod command_tpcb;
mod recovery_child;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use libtp_bench::Workload;
use libtp_console::failure::{Ending, Result};
use libtp_console::output::Output;

/// Run a benchmark and audit its result.
#[derive(Parser)]
#[command(name = "tp-bench", version, arg_required_else_help = true, subcommand_value_name = "WORKLOAD")]
struct CommandLine {
    /// Write JSON to standard output, one object in each line; the last line is the result.
    #[arg(short = 'j', long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Change three balances and write a history record in each transaction: TPC-B (LIBTP 5.1).
    ///
    /// Example: tp-bench tpcb --clients 4 --seconds 10 --durability relaxed
    Tpcb(command_tpcb::Arguments),
    /// Change some bytes of recoverable memory at a random place (Rio Vista 5.1).
    Synthetic(command_memory::Synthetic),
    /// Swap two pointers in recoverable memory.
    Swap(command_memory::Swap),
    /// TPC-B in recoverable memory, with an audit trail of 2 MB (Rio Vista 5.1).
    DebitCredit(command_memory::Arguments),
    /// TPC-C's new-order, payment and delivery in recoverable memory (Rio Vista 5.1).
    OrderEntry(command_memory::Arguments),
    /// Measure every figure of both papers, and the peers; write a report with pictures.
    Paper(command_paper::Arguments),
    /// Measure how the cost of operations depends on the number of records, the cache, the length of values and the
    /// number of processes; write a report with pictures.
    Growth(command_growth::Arguments),
    /// Measure the cost of snapshots for readers and writers.
    Snapshots(command_snapshots::Arguments),
    /// Measure opening after a crash, and the size of a small and of a large environment.
    Recovery(command_recovery::Arguments),
    /// Measure SQL of several processes: SQLite on an environment, compared with SQLite on a file.
    #[cfg(feature = "sql")]
    Sql(command_sql::Arguments),
    #[cfg(feature = "sql")]
    #[command(hide = true)]
    SqlClient(command_sql::ClientArguments),
    #[command(hide = true)]
    Client(command_tpcb::ClientArguments),
    #[command(hide = true)]
    MemoryClient(command_memory::ClientArguments),
    #[command(hide = true, name = recovery_child::VERB)]
    RecoveryChild(recovery_child::Arguments),
}

fn main() -> ExitCode {
    let CommandLine { json, verb } = CommandLine::parse();
    let mut output = Output::new(json);
    let done = run(&verb, &mut output).and_then(|ending| output.finish().map(|()| ending));
    match done {
        Ok(ending) => ending.exit_code(),
        Err(failure) => {
            output.failed(&failure);
            failure.exit_code()
        }
    }
}

fn run(verb: &Verb, output: &mut Output) -> Result<Ending> {
    match verb {
        Verb::Tpcb(tpcb) => tpcb.run(output),
        Verb::Synthetic(synthetic) => synthetic.run(output),
        Verb::Swap(swap) => swap.run(output),
        Verb::DebitCredit(memory) => memory.run(Workload::DebitCredit, output),
        Verb::OrderEntry(memory) => memory.run(Workload::OrderEntry, output),
        Verb::Paper(paper) => paper.run(output),
        Verb::Growth(growth) => growth.run(output),
        Verb::Snapshots(snapshots) => snapshots.run(output),
        #[cfg(feature = "sql")]
        Verb::Sql(sql) => sql.run(output),
        #[cfg(feature = "sql")]
        Verb::SqlClient(client) => client.run(),
        Verb::Recovery(recovery) => recovery.run(output),
        Verb::Client(client) => command_tpcb::run_client(client),
        Verb::MemoryClient(client) => command_memory::run_client(client),
        Verb::RecoveryChild(child) => recovery_child::run(child),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }
}
