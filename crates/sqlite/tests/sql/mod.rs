//! SQLite's C interface, for tests: connections that run statements and return the rows as text.
//!
//! The tests link this crate's library, so they call the varied SQLite.
#![allow(dead_code)] // each test uses a part of it

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};

// Links the library.
use libtp_sqlite as _;

#[allow(clashing_extern_declarations)]
extern "C" {
    fn sqlite3_open_v2(name: *const c_char, db: *mut *mut c_void, flags: c_int, vfs: *const c_char) -> c_int;
    fn sqlite3_close(db: *mut c_void) -> c_int;
    fn sqlite3_errmsg(db: *mut c_void) -> *const c_char;
    fn sqlite3_extended_errcode(db: *mut c_void) -> c_int;
    fn sqlite3_busy_timeout(db: *mut c_void, millis: c_int) -> c_int;
    fn sqlite3_get_autocommit(db: *mut c_void) -> c_int;
    fn sqlite3_prepare_v2(
        db: *mut c_void,
        sql: *const c_char,
        length: c_int,
        statement: *mut *mut c_void,
        rest: *mut *const c_char,
    ) -> c_int;
    fn sqlite3_step(statement: *mut c_void) -> c_int;
    fn sqlite3_finalize(statement: *mut c_void) -> c_int;
    fn sqlite3_column_count(statement: *mut c_void) -> c_int;
    fn sqlite3_column_type(statement: *mut c_void, column: c_int) -> c_int;
    fn sqlite3_column_text(statement: *mut c_void, column: c_int) -> *const c_char;
    fn sqlite3_column_bytes(statement: *mut c_void, column: c_int) -> c_int;
    fn sqlite3_column_blob(statement: *mut c_void, column: c_int) -> *const c_void;
    fn sqlite3_serialize(db: *mut c_void, schema: *const c_char, size: *mut i64, flags: u32) -> *mut c_void;
    fn sqlite3_backup_init(
        to: *mut c_void,
        to_name: *const c_char,
        from: *mut c_void,
        from_name: *const c_char,
    ) -> *mut c_void;
    fn sqlite3_busy_handler(
        db: *mut c_void,
        handler: extern "C" fn(*mut c_void, c_int) -> c_int,
        context: *mut c_void,
    ) -> c_int;
    fn sqlite3_create_function(
        db: *mut c_void,
        name: *const c_char,
        arguments: c_int,
        encoding: c_int,
        context: *mut c_void,
        function: extern "C" fn(*mut c_void, c_int, *mut *mut c_void),
        step: *const c_void,
        last: *const c_void,
    ) -> c_int;
    fn sqlite3_user_data(context: *mut c_void) -> *mut c_void;
    fn sqlite3_context_db_handle(context: *mut c_void) -> *mut c_void;
    fn sqlite3_result_int(context: *mut c_void, value: c_int);
    fn sqlite3_exec(
        db: *mut c_void,
        sql: *const c_char,
        row: *const c_void,
        context: *mut c_void,
        error: *mut *mut c_char,
    ) -> c_int;
    fn sqlite3_backup_step(backup: *mut c_void, pages: c_int) -> c_int;
    fn sqlite3_backup_remaining(backup: *mut c_void) -> c_int;
    fn sqlite3_backup_finish(backup: *mut c_void) -> c_int;
    fn sqlite3_free(start: *mut c_void);
    fn sqlite3_db_filename(db: *mut c_void, schema: *const c_char) -> *const c_char;
    fn sqlite3_interrupt(db: *mut c_void);
    fn sqlite3_blob_open(
        db: *mut c_void,
        schema: *const c_char,
        table: *const c_char,
        column: *const c_char,
        rowid: i64,
        is_write: c_int,
        blob: *mut *mut c_void,
    ) -> c_int;
    fn sqlite3_blob_read(blob: *mut c_void, to: *mut c_void, bytes: c_int, offset: c_int) -> c_int;
    fn sqlite3_blob_write(blob: *mut c_void, from: *const c_void, bytes: c_int, offset: c_int) -> c_int;
    fn sqlite3_blob_close(blob: *mut c_void) -> c_int;
}

