//! Databases, as a program holds them: [`Db`], a B-tree or a hash file, and [`Recno`], records by number.

use std::sync::Arc;
use std::time::Duration;

use libtp_buffer::PoolSettings;
use libtp_lock::{OpenHere, Wait};
use libtp_record::order;
use libtp_record::{Access, Duplicates, KeyRange, Keying, Link, Method, OpenSettings, Order, OrderName};
use libtp_txn::Managers;
use rio::planted;

use crate::attach;
use crate::cursor::{Cursor, RecnoCursor};
use crate::databases::SUCCESSOR;
use crate::environment::{lock, Inner};
use crate::life::Life;
use crate::multi::Multi;
use crate::panics::callers;
use crate::settings::Granularity;
use crate::{Error, Keys, List, Reader, Result, Txn};

/// So long an opening waits for others that open or make the same database.
const NAME_PATIENCE: Duration = Duration::from_secs(5);

/// A database open in this process, shared by all handles to it.
pub(crate) type OpenDatabase = libtp_record::Database;

/// A database of keys and values of any size: a B-tree, which keeps the keys in order, or a hash file ([`Env::hash`](crate::Env::hash)),
/// which finds a key in one step and has no order.
///
/// Every call works in a transaction of the same [`Env`](crate::Env) handle or a clone of it, and panics with one of
/// another. The handle is cheap to clone and may be used by all threads.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
/// let stock = env.btree("stock")?;
/// env.run(|txn| {
///     stock.put(txn, b"pears", b"7")?;
///     assert!(stock.put_new(txn, b"apples", b"3").is_ok());
///     assert_eq!(stock.get(txn, b"pears")?.as_deref(), Some(&b"7"[..]));
///     assert!(stock.delete(txn, b"pears")?);
///     assert_eq!(stock.get(txn, b"pears")?, None);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Db {
    env: Arc<Inner>,
    open: Arc<OpenDatabase>,
    /// None for the order of the keys' bytes.
    order: Option<Arc<dyn Order>>,
}

/// A record-number database: records of one length, numbered from one.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
/// let history = env.recno("history", 8)?;
/// let number = env.run(|txn| history.append(txn, b"transfer"))?;
/// let found = env.run(|txn| history.get(txn, number))?;
/// assert_eq!(found.as_deref(), Some(&b"transfer"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Recno {
    env: Arc<Inner>,
    open: Arc<OpenDatabase>,
}

/// A database of any kind, for tools that are given a name.
#[derive(Clone)]
pub enum Database {
    /// A B-tree.
    Btree(Db),
    /// A B-tree whose keys have several values each.
    Multi(Multi),
    /// Records by number.
    Recno(Recno),
    /// A hash file.
    Hash(Db),
    /// Records by number, which are renumbered.
    List(List),
    /// An index of another database ([`Db::index`](crate::Db::index)): under each index key the keys of the records that are found there. To be
    /// looked at, not written to.
    Index(Multi),
}

impl Db {
    /// Opens a B-tree or a hash file.
    pub(crate) fn open(env: &Arc<Inner>, name: &str, wanted: Method) -> Result<Db> {
        Db::open_as(env, name, wanted, Keying::default(), None)
    }

    pub(crate) fn open_ordered(env: &Arc<Inner>, name: &str, order: Arc<dyn Order>) -> Result<Db> {
        let keying = Keying { order: Db::name_of(name, Some(&*order))?, ..Keying::default() };
        Db::open_keyed(env, name, keying, Some(order))
    }

    /// The name of an order, as it is to stand in the file of a database.
    pub(crate) fn name_of(database: &str, order: Option<&dyn Order>) -> Result<Option<OrderName>> {
        let Some(order) = order else { return Ok(None) };
        let called = OrderName::new(order.name()).ok_or_else(|| {
            let what = format!("the name of its order has {} bytes, and such names have 1 to 64", order.name().len());
            Error::Database { name: database.into(), what }
        })?;
        Ok(Some(called))
    }

    pub(crate) fn open_keyed(
        env: &Arc<Inner>,
        name: &str,
        keying: Keying,
        order: Option<Arc<dyn Order>>,
    ) -> Result<Db> {
        Db::open_as(env, name, Method::Btree, keying, order)
    }

