//! The names and contents of a whole simulated disk at one moment; cheap to fork.
//!
//! Nodes are numbered in the order of their making and never renumbered, so a file keeps its identity through a crash.
//! A node whose name is lost stays in the list, but cannot be reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::content::Content;
use crate::node::NodeId;
use crate::trace::Change;

type Names = Arc<BTreeMap<Arc<str>, NodeId>>;

#[derive(Debug, Clone)]
enum Node {
    File(Content),
    Directory(Names),
}

/// Everything on a disk.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// Makes a disk with nothing on it.
    pub(crate) fn empty() -> Tree {
        Tree { nodes: vec![Node::Directory(Names::default())] }
    }

    /// Returns the number of the next new node.
    pub(crate) fn next_node(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).expect("no test makes four billion files"))
    }

    pub(crate) fn content(&self, file: NodeId) -> &Content {
        match &self.nodes[file.index()] {
            Node::File(content) => content,
            Node::Directory(_) => panic!("node {} is a directory, not a file", file.0),
        }
    }

    pub(crate) fn content_mut(&mut self, file: NodeId) -> &mut Content {
        match &mut self.nodes[file.index()] {
            Node::File(content) => content,
            Node::Directory(_) => panic!("node {} is a directory, not a file", file.0),
        }
    }

    pub(crate) fn names(&self, directory: NodeId) -> &BTreeMap<Arc<str>, NodeId> {
        match &self.nodes[directory.index()] {
            Node::Directory(names) => names,
            Node::File(_) => panic!("node {} is a file, not a directory", directory.0),
        }
    }

    fn names_mut(&mut self, directory: NodeId) -> &mut BTreeMap<Arc<str>, NodeId> {
        match &mut self.nodes[directory.index()] {
            Node::Directory(names) => Arc::make_mut(names),
            Node::File(_) => panic!("node {} is a file, not a directory", directory.0),
        }
    }

    pub(crate) fn is_directory(&self, node: NodeId) -> bool {
        matches!(self.nodes[node.index()], Node::Directory(_))
    }

    /// Finds a file by its path from the root.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        path.split('/').try_fold(NodeId::ROOT, |at, name| {
            if self.is_directory(at) {
                self.names(at).get(name).copied()
            } else {
                None
            }
        })
    }

    /// Copies one node from another state of the same disk.
    pub(crate) fn take_node(&mut self, node: NodeId, from: &Tree) {
        self.nodes[node.index()] = from.nodes[node.index()].clone();
    }

    /// Makes the node of a creation. The node cannot be reached until its name exists.
    pub(crate) fn make_node(&mut self, change: &Change) {
        let (made, node) = match change {
            Change::CreateFile { file, .. } => (*file, Node::File(Content::default())),
            Change::CreateDirectory { made, .. } => (*made, Node::Directory(Names::default())),
            _ => return,
        };
        assert_eq!(made, self.next_node(), "nodes are made in the order of their numbers");
        self.nodes.push(node);
    }

    /// Applies a change to the state that processes see. The node of a creation must exist. A sync changes nothing
    /// visible.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, offset, bytes, .. } | Change::Damage { file, offset, bytes } => {
                self.content_mut(*file).write(bytes, *offset);
            }
            Change::SetLen { file, bytes } => self.content_mut(*file).set_len(*bytes),
            Change::Allocate { file, range } => self.content_mut(*file).allocate(range),
            Change::CreateFile { directory, name, file: node }
            | Change::CreateDirectory { directory, name, made: node }
            | Change::Link { directory, name, node } => {
                self.names_mut(*directory).insert(name.clone(), *node);
            }
            Change::Rename { directory, from, to, node } => {
                let names = self.names_mut(*directory);
                // After a failed sync the disk may lack the name, or the name may lead to another node.
                if names.get(from) == Some(node) {
                    names.remove(from);
                }
                names.insert(to.clone(), *node);
            }
            Change::Remove { directory, name, node } => {
                let names = self.names_mut(*directory);
                if names.get(name) == Some(node) {
                    names.remove(name);
                }
            }
            Change::Sync { .. } | Change::SyncDirectory { .. } | Change::SyncFailed { .. } => {}
        }
    }

    /// Counts the blocks taken by the files that have a name.
    pub(crate) fn blocks_used(&self) -> usize {
        self.reachable()
            .iter()
            .zip(&self.nodes)
            .map(|(named, node)| match node {
                Node::File(content) if *named => content.blocks_used(),
                _ => 0,
            })
            .sum()
    }

    /// Empties the nodes without a name, because after a crash no handle has them open.
    pub(crate) fn forget_unnamed(&mut self) {
        for (named, node) in self.reachable().into_iter().zip(&mut self.nodes) {
            if !named {
                *node = Node::File(Content::default());
            }
        }
    }

    fn reachable(&self) -> Vec<bool> {
        let mut named = vec![false; self.nodes.len()];
        let mut found = vec![NodeId::ROOT];
        while let Some(node) = found.pop() {
            if std::mem::replace(&mut named[node.index()], true) || !self.is_directory(node) {
                continue;
            }
            found.extend(self.names(node).values());
        }
        named
    }
}
