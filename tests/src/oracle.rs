//! The history of a workload, and the check whether the history allows a state that is found later.
//!
//! For every commit, the oracle knows the effects, the I/O index before the request and the I/O index after the
//! answer. It checks three rules about a crash image (PROTOCOLS L4, L5). Every commit that was answered as durable is
//! there. No commit that was requested after the crash's I/O index is there. The state has all effects of the first N
//! commits, in the order of their log records, and no other effects.
//!
//! Invariants
//! 1. Commits are listed in the order of their log records: one thread makes them all.
//! 2. A doubtful commit (its call failed half way) may be there or not; the outcome of every other commit is known.

use std::collections::hash_map::DefaultHasher;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A database of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// A B-tree.
    Tree(&'static str),
    /// The record-number file; keys are record numbers, big-endian.
    Cells,
}

/// A key of a database.
pub type Place = (Table, Vec<u8>);
/// A record's bytes.
pub type Value = Arc<[u8]>;
/// A transaction's effects: new values, and `None` for deleted records.
pub type Effects = BTreeMap<Place, Option<Value>>;

/// Every record of every database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    records: BTreeMap<Place, Value>,
    digest: u128,
}

impl State {
    /// Returns the records, in order.
    pub fn records(&self) -> &BTreeMap<Place, Value> {
        &self.records
    }

    /// Returns the value at `place`.
    pub fn get(&self, place: &Place) -> Option<&Value> {
        self.records.get(place)
    }

    /// Returns a sum over all records: equal states have equal digests, and different states almost never do.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Sets or removes one record.
    pub fn put(&mut self, place: &Place, value: Option<&Value>) {
        let old = match value {
            Some(value) => self.records.insert(place.clone(), Arc::clone(value)),
            None => self.records.remove(place),
        };
        if let Some(old) = old {
            self.digest = self.digest.wrapping_sub(digest_of(place, &old));
        }
        if let Some(value) = value {
            self.digest = self.digest.wrapping_add(digest_of(place, value));
        }
    }

    /// Applies a transaction's effects.
    pub fn apply(&mut self, effects: &Effects) {
        for (place, value) in effects {
            self.put(place, value.as_ref());
        }
    }

    /// Describes, for up to five records, how `found` differs from this state.
    pub fn difference(&self, found: &State) -> String {
        let mut lines = Vec::new();
        let mut count = 0;
        let places = self.records.keys().chain(found.records.keys().filter(|place| !self.records.contains_key(*place)));
        for place in places {
            let (wanted, there) = (self.get(place), found.get(place));
            if wanted != there {
                count += 1;
                if lines.len() < 5 {
                    lines.push(format!("{}: wanted {}, found {}", name(place), brief(wanted), brief(there)));
                }
            }
        }
        format!("{count} records differ; {}", lines.join("; "))
    }
}

/// Returns the name of a place, for messages.
pub fn name(place: &Place) -> String {
    match place {
        (Table::Tree(tree), key) => format!("{tree}/{}", String::from_utf8_lossy(key)),
        (Table::Cells, number) => format!("cells/{}", cell_number(number)),
    }
}

/// Describes a value for messages: its length and its first bytes, which name the transaction that wrote it.
pub fn brief(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => {
            let head: String = value.iter().take(12).map(|byte| char::from(*byte)).collect();
            format!("{} bytes {:?}", value.len(), head)
        }
    }
}

/// Returns the place of a cell.
pub fn cell(number: u64) -> Place {
    (Table::Cells, number.to_be_bytes().to_vec())
}

/// Returns the record number of a cell's place.
pub fn cell_number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

fn digest_of(place: &Place, value: &[u8]) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, place, value).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}

/// A requested commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its effects.
    pub effects: Effects,
    /// The I/O index before the call: no earlier I/O belongs to the commit.
    pub begun: usize,
    /// Whether the call failed, so that the commit may or may not be there.
    pub is_doubtful: bool,
}

/// A promise: from I/O index `from` on, the first `commits` commits are durable.
#[derive(Clone, Copy, Debug)]
struct Promise {
    from: usize,
    commits: usize,
}

/// The history of a workload.
#[derive(Clone, Debug, Default)]
pub struct History {
    commits: Vec<Commit>,
    /// The digest after the first N commits, at index N.
    digests: Vec<u128>,
    promises: Vec<Promise>,
    last: State,
}

/// A part of a workload that begins at an I/O index, and its history. If a restart lost commits that were not promised
/// to be durable, the restart begins a new era, and the era's history lacks these commits.
#[derive(Clone, Debug)]
pub struct Era {
    /// The first I/O index of the era.
    pub from: usize,
    /// The history up to the end of this era.
    pub history: History,
}

/// The states that are allowed at a place in a workload: the states after `least..=most` commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The number of commits that must be there.
    pub least: usize,
    /// The number of commits that may be there.
    pub most: usize,
}

