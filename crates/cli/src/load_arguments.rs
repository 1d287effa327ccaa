//! The command line of `tp load`.

use std::path::PathBuf;

use clap::Args;
use libtp_console::numbers::whole_number;

use crate::environment::DatabaseArguments;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    pub at: DatabaseArguments,
    /// Dump to load; `-` is standard input. Default: standard input.
    pub file: Option<PathBuf>,
    /// Record length of a record-number database. Default: the length in the dump's header (re_len). If neither length
    /// is given, the records are loaded into a list.
    #[arg(long, value_name = "BYTES", value_parser = whole_number::<u32>)]
    pub record_bytes: Option<u32>,
    /// Sort the records before a new B-tree is made. Default: sort only if a key of the dump is out of order.
    #[arg(long)]
    pub unsorted: bool,
    /// How full the pages of a new B-tree are made, in percent, from 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(10..=100))]
    pub fill: u8,
}
