//! The versions of the peers: from a call of the library, or from the lock file or the build script of this build.

use crate::kinds::EngineKind;

const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

/// Returns a peer's version. Returns an empty text if the peer has no version or is not in this build.
pub fn peer_version(kind: EngineKind) -> String {
    match kind {
        EngineKind::Sqlite => sqlite(),
        EngineKind::Lmdb => lmdb(),
        EngineKind::Redb | EngineKind::Fjall => locked(LOCK_FILE, kind.name()).to_owned(),
        EngineKind::RocksDb => option_env!("ROCKSDB_VERSION").unwrap_or_default().to_owned(),
        EngineKind::Bdb => bdb(),
        EngineKind::Postgres => postgres(),
        EngineKind::HashMap | EngineKind::BTreeMap => String::new(),
    }
}

/// Returns libpmemobj's version. Returns an empty text if libpmemobj is not in this build.
pub fn pmemobj_version() -> &'static str {
    option_env!("PMEMOBJ_VERSION").unwrap_or_default()
}

#[cfg(feature = "peers")]
fn sqlite() -> String {
    rusqlite::version().to_owned()
}

#[cfg(feature = "peers")]
fn lmdb() -> String {
    let version = heed::lmdb_version();
    format!("{}.{}.{}", version.major, version.minor, version.patch)
}

#[cfg(not(feature = "peers"))]
fn sqlite() -> String {
    String::new()
}

#[cfg(not(feature = "peers"))]
fn lmdb() -> String {
    String::new()
}

#[cfg(feature = "peers-all")]
fn bdb() -> String {
    crate::peers::bdb::version()
}

#[cfg(not(feature = "peers-all"))]
fn bdb() -> String {
    String::new()
}

#[cfg(feature = "peers-all")]
fn postgres() -> String {
    crate::peers::postgres_server::version()
}

#[cfg(not(feature = "peers-all"))]
fn postgres() -> String {
    String::new()
}

/// Returns the version of a package in a lock file. Returns an empty text if the file does not have the package.
fn locked<'l>(lock_file: &'l str, package: &str) -> &'l str {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock_file.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("", |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_the_whole_name() {
        let file = "[[package]]\nname = \"redb-derive\"\nversion = \"9.9.9\"\n\n[[package]]\nname = \"redb\"\nversion = \"4.6.0\"\n";
        assert_eq!((locked(file, "redb"), locked(file, "fjall")), ("4.6.0", ""));
        assert!(!locked(LOCK_FILE, "redb").is_empty(), "the lock file does not have redb");
    }

    #[test]
    fn every_peer_that_is_built_in_has_a_version() {
        for kind in EngineKind::ALL {
            // The maps have no version. PostgreSQL may be missing on this machine, even if this build can use it.
            let has_none = matches!(kind, EngineKind::HashMap | EngineKind::BTreeMap | EngineKind::Postgres);
            let version = peer_version(kind);
            if kind.is_built_in() && !has_none {
                assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{}: {version:?}", kind.name());
            }
        }
        assert_eq!(pmemobj_version().starts_with(|first: char| first.is_ascii_digit()), cfg!(feature = "peers-all"));
    }
}
