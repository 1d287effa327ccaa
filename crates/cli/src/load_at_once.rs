//! Loads a dump all at once into an empty B-tree.
//!
//! Most dumps are in the order of their keys. The load assumes this order. If a key is out of order, the load reads the
//! dump again and sorts it.

use libtp::{Load, Watch};

use crate::dump_source::Source;
use crate::failure::{Failure, Result};
use crate::load_arguments::Arguments;
use crate::load_target::Target;
use crate::progress::Progress;

/// The reason why a load stopped.
enum Stopped {
    /// The dump cannot be read.
    Dump(Failure),
    /// The library returned an error.
    Library(libtp::Error),
}

impl From<libtp::Error> for Stopped {
    fn from(error: libtp::Error) -> Stopped {
        Stopped::Library(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Dump(failure)
    }
}

/// Loads the dump. Returns the number of records that the database then has. Returns `None`, and reads nothing, if the
/// dump cannot be loaded at once, because the database is not a B-tree, or is not empty.
pub fn load_at_once(target: &Target, arguments: &Arguments, source: &mut Source, shown: bool) -> Result<Option<u64>> {
    let is_tree = match target {
        Target::Pairs(db) => !db.is_hash(),
        Target::Several(_) => true,
        Target::Recno(_) | Target::List(_) => false,
    };
    if !is_tree {
        return Ok(None);
    }
    let loaded = match load(target, arguments, source, !arguments.unsorted, shown) {
        Err(Stopped::Library(libtp::Error::OutOfOrder { .. })) => {
            source.rewind()?;
            load(target, arguments, source, false, shown)
        }
        loaded => loaded,
    };
    match loaded {
        Ok(loaded) => Ok(Some(loaded)),
        Err(Stopped::Library(libtp::Error::NotEmpty { .. })) => Ok(None),
        Err(Stopped::Library(error)) => Err(Failure::Failed(format!("{error} (nothing was loaded)"))),
        Err(Stopped::Dump(failure)) => Err(Failure::Failed(format!("{failure} (nothing was loaded)"))),
    }
}

fn load(
    target: &Target,
    arguments: &Arguments,
    source: &mut Source,
    is_sorted: bool,
    shown: bool,
) -> std::result::Result<u64, Stopped> {
    let how = if is_sorted { Load::sorted() } else { Load::unsorted() }.fill_percent(arguments.fill);
    let (mut bar, read) = (source.progress(shown), source.read.clone());
    let mut is_read = false;
    let watch: &mut Watch<'_> = &mut |now| {
        if now.total != 0 && !is_read {
            is_read = true;
            bar = Progress::count(shown, now.step, now.total);
        }
        bar.set(if is_read { now.done } else { read.get() });
    };
    let pairs = std::iter::from_fn(|| source.next_pair().transpose());
    let pairs = pairs.map(|pair| pair.map(|(key, value)| (key.unwrap_or_default(), value)).map_err(Stopped::Dump));
    match target {
        Target::Pairs(db) => db.try_load(&how, pairs, watch),
        Target::Several(multi) => multi.try_load(&how, pairs, watch),
        Target::Recno(_) | Target::List(_) => Ok(0),
    }
}
