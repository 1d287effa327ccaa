//! Operations on ranges of keys, which are counted and deleted, and on keys with several values.

use std::ops::Bound;

use super::client::{Client, Problem};
use super::{Runner, ACCOUNTS};
use crate::library::{LISTS, SETS};
use crate::oracle::{Place, Table, Value};

/// Returns a place of the journal. The journal's keys are long, so that the inner pages have few children.
pub(super) fn journal(number: u64) -> Place {
    (Table::Tree("journal"), format!("journal/{}/{number:08}", "j".repeat(900)).into_bytes())
}

impl Runner {
    /// Works on a key with several values: reads and extends or deletes a list, or works on a set.
    pub(super) fn several(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let key = format!("key/{}", self.ranges.below(14)).into_bytes();
        if self.ranges.chance(1, 2) {
            let place = (Table::Tree(LISTS), key);
            let found = client.process.get(client.txn(), &place)?;
            client.has_read(&place);
            client.seen = client.seen.max(self.writer_of(&place, found.as_ref()));
            self.check_value(client, &place, found.as_ref())?;
            if self.ranges.chance(1, 8) {
                client.process.delete(client.txn(), &place)?;
                client.effects.insert(place, None);
                return Ok(());
            }
            let value = format!("t{}.{}", client.number, client.left).into_bytes();
            let bytes = if self.ranges.chance(1, 20) { 5000 } else { self.ranges.index(300) };
            let value = [value, vec![b'.'; bytes]].concat();
            client.process.put(client.txn(), &place, &value)?;
            let listed = [found.as_deref().unwrap_or_default(), &value, b"\n"].concat();
            client.effects.insert(place, Some(listed.into()));
            return Ok(());
        }
        let place = |value: u64| (Table::Tree(SETS), [&key[..], format!("|{value}").as_bytes()].concat());
        let any = place(self.ranges.below(20));
        match self.ranges.below(8) {
            0..=4 => {
                client.process.put(client.txn(), &any, b"")?;
                client.effects.insert(any, Some(Value::from(&b""[..])));
                Ok(())
            }
            5..=6 => {
                let was_there = client.process.delete(client.txn(), &any)?;
                self.check_there(client, &any, was_there)?;
                if was_there {
                    client.effects.insert(any, None);
                }
                Ok(())
            }
            _ => {
                let all: Vec<Place> = (0..20).map(place).filter(|one| self.view(client, one).is_some()).collect();
                let is_counted = self.ranges.chance(1, 2);
                let count = match is_counted {
                    true => client.process.count_values(client.txn(), SETS, &key)?,
                    false => client.process.delete_values(client.txn(), SETS, &key)?,
                };
                let whole = |end: &[u8]| (Table::Tree(SETS), [&key[..], end].concat());
                client.reads.push((whole(b"|"), Bound::Excluded(whole(b"}"))));
                if count != all.len() as u64 && !self.plan.has_faults {
                    let key = String::from_utf8_lossy(&key).into_owned();
                    return Err(Problem::Wrong(format!("WRONG: {key} has {count} values, wanted {}", all.len())));
                }
                if !is_counted {
                    client.effects.extend(all.into_iter().map(|place| (place, None)));
                }
                Ok(())
            }
        }
    }

    /// Counts or deletes a range of keys: a few neighbouring accounts, or the old part of the journal.
    pub(super) fn range(&mut self, client: &mut Client<'_>) -> Result<(), Problem> {
        let ((table, low), (_, high)) = match self.ranges.chance(1, 2) {
            true => (journal(0), journal(self.journal.saturating_sub(5 + self.ranges.below(60)))),
            false => {
                let first = self.ranges.index(ACCOUNTS);
                let name = |number: usize| format!("account/{number:04}").into_bytes();
                let table = Table::Tree("accounts");
                ((table, name(first)), (table, name(first + 1 + self.ranges.index(6))))
            }
        };
        let Table::Tree(tree) = table else { return Ok(()) };
        let (from, to) = ((table, low.clone()), (table, high.clone()));
        let mut there: Vec<Place> = self.history.last().records().range(&from..&to).map(|it| it.0.clone()).collect();
        there.retain(|place| client.effects.get(place).is_none_or(Option::is_some));
        let own = client.effects.range(&from..&to).filter(|(_, value)| value.is_some()).map(|it| it.0.clone());
        let own: Vec<Place> = own.filter(|place| !there.contains(place)).collect();
        there.extend(own);
        let is_counted = client.reads_only || self.ranges.chance(1, 3);
        let keys = &low[..]..&high[..];
        let count = match is_counted {
            true => client.process.count(client.txn(), tree, keys)?,
            false => client.process.delete_range(client.txn(), tree, keys)?,
        };
        client.reads.push((from, Bound::Excluded(to)));
        for place in &there {
            client.seen = client.seen.max(self.writers.get(place).copied().unwrap_or(0));
        }
        if count != there.len() as u64 && !self.plan.has_faults {
            let what = if is_counted { "counted" } else { "deleted" };
            let low = String::from_utf8_lossy(&low).into_owned();
            return Err(Problem::Wrong(format!("WRONG: {what} {count} of {tree} from {low}, wanted {}", there.len())));
        }
        if !is_counted {
            client.effects.extend(there.into_iter().map(|place| (place, None)));
        }
        Ok(())
    }
}
