//! Databases, as a program holds them: [`Db`], a B-tree or a hash file, and [`Recno`], records by number.

use std::sync::Arc;
use std::time::Duration;

use libtp_buffer::PoolSettings;
use libtp_lock::{OpenHere, Wait};
use libtp_record::order;
use libtp_record::{Access, Duplicates, KeyFormat, KeyRange, Link, Method, OpenSettings, Order, OrderName};
use libtp_txn::Managers;
use rio::planted;

use crate::db::cursor::{Cursor, RecnoCursor};
use crate::db::multi::Multi;
use crate::ground::mutex::lock;
use crate::ground::settings::Granularity;
use crate::open::attach;
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::region::panics::callers;
use crate::{Error, Keys, List, Reader, Result, Txn};

/// Suffix of the name of a database that is to replace another ([`Txn::rename_database`]). The database
/// `NAME.successor` is opened with the settings of `NAME`, unless it has settings of its own.
pub const SUCCESSOR: &str = ".successor";

/// The name of the library's own database of plain files in transactions (`files/row.rs`).
pub(crate) const PLAIN_FILES: &str = "plain-files";

/// The shortest limit on waiting for other sessions that open or make the same database.
const NAME_PATIENCE: Duration = Duration::from_secs(5);

/// A database of keys and values of any size: a B-tree, which keeps the keys in order, or a hash file
/// ([`Env::hash`](crate::Env::hash)), which finds a key in one step and has no order.
///
/// Every call works in a transaction of the same [`Env`](crate::Env) handle or a clone of it; it panics with a
/// transaction of another handle. The handle is cheap to clone, and all threads may use it.
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
    /// `None` for the order of the keys' bytes.
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
    /// Records by number, renumbered by insertions and deletions.
    List(List),
    /// An index of another database ([`Db::index`](crate::Db::index)): under each index key, the keys of the records
    /// found there. For reading only.
    Index(Multi),
}

impl Db {
    /// Opens a B-tree or a hash file.
    pub(crate) fn open(env: &Arc<Inner>, name: &str, wanted: Method) -> Result<Db> {
        Db::open_as(env, name, wanted, KeyFormat::default(), None)
    }

    pub(crate) fn open_ordered(env: &Arc<Inner>, name: &str, order: Arc<dyn Order>) -> Result<Db> {
        let key_format = KeyFormat { order: Db::name_of(name, Some(&*order))?, ..KeyFormat::default() };
        Db::open_keyed(env, name, key_format, Some(order))
    }

