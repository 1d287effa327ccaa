//! Plain files that change together with the records of a transaction.

pub(crate) mod change;
pub(crate) mod finish;
pub(crate) mod paths;
pub(crate) mod recovery;
pub(crate) mod row;
pub(crate) mod rows;
