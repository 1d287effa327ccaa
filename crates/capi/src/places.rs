//! Places in databases: cursors of all kinds. A cursor is stored in its transaction and ends with the transaction.
//!
//! A cursor's handle names its place: the transaction's handle, and a number in that transaction. The cursor itself
//! borrows from the database and from the transaction. So it is stored in the transaction's value, with a pin of its
//! database ([`transaction`](crate::transaction)).

use libtp::{IndexEntry, Pair, Result};

use crate::answer::{Outcome, Trouble};
use crate::arguments::{Fill, Out};
use crate::handles::{Handle, Kind, Pinned};
use crate::transaction::{both, goes_on, transaction, Borrowing, Opened, ReaderRef, Transaction};

/// The address of a place: the transaction, and the place's number in it.
pub(crate) struct Where {
    txn: Handle<Transaction>,
    number: u64,
}

/// The value in the table of handles for a cursor of some kind.
pub(crate) trait Placed: Kind {
    /// The type of the cursor itself.
    type Cursor: Borrowing;
    /// The type of the cursor's database.
    type On: Opened;
    fn new(at: Where) -> Self;
    fn at(&self) -> &Where;
}

/// Defines the handle's value for a kind of cursor: it stores only the address of the place.
macro_rules! placed {
    ($(#[$doc:meta])* $name:ident = $code:literal: $cursor:ty, $on:ty) => {
        $(#[$doc])*
        pub struct $name($crate::places::Where);

        $crate::handles::kind!($name = $code);

        impl $crate::places::Placed for $name {
            type Cursor = $cursor;
            type On = $on;

            fn new(at: $crate::places::Where) -> $name {
                $name(at)
            }

            fn at(&self) -> &$crate::places::Where {
                &self.0
            }
        }
    };
}
pub(crate) use placed;

/// Defines the calls that move a cursor and return the record at its new place to C.
macro_rules! steps {
    ($place:ident $answers:tt $($name:ident = $step:expr;)*) => {$(
        $crate::places::step_call! { $place $answers $name = $step }
    )*};
}
pub(crate) use steps;

macro_rules! step_call {
    ($place:ident ($($answer:ident: $type:ty),*) $name:ident = $step:expr) => {
        /// See `libtp.h`.
        #[no_mangle]
        pub extern "C" fn $name(cursor: Handle<$place>, $($answer: $type),*) -> c_int {
            c_call(stringify!($name), || $crate::places::step(cursor, ($($answer),*), $step))
        }
    };
}
pub(crate) use step_call;

/// A record that is copied to C's arguments.
pub(crate) trait Shown<To> {
    fn show(&self, to: To) -> Outcome<()>;
}

impl Shown<(Fill, Fill)> for Pair {
    fn show(&self, (mut key, mut value): (Fill, Fill)) -> Outcome<()> {
        key.with(&self.0)?;
        value.with(&self.1)
    }
}

impl Shown<(Out<u64>, Fill)> for (u64, Vec<u8>) {
    fn show(&self, (number, mut record): (Out<u64>, Fill)) -> Outcome<()> {
        number.set(self.0);
        record.with(&self.1)
    }
}

impl Shown<(Fill, Fill, Fill)> for IndexEntry {
    fn show(&self, (mut index_key, mut key, mut value): (Fill, Fill, Fill)) -> Outcome<()> {
        index_key.with(&self.index_key)?;
        key.with(&self.key)?;
        value.with(&self.value)
    }
}

fn ended() -> Trouble {
    Trouble::misuse("the cursor's transaction has ended, and so has the cursor: the cursor can only be closed")
}

/// Opens a cursor over a database, puts it into its transaction and returns its handle to C.
pub(crate) fn open<P: Placed>(
    cursor: &Out<Handle<P>>,
    on: Handle<P::On>,
    txn: Handle<Transaction>,
    make: impl FnOnce(&'static P::On, ReaderRef<'static>) -> Outcome<P::Cursor>,
) -> Outcome<()> {
    let out = cursor.needed("the cursor", Handle::NULL)?;
    let (on, mut held) = both(on, txn)?;
    let number = held.add_place(on, make)?;
    match Handle::of(P::new(Where { txn, number })) {
        Ok(handle) => out.set(handle),
        Err(refused) => {
            held.drop_place(number);
            return Err(refused);
        }
    }
    Ok(())
}

/// Does some work at a cursor. No other call can use the transaction during the work.
pub(crate) fn at<P: Placed, T>(
    cursor: Handle<P>,
    work: impl FnOnce(&mut P::Cursor, &Pinned<P::On>, ReaderRef<'_>) -> Outcome<T>,
) -> Outcome<T> {
    let held = cursor.hold()?;
    let Where { txn, number } = *held.at();
    if !goes_on(txn) {
        return Err(ended());
    }
    let mut txn = transaction(txn)?;
    let ((cursor, on), reader) = txn.place(number).ok_or_else(ended)?;
    work(cursor, on, reader)
}

/// Moves a cursor and returns the record at its new place to C.
pub(crate) fn step<P: Placed, R: Shown<To>, To>(
    cursor: Handle<P>,
    to: To,
    go: impl FnOnce(&mut P::Cursor) -> Result<Option<R>>,
) -> Outcome<()> {
    at(cursor, |cursor, _, _| go(cursor)?.ok_or_else(Trouble::not_found)?.show(to))
}

/// Removes a cursor from its transaction, unless the transaction has ended, and closes the cursor's handle. A NULL
/// handle has no effect.
pub(crate) fn close<P: Placed>(cursor: Handle<P>) -> Outcome<()> {
    if cursor.is_null() {
        return Ok(());
    }
    let held = cursor.hold()?;
    let Where { txn, number } = *held.at();
    if goes_on(txn) {
        transaction(txn)?.drop_place(number);
    }
    held.remove();
    Ok(())
}
