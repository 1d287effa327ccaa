//! What is to become of a plain file, as a row of the database `plain-files` (docs/formats/plain-files.md).

use libtp_io::PlainStatus;

use crate::{Error, Result};

/// The database of the intentions.
pub(crate) const DATABASE: &str = "plain-files";
/// The file that it lies in.
pub(crate) const DATABASE_FILE: &str = "plain-files.tp";

/// The first byte of the key of a file's row; the path follows.
const FILE: u8 = b'f';
/// The first byte of the key of a directory's row; its path follows.
const DIRECTORY: u8 = b'd';
/// The first byte of every value.
const VERSION: u8 = 2;
/// Rows of files of this version have a witness.
const WITNESSED: u8 = 3;
/// Rows of files of this version say nothing of their directory.
const OLDER: u8 = 1;

/// By what a file is known again: another program that replaced it, or wrote to it, has made another of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified_ns: u64,
}

impl From<&PlainStatus> for Identity {
    fn from(found: &PlainStatus) -> Identity {
        Identity { inode: found.inode, bytes: found.bytes, modified_ns: found.modified_ns }
    }
}

/// The file that is to be at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) identity: Identity,
    /// Its name until then, in the same directory.
    pub(crate) temporary: String,
}

/// What a transaction makes of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Of the environment; that of a copy differs.
    pub(crate) tag: u64,
    /// Which transaction.
    pub(crate) txn: u64,
    /// The number of the directory, none if a build that did not write it made the row.
    pub(crate) directory: Option<u64>,
    /// What was there when it first touched the path.
    pub(crate) old: Option<Identity>,
    /// What is to be there; nothing if it is removed.
    pub(crate) new: Option<New>,
    /// Of a removal: another name of the file, in the same directory. When that is gone the file was removed. None where the filesystem
    /// gave the file no second name.
    pub(crate) witness: Option<String>,
}

/// The key of the row of a file.
pub(crate) fn key(path: &str) -> Vec<u8> {
    [&[FILE], path.as_bytes()].concat()
}

/// The key of the row of a directory, which says that temporary files may lie there.
pub(crate) fn directory_key(path: &str) -> Vec<u8> {
    [&[DIRECTORY], path.as_bytes()].concat()
}

/// What a key is of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    File(String),
    Directory(String),
}

/// What a key is of.
///
/// # Errors
/// `Corrupt` if no row of this database has it.
pub(crate) fn named(key: &[u8]) -> Result<Named> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| foreign(key));
    match key {
        [FILE, path @ ..] => Ok(Named::File(text(path)?)),
        [DIRECTORY, path @ ..] => Ok(Named::Directory(text(path)?)),
        _ => Err(foreign(key)),
    }
}

fn foreign(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::Corrupt(format!(
        "the row `{key}` of database `{DATABASE}` is none of those that transactions over plain files put there; no file was \
         touched for it. If a program has a database of that name, give it another one"
    ))
}

/// The value of a directory's row.
pub(crate) fn encode_directory(tag: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(tag.to_le_bytes());
    bytes
}

/// The tag in a directory's row.
pub(crate) fn decode_directory(key: &[u8], value: &[u8]) -> Result<u64> {
    let mut reader = Reader { left: value };
    match (reader.byte(), reader.word(), reader.left) {
        (Some(OLDER | VERSION), Some(tag), []) => Ok(tag),
        _ => Err(foreign(key)),
    }
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // As it was found, whoever wrote it: by its bytes a row is known again.
        let version = match (self.directory, &self.witness) {
            (None, _) => OLDER,
            (Some(_), None) => VERSION,
            (Some(_), Some(_)) => WITNESSED,
        };
        let mut bytes = vec![version];
        bytes.extend(self.tag.to_le_bytes());
        bytes.extend(self.txn.to_le_bytes());
        bytes.extend(self.directory.into_iter().flat_map(u64::to_le_bytes));
        put_identity(&mut bytes, self.old.as_ref());
        put_identity(&mut bytes, self.new.as_ref().map(|new| &new.identity));
        bytes.extend(self.beside().unwrap_or_default().as_bytes());
        bytes
    }

    /// The name of what lies beside the path until the row is done.
    pub(crate) fn beside(&self) -> Option<&str> {
        self.new.as_ref().map(|new| &new.temporary).or(self.witness.as_ref()).map(String::as_str)
    }

    /// # Errors
    /// `Corrupt` if it is none.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Row> {
        Row::read(value).ok_or_else(|| foreign(key))
    }

    fn read(value: &[u8]) -> Option<Row> {
        let mut reader = Reader { left: value };
        let version = reader.byte().filter(|version| [OLDER, VERSION, WITNESSED].contains(version))?;
        let (tag, txn) = (reader.word()?, reader.word()?);
        let directory = if version == OLDER { None } else { Some(reader.word()?) };
        let old = reader.identity()?;
        let (identity, name) = (reader.identity()?, String::from_utf8(reader.left.to_vec()).ok()?);
        // It is removed, and renamed: it must be one of ours.
        let is_ours = name.starts_with(super::paths::TEMPORARY) && !name.contains('/');
        let (new, witness) = match identity {
            Some(identity) if is_ours && version != WITNESSED => (Some(New { identity, temporary: name }), None),
            None if is_ours && version == WITNESSED => (None, Some(name)),
            None if name.is_empty() && version != WITNESSED => (None, None),
            _ => return None,
        };
        Some(Row { tag, txn, directory, old, new, witness })
    }
}

