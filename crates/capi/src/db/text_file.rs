//! DB_RECNO in plain mode. The records are the lines of a text file, or its parts of fixed length.
//!
//! Any other program can read and write the text file. Opening reads the whole file, and `sync` writes the whole file.
//! With `bfname` a second file has the records, too; a crash cannot truncate the second file.
//!
//! If we die here: a crash during a write may truncate the text file, as in db(3). A program that needs more safety
//! opens the file with DB_TXN.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::db::keyed::{self, Pairs};
use crate::db::numbered::{CursorPlace, Length, Records, SeekTo, When};
use crate::db::plain::Plain;
use crate::db::refusal::{copied, Answer, Refusal};

/// Bytes of one write.
const WRITTEN_BYTES: usize = 1 << 20;

/// The records, with their file if there is one.
pub(crate) struct TextFile {
    records: Vec<Box<[u8]>>,
    length: Length,
    /// The byte that ends a record of variable length.
    end: u8,
    file: Option<(File, PathBuf)>,
    is_changed: bool,
    /// Whether the text file was opened for reading only, so that no sync writes it: changes go only to memory and to
    /// the file of `bfname`.
    is_left: bool,
    /// The file that `bfname` names. It has the records under their numbers.
    kept: Option<Plain>,
    /// Whether the records have changed since the file of `bfname` was last updated.
    is_ahead: bool,
    cursor: CursorPlace,
}

impl TextFile {
    pub(crate) fn open(file: Option<(File, &Path)>, length: Length, end: u8) -> Answer<TextFile> {
        let mut opened = TextFile {
            records: Vec::new(),
            length,
            end,
            file: None,
            is_changed: false,
            is_left: false,
            kept: None,
            is_ahead: false,
            cursor: CursorPlace::Nowhere,
        };
        if let Some((mut file, path)) = file {
            let mut text = Vec::new();
            file.read_to_end(&mut text)
                .map_err(|error| Refusal::io(&format!("{} cannot be read", path.display()), &error))?;
            opened.take_apart(&text);
            opened.file = Some((file, path.into()));
        }
        Ok(opened)
    }

    /// Uses the file `kept` as a second file for the records. The next sync of a change writes it. Until then `kept`
    /// stays as it is, because it may have records that a dead program has not written to the text.
    pub(crate) fn keep_in(&mut self, mut kept: Plain) -> Answer<()> {
        each_kept(&mut kept, |_| Ok(()))?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Leaves the text file unchanged from now on.
    pub(crate) fn leave_text(&mut self) {
        self.is_left = true;
    }

    /// Reads the records from the file `kept`, and from now on keeps them there. Used when there is no text file.
    pub(crate) fn go_on_with(&mut self, mut kept: Plain) -> Answer<()> {
        let (records, length) = (&mut self.records, self.length);
        each_kept(&mut kept, |record| {
            if let Length::Fixed(bytes, _) = length {
                let (number, has) = (records.len() + 1, record.len());
                if has != bytes {
                    return Err(Refusal::wrong_file(format!(
                        "the record {number} in the file that bfname names has {has} bytes, and reclen says {bytes}: give that file's reclen, or neither reclen nor R_FIXEDLEN. Nothing was opened"
                    )));
                }
            }
            records.push(record.into());
            Ok(())
        })?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Updates the file of `bfname` to the current records.
    fn keep(&mut self) -> Answer<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        for (number, record) in (1_u32..).zip(&self.records) {
            let key = number.to_be_bytes();
            if kept.get(&key)?.as_deref() != Some(record) {
                kept.put(&key, record, false)?;
            }
        }
        while let Some(last) = kept.seek(keyed::SeekTo::Last)? {
            let is_there = last.key.try_into().is_ok_and(|key| u32::from_be_bytes(key) as usize <= self.records.len());
            if is_there || !kept.delete_at(&last.place)? {
                break;
            }
        }
        kept.sync()?;
        self.is_ahead = false;
        Ok(())
    }

    fn change(&mut self) {
        (self.is_changed, self.is_ahead) = (true, true);
    }

    fn count(&self) -> Answer<u32> {
        u32::try_from(self.records.len())
            .map_err(|_| Refusal::invalid("the file has more records than a recno_t can number"))
    }

    fn take_apart(&mut self, text: &[u8]) {
        match self.length {
            Length::Variable => {
                // The end byte may be missing after the last record.
                let whole = text.strip_suffix(&[self.end]).unwrap_or(text);
                if !text.is_empty() {
                    self.records = whole.split(|byte| *byte == self.end).map(Box::from).collect();
                }
            }
            Length::Fixed(bytes, pad) => {
                let fitted = |part: &[u8]| {
                    let mut record = part.to_vec();
                    record.resize(bytes, pad);
                    record.into_boxed_slice()
                };
                self.records = text.chunks(bytes).map(fitted).collect();
            }
        }
    }

    fn write(&self, file: &File) -> io::Result<()> {
        let (mut at, mut part) = (0, Vec::with_capacity(WRITTEN_BYTES));
        let mut put = |part: &mut Vec<u8>| {
            file.write_all_at(part, at)?;
            at += part.len() as u64;
            part.clear();
            io::Result::Ok(at)
        };
        for record in &self.records {
            part.extend_from_slice(record);
            if let Length::Variable = self.length {
                part.push(self.end);
            }
            if part.len() >= WRITTEN_BYTES {
                put(&mut part)?;
            }
        }
        let length = put(&mut part)?;
        file.set_len(length)?;
        file.sync_data()
    }
}

/// Passes each record of a file of `bfname` to `take`. The keys must be consecutive numbers.
fn each_kept(kept: &mut Plain, mut take: impl FnMut(Vec<u8>) -> Answer<()>) -> Answer<()> {
    let mut found = kept.seek(keyed::SeekTo::First)?;
    let mut numbers = 1_u32..;
    while let Some(pair) = found {
        if numbers.next().is_none_or(|number| pair.key != number.to_be_bytes()) {
            return Err(Refusal::wrong_file(
                "the file that bfname names has other keys than record numbers: name another file, or none. Nothing was opened",
            ));
        }
        take(pair.value)?;
        found = kept.seek(keyed::SeekTo::Behind(&pair.place))?;
    }
    Ok(())
}

/// Returns the index of a record number.
fn index(number: u32) -> usize {
    number as usize - 1
}

impl Records for TextFile {
    fn get(&mut self, number: u32) -> Answer<Option<Vec<u8>>> {
        self.records.get(index(number)).map(|record| copied(record)).transpose()
    }

