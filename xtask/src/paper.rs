//! `cargo xtask bench paper`: `tp bench paper`, built with the peers that it is asked for, whose packages are installed.

use crate::workspace::{cargo, Workspace};
use crate::{command_test, setup};
use std::process::ExitCode;

const PACKAGE: &str = "libtp-cli";

/// Who is measured beside us, as `tp` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    None,
    Light,
    All,
}

/// Builds `tp` in release and measures.
///
/// # Errors
/// When cargo or apt-get cannot be started.
pub fn paper(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let peers = Peers::of(arguments);
    let logs = command_test::logs(workspace);
    let installed = match peers {
        Peers::None => Ok(()),
        Peers::Light => setup::packages_for_light_peers(&logs).map(drop),
        Peers::All => setup::packages_for_all_peers(&logs).map(drop),
    };
    installed.map_err(|error| error.to_string())?;
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE])
        .args(peers.features())
        .args(["--", "bench", "paper"])
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Peers {
    /// What the command line says; what `tp` does not know it refuses itself.
    fn of(arguments: &[String]) -> Peers {
        let words = arguments.iter().map(String::as_str);
        let before = std::iter::once("").chain(words.clone());
        let named = words.zip(before).filter_map(|(word, before)| match before {
            "--peers" => Some(word),
            _ => word.strip_prefix("--peers="),
        });
        match named.last() {
            Some("none") => Peers::None,
            Some("all") => Peers::All,
            _ => Peers::Light,
        }
    }

    fn features(self) -> &'static [&'static str] {
        match self {
            Peers::None => &[],
            Peers::Light => &["--features", "peers"],
            Peers::All => &["--features", "peers-all"],
        }
    }
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
