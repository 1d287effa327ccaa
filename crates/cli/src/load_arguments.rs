//! The command line of `tp load`.

use std::path::PathBuf;

use clap::Args;

use crate::environment::DatabaseArguments;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    pub at: DatabaseArguments,
    /// Dump to load; without it, or with `-`, standard input.
    pub file: Option<PathBuf>,
    /// Length of records by number, instead of the one in the dump's header (re_len). If neither is given, the records
    /// are loaded into a list.
    #[arg(long, value_name = "BYTES")]
    pub record_bytes: Option<u32>,
    /// Sort the keys before a new B-tree is made of them. Without it, the load sorts after it has met a key out of
    /// order.
    #[arg(long)]
    pub unsorted: bool,
    /// Fill of the pages of a new B-tree, in percent, 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub fill: u8,
}