    fn open_as(
        env: &Arc<Inner>,
        name: &str,
        wanted: Method,
        keying: Keying,
        order: Option<Arc<dyn Order>>,
    ) -> Result<Db> {
        let open = open(env, name, Some((wanted, keying)))?;
        if open.method() != wanted {
            return Err(wrong_kind(name, open.method().name(), wanted.name()));
        }
        if *open.keying() != keying {
            return Err(wrong_keying(name, open.keying(), &keying));
        }
        Ok(Db { env: Arc::clone(env), open, order })
    }

    /// A database by its keys as they stand in its file, whatever their order is to the program.
    pub(crate) fn as_stored(env: &Arc<Inner>, open: &Arc<OpenDatabase>) -> Db {
        Db { env: Arc::clone(env), open: Arc::clone(open), order: None }
    }

    /// A key as it stands in the tree.
    #[inline]
    fn stored<'k>(&self, key: &'k [u8], room: &'k mut Vec<u8>) -> &'k [u8] {
        match &self.order {
            None => key,
            Some(order) => {
                order.encode(key, room);
                room
            }
        }
    }

    /// A key as it stands in the tree, in memory of its own.
    pub(crate) fn stored_key(&self, key: Vec<u8>) -> Vec<u8> {
        let Some(order) = &self.order else { return key };
        let mut encoded = Vec::new();
        order.encode(&key, &mut encoded);
        encoded
    }

    fn range_of(&self, keys: Keys) -> Result<KeyRange> {
        if self.is_hash() {
            let what = "it is a hash database, whose keys have no order: there are no ranges of them";
            return Err(Error::Database { name: self.name().into(), what: what.into() });
        }
        keys.into_range(self.order.as_deref()).ok_or_else(|| not_side_by_side(self.name(), self.order.as_deref()))
    }

    /// The name of the order of its keys, if that is another than that of their bytes.
    pub fn order_name(&self) -> Option<&str> {
        self.order.as_ref().map(|order| order.name())
    }

    /// Whether it is a hash file, which has no order.
    pub fn is_hash(&self) -> bool {
        self.open.method() == Method::Hash
    }

