//! Seven hops, depth first, over any contender that finds the neighbours of a part by an index.

use super::{Glance, Way, HOPS};
use crate::error::Result;

/// A read-only transaction of a contender.
pub(super) trait Look {
    /// The part with this id.
    fn part(&mut self, id: u32) -> Result<Glance>;

    /// Appends the parts that connections of a part lead to, or come from.
    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()>;
}

/// Visits what is [`HOPS`] or fewer connections away.
pub(super) fn depth_first(look: &mut impl Look, root: u32, way: Way, seen: &mut dyn FnMut(Glance)) -> Result<()> {
    follow(look, root, HOPS, way, &mut Vec::new(), seen)
}

/// `path` has the neighbours of each part on the way that are still to be visited.
fn follow(
    look: &mut impl Look,
    id: u32,
    hops: u32,
    way: Way,
    path: &mut Vec<u32>,
    seen: &mut dyn FnMut(Glance),
) -> Result<()> {
    seen(look.part(id)?);
    if hops == 0 {
        return Ok(());
    }
    let begin = path.len();
    look.neighbours(id, way, path)?;
    for at in begin..path.len() {
        follow(look, path[at], hops - 1, way, path, seen)?;
    }
    path.truncate(begin);
    Ok(())
}
