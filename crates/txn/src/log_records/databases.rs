//! The body of a record of databases' fates.

use libtp_buffer::{Fate, FileId, NAME_BYTES_MAX};
use libtp_log::Lsn;

use crate::Error;

/// The number of bytes before the names of one database.
const FRONT: usize = 12;

/// Returns the body of a record of fates: for each database the file's number and the bytes of a page (4 bytes each),
/// the bytes of its name and of its new name (2 bytes each, zero for none), and both names.
pub(crate) fn encode(fates: &[Fate]) -> Vec<u8> {
    let mut body = Vec::new();
    let length = |name: &str| u16::try_from(name.len()).expect("names have at most 200 bytes").to_le_bytes();
    for fate in fates {
        let new_name = fate.new_name.as_deref().unwrap_or_default();
        body.extend_from_slice(&fate.id.raw().to_le_bytes());
        body.extend_from_slice(&fate.page_bytes.to_le_bytes());
        body.extend_from_slice(&length(&fate.name));
        body.extend_from_slice(&length(new_name));
        body.extend_from_slice(fate.name.as_bytes());
        body.extend_from_slice(new_name.as_bytes());
    }
    body
}

/// Reads a body of this type; `None` if the bytes do not have its form.
pub(crate) fn decode(mut body: &[u8]) -> Option<Vec<Fate>> {
    let mut fates = Vec::new();
    while !body.is_empty() {
        let (front, rest) = body.split_at_checked(FRONT)?;
        let four = |at: usize| front[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let two = |at: usize| front[at..at + 2].try_into().map(u16::from_le_bytes).ok().map(usize::from);
        let (name, rest) = rest.split_at_checked(two(8)?)?;
        let (new_name, rest) = rest.split_at_checked(two(10)?)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok().filter(|text| text.len() <= NAME_BYTES_MAX);
        let (name, new_name) = (text(name).filter(|name| !name.is_empty())?, text(new_name)?);
        let new_name = Some(new_name).filter(|name| !name.is_empty());
        fates.push(Fate { id: FileId::new(four(0)?), page_bytes: four(4)?, name, new_name });
        body = rest;
    }
    Some(fates)
}

/// Describes a body in one line.
pub(crate) fn describe(body: &[u8]) -> String {
    let Some(fates) = decode(body) else { return "unreadable".into() };
    let one = |fate: &Fate| match &fate.new_name {
        Some(name) => format!("file {} ({}) is called {name}", fate.id, fate.name),
        None => format!("file {} ({}) is dropped", fate.id, fate.name),
    };
    fates.iter().map(one).collect::<Vec<String>>().join(", ")
}

pub(crate) fn damaged(lsn: Lsn) -> Error {
    Error::Damaged { lsn, name: "databases", what: "its body is no list of databases".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fates_of_databases_read_back_as_they_were_written() {
        let fate = |id, name: &str, new_name: Option<&str>| Fate {
            id: FileId::new(id),
            page_bytes: 8192,
            name: name.into(),
            new_name: new_name.map(str::to_owned),
        };
        let fates = vec![fate(1, "kv", None), fate(7, "kv.new", Some("kv"))];
        let body = encode(&fates);
        assert_eq!(decode(&body), Some(fates));
        assert_eq!(describe(&body), "file 1 (kv) is dropped, file 7 (kv.new) is called kv");
        assert_eq!(decode(&body[..body.len() - 1]), None);
        assert_eq!(decode(&body[..5]), None);
    }
}
