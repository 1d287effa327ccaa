//! A change of a plain file, as a row of the database `plain-files` (docs/formats/plain-files.md).

use libtp_io::PlainStatus;

pub(crate) use crate::db::opening::PLAIN_FILES as DATABASE;
use crate::{Error, Result};

/// The file of that database.
pub(crate) const DATABASE_FILE: &str = "plain-files.tp";

/// The prefix of the names of temporary files. The environment's tag, the log's incarnation, the transaction and a
/// number follow.
pub(crate) const TEMPORARY: &str = ".libtp-";

/// The first byte of the key of a file's row; the path follows.
const FILE: u8 = b'f';
/// The first byte of the key of a directory's row; the path follows.
const DIRECTORY: u8 = b'd';
/// The version of a row, which is the first byte of its value; [`WITNESSED`] and [`OLDER`] are the other versions.
const VERSION: u8 = 2;
/// The version of a file's row that has a witness.
const WITNESSED: u8 = 3;
/// The version of a file's row that has no directory number: an older build wrote it.
const OLDER: u8 = 1;

/// The identity of a file, which changes when the file is replaced or written.
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

/// The new file of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) identity: Identity,
    /// The name of the file, in the same directory, until it is put in its place.
    pub(crate) temporary: String,
}

/// A transaction's change of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The environment's tag; a copy of the environment has another one.
    pub(crate) tag: u64,
    /// The transaction's number.
    pub(crate) txn: u64,
    /// The number of the directory; `None` in a row of a build that did not record it.
    pub(crate) directory: Option<u64>,
    /// The file at the path when the transaction first touched it.
    pub(crate) old: Option<Identity>,
    /// The new file; `None` for a removal.
    pub(crate) new: Option<New>,
    /// For a removal: another name of the file, in the same directory. When that name is gone, the file was removed.
    /// `None` where the filesystem could not link the file.
    pub(crate) witness: Option<String>,
}

/// Returns the key of a file's row.
pub(crate) fn key(path: &str) -> Vec<u8> {
    [&[FILE], path.as_bytes()].concat()
}

/// Returns the key of a directory's row, which says that temporary files may be in the directory.
pub(crate) fn directory_key(path: &str) -> Vec<u8> {
    [&[DIRECTORY], path.as_bytes()].concat()
}

/// The file or directory that the key of a row names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    File(String),
    Directory(String),
}

/// Returns the file or directory that a key names.
///
/// # Errors
/// `Corrupt` if it is no key of this database.
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
        "the database `{DATABASE}` has the row `{key}`, and the library makes no such row for plain files; no file was changed because of it. If a program has a database with that name, give the database another name"
    ).into())
}

/// Returns the value of a directory's row.
pub(crate) fn encode_directory(tag: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(tag.to_le_bytes());
    bytes
}

/// Returns the tag in a directory's row.
pub(crate) fn decode_directory(key: &[u8], value: &[u8]) -> Result<u64> {
    let mut reader = Reader { left: value };
    match (reader.byte(), reader.word(), reader.left) {
        (Some(OLDER | VERSION), Some(tag), []) => Ok(tag),
        _ => Err(foreign(key)),
    }
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Keep the version in which the row was written, because rows are compared by their bytes.
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

    /// Returns the name of the file that is kept in the path's directory until the row is finished.
    pub(crate) fn beside(&self) -> Option<&str> {
        self.new.as_ref().map(|new| &new.temporary).or(self.witness.as_ref()).map(String::as_str)
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// `Corrupt` if the value is no row.
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
        // The library removes and renames this file, so the name must be one of its own.
        let is_ours = name.starts_with(TEMPORARY) && !name.contains('/');
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

    /// The outer `None` means a premature end, or no identity.
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
    fn a_row_is_read_as_it_was_written_and_other_bytes_are_refused() {
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
        assert!(Row::decode(b"f/a", &other.encode()).is_err(), "the library gives no such name");
        for (old, new) in [(None, Some(new.clone())), (Some(identity), None), (Some(identity), Some(new))] {
            let row = Row { tag: 3, txn: 9, directory: Some(5), old, new, witness: None };
            let bytes = row.encode();
            assert_eq!(Row::decode(b"f/a", &bytes).unwrap(), row);
            let older = [&[1], &bytes[1..17], &bytes[25..]].concat();
            let older_row = Row { directory: None, ..row.clone() };
            assert_eq!((Row::decode(b"f/a", &older).unwrap(), older_row.encode()), (older_row, older));
            // A row that lacks only the end of its name is not refused: the rest of the name begins with `TEMPORARY`.
            for cut in 0..bytes.len() - row.new.as_ref().map_or(0, |_| 5) {
                assert!(Row::decode(b"f/a", &bytes[..cut]).is_err(), "{cut}");
            }
            let error = Row::decode(b"f/a", &[&[9], &bytes[1..]].concat()).unwrap_err().to_string();
            assert!(error.contains("`f/a`") && error.contains("give the database another name"), "{error}");
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
