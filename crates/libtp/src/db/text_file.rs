//! Files of text whose records are in a list: [`TextFile`].
//!
//! Paper: none; db(3)'s recno, which keeps the lines of a text file (recno(3): `bval`, `reclen`, `R_SNAPSHOT`). Opening
//! reads the whole file. Writing back writes a whole new file and renames it when it is on disk. So the file always has
//! one committed state of the list, even if a process or the machine dies meanwhile.
//!
//! A note in the list has the state of the file at the last moment when file and list were equal. The note shows which
//! of the two has changed since: the list, with committed changes that were not written back; or the file, by another
//! program; or both. If both have changed, neither is known to be right, and opening is refused.
//!
//! If we die here: before the rename the old file stays, and the next writer removes the unfinished new file. After the
//! rename, the file equals the list, and the next opening finds that.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{fchown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use libtp_record::list::entries::{TextNote, TextNotes};
use rio::failpoint;

use crate::{Env, Error, List, Reader, Result, Txn};

/// The suffix of the name of a file that is being written.
const NEW: &str = ".tp-new-";

/// The form of records in a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// Each record ends with this byte (`bval`), usually a newline. The byte may be missing after the last record.
    Delimited(u8),
    /// Each record has `bytes` bytes (`reclen`); shorter records are filled up with `pad` (`bval`).
    Fixed {
        /// The length of a record.
        bytes: usize,
        /// The byte that fills up a shorter record.
        pad: u8,
    },
}

impl Default for TextForm {
    fn default() -> TextForm {
        TextForm::Delimited(b'\n')
    }
}

impl TextForm {
    /// Returns the records of a text.
    pub fn records(self, text: &[u8]) -> Vec<Vec<u8>> {
        match self {
            TextForm::Delimited(end) => {
                let mut records: Vec<Vec<u8>> = text.split(|&byte| byte == end).map(<[u8]>::to_vec).collect();
                if records.last().is_some_and(Vec::is_empty) {
                    records.pop();
                }
                records
            }
            TextForm::Fixed { bytes, pad } => {
                let filled = |record: &[u8]| {
                    let mut record = record.to_vec();
                    record.resize(bytes, pad);
                    record
                };
                text.chunks(bytes.max(1)).map(filled).collect()
            }
        }
    }

    /// Appends a record to a text, with its delimiter or its padding. The error states why the record does not fit this
    /// form.
    fn put(self, record: &[u8], text: &mut Vec<u8>) -> std::result::Result<(), String> {
        match self {
            TextForm::Delimited(end) if record.contains(&end) => {
                return Err(format!("it contains the byte {end}, which ends a record in that file"));
            }
            TextForm::Delimited(end) => {
                text.extend_from_slice(record);
                text.push(end);
            }
            TextForm::Fixed { bytes, .. } if record.len() > bytes => {
                return Err(format!(
                    "it has {} bytes, and the records of that file have at most {bytes}",
                    record.len()
                ));
            }
            TextForm::Fixed { bytes, pad } => {
                text.extend_from_slice(record);
                text.resize(text.len() + bytes - record.len(), pad);
            }
        }
        Ok(())
    }
}

/// A text file whose records are in a list. Changes of the list can be written back to the file.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("motd");
/// let env = libtp::Env::open_or_create(dir.path().join("env"))?;
/// std::fs::write(&path, "Welcome.\nBe kind.\n")?;
/// let lines = env.list("motd")?;
/// let text = libtp::TextFile::open(&env, &lines, &path, libtp::TextForm::default())?;
/// env.run(|txn| lines.insert_after(txn, 1, b"Wipe your feet."))?;
/// text.close()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "Welcome.\nWipe your feet.\nBe kind.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TextFile {
    env: Env,
    list: List,
    path: PathBuf,
    form: TextForm,
    takes_any_bytes: bool,
}