const ROW: c_int = 100;
const DONE: c_int = 101;
const OPEN: c_int = 2 | 4 | 0x40; // READWRITE, CREATE, URI
pub const BUSY: c_int = 5;
pub const BUSY_SNAPSHOT: c_int = 5 | 2 << 8;
pub const ABORT_ROLLBACK: c_int = 4 | 2 << 8;

/// A connection.
pub struct Connection(*mut c_void);

// SAFETY: SQLite is built for several threads, with a mutex in each connection.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

/// An error of SQLite: its code and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: c_int,
    pub sentence: String,
}

/// The rows of a statement, each value as text with its type.
pub type Rows = Vec<Vec<String>>;

/// A prepared statement, which may be left open.
pub struct Statement<'c> {
    raw: *mut c_void,
    connection: &'c Connection,
}

impl Connection {
    pub fn open(path: &Path) -> Connection {
        Connection::try_open(path.to_str().unwrap(), OPEN)
            .unwrap_or_else(|failure| panic!("{}: {failure:?}", path.display()))
    }

    pub fn open_read_only(path: &Path) -> Connection {
        Connection::try_open(path.to_str().unwrap(), 1 | 0x40).unwrap()
    }

    pub fn try_open(name: &str, flags: c_int) -> Result<Connection, Failure> {
        let (name, mut raw) = (CString::new(name).unwrap(), null_mut());
        // SAFETY: all pointers are valid for the call.
        let code = unsafe { sqlite3_open_v2(name.as_ptr(), &mut raw, flags, null()) };
        let connection = Connection(raw);
        match code {
            0 => Ok(connection),
            _ => Err(connection.failure()),
        }
    }

    fn failure(&self) -> Failure {
        // SAFETY: SQLite has made the connection, even if its opening failed, and it is not closed.
        let code = unsafe { sqlite3_extended_errcode(self.0) };
        // SAFETY: as above.
        let sentence = unsafe { sqlite3_errmsg(self.0) };
        // SAFETY: the text ends in a zero byte and stays until the next call.
        let sentence = unsafe { CStr::from_ptr(sentence) };
        Failure { code, sentence: sentence.to_string_lossy().into_owned() }
    }

    /// Sets a busy handler that always demands another try.
    pub fn keep_trying(&self) {
        extern "C" fn again(_: *mut c_void, _: c_int) -> c_int {
            std::thread::sleep(std::time::Duration::from_millis(1));
            1
        }
        // SAFETY: the connection is open, and the handler lasts as long as the program.
        unsafe { sqlite3_busy_handler(self.0, again, null_mut()) };
    }

    /// Makes an SQL function `nested()`, which runs a statement and returns the statement's code.
    pub fn add_nested(&self, sql: &'static CStr) {
        extern "C" fn nested(context: *mut c_void, _: c_int, _: *mut *mut c_void) {
            // SAFETY: SQLite passes the context of this call.
            let text = unsafe { sqlite3_user_data(context) };
            // SAFETY: it is the text `sql` of `add_nested`, which lasts as long as the program and ends in a zero byte.
            let sql = unsafe { CStr::from_ptr(text.cast()) };
            // SAFETY: SQLite passes the context of this call.
            let db = unsafe { sqlite3_context_db_handle(context) };
            // SAFETY: the connection is open while its function runs, and the text ends in a zero byte.
            let code = unsafe { sqlite3_exec(db, sql.as_ptr(), null(), null_mut(), null_mut()) };
            // SAFETY: as above.
            unsafe { sqlite3_result_int(context, code) };
        }
        let (name, text) = (c"nested".as_ptr(), sql.as_ptr().cast_mut().cast());
        // SAFETY: the connection is open, both texts end in a zero byte, and the function lasts as long as the program.
        unsafe { sqlite3_create_function(self.0, name, 0, 1, text, nested, null(), null()) };
    }

    pub fn busy_timeout(&self, millis: c_int) {
        // SAFETY: the connection is open.
        unsafe { sqlite3_busy_timeout(self.0, millis) };
    }

