//! What a workload did, and whether a state found later is one it allows.
//!
//! The oracle knows, for every commit, its effects, the I/O index before it was asked for and the one after it was
//! answered. Of a crash image it asks three things (RELIABILITY R1, PROTOCOLS L4, L5): everything that had been answered
//! as durable is there; nothing is there that had not been asked for yet; and what is there is the work of the first so
//! many commits, whole, in the order of their log records.
//!
//! Invariants
//! 1. Commits are listed in the order of their log records: one thread makes them all.
//! 2. A doubtful commit (its call failed half way) may be there or not; any other answer is certain.

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
/// What a transaction did: new values, and none for what it deleted.
pub type Effects = BTreeMap<Place, Option<Value>>;

/// Every record of every database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    records: BTreeMap<Place, Value>,
    digest: u128,
}

impl State {
    /// The records, in order.
    pub fn records(&self) -> &BTreeMap<Place, Value> {
        &self.records
    }

    /// The value at `place`.
    pub fn get(&self, place: &Place) -> Option<&Value> {
        self.records.get(place)
    }

    /// A sum over all records: equal states have equal digests, and others hardly ever.
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

    /// Carries out a transaction.
    pub fn apply(&mut self, effects: &Effects) {
        for (place, value) in effects {
            self.put(place, value.as_ref());
        }
    }

    /// Says in a few lines where `found` differs from this state.
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

/// A place in words.
pub fn name(place: &Place) -> String {
    match place {
        (Table::Tree(tree), key) => format!("{tree}/{}", String::from_utf8_lossy(key)),
        (Table::Cells, number) => format!("cells/{}", cell_number(number)),
    }
}

/// A value in words: how long it is, and its first bytes, which name the transaction that wrote it.
pub fn brief(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => {
            let head: String = value.iter().take(12).map(|byte| char::from(*byte)).collect();
            format!("{} bytes {:?}", value.len(), head)
        }
    }
}

/// The place of a cell.
pub fn cell(number: u64) -> Place {
    (Table::Cells, number.to_be_bytes().to_vec())
}

/// The record number of a cell's place.
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

/// A commit that was asked for.
#[derive(Clone, Debug)]
pub struct Commit {
    /// What it did.
    pub effects: Effects,
    /// The I/O index before the call: no earlier I/O can have anything to do with it.
    pub begun: usize,
    /// Whether the call failed in a way that leaves open what became of it.
    pub is_doubtful: bool,
}

/// A promise: from this I/O index on, so many commits are safe from everything.
#[derive(Clone, Copy, Debug)]
struct Promise {
    from: usize,
    commits: usize,
}

/// What a workload did.
#[derive(Clone, Debug, Default)]
pub struct History {
    commits: Vec<Commit>,
    /// The digest after the first so many commits.
    digests: Vec<u128>,
    promises: Vec<Promise>,
    last: State,
}

/// A stretch of a workload, from an I/O index on, and its history: after a restart that lost commits nobody had been
/// promised, those belong to the past.
#[derive(Clone, Debug)]
pub struct Era {
    /// The first I/O index of the era.
    pub from: usize,
    /// What was done in it and before.
    pub history: History,
}

/// The states a place in a workload allows: those after `least..=most` commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// So many commits must be there.
    pub least: usize,
    /// More cannot.
    pub most: usize,
}

impl History {
    /// Nothing done yet.
    pub fn new() -> History {
        History { digests: vec![0], ..History::default() }
    }

    /// How many commits were asked for.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Whether nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// The state after all commits, doubtful ones included.
    pub fn last(&self) -> &State {
        &self.last
    }

    /// The history of a machine on which the first `commits` commits are there, durable from I/O index `from` on.
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

    /// What the commits did, in order.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &Effects> {
        self.commits.iter().map(|commit| &commit.effects)
    }

    /// Notes a commit that was asked for when the disk had seen `begun` changes; returns how many there are now.
    pub fn commit(&mut self, effects: Effects, begun: usize, is_doubtful: bool) -> usize {
        self.last.apply(&effects);
        self.digests.push(self.last.digest());
        self.commits.push(Commit { effects, begun, is_doubtful });
        self.commits.len()
    }

    /// Notes that the first `commits` commits were answered for, when the disk had seen `from` changes.
    pub fn promise(&mut self, from: usize, commits: usize) {
        let kept = self.promises.last().map_or(0, |promise| promise.commits);
        if commits > kept {
            self.promises.push(Promise { from, commits });
        }
    }

    /// Withdraws the doubt of the last of so many commits: it was seen and answered for. What was doubtful before it may have
    /// ended without a commit record, in a life of the environment that is over.
    pub fn settle(&mut self, commits: usize) {
        if let Some(seen) = commits.checked_sub(1) {
            self.commits[seen].is_doubtful = false;
        }
    }

    /// What a crash after the first `position` changes may leave.
    pub fn allowed_at(&self, position: usize) -> Allowed {
        let kept = self.promises.partition_point(|promise| promise.from <= position);
        let least = kept.checked_sub(1).map_or(0, |last| self.promises[last].commits);
        let most = self.commits.partition_point(|commit| commit.begun < position);
        Allowed { least, most: most.max(least) }
    }

    /// What an orderly end leaves: everything that was not doubtful.
    pub fn allowed_at_end(&self) -> Allowed {
        Allowed { least: self.len(), most: self.len() }
    }

    /// The state after the first `commits` commits.
    pub fn state_after(&self, commits: usize) -> State {
        let mut state = State::default();
        self.commits[..commits].iter().for_each(|commit| state.apply(&commit.effects));
        state
    }

    /// Every value every place has in the allowed states, for places that were ever written.
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

    /// Every value a place has in the allowed states, nothing included.
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

    /// Returns after how many commits the state found is the right one, none if it is right but for doubtful commits that
    /// are missing.
    ///
    /// # Errors
    /// What is lost, or there and should not be.
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

    /// Whether the state found is an allowed one when some doubtful commits are left out.
    fn fits_without_doubtful(&self, found: &State, allowed: Allowed) -> bool {
        let doubtful: Vec<usize> = (0..allowed.most).filter(|&at| self.commits[at].is_doubtful).collect();
        // Runs with faults end soon after the first doubt.
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
            let what =
                if at < least { "LOST: acknowledged commits are gone" } else { "commits from the future are there" };
            return format!("{what}: the state is that after {at} commits, allowed are {least} to {most}");
        }
        let nearest = (least..=most).min_by_key(|&at| distance(&self.state_after(at), found)).unwrap_or(least);
        let wanted = self.state_after(nearest);
        format!(
            "WRONG: the state is none after {least} to {most} commits; nearest is {nearest}: {}",
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
    fn what_was_promised_must_be_there_and_what_had_not_begun_cannot() {
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
        assert_eq!(history.judge(&gap, allowed), Ok(Some(3)), "the third commit took `a` away again");
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
        // Who sees the third has not seen the second.
        history.settle(3);
        assert!(history.judge(&without, history.allowed_at(9)).is_ok());
        history.settle(2);
        assert!(history.judge(&without, history.allowed_at(9)).is_err());
    }

    #[test]
    fn the_digest_does_not_depend_on_the_way() {
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
