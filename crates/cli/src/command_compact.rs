//! `tp compact`: merges sparse pages, while other processes use the database.

use clap::Args;
use libtp::{Compaction, Database};
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::output::{note, Output};
use crate::progress::Progress;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Databases to compact. Default: all databases that have pages to merge.
    databases: Vec<String>,
    /// How full a page may become, in percent, from 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(10..=100))]
    fill: u8,
}

/// Compacts the databases, one after another.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let is_named = !arguments.databases.is_empty();
    let names = if is_named { arguments.databases.clone() } else { env.databases()? };
    for name in names {
        let database = match env.database(&name) {
            // A database that only its own program can open is skipped, and the remaining databases are compacted.
            Err(error @ libtp::Error::Database { .. }) if !is_named => {
                note(format_args!("skipped: {error}"));
                continue;
            }
            found => found?,
        };
        let Some(done) = compact(&database, arguments.fill, output)? else {
            if is_named {
                let what = "it has no pages that can be merged, because only B-trees and lists have such pages; nothing was changed";
                return Err(Failure::Failed(format!("database `{name}`: {what}")));
            }
            continue;
        };
        output.object(&json!({ "database": name, "leaves": done.leaves, "merged": done.merged }))?;
        let (merged, leaves) = (grouped(done.merged), grouped(done.leaves));
        output.line(format!("{name}: {merged} of {leaves} pages were merged, and are free for other records"))?;
    }
    Ok(Ending::Done)
}

fn compact(database: &Database, fill: u8, output: &Output) -> Result<Option<Compaction>> {
    let bar = Progress::endless(output.may_draw(), "pages visited");
    let watch = &mut |done: Compaction| bar.set(done.leaves);
    Ok(match database {
        Database::Btree(db) => Some(db.compact_watched(fill, watch)?),
        Database::Multi(multi) | Database::Index(multi) => Some(multi.compact_watched(fill, watch)?),
        Database::List(list) => Some(list.compact_watched(fill, watch)?),
        Database::Hash(_) | Database::Recno(_) => None,
    })
}
