//! The fate of a database when a transaction commits: the database is dropped, or gets another name.
//!
//! Not in the paper. A transaction logs the fate before its commit record, and nothing else changes before the commit
//! record is on disk. Then the fate is carried out, while the transaction holds locks on the databases and their names.
//! The session that repairs a dead session, and a restart, can repeat every step.
//!
//! Steps of a drop: the register on disk marks the database as dropped; the file leaves the region's table; the file is
//! removed. Steps of a renaming: the register on disk gets both names; the file is renamed; the register gets only the
//! new name. A session that opens the database in between tries both names.
//!
//! A transaction cannot give a database a name that another live database has. But a restart carries out only the last
//! fate of each database, and after a restore the files have their names from the full backup. So by these fates
//! databases may exchange their names. Then one of them temporarily gets a name that no program can give. If the
//! process dies here, the register has that name, and page 0 of the file states which database it is.

use libtp_io::OpenMode;
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::files::{environment_of, is_own};
use crate::registry::file_name;
use crate::{BufferManager, Entry, Error, FileId, FileInfo, PoolId, Result};

/// The fate of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The number of the database's file.
    pub id: FileId,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The name of the database.
    pub name: String,
    /// The new name. A database that is dropped has no new name.
    pub new_name: Option<String>,
}

impl Fate {
    fn info(&self, name: &str) -> FileInfo {
        FileInfo { id: self.id, name: name.into(), page_bytes: self.page_bytes, pool: PoolId::DEFAULT }
    }

    fn entry(&self, was: Option<String>) -> Entry {
        let name = self.new_name.as_ref().unwrap_or(&self.name).clone();
        Entry { id: self.id, name, page_bytes: self.page_bytes, is_dropped: self.new_name.is_none(), was }
    }

    /// Returns whether this is another database, and its present name is the new name of `fate`.
    fn stands_in_the_way_of(&self, fate: &Fate) -> bool {
        self.id != fate.id && Some(&self.name) == fate.new_name.as_ref()
    }

    /// Returns the temporary name of the database while other databases get their names. No program can give a name
    /// that begins with a dot.
    fn name_between(&self) -> String {
        format!(".renamed-{}", self.id.raw())
    }
}

impl BufferManager {
    /// Carries out the fates, and makes them durable. Drops come first, and renamings to free names follow. If
    /// databases exchange their names, one of them gets a temporary name. The caller holds no latch, and no page of a
    /// dropped database is in use.
    ///
    /// # Errors
    /// [`Error::Failed`] after a failed sync, which is final. After any other error of the disk, the call can be
    /// repeated.
    pub fn carry_out(&self, session: &Session, fates: &[Fate]) -> Result<()> {
        self.carry_out_each(session, fates).map_err(|error| match error {
            // A repeated call would assume that the names that the kernel shows are the names on the disk.
            Error::Io(error) if error.is_failed_sync() => self.fail(&error),
            other => other,
        })
    }

    fn carry_out_each(&self, session: &Session, fates: &[Fate]) -> Result<()> {
        for fate in fates.iter().filter(|fate| fate.new_name.is_none()) {
            self.drop_file(session, fate)?;
        }
        let mut left: Vec<Fate> = fates.iter().filter(|fate| fate.new_name.is_some()).cloned().collect();
        while !left.is_empty() {
            let has_it = |fate: &Fate| left.iter().position(|other| other.stands_in_the_way_of(fate));
            match left.iter().position(|fate| has_it(fate).is_none()) {
                Some(free) => self.rename_file(session, &left.remove(free))?,
                // A planted bug (rio's `planted`): one file takes the place of another.
                None if planted("buffer: a rename replaces the file of another database") => {
                    self.rename_file(session, &left.remove(0))?;
                }
                None => {
                    let holder = has_it(&left[0])
                        .expect("no new name is free, so another database has the first database's new name");
                    let between = left[holder].name_between();
                    let aside = Fate { new_name: Some(between.clone()), ..left[holder].clone() };
                    self.rename_file(session, &aside)?;
                    left[holder].name = between;
                }
            }
        }
        Ok(())
    }

