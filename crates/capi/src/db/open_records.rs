//! `dbopen` of a DB_RECNO: the text file, and in shared mode the list with its records (docs/design/0018).

use std::path::Path;
use std::sync::Arc;

use libtp::{Database, Error, TextForm};

use crate::db::anew::{check_may_make_anew, is_there, make_anew};
use crate::db::current;
use crate::db::environments::{environment, of_path, OpenEnvironment, Wishes};
use crate::db::info::RecordsInfo;
use crate::db::numbered::{Length, Numbered, Records};
use crate::db::open_mode::OpenMode;
use crate::db::plain::Plain;
use crate::db::plain_file::{Kind, PlainFile};
use crate::db::refusal::{Answer, Refusal};
use crate::db::rule::Rule;
use crate::db::shared_list::{clear, SharedList};
use crate::db::shared_records::SharedRecords;
use crate::db::text_file::TextFile;
use crate::db::Store;

pub(crate) fn open_plain(path: Option<&Path>, how: &OpenMode, given: &RecordsInfo) -> Answer<Store> {
    let file = path.map(|path| Answer::Ok((how.open(path)?, path))).transpose()?;
    let mut records = TextFile::open(file, given.length, given.end)?;
    if how.is_read_only() {
        records.leave_text();
    }
    if let Some(kept_in) = given.kept_in.as_deref() {
        let kind = Kind { is_hash: false, has_duplicates: false, hash_of_text: 0 };
        // Without a text file, only the file of `bfname` has the records, so it must exist.
        let file = if path.is_some() || how.has(libc::O_CREAT) { OpenMode::to_keep() } else { OpenMode::to_go_on() };
        let file = PlainFile::open(file.open(kept_in)?, kept_in, kind)?;
        let kept = Plain::open(Rule::Bytes, file.kind().has_duplicates, Some(file))?;
        match path {
            Some(_) => records.keep_in(kept)?,
            None => records.go_on_with(kept)?,
        }
    }
    // Even if the text file is opened for reading only, the program may change the records: the changes go to memory
    // and to the file of `bfname`.
    Ok(Store::Numbered(Numbered::new(Box::new(records), given.length, false)))
}

/// Opens the text file at `path`, and the list that has its records. The list is in the environment of the text file's
/// directory, and has the text file's name, unless `bfname` names another directory and name.
pub(crate) fn open_shared(path: &Path, how: &OpenMode, given: &RecordsInfo) -> Answer<Store> {
    let (directory, name) = of_path(path)?;
    let text = directory.join(&name);
    let (directory, name) = given.kept_in.as_deref().map_or(Ok((directory, name)), of_path)?;
    let may_make = how.has(libc::O_CREAT) || text.is_file();
    let home = environment(&directory, &Wishes { create: may_make, database: &name, page_bytes: 0 })?;
    let is_there = is_there(&home.env, &name)?;
    if is_there && how.has(libc::O_CREAT) && how.has(libc::O_EXCL) {
        return Err(Refusal::new(
            libc::EEXIST,
            format!("{} exists already, and O_EXCL was given; nothing was opened", path.display()),
        ));
    }
    if !is_there && !may_make {
        return Err(Error::NoDatabase { name, environment: directory }.into());
    }
    let there = is_there.then(|| home.env.database(&name));
    let fits = match (&there, given.length) {
        (Some(Ok(Database::Recno(records))), Length::Fixed(bytes, _)) => records.record_bytes() as usize == bytes,
        (Some(Ok(Database::List(_))) | None, _) => true,
        (Some(Ok(_) | Err(Error::Database { .. })), _) => false,
        (Some(Err(_)), _) => true,
    };
    // A database of the requested form is only emptied, so other programs can continue to use it. O_TRUNC applies to
    // `path`, not to `bfname`, so a database that `bfname` names is not replaced.
    if how.has(libc::O_TRUNC) && !fits && given.kept_in.is_none() {
        check_may_make_anew(&home, &name, how)?;
        let records = with_text(&home, (&name, Place::Anew), &text, (how, given))?;
        return Ok(Store::Numbered(Numbered::new(records, given.length, how.is_read_only())));
    }
    let records = match there.transpose()? {
        Some(Database::Recno(_)) => with_kept_numbers(&home, &name, (how, given))?,
        Some(_) => with_text(&home, (&name, Place::There), &text, (how, given))?,
        None => with_text(&home, (&name, Place::Missing), &text, (how, given))?,
    };
    Ok(Store::Numbered(Numbered::new(records, given.length, how.is_read_only())))
}

/// The state of the database that is to have the text's records.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Missing,
    There,
    /// A database of another form has the list's name. A new list is to replace this database.
    Anew,
}

fn with_kept_numbers(
    home: &Arc<OpenEnvironment>,
    name: &str,
    (how, given): (&OpenMode, &RecordsInfo),
) -> Answer<Box<dyn Records>> {
    if how.has(libc::O_TRUNC) && given.kept_in.is_some() {
        let what = format!("{name}, which bfname names, has records that are in no text file, and O_TRUNC does not empty it: open it by its own path, or without O_TRUNC. Nothing was opened");
        return Err(Refusal::invalid(what));
    }
    let Length::Fixed(bytes, _) = given.length else {
        let what =
            format!("{name} has records of one length, as tp_recno_open made it: R_FIXEDLEN and reclen are needed");
        return Err(Refusal::invalid(what));
    };
    let bytes = u32::try_from(bytes)
        .map_err(|_| Refusal::invalid(format!("records of {bytes} bytes are too long; nothing was opened")))?;
    let records = SharedRecords::new(how.shared(home, name), home.env.recno(name, bytes)?, given.length);
    if how.has(libc::O_TRUNC) {
        records.clear()?;
    }
    Ok(Box::new(records))
}

fn with_text(
    home: &Arc<OpenEnvironment>,
    (name, place): (&str, Place),
    text: &Path,
    (how, given): (&OpenMode, &RecordsInfo),
) -> Answer<Box<dyn Records>> {
    if current::has_begun(home)? {
        let what = "a shared DB_RECNO is read from its text file when it is opened, which cannot be done inside a running transaction. Nothing was opened; open the file before txn_begin";
        return Err(Refusal::invalid(what));
    }
    if place == Place::There {
        // Refuses a database of a wrong kind before anything changes in the text file.
        home.env.list(name)?;
    }
    // All calls that can fail come before the first change.
    drop(how.open_without(libc::O_TRUNC, text)?);
    let text = text.canonicalize().map_err(|error| Refusal::io(&text.display().to_string(), &error))?;
    if place == Place::Anew {
        make_anew(&home.env, name, |successor| home.env.list(successor).map(|_| ()))?;
    }
    let (at, list) = (how.shared(home, name), home.env.list(name)?);
    if how.has(libc::O_TRUNC) {
        clear(&at, &list)?;
        drop(how.open_without(libc::O_CREAT | libc::O_EXCL, &text)?);
    }
    let form = match given.length {
        Length::Variable => TextForm::Delimited(given.end),
        Length::Fixed(bytes, pad) => TextForm::Fixed { bytes, pad },
    };
    let text = libtp::TextFile::open(&home.env, &list, text, form)?.take_any_bytes();
    Ok(Box::new(SharedList::new(at, list, text, given.length)))
}
