//! The database in which transactions with plain files record their intended changes.

use std::sync::Arc;

use libtp_record::Method;

use super::row;
use crate::region::inner::Inner;
use crate::{Db, Result};

/// Opens the database of intentions.
pub(super) fn rows(env: &Arc<Inner>) -> Result<Db> {
    Db::open(env, row::DATABASE, Method::Btree)
}
