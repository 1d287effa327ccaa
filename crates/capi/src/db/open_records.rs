//! `dbopen` of a DB_RECNO: the text file, and in shared mode the list that has its records (docs/design/0018).

use std::path::Path;
use std::sync::Arc;

use libtp::{Database, Error, TextForm};

use crate::db::current;
use crate::db::environments::{environment, of_path, Home, Wishes};
use crate::db::info::ToldOfRecords;
use crate::db::numbered::{Length, Numbered, Records};
use crate::db::open::{drop_to_make_anew, How};
use crate::db::plain::Plain;
use crate::db::plain_file::{Kind, PlainFile};
use crate::db::refusal::{Answer, Refusal};
use crate::db::rule::Rule;
use crate::db::shared_list::{clear, SharedList};
use crate::db::shared_records::SharedRecords;
use crate::db::text_file::TextFile;
use crate::db::Store;

pub(crate) fn open_plain(path: Option<&Path>, how: &How, told: &ToldOfRecords) -> Answer<Store> {
    let file = path.map(|path| Answer::Ok((how.open(path)?, path))).transpose()?;
    let mut records = TextFile::open(file, told.length, told.end)?;
    if how.is_read_only() {
        records.leave_text();
    }
    if let Some(kept_in) = told.kept_in.as_deref() {
        let kind = Kind { is_hash: false, has_duplicates: false, hash_of_text: 0 };
        // Without a text the records are there alone.
        let file = if path.is_some() || how.has(libc::O_CREAT) { How::to_keep() } else { How::to_go_on() };
        let file = PlainFile::open(file.open(kept_in)?, kept_in, kind)?;
        let kept = Plain::open(Rule::Bytes, file.kind().has_duplicates, Some(file))?;
        match path {
            Some(_) => records.keep_in(kept),
            None => records.go_on_with(kept)?,
        }
    }
    // Changes of a text that is only read stay in memory.
    Ok(Store::Numbered(Numbered::new(Box::new(records), told.length, false)))
}

/// The file is the text; its records are in a list, in the environment of its directory under its name, or where `bfname` says.
pub(crate) fn open_shared(path: &Path, how: &How, told: &ToldOfRecords) -> Answer<Store> {
    let (directory, name) = of_path(path)?;
    let text = directory.join(&name);
    let (directory, name) = told.kept_in.as_deref().map_or(Ok((directory, name)), of_path)?;
    let may_make = how.has(libc::O_CREAT) || text.is_file();
    let home = environment(&directory, &Wishes { create: may_make, database: &name, page_bytes: 0 })?;
    let is_there = home.env.databases()?.contains(&name);
    if is_there && how.has(libc::O_CREAT) && how.has(libc::O_EXCL) {
        return Err(Refusal::new(libc::EEXIST, format!("{} is there already", path.display())));
    }
    if !is_there && !may_make {
        return Err(Error::NoDatabase { name, environment: directory }.into());
    }
    let mut there = is_there.then(|| home.env.database(&name));
    let fits = match (&there, told.length) {
        (Some(Ok(Database::Recno(records))), Length::Fixed(bytes, _)) => records.record_bytes() as usize == bytes,
        (Some(Ok(Database::List(_))) | None, _) => true,
        (Some(Ok(_) | Err(Error::Database { .. })), _) => false,
        (Some(Err(_)), _) => true,
    };
    // Of the same form it is emptied, and others go on with it.
    if how.has(libc::O_TRUNC) && !fits {
        drop_to_make_anew(&home, &name)?;
        there = None;
    }
    let there = there.transpose()?;
    let is_there = there.is_some();
    let records = match there {
        Some(Database::Recno(_)) => with_kept_numbers(&home, &name, how, told.length)?,
        _ => with_text(&home, (&name, is_there), &text, (how, told))?,
    };
    Ok(Store::Numbered(Numbered::new(records, told.length, how.is_read_only())))
}

fn with_kept_numbers(home: &Arc<Home>, name: &str, how: &How, length: Length) -> Answer<Box<dyn Records>> {
    let Length::Fixed(bytes, _) = length else {
        let what =
            format!("{name} has records of one length, as tp_recno_open made it: R_FIXEDLEN and reclen are needed");
        return Err(Refusal::invalid(what));
    };
    let bytes = u32::try_from(bytes).map_err(|_| Refusal::invalid(format!("records of {bytes} bytes are too long")))?;
    let records = SharedRecords::new(how.shared(home, name), home.env.recno(name, bytes)?, length);
    if how.has(libc::O_TRUNC) {
        records.clear()?;
    }
    Ok(Box::new(records))
}

fn with_text(
    home: &Arc<Home>,
    (name, is_there): (&str, bool),
    text: &Path,
    (how, told): (&How, &ToldOfRecords),
) -> Answer<Box<dyn Records>> {
    if current::has_begun(home)? {
        let what = "a DB_RECNO that is shared is read from its text file when it is opened, which cannot be a part of a transaction that goes on: open it before txn_begin. Nothing was opened";
        return Err(Refusal::invalid(what));
    }
    if is_there {
        // Whatever it is, before anything is done to the text.
        home.env.list(name)?;
    }
    drop(how.open(text)?);
    let text = text.canonicalize().map_err(|error| Refusal::io(&text.display().to_string(), &error))?;
    let (at, list) = (how.shared(home, name), home.env.list(name)?);
    if how.has(libc::O_TRUNC) {
        clear(&at, &list)?;
    }
    let form = match told.length {
        Length::Variable => TextForm::Delimited(told.end),
        Length::Fixed(bytes, pad) => TextForm::Fixed { bytes, pad },
    };
    let text = libtp::TextFile::open(&home.env, &list, text, form)?.take_any_bytes();
    Ok(Box::new(SharedList::new(at, list, text, told.length)))
}