    fn put(&mut self, number: u32, record: &[u8], when: When) -> Answer<bool> {
        if when == When::New && number as usize <= self.records.len() {
            return Ok(false);
        }
        let more = (number as usize).saturating_sub(self.records.len());
        self.records.try_reserve(more).map_err(|_| {
            Refusal::new(libc::ENOMEM, format!("there is no memory for {more} more records; nothing was changed"))
        })?;
        let record = copied(record)?;
        let (before, filler) = (self.records.len(), self.length.filler());
        while self.records.len() < number as usize {
            match copied(&filler) {
                Ok(filler) => self.records.push(filler.into()),
                Err(refused) => {
                    self.records.truncate(before);
                    return Err(refused);
                }
            }
        }
        self.change();
        self.records[index(number)] = record.into();
        if when == When::WithCursor {
            self.cursor = CursorPlace::On(number);
        }
        Ok(true)
    }

    fn insert(&mut self, number: u32, record: &[u8]) -> Answer<()> {
        if number > self.count()? {
            return self.put(number, record, When::Always).map(|_| ());
        }
        let record = copied(record)?;
        self.change();
        self.records.insert(index(number), record.into());
        self.cursor.inserted(number);
        Ok(())
    }

    fn delete(&mut self, number: u32) -> Answer<bool> {
        if number > self.count()? {
            return Ok(false);
        }
        self.change();
        self.records.remove(index(number));
        self.cursor.deleted(number);
        Ok(true)
    }

    fn seek(&mut self, sought: SeekTo) -> Answer<Option<(u32, Vec<u8>)>> {
        let count = self.count()?;
        let number = self.cursor.target(sought, count);
        if number == 0 || number > count {
            return Ok(None);
        }
        self.cursor = CursorPlace::On(number);
        Ok(self.get(number)?.map(|record| (number, record)))
    }

    fn has_cursor(&self) -> bool {
        self.cursor != CursorPlace::Nowhere
    }

    fn put_here(&mut self, record: &[u8]) -> Answer<bool> {
        match self.cursor {
            CursorPlace::On(number) => self.put(number, record, When::Always),
            _ => Ok(false),
        }
    }

    fn delete_here(&mut self) -> Answer<bool> {
        match self.cursor {
            CursorPlace::On(number) => self.delete(number),
            _ => Ok(false),
        }
    }

    fn sync(&mut self, is_text: bool) -> Answer<()> {
        // R_RECNOSYNC updates the file of `bfname` even if no record has changed: an editor makes this call before its
        // first change.
        if self.is_ahead || !is_text {
            self.keep()?;
        }
        if let Some((file, path)) = self.file.as_ref().filter(|_| is_text && self.is_changed && !self.is_left) {
            self.write(file).map_err(|error| Refusal::io(&format!("{} cannot be written", path.display()), &error))?;
            self.is_changed = false;
        }
        Ok(())
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        match &self.file {
            Some((file, _)) => Ok(file.as_raw_fd()),
            None => Err(Refusal::new(libc::ENOENT, "the database is only in memory, and has no file")),
        }
    }
}
