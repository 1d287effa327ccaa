//! The remains of a damaged list, and the order in which salvage returns its records.
//!
//! A record's entry does not contain its number: the nodes define the order of records. If a node is lost, the order of
//! the records below it is partly lost. Salvage keeps the known order: the order of the nodes to which the head leads,
//! and below a lost node the order within each of its children. A record to which no node leads is placed after the
//! record with the next lower id. In a list that only grew at its end, that place is the record's true place.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::entries::{Head, Node};

/// The found entries of a list. If several entries with the same key were found, the last one is used.
#[derive(Default)]
pub struct Remains {
    root: Option<u64>,
    nodes: HashMap<u64, Node>,
    records: BTreeSet<u64>,
}

/// The records of a list in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The records' ids.
    pub ids: Vec<u64>,
    /// The number of records whose true place is unknown.
    pub guessed: u64,
}

impl Remains {
    /// Notes the head.
    pub fn head(&mut self, bytes: &[u8]) {
        self.root = Head::of(bytes).map(|head| head.root.get());
    }

    /// Notes a node. Ignores bytes that are no valid node.
    pub fn node(&mut self, id: u64, bytes: &[u8]) {
        if let Some(node) = Node::of(bytes) {
            self.nodes.insert(id, node);
        }
    }

    /// Notes a record.
    pub fn record(&mut self, id: u64) {
        self.records.insert(id);
    }

    /// Returns the order of the found records.
    pub fn order(&self) -> Order {
        let mut walk = Walk { remains: self, nodes: HashSet::new(), placed: BTreeSet::new() };
        let mut known = Vec::new();
        if let Some(root) = self.root {
            walk.below(root, None, &mut known);
        }
        // A piece is a run of records whose order is known but whose place in the list is not: the records below one
        // node to which no other node leads, or a single record to which no node leads. For each placed record, the map
        // has the pieces that come after it, sorted by the id of each piece's first record. Key 0 has the pieces that
        // come before all placed records.
        let mut after: BTreeMap<u64, BTreeMap<u64, Vec<u64>>> = BTreeMap::new();
        let in_place = walk.placed.clone();
        let mut put = |piece: Vec<u64>| {
            let Some(&first) = piece.first() else { return };
            let before = in_place.range(..first).next_back().copied().unwrap_or(0);
            after.entry(before).or_default().insert(first, piece);
        };
        for id in self.top_down() {
            let mut piece = Vec::new();
            walk.below(id, None, &mut piece);
            put(piece);
        }
        self.records.iter().filter(|id| !walk.placed.contains(id)).for_each(|id| put(vec![*id]));
        let mut order = Order { ids: Vec::with_capacity(self.records.len()), guessed: 0 };
        for id in std::iter::once(0).chain(known) {
            order.ids.extend((id != 0).then_some(id));
            let guessed = after.remove(&id).unwrap_or_default().into_values().flatten();
            let length = order.ids.len();
            order.ids.extend(guessed);
            order.guessed += (order.ids.len() - length) as u64;
        }
        order
    }

    /// Returns the nodes, highest level first.
    fn top_down(&self) -> Vec<u64> {
        let mut ids: Vec<_> = self.nodes.iter().map(|(id, node)| (std::cmp::Reverse(node.level), *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}

struct Walk<'r> {
    remains: &'r Remains,
    nodes: HashSet<u64>,
    placed: BTreeSet<u64>,
}

impl Walk<'_> {
    /// Appends, in order, those records below a node that were found and are not yet placed.
    fn below(&mut self, id: u64, level: Option<u8>, ids: &mut Vec<u64>) {
        let Some(node) = self.remains.nodes.get(&id) else { return };
        // The level of each child is one lower, so the recursion ends even for damaged nodes.
        if level.is_some_and(|level| level != node.level) || !self.nodes.insert(id) {
            return;
        }
        for child in &node.children {
            match node.level.checked_sub(1) {
                Some(lower) => self.below(child.id, Some(lower), ids),
                None if self.remains.records.contains(&child.id) && self.placed.insert(child.id) => ids.push(child.id),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::Child;
    use super::*;
    use zerocopy::IntoBytes;

    /// Returns records 1 to 9 in the order 1 2 3, 9 4 5, 6 7 8, under the leaves 11, 12 and 13 and the root 20.
    fn whole() -> Remains {
        let mut remains = Remains::default();
        remains.head(Head { next_id: 30.into(), count: 9.into(), root: 20.into(), ..Head::new() }.as_bytes());
        let leaf = |ids: [u64; 3]| Node { level: 0, children: ids.map(|id| Child { id, count: 1 }).to_vec() };
        remains.node(11, &leaf([1, 2, 3]).to_bytes());
        remains.node(12, &leaf([9, 4, 5]).to_bytes());
        remains.node(13, &leaf([6, 7, 8]).to_bytes());
        let children = [11, 12, 13].map(|id| Child { id, count: 3 }).to_vec();
        remains.node(20, &Node { level: 1, children }.to_bytes());
        (1..10).for_each(|id| remains.record(id));
        remains
    }

    fn order(remains: &Remains) -> (Vec<u64>, u64) {
        let order = remains.order();
        (order.ids, order.guessed)
    }

    #[test]
    fn the_records_of_an_undamaged_list_are_in_order() {
        assert_eq!(order(&whole()), (vec![1, 2, 3, 9, 4, 5, 6, 7, 8], 0));
    }

    #[test]
    fn records_of_a_lost_leaf_come_after_the_records_with_the_next_lower_ids() {
        let mut remains = whole();
        remains.nodes.remove(&13);
        assert_eq!(order(&remains), (vec![1, 2, 3, 9, 4, 5, 6, 7, 8], 3));
        let mut remains = whole();
        remains.nodes.remove(&12);
        assert_eq!(order(&remains), (vec![1, 2, 3, 4, 5, 6, 7, 8, 9], 3));
        let mut remains = whole();
        remains.nodes.remove(&11);
        assert_eq!(order(&remains), (vec![1, 2, 3, 9, 4, 5, 6, 7, 8], 3));
    }

    #[test]
    fn without_a_root_or_a_head_each_node_keeps_its_own_order() {
        let mut remains = whole();
        remains.nodes.remove(&20);
        assert_eq!(order(&remains), (vec![1, 2, 3, 6, 7, 8, 9, 4, 5], 9));
        let mut remains = whole();
        remains.root = None;
        assert_eq!(order(&remains), (vec![1, 2, 3, 9, 4, 5, 6, 7, 8], 9));
    }

    #[test]
    fn a_lost_record_is_left_out_and_a_record_in_two_nodes_comes_once() {
        let mut remains = whole();
        remains.records.remove(&4);
        assert_eq!(order(&remains), (vec![1, 2, 3, 9, 5, 6, 7, 8], 0));
        let children = [1, 6].map(|id| Child { id, count: 1 }).to_vec();
        remains.node(14, &Node { level: 0, children }.to_bytes());
        assert_eq!(order(&remains).0, [1, 2, 3, 9, 5, 6, 7, 8]);
    }

    #[test]
    fn nodes_that_lead_to_each_other_are_followed_once() {
        let mut remains = whole();
        let children = vec![Child { id: 20, count: 3 }, Child { id: 11, count: 3 }];
        remains.node(20, &Node { level: 1, children }.to_bytes());
        assert_eq!(order(&remains), (vec![1, 2, 3, 6, 7, 8, 9, 4, 5], 6));
    }
}
