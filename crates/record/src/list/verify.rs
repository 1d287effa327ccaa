//! Verification of a list: the checks of any B-tree, then checks that the counts are right and every entry is counted
//! once.

use std::collections::HashSet;

use libtp_lock::Mode;

use super::entries::{node_key, Entry, Head, Node, HEAD_KEY};
use super::find::check_list;
use crate::btree::descent::ROOT;
use crate::btree::verify::{Finding, Verified};
use crate::btree::BtreeCursor;
use crate::locking::{Access, Purpose};
use crate::Result;

/// Verifies a list. Locks the list so that no other transaction changes it until this transaction ends.
///
/// # Errors
/// A page cannot be read for a reason other than damage, or the database cannot be locked. Damage is no error, but a
/// finding in the result.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    check_list(access.database())?;
    access.lock_database(Mode::S)?;
    let mut result = crate::btree::verify::verify(access)?;
    if !result.findings.is_empty() {
        return Ok(result);
    }
    let mut counting = Counting { access, nodes: HashSet::new(), records: HashSet::new(), findings: Vec::new() };
    let head = counting.head()?;
    if head.root.get() != 0 {
        counting.node(head.root.get(), None, head.count.get())?;
    }
    counting.entries(&head)?;
    result.records = counting.records.len() as u64;
    result.findings = counting.findings.into_iter().map(|what| Finding { page: ROOT, what }).collect();
    Ok(result)
}

struct Counting<'v, 'a> {
    access: &'v Access<'a>,
    nodes: HashSet<u64>,
    records: HashSet<u64>,
    findings: Vec<String>,
}

impl Counting<'_, '_> {
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.access.enter(Purpose::Read)?;
        self.access.btree_get(key, (Purpose::Read, None), |_, _, _| {}, <[u8]>::to_vec)
    }

    fn head(&mut self) -> Result<Head> {
        let Some(bytes) = self.read(&HEAD_KEY)? else { return Ok(Head::new()) };
        Ok(Head::of(&bytes).unwrap_or_else(|| {
            self.findings.push("the list's head contradicts itself".into());
            Head::new()
        }))
    }

    /// Compares a node with the expected count and, if it is known, the expected level.
    fn node(&mut self, id: u64, level: Option<u8>, count: u64) -> Result<()> {
        if !self.nodes.insert(id) {
            self.findings
                .push(format!("node {id} of the list is a child twice: of two nodes, or of one node in two places"));
            return Ok(());
        }
        let Some(bytes) = self.read(&node_key(id))? else {
            self.findings.push(format!("node {id} of the list is missing"));
            return Ok(());
        };
        let Some(node) = Node::of(&bytes) else {
            self.findings.push(format!("node {id} of the list contradicts itself"));
            return Ok(());
        };
        if level.is_some_and(|level| level != node.level) {
            self.findings
                .push(format!("node {id} of the list has level {}, and another level was expected", node.level));
            return Ok(());
        }
        if node.count() != count {
            self.findings.push(format!(
                "node {id} of the list counts {} records, and the node above states {count}",
                node.count()
            ));
        }
        let most = Node::capacity(self.access.database().page_bytes(), node.level);
        if node.children.len() > most {
            self.findings.push(format!("node {id} of the list has {} children, more than {most}", node.children.len()));
        }
        for child in &node.children {
            match node.level.checked_sub(1) {
                Some(below) => self.node(child.id, Some(below), child.count)?,
                None if !self.records.insert(child.id) => {
                    self.findings.push(format!("the record with id {} has two numbers", child.id));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Checks that the tree has exactly the counted entries.
    fn entries(&mut self, head: &Head) -> Result<()> {
        let (mut nodes, mut records) = (0, 0);
        let mut cursor = BtreeCursor::new(*self.access).without_values();
        while cursor.move_next()? {
            let Some((key, _)) = cursor.record() else { break };
            let (is_known, id) = match Entry::of(key) {
                Some(Entry::Head | Entry::Text) => continue,
                Some(Entry::Node(id)) => (self.nodes.contains(&id), id),
                Some(Entry::Record(id)) => (self.records.contains(&id), id),
                None => {
                    self.findings.push(format!("a key of {} bytes is not a key of a list", key.len()));
                    continue;
                }
            };
            let kind = if matches!(Entry::of(key), Some(Entry::Node(_))) { "node" } else { "record" };
            match kind {
                "node" => nodes += 1,
                _ => records += 1,
            }
            if !is_known {
                self.findings.push(format!("no node of the list leads to the {kind} with id {id}"));
            }
            if id == 0 || id >= head.next_id.get() {
                self.findings.push(format!("the {kind} with id {id} has an id that the list has not yet assigned"));
            }
        }
        if nodes < self.nodes.len() || records < self.records.len() {
            let (few, many) = (records, self.records.len());
            self.findings.push(format!("the list counts {many} records, and only {few} of them exist"));
        }
        Ok(())
    }
}
