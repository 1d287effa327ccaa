//! Existing database files, and their entries in the register of databases.
//!
//! A file that is missing, empty, truncated, or from another environment makes only its own database unusable. A
//! restart skips the file, and every use of its database returns an error that names the file.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use libtp_buffer::Entry as RegistryEntry;
use libtp_buffer::{file_name, Fate, FileId, FileInfo, Home, Registry, Restored};
use libtp_io::{Directory, OpenMode};
use libtp_txn::{Managers, TxnSession};

use crate::file_header::{found, read_header, unsuitable, FoundFile};
use crate::{Error, Result};

/// Returns every usable database file in the environment's directory, as its header describes it. Warns of an unusable
/// file, which makes only its own database unusable. If two files have the same number, the file whose name comes first
/// is used.
///
/// # Errors
/// The directory cannot be read.
pub fn find_files(directory: &dyn Directory, environment: &[u8; 16]) -> Result<Vec<FoundFile>> {
    let mut names = directory.list()?;
    names.sort();
    let mut files: BTreeMap<FileId, FoundFile> = BTreeMap::new();
    for full_name in names {
        let Some(name) = full_name.strip_suffix(".tp") else { continue };
        match find_file(directory, name, environment) {
            Ok(file) => match files.entry(file.info.id) {
                Entry::Vacant(place) => {
                    place.insert(file);
                }
                Entry::Occupied(other) => {
                    tracing::warn!(file = full_name, "{}", copied(&other.get().info));
                }
            },
            Err(error) => tracing::warn!(%error, "a file that cannot be used as a database is skipped"),
        }
    }
    Ok(files.into_values().collect())
}

/// Returns the file of the database `name`, as its header describes it.
///
/// # Errors
/// [`Error::Corrupt`] and [`Error::Unsuitable`] state why the file cannot be used; [`Error::Io`].
pub fn find_file(directory: &dyn Directory, name: &str, environment: &[u8; 16]) -> Result<FoundFile> {
    let (id, header) = read_header(&*directory.open(&file_name(name), OpenMode::Existing)?, name)?;
    if header.environment != *environment {
        return Err(unsuitable(
            &file_name(name),
            "it belongs to another environment; move it away, or load its records with `tp dump` and `tp load`",
        ));
    }
    found(name, id, &header)
}

pub(crate) fn copied(other: &FileInfo) -> String {
    format!("it has the same number as {}; one of the two files is a copy: move the copy away", other.file_name())
}

/// Returns the files of all databases that are in the register and not dropped.
///
/// # Errors
/// [`libtp_buffer::Error::FileMissing`] names a file that is missing or has been replaced. Other errors are those of
/// [`find_file`].
pub fn entered_files(registry: &Registry, directory: &dyn Directory, environment: &[u8; 16]) -> Result<Vec<FoundFile>> {
    let entries = registry.all()?;
    entries.into_iter().map(|entry| entered_file(directory, &entry, environment)).collect()
}

fn entered_file(directory: &dyn Directory, entry: &RegistryEntry, environment: &[u8; 16]) -> Result<FoundFile> {
    let away = |what: &str| libtp_buffer::Error::FileMissing { name: entry.name.clone(), what: what.into() };
    // During a renaming the file may have the old or the new name.
    let has_new = directory.exists(&entry.file_name())?;
    let name = entry.was.as_ref().filter(|_| !has_new).unwrap_or(&entry.name);
    match find_file(directory, name, environment) {
        Ok(file) if file.info.id == entry.id => Ok(file),
        Ok(_) => Err(away("another file has its name").into()),
        Err(Error::Io(libtp_io::Error::NotFound { .. })) => Err(away("its file is missing").into()),
        Err(Error::Io(error @ libtp_io::Error::Unsuitable { .. })) => Err(away(&error.to_string()).into()),
        Err(Error::Unsuitable { what, .. }) => Err(away(&what).into()),
        Err(error) => Err(error),
    }
}

/// Returns the register's entry for a file.
pub fn entry_of(info: &FileInfo) -> RegistryEntry {
    RegistryEntry { id: info.id, name: info.name.clone(), page_bytes: info.page_bytes, is_dropped: false, was: None }
}

/// Repairs torn pages from the double-write file at restart. Keeps the images of pages whose files are missing.
///
/// # Errors
/// The disk refused. The call can be repeated.
pub fn restore_torn(registry: &Registry, directory: &dyn Directory, environment: &[u8; 16]) -> Result<Restored> {
    let restored = libtp_buffer::restore_torn(directory, *environment, &mut |id| {
        // A number without an entry may belong to a database whose entry is damaged and whose file is missing.
        let Some(entry) = registry.entry(id)? else { return Ok(Home::FileMissing) };
        if entry.is_dropped {
            return Ok(Home::Dropped);
        }
        match entered_file(directory, &entry, environment) {
            Ok(file) => Ok(Home::Here(directory.open(&file.info.file_name(), OpenMode::Existing)?)),
            // The images are kept, because the next restart may find the file.
            Err(Error::Io(error)) if error.is_limit_of_process() => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "images of torn pages are kept until their missing file is restored");
                Ok(Home::FileMissing)
            }
        }
    })?;
    Ok(restored)
}

