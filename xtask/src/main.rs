//! The verbs of the workshop: `cargo xtask VERB` builds, checks or measures this tree.
//!
//! `cargo xtask` without a verb lists the verbs. CI runs `test` and nothing else, so a run that passes here also passes
//! in CI. A new suite is one line in `suites.rs`; a new rule about the text of the tree is one function in `tidy/`.
#![forbid(unsafe_code)]

mod board;
mod child;
mod command_bench;
mod command_soak;
mod command_test;
mod counts;
mod coverage;
mod fuzz;
mod install;
mod lab;
mod lanes;
mod libtest;
mod litter;
mod manual;
mod outcome;
mod paper;
mod peers;
mod programs;
mod release;
mod sanitizers;
mod setup;
mod suites;
mod testing_page;
mod tidy;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use workspace::Workspace;

/// The workshop of libtp.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Format, lints, documents and every test suite: what CI runs
    Test {
        /// Only these suites (default: all)
        suites: Vec<String>,
        /// List the suites and stop
        #[arg(long)]
        list: bool,
        /// Larger sizes, optimised
        #[arg(long)]
        deep: bool,
        /// Write the times to docs/testing.md
        #[arg(long)]
        record: bool,
    },
    /// The heavy suites at their full size; writes their table to docs/reliability.md
    Soak {
        /// Only this suite (default: all heavy suites)
        suite: Option<String>,
        /// Repeat with a new LIBTP_TEST_SEED each round until this many hours have passed
        #[arg(long)]
        hours: Option<f64>,
    },
    /// TPC-B, reads and synced commits of libtp, of peers and of a bare loop, in one run; `bench processes`: TPC-B by 1
    /// to 64 processes; `bench memory`: recoverable memory; `bench rows`: plain records of libtp and of the peers;
    /// `bench paper`: the papers' figures and the peers; `bench counts`: instructions of every hot path, compared with
    /// the kept figures; and all workloads of `tp bench`: `recovery`, `snapshots`, `tpcb`, `growth`, ..
    Bench {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Crash the kernel of a machine (QEMU) that uses recoverable memory and commits acknowledged from memory, and
    /// check the state after each restart
    Lab {
        /// Number of crashes; from 20 on two machines share them
        #[arg(long, default_value_t = 5)]
        cycles: u64,
    },
    /// Find the branches of recovery, the log and the latches that no test takes, and compare them with
    /// docs/coverage.md
    Coverage,
    /// Put files for programs in C (the library, headers, pkg-config file, manual pages, SQLite on libtp) and the
    /// commands tp (with tp(1) and completions), tp-bench and tp-sql under a directory
    Install {
        /// The directory above bin, lib, include and share
        #[arg(long, default_value = "/usr/local")]
        prefix: std::path::PathBuf,
    },
    /// Check only the rules about the text of the tree (also a suite of `test`)
    Tidy,
    /// List the places where a test process can be killed (LIBTP_FAILPOINT)
    Failpoints,
    /// Compare the structs on disk or in shared memory with their tables in docs/formats
    Formats {
        /// Accept the current structs, after the tables were updated
        #[arg(long)]
        bless: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.verb) {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::from(1)
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode, String> {
    let workspace = Workspace::load()?;
    match verb {
        Verb::Test { list: true, .. } => {
            command_test::list();
            Ok(ExitCode::SUCCESS)
        }
        Verb::Test { suites, list: false, deep, record } => {
            command_test::test(&workspace, &command_test::Options { chosen: suites, deep, record })
        }
        Verb::Soak { suite, hours } => command_soak::soak(&workspace, suite.as_deref(), hours),
        Verb::Bench { arguments } => command_bench::bench(&workspace, &arguments),
        Verb::Lab { cycles } => lab::lab(&workspace, cycles),
        Verb::Coverage => coverage::coverage(&workspace),
        Verb::Install { prefix } => install::install(&workspace, &prefix),
        Verb::Tidy => {
            let outcome = tidy::suite(&workspace);
            println!("{}", outcome.counts);
            Ok(outcome.exit_code())
        }
        Verb::Failpoints => {
            let points = tidy::failpoints::list(&tidy::source::tree(&workspace.root)?);
            points.iter().for_each(|point| println!("{point}"));
            println!("{} failpoints", points.len());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Formats { bless: true } => tidy::formats::bless(&workspace.root),
        Verb::Formats { bless: false } => {
            let complaints = tidy::formats::check(&tidy::source::tree(&workspace.root)?);
            complaints.iter().for_each(|complaint| println!("{complaint}"));
            Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
    }
}