impl TextFile {
    /// Reads the file into the list (`R_SNAPSHOT`), unless file and list are equal already. A missing file counts as
    /// empty.
    ///
    /// A list with committed changes (of this or another process) that were not written back stays as it is: the next
    /// sync writes it.
    ///
    /// # Errors
    /// `Database`, with nothing changed, in three cases: both the list and the file have changed since they were equal;
    /// the list has records and was never read from a file; or a record does not fit the file's form. `Io`; else as
    /// [`List::put`].
    pub fn open(env: &Env, list: &List, path: impl AsRef<Path>, form: TextForm) -> Result<TextFile> {
        let path = path.as_ref().to_path_buf();
        let this = TextFile { env: env.clone(), list: list.clone(), path, form, takes_any_bytes: false };
        if matches!(form, TextForm::Fixed { bytes: 0, .. }) {
            return Err(this.refused(
                "the records of a file of text have at least one byte, and zero was given; nothing was changed",
            ));
        }
        this.env.run(|txn| this.read_into(txn))?;
        Ok(this)
    }

    /// Allows records in the list that do not fit the file's form, as long as the file is empty: [`TextFile::sync`]
    /// then leaves the file empty.
    #[must_use]
    pub fn take_any_bytes(mut self) -> TextFile {
        self.takes_any_bytes = true;
        self
    }

    /// Refuses a record that does not fit the file's form, unless the file is empty and [`TextFile::take_any_bytes`]
    /// was called.
    ///
    /// # Errors
    /// `Database`; as [`List::get`].
    pub fn check(&self, txn: &Txn<'_>, record: &[u8]) -> Result<()> {
        let Err(what) = self.form.put(record, &mut Vec::new()) else { return Ok(()) };
        if self.takes_any_bytes && self.list.text_note(txn)?.is_some_and(has_no_records) {
            return Ok(());
        }
        Err(self.refused(&format!("the record cannot be stored in it: {what}; nothing was changed")))
    }