/// At restart, makes the register from the existing files if the environment has no register. In an existing register,
/// enters the databases whose files exist and whose entries are damaged, because redo skips the log records of
/// databases without an entry. All file numbers are below `next`.
///
/// # Errors
/// The disk refused.
pub fn make_registry(registry: &Registry, directory: &dyn Directory, environment: &[u8; 16], next: u32) -> Result<()> {
    if registry.is_there()? {
        // If the register has an entry for every number, every file is known. Reading all files could take long.
        return if registry.is_whole(next)? { Ok(()) } else { enter_unknown(registry, directory, environment) };
    }
    let found = find_files(directory, environment)?;
    let entries: Vec<RegistryEntry> = found.iter().map(|file| entry_of(&file.info)).collect();
    // The process that made a file may have died before the file's name was durable. The register relies on the name.
    directory.sync()?;
    Ok(registry.make(&entries)?)
}

/// Enters the databases whose files exist and whose numbers are not in the register. Reads only files whose names are
/// not in the register.
fn enter_unknown(registry: &Registry, directory: &dyn Directory, environment: &[u8; 16]) -> Result<()> {
    let known: HashSet<String> = registry.all()?.into_iter().map(|entry| entry.name).collect();
    for full_name in directory.list()? {
        let Some(name) = full_name.strip_suffix(".tp").filter(|name| !known.contains(*name)) else { continue };
        let file = match find_file(directory, name, environment) {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!(%error, "a file that cannot be used as a database is skipped");
                continue;
            }
        };
        // An entry with another name, or of a dropped database, is not replaced: the file is a copy, or was restored.
        if registry.entry(file.info.id)?.is_none() {
            tracing::warn!(
                file = full_name,
                "the register of databases has no entry for this file: it is entered again"
            );
            directory.sync()?;
            registry.enter(&entry_of(&file.info))?;
        }
    }
    Ok(())
}

/// Drops a database whose file is missing, and marks the database as dropped in the register. The name can be used
/// again. From now on recovery skips the log records of the database. Returns false if no database has the name.
///
/// # Errors
/// [`Error::Unsuitable`] if the file exists, or if the database was used since the region was made; the disk refused.
pub fn drop_missing(managers: &Managers, txn: &TxnSession, directory: &dyn Directory, name: &str) -> Result<bool> {
    let registry = managers.buffers.registry();
    let Some(entry) = registry.find(name)? else { return Ok(false) };
    if directory.exists(&entry.file_name())? {
        return Err(unsuitable(
            name,
            format!(
                "its file {0} is not missing; drop the database without `--missing`. If the file is damaged, close the environment in every process, move {0} away, and drop the database with `--missing`",
                entry.file_name()
            ),
        ));
    }
    if managers.buffers.is_used(entry.id) {
        let what =
            "it was used since the environment was opened; close the environment in every process, open it again, and then drop the database";
        return Err(unsuitable(name, what));
    }
    // The drop is logged first, so that the log has it even if the register is damaged.
    let fate = Fate { id: entry.id, page_bytes: entry.page_bytes, name: name.into(), new_name: None };
    // The register writes the present entry first, to make sure that it has room. Otherwise the drop could be logged
    // and not entered. A later restart would then do the drop, perhaps on a file that has been restored since.
    registry.write(&entry)?;
    managers.log_given_up(txn.session(), &fate)?;
    let dropped = RegistryEntry { is_dropped: true, ..entry.clone() };
    registry.enter(&dropped).inspect_err(|_| managers.log.poison())?;
    managers.buffers.forget_file(txn.session(), entry.id);
    Ok(true)
}

/// Refuses a file if the register has another file for its name or number.
pub(crate) fn check_entry(registry: &Registry, info: &FileInfo) -> Result<()> {
    let what = match registry.entry(info.id)? {
        Some(entry) if entry.is_dropped => {
            format!("it is the file of the database `{}`, which was dropped; move it away", entry.name)
        }
        Some(entry) if entry.name != info.name => {
            format!(
                "it has the number of the database `{}`, so it is a copy or has a wrong name; move it away. Only if {} is missing, and this file is not an older copy, rename it to {}",
                entry.name,
                entry.file_name(),
                entry.file_name()
            )
        }
        Some(_) => return Ok(()),
        None => match registry.find(&info.name)? {
            // Another process has entered the file since the first check.
            Some(entry) if entry.id == info.id => return Ok(()),
            Some(entry) => {
                let what = format!("it is file number {}, and the database has number {}", info.id, entry.id);
                return Err(libtp_buffer::Error::FileMissing { name: info.name.clone(), what }.into());
            }
            None => return Ok(()),
        },
    };
    Err(unsuitable(&info.file_name(), what))
}
