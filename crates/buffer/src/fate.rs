//! What becomes of databases when a transaction commits: one is dropped, or has another name.
//!
//! Not in the paper. A transaction says it in the log, in front of its commit record, and nothing else changes before that record
//! is on disk. Then it is carried out, while the transaction holds the databases and their names locked. Everything here can be
//! done again: by who repairs a session that died on the way, and by a restart.
//!
//! A drop: the register says so, on disk; the file leaves the region; its name goes. A new name: the register has both names, on
//! disk; the file gets the new name; the register forgets the old one. An opening in between tries both names.

use libtp_io::OpenMode;
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::files::file_name;
use crate::own_file::{environment_of, is_own};
use crate::{BufferManager, Entry, FileId, FileInfo, PoolId, Registry, Result};

/// What becomes of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Its file's number.
    pub id: FileId,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Its name.
    pub name: String,
    /// The new name. A database that is dropped has no new name.
    pub becomes: Option<String>,
}

impl Fate {
    fn info(&self, name: &str) -> FileInfo {
        FileInfo { id: self.id, name: name.into(), page_bytes: self.page_bytes, pool: PoolId::DEFAULT }
    }

    fn entry(&self, was: Option<String>) -> Entry {
        let name = self.becomes.as_ref().unwrap_or(&self.name).clone();
        Entry { id: self.id, name, page_bytes: self.page_bytes, is_dropped: self.becomes.is_none(), was }
    }
}

impl BufferManager {
    /// Carries out what a transaction has decided, on disk when this returns. Drops come first, and no two databases trade their names,
    /// so names are free when they are needed. The caller holds no latch, and no page of a dropped database is in use.
    ///
    /// # Errors
    /// The disk refused; it can be done again.
    pub fn carry_out(&self, session: &Session, fates: &[Fate]) -> Result<()> {
        for fate in fates.iter().filter(|fate| fate.becomes.is_none()) {
            self.drop_file(session, fate)?;
        }
        let mut left: Vec<&Fate> = fates.iter().filter(|fate| fate.becomes.is_some()).collect();
        while !left.is_empty() {
            let has_name = |name: &Option<String>| left.iter().any(|other| Some(&other.name) == name.as_ref());
            // One whose new name no other has any more.
            let next = left.iter().position(|fate| !has_name(&fate.becomes)).unwrap_or(0);
            let fate = left.remove(next);
            self.rename_file(session, fate)?;
        }
        Ok(())
    }

    fn drop_file(&self, session: &Session, fate: &Fate) -> Result<()> {
        let registry = self.files.registry();
        let known = registry.entry(fate.id)?;
        if !planted("buffer: a drop is not in the register") {
            registry.enter(&fate.entry(None))?;
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
        failpoint("drop: file removed, name not gone for good");
        Ok(self.files.directory().sync()?)
    }

    fn rename_file(&self, session: &Session, fate: &Fate) -> Result<()> {
        let (registry, directory) = (self.files.registry(), self.files.directory());
        let Some(name) = &fate.becomes else { return Ok(()) };
        // A planted bug (rio's `planted`): the register has one name, and the file another.
        let was = Some(fate.name.clone()).filter(|_| !planted("buffer: the register forgets a name too early"));
        if registry.entry(fate.id)?.is_none_or(|entry| entry.name != *name || entry.was.is_some()) {
            registry.enter(&fate.entry(was))?;
        }
        self.files.note_renamed();
        failpoint("rename: in the register, file not");
        if self.is_own(fate, &fate.name)? {
            directory.rename(&file_name(&fate.name), &file_name(name))?;
        }
        failpoint("rename: file has its name, not durable");
        directory.sync()?;
        self.files.rename(session, fate.id, name);
        failpoint("rename: old name still in the register");
        registry.enter(&fate.entry(None))
    }

    /// Whether the file of that name is the database's.
    fn is_own(&self, fate: &Fate, name: &str) -> Result<bool> {
        match self.files.directory().open(&file_name(name), OpenMode::Existing) {
            Err(libtp_io::Error::NotFound { .. }) => Ok(false),
            file => Ok(is_own(&*file?, &fate.info(name), environment_of(self.files.region()))?),
        }
    }
}

/// What becomes in the end of databases of which several things were decided, one after the other.
///
/// # Errors
/// The register cannot be read.
pub fn last_fates(fates: impl IntoIterator<Item = Fate>, registry: &Registry) -> Result<Vec<Fate>> {
    let mut last: Vec<Fate> = Vec::new();
    for fate in fates {
        last.retain(|known| known.id != fate.id);
        last.push(fate);
    }
    let mut found = Vec::new();
    for mut fate in last {
        match registry.entry(fate.id)? {
            // A number never comes back.
            Some(entry) if entry.is_dropped && fate.becomes.is_some() => continue,
            // The file has the name that the register says, or the one before.
            Some(entry) if !entry.is_dropped => {
                let done = Some(&entry.name) == fate.becomes.as_ref();
                fate.name = if done { entry.was.unwrap_or(entry.name) } else { entry.name };
            }
            _ => {}
        }
        found.push(fate);
    }
    Ok(found)
}