    /// Returns whether BEGIN has ended autocommit.
    pub fn is_in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { sqlite3_get_autocommit(self.0) == 0 }
    }

    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, Failure> {
        Ok(self.prepare_first(&CString::new(sql).unwrap())?.0)
    }

    fn prepare_first(&self, sql: &CStr) -> Result<(Statement<'_>, usize), Failure> {
        let (mut raw, mut rest) = (null_mut(), null());
        // SAFETY: all pointers are valid for the call, and the text ends in a zero byte.
        let code = unsafe { sqlite3_prepare_v2(self.0, sql.as_ptr(), -1, &mut raw, &mut rest) };
        let used = rest.addr().saturating_sub(sql.as_ptr().addr());
        match code {
            0 => Ok((Statement { raw, connection: self }, used)),
            _ => Err(self.failure()),
        }
    }

    /// Runs all statements of a text, and returns the rows of the last statement.
    pub fn run(&self, sql: &str) -> Result<Rows, Failure> {
        let (mut sql, mut rows) = (CString::new(sql).unwrap(), Rows::new());
        loop {
            let (statement, used) = self.prepare_first(&sql)?;
            if statement.raw.is_null() {
                return Ok(rows);
            }
            rows = statement.rows()?;
            sql = CString::new(&sql.as_bytes()[used..]).unwrap();
        }
    }

    /// Runs all statements, which must succeed.
    #[track_caller]
    pub fn ok(&self, sql: &str) -> Rows {
        self.run(sql).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"))
    }

    /// Returns the only value of the only row.
    #[track_caller]
    pub fn one(&self, sql: &str) -> String {
        let rows = self.ok(sql);
        assert!(rows.len() == 1 && rows[0].len() == 1, "{sql}: {rows:?}");
        rows[0][0].clone()
    }

    /// Returns the code of a statement that must fail.
    #[track_caller]
    pub fn code(&self, sql: &str) -> c_int {
        match self.run(sql) {
            Ok(rows) => panic!("{sql} succeeded: {rows:?}"),
            Err(failure) => failure.code,
        }
    }

    /// Returns the error text of a statement that must fail.
    #[track_caller]
    pub fn sentence(&self, sql: &str) -> String {
        match self.run(sql) {
            Ok(rows) => panic!("{sql} succeeded: {rows:?}"),
            Err(failure) => failure.sentence,
        }
    }

    /// Interrupts the running statement. Any thread may call it.
    pub fn interrupt(&self) {
        // SAFETY: the connection is open.
        unsafe { sqlite3_interrupt(self.0) };
    }

    /// Opens the blob in column `column` of the table `t`.
    pub fn blob(&self, column: &CStr, rowid: i64) -> Blob<'_> {
        self.open_blob(column, rowid, 1)
    }

    pub fn blob_for_reading(&self, column: &CStr, rowid: i64) -> Blob<'_> {
        self.open_blob(column, rowid, 0)
    }

    fn open_blob(&self, column: &CStr, rowid: i64, is_write: c_int) -> Blob<'_> {
        let mut raw = null_mut();
        // SAFETY: the connection is open, and the pointers are valid for the call.
        let code = unsafe {
            sqlite3_blob_open(self.0, c"main".as_ptr(), c"t".as_ptr(), column.as_ptr(), rowid, is_write, &mut raw)
        };
        assert_eq!(code, 0, "{:?}", self.failure());
        Blob { raw, _connection: self }
    }

    /// Returns the bytes of an SQLite file with the records of this database.
    pub fn serialize(&self) -> Option<Vec<u8>> {
        let mut size = 0;
        // SAFETY: the connection is open, and the name ends in a zero byte.
        let start = unsafe { sqlite3_serialize(self.0, c"main".as_ptr(), &mut size, 0) };
        if start.is_null() {
            return None;
        }
        let length = usize::try_from(size).unwrap();
        // SAFETY: SQLite returned this number of bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec();
        // SAFETY: SQLite has allocated the bytes for the caller.
        unsafe { sqlite3_free(start) };
        Some(bytes)
    }

    /// Copies the database to another connection, `pages` pages in each step. Calls `between` before each step.
    pub fn back_up(&self, to: &Connection, pages: c_int, mut between: impl FnMut()) -> Result<(), Failure> {
        // SAFETY: both connections are open, and the names end in a zero byte.
        let backup = unsafe { sqlite3_backup_init(to.0, c"main".as_ptr(), self.0, c"main".as_ptr()) };
        if backup.is_null() {
            return Err(to.failure());
        }
        let mut code = 0;
        while code == 0 {
            between();
            // SAFETY: the backup has begun and not ended.
            code = unsafe { sqlite3_backup_step(backup, pages) };
        }
        // SAFETY: as above.
        let left = unsafe { sqlite3_backup_remaining(backup) };
        // SAFETY: as above. The backup is not used after this call.
        unsafe { sqlite3_backup_finish(backup) };
        assert_eq!((code, left), (DONE, 0));
        Ok(())
    }

    pub fn last_sentence(&self) -> String {
        self.failure().sentence
    }

    pub fn file_name(&self) -> String {
        // SAFETY: the connection is open.
        let name = unsafe { sqlite3_db_filename(self.0, c"main".as_ptr()) };
        // SAFETY: the name ends in a zero byte and stays as long as the connection.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the connection is open, and every statement borrows from it.
        let code = unsafe { sqlite3_close(self.0) };
        assert!(code == 0 || std::thread::panicking(), "closing the connection failed");
    }
}