    fn drop_file(&self, session: &Session, fate: &Fate) -> Result<()> {
        let registry = self.files.registry();
        let known = registry.entry(fate.id)?;
        if !planted("buffer: a drop is not written to the register") {
            registry.write(&fate.entry(None))?;
        }
        failpoint("drop: in the register, file known");
        self.forget_file(session, fate.id);
        failpoint("drop: file forgotten, not removed");
        let was = known.and_then(|entry| entry.was);
        for name in [Some(&fate.name), was.as_ref()].into_iter().flatten() {
            if self.is_own(fate, name)? {
                self.files.directory().remove(&file_name(name))?;
            }
        }
        failpoint("drop: file removed, removal not durable");
        Ok(self.files.directory().sync()?)
    }

    fn rename_file(&self, session: &Session, fate: &Fate) -> Result<()> {
        let (registry, directory) = (self.files.registry(), self.files.directory());
        let Some(name) = &fate.new_name else { return Ok(()) };
        // A planted bug (rio's `planted`): the register has one name, and the file has another name.
        let was =
            Some(fate.name.clone()).filter(|_| !planted("buffer: the register drops the old name before the rename"));
        let known = registry.entry(fate.id)?;
        let is_begun = known.as_ref().is_some_and(|entry| entry.name == *name && entry.was.is_some());
        if is_begun || known.is_none_or(|entry| entry.name != *name) {
            registry.write(&fate.entry(was))?;
        }
        self.files.note_renamed();
        failpoint("rename: in the register, file not renamed");
        let (old, new) = (file_name(&fate.name), file_name(name));
        let mut is_at_old = self.is_own(fate, &fate.name)?;
        if is_begun
            && !is_at_old
            && self.is_own(fate, name)?
            && !planted("buffer: a new name counts as durable if the directory has it")
        {
            // The sync of the new name may have failed. The kernel writes the name only if the file is renamed again.
            directory.rename(&new, &old)?;
            is_at_old = true;
        }
        if is_at_old {
            directory.rename(&old, &new)?;
        }
        failpoint("rename: file has its name, not durable");
        directory.sync()?;
        self.files.rename(session, fate.id, name);
        failpoint("rename: old name still in the register");
        registry.write(&fate.entry(None))
    }

    /// Makes sure that the file has its old name, which it must have until a renaming is done. The kernel may already
    /// show the new name, but after a failed sync this name may be only in the kernel's cache. Returns false if the
    /// file has neither name.
    fn goes_back(&self, fate: &Fate, name: &str, was: &str) -> Result<bool> {
        let directory = self.files.directory();
        if !self.is_own(fate, was)? {
            if directory.exists(&file_name(was))? || !self.is_own(fate, name)? {
                return Ok(false);
            }
            directory.rename(&file_name(name), &file_name(was))?;
        }
        directory.sync()?;
        Ok(true)
    }

    /// Returns whether the file with the name `name` is the database's file.
    fn is_own(&self, fate: &Fate, name: &str) -> Result<bool> {
        match self.files.directory().open(&file_name(name), OpenMode::Existing) {
            // A directory with the file's name, for example, is not the database's file.
            Err(libtp_io::Error::NotFound { .. } | libtp_io::Error::Unsuitable { .. }) => Ok(false),
            file => Ok(is_own(&*file?, &fate.info(name), environment_of(self.files.region()))?),
        }
    }

    /// Returns the last fate of each database: several transactions may have dropped or renamed the same database.
    ///
    /// # Errors
    /// The register or a file cannot be read.
    pub fn last_fates(&self, fates: impl IntoIterator<Item = Fate>) -> Result<Vec<Fate>> {
        let mut last: Vec<Fate> = Vec::new();
        for fate in fates {
            last.retain(|known| known.id != fate.id);
            last.push(fate);
        }
        let mut found = Vec::new();
        for mut fate in last {
            match self.files.registry().entry(fate.id)? {
                // The number of a dropped database is never used again.
                Some(entry) if entry.is_dropped && fate.new_name.is_some() => continue,
                // The file has the name that the register states, or the database's previous name.
                Some(entry) if !entry.is_dropped => {
                    let is_last = Some(&entry.name) == fate.new_name.as_ref();
                    fate.name = match entry.was {
                        Some(was) if is_last || self.goes_back(&fate, &entry.name, &was)? => was,
                        _ => entry.name,
                    };
                }
                // The drop was interrupted. Its file has the name in the register, which may come from an older backup.
                Some(entry) => fate.name = entry.name,
                None => {}
            }
            found.push(fate);
        }
        Ok(found)
    }
}
