//! The `Debug` output of databases and cursors: their kind and name. The name is in the memory of this process, so the
//! output takes no lock, waits for nothing and reads nothing shared.

use std::fmt::{Debug, Formatter, Result};

use crate::db::cursor::{Cursor, RecnoCursor};
use crate::db::handle::{Db, Recno};
use crate::db::index::{Index, IndexCursor};
use crate::db::list::{List, ListCursor};
use crate::db::multi::{Multi, MultiCursor};
use crate::db::page_file::PageFile;
use crate::Reader;

/// Shows a handle as `Kind(name)`.
macro_rules! named {
    ($([$($of:tt)*] $handle:ty, $kind:literal, $name:expr;)*) => {$(
        impl<$($of)*> Debug for $handle {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                let name: fn(&Self) -> &str = $name;
                write!(f, concat!($kind, "({})"), name(self))
            }
        }
    )*};
}

named! {
    [] Db, "Db", |db| db.name();
    [] Recno, "Recno", |db| db.name();
    [] Multi, "Multi", |db| db.name();
    [] List, "List", |db| db.name();
    [] Index, "Index", |db| db.name();
    [] PageFile, "PageFile", |db| db.name();
    [] Cursor<'_>, "Cursor", |at| at.database_name();
    [] MultiCursor<'_>, "MultiCursor", |at| at.database().name();
    [] RecnoCursor<'_>, "RecnoCursor", |at| at.database_name();
    [R: Reader] IndexCursor<'_, R>, "IndexCursor", |at| at.index().name();
}

impl<R: Reader> Debug for ListCursor<'_, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ListCursor").field("list", &self.list_name()).field("number", &self.number()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Duplicates, Env};

    /// The test makes the output while its thread has the list of open databases locked. If the output waited for that
    /// list, the test would not end.
    #[test]
    fn debug_output_has_the_name_and_waits_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let (tree, list) = (env.btree("words").unwrap(), env.list("lines").unwrap());
        let multi = env.multi("tags", Duplicates::Sorted).unwrap();
        let index = tree.index("by value", |_, value, keys| keys.add(value)).unwrap();
        let (recno, pages) = (env.recno("history", 8).unwrap(), env.pages("ground").unwrap());
        env.run(|txn| list.append(txn, b"one")).unwrap();
        let txn = env.begin().unwrap();
        let snapshot = env.snapshot().unwrap();
        let (env_0, databases) = (env.clone(), env.0.databases());
        assert_eq!(format!("{env_0:?}"), format!("Env({})", dir.path().display()));
        assert_eq!(format!("{tree:?} {list:?} {multi:?}"), "Db(words) List(lines) Multi(tags)");
        assert_eq!(format!("{index:?} {recno:?} {pages:?}"), "Index(by value) Recno(history) PageFile(ground)");
        drop(databases);
        let mut lines = list.cursor(&txn);
        lines.first().unwrap();
        assert_eq!(format!("{lines:?}"), "ListCursor { list: \"lines\", number: Some(1) }");
        assert_eq!(format!("{:?} {:?}", tree.cursor(&txn), multi.cursor(&snapshot)), "Cursor(words) MultiCursor(tags)");
        let shown = format!("{:?} {:?}", recno.cursor(&txn), index.cursor(&snapshot));
        assert_eq!(shown, "RecnoCursor(history) IndexCursor(by value)");
        let pairs = format!("{:?}", tree.cursor(&txn).into_iter());
        assert_eq!(pairs, "Pairs { database: \"words\", has_ended: false }");
        assert_eq!(format!("{txn:?}"), format!("Txn {{ id: Some({}), durability: Sync }}", txn.id()));
        assert_eq!(format!("{snapshot:?}"), format!("Snapshot {{ lsn: {} }}", snapshot.lsn()));
        assert!(format!("{:?}", txn.savepoint()).starts_with("Savepoint { txn: "));
    }
}
