//! The handles of databases: [`Db`], a B-tree or a hash file, and [`Recno`], records by number.
//!
//! A handle is the environment with an open database. Its calls are in `database.rs`.

use std::sync::Arc;
use std::time::Duration;

use libtp_record::{Access, KeyFormat, KeyRange, Method, Order, OrderName};

use crate::db::opening::{access, open, open_within, prefix_not_adjacent, wrong_key_format, wrong_kind};
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::{Error, Keys, Result, Txn};

/// A database of keys and values of any size: a B-tree, which keeps the keys in order, or a hash file
/// ([`Env::hash`](crate::Env::hash)), which finds a key in one step and has no order.
///
/// Every call works in a transaction of the same [`Env`](crate::Env) handle or a clone of it; the call panics if the
/// transaction belongs to another handle. The handle is cheap to clone, and all threads may use it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
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
    pub(super) open: Arc<OpenDatabase>,
    /// `None` for the order of the keys' bytes.
    pub(super) order: Option<Arc<dyn Order>>,
}

/// A record-number database: records of one length, numbered from one.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
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
            let what = format!("the name of its order has {} bytes, and such a name has 1 to 64; nothing was changed. Give the order another name", order.name().len());
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
        Db::of(env, open(env, name, Some((wanted, key_format)))?, wanted, &key_format, order)
    }

    /// Opens a B-tree, and waits for other sessions at most for the time `limit`.
    pub(crate) fn btree_within(env: &Arc<Inner>, name: &str, limit: Duration) -> Result<Db> {
        let (wanted, key_format) = (Method::Btree, KeyFormat::default());
        let open = open_within(env, name, Some((wanted, key_format)), Some(limit))?;
        Db::of(env, open, wanted, &key_format, None)
    }

    /// Returns a handle of an open database, unless the database is of another kind.
    fn of(
        env: &Arc<Inner>,
        open: Arc<OpenDatabase>,
        wanted: Method,
        key_format: &KeyFormat,
        order: Option<Arc<dyn Order>>,
    ) -> Result<Db> {
        let name = open.name();
        if open.method() != wanted {
            return Err(wrong_kind(name, open.method().name(), wanted.name()));
        }
        if open.key_format() != key_format {
            return Err(wrong_key_format(name, open.key_format(), key_format));
        }
        Ok(Db { env: Arc::clone(env), open, order })
    }

    /// Returns a handle that takes and returns keys as the database's file stores them, whatever their order.
    pub(crate) fn as_stored(env: &Arc<Inner>, open: &Arc<OpenDatabase>) -> Db {
        Db { env: Arc::clone(env), open: Arc::clone(open), order: None }
    }

    /// Returns a key as the tree stores it.
    #[inline]
    pub(super) fn stored<'k>(&self, key: &'k [u8], room: &'k mut Vec<u8>) -> &'k [u8] {
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

    pub(super) fn range_of(&self, keys: Keys) -> Result<KeyRange> {
        if self.is_hash() {
            let what = "it is a hash database, whose keys have no order, so it has no ranges of keys; nothing was changed. Use a B-tree";
            return Err(Error::Database { name: self.name().into(), what: what.into() });
        }
        keys.into_range(self.order.as_deref()).ok_or_else(|| prefix_not_adjacent(self.name(), self.order.as_deref()))
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

    /// Puts a key, which the tree stores as `stored`, into an error about the lock on that key.
    pub(crate) fn about(&self, error: Error, stored: &[u8]) -> Error {
        match error.lock_wait() {
            None => error,
            Some(_) => error.of_key(stored, &self.known(stored)),
        }
    }
}

impl Recno {
    pub(crate) fn open(env: &Arc<Inner>, name: &str, record_bytes: Option<u32>) -> Result<Recno> {
        let open =
            open(env, name, record_bytes.map(|record_bytes| (Method::Recno { record_bytes }, KeyFormat::default())))?;
        match (open.method(), record_bytes) {
            (Method::Recno { record_bytes: found }, Some(wanted)) if found != wanted => {
                let what = format!(
                    "its records have {found} bytes, and {wanted} were given; nothing was opened. Open it with {found}"
                );
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
}