    #[inline]
    pub(crate) fn access<'a>(&'a self, txn: &'a Txn<'_>) -> Access<'a> {
        access(&self.env, &self.open, txn)
    }

    pub(crate) fn environment(&self) -> &Arc<Inner> {
        &self.env
    }

    pub(crate) fn opened(&self) -> &Arc<OpenDatabase> {
        &self.open
    }

    pub(crate) fn order(&self) -> Option<&Arc<dyn Order>> {
        self.order.as_ref()
    }

    /// A key as the program knows it.
    pub(crate) fn known(&self, stored: &[u8]) -> Vec<u8> {
        let Some(order) = &self.order else { return stored.to_vec() };
        let mut key = Vec::new();
        order.decode(stored, &mut key);
        key
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// The longest key it takes, in bytes: a quarter of a page.
    pub fn key_bytes_max(&self) -> usize {
        self.open.key_bytes_max()
    }

    /// The value of a key, or none. In a transaction the key is locked for reading until that ends.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Length`, `Corrupt`, `Io`.
    pub fn get(&self, reader: &impl Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        reader.read(self, self.stored(key, &mut Vec::new()), <[u8]>::to_vec)
    }

    /// Hands the value of a key to `read`, in memory that is lent for the call; none if there is no such key.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_with<T>(&self, reader: &impl Reader, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        reader.read_copied(self, self.stored(key, &mut Vec::new()), read)
    }

    /// As [`Db::get`], locked for writing at once: a later `put` of the same key cannot end in a deadlock over it.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_for_update(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        txn.guarded(|| Ok(self.access(txn).get_for_update(key, <[u8]>::to_vec)?))
            .map_err(|error| self.about(error, key))
    }

    /// Reads, changes and writes back a value of the same length; none if there is no such key.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn update_with<R>(&self, txn: &Txn<'_>, key: &[u8], change: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
        let mut room = Vec::new();
        let stored = self.stored(key, &mut room);
        let mut change = Some(change);
        let done = self.written(txn, |access| {
            access.update(stored, |value| change.take().map(|change| callers(|| change(value))))
        });
        let done = done.map_err(|error| self.about(error, stored))?;
        match (done, change) {
            (Some(found), _) => Ok(found.flatten()),
            (None, Some(change)) => self.update_indexed(txn, stored, change),
            (None, None) => Ok(None),
        }
    }

    /// Stores a value under a key, whatever was there.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Length` when the key is too long; `Full` with nothing changed; `Failed`, `Corrupt`, `Io`.
    pub fn put(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        match self.written(txn, |access| access.put(key, value)).map_err(|error| self.about(error, key))? {
            Some(()) => Ok(()),
            None => self.put_indexed(txn, key, value),
        }
    }

    /// Stores a value under a key that is not there yet.
    ///
    /// # Errors
    /// `Exists` when it is, with nothing changed; else as [`Db::put`].
    pub fn put_new(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        let written = self.written(txn, |access| access.put_new(key, value)).map_err(|error| self.about(error, key));
        let is_new = match written? {
            Some(is_new) => is_new,
            None => self.put_new_indexed(txn, key, value)?,
        };
        match is_new {
            true => Ok(()),
            false => Err(Error::Exists),
        }
    }

    /// Removes a key and its value; false if there was none. A page on which that leaves nothing is given back to the file when the
    /// transaction has committed, as far as no snapshot needs it; commit returns after that.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, key: &[u8]) -> Result<bool> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        match self.written(txn, |access| access.delete(key)).map_err(|error| self.about(error, key))? {
            Some(was_there) => Ok(was_there),
            None => self.delete_indexed(txn, key),
        }
    }

    /// A link to the record of a key: its address, to be kept in another record and followed with [`Db::get_at`]; none if there
    /// is no such key. The key is locked for reading.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::open(dir.path())?;
    /// let parts = env.hash("parts")?;
    /// env.run(|txn| {
    ///     parts.put(txn, b"screw", b"steel")?;
    ///     let link = parts.link_of(txn, b"screw")?.expect("it was just put");
    ///     parts.put(txn, b"hinge", &link.to_bytes())?;
    ///     let found = match parts.get_at(txn, link)? {
    ///         Some((_, value)) => Some(value),
    ///         // It was moved, or deleted: the key knows.
    ///         None => parts.get(txn, b"screw")?,
    ///     };
    ///     assert_eq!(found.as_deref(), Some(&b"steel"[..]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn link_of(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Link>> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        txn.guarded(|| Ok(self.access(txn).link_of(key)?))
    }

    /// The key and value of the record that a link leads to, locked for reading, without a search. None if it is not there any
    /// more: it was deleted, or went elsewhere when its page was split or it grew. Then its key tells which, and a new link can
    /// be had. Another record is taken for it only where the hashes of their keys are equal, which happens once in 2^64 pairs, or to
    /// who chooses keys so: the key that comes with it says whose it is.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_at(&self, txn: &Txn<'_>, link: Link) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let copied = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        let found = txn.guarded(|| Ok(self.access(txn).get_linked(link, copied)?))?;
        // The program's own function, when no page is latched any more.
        Ok(found.map(|(stored, value)| (self.known(&stored), value)))
    }

    /// A cursor over the keys in order. In a transaction what it passes is locked for reading, the gaps between included. That of
    /// a hash file has no order, and goes one way: each record that is there all the time is met once.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> Cursor<'t> {
        reader.cursor(self, KeyRange::default()).in_order(&self.order)
    }

    /// A cursor over some of the keys. In a transaction it locks these and the gaps between them, and no key beyond.
    ///
    /// # Errors
    /// `Database` when keys that begin alike are asked for, and the database has an order of its own.
    pub fn range<'t>(&'t self, reader: &'t impl Reader, keys: impl Into<Keys>) -> Result<Cursor<'t>> {
        Ok(reader.cursor(self, self.range_of(keys.into())?).in_order(&self.order))
    }

    /// A cursor over the keys that begin with some bytes.
    ///
    /// # Errors
    /// As [`Db::range`].
    pub fn prefix<'t>(&'t self, reader: &'t impl Reader, beginning: &[u8]) -> Result<Cursor<'t>> {
        // In the order of their bytes they are side by side, and nothing is to be copied first.
        let range = match self.order.is_none() && !self.is_hash() {
            true => KeyRange::with_prefix(beginning),
            false => self.range_of(Keys::prefix(beginning))?,
        };
        Ok(reader.cursor(self, range).in_order(&self.order))
    }

    /// How many of these keys there are. In a transaction they are locked as a cursor locks them: the number stays until it ends.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn count(&self, reader: &impl Reader, keys: impl Into<Keys>) -> Result<u64> {
        reader.count(self, self.range_of(keys.into())?)
    }

    /// Removes all of these keys; returns how many there were. Nobody else puts one there until the transaction ends.
    ///
    /// Each key is locked for writing, and the gap below it for reading: some hundred bytes of shared memory a key. From a
    /// hundred thousand locks on the transaction tries to lock the whole database instead, and then needs no more. Each
    /// removal is logged with its value. When the transaction has committed, pages with nothing left are given back to the
    /// file for what comes next, as far as no snapshot needs them; commit returns after that.
    ///
    /// # Errors
    /// As [`Db::put`]. Some of the keys may be gone by then: end the transaction, or go back to a savepoint.
    pub fn delete_range(&self, txn: &Txn<'_>, keys: impl Into<Keys>) -> Result<u64> {
        self.delete_raw_range(txn, self.range_of(keys.into())?)
    }

    pub(crate) fn delete_raw_range(&self, txn: &Txn<'_>, range: KeyRange) -> Result<u64> {
        txn.note_emptied(&self.open, &range);
        match self.written(txn, |access| access.delete_range(range.clone()))? {
            Some(count) => Ok(count),
            None => self.delete_range_indexed(txn, range),
        }
    }

    /// Changes records where no index is to be kept; none, with nothing done, where one is.
    #[inline]
    fn written<T>(
        &self,
        txn: &Txn<'_>,
        change: impl FnOnce(&Access<'_>) -> libtp_record::Result<T>,
    ) -> Result<Option<T>> {
        txn.guarded(|| {
            let access = self.access(txn);
            Ok(if access.has_indices()? { None } else { Some(change(&access)?) })
        })
    }

    /// An error of what was done with a key, as it stands in the tree: one of its lock says which key it was.
    pub(crate) fn about(&self, error: Error, stored: &[u8]) -> Error {
        match error.lock_wait() {
            None => error,
            Some(_) => error.of_key(stored, &self.known(stored)),
        }
    }

    /// A cursor over keys as they stand in the tree.
    pub(crate) fn raw_cursor<'t>(&'t self, reader: &'t impl Reader, range: KeyRange) -> Cursor<'t> {
        reader.cursor(self, range)
    }
}

