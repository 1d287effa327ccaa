//! The bank that a benchmark or a demonstration works in: where it lies, and loading it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtp_bench::{Engine, Scale, Table};

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;

/// The directory of a bank.
pub struct BankDirectory {
    path: PathBuf,
    /// Made here, for one run only.
    removed_at_end: bool,
}

impl BankDirectory {
    /// The directory named, made if it is missing; or a fresh one.
    pub fn open(named: Option<&Path>, fresh_name: &str) -> Result<BankDirectory> {
        let path = match named {
            Some(path) => {
                let made = std::fs::create_dir_all(path);
                made.map_err(Failure::doing(format!("make the directory {}", path.display())))?;
                path.to_path_buf()
            }
            None => fresh_directory(fresh_name)?,
        };
        Ok(BankDirectory { path, removed_at_end: false })
    }

    /// Removes the directory in the end, whatever the end is.
    pub fn removed_at_end(mut self) -> BankDirectory {
        self.removed_at_end = true;
        self
    }

    /// Where it is.
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
            eprintln!("tp: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Makes `NAME-1`, `NAME-2`, .. whichever is not there yet, where files of some size and some life belong: what is in
/// memory only, as `/tmp` often is, would make a disk of the benchmark that is none.
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
    unreachable!("a directory cannot hold so many others")
}

/// What loading did.
pub struct Loaded {
    /// The bank's scale.
    pub scale: Scale,
    /// How long it took; none if the bank was there already.
    pub time: Option<Duration>,
}

/// Loads the bank, unless it is there.
///
/// # Errors
/// A bank of another size than asked for.
pub fn load(engine: &dyn Engine, accounts: Option<u32>, usual: u32, output: &Output) -> Result<Loaded> {
    if let Some(there) = accounts_in(engine)? {
        if accounts.is_some_and(|asked| asked != there) {
            return Err(Failure::Usage(format!(
                "the bank has {there} accounts already: leave out --accounts, or name another directory"
            )));
        }
        return Ok(Loaded { scale: Scale::with_accounts(there), time: None });
    }
    let scale = Scale::with_accounts(accounts.unwrap_or(usual));
    let bar = Progress::count(output.may_draw(), "loading the bank", scale.total());
    let begin = Instant::now();
    engine.load(&scale, &mut |loaded| bar.set(loaded))?;
    Ok(Loaded { scale, time: Some(begin.elapsed()) })
}

/// How many accounts the bank has; none if it was not loaded to its end: branches come last.
fn accounts_in(engine: &dyn Engine) -> Result<Option<u32>> {
    let count = |table| -> Result<u32> {
        let mut records = 0_u32;
        engine.walk(table, &mut |_, _| records = records.saturating_add(1))?;
        Ok(records)
    };
    if count(Table::Branch)? == 0 {
        return Ok(None);
    }
    count(Table::Account).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_bench::{InMemory, MapKind};

    #[test]
    fn a_bank_is_loaded_once_and_keeps_its_size() {
        let (bank, output) = (InMemory::new(MapKind::Tree), Output::new(true));
        let first = load(&bank, Some(50), 1_000, &output).unwrap();
        assert!(first.scale.accounts == 50 && first.time.is_some());
        let second = load(&bank, None, 1_000, &output).unwrap();
        assert!(second.scale.accounts == 50 && second.time.is_none());
        let refused = load(&bank, Some(51), 1_000, &output).err().unwrap();
        assert!(matches!(refused, Failure::Usage(_)) && refused.to_string().contains("50 accounts"), "{refused}");
    }

    #[test]
    fn fresh_directories_are_new_and_removed_only_if_asked() {
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
