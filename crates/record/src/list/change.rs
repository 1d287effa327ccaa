//! Changes a list: one node of each level, from the bottom to the top, then the head.
//!
//! A node with too many children gives half of them to a new node on its right. If the surplus child is the newest
//! child and at the node's end, only this child moves. So a list that grows at its end has full nodes. A node without
//! children is dropped. A node with few children is joined with a neighbour if both together are at most half full.

use libtp_lock::Mode;
use rio::{failpoint, planted};
use zerocopy::IntoBytes;

use super::entries::{node_key, record_key, Child, Head, Node, TextNotes, HEAD_KEY, TEXT_KEY};
use super::find::{damaged, descend, head, node, stretch, text_note, Step};
use crate::lock_names;
use crate::locking::Access;
use crate::{Error, Result};

/// The kind of a change of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Insertion,
    Deletion,
}

/// The largest number of empty records that one call appends for missing numbers.
const FILL_MAX: u64 = 1 << 20;

impl Access<'_> {
    /// Reads a record as [`Access::list_get`], but locks it for writing.
    ///
    /// # Errors
    /// As [`Access::list_get`].
    pub fn list_get_for_update<R>(&self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let Some(id) = stretch(self, number)?.and_then(|stretch| stretch.id_of(number)) else { return Ok(None) };
        let found = self.get_for_update(&record_key(id), read)?;
        found.map(Some).ok_or_else(|| damaged(self.database(), format!("the record with id {id} is missing")))
    }

    /// Stores a record under a number: replaces the record there, or appends it after empty records for the missing
    /// numbers.
    ///
    /// # Errors
    /// [`Error::RecordNumber`] for 0 and for numbers far above the last; [`Error::DamagedList`], and errors of locks,
    /// log and pages. After an error the caller undoes the partial change.
    pub fn list_put(&self, number: u64, record: &[u8]) -> Result<()> {
        if number == 0 {
            return Err(self.no_number(number));
        }
        if let Some(id) = stretch(self, number)?.and_then(|stretch| stretch.id_of(number)) {
            return self.put(&record_key(id), record);
        }
        self.lock_numbers()?;
        // Another transaction may have changed the list before we had the lock.
        match stretch(self, number)?.and_then(|stretch| stretch.id_of(number)) {
            Some(id) => self.put(&record_key(id), record),
            None => self.list_insert(number, record).map(|_| ()),
        }
    }

    /// Inserts a record at a number. Records with this number and higher numbers get the next higher number. If the
    /// number is above the last, first appends empty records for the missing numbers.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_insert(&self, number: u64, record: &[u8]) -> Result<u64> {
        self.lock_numbers()?;
        let mut head = head(self)?;
        let count = head.count.get();
        if number == 0 || number - 1 > count.saturating_add(FILL_MAX) {
            return Err(self.no_number(number));
        }
        for _ in count..number - 1 {
            self.insert_at(&mut head, b"", None)?;
        }
        self.insert_at(&mut head, record, Some(number - 1))?;
        Ok(number)
    }

    /// Appends a record, and returns its number.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_append(&self, record: &[u8]) -> Result<u64> {
        self.lock_numbers()?;
        let mut head = head(self)?;
        self.insert_at(&mut head, record, None)?;
        Ok(head.count.get())
    }

    /// Removes a record. Later records get the next lower number. Returns false if there is no such record.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_delete(&self, number: u64) -> Result<bool> {
        let _freeing = self.pages.session().begin_freeing();
        self.lock_numbers()?;
        let mut head = head(self)?;
        let count = head.count.get();
        if number == 0 || number > count {
            return Ok(false);
        }
        let mut steps = descend(self, &head, number - 1)?;
        let Some(leaf) = steps.last_mut() else { return Ok(false) };
        let gone = leaf.node.children.remove(leaf.at);
        if !self.delete(&record_key(gone.id))? {
            return Err(damaged(self.database(), format!("the record with id {} is missing", gone.id)));
        }
        failpoint("list: record removed");
        head.count = (count - 1).into();
        self.climb(&mut head, steps, ChangeKind::Deletion)?;
        self.store_head(&head)?;
        Ok(true)
    }

    /// Locks the numbers of the list, that is, the whole database. A transaction that will insert or delete can call
    /// this before it reads: two transactions that read first can deadlock.
    ///
    /// # Errors
    /// The lock manager refused.
    pub fn list_lock(&self) -> Result<()> {
        self.lock_numbers()
    }

    /// Returns the notes on the list's text file. Until this transaction ends, no other transaction can read or change
    /// the list.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_text_note(&self) -> Result<Option<TextNotes>> {
        self.lock_numbers()?;
        text_note(self)
    }

    /// Stores the notes on the text file that has the list's records.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_set_text_note(&self, notes: TextNotes) -> Result<()> {
        self.lock_numbers()?;
        self.put(&TEXT_KEY, notes.as_bytes())
    }

    /// Makes the nodes and the head of a list whose records are already stored, in the order of `ids`. The list has no
    /// other records.
    ///
    /// # Errors
    /// As [`Access::list_put`].
    pub fn list_made_of(&self, ids: &[u64]) -> Result<()> {
        self.lock_numbers()?;
        let next_id = ids.iter().max().map_or(1, |highest| highest.saturating_add(1));
        let mut head = Head { next_id: next_id.into(), count: (ids.len() as u64).into(), ..Head::new() };
        let mut children: Vec<Child> = ids.iter().map(|id| Child { id: *id, count: 1 }).collect();
        let mut level = 0;
        while head.root.get() == 0 && !children.is_empty() {
            let mut above = Vec::new();
            for some in children.chunks(Node::capacity(self.database().page_bytes(), level)) {
                let node = Node { level, children: some.to_vec() };
                let id = head.take_id();
                self.store_node(id, &node)?;
                above.push(Child { id, count: node.count() });
            }
            if let [top] = above[..] {
                head.root = top.id.into();
            }
            children = above;
            level += 1;
        }
        self.store_head(&head)
    }

    #[cold]
    fn no_number(&self, number: u64) -> Error {
        Error::RecordNumber { database: self.database().name().to_string(), number }
    }

    /// Locks the numbers, that is, the whole database.
    fn lock_numbers(&self) -> Result<()> {
        let name = lock_names::database(self.database().id());
        if self.holds(name) == Some(Mode::X) || planted("list: renumbering takes no lock") {
            return Ok(());
        }
        self.lock_database(Mode::X)
    }

    /// Stores a new record after the first `index` records; after the last record if `index` is `None`.
    fn insert_at(&self, head: &mut Head, record: &[u8], index: Option<u64>) -> Result<()> {
        let count = head.count.get();
        let mut steps = descend(self, head, index.unwrap_or(count))?;
        let id = head.take_id();
        self.put(&record_key(id), record)?;
        failpoint("list: record stored");
        head.count = (count + 1).into();
        let new = Child { id, count: 1 };
        match steps.last_mut() {
            Some(leaf) => leaf.node.children.insert(leaf.at, new),
            None => {
                let root = head.take_id();
                head.root = root.into();
                steps.push(Step { id: root, node: Node { level: 0, children: vec![new] }, at: 0 });
            }
        }
        self.climb(head, steps, ChangeKind::Insertion)?;
        self.store_head(head)
    }

    fn store_head(&self, head: &Head) -> Result<()> {
        failpoint("list: about to store the head");
        self.put(&HEAD_KEY, head.as_bytes())
    }

    fn store_node(&self, id: u64, node: &Node) -> Result<()> {
        self.put(&node_key(id), &node.to_bytes())?;
        failpoint("list: node stored");
        Ok(())
    }

    fn drop_node(&self, id: u64) -> Result<()> {
        if !self.delete(&node_key(id))? {
            return Err(damaged(self.database(), format!("node {id} is missing")));
        }
        failpoint("list: node dropped");
        Ok(())
    }

    /// Stores the nodes of a path whose last node was changed. Each node gets the new count of the child on the path.
    fn climb(&self, head: &mut Head, mut steps: Vec<Step>, after: ChangeKind) -> Result<()> {
        while let Some(mut step) = steps.pop() {
            let Some(above) = steps.last_mut() else { return self.store_root(head, step) };
            if step.node.children.is_empty() {
                self.drop_node(step.id)?;
                above.node.children.remove(above.at);
                continue;
            }
            if after == ChangeKind::Deletion && self.join(&step, above)? {
                continue;
            }
            let right = self.split(head, &mut step)?;
            self.store_node(step.id, &step.node)?;
            if !planted("list: the parent's count is not changed") {
                above.node.children[above.at].count = step.node.count();
            }
            if let Some(right) = right {
                above.at += 1;
                above.node.children.insert(above.at, right);
            }
        }
        Ok(())
    }

    /// Stores the root, or the node that becomes the root in its place.
    fn store_root(&self, head: &mut Head, mut step: Step) -> Result<()> {
        if let Some(right) = self.split(head, &mut step)? {
            self.store_node(step.id, &step.node)?;
            let left = Child { id: step.id, count: step.node.count() };
            let root = head.take_id();
            head.root = root.into();
            return self.store_node(root, &Node { level: step.node.level + 1, children: vec![left, right] });
        }
        let mut is_stored = true;
        loop {
            let only = match step.node.children.as_slice() {
                [] => 0,
                [only] if step.node.level > 0 => only.id,
                // An unchanged node needs no store.
                _ if !is_stored => return Ok(()),
                _ => return self.store_node(step.id, &step.node),
            };
            self.drop_node(step.id)?;
            head.root = only.into();
            if only == 0 {
                return Ok(());
            }
            step = Step { id: only, node: node(self, only)?, at: 0 };
            is_stored = false;
        }
    }

    /// Moves a node's surplus children to a new node on its right.
    fn split(&self, head: &mut Head, step: &mut Step) -> Result<Option<Child>> {
        let (count, node) = (step.node.children.len(), &mut step.node);
        if count <= Node::capacity(self.database().page_bytes(), node.level) {
            return Ok(None);
        }
        let keeps = if step.at + 1 == count { count - 1 } else { count / 2 };
        let right = Node { level: node.level, children: node.children.split_off(keeps) };
        let id = head.take_id();
        self.store_node(id, &right)?;
        Ok(Some(Child { id, count: right.count() }))
    }

    /// Joins a node that has few children with a neighbour, if both together are at most half full. Returns whether
    /// they were joined.
    fn join(&self, step: &Step, above: &mut Step) -> Result<bool> {
        let capacity = Node::capacity(self.database().page_bytes(), step.node.level);
        if step.node.children.len() > capacity / 4 || above.node.children.len() < 2 {
            return Ok(false);
        }
        let left_at = if above.at + 1 < above.node.children.len() { above.at } else { above.at - 1 };
        let neighbour_at = if left_at == above.at { above.at + 1 } else { left_at };
        let neighbour_id = above.node.children[neighbour_at].id;
        let neighbour = node(self, neighbour_id)?;
        if step.node.children.len() + neighbour.children.len() > capacity / 2 {
            return Ok(false);
        }
        let own = Step { id: step.id, node: step.node.clone(), at: 0 };
        let neighbour = Step { id: neighbour_id, node: neighbour, at: 0 };
        let (mut left, right) = if left_at == above.at { (own, neighbour) } else { (neighbour, own) };
        left.node.children.extend(right.node.children);
        self.store_node(left.id, &left.node)?;
        self.drop_node(right.id)?;
        above.node.children.remove(left_at + 1);
        above.node.children[left_at] = Child { id: left.id, count: left.node.count() };
        above.at = left_at;
        Ok(true)
    }
}
