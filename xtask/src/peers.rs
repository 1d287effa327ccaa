//! The peers of a benchmark: the cargo features that build them, and the packages that they need.

use crate::setup;
use std::io;
use std::path::Path;

/// The peers of a benchmark, by the values of its `--peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// No peer.
    None,
    /// SQLite, LMDB, redb and fjall.
    Light,
    /// All light peers, and RocksDB, Berkeley DB, libpmemobj and PostgreSQL.
    All,
}

impl Peers {
    /// Reads the command line. The benchmark itself refuses unknown values.
    pub fn of(arguments: &[String]) -> Peers {
        match values(arguments, "--peers").last() {
            Some("none") => Peers::None,
            Some("all") => Peers::All,
            _ => Peers::Light,
        }
    }

    /// Returns the arguments for cargo.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Peers::None => &[],
            Peers::Light => &["--features", "peers"],
            Peers::All => &["--features", "peers-all"],
        }
    }

    /// Installs the packages that these peers need.
    ///
    /// # Errors
    /// When apt-get cannot be started.
    pub fn install(self, logs: &Path) -> io::Result<()> {
        match self {
            Peers::None => Ok(()),
            Peers::Light => setup::packages_for_light_peers(logs).map(drop),
            Peers::All => setup::packages_for_all_peers(logs).map(drop),
        }
    }
}

/// Returns each value of an option: `--only a`, `--only=a`.
pub fn values<'a>(arguments: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    let words = arguments.iter().map(String::as_str);
    let before = std::iter::once("").chain(words.clone());
    words.zip(before).filter_map(move |(word, before)| match before == option {
        true => Some(word),
        false => word.strip_prefix(option)?.strip_prefix('='),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_that_are_asked_for_are_built_in() {
        let of = |line: &str| Peers::of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("--out d --quick"), Peers::Light);
        assert_eq!((of("--peers all --out d"), of("--out d --peers=all")), (Peers::All, Peers::All));
        assert_eq!((of("--peers none"), of("--out all")), (Peers::None, Peers::Light));
    }
}
