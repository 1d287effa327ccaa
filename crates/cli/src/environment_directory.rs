//! The directory of a command's environment: the option `--env`, else the variable `TP_ENV`, else the current directory.
//!
//! The current directory is used only if it is an environment. A command makes an environment only in a directory that
//! the option or the variable names.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The variable that names the environment's directory.
pub const VARIABLE: &str = "TP_ENV";

/// The file that each environment has.
const CONTROL: &str = "control";

/// The directory of an environment.
#[derive(Debug, PartialEq, Eq)]
pub enum EnvironmentDirectory {
    /// The option or the variable names the directory. An environment may be made there.
    Named(PathBuf),
    /// The current directory, which is an environment.
    Current(PathBuf),
}

impl EnvironmentDirectory {
    /// Finds the directory. `option` is the value of `--env`.
    ///
    /// # Errors
    /// `Usage` if neither option nor variable names a directory, and the current directory is no environment.
    pub fn find(option: Option<&Path>) -> Result<EnvironmentDirectory> {
        let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        EnvironmentDirectory::choose(named(option), current)
    }

    fn choose(named: Option<PathBuf>, current: PathBuf) -> Result<EnvironmentDirectory> {
        match named {
            Some(named) => Ok(EnvironmentDirectory::Named(named)),
            None if current.join(CONTROL).is_file() => Ok(EnvironmentDirectory::Current(current)),
            None => Err(Failure::Usage(format!(
                "no environment is named: give its directory with --env DIR (-e DIR), or set {VARIABLE} to its directory, \
                 or change to its directory. The current directory {} has no file `{CONTROL}`, so it is no environment",
                current.display()
            ))),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        match self {
            EnvironmentDirectory::Named(path) | EnvironmentDirectory::Current(path) => path,
        }
    }

    /// Returns whether a missing environment may be made in the directory.
    pub fn may_be_made(&self) -> bool {
        matches!(self, EnvironmentDirectory::Named(_))
    }
}

/// Returns the directory for a new environment. `option` is the value of `--env`.
///
/// # Errors
/// `Usage` if neither option nor variable names a directory.
pub fn directory_to_make(option: Option<&Path>) -> Result<PathBuf> {
    named(option).ok_or_else(|| {
        Failure::Usage(format!(
            "the directory of the new environment is not named: give it with --env DIR (-e DIR), or set {VARIABLE} to it"
        ))
    })
}

/// Returns the directory that the option or the variable names. An empty variable names no directory.
fn named(option: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    option.map(Path::to_path_buf).or_else(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_directory_counts_only_if_it_has_a_control_file() {
        let current = tempfile::tempdir().unwrap();
        let choose =
            |named: Option<&str>| EnvironmentDirectory::choose(named.map(PathBuf::from), current.path().to_path_buf());
        let refused = choose(None).unwrap_err();
        assert!(matches!(refused, Failure::Usage(_)));
        for remedy in ["--env DIR", "TP_ENV", "change to its directory"] {
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        std::fs::write(current.path().join(CONTROL), "x").unwrap();
        assert!(!choose(None).unwrap().may_be_made());
        assert_eq!(choose(None).unwrap().path(), current.path());
        assert!(choose(Some("bank")).unwrap().may_be_made());
        assert_eq!(choose(Some("bank")).unwrap().path(), Path::new("bank"));
    }
}
