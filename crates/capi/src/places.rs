//! Places in databases: cursors of all kinds, which lie in their transaction and end with it.
//!
//! A handle of a cursor names its place: the transaction's handle, and a number in that transaction. The cursor itself
//! borrows from the database and from the transaction, so it is stored in the transaction's value, with a pin of its
//! database.
//!
//! Invariant: a place is dropped before the values it borrows from. Each variant has the cursor before the pin, and
//! fields drop in that order. [`transaction`](crate::transaction) keeps the order of the rest.

use libtp::{Cursor, IndexCursor, ListCursor, MultiCursor, RecnoCursor, Snapshot, Txn};

use crate::answer::{Outcome, Trouble};
use crate::arguments::Out;
use crate::database::{KeyedDatabase, NumberedDatabase};
use crate::handles::{Handle, Kind, Pinned, Table};
use crate::index::IndexOfDatabase;
use crate::list::ListDatabase;
use crate::multi::MultiDatabase;
use crate::transaction::{goes_on, transaction, ReaderRef, Transaction};

/// A cursor with the pin of its database.
#[allow(dead_code)] // pins are held and seldom read
pub(crate) enum Place {
    Keyed(Cursor<'static>, Pinned<KeyedDatabase>),
    Numbered(RecnoCursor<'static>, Pinned<NumberedDatabase>),
    Multi(MultiCursor<'static>, Pinned<MultiDatabase>),
    List(ListPlace, Pinned<ListDatabase>),
    Index(IndexPlace, Pinned<IndexOfDatabase>),
}

/// A cursor over a list. In a transaction it can change the list.
pub(crate) enum ListPlace {
    InTxn(ListCursor<'static, Txn<'static>>),
    InSnapshot(ListCursor<'static, Snapshot<'static>>),
}

/// A cursor over an index.
pub(crate) enum IndexPlace {
    InTxn(IndexCursor<'static, Txn<'static>>),
    InSnapshot(IndexCursor<'static, Snapshot<'static>>),
}

/// The address of a place: its transaction, and its number there.
pub(crate) struct Where {
    txn: Handle<Transaction>,
    number: u64,
}

/// A handle's value for a cursor of any kind.
pub(crate) trait Placed: Kind {
    fn new(at: Where) -> Self;
    fn at(&self) -> &Where;
}

/// Defines the kinds of cursors, which all store only their address.
macro_rules! placed {
    ($($name:ident = $code:literal in $table:ident, $what:literal;)*) => {$(
        static $table: Table<$name> = Table::new();

        #[doc = $what]
        pub struct $name(Where);

        impl Kind for $name {
            const CODE: usize = $code;
            fn table() -> &'static Table<$name> {
                &$table
            }
        }

        impl Placed for $name {
            fn new(at: Where) -> $name {
                $name(at)
            }

            fn at(&self) -> &Where {
                &self.0
            }
        }
    )*};
}

placed! {
    KeyedPlace = 4 in CURSORS, "What C calls `tp_cursor`.";
    NumberedPlace = 5 in NUMBER_CURSORS, "What C calls `tp_recno_cursor`.";
    MultiPlace = 10 in MULTI_CURSORS, "What C calls `tp_multi_cursor`.";
    ListedPlace = 12 in LIST_CURSORS, "What C calls `tp_list_cursor`.";
    IndexedPlace = 15 in INDEX_CURSORS, "What C calls `tp_index_cursor`.";
}

pub(crate) fn ended() -> Trouble {
    Trouble::misuse("the cursor's transaction has ended, and the cursor with it: it can only be closed")
}

/// Puts a cursor into its transaction and hands out its handle.
pub(crate) fn open<P: Placed, D: Kind + Sync>(
    out: &Out<Handle<P>>,
    txn: Handle<Transaction>,
    held: &mut Transaction,
    on: Pinned<D>,
    make: impl FnOnce(&'static D, ReaderRef<'static>, Pinned<D>) -> Outcome<Place>,
) -> Outcome<()> {
    let number = held.add_place(on, make)?;
    match P::table().insert(P::new(Where { txn, number })) {
        Ok(handle) => out.set(handle),
        Err(refused) => {
            held.drop_place(number);
            return Err(refused);
        }
    }
    Ok(())
}

/// Does some work at a cursor. The call uses the transaction alone meanwhile.
pub(crate) fn at<P: Placed, T>(
    cursor: Handle<P>,
    work: impl FnOnce(&mut Place, ReaderRef<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let held = P::table().hold(cursor)?;
    let Where { txn, number } = *held.at();
    if !goes_on(txn) {
        return Err(ended());
    }
    let mut txn = transaction(txn)?;
    let (place, reader) = txn.place(number).ok_or_else(ended)?;
    work(place, reader)
}

/// Removes a cursor from its transaction, if that has not ended, and closes its handle. NULL has no effect.
pub(crate) fn close<P: Placed>(cursor: Handle<P>) -> Outcome<()> {
    if cursor.is_null() {
        return Ok(());
    }
    let held = P::table().hold(cursor)?;
    let Where { txn, number } = *held.at();
    if goes_on(txn) {
        transaction(txn)?.drop_place(number);
    }
    held.remove();
    Ok(())
}
