//! The traversal of a contender that finds a part's neighbours by an index: seven hops, depth first.

use super::{VisitedPart, Way, HOPS};
use crate::error::Result;

/// A read-only transaction of a contender.
pub(crate) trait Look {
    /// Reads the part with this id.
    fn part(&mut self, id: u32) -> Result<VisitedPart>;

    /// Appends the parts at the other ends of a part's connections in direction `way`.
    fn neighbours(&mut self, id: u32, way: Way, ids: &mut Vec<u32>) -> Result<()>;
}

/// Visits all parts within [`HOPS`] connections of `root`.
pub(crate) fn depth_first(look: &mut impl Look, root: u32, way: Way, seen: &mut dyn FnMut(VisitedPart)) -> Result<()> {
    follow(look, root, HOPS, way, &mut Vec::new(), seen)
}

/// Visits a part, and all parts within `hops` connections of it. `path` has the neighbours of each part on the path
/// from the root.
fn follow(
    look: &mut impl Look,
    id: u32,
    hops: u32,
    way: Way,
    path: &mut Vec<u32>,
    seen: &mut dyn FnMut(VisitedPart),
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
