//! Comparison functions whose order has a name, so that shared files can use them (docs/design/0011): the library's own
//! functions, and functions that the program has assigned to an order.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use libtp::order::{AsciiCaseless, Descending, LittleEndian};
use libtp::Order;

use crate::arguments::Text;
use crate::db::dbt::{compare, Dbt};
use crate::db::refusal::Refusal;
use crate::db::rule::Compare;
use crate::db::{answer, SUCCESS};
use crate::order::order_named;

/// The program's functions, each with its order.
static NAMED: Mutex<Vec<(Compare, Arc<dyn Order>)>> = Mutex::new(Vec::new());

/// Returns the order of a comparison function, or `None` if the order has no name.
pub(crate) fn order_of(function: Compare) -> Option<Arc<dyn Order>> {
    let ours: [(Compare, Arc<dyn Order>); 3] = [
        (db_compare_descending, Arc::new(Descending)),
        (db_compare_caseless, Arc::new(AsciiCaseless)),
        (db_compare_little_endian, Arc::new(LittleEndian)),
    ];
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = ours.iter().chain(named.iter());
    all.find(|(other, _)| std::ptr::fn_addr_eq(*other, function)).map(|(_, order)| Arc::clone(order))
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_order(function: Option<Compare>, order: Text) -> c_int {
    answer("db_order", || {
        let function = function.ok_or_else(|| Refusal::invalid("NULL was given for the comparison"))?;
        let order = order_named(order.needed("the name of the order")?)?;
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|(other, _)| !std::ptr::fn_addr_eq(*other, function));
        named.push((function, order));
        Ok(SUCCESS)
    })
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_descending(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| other.cmp(one))
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_caseless(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| {
        one.iter().map(u8::to_ascii_lowercase).cmp(other.iter().map(u8::to_ascii_lowercase))
    })
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn db_compare_little_endian(one: *const Dbt, other: *const Dbt) -> c_int {
    compare(one, other, |one, other| one.iter().rev().cmp(other.iter().rev()))
}