    /// Returns the name of an order in the form that a database's file stores.
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
        key_format: KeyFormat,
        order: Option<Arc<dyn Order>>,
    ) -> Result<Db> {
        Db::open_as(env, name, Method::Btree, key_format, order)
    }

    fn open_as(
        env: &Arc<Inner>,
        name: &str,
        wanted: Method,
        key_format: KeyFormat,
        order: Option<Arc<dyn Order>>,
    ) -> Result<Db> {
        let open = open(env, name, Some((wanted, key_format)))?;
        if open.method() != wanted {
            return Err(wrong_kind(name, open.method().name(), wanted.name()));
        }
        if *open.key_format() != key_format {
            return Err(wrong_keying(name, open.key_format(), &key_format));
        }
        Ok(Db { env: Arc::clone(env), open, order })
    }

    /// Returns a database by its keys as its file stores them, whatever order the program gives them.
    pub(crate) fn as_stored(env: &Arc<Inner>, open: &Arc<OpenDatabase>) -> Db {
        Db { env: Arc::clone(env), open: Arc::clone(open), order: None }
    }

    /// Returns a key as the tree stores it.
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

    /// Returns a key as the tree stores it, owned.
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

    /// Returns the name of the order of the keys, if that is not the order of their bytes.
    pub fn order_name(&self) -> Option<&str> {
        self.order.as_ref().map(|order| order.name())
    }

    /// Returns whether this is a hash file, which has no order.
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

    /// Returns a stored key as the program knows it.
    pub(crate) fn known(&self, stored: &[u8]) -> Vec<u8> {
        let Some(order) = &self.order else { return stored.to_vec() };
        let mut key = Vec::new();
        order.decode(stored, &mut key);
        key
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// Returns the length of the longest allowed key, in bytes: a quarter of a page.
    pub fn key_bytes_max(&self) -> usize {
        self.open.key_bytes_max()
    }

    /// Returns the value of a key, or `None`. In a transaction the key stays locked for reading until the transaction
    /// ends.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, in a snapshot `SnapshotTooOld`; `Length`, `Corrupt`, `Io`.
    pub fn get(&self, reader: &impl Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        reader.read(self, self.stored(key, &mut Vec::new()), <[u8]>::to_vec)
    }

    /// Calls `read` with the value of a key, in memory that is lent for the call. Returns `None` if the key is missing.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_with<T>(&self, reader: &impl Reader, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        reader.read_copied(self, self.stored(key, &mut Vec::new()), read)
    }

    /// As [`Db::get`], but locks the key for writing at once: a later `put` of the same key cannot deadlock over it.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_for_update(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        txn.guarded(|| Ok(self.access(txn).get_for_update(key, <[u8]>::to_vec)?))
            .map_err(|error| self.about(error, key))
    }

    /// Reads, changes and writes back a value of the same length. Returns `None` if the key is missing.
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

    /// Stores a value under a key, and replaces any earlier value.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; `Length` when the key is too long; `Full` with nothing changed; `Failed`, `Corrupt`,
    /// `Io`.
    pub fn put(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        let key = self.stored(key, &mut room);
        match self.written(txn, |access| access.put(key, value)).map_err(|error| self.about(error, key))? {
            Some(()) => Ok(()),
            None => self.put_indexed(txn, key, value),
        }
    }

    /// Stores a value under a key that does not exist yet.
    ///
    /// # Errors
    /// `Exists` if the key exists, with nothing changed; else as [`Db::put`].
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

    /// Removes a key and its value; returns false if the key was missing. A page that this leaves empty is returned to
    /// the file after the transaction has committed, unless a snapshot needs it; commit returns after that.
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

    /// Returns a link to the record of a key: its address, which another record can store and [`Db::get_at`] follows.
    /// Returns `None` if the key is missing. Locks the key for reading.
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

    /// Returns the key and value of the record that a link leads to, without a search, and locks the record for
    /// reading. Returns `None` if the record is no longer there: it was deleted, or moved when its page was split or it
    /// grew. Then search by its key and take a new link. Another record is mistaken for it only where the hashes of
    /// their keys are equal, once in 2^64 pairs unless keys are chosen so; the returned key tells.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_at(&self, txn: &Txn<'_>, link: Link) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let copied = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        let found = txn.guarded(|| Ok(self.access(txn).get_linked(link, copied)?))?;
        // Decode by the program's own function now that no page is latched.
        Ok(found.map(|(stored, value)| (self.known(&stored), value)))
    }

    /// Returns a cursor over the keys in order. In a transaction it locks the records it passes for reading, and the
    /// gaps between them. The cursor of a hash file has no order and moves forward only; it meets each record that is
    /// there all the time once.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> Cursor<'t> {
        reader.cursor(self, KeyRange::default()).in_order(&self.order)
    }

    /// Returns a cursor over some of the keys. In a transaction it locks these keys and the gaps between them, and no
    /// key beyond.
    ///
    /// # Errors
    /// `Database` when `keys` is a prefix and the database has an order of its own.
    pub fn range<'t>(&'t self, reader: &'t impl Reader, keys: impl Into<Keys>) -> Result<Cursor<'t>> {
        Ok(reader.cursor(self, self.range_of(keys.into())?).in_order(&self.order))
    }

    /// Returns a cursor over the keys that begin with the given bytes.
    ///
    /// # Errors
    /// As [`Db::range`].
    pub fn prefix<'t>(&'t self, reader: &'t impl Reader, beginning: &[u8]) -> Result<Cursor<'t>> {
        // In byte order these keys are adjacent, and nothing needs copying first.
        let range = match self.order.is_none() && !self.is_hash() {
            true => KeyRange::with_prefix(beginning),
            false => self.range_of(Keys::prefix(beginning))?,
        };
        Ok(reader.cursor(self, range).in_order(&self.order))
    }

    /// Returns the number of these keys. In a transaction it locks them as a cursor does: the number stays until the
    /// transaction ends.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn count(&self, reader: &impl Reader, keys: impl Into<Keys>) -> Result<u64> {
        reader.count(self, self.range_of(keys.into())?)
    }

    /// Removes all of these keys; returns their number. No other transaction can insert such a key until this
    /// transaction ends.
    ///
    /// Each key is locked for writing, and the gap below it for reading: some hundred bytes of shared memory a key.
    /// From a hundred thousand locks on, the transaction tries to lock the whole database instead, and then needs no
    /// more. Each removal is logged with its value. After the commit, empty pages are returned to the file for reuse,
    /// unless a snapshot needs them; commit returns after that.
    ///
    /// # Errors
    /// As [`Db::put`]. Some of the keys may be removed by then: end the transaction, or go back to a savepoint.
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

    /// Changes records of a database without indices. Returns `None`, with nothing changed, if it has indices.
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

    /// Adds the key, as the tree stores it, to an error about a lock on that key.
    pub(crate) fn about(&self, error: Error, stored: &[u8]) -> Error {
        match error.lock_wait() {
            None => error,
            Some(_) => error.of_key(stored, &self.known(stored)),
        }
    }

    /// Returns a cursor over keys as the tree stores them.
    pub(crate) fn raw_cursor<'t>(&'t self, reader: &'t impl Reader, range: KeyRange) -> Cursor<'t> {
        reader.cursor(self, range)
    }
}