impl History {
    /// Returns an empty history.
    pub fn new() -> History {
        History { digests: vec![0], ..History::default() }
    }

    /// Returns the number of requested commits.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Returns whether nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Returns the state after all commits, including doubtful commits.
    pub fn last(&self) -> &State {
        &self.last
    }

    /// Returns the history of a machine after a restart that found the first `commits` commits. They are durable from
    /// the I/O index `from` on.
    #[must_use]
    pub fn resumed(&self, commits: usize, from: usize) -> History {
        let kept =
            self.commits[..commits].iter().map(|commit| Commit { begun: 0, is_doubtful: false, ..commit.clone() });
        History {
            commits: kept.collect(),
            digests: self.digests[..=commits].to_vec(),
            promises: vec![Promise { from, commits }],
            last: self.state_after(commits),
        }
    }

    /// Returns the effects of the commits, in order.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &Effects> {
        self.commits.iter().map(|commit| &commit.effects)
    }

    /// Records a commit that was requested when the disk had seen `begun` changes; returns the number of commits.
    pub fn commit(&mut self, effects: Effects, begun: usize, is_doubtful: bool) -> usize {
        self.last.apply(&effects);
        self.digests.push(self.last.digest());
        self.commits.push(Commit { effects, begun, is_doubtful });
        self.commits.len()
    }

    /// Records that the first `commits` commits were answered as durable when the disk had seen `from` changes.
    pub fn promise(&mut self, from: usize, commits: usize) {
        let kept = self.promises.last().map_or(0, |promise| promise.commits);
        if commits > kept {
            self.promises.push(Promise { from, commits });
        }
    }

    /// Marks commit number `commits` as certain, because its effects were read and the reader was answered. Earlier
    /// doubtful commits stay doubtful: they may have ended without a commit record, before an earlier restart.
    pub fn settle(&mut self, commits: usize) {
        if let Some(seen) = commits.checked_sub(1) {
            self.commits[seen].is_doubtful = false;
        }
    }

    /// Returns the states that a crash after the first `position` changes may leave.
    pub fn allowed_at(&self, position: usize) -> Allowed {
        let kept = self.promises.partition_point(|promise| promise.from <= position);
        let least = kept.checked_sub(1).map_or(0, |last| self.promises[last].commits);
        let most = self.commits.partition_point(|commit| commit.begun < position);
        Allowed { least, most: most.max(least) }
    }

    /// Returns the states that an orderly end may leave: those after all commits. Doubtful commits may be missing.
    pub fn allowed_at_end(&self) -> Allowed {
        Allowed { least: self.len(), most: self.len() }
    }

    /// Returns the state after the first `commits` commits.
    pub fn state_after(&self, commits: usize) -> State {
        let mut state = State::default();
        self.commits[..commits].iter().for_each(|commit| state.apply(&commit.effects));
        state
    }

    /// For each place that was ever written, returns every value that the place has in the allowed states.
    pub fn all_values(&self, allowed: Allowed) -> BTreeMap<Place, Vec<Option<Value>>> {
        let mut values: BTreeMap<Place, Vec<Option<Value>>> = BTreeMap::new();
        for (at, commit) in self.commits.iter().enumerate() {
            for (place, new) in &commit.effects {
                let seen = values.entry(place.clone()).or_insert_with(|| vec![None]);
                if at < allowed.least && !commit.is_doubtful {
                    seen.clear();
                }
                if at < allowed.most {
                    seen.push(new.clone());
                }
            }
        }
        values
    }

    /// Returns every value that a place has in the allowed states, including no value.
    pub fn values_at(&self, place: &Place, allowed: Allowed) -> Vec<Option<Value>> {
        let mut value = None;
        let mut values = Vec::new();
        for (at, commit) in self.commits[..allowed.most].iter().enumerate() {
            if at >= allowed.least || commit.is_doubtful {
                values.push(value.clone());
            }
            if let Some(new) = commit.effects.get(place) {
                value.clone_from(new);
            }
        }
        values.push(value);
        values.dedup();
        values
    }

    /// Returns the number of commits after which the history has the found state; `None` if the state lacks doubtful
    /// commits and is right otherwise.
    ///
    /// # Errors
    /// Describes a lost record, or a record that should not be there.
    pub fn judge(&self, found: &State, allowed: Allowed) -> Result<Option<usize>, String> {
        if let Some(at) = (allowed.least..=allowed.most).rev().find(|&at| self.digests[at] == found.digest()) {
            return Ok(Some(at));
        }
        let has_doubt = self.commits[..allowed.most].iter().any(|commit| commit.is_doubtful);
        if has_doubt && self.fits_without_doubtful(found, allowed) {
            return Ok(None);
        }
        Err(self.accusation(found, allowed))
    }

    /// Returns whether the found state is allowed if some doubtful commits are left out.
    fn fits_without_doubtful(&self, found: &State, allowed: Allowed) -> bool {
        let doubtful: Vec<usize> = (0..allowed.most).filter(|&at| self.commits[at].is_doubtful).collect();
        // Ten doubtful commits are enough: a run with faults ends soon after the first doubt.
        let subsets = 1_u64 << doubtful.len().min(10);
        (0..subsets).any(|left_out| {
            let mut state = State::default();
            for (at, commit) in self.commits[..allowed.most].iter().enumerate() {
                if at >= allowed.least && state.digest() == found.digest() {
                    return true;
                }
                let place = doubtful.iter().position(|&one| one == at);
                if place.is_none_or(|bit| left_out & (1 << bit) == 0) {
                    state.apply(&commit.effects);
                }
            }
            state.digest() == found.digest()
        })
    }

    fn accusation(&self, found: &State, allowed: Allowed) -> String {
        let Allowed { least, most } = allowed;
        if let Some(at) = (0..self.digests.len()).rev().find(|&at| self.digests[at] == found.digest()) {
            let what = if at < least { "LOST: acknowledged commits are gone" } else { "too many commits were found" };
            return format!("{what}: this is the state after {at} commits; allowed are {least} to {most}");
        }
        let nearest = (least..=most).min_by_key(|&at| distance(&self.state_after(at), found)).unwrap_or(least);
        let wanted = self.state_after(nearest);
        format!(
            "WRONG: this is no state after {least} to {most} commits; the most similar is after {nearest}: {}",
            wanted.difference(found)
        )
    }
}