/// Keys that begin alike are asked for, in an order in which they are here and there.
pub(crate) fn not_side_by_side(name: &str, order: Option<&dyn Order>) -> Error {
    let order = order.map_or("", Order::name);
    let what = format!(
        "its keys are in the order `{order}`, in which keys that begin alike need not be side by side: give a range of keys"
    );
    Error::Database { name: name.into(), what }
}

impl Recno {
    pub(crate) fn open(env: &Arc<Inner>, name: &str, record_bytes: Option<u32>) -> Result<Recno> {
        let open =
            open(env, name, record_bytes.map(|record_bytes| (Method::Recno { record_bytes }, Keying::default())))?;
        match (open.method(), record_bytes) {
            (Method::Recno { record_bytes: found }, Some(wanted)) if found != wanted => {
                let what = format!("its records have {found} bytes, not {wanted}");
                Err(Error::Database { name: name.into(), what })
            }
            (Method::Recno { .. }, _) => Ok(Recno { env: Arc::clone(env), open }),
            (other, _) => Err(wrong_kind(name, other.name(), "recno")),
        }
    }

    /// A database that is one of records by number.
    pub(crate) fn as_stored(env: &Arc<Inner>, open: &Arc<OpenDatabase>) -> Recno {
        Recno { env: Arc::clone(env), open: Arc::clone(open) }
    }

