//! `tp_order`: orders of keys that the program registers by name, in addition to the library's own orders.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use libtp::{order, Order};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::Text;

static ORDERS: Mutex<Vec<Arc<OfTheProgram>>> = Mutex::new(Vec::new());

/// Limit for the length of a function's output, in bytes. All keys of databases, encoded or not, are shorter.
const BYTES_MAX: usize = 1 << 20;
/// Room for the output of a function's first call, in bytes; enough for most keys.
const FIRST_ROOM: usize = 256;

/// `tp_recode`.
pub type Recode =
    extern "C" fn(bytes: *const c_void, size: usize, made: *mut c_void, room: usize, argument: *mut c_void) -> usize;

/// An order that the program has registered.
struct OfTheProgram {
    name: String,
    encode: Recode,
    decode: Recode,
    /// The address that the program passed for its own use.
    argument: usize,
}

impl OfTheProgram {
    /// Appends the function's output for `bytes` to `to`. If the output does not fit, calls the function again with
    /// more room.
    fn append(&self, recode: Recode, bytes: &[u8], to: &mut Vec<u8>) {
        let argument = std::ptr::with_exposed_provenance_mut(self.argument);
        let (before, mut room) = (to.len(), FIRST_ROOM);
        loop {
            to.resize(before + room, 0);
            let made = recode(bytes.as_ptr().cast(), bytes.len(), to[before..].as_mut_ptr().cast(), room, argument);
            if made <= room || room == BYTES_MAX {
                to.truncate(before + made.min(room));
                return;
            }
            room = made.min(BYTES_MAX);
        }
    }
}

impl Order for OfTheProgram {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        self.append(self.encode, key, encoded);
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        self.append(self.decode, encoded, key);
    }
}

/// Returns the order with this name: an order of the library or a registered order.
pub(crate) fn order_named(name: &str) -> Outcome<Arc<dyn Order>> {
    if let Some(known) = order::by_name(name) {
        return Ok(known);
    }
    let orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    match orders.iter().find(|order| order.name == name) {
        Some(order) => Ok(Arc::clone(order) as Arc<dyn Order>),
        None => {
            Err(Trouble::misuse(format!("no order `{name}` was registered: call tp_order with its functions first")))
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_order(name: Text, encode: Option<Recode>, decode: Option<Recode>, argument: *mut c_void) -> c_int {
    c_call("tp_order", || {
        let name = name.needed("the name")?;
        let (Some(encode), Some(decode)) = (encode, decode) else {
            return Err(Trouble::misuse("NULL was given for a function"));
        };
        if name.is_empty() || name.len() > 64 {
            return Err(Trouble::misuse("names of orders have 1 to 64 bytes"));
        }
        if order::by_name(name).is_some() {
            return Err(Trouble::misuse(format!("`{name}` is an order of the library; give your order another name")));
        }
        let order = OfTheProgram { name: name.into(), encode, decode, argument: argument.expose_provenance() };
        let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|other| other.name != name);
        orders.push(Arc::new(order));
        Ok(())
    })
}
