//! Each transaction makes version N of a record and of three files. The first file is replaced. The second file is
//! renamed and replaced. For the third, a new file is made and the old file is removed.

use std::path::{Path, PathBuf};

use libtp::{Db, Env, Error, Result, Txn};

/// Number of lines of a file, each with its version.
const LINES: usize = 300;

/// Returns the contents of a file of version `version`.
pub fn contents(version: u64) -> Vec<u8> {
    format!("version {version:020}\n").repeat(LINES).into_bytes()
}

/// Returns the version of a file, or a description of its fault.
pub fn version_of(contents: &[u8]) -> std::result::Result<u64, String> {
    let text = String::from_utf8_lossy(contents);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let version = first.strip_prefix("version ").and_then(|number| number.parse().ok());
    match version {
        Some(version) if contents == self::contents(version) => Ok(version),
        _ => Err(format!("a file of {} bytes that begins with {first:?} has no whole version", contents.len())),
    }
}

/// The record's database and the directory of the files.
pub struct Business {
    records: Db,
    place: PathBuf,
}

impl Business {
    /// Opens the business in this directory.
    pub fn open(env: &Env, place: &Path) -> Result<Business> {
        Ok(Business { records: env.btree("records")?, place: place.to_path_buf() })
    }

    /// Returns the path of the file with that name.
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Makes version 0.
    pub fn begin(&self, env: &Env) -> Result<()> {
        env.run(|txn| {
            self.records.put(txn, b"version", &0_u64.to_le_bytes())?;
            ["passwd", "moved-0", "made-0"].iter().try_for_each(|name| txn.create_file(self.at(name), &contents(0)))
        })
    }

    /// Makes the next version in a transaction. Returns its number.
    pub fn change(&self, txn: &Txn<'_>) -> Result<u64> {
        let old = self.records.get_for_update(txn, b"version")?.expect("`begin` made it");
        let old = u64::from_le_bytes(old.try_into().expect("it has eight bytes"));
        let new = old + 1;
        self.records.put(txn, b"version", &new.to_le_bytes())?;
        let read = txn.read_file(self.at("passwd"))?.expect("`begin` made it");
        assert_eq!(version_of(&read), Ok(old), "the file has another version than the record");
        txn.replace_file(self.at("passwd"), &contents(new))?;
        txn.rename_file(self.at(&format!("moved-{old}")), self.at(&format!("moved-{new}")))?;
        txn.replace_file(self.at(&format!("moved-{new}")), &contents(new))?;
        txn.create_file(self.at(&format!("made-{new}")), &contents(new))?;
        txn.remove_file(self.at(&format!("made-{old}")))?;
        Ok(new)
    }

    /// Makes and commits the next version. Returns its number.
    pub fn step(&self, env: &Env) -> Result<u64> {
        env.run(|txn| self.change(txn))
    }

    /// Returns the version that a transaction reads. The record and all files must agree.
    pub fn read(&self, env: &Env) -> Result<u64> {
        let read = env.run(|txn| {
            let version = self.records.get(txn, b"version")?.expect("`begin` made it");
            let version = u64::from_le_bytes(version.try_into().expect("it has eight bytes"));
            let mut found = Vec::new();
            for name in ["passwd".into(), format!("moved-{version}"), format!("made-{version}")] {
                found.push((txn.read_file(self.at(&name))?.map(|it| version_of(&it)), name));
            }
            for name in [format!("moved-{}", version + 1), format!("made-{}", version + 1)] {
                assert_eq!(txn.read_file(self.at(&name))?, None, "{name} exists in version {version}");
            }
            if let Some(old) = version.checked_sub(1) {
                for name in [format!("moved-{old}"), format!("made-{old}")] {
                    assert_eq!(txn.read_file(self.at(&name))?, None, "{name} exists in version {version}");
                }
            }
            Ok((version, found))
        });
        let (version, found) = read?;
        for (found, name) in found {
            assert_eq!(found, Some(Ok(version)), "{name} has another version than the record, {version}");
        }
        Ok(version)
    }

    /// Returns the names of a version's files. Other programs find these names when all files of committed transactions
    /// have got their names.
    pub fn names(version: u64) -> Vec<String> {
        vec![format!("made-{version}"), format!("moved-{version}"), "passwd".into()]
    }

    /// Returns the number of files of committed transactions that may not have their names yet.
    pub fn rows(&self, env: &Env) -> Result<u64> {
        let rows = match env.database("plain-files") {
            Ok(_) => env.btree("plain-files")?,
            Err(Error::NoDatabase { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        let snapshot = env.snapshot()?;
        rows.count(&snapshot, libtp::Keys::prefix(b"f"))
    }
}

/// Returns the names in a directory of the machine.
pub fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks the files in a directory of the machine, as other programs find them when all files of committed transactions
/// have got their names. Returns the first fault.
pub fn judge(place: &Path, version: u64) -> std::result::Result<(), String> {
    let names = names_in(place);
    if names != Business::names(version) {
        return Err(format!("the files of version {version} have the names {names:?}"));
    }
    for name in names {
        let found = version_of(&std::fs::read(place.join(&name)).map_err(|error| error.to_string())?)?;
        if found != version {
            return Err(format!("{name} has version {found}, and the record version {version}"));
        }
    }
    Ok(())
}
