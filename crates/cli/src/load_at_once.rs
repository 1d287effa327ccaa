//! A dump loaded all at once into a B-tree that is empty.
//!
//! A dump is mostly in the order of its keys. Where it can be read twice that is taken for granted and, if it is wrong, the
//! dump is read again and sorted; else it is sorted at once, which costs nothing much where it is sorted.

use libtp::{Load, LoadWatch, Pair};

use crate::command_load::{Arguments, Source, Target};
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Why a load came to no end.
enum Stopped {
    /// The dump is wrong.
    Dump(Failure),
    /// The library's reason.
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

/// Loads the dump; how many records the database has then. None if it cannot be loaded at once, because the database is of
/// another kind or not empty: then nothing was read.
pub fn load_at_once(target: &Target, arguments: &Arguments, source: &mut Source, shown: bool) -> Result<Option<u64>> {
    let is_tree = match target {
        Target::Pairs(db) => !db.is_hash(),
        Target::Several(_) => true,
        Target::Recno(_) | Target::List(_) => false,
    };
    if !is_tree {
        return Ok(None);
    }
    let is_sorted = !arguments.unsorted && Source::is_file(arguments);
    let loaded = match load(target, arguments, source, is_sorted, shown) {
        Err(Stopped::Library(libtp::Error::OutOfOrder { .. })) => {
            *source = Source::open(arguments)?;
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
    let watch: &mut LoadWatch<'_> = &mut |what, done, total| {
        if total != 0 && !is_read {
            is_read = true;
            bar = Progress::count(shown, what, total);
        }
        bar.set(if is_read { done } else { read.get() });
    };
    let pairs = std::iter::from_fn(|| next_pair(source).transpose());
    match target {
        Target::Pairs(db) => db.try_load(&how, pairs, watch),
        Target::Several(multi) => multi.try_load(&how, pairs, watch),
        Target::Recno(_) | Target::List(_) => Ok(0),
    }
}

/// The next pair; behind the last one, the dump has to end.
fn next_pair(source: &mut Source) -> std::result::Result<Option<Pair>, Stopped> {
    match source.reader.next_pair().map_err(|error| source.wrong(&error))? {
        Some((key, value)) => Ok(Some((key.unwrap_or_default(), value))),
        None => {
            source.check_end()?;
            Ok(None)
        }
    }
}
