//! The parts and their connections, and the expected results of operations. They are the same in every run.
//!
//! Three connections leave each part. Nine in ten connections lead to a nearby part: a part whose id is among the
//! nearest one percent of all ids. The other connections lead to a random part (Cattell and Skeen 1992; LIBTP 5.2). Ids
//! begin with 1. The graph also has the parts of later inserts, in batches of a hundred, so that every contender
//! inserts the same parts.

use super::{Way, HOPS, INSERTED};
use crate::random::Random;

/// Number of connections that leave a part.
pub const CONNECTIONS: usize = 3;
/// Bytes of a part's record.
pub const PART_BYTES: usize = 30;
/// Bytes of a connection's record: target, type, length.
pub const CONNECTION_BYTES: usize = 18;
/// Percentage of connections that lead to nearby parts.
const NEAR_PERCENT: u32 = 90;
/// One part in `NEAR_ONE_IN` parts is nearby.
const NEAR_ONE_IN: u32 = 100;

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part's number, from 1.
    pub id: u32,
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) kind: [u8; 10],
    pub(crate) built: u64,
    /// The connections that leave the part.
    pub out: [Connection; CONNECTIONS],
}

/// A connection that leaves a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The id of the part that the connection leads to.
    pub to: u32,
    pub(crate) kind: [u8; 10],
    pub(crate) length: u32,
}

/// A visited part: the arguments of the null procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitedPart {
    /// The part's id.
    pub id: u32,
    /// The part's x coordinate.
    pub x: u32,
    /// The part's y coordinate.
    pub y: u32,
}

/// The number and the checksum of the visited parts. The checksum does not depend on the order of the visits, and
/// includes a part as often as it was visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of visits.
    pub count: u64,
    sum: u64,
}

/// All parts, including the parts of later inserts.
pub struct Graph {
    parts: Vec<Part>,
    /// For each part, the connections that lead to it. A connection is given by the part that it leaves, and by its
    /// number among that part's connections.
    into: Vec<Vec<(u32, u8)>>,
}

impl Graph {
    /// Makes `parts` parts to load, and after them `batches` batches of [`INSERTED`] parts to insert.
    pub fn make(parts: u32, batches: u32) -> Graph {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut graph = Graph { parts: Vec::new(), into: Vec::new() };
        let all = parts + batches * INSERTED;
        graph.into.resize(1 + all as usize, Vec::new());
        for id in 1..=all {
            // The connections of a part can lead to the parts of the same batch, and to all earlier parts.
            let known = if id <= parts { parts } else { parts + (id - parts).div_ceil(INSERTED) * INSERTED };
            let part = random.part(id, known);
            for (nth, connection) in (0..).zip(&part.out) {
                graph.into[connection.to as usize].push((id, nth));
            }
            graph.parts.push(part);
        }
        graph
    }

    /// Returns the part with this id.
    ///
    /// # Panics
    /// If the graph has no part with this id.
    pub fn part(&self, id: u32) -> &Part {
        &self.parts[id as usize - 1]
    }

    /// Returns the connections into a part: for each connection the part that it leaves, and its number among that
    /// part's connections.
    pub fn into_part(&self, id: u32) -> &[(u32, u8)] {
        &self.into[id as usize]
    }

    /// Returns the greatest id, which the last part to be inserted has.
    pub fn last(&self) -> u32 {
        u32::try_from(self.parts.len()).expect("ids have 32 bits")
    }

    /// Returns the expected result of a lookup.
    pub fn looked_up(&self, ids: &[u32]) -> Seen {
        let mut seen = Seen::default();
        ids.iter().for_each(|id| seen.see(self.part(*id).glance()));
        seen
    }

    /// Returns the expected result of a traversal in a database with the parts up to `last`.
    pub fn traversed(&self, root: u32, way: Way, last: u32) -> Seen {
        let mut seen = Seen::default();
        self.follow(root, HOPS, way, last, &mut seen);
        seen
    }

    fn follow(&self, id: u32, hops: u32, way: Way, last: u32, seen: &mut Seen) {
        seen.see(self.part(id).glance());
        if hops == 0 {
            return;
        }
        match way {
            Way::Forward => self.part(id).out.iter().for_each(|to| self.follow(to.to, hops - 1, way, last, seen)),
            Way::Backward => {
                let from = self.into_part(id).iter().filter(|(from, _)| *from <= last);
                from.for_each(|(from, _)| self.follow(*from, hops - 1, way, last, seen));
            }
        }
    }
}

