//! `tp compact`: pages that hold little are merged, while others use the database.

use clap::Args;
use libtp::{Compaction, Database, Env};
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// The databases; all that have pages to merge if none is named.
    databases: Vec<String>,
    /// How full a page may become, in percent, 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 90)]
    fill: u8,
}

/// Compacts one after the other.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let is_named = !arguments.databases.is_empty();
    let names = if is_named { arguments.databases.clone() } else { env.databases()? };
    for name in names {
        let Some(done) = compact(&env, &name, arguments.fill, output)? else {
            if is_named {
                return Err(Failure::Failed(format!("database `{name}`: only a B-tree has pages that can be merged")));
            }
            continue;
        };
        output.object(&json!({ "database": name, "leaves": done.leaves, "merged": done.merged }))?;
        let (merged, leaves) = (grouped(done.merged), grouped(done.leaves));
        output.line(format!("{name}: {merged} of {leaves} pages were merged and are free for what comes next"))?;
    }
    Ok(Ending::Done)
}

fn compact(env: &Env, name: &str, fill: u8, output: &Output) -> Result<Option<Compaction>> {
    let bar = Progress::endless(output.may_draw(), "pages gone over");
    let watch = &mut |done: Compaction| bar.set(done.leaves);
    Ok(match env.database(name)? {
        Database::Btree(db) => Some(db.compact_watched(fill, watch)?),
        Database::Multi(multi) | Database::Index(multi) => Some(multi.compact_watched(fill, watch)?),
        Database::Hash(_) | Database::Recno(_) | Database::List(_) => None,
    })
}