/// Returns the error for a prefix in an order that does not keep keys with one prefix adjacent.
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
            open(env, name, record_bytes.map(|record_bytes| (Method::Recno { record_bytes }, KeyFormat::default())))?;
        match (open.method(), record_bytes) {
            (Method::Recno { record_bytes: found }, Some(wanted)) if found != wanted => {
                let what = format!("its records have {found} bytes, not {wanted}");
                Err(Error::Database { name: name.into(), what })
            }
            (Method::Recno { .. }, _) => Ok(Recno { env: Arc::clone(env), open }),
            (other, _) => Err(wrong_kind(name, other.name(), "recno")),
        }
    }

    /// Wraps an open record-number database.
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

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        self.open.name()
    }

    /// Returns the length of every record, in bytes.
    pub fn record_bytes(&self) -> u32 {
        match self.open.method() {
            Method::Recno { record_bytes } => record_bytes,
            Method::Btree | Method::Hash | Method::Pages => 0,
        }
    }

    /// Returns the record with that number, or `None`.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, reader: &impl Reader, number: u64) -> Result<Option<Vec<u8>>> {
        reader.read_number(self, number, <[u8]>::to_vec)
    }

    /// Stores a record under a number, and replaces any earlier record.
    ///
    /// # Errors
    /// `Length` when the record has another length; else as [`Db::put`].
    pub fn put(&self, txn: &Txn<'_>, number: u64, record: &[u8]) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).recno_put(number, record)?))
    }

    /// Stores a record under the next free number and returns that number. Numbers of aborted transactions stay empty.
    ///
    /// # Errors
    /// As [`Recno::put`].
    pub fn append(&self, txn: &Txn<'_>, record: &[u8]) -> Result<u64> {
        txn.guarded(|| Ok(self.access(txn).recno_append(record)?))
    }

    /// Removes a record; returns false if there was none.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, number: u64) -> Result<bool> {
        txn.guarded(|| Ok(self.access(txn).recno_delete(number)?))
    }

    /// Returns a cursor over the records in the order of their numbers.
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
    Access::of_session(&txn.generation().managers, txn.session(), open)
}

/// Opens a database. Creates a missing one if `making` gives its method and keying.
pub(crate) fn open(env: &Arc<Inner>, name: &str, making: Option<(Method, KeyFormat)>) -> Result<Arc<OpenDatabase>> {
    env.check_process()?;
    let of = |name: &str| env.settings.database.get(name);
    let own = of(name).or_else(|| of(name.strip_suffix(SUCCESSOR)?));
    // A transaction with plain files runs inner transactions on this database.
    let has_inner = name == PLAIN_FILES;
    let settings = OpenSettings {
        create: making.map(|making| making.0),
        key_format: making.map(|making| making.1).unwrap_or_default(),
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
        let opened = env.with_session(|managers, txn| {
            let open = match libtp_record::open(managers, txn, env.platform.directory.as_ref(), name, &settings) {
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
            // The database's pages may be larger than any before.
            attach::warn_of_no_spares(managers.refill_spares());
            let is_dense = own.and_then(|own| own.dense).unwrap_or_default();
            let note = Arc::clone(lock(&env.index_notes).entry(open.id().raw()).or_default());
            let open = open.with_granularity(granularity).with_dense_leaves(is_dense).with_index_note(note);
            Ok((managers.log.incarnation(), open))
        });
        let (incarnation, open) = opened.map_err(|error| error.of_name(name))?;
        let mut databases = env.databases();
        // A new life takes along the databases in the list. So no new life may have begun since, nor may another
        // process have begun one that knows only the files it found then.
        let managers = &env.newest().managers;
        if managers.log.incarnation() == incarnation && !managers.region.is_broken() {
            return Ok(Arc::clone(databases.entry(name.into()).or_insert_with(|| Arc::new(open))));
        }
    }
}

/// Returns how long an opening waits for the database's name. A session that opens or makes the database holds the name
/// briefly, whatever the lock timeout is. A transaction that drops or renames the database holds the name to its end,
/// and may belong to this thread. Either may be stopped.
fn wait_for_name(wait: Wait) -> Wait {
    match wait {
        _ if planted("libtp: a name is waited for as long as it takes") => Wait::Forever,
        Wait::For(longest) if !OpenHere::any() => Wait::For(longest.max(NAME_PATIENCE)),
        _ => Wait::For(NAME_PATIENCE),
    }
}

/// Returns the open database of that name, unless it was dropped or renamed since.
pub(crate) fn known(env: &Inner, name: &str) -> Option<Arc<OpenDatabase>> {
    let open = env.databases().get(name).cloned()?;
    let generation = env.newest();
    // A given-up region tells nothing about the database; the next life does.
    let Ok(info) = generation.guarded(|| Ok(generation.managers.buffers.file_by_id(open.id()))) else {
        return Some(open);
    };
    if info.as_ref().is_some_and(|info| info.name == name) {
        return Some(open);
    }
    let mut databases = env.databases();
    if databases.get(name).is_some_and(|now| Arc::ptr_eq(now, &open)) {
        databases.remove(name);
        match info {
            // Handles to it stay valid, and the next life takes it along. No database can have this name.
            Some(_) => _ = databases.insert(format!("/{}", open.id()), open),
            None => _ = lock(&env.index_notes).remove(&open.id().raw()),
        }
    }
    None
}

/// Agrees with all attached processes on the unit of locking in a database. A page locker and a record locker would not
/// see each other's locks, so the first to open the database decides for all, as long as any process is attached.
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
            "the processes that have it open lock {theirs} in it, and this opening asks for {ours}; nothing was opened. Ask for the same, or close the environment everywhere first"
        );
        return Err(Error::Database { name: open.name().into(), what });
    }
    Ok(if agreed == 2 { libtp_record::Granularity::Page } else { libtp_record::Granularity::Record })
}

