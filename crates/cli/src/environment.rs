//! Opens the environment that a command names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use libtp::{Builder, Database, Env, Filling, Keep, Settings};
use libtp_console::numbers::wait_seconds;

use crate::environment_directory::EnvironmentDirectory;
use crate::failure::Result;
use crate::output::Output;
use crate::progress::Steps;

/// The environment of a command.
#[derive(Args)]
pub struct EnvironmentArgument {
    /// The environment's directory. Default: the directory in TP_ENV, else the current directory if it is an environment.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
    /// Longest wait for each lock that a transaction of another process holds, and for a stopped process that writes the log, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = WAIT, value_parser = wait_seconds)]
    wait: Duration,
}

/// Default of `--wait`, in seconds.
const WAIT: &str = "5";

/// An environment and one of its databases.
#[derive(Args)]
pub struct DatabaseArguments {
    #[command(flatten)]
    pub environment: EnvironmentArgument,
    /// The database's name.
    pub database: String,
}

impl EnvironmentArgument {
    /// Returns the environment in `directory`, with the default wait.
    pub fn at(directory: &Path) -> EnvironmentArgument {
        EnvironmentArgument { env: Some(directory.to_path_buf()), wait: wait_seconds(WAIT).unwrap_or_default() }
    }

    /// Returns the environment's directory.
    ///
    /// # Errors
    /// `Usage` if the command line, `TP_ENV` and the current directory name no environment.
    pub fn directory(&self) -> Result<PathBuf> {
        Ok(self.find()?.path().to_path_buf())
    }

    fn find(&self) -> Result<EnvironmentDirectory> {
        EnvironmentDirectory::find(self.env.as_deref())
    }

    /// Opens the environment, which must exist.
    pub fn open(&self, output: &Output) -> Result<Env> {
        open(&self.directory()?, Env::builder().create(false).lock_timeout(self.wait), output)
    }

    /// Opens the environment to watch its processes, without a session and without waiting. If no process has the
    /// environment open, opens it in the usual way, but without background work.
    pub fn open_to_look(&self, output: &Output) -> Result<Env> {
        let directory = self.directory()?;
        if let Some(env) = Env::builder().look(&directory)? {
            return Ok(env);
        }
        let settings = Settings { no_background: true, ..Settings::default() };
        open(&directory, Env::builder().create(false).settings(settings), output)
    }

    /// Opens the environment, which must exist. If shared memory and log files disagree, `keep` decides which of them
    /// is right.
    pub fn open_keeping(&self, keep: Option<Keep>, output: &Output) -> Result<Env> {
        let builder = Env::builder().create(false).lock_timeout(self.wait);
        open(&self.directory()?, keep.into_iter().fold(builder, Builder::keep), output)
    }

    /// Opens the environment. Makes the environment if it is missing, provided that its directory was given explicitly.
    pub fn open_or_create(&self, output: &Output) -> Result<Env> {
        let directory = self.find()?;
        let builder = Env::builder().create(directory.may_be_made()).lock_timeout(self.wait);
        open(directory.path(), builder, output)
    }

    /// Opens the environment to fill it. Makes the environment if it is missing, provided that its directory was given
    /// explicitly.
    pub fn open_to_fill(&self, builder: &Builder, output: &Output) -> Result<Filling> {
        let directory = self.find()?;
        let mut steps = Steps::new(output.may_draw());
        let builder = builder.clone().create(directory.may_be_made()).lock_timeout(self.wait);
        Ok(builder.open_to_fill(directory.path(), &mut |now| steps.set(now.step, now.done, now.total))?)
    }
}

impl DatabaseArguments {
    /// Opens an environment and a database, which must both exist.
    pub fn open(&self, output: &Output) -> Result<(Env, Database)> {
        let env = self.environment.open(output)?;
        let database = env.database(&self.database)?;
        Ok((env, database))
    }
}

/// Opens an environment, showing the progress of its recovery.
fn open(directory: &Path, builder: Builder, output: &Output) -> Result<Env> {
    let mut steps = Steps::new(output.may_draw());
    Ok(builder.open_watched(directory, &mut |now| steps.set(now.step, now.done, now.total))?)
}
