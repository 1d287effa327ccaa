//! The state of `tp shell` between its commands: a transaction, a page, and the opened databases.

use std::collections::HashMap;
use std::ffi::OsStr;

use libtp::{Database, Env, PageCopy, PageFile, PageLock, Txn};
use serde_json::{json, Value};

use crate::failure::{Failure, Result};
use crate::records::{self, Key};
use crate::shell_command::{Command, HELP};
use crate::spelling::{Object, Spelling};

/// A command's answer, as a line of text and as JSON.
pub struct Answer {
    /// For people.
    pub text: Vec<u8>,
    /// For programs.
    pub json: Value,
}

impl Answer {
    fn of(text: &str, json: Value) -> Answer {
        Answer { text: text.as_bytes().to_vec(), json }
    }

    fn bytes(bytes: &[u8], spelling: Spelling, name: &str) -> Answer {
        let mut object = Object::new();
        spelling.enter(&mut object, name, bytes);
        Answer { text: spelling.write(bytes), json: object.into() }
    }
}

/// The state of a shell.
pub struct ShellSession<'e> {
    env: &'e Env,
    spelling: Spelling,
    txn: Option<Txn<'e>>,
    databases: HashMap<String, Database>,
    files: HashMap<String, PageFile>,
    /// The page that the shell holds: the name of its file, the copy, and whether the copy was changed.
    page: Option<(String, PageCopy, bool)>,
}

