//! The answers that the library must give: the committed state, with the transaction's own changes.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::client::{Client, Problem};
use super::Runner;
use crate::library::Way;
use crate::oracle::{brief, name, Effects, Place, State, Value};

impl Runner {
    /// Returns the number of the last commit that changed a place. Returns 0 if that commit did not store the found
    /// value: a doubtful commit may be missing, and then the reader does not depend on it.
    pub(super) fn writer_of(&self, place: &Place, found: Option<&Value>) -> usize {
        let number = self.writers.get(place).copied().unwrap_or(0);
        let effects = number.checked_sub(1).and_then(|at| self.history.effects().nth(at));
        let made = effects.and_then(|effects| effects.get(place));
        if made.is_some_and(|made| made.as_ref() == found) {
            number
        } else {
            0
        }
    }

    /// Returns the value that the transaction must see at `place`.
    pub(super) fn view<'v>(&'v self, client: &'v Client<'_>, place: &Place) -> Option<&'v Value> {
        match client.effects.get(place) {
            Some(own) => own.as_ref(),
            None => self.history.last().get(place),
        }
    }

    pub(super) fn check_there(
        &self,
        client: &Client<'_>,
        place: &Place,
        is_there: bool,
    ) -> Result<Option<Value>, Problem> {
        let wanted = self.view(client, place).cloned();
        if wanted.is_some() != is_there && !self.is_open_question(client, place, |value| value.is_some() == is_there) {
            let found = if is_there { "there" } else { "not there" };
            let what = format!("WRONG: {} is {found}, wanted {}", name(place), brief(wanted.as_ref()));
            return Err(Problem::Wrong(what));
        }
        Ok(if is_there == wanted.is_some() { wanted } else { None })
    }

    pub(super) fn check_value(&self, client: &Client<'_>, place: &Place, found: Option<&Value>) -> Result<(), Problem> {
        let wanted = self.view(client, place);
        if wanted != found && !self.is_open_question(client, place, |value| value.as_ref() == found) {
            let what = format!("WRONG: {} has {}, wanted {}", name(place), brief(found), brief(wanted));
            return Err(Problem::Wrong(what));
        }
        Ok(())
    }

    /// Returns whether the answer is allowed because the outcome of a commit is doubtful.
    pub(super) fn is_open_question(
        &self,
        client: &Client<'_>,
        place: &Place,
        fits: impl Fn(&Option<Value>) -> bool,
    ) -> bool {
        self.plan.has_faults
            && !client.effects.contains_key(place)
            && self.history.values_at(place, self.history.allowed_at_end()).iter().any(fits)
    }
}

/// Returns the records that a range read must find: the committed state, with the transaction's own changes.
pub(super) fn merged(committed: &State, own: &Effects, from: &Place, way: Way, limit: usize) -> Vec<(Vec<u8>, Value)> {
    let in_table = |place: &Place| place.0 == from.0;
    let (low, high) = match way {
        Way::Up => (Bound::Included(from), Bound::Unbounded),
        Way::Down => (Bound::Unbounded, Bound::Included(from)),
    };
    let mut records: BTreeMap<&[u8], &Value> = committed
        .records()
        .range::<Place, _>((low, high))
        .filter(|(place, _)| in_table(place))
        .map(|(place, value)| (&place.1[..], value))
        .collect();
    for (place, value) in own.range::<Place, _>((low, high)).filter(|(place, _)| in_table(place)) {
        match value {
            Some(value) => records.insert(&place.1, value),
            None => records.remove(&place.1[..]),
        };
    }
    let copy = |(key, value): (&&[u8], &&Value)| (key.to_vec(), Value::clone(value));
    match way {
        Way::Up => records.iter().take(limit).map(copy).collect(),
        Way::Down => records.iter().rev().take(limit).map(copy).collect(),
    }
}