    #[inline]
    pub(crate) fn access<'a>(&'a self, txn: &'a Txn<'_>) -> Access<'a> {
        access(&self.env, &self.open, txn)
    }

    pub(crate) fn environment(&self) -> &Arc<Inner> {
        &self.env
    }

    pub(crate) fn opened(&self) -> &OpenDatabase {
        &self.open
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// Bytes of every record.
    pub fn record_bytes(&self) -> u32 {
        match self.open.method() {
            Method::Recno { record_bytes } => record_bytes,
            Method::Btree | Method::Hash | Method::Pages => 0,
        }
    }

    /// The record with that number, or none.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, reader: &impl Reader, number: u64) -> Result<Option<Vec<u8>>> {
        reader.read_number(self, number, <[u8]>::to_vec)
    }

    /// Stores a record under a number, whatever was there.
    ///
    /// # Errors
    /// `Length` when it has another length; else as [`Db::put`].
    pub fn put(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).recno_put(number, record)?))
    }

    /// Stores a record under the next free number and returns it. Numbers of aborted transactions stay empty.
    ///
    /// # Errors
    /// As [`Recno::put`].
    pub fn append(&self, txn: &Txn<'_>, record: &[u8]) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).recno_append(record)?))
    }

    /// Removes a record; false if there was none.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, number: u64) -> Result<bool> {
        txn.guarded(|| Ok(self.access(txn).recno_delete(number)?))
    }

    /// A cursor over the records in the order of their numbers.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> RecnoCursor<'t> {
        reader.number_cursor(self)
    }
}

#[inline]
pub(crate) fn access<'a>(env: &'a Arc<Inner>, open: &'a OpenDatabase, txn: &'a Txn<'_>) -> Access<'a> {
    assert!(
        std::ptr::eq(Arc::as_ptr(env), Arc::as_ptr(txn.environment())),
        "a database is used with transactions of its own environment handle"
    );
    Access::of_session(&txn.life().managers, txn.session(), open)
}

/// How long the environment's settings let a lock be waited for.
pub(crate) fn wait_of(timeout: Option<Duration>) -> Wait {
    match timeout {
        Some(Duration::ZERO) => Wait::No,
        Some(longest) => Wait::For(longest),
        None => Wait::Forever,
    }
}

/// Opens a database, making it if `making` says how and it is missing.
pub(crate) fn open(env: &Arc<Inner>, name: &str, making: Option<(Method, Keying)>) -> Result<Arc<OpenDatabase>> {
    env.check_process()?;
    let of = |name: &str| env.settings.database.get(name);
    let own = of(name).or_else(|| of(name.strip_suffix(SUCCESSOR)?));
    // Who has plain files in a transaction makes others in the midst of it.
    let has_inner = name == crate::files::DATABASE;
    let settings = OpenSettings {
        create: making.map(|making| making.0),
        keying: making.map(|making| making.1).unwrap_or_default(),
        page_bytes: own.and_then(|own| own.page_bytes).map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX)),
        own_pool: own
            .and_then(|own| own.own_pool)
            .map(|bytes| PoolSettings { budget_bytes: bytes.0, ..PoolSettings::default() }),
        wait: Some(wait_for_name(env.wait)),
    };
    loop {
        if let Some(open) = known(env, name) {
            return Ok(open);
        }
        let opened = env.with_session(|managers, who| {
            let open = match libtp_record::open(managers, who, env.platform.directory.as_ref(), name, &settings) {
                Err(libtp_record::Error::Lock(libtp_lock::Error::Timeout { .. })) if OpenHere::any() => {
                    let what = "a transaction that has not ended drops it, or makes or takes its name; end that one first, and then \
                                open the database";
                    return Err(Error::Database { name: name.into(), what: what.into() });
                }
                opened => opened?,
            };
            let open =
                open.ok_or_else(|| Error::NoDatabase { name: name.into(), environment: env.platform.path.clone() })?;
            let wish = own.and_then(|own| own.granularity).filter(|_| !has_inner);
            let granularity = agree_on_granularity(managers, &open, wish)?;
            let open = if has_inner { open.without_escalation() } else { open };
            // Its pages may be larger than any before.
            attach::warn_of_no_spares(managers.refill_spares());
            let is_dense = own.and_then(|own| own.dense).unwrap_or_default();
            let note = Arc::clone(lock(&env.index_notes).entry(open.id().raw()).or_default());
            let open = open.with_granularity(granularity).with_dense_leaves(is_dense).with_index_note(note);
            Ok((managers.log.incarnation(), open))
        });
        let (incarnation, open) = opened.map_err(|error| error.of_name(name))?;
        let mut databases = env.databases();
        // A life that begins takes along what is in the list, so it must not have begun since; nor may another process have
        // begun it, which knows the files that it found then.
        let managers = &env.newest().managers;
        if managers.log.incarnation() == incarnation && !managers.region.is_broken() {
            return Ok(Arc::clone(databases.entry(name.into()).or_insert_with(|| Arc::new(open))));
        }
    }
}