/// A handle of a blob.
pub struct Blob<'c> {
    raw: *mut c_void,
    _connection: &'c Connection,
}

impl Blob<'_> {
    pub fn read<const N: usize>(&self, offset: c_int) -> Result<[u8; N], c_int> {
        let mut bytes = [0; N];
        let length = c_int::try_from(N).unwrap();
        // SAFETY: the blob is open, and the array has that many bytes.
        match unsafe { sqlite3_blob_read(self.raw, bytes.as_mut_ptr().cast(), length, offset) } {
            0 => Ok(bytes),
            code => Err(code),
        }
    }

    pub fn write(&self, bytes: &[u8], offset: c_int) -> c_int {
        let length = c_int::try_from(bytes.len()).unwrap();
        // SAFETY: the blob is open, and the slice has that many bytes.
        unsafe { sqlite3_blob_write(self.raw, bytes.as_ptr().cast(), length, offset) }
    }
}

impl Drop for Blob<'_> {
    fn drop(&mut self) {
        // SAFETY: the blob is open.
        unsafe { sqlite3_blob_close(self.raw) };
    }
}

impl Statement<'_> {
    /// Returns the next row, or `None` at the end.
    pub fn step(&self) -> Result<Option<Vec<String>>, Failure> {
        // SAFETY: the statement is prepared.
        match unsafe { sqlite3_step(self.raw) } {
            ROW => Ok(Some(self.row())),
            DONE => Ok(None),
            _ => Err(self.connection.failure()),
        }
    }

    fn row(&self) -> Vec<String> {
        // SAFETY: the statement is prepared.
        let count = unsafe { sqlite3_column_count(self.raw) };
        (0..count).map(|column| self.value(column)).collect()
    }

    fn value(&self, column: c_int) -> String {
        // SAFETY: the statement is at a row.
        let kind = unsafe { sqlite3_column_type(self.raw, column) };
        let start = match kind {
            5 => return "NULL".into(),
            // SAFETY: as above.
            4 => unsafe { sqlite3_column_blob(self.raw, column) }.cast::<u8>(),
            // SAFETY: as above.
            _ => unsafe { sqlite3_column_text(self.raw, column) }.cast::<u8>(),
        };
        // SAFETY: as above.
        let length = usize::try_from(unsafe { sqlite3_column_bytes(self.raw, column) }).unwrap();
        let bytes = match length {
            0 => &[][..],
            // SAFETY: SQLite keeps this many bytes there until the next step.
            _ => unsafe { std::slice::from_raw_parts(start, length) },
        };
        match kind {
            4 => format!("x'{}'", bytes.escape_ascii()),
            3 => format!("'{}'", String::from_utf8_lossy(bytes)),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    fn rows(&self) -> Result<Rows, Failure> {
        let mut rows = Rows::new();
        while let Some(row) = self.step()? {
            rows.push(row);
        }
        Ok(rows)
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is prepared, or NULL, which SQLite allows.
        unsafe { sqlite3_finalize(self.raw) };
    }
}

/// Reports that a test cannot run on this machine. In CI the test then fails.
pub fn skipped(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    println!("skipped: {why}");
}
