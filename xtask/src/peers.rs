//! Who is measured beside us: what of cargo's features brings them, and which packages they need.

use crate::setup;
use std::io;
use std::path::Path;

/// Who is measured beside us, as the benchmarks' `--peers` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Nobody.
    None,
    /// SQLite, LMDB, redb and fjall.
    Light,
    /// RocksDB and Berkeley DB as well.
    All,
}

impl Peers {
    /// What the command line says; what the benchmark does not know it refuses itself.
    pub fn of(arguments: &[String]) -> Peers {
        match values(arguments, "--peers").last() {
            Some("none") => Peers::None,
            Some("all") => Peers::All,
            _ => Peers::Light,
        }
    }

    /// What cargo is told.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Peers::None => &[],
            Peers::Light => &["--features", "peers"],
            Peers::All => &["--features", "peers-all"],
        }
    }

    /// Installs the packages that they need.
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

/// What is said after an option, each time that it is there: `--only a`, `--only=a`.
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
