//! `tp stat`: shows the state of an environment.

use clap::Args;
use serde_json::{Map, Value};

use crate::environment::EnvironmentArgument;
use crate::facts::{facts, write_list};
use crate::failure::{Ending, Result};
use crate::output::Output;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
}

/// Prints the way in which the environment was opened, and the library's figures.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let mut object = Map::new();
    object.insert("opened".to_string(), facts(env.opened())?);
    if let Value::Object(stats) = facts(&env.stats()?)? {
        object.extend(stats);
    }
    object.insert("memory_left".to_string(), facts(&env.sweep_memory())?);
    write_list(output, &object)?;
    Ok(Ending::Done)
}