/// How long an opening waits for the name. Who opens or makes the database has the name for a moment, whatever the wait for locks is. A
/// transaction that drops or renames the database has it to its end, and may be this thread's own. Either may be stopped.
fn wait_for_name(wait: Wait) -> Wait {
    match wait {
        _ if planted("libtp: a name is waited for as long as it takes") => Wait::Forever,
        Wait::For(longest) if !OpenHere::any() => Wait::For(longest.max(NAME_PATIENCE)),
        _ => Wait::For(NAME_PATIENCE),
    }
}

/// The database of that name that is open, unless it was dropped since, or has another name.
pub(crate) fn known(env: &Inner, name: &str) -> Option<Arc<OpenDatabase>> {
    let open = env.databases().get(name).cloned()?;
    let life = env.newest();
    // In memory that is given up nothing is known of it: the next life says more.
    let Ok(info) = life.guarded(|| Ok(life.managers.buffers.file_by_id(open.id()))) else { return Some(open) };
    if info.as_ref().is_some_and(|info| info.name == name) {
        return Some(open);
    }
    let mut databases = env.databases();
    if databases.get(name).is_some_and(|now| Arc::ptr_eq(now, &open)) {
        databases.remove(name);
        match info {
            // Handles to it go on, and the next life takes it along. No database has such a name.
            Some(_) => _ = databases.insert(format!("/{}", open.id()), open),
            None => _ = lock(&env.index_notes).remove(&open.id().raw()),
        }
    }
    None
}

/// What is locked in a database: who locks pages and who locks records would not see each other's locks, so the first to
/// open it decides for all, as long as anybody is attached.
fn agree_on_granularity(
    managers: &Managers,
    open: &OpenDatabase,
    wish: Option<Granularity>,
) -> Result<libtp_record::Granularity> {
    let number = |granularity: Granularity| match granularity {
        Granularity::Record => 1,
        Granularity::Page => 2,
    };
    let agreed = managers.buffers.agree(open.id(), number(wish.unwrap_or_default())).map_err(Error::from)?;
    if wish.is_some_and(|wish| number(wish) != agreed) {
        let (theirs, ours) = if agreed == 2 { ("pages", "records") } else { ("records", "pages") };
        let what = format!(
            "those who have it open lock {theirs} in it, and {ours} were asked for; nothing was opened. Ask for the same, or \
             close the environment everywhere first"
        );
        return Err(Error::Database { name: open.name().into(), what });
    }
    Ok(if agreed == 2 { libtp_record::Granularity::Page } else { libtp_record::Granularity::Record })
}

/// A database that is open goes on in a new life of the shared memory, with the same granularity.
pub(crate) fn take_along(life: &Life, open: &OpenDatabase) -> Result<()> {
    let number = match open.granularity() {
        libtp_record::Granularity::Record => 1,
        libtp_record::Granularity::Page => 2,
    };
    open.forget_unlinked();
    let buffers = &life.managers.buffers;
    if buffers.registered(open.id()).is_none() {
        let who = life.managers.join()?;
        let admitted = buffers.admit(who.session(), open.id());
        life.managers.leave(who);
        match admitted {
            // It was dropped: each use of the handle is told so.
            Err(libtp_buffer::Error::UnknownFile { .. } | libtp_buffer::Error::Dropped { .. }) => return Ok(()),
            admitted => admitted?,
        }
    }
    buffers.agree(open.id(), number)?;
    Ok(())
}