impl<'e> ShellSession<'e> {
    /// Returns a shell without a transaction or a page.
    pub fn new(env: &'e Env, spelling: Spelling) -> ShellSession<'e> {
        ShellSession { env, spelling, txn: None, databases: HashMap::new(), files: HashMap::new(), page: None }
    }

    /// Carries out a command; returns `None` if there is no answer.
    pub fn execute(&mut self, command: &Command) -> Result<Option<Answer>> {
        let done = match command {
            Command::Nothing | Command::Quit => return Ok(None),
            Command::Help => Ok(Answer::of(HELP, json!({ "help": HELP }))),
            Command::Begin => self.begin(),
            Command::Commit => self.commit(),
            Command::Abort => self.abort(),
            Command::Get { database, key } => self.get(database, key),
            Command::Put { database, key, value } => self.put(database, key, value),
            Command::Del { database, key } => self.del(database, key),
            Command::Lock { file, page, lock } => self.lock(file, *page, *lock),
            Command::Unlock { file, page } => self.unlock(file, *page),
            Command::BufGet { file, page } => self.buf_get(file, *page),
            Command::BufLook { at, count } => self.buf_look(*at, *count),
            Command::BufChange { at, bytes } => self.buf_change(*at, bytes),
            Command::BufUnpin => self.buf_unpin(),
        };
        done.map(Some)
    }

    /// Aborts the open transaction. Returns whether a transaction was open.
    pub fn end(&mut self) -> Result<bool> {
        self.page = None;
        match self.txn.take() {
            None => Ok(false),
            Some(txn) => Ok(txn.abort().map(|()| true)?),
        }
    }

    fn begin(&mut self) -> Result<Answer> {
        if self.txn.is_some() {
            return Err(Failure::Usage("a transaction has begun already: commit or abort it first".to_owned()));
        }
        let txn = self.txn.insert(self.env.begin()?);
        Ok(Answer::of(&format!("transaction {}", txn.id()), json!({ "begun": txn.id() })))
    }

    fn commit(&mut self) -> Result<Answer> {
        if let Some((file, page, true)) = &self.page {
            let what = format!("page {} of {file} was changed and is not stored; nothing was committed. Store the page with buf_unpin first", page.number());
            return Err(Failure::Usage(what));
        }
        self.page = None;
        self.txn.take().ok_or_else(no_transaction)?.commit()?;
        Ok(Answer::of("committed", json!({ "committed": true })))
    }

    fn abort(&mut self) -> Result<Answer> {
        match self.end()? {
            true => Ok(Answer::of("aborted", json!({ "aborted": true }))),
            false => Err(no_transaction()),
        }
    }

    /// Calls `work` for a record: in the open transaction, or else in a separate transaction.
    fn with_record<T>(
        &mut self,
        name: &str,
        key: &str,
        work: impl Fn(&Txn<'_>, &Database, &Key) -> libtp::Result<T>,
    ) -> Result<T> {
        let database = &self.databases[name];
        let key = Key::read(database, name, OsStr::new(key), self.spelling)?;
        let done = match &self.txn {
            Some(txn) => work(txn, database, &key),
            None => return Ok(self.env.run(|txn| work(txn, database, &key))?),
        };
        done.map_err(|error| self.refused(error))
    }

    /// If the transaction must be run again (after a deadlock, for example), aborts it. Returns the failure.
    fn refused(&mut self, error: libtp::Error) -> Failure {
        if !error.is_retryable() {
            return error.into();
        }
        match self.end() {
            Ok(_) => Failure::Failed(format!("{error}; the transaction was aborted")),
            Err(other) => other,
        }
    }

    fn open(&mut self, name: &str) -> Result<()> {
        if !self.databases.contains_key(name) {
            self.databases.insert(name.to_owned(), self.env.database(name)?);
        }
        Ok(())
    }

    fn get(&mut self, database: &str, key: &str) -> Result<Answer> {
        self.open(database)?;
        match self.with_record(database, key, records::get_in)? {
            Some(value) => Ok(Answer::bytes(&value, self.spelling, "value")),
            None => Ok(Answer::of("not found", json!({ "found": false }))),
        }
    }

    fn put(&mut self, database: &str, key: &str, value: &str) -> Result<Answer> {
        let value = self.spelling.read(OsStr::new(value))?;
        if !self.databases.contains_key(database) && !self.env.databases()?.iter().any(|name| name == database) {
            self.databases.insert(database.to_owned(), Database::Btree(self.env.btree(database)?));
        }
        self.open(database)?;
        self.with_record(database, key, |txn, database, key| records::put_in(txn, database, key, &value))?;
        Ok(Answer::of("put", json!({ "put": true })))
    }

    fn del(&mut self, database: &str, key: &str) -> Result<Answer> {
        self.open(database)?;
        let was_there = self.with_record(database, key, records::delete_in)?;
        Ok(Answer::of(if was_there { "deleted" } else { "not found" }, json!({ "deleted": was_there })))
    }

    /// Returns the open transaction, and a file of pages.
    fn at_file(&mut self, name: &str) -> Result<(&Txn<'e>, &PageFile)> {
        if self.txn.is_none() {
            return Err(no_transaction());
        }
        if !self.files.contains_key(name) {
            self.files.insert(name.to_owned(), self.env.pages(name)?);
        }
        let txn = self.txn.as_ref().ok_or_else(no_transaction)?;
        Ok((txn, &self.files[name]))
    }

    /// Calls `work` for a file of pages, in the open transaction.
    fn with_file<T>(&mut self, name: &str, work: impl FnOnce(&Txn<'_>, &PageFile) -> libtp::Result<T>) -> Result<T> {
        let (txn, file) = self.at_file(name)?;
        let done = work(txn, file);
        done.map_err(|error| self.refused(error))
    }

    fn lock(&mut self, name: &str, page: u32, lock: PageLock) -> Result<Answer> {
        self.with_file(name, |txn, file| file.lock(txn, page, lock))?;
        Ok(Answer::of("locked", json!({ "locked": page })))
    }

    fn unlock(&mut self, name: &str, page: u32) -> Result<Answer> {
        self.with_file(name, |txn, file| file.unlock(txn, page))?;
        Ok(Answer::of("unlocked", json!({ "unlocked": page })))
    }

    fn buf_get(&mut self, name: &str, page: u32) -> Result<Answer> {
        if let Some((file, page, _)) = &self.page {
            return Err(Failure::Usage(format!(
                "page {} of {file} is still held; release it with buf_unpin first",
                page.number()
            )));
        }
        let copy = self.with_file(name, |txn, file| file.get(txn, page))?;
        let bytes = copy.bytes.len();
        self.page = Some((name.to_owned(), copy, false));
        Ok(Answer::of(&format!("{bytes} bytes"), json!({ "page": page, "bytes": bytes })))
    }

    fn buf_look(&mut self, at: usize, count: usize) -> Result<Answer> {
        let spelling = self.spelling;
        let (_, page, _) = self.page.as_ref().ok_or_else(no_page)?;
        let end = at.checked_add(count);
        let bytes = end.and_then(|end| page.bytes.get(at..end)).ok_or_else(|| outside(&page.bytes))?;
        Ok(Answer::bytes(bytes, spelling, "bytes"))
    }

    fn buf_change(&mut self, at: usize, bytes: &str) -> Result<Answer> {
        let bytes = self.spelling.read(OsStr::new(bytes))?;
        let (_, page, is_changed) = self.page.as_mut().ok_or_else(no_page)?;
        let end = at.checked_add(bytes.len()).filter(|end| *end <= page.bytes.len());
        let end = end.ok_or_else(|| outside(&page.bytes))?;
        page.bytes[at..end].copy_from_slice(&bytes);
        *is_changed = true;
        Ok(Answer::of("changed", json!({ "changed": bytes.len() })))
    }

    fn buf_unpin(&mut self) -> Result<Answer> {
        let (name, page, is_changed) = self.page.take().ok_or_else(no_page)?;
        if is_changed {
            self.with_file(&name, |txn, file| file.put(txn, &page))?;
        }
        Ok(Answer::of("unpinned", json!({ "unpinned": page.number(), "stored": is_changed })))
    }
}

fn no_transaction() -> Failure {
    Failure::Usage("no transaction has begun; nothing was done. Begin one with `begin`".to_owned())
}

fn no_page() -> Failure {
    Failure::Usage("no page is held; nothing was done. Get one with buf_get".to_owned())
}

fn outside(page: &[u8]) -> Failure {
    Failure::Usage(format!("the page has only {} bytes; nothing was done", page.len()))
}