fn put_identity(bytes: &mut Vec<u8>, identity: Option<&Identity>) {
    let Some(identity) = identity else { return bytes.push(0) };
    bytes.push(1);
    for word in [identity.inode, identity.bytes, identity.modified_ns] {
        bytes.extend(word.to_le_bytes());
    }
}

struct Reader<'b> {
    left: &'b [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, left) = self.left.split_first()?;
        self.left = left;
        Some(first)
    }

    fn word(&mut self) -> Option<u64> {
        let (word, left) = self.left.split_first_chunk::<8>()?;
        self.left = left;
        Some(u64::from_le_bytes(*word))
    }

    /// The outer none is an end that comes too early, or what is no identity.
    #[allow(clippy::option_option)]
    fn identity(&mut self) -> Option<Option<Identity>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(Identity { inode: self.word()?, bytes: self.word()?, modified_ns: self.word()? })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{decode_directory, directory_key, encode_directory, key, named, Identity, Named, New, Row};

    #[test]
    fn a_row_is_read_as_it_was_written_and_nothing_else_is_one() {
        let identity = Identity { inode: 7, bytes: 1 << 40, modified_ns: u64::MAX };
        let new = New { identity, temporary: ".libtp-1-2-3".into() };
        let witness = Some(".libtp-1-2-4".to_owned());
        let witnessed = Row { tag: 3, txn: 9, directory: Some(5), old: Some(identity), new: None, witness };
        let bytes = witnessed.encode();
        assert_eq!(Row::decode(b"f/a", &bytes).unwrap(), witnessed);
        for cut in 0..bytes.len() - 5 {
            assert!(Row::decode(b"f/a", &bytes[..cut]).is_err(), "{cut}");
        }
        let other = Row { witness: Some("passwd".to_owned()), ..witnessed };
        assert!(Row::decode(b"f/a", &other.encode()).is_err(), "no name of ours");
        for (old, new) in [(None, Some(new.clone())), (Some(identity), None), (Some(identity), Some(new))] {
            let row = Row { tag: 3, txn: 9, directory: Some(5), old, new, witness: None };
            let bytes = row.encode();
            assert_eq!(Row::decode(b"f/a", &bytes).unwrap(), row);
            let older = [&[1], &bytes[1..17], &bytes[25..]].concat();
            let older_row = Row { directory: None, ..row.clone() };
            assert_eq!((Row::decode(b"f/a", &older).unwrap(), older_row.encode()), (older_row, older));
            // Only the name may be shorter, and what is left of it is no name of ours then.
            for cut in 0..bytes.len() - row.new.as_ref().map_or(0, |_| 5) {
                assert!(Row::decode(b"f/a", &bytes[..cut]).is_err(), "{cut}");
            }
            let error = Row::decode(b"f/a", &[&[9], &bytes[1..]].concat()).unwrap_err().to_string();
            assert!(error.contains("`f/a`") && error.contains("give it another one"), "{error}");
        }
        let elsewhere = New { identity, temporary: ".libtp-1/../x".into() };
        assert!(Row::decode(
            b"f/a",
            &Row { tag: 3, txn: 9, directory: None, old: None, new: Some(elsewhere), witness: None }.encode()
        )
        .is_err());
    }

    #[test]
    fn a_key_is_of_a_file_or_a_directory() {
        assert_eq!(named(&key("/etc/passwd")).unwrap(), Named::File("/etc/passwd".into()));
        assert_eq!(named(&directory_key("/etc")).unwrap(), Named::Directory("/etc".into()));
        assert!(named(b"x/etc").is_err() && named(b"").is_err() && named(b"f\xFF").is_err());
        assert_eq!(decode_directory(b"d/", &encode_directory(5)).unwrap(), 5);
        assert!(decode_directory(b"d/", b"").is_err());
    }
}
