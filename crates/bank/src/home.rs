//! The bank of a benchmark or demonstration: its directory, and its loading.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use libtp_console::failure::{Failure, Result};
use libtp_console::output::{note, Output};
use libtp_console::progress::Progress;

use crate::engine::Engine;
use crate::tpcb::{Scale, Table};

/// The directory of a bank.
pub struct BankDirectory {
    path: PathBuf,
    /// Whether dropping this value removes the directory.
    removed_at_end: bool,
}

impl BankDirectory {
    /// Opens the directory `named`, and makes it if it is missing. Without a name, makes a new directory whose name
    /// begins with `fresh_name`.
    pub fn open(named: Option<&Path>, fresh_name: &str) -> Result<BankDirectory> {
        let path = match named {
            Some(path) => {
                if path.exists() && !path.is_dir() {
                    let what = "is a file, not a directory; nothing was changed. Name a directory";
                    return Err(Failure::Failed(format!("{} {what}", path.display())));
                }
                let made = std::fs::create_dir_all(path);
                made.map_err(Failure::doing(format!("make the directory {}", path.display())))?;
                path.to_path_buf()
            }
            None => fresh_directory(fresh_name)?,
        };
        Ok(BankDirectory { path, removed_at_end: false })
    }

    /// Makes a directory for this run inside `parent`, which may have other contents. Dropping the value removes the
    /// new directory.
    pub fn inside(parent: &Path, name: &str) -> Result<BankDirectory> {
        let path = parent.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(Failure::doing(format!("make the directory {}", path.display())))?;
        Ok(BankDirectory { path, removed_at_end: true })
    }

    /// Lets the directory be removed when this value is dropped, also after a failure of the run.
    pub fn removed_at_end(mut self) -> BankDirectory {
        self.removed_at_end = true;
        self
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BankDirectory {
    fn drop(&mut self) {
        if !self.removed_at_end {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            note(format_args!("cannot remove {}: {error}", self.path.display()));
        }
    }
}

/// Makes the first of the directories `NAME-1`, `NAME-2`, .. that does not exist. The parent is `TMPDIR`, else
/// `/var/tmp`: `/tmp` is often in memory, where a benchmark would not measure a disk.
fn fresh_directory(name: &str) -> Result<PathBuf> {
    let kept = Path::new("/var/tmp");
    let parent = match std::env::var_os("TMPDIR") {
        Some(named) => PathBuf::from(named),
        None if kept.is_dir() => kept.to_path_buf(),
        None => std::env::temp_dir(),
    };
    for number in 1_u32.. {
        let path = parent.join(format!("{name}-{number}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::doing(format!("make the directory {}", path.display()))(error)),
        }
    }
    unreachable!("a directory cannot have four billion directories")
}

/// The loaded bank.
pub struct Loaded {
    /// The bank's scale.
    pub scale: Scale,
    /// The time that the load took; `None` if the bank existed already.
    pub time: Option<Duration>,
}

/// The wanted size of a bank. An omitted number is taken from the existing bank, or is the default for a new bank.
#[derive(Args, Clone, Copy, Default)]
pub struct Size {
    /// Number of accounts. Default for a new bank: 100000 with `tp demo`, 1000000 with `tp bench`.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    accounts: Option<u32>,
    /// Number of branches; each branch has ten tellers. With few branches, clients often wait for each other's locks.
    /// Default for a new bank: 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    branches: Option<u32>,
}

/// Loads the bank, unless it is loaded already.
///
/// # Errors
/// `Usage` if the bank exists with another size than asked for; otherwise the engine's error.
pub fn load(engine: &dyn Engine, asked: Size, usual_accounts: u32, output: &Output) -> Result<Loaded> {
    if let Some(scale) = scale_of(engine)? {
        for (asked, there, what) in
            [(asked.accounts, scale.accounts, "accounts"), (asked.branches, scale.branches, "branches")]
        {
            if asked.is_some_and(|asked| asked != there) {
                return Err(Failure::Usage(format!(
                    "the bank has {there} {what} already: leave out --{what}, or name another directory"
                )));
            }
        }
        return Ok(Loaded { scale, time: None });
    }
    let branches = asked.branches.unwrap_or(Scale::PAPER.branches);
    let scale = Scale::with_branches(asked.accounts.unwrap_or(usual_accounts), branches);
    let bar = Progress::count(output.may_draw(), "loading the bank", scale.total());
    let begin = Instant::now();
    engine.load(&scale, &mut |loaded| bar.set(loaded))?;
    Ok(Loaded { scale, time: Some(begin.elapsed()) })
}

/// Returns the bank's size; `None` if it was not loaded completely. The load writes the branches last, in one
/// transaction, so a bank without branches is incomplete.
fn scale_of(engine: &dyn Engine) -> Result<Option<Scale>> {
    let count = |table| -> Result<u32> {
        let mut records = 0_u32;
        engine.walk(table, &mut |_, _| records = records.saturating_add(1))?;
        Ok(records)
    };
    let branches = count(Table::Branch)?;
    if branches == 0 {
        return Ok(None);
    }
    Ok(Some(Scale { accounts: count(Table::Account)?, tellers: count(Table::Teller)?, branches }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_in_memory::{InMemory, MapKind};

    #[test]
    fn a_bank_is_loaded_once_and_keeps_its_size() {
        let (bank, output) = (InMemory::new(MapKind::Tree), Output::new(true));
        let size = |accounts, branches| Size { accounts, branches };
        let first = load(&bank, size(Some(50), Some(3)), 1_000, &output).unwrap();
        assert!(first.scale == Scale { accounts: 50, tellers: 30, branches: 3 } && first.time.is_some());
        let second = load(&bank, Size::default(), 1_000, &output).unwrap();
        assert!(second.scale == first.scale && second.time.is_none());
        for (other, word) in [(size(Some(51), None), "50 accounts"), (size(None, Some(10)), "3 branches")] {
            let refused = load(&bank, other, 1_000, &output).err().unwrap();
            assert!(matches!(refused, Failure::Usage(_)) && refused.to_string().contains(word), "{refused}");
        }
    }

    #[test]
    fn fresh_directories_are_new_and_are_removed_only_if_the_caller_asks() {
        let name = format!("libtp-fresh-test-{}", std::process::id());
        let kept = BankDirectory::open(None, &name).unwrap();
        let removed = BankDirectory::open(None, &name).unwrap().removed_at_end();
        let (kept_path, removed_path) = (kept.path().to_path_buf(), removed.path().to_path_buf());
        assert_ne!(kept_path, removed_path);
        drop((kept, removed));
        assert!(kept_path.is_dir() && !removed_path.exists());
        std::fs::remove_dir(kept_path).unwrap();
    }
}