fn distance(one: &State, other: &State) -> usize {
    let missing = one.records.iter().filter(|(place, value)| other.get(place) != Some(value)).count();
    missing + other.records.keys().filter(|place| one.get(place).is_none()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(key: &str, value: Option<&str>) -> Effects {
        let value = value.map(|value| Value::from(value.as_bytes()));
        Effects::from([((Table::Tree("t"), key.as_bytes().to_vec()), value)])
    }

    fn three_commits() -> History {
        let mut history = History::new();
        history.commit(effect("a", Some("1")), 10, false);
        history.promise(13, 1);
        history.commit(effect("b", Some("2")), 14, false);
        history.commit(effect("a", None), 16, false);
        history.promise(20, 3);
        history
    }

    #[test]
    fn a_promised_commit_must_be_there_and_a_commit_requested_after_the_crash_must_not() {
        let history = three_commits();
        assert_eq!(history.allowed_at(10), Allowed { least: 0, most: 0 });
        assert_eq!(history.allowed_at(11), Allowed { least: 0, most: 1 });
        assert_eq!(history.allowed_at(13), Allowed { least: 1, most: 1 });
        assert_eq!(history.allowed_at(19), Allowed { least: 1, most: 3 });
        assert_eq!(history.allowed_at(20), Allowed { least: 3, most: 3 });
    }

    #[test]
    fn a_prefix_is_right_and_a_gap_is_wrong() {
        let history = three_commits();
        let allowed = Allowed { least: 1, most: 3 };
        for commits in 1..=3 {
            assert_eq!(history.judge(&history.state_after(commits), allowed), Ok(Some(commits)));
        }
        let mut gap = State::default();
        gap.apply(&effect("b", Some("2")));
        assert_eq!(history.judge(&gap, allowed), Ok(Some(3)), "the third commit deletes `a`");
        let lost = history.judge(&State::default(), allowed).unwrap_err();
        assert!(lost.contains("LOST"), "{lost}");
        gap.apply(&effect("c", Some("3")));
        let wrong = history.judge(&gap, allowed).unwrap_err();
        assert!(wrong.contains("WRONG") && wrong.contains("t/c"), "{wrong}");
    }

    #[test]
    fn a_doubtful_commit_may_be_left_out_alone() {
        let mut history = History::new();
        history.commit(effect("a", Some("1")), 1, false);
        history.commit(effect("b", Some("2")), 2, true);
        history.commit(effect("c", Some("3")), 3, false);
        history.promise(9, 3);
        let mut without = history.state_after(1);
        without.apply(&effect("c", Some("3")));
        assert!(history.judge(&without, history.allowed_at(9)).is_ok());
        assert!(history.judge(&history.state_after(2), history.allowed_at(9)).is_err());
        // A reader that saw the third commit does not prove that the second commit is there.
        history.settle(3);
        assert!(history.judge(&without, history.allowed_at(9)).is_ok());
        history.settle(2);
        assert!(history.judge(&without, history.allowed_at(9)).is_err());
    }

    #[test]
    fn the_digest_depends_on_the_records_and_not_on_the_order_of_the_puts() {
        let mut one = State::default();
        one.apply(&effect("a", Some("1")));
        one.apply(&effect("b", Some("2")));
        one.apply(&effect("a", Some("3")));
        let mut other = State::default();
        other.apply(&effect("a", Some("3")));
        other.apply(&effect("b", Some("2")));
        assert_eq!(one.digest(), other.digest());
        other.apply(&effect("b", None));
        assert_ne!(one.digest(), other.digest());
    }
}