impl Database {
    pub(crate) fn open(env: &Arc<Inner>, name: &str) -> Result<Database> {
        let open = open(env, name, None)?;
        match open.method() {
            Method::Btree if open.key_format().is_list => Ok(Database::List(List::open(env, name)?)),
            Method::Btree if open.key_format().index_of.is_some() => {
                Ok(Database::Index(Multi::of_index(Db::open_keyed(env, name, *open.key_format(), None)?)))
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

/// Verifies a database. Its pages are in byte order, whatever the order of its keys.
pub(crate) fn verify(env: &Arc<Inner>, name: &str, txn: &Txn<'_>) -> Result<libtp_record::Verified> {
    let open = open(env, name, None)?;
    txn.guarded(|| Ok(libtp_record::verify(&access(env, &open, txn))?))
}

/// Opens a tree by the order that its file names, if the library itself has that order.
fn open_as_it_is(env: &Arc<Inner>, name: &str) -> Result<Database> {
    let key_format = *open(env, name, None)?.key_format();
    let order = match &key_format.order {
        None => None,
        Some(called) => {
            let unknown = || wrong_keying(name, &key_format, &KeyFormat::default());
            Some(order::by_name(called.as_str()).ok_or_else(unknown)?)
        }
    };
    match key_format.duplicates {
        Duplicates::None => Ok(Database::Btree(Db::open_keyed(env, name, key_format, order)?)),
        kind => Ok(Database::Multi(Multi::open(env, name, kind, order)?)),
    }
}

pub(crate) fn no_index_of(name: &str, database: &str) -> Error {
    Error::Database { name: name.into(), what: format!("it is no index of `{database}`; nothing was changed") }
}

fn wrong_keying(name: &str, found: &KeyFormat, wanted: &KeyFormat) -> Error {
    let order = |key_format: &KeyFormat| match &key_format.order {
        None => "of their bytes".into(),
        Some(order) => format!("`{}`", order.as_str()),
    };
    let duplicates = |key_format: &KeyFormat| match key_format.duplicates {
        Duplicates::None => "one value a key",
        Duplicates::Sorted => "several values a key, sorted",
        Duplicates::AsTheyCame => "several values a key, in the order in which they came",
    };
    let what = if found.is_list != wanted.is_list {
        let kind = |key_format: &KeyFormat| if key_format.is_list { "list" } else { "btree" };
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

/// Returns the names of the environment's databases, sorted.
pub(crate) fn names(env: &Inner) -> Result<Vec<String>> {
    env.check_process()?;
    let generation = env.newest();
    let entries = generation.guarded(|| Ok(generation.managers.buffers.registry().all()?))?;
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    Ok(names)
}

pub(crate) fn wrong_kind(name: &str, found: &str, wanted: &str) -> Error {
    Error::Database { name: name.into(), what: format!("it is a {found} database, not a {wanted} one") }
}

#[cfg(test)]
mod tests;