    /// Returns the records of the file; `None` if the file is missing.
    fn read(&self) -> Result<Option<Vec<Vec<u8>>>> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(Some(self.form.records(&read.map_err(|error| self.io("cannot be read", &error))?))),
        }
    }

    fn read_into(&self, txn: &Txn<'_>) -> Result<()> {
        // This call locks the list first, so that no transaction writes the file between the reading of the file and
        // the reading of the list.
        let notes = self.list.text_note(txn)?;
        let records = self.read()?.unwrap_or_default();
        let in_file = self.note_of(records.iter().map(|record| Ok(record.clone())))?;
        match notes {
            Some(notes) if notes.last == in_file => return Ok(()),
            // The writer of the file died before it noted the write.
            Some(notes) if notes.next == in_file => return self.list.set_text_note(txn, TextNotes::both(in_file)),
            _ => {}
        }
        let in_list = self.note_of(self.records(txn))?;
        let is_list_changed = notes.map_or(self.list.count(txn)? > 0, |notes| notes.last != in_list);
        if in_list != in_file && is_list_changed {
            return Err(self.refused(
                "the database has records that were never in that file, and the file has other records; nothing was changed. Move the file away, or remove the records, and open the file again",
            ));
        }
        if in_list != in_file {
            for number in (1..=self.list.count(txn)?).rev() {
                self.list.delete(txn, number)?;
            }
            for record in &records {
                self.list.append(txn, record)?;
            }
        }
        self.list.set_text_note(txn, TextNotes::both(in_file))
    }

    /// Writes the file if the list has changed since the file was read or last written; returns whether it wrote the
    /// file. Writes the state that is committed when the call begins, even if the list changes meanwhile.
    ///
    /// # Errors
    /// `Database`, with the record's number, when a record does not fit the file's form, or another program has changed
    /// the file meanwhile; `Io`, with the file unchanged.
    pub fn sync(&self) -> Result<bool> {
        loop {
            let Some(text) = self.note_next()? else { return Ok(false) };
            if let Some(is_written) = self.env.run(|txn| self.write_noted(txn, &text))? {
                return Ok(is_written);
            }
        }
    }

    /// Notes the text before it is written: a session that finds this text in the file then knows that no other program
    /// wrote it. Returns the text if there is anything to write.
    fn note_next(&self) -> Result<Option<Vec<u8>>> {
        self.env.run(|txn| {
            let Some(notes) = self.list.text_note(txn)? else {
                return Err(self.refused(
                    "it was never read into this list; nothing was changed. Open it first (`TextFile::open`)",
                ));
            };
            let text = match self.text(txn) {
                Err(Error::Database { .. }) if self.takes_any_bytes && has_no_records(notes) => return Ok(None),
                text => text?,
            };
            let next = TextNote::of(&text);
            // A session wrote the noted text and died before it noted the write. The file has this text, so the note of
            // it must be kept.
            let is_next_there = notes.next != notes.last && self.in_file()? == Some(notes.next);
            let last = if is_next_there { notes.next } else { notes.last };
            if notes != (TextNotes { last, next }) {
                self.list.set_text_note(txn, TextNotes { last, next })?;
            }
            Ok((last != next).then_some(text))
        })
    }

    /// Returns the note of the file's present contents; `None` if the file is missing.
    fn in_file(&self) -> Result<Option<TextNote>> {
        self.read()?.map(|records| self.note_of(records.into_iter().map(Ok))).transpose()
    }

    /// Writes the text to the file if this text was noted last; returns whether the file was different. Returns `None`
    /// if another text was noted meanwhile. Writes the text even if the list has changed since the text was noted: a
    /// writer that waits until no session changes the list might wait for ever.
    fn write_noted(&self, txn: &Txn<'_>, text: &[u8]) -> Result<Option<bool>> {
        let note = TextNote::of(text);
        let Some(notes) = self.list.text_note(txn)?.filter(|notes| notes.next == note) else { return Ok(None) };
        let in_file = self.in_file()?;
        if in_file.is_some_and(|in_file| in_file != notes.last && in_file != note) {
            return Err(self.refused(
                "another program has changed it since it was read, and the list was changed, too; nothing was written. Move the file away, and sync again",
            ));
        }
        let is_to_be_written = in_file != Some(note);
        if is_to_be_written {
            // Make the commits durable first: otherwise a power cut could leave a file with records that the list does
            // not have, as if another program had written them.
            self.env.flush()?;
            txn.guarded(|| self.replace(txn, text))?;
        }
        self.list.set_text_note(txn, TextNotes::both(note))?;
        Ok(Some(is_to_be_written))
    }

    /// Returns the list as a text.
    fn text(&self, txn: &Txn<'_>) -> Result<Vec<u8>> {
        let (mut cursor, mut text) = (self.list.cursor(txn), Vec::new());
        while let Some((number, record)) = cursor.next()? {
            self.form.put(&record, &mut text).map_err(|what| {
                self.refused(&format!("record {number} cannot be written to it: {what}; the file was not changed"))
            })?;
        }
        Ok(text)
    }

    /// As [`TextFile::sync`], and closes the file.
    ///
    /// # Errors
    /// As [`TextFile::sync`]. Changes that could not be written to the file stay committed in the list, and the next
    /// sync writes them.
    pub fn close(self) -> Result<()> {
        self.sync().map(|_| ())
    }

    /// Returns the records of the list.
    fn records<'t>(&'t self, reader: &'t impl Reader) -> impl Iterator<Item = Result<Vec<u8>>> + 't {
        let mut cursor = self.list.cursor(reader);
        std::iter::from_fn(move || cursor.next().map(|found| found.map(|(_, record)| record)).transpose())
    }

    /// Returns the note of a file with these records.
    fn note_of(&self, records: impl Iterator<Item = Result<Vec<u8>>>) -> Result<TextNote> {
        let mut text = Vec::new();
        for record in records {
            // A record that does not fit the file's form must change the note all the same.
            let record = record?;
            if self.form.put(&record, &mut text).is_err() {
                text.extend_from_slice(&record);
                text.extend_from_slice(b"\0no record of the file\0");
            }
        }
        Ok(TextNote::of(&text))
    }

    /// Replaces the file by a new file with this text. The list's lock excludes other writers. A temporary file that is
    /// found here belongs to a dead session, or to a session that was stopped when the shared memory was rebuilt. Such
    /// a session then finds its temporary file missing.
    fn replace(&self, txn: &Txn<'_>, text: &[u8]) -> Result<()> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut prefix = self.path.file_name().unwrap_or_default().to_os_string();
        prefix.push(NEW);
        let written = (|| {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
                    fs::remove_file(entry.path())?;
                }
            }
            prefix.push(format!("{}-{}", std::process::id(), txn.id()));
            let new = self.path.with_file_name(&prefix);
            let mut file = rio::above_standard(File::create_new(&new)?)?;
            let filled = (|| {
                if let Ok(old) = fs::metadata(&self.path) {
                    file.set_permissions(keep_owner(&file, &old)?)?;
                }
                file.write_all(text)?;
                file.sync_all()
            })();
            if filled.is_err() {
                // The next writer removes a file that cannot be removed here.
                let _ = fs::remove_file(&new);
            }
            filled?;
            failpoint("text file: written, without its name");
            txn.session().session().leave_if_broken();
            fs::rename(&new, &self.path)?;
            failpoint("text file: has its name, not noted");
            File::open(directory)?.sync_all()
        })();
        written.map_err(|error| self.io("cannot be written", &error))
    }

    fn refused(&self, what: &str) -> Error {
        Error::Database {
            name: self.list.name().into(),
            what: format!("the file of text {}: {what}", self.path.display()),
        }
    }

    fn io(&self, what: &str, error: &std::io::Error) -> Error {
        let text = format!("the file of text {} {what}: {error}", self.path.display());
        Error::Io(Box::new(std::io::Error::new(error.kind(), text)))
    }
}

