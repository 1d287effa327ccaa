//! The parts and connections in the order of each index's keys: the order in which engines load fastest.

use std::ops::Range;

use super::{Connection, Graph, Part};

/// Returns the parts by id.
pub(crate) fn parts(graph: &Graph, ids: Range<u32>) -> impl Iterator<Item = &Part> {
    ids.map(move |id| graph.part(id))
}

/// Returns the connections, each with the part that it leaves and its number among the part's connections.
pub(crate) fn leaving(graph: &Graph, ids: Range<u32>) -> impl Iterator<Item = (u32, u8, &Connection)> {
    ids.flat_map(move |id| (0..).zip(&graph.part(id).out).map(move |(nth, connection)| (id, nth, connection)))
}

/// Returns the connections between these parts, each with the part that it leads to, the part that it leaves, and its
/// number among that part's connections.
pub(crate) fn arriving(graph: &Graph, ids: Range<u32>) -> impl Iterator<Item = (u32, u32, u8)> + '_ {
    ids.clone().flat_map(move |id| {
        let (all, ids) = (graph.into_part(id), ids.clone());
        all.iter().filter(move |(from, _)| ids.contains(from)).map(move |(from, nth)| (id, *from, *nth))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oo1::CONNECTIONS;

    #[test]
    fn parts_and_connections_are_complete_and_sorted() {
        let graph = Graph::make(500, 1);
        let to: Vec<_> = arriving(&graph, 1..501).collect();
        assert!(to.is_sorted());
        assert_eq!(to.len(), 500 * CONNECTIONS, "only the connections of these parts are included");
        assert!(leaving(&graph, 1..501).map(|(id, nth, _)| (id, nth)).is_sorted());
        assert!(parts(&graph, 1..501).map(|part| part.id).is_sorted());
    }
}