impl Part {
    /// Returns the part as a record.
    pub fn to_bytes(&self) -> [u8; PART_BYTES] {
        let mut bytes = [0; PART_BYTES];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.x.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.y.to_le_bytes());
        bytes[12..22].copy_from_slice(&self.kind);
        bytes[22..].copy_from_slice(&self.built.to_le_bytes());
        bytes
    }

    fn glance(&self) -> VisitedPart {
        VisitedPart { id: self.id, x: self.x, y: self.y }
    }
}

impl Connection {
    /// Returns the connection as a record.
    pub fn to_bytes(&self) -> [u8; CONNECTION_BYTES] {
        let mut bytes = [0; CONNECTION_BYTES];
        bytes[..4].copy_from_slice(&self.to.to_le_bytes());
        bytes[4..14].copy_from_slice(&self.kind);
        bytes[14..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }
}

impl VisitedPart {
    /// Decodes a record that begins with a part. Returns `None` if the record is too short.
    #[inline]
    pub fn of(record: &[u8]) -> Option<VisitedPart> {
        let record: &[u8; 12] = record.first_chunk()?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *record;
        Some(VisitedPart {
            id: u32::from_le_bytes([a, b, c, d]),
            x: u32::from_le_bytes([e, f, g, h]),
            y: u32::from_le_bytes([i, j, k, l]),
        })
    }
}

impl Seen {
    /// Counts a visited part.
    #[inline]
    pub fn see(&mut self, part: VisitedPart) {
        self.count += 1;
        let place = u64::from(part.x) ^ u64::from(part.y).rotate_left(20);
        let whole = ((u64::from(part.id) << 32) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(whole ^ (whole >> 29));
    }
}

impl Random {
    fn kind(&mut self) -> [u8; 10] {
        let mut kind = *b"part-type0";
        kind[9] += u8::try_from(self.below(10)).expect("a digit is below ten");
        kind
    }

    fn part(&mut self, id: u32, known: u32) -> Part {
        let out = [(); CONNECTIONS].map(|()| {
            let to = if self.below(100) < NEAR_PERCENT { self.near(id, known) } else { 1 + self.below(known) };
            Connection { to, kind: self.kind(), length: self.below(1000) }
        });
        let (x, y) = (self.below(100_000), self.below(100_000));
        Part { id, x, y, kind: self.kind(), built: 700_000_000 + u64::from(self.below(300_000_000)), out }
    }

    /// Returns a random nearby part. Near the smallest and the greatest id there are fewer parts to choose from.
    fn near(&mut self, id: u32, known: u32) -> u32 {
        let distance = (known / NEAR_ONE_IN / 2).max(1);
        let (first, last) = (id.saturating_sub(distance).max(1), (id + distance).min(known));
        first + self.below(last - first + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oo1::TRAVERSED;

    #[test]
    fn nine_in_ten_connections_lead_to_nearby_parts_and_none_leads_to_a_later_batch() {
        let graph = Graph::make(20_000, 2);
        assert_eq!(graph.last(), 20_200);
        let mut near = 0;
        for id in 1..=graph.last() {
            let known = if id <= 20_000 { 20_000 } else { 20_000 + (id - 20_000).div_ceil(100) * 100 };
            for to in graph.part(id).out {
                assert!((1..=known).contains(&to.to), "{id} to {}", to.to);
                near += u32::from(to.to.abs_diff(id) <= known / 200);
            }
        }
        // Of the connections that lead to a random part, one in a hundred leads to a nearby part by chance.
        let percent = f64::from(near) / 3.0 / f64::from(graph.last()) * 100.0;
        assert!((89.5..90.7).contains(&percent), "{percent} %");
    }

    #[test]
    fn a_forward_traversal_visits_3280_parts_and_a_backward_traversal_visits_the_parts_that_lead_to_the_root() {
        let graph = Graph::make(1000, 1);
        assert_eq!(graph.traversed(500, Way::Forward, 1000).count, TRAVERSED);
        let before = graph.traversed(500, Way::Backward, 1000);
        assert!(before.count > 1);
        let with_all = graph.traversed(500, Way::Backward, graph.last());
        assert!(with_all.count >= before.count);
        assert_ne!(graph.traversed(501, Way::Forward, 1000), graph.traversed(500, Way::Forward, 1000));
        let all: usize = (1..=graph.last()).map(|id| graph.into_part(id).len()).sum();
        assert_eq!(all, 3 * 1100);
    }

    #[test]
    fn a_part_s_record_decodes_to_the_part() {
        let graph = Graph::make(10, 0);
        let part = graph.part(7);
        assert_eq!(VisitedPart::of(&part.to_bytes()), Some(part.glance()));
        assert_eq!(VisitedPart::of(&part.to_bytes()[..11]), None);
        assert_eq!(part.out[2].to_bytes()[..4], part.out[2].to.to_le_bytes());
    }
}
