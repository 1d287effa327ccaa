//! Tables of typed keys and values over databases of bytes: [`Table`](crate::Table), with codecs of the program's
//! types.
//!
//! |file|contents|
//! |---|---|
//! |`key`|keys as bytes whose order is the keys' order|
//! |`value`|values as bytes|
//! |`serialized`|values of types that serde knows (feature `serde`)|
//! |`table`|the table|

pub(crate) mod key;
#[cfg(feature = "serde")]
pub(crate) mod serialized;
pub(crate) mod table;
pub(crate) mod value;
