//! A database as its file stores it, for tools that copy it whole without any function of the program: [`Stored`].
//!
//! Only the program knows the order of a tree's keys, and the meaning of a page's bytes. Copying needs neither: the
//! tree holds encoded keys, in the order of their bytes (docs/design/0011-order-of-keys.md).

use libtp_record::order::{self, AsStored};
use libtp_record::{Duplicates, Method};

use crate::db::opening::open;
use crate::{Database, Env, PageFile, Result};

/// A database as its file stores it.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Records that a tool sees as the program does.
    Records(Database),
    /// A tree in an order that the library does not know: its keys are the bytes that the order's `encode` made, and
    /// keys to be put must be such bytes ([`AsStored`]). The database states the order's name.
    Encoded(Database),
    /// A file of pages.
    Pages(PageFile),
}

impl Env {
    /// Opens an existing database as its file stores it, of any kind and in any order.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use libtp::{order::AsStored, Database, Stored};
    /// # struct ByLength;
    /// # impl libtp::Order for ByLength {
    /// #     fn name(&self) -> &str { "by-length" }
    /// #     fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
    /// #         encoded.push(u8::try_from(key.len()).unwrap_or(255));
    /// #         encoded.extend_from_slice(key);
    /// #     }
    /// #     fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) { key.extend_from_slice(&encoded[1..]) }
    /// # }
    /// let env = libtp::Env::create(dir.path())?;
    /// let words = env.btree_ordered("words", ByLength)?;
    /// env.run(|txn| ["fig", "kiwi", "banana"].iter().try_for_each(|word| words.put(txn, word.as_bytes(), b"")))?;
    /// // A tool that does not know the order `ByLength`:
    /// let Stored::Encoded(Database::Btree(stored)) = env.stored("words")? else { panic!() };
    /// let copy = env.btree_ordered("copy", AsStored::named(stored.order_name().unwrap_or_default()))?;
    /// env.run(|txn| {
    ///     let mut cursor = stored.cursor(txn);
    ///     while let Some((key, value)) = cursor.next()? {
    ///         copy.put(txn, &key, &value)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(env.run(|txn| stored.cursor(txn).first())?.map(|pair| pair.0).as_deref(), Some(&b"\x03fig"[..]));
    /// // The program opens the copy in its own order.
    /// let copy = env.btree_ordered("copy", ByLength)?;
    /// assert!(env.run(|txn| copy.get(txn, b"banana"))?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Env::database`].
    pub fn stored(&self, name: &str) -> Result<Stored> {
        let found = open(&self.0, name, None)?;
        let key_format = *found.key_format();
        if found.method() == Method::Pages {
            return Ok(Stored::Pages(self.pages(name)?));
        }
        let Some(called) = key_format.order.filter(|called| order::by_name(called.as_str()).is_none()) else {
            return Ok(Stored::Records(self.database(name)?));
        };
        let order = AsStored::named(called.as_str());
        Ok(Stored::Encoded(match key_format.duplicates {
            Duplicates::None => Database::Btree(self.btree_ordered(name, order)?),
            kind => Database::Multi(self.multi_ordered(name, kind.into(), order)?),
        }))
    }
}