/// Returns whether the file is empty and no writer is about to fill it.
fn has_no_records(notes: TextNotes) -> bool {
    notes == TextNotes::both(TextNote::of(b""))
}

/// Gives the new file the owner and the group of the old file, because they would otherwise lose access; returns the
/// permissions to set. If this process may not set the owner, it keeps the old file. If only the group cannot be set,
/// because this process's user is not in the group, the new file is written all the same, and the group loses access.
fn keep_owner(new: &File, old: &fs::Metadata) -> std::io::Result<fs::Permissions> {
    let (made, mut permissions) = (new.metadata()?, old.permissions());
    if (made.uid(), made.gid()) == (old.uid(), old.gid()) {
        return Ok(permissions);
    }
    match fchown(new, Some(old.uid()), Some(old.gid())) {
        Ok(()) => {}
        Err(_) if made.uid() == old.uid() => permissions.set_mode(permissions.mode() & !0o070),
        Err(error) => {
            let (user, group) = (old.uid(), old.gid());
            let text = format!(
                "it belongs to user {user} and group {group}, and this process may not make a file for them ({error}). The old file stays, and the records are in the database; sync with the rights of that user"
            );
            return Err(std::io::Error::new(error.kind(), text));
        }
    }
    Ok(permissions)
}

#[cfg(test)]
mod tests {
    use super::{TextFile, TextForm};
    use crate::{Durability, Env, Error};

