//! Dependencies between transactions, and the cycles among them (Tarjan's strongly connected components).

use std::collections::VecDeque;
use std::fmt;

/// The reason why one transaction ("the first" below) comes before another transaction ("the second").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The second replaced a version that the first wrote.
    WriteWrite,
    /// The second read a version that the first wrote.
    WriteRead,
    /// The second replaced a version that the first read, or wrote a row that the first did not find.
    ReadWrite,
    /// The first had ended when the second began.
    RealTime,
}

/// The object of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A list.
    List(u32),
    /// A cell.
    Cell(u32),
    /// A row, by its element.
    Row(u64),
    /// No object: the real-time order.
    Clock,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    kind: Kind,
    object: Object,
}

/// The dependencies between transactions, which are numbered.
#[derive(Default)]
pub struct Graph {
    edges: Vec<Vec<Edge>>,
    count: usize,
}

/// A cycle of dependencies: no serial order of the transactions explains their reads.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// The dependencies: from each transaction to the next, and from the last to the first.
    steps: Vec<(u32, Kind, Object)>,
}

impl Cycle {
    /// Returns Adya's name for this kind of cycle, or "not strict" if the cycle needs the real-time order.
    pub fn name(&self) -> &'static str {
        let count = |kind| self.steps.iter().filter(|step| step.1 == kind).count();
        match (count(Kind::ReadWrite), count(Kind::WriteRead), count(Kind::RealTime)) {
            (_, _, 1..) => "not strict",
            (0, 0, 0) => "G0",
            (0, _, 0) => "G1c",
            (1, _, 0) => "G-single",
            _ => "G2",
        }
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name())?;
        for (from, kind, object) in &self.steps {
            let arrow = match kind {
                Kind::WriteWrite => "ww",
                Kind::WriteRead => "wr",
                Kind::ReadWrite => "rw",
                Kind::RealTime => "rt",
            };
            write!(f, " T{from} -{arrow} {object:?}->")?;
        }
        write!(f, " T{}", self.steps.first().map_or(0, |step| step.0))
    }
}

impl Graph {
    /// Makes a graph of `transactions` transactions.
    pub fn new(transactions: usize) -> Graph {
        Graph { edges: vec![Vec::new(); transactions], count: 0 }
    }

    /// Adds that `from` comes before `to`. A dependency of a transaction on itself is ignored.
    pub fn add(&mut self, from: usize, to: usize, kind: Kind, object: Object) {
        if from == to {
            return;
        }
        let to = u32::try_from(to).expect("histories have fewer than 2^32 transactions");
        let edges = &mut self.edges[from];
        // Ignores most repetitions: equal dependencies are usually added one after the other.
        if edges.last().is_some_and(|last| last.to == to && last.kind == kind && last.object == object) {
            return;
        }
        edges.push(Edge { to, kind, object });
        self.count += 1;
    }

    /// Returns the number of dependencies.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns one short cycle of each strongly connected component of more than one transaction.
    pub fn cycles(&self) -> Vec<Cycle> {
        self.components().iter().map(|component| self.shortest(component)).collect()
    }

    /// Returns the strongly connected components of more than one transaction. It does not recurse, because histories
    /// are long.
    fn components(&self) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.edges.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0u32; count]);
        let mut is_open = vec![false; count];
        let (mut open, mut components, mut next) = (Vec::new(), Vec::new(), 0u32);
        for root in 0..count {
            if index[root] != UNSEEN {
                continue;
            }
            let mut path: Vec<(usize, usize)> = vec![(root, 0)];
            while let Some((at, edge)) = path.last_mut() {
                let at = *at;
                if *edge == 0 {
                    (index[at], low[at], is_open[at]) = (next, next, true);
                    next += 1;
                    open.push(at);
                }
                if let Some(follow) = self.edges[at].get(*edge) {
                    *edge += 1;
                    let to = follow.to as usize;
                    if index[to] == UNSEEN {
                        path.push((to, 0));
                    } else if is_open[to] {
                        low[at] = low[at].min(index[to]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent] = low[*parent].min(low[at]);
                }
                if low[at] == index[at] {
                    let start = open.iter().rposition(|&one| one == at).expect("each open transaction is on the stack");
                    let component: Vec<usize> = open.split_off(start);
                    component.iter().for_each(|&one| is_open[one] = false);
                    if component.len() > 1 {
                        components.push(
                            component.into_iter().map(|one| u32::try_from(one).expect("`add` checks it")).collect(),
                        );
                    }
                }
            }
        }
        components
    }

    /// Returns a shortest cycle through the first transaction of a component.
    fn shortest(&self, component: &[u32]) -> Cycle {
        let start = *component.iter().min().expect("a component has two transactions or more");
        let members: std::collections::HashSet<u32> = component.iter().copied().collect();
        let mut came: std::collections::HashMap<u32, (u32, Edge)> = std::collections::HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for edge in self.edges[at as usize].iter().filter(|edge| members.contains(&edge.to)) {
                if edge.to == start {
                    let mut steps = vec![(at, edge.kind, edge.object)];
                    let mut here = at;
                    while here != start {
                        let (from, edge) = came[&here];
                        steps.push((from, edge.kind, edge.object));
                        here = from;
                    }
                    steps.reverse();
                    return Cycle { steps };
                }
                if let std::collections::hash_map::Entry::Vacant(free) = came.entry(edge.to) {
                    free.insert((at, *edge));
                    queue.push_back(edge.to);
                }
            }
        }
        unreachable!("every transaction of a component is on a cycle inside it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new(10);
        for &(from, to) in edges {
            graph.add(from, to, Kind::WriteWrite, Object::List(0));
        }
        graph
    }

    #[test]
    fn an_order_has_no_cycle() {
        assert!(graph(&[(0, 1), (1, 2), (0, 2), (3, 2), (2, 5), (5, 9)]).cycles().is_empty());
    }

    #[test]
    fn a_dependency_of_a_transaction_on_itself_is_no_cycle() {
        assert!(graph(&[(4, 4)]).cycles().is_empty());
    }

    #[test]
    fn each_strongly_connected_component_gives_one_shortest_cycle() {
        let cycles = graph(&[(0, 1), (1, 2), (2, 3), (3, 1), (2, 1), (3, 4), (6, 7), (7, 6), (4, 8)]).cycles();
        let mut lengths: Vec<usize> = cycles.iter().map(|cycle| cycle.steps.len()).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [2, 2]);
    }

    #[test]
    fn a_long_path_needs_no_deep_stack() {
        let mut graph = Graph::new(300_000);
        for at in 0..299_999 {
            graph.add(at, at + 1, Kind::ReadWrite, Object::Clock);
        }
        assert!(graph.cycles().is_empty());
        graph.add(299_999, 0, Kind::ReadWrite, Object::Clock);
        assert_eq!(graph.cycles()[0].steps.len(), 300_000);
    }
}