impl Database {
    pub(crate) fn open(env: &Arc<Inner>, name: &str) -> Result<Database> {
        let open = open(env, name, None)?;
        match open.method() {
            Method::Btree if open.keying().is_list => Ok(Database::List(List::open(env, name)?)),
            Method::Btree if open.keying().index_of.is_some() => {
                Ok(Database::Index(Multi::of_index(Db::open_keyed(env, name, *open.keying(), None)?)))
            }
            Method::Btree => open_as_it_is(env, name),
            Method::Hash => Ok(Database::Hash(Db::open(env, name, Method::Hash)?)),
            Method::Recno { .. } => Ok(Database::Recno(Recno::open(env, name, None)?)),
            Method::Pages => {
                let what = "it is a file of pages, whose bytes only the program knows that made it (`Env::pages`)";
                Err(Error::Database { name: name.into(), what: what.into() })
            }
        }
    }
}

/// Verifies a database. Its pages are in the order of bytes, whatever order its keys are in.
pub(crate) fn verify(env: &Arc<Inner>, name: &str, txn: &Txn<'_>) -> Result<libtp_record::Verified> {
    let open = open(env, name, None)?;
    txn.guarded(|| Ok(libtp_record::verify(&access(env, &open, txn))?))
}

/// A tree as it is made, in the order in which its keys are, if the library itself has that.
fn open_as_it_is(env: &Arc<Inner>, name: &str) -> Result<Database> {
    let keying = *open(env, name, None)?.keying();
    let order = match &keying.order {
        None => None,
        Some(called) => {
            let unknown = || wrong_keying(name, &keying, &Keying::default());
            Some(order::by_name(called.as_str()).ok_or_else(unknown)?)
        }
    };
    match keying.duplicates {
        Duplicates::None => Ok(Database::Btree(Db::open_keyed(env, name, keying, order)?)),
        kind => Ok(Database::Multi(Multi::open(env, name, kind, order)?)),
    }
}

pub(crate) fn no_index_of(name: &str, database: &str) -> Error {
    Error::Database { name: name.into(), what: format!("it is no index of `{database}`; nothing was changed") }
}

fn wrong_keying(name: &str, found: &Keying, wanted: &Keying) -> Error {
    let order = |keying: &Keying| match &keying.order {
        None => "of their bytes".into(),
        Some(order) => format!("`{}`", order.as_str()),
    };
    let duplicates = |keying: &Keying| match keying.duplicates {
        Duplicates::None => "one value a key",
        Duplicates::Sorted => "several values a key, sorted",
        Duplicates::AsTheyCame => "several values a key, in the order in which they came",
    };
    let what = if found.is_list != wanted.is_list {
        let kind = |keying: &Keying| if keying.is_list { "list" } else { "btree" };
        format!("it is a {} database, not a {} one", kind(found), kind(wanted))
    } else if found.index_of != wanted.index_of {
        match found.index_of {
            Some(_) => {
                "it is an index, which is read and kept by means of the database whose index it is (`Db::index`)".into()
            }
            None => "it is a database, and no index; give the index another name".into(),
        }
    } else if found.order != wanted.order {
        format!(
            "its keys are in the order {}, and it was to be opened with keys in the order {}; nothing was opened. Open it with \
             the order that it was made with (`Env::btree_ordered`)",
            order(found),
            order(wanted)
        )
    } else {
        format!(
            "it has {}, and it was to be opened with {}; nothing was opened. Open it as it was made",
            duplicates(found),
            duplicates(wanted)
        )
    };
    Error::Database { name: name.into(), what }
}

/// The names of the environment's databases, sorted.
pub(crate) fn names(env: &Inner) -> Result<Vec<String>> {
    env.check_process()?;
    let life = env.newest();
    let entries = life.guarded(|| Ok(life.managers.buffers.registry().all()?))?;
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    Ok(names)
}

pub(crate) fn wrong_kind(name: &str, found: &str, wanted: &str) -> Error {
    Error::Database { name: name.into(), what: format!("it is a {found} database, not a {wanted} one") }
}

#[cfg(test)]
mod tests;