    #[test]
    fn records_of_a_text_make_the_same_text_again() {
        let lines = TextForm::default();
        for (text, records) in [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\n\nb", 3), ("a\n\n", 2)] {
            let found = lines.records(text.as_bytes());
            assert_eq!(found.len(), records, "{text:?}");
            let mut back = Vec::new();
            found.iter().for_each(|record| lines.put(record, &mut back).unwrap());
            let whole = if text.is_empty() || text.ends_with('\n') { text.to_string() } else { format!("{text}\n") };
            assert_eq!(String::from_utf8(back).unwrap(), whole);
        }
        let fixed = TextForm::Fixed { bytes: 4, pad: b' ' };
        assert_eq!(fixed.records(b"abcdef"), [b"abcd", b"ef  "]);
        assert!(fixed.put(b"abcde", &mut Vec::new()).is_err());
        assert!(lines.put(b"a\nb", &mut Vec::new()).is_err());
    }

    #[test]
    fn opening_recognises_whether_the_list_or_the_file_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let open = || TextFile::open(&env, &list, &path, TextForm::default());
        let line = |number| env.run(|txn| list.get(txn, number)).unwrap().map(|line| String::from_utf8(line).unwrap());
        let read = || std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "one\ntwo").unwrap();
        let text = open().unwrap();
        assert_eq!(line(2).as_deref(), Some("two"));
        // Nothing has changed, not even the missing end of the last line.
        assert!(!text.sync().unwrap());
        assert_eq!(read(), "one\ntwo");
        env.run(|txn| list.delete(txn, 1)).unwrap();
        drop(text);
        // The deletion is committed and not written back: the sync writes it back.
        let text = open().unwrap();
        assert_eq!(line(1).as_deref(), Some("two"));
        assert!(text.sync().unwrap());
        assert_eq!(read(), "two\n");
        // Another program writes the file.
        std::fs::write(&path, "three\nfour\n").unwrap();
        drop(text);
        let text = open().unwrap();
        assert_eq!((line(1).as_deref(), line(3)), (Some("three"), None));
        // The list and the file change.
        env.run(|txn| list.append(txn, b"five")).unwrap();
        std::fs::write(&path, "six\n").unwrap();
        assert!(matches!(open(), Err(Error::Database { .. })));
        assert_eq!((line(3).as_deref(), read().as_str()), (Some("five"), "six\n"));
        assert!(matches!(text.sync(), Err(Error::Database { .. })));
        // The file is written by hand to equal the list.
        std::fs::write(&path, "three\nfour\nfive\n").unwrap();
        assert!(!text.sync().unwrap());
        env.run(|txn| list.append(txn, b"two\nlines")).unwrap();
        let error = text.sync().unwrap_err();
        assert!(error.to_string().contains("record 4"), "{error}");
        assert_eq!(read(), "three\nfour\nfive\n");
        env.run(|txn| list.put(txn, 4, b"one line")).unwrap();
        text.close().unwrap();
        assert_eq!(read(), "three\nfour\nfive\none line\n");
        assert!(env.verify("text").unwrap().findings.is_empty());
    }

    #[test]
    fn an_empty_file_stays_empty_if_the_list_has_records_that_do_not_fit_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let open = || TextFile::open(&env, &list, &path, TextForm::default()).unwrap().take_any_bytes();
        let add = |text: &TextFile, record: &[u8]| {
            env.run(|txn| {
                text.check(txn, record)?;
                list.append(txn, record).map(|_| ())
            })
        };
        let text = open();
        add(&text, b"two\nlines").unwrap();
        assert!(!text.sync().unwrap());
        drop(text);
        let text = open();
        assert_eq!(env.run(|txn| list.get(txn, 1)).unwrap().as_deref(), Some(&b"two\nlines"[..]));
        env.run(|txn| list.put(txn, 1, b"one line")).unwrap();
        assert!(text.sync().unwrap());
        let error = add(&text, b"two\nlines").unwrap_err();
        assert!(error.to_string().contains("cannot be stored in it"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one line\n");
    }

    #[test]
    fn a_rewritten_file_keeps_its_owner() {
        use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        std::fs::write(&path, "one\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if chown(&path, Some(12), Some(34)).is_err() {
            let text = "SKIPPED text_file: not root: this user cannot make a file of another user";
            assert!(std::env::var_os("CI").is_none(), "{text}");
            eprintln!("{text}");
            return;
        }
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let text = TextFile::open(&env, &list, &path, TextForm::default()).unwrap();
        env.run(|txn| list.append(txn, b"two")).unwrap();
        assert!(text.sync().unwrap());
        let written = std::fs::metadata(&path).unwrap();
        assert_eq!((written.uid(), written.gid(), written.mode() & 0o777), (12, 34, 0o600));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    /// Writes the list to the file, and dies before the write is noted.
    fn die_when_written(text: &TextFile) {
        let noted = text.note_next().unwrap().unwrap();
        text.env.run(|txn| text.replace(txn, &noted)).unwrap();
    }

    #[test]
    fn the_next_writer_recognises_the_text_of_a_dead_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let text = TextFile::open(&env, &list, &path, TextForm::default()).unwrap();
        for line in [b"one", b"two"] {
            env.run(|txn| list.append(txn, line)).unwrap();
            die_when_written(&text);
        }
        env.run(|txn| list.append(txn, b"three")).unwrap();
        assert!(text.sync().unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        // The list gets the former text of the file again. The library does not mistake the dead writer's text for the
        // text of another program.
        env.run(|txn| list.append(txn, b"four")).unwrap();
        die_when_written(&text);
        assert!(!text.sync().unwrap());
        env.run(|txn| list.delete(txn, 4)).unwrap();
        assert!(text.sync().unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_noted_text_is_written_although_the_list_has_changed_since() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let text = TextFile::open(&env, &list, &path, TextForm::default()).unwrap();
        env.run(|txn| list.append(txn, b"one")).unwrap();
        let noted = text.note_next().unwrap().unwrap();
        env.run(|txn| list.append(txn, b"two")).unwrap();
        // A writer died in the middle of a write.
        std::fs::write(dir.path().join("text.tp-new-1-1"), "half").unwrap();
        assert_eq!(env.run(|txn| text.write_noted(txn, &noted)).unwrap(), Some(true));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert!(text.sync().unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let left =
            std::fs::read_dir(dir.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()).count();
        assert_eq!(left, 1, "the directory has only the text file");
    }

    #[test]
    fn a_text_in_the_file_is_durable_in_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::builder().durability(Durability::Relaxed).open(dir.path().join("env")).unwrap();
        let list = env.list("text").unwrap();
        let text = TextFile::open(&env, &list, &path, TextForm::default()).unwrap();
        env.run(|txn| list.append(txn, b"one")).unwrap();
        assert!(text.sync().unwrap());
        // The state after a power cut: the files, without the memory.
        let copy = dir.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(dir.path().join("env")).unwrap().map(|file| file.unwrap()) {
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        let after = Env::open_or_create(&copy).unwrap();
        let list = after.list("text").unwrap();
        assert_eq!(after.run(|txn| list.get(txn, 1)).unwrap().as_deref(), Some(&b"one"[..]));
        after.run(|txn| list.append(txn, b"two")).unwrap();
        TextFile::open(&after, &list, &path, TextForm::default()).unwrap().close().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_list_that_never_was_in_a_file_is_not_lost_and_a_missing_file_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        let env = Env::open_or_create(dir.path().join("env")).unwrap();
        let (list, other) = (env.list("text").unwrap(), env.list("other").unwrap());
        env.run(|txn| other.append(txn, b"kept")).unwrap();
        assert!(TextFile::open(&env, &other, &path, TextForm::default()).is_err());
        let form = TextForm::Fixed { bytes: 3, pad: b'.' };
        let text = TextFile::open(&env, &list, &path, form).unwrap();
        env.run(|txn| list.append(txn, b"a").and_then(|_| list.append(txn, b"bcd"))).unwrap();
        text.close().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a..bcd");
        assert!(TextFile::open(&env, &list, &path, TextForm::Fixed { bytes: 0, pad: 0 }).is_err());
    }
}
