//! A list whose records are renumbered. Transactions read the whole list, and change single records.

use super::client::{Client, Problem};
use super::Runner;
use crate::library::{Edit, LINES};
use crate::oracle::{brief, Place, Table, Value};

/// The largest number of lines that one deletion removes, in a list of at least this number of lines. It is larger than
/// the number of lines of a node. In shorter lists, a deletion removes at most six lines.
const LINES_MOST: u64 = 150;

impl Runner {
    /// Reads the list and, unless the transaction only reads, changes it a few times.
    pub(super) fn line(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let place: Place = (Table::Tree(LINES), LINES.into());
        // Some transactions append before their first read. Then they hold an exclusive lock, so no other transaction
        // can change the lines that they read.
        let first = (!client.reads_only && self.ranges.chance(1, 4))
            .then(|| format!("t{}.{} first", client.number, client.left).into_bytes());
        if let Some(line) = &first {
            client.process.edit(client.txn(), &Edit::Append(line.clone()))?;
            let mut lines = lines_of(self.view(client, &place));
            lines.push(line.clone());
            keep(client, &place, &lines);
        }
        let found = client.process.get(client.txn(), &place)?;
        client.has_read(&place);
        let appended = first.as_ref().map_or(0, |line| line.len() + 1);
        let before = found.as_ref().map(|value| &value[..value.len().saturating_sub(appended)]);
        let before = before.filter(|value| !value.is_empty()).map(Value::from);
        client.seen = client.seen.max(self.writer_of(&place, before.as_ref()));
        if first.is_none() {
            self.check_value(client, &place, found.as_ref())?;
        } else if self.view(client, &place) != found.as_ref() && !self.plan.has_faults {
            let (found, wanted) = (brief(found.as_ref()), brief(self.view(client, &place)));
            return Err(Problem::Wrong(format!("WRONG: after an append the list has {found}, wanted {wanted}")));
        }
        // A transaction that only reads the list depends on all its records. Only its shared lock on the whole list
        // keeps other transactions from changing them.
        if client.reads_only || (first.is_none() && self.ranges.chance(2, 5)) {
            return Ok(());
        }
        let mut lines = lines_of(found.as_ref());
        let edits = if self.ranges.chance(1, 3) { 1 } else { 1 + self.ranges.below(20) };
        for _ in 0..edits {
            let edit = self.any_edit(client, lines.len() as u64);
            client.process.edit(client.txn(), &edit)?;
            let index = |number: u64| usize::try_from(number - 1).expect("there are few lines");
            match edit {
                Edit::Append(line) => lines.push(line),
                Edit::Insert(number, line) => lines.insert(index(number), line),
                Edit::Replace(number, line) => lines[index(number)] = line,
                Edit::Delete(first, end) => drop(lines.drain(index(first)..index(end))),
            }
            keep(client, &place, &lines);
        }
        Ok(())
    }

    fn any_edit(&mut self, client: &Client<'_>, count: u64) -> Edit {
        let bytes = if self.ranges.chance(1, 30) { 5000 } else { self.ranges.index(60) };
        let number = self.ranges.next_u64();
        let line = [format!("t{}.{}.{number:x}", client.number, client.left).into_bytes(), vec![b'.'; bytes]].concat();
        let at = 1 + self.ranges.below(count.max(1));
        // Large deletions, so that nodes are removed.
        let most = if count >= LINES_MOST { LINES_MOST } else { 6 };
        match self.ranges.below(12) {
            _ if count == 0 => Edit::Append(line),
            0 => Edit::Delete(at, (at + 1 + self.ranges.below(most)).min(count + 1)),
            1..=2 => Edit::Replace(at, line),
            3..=5 => Edit::Append(line),
            _ => Edit::Insert(at, line),
        }
    }
}

fn lines_of(value: Option<&Value>) -> Vec<Vec<u8>> {
    let lines = value.map(|value| value.split_inclusive(|&byte| byte == b'\n'));
    lines.into_iter().flatten().map(|line| line[..line.len() - 1].to_vec()).collect()
}

fn keep(client: &mut Client<'_>, place: &Place, lines: &[Vec<u8>]) {
    let value = lines.iter().flat_map(|line| [&line[..], b"\n"]).collect::<Vec<_>>().concat();
    client.effects.insert(place.clone(), (!lines.is_empty()).then(|| Value::from(value)));
}
