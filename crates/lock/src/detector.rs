//! Deadlocks: finding circles of waiting lockers, and choosing victims.
//!
//! Paper: LIBTP 4.1: "a distinguished process monitors the lock table, searching for cycles. When a cycle is detected,
//! one of the transactions in the cycle is nominated and aborted." Departures: no process is distinguished. The search
//! is a role (PROTOCOLS D5). A session takes it after a long wait, or at once if its conversion of a lock waits for
//! another session's conversion of the same lock. By default the search follows only the session's own wait; with
//! [`Detect::Every`] it covers the whole table once in each period, as in the paper.
//!
//! Why a circle that was seen twice is a deadlock. Each wait has a number. If the search reads all waits of a circle
//! one after the other, and then reads all of them again with the same numbers, all these waits lasted at the moment
//! between the two readings. During one wait, a locker's held locks do not change, and neither do the waiters before it
//! in the queue. The blockers of the wait can change in only one way: the holder releases the lock, and another locker
//! overtakes (`overtake.rs`). So the second reading also checks the blockers. Therefore the circle existed at that
//! moment, and only a member that gives up its wait ends the circle.
//!
//! If we die here: another session takes the role over; a victim that was already chosen reads the choice in its own
//! slot.
//!
//! If we are stopped here: another session takes the role over too, so two sessions may search at once when this
//! session continues. The role only saves work. Each search has its own view, and stores only numbers of waits in the
//! slots of lockers, which have no effect on a wait with another number. At worst two members of one circle become
//! victims, or a victim is chosen twice.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use libtp_process::{boot_micros, Session, SessionId};
use rio::failpoint;

use crate::table::Role;
use crate::wait::HELP_AFTER;
use crate::waits_for::SeenWait;
use crate::{Detect, Edge, LockManager, LockerId, Result, Victim};

/// A circle of lockers that wait for each other, and its victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each member waits for the next member's lock, and the last member for the first member's lock.
    pub members: Vec<Edge>,
    /// The victim: the locker that must end its wait.
    pub victim: LockerId,
    /// Whether an earlier search had chosen the victim, and the victim has not ended its wait yet.
    pub was_known: bool,
}

/// The view of one search.
#[derive(Default)]
pub(crate) struct Search {
    /// By locker: its wait, or `None` if it does not wait or is going to end its wait.
    pub(crate) seen: HashMap<u32, Option<SeenWait>>,
    /// Lockers from which no circle can be reached.
    clear: HashSet<u32>,
    found: Vec<Deadlock>,
}

impl Search {
    /// Returns the number of the locker's wait, as the search has seen it.
    fn number(&self, locker: u32) -> Option<u32> {
        self.seen.get(&locker)?.as_ref().map(|seen| seen.number)
    }
}

impl LockManager {
    /// Searches the whole table for deadlocks and resolves them: the paper's periodic detector. Returns the number of
    /// lockers that were chosen as victims; zero while another session is searching.
    ///
    /// # Errors
    /// No error at present. A later version may return an error if a search lacks resources.
    pub fn detect(&self, session: &Session) -> Result<usize> {
        let found = self.find_deadlocks(session).unwrap_or_default();
        Ok(found.iter().filter(|deadlock| !deadlock.was_known).count())
    }

    /// As [`LockManager::detect`], but returns the deadlocks; `None` while another session is searching.
    pub fn find_deadlocks(&self, session: &Session) -> Option<Vec<Deadlock>> {
        self.table.header.searched_micros.publish(boot_micros());
        self.search(session, self.lockers(), true)
    }

    /// Searches at once, for a locker that finds itself in a deadlock before it waits.
    pub(crate) fn search_at_once(&self, session: &Session, locker: LockerId) {
        if matches!(self.settings.detect, Detect::OnWait(_)) {
            // If another session is searching now, this locker searches later, after a wait.
            self.search(session, locker.0..=locker.0, false);
        }
    }

    /// Searches if a search is due, for a waiter that was not woken for some time.
    pub(crate) fn search_when_due(&self, session: &Session, locker: LockerId, waited: Duration) {
        match self.settings.detect {
            Detect::OnWait(patience) if waited >= patience => {
                self.search(session, locker.0..=locker.0, waited >= HELP_AFTER);
            }
            Detect::OnWait(_) => {}
            Detect::Every(period) => {
                let (last, now) = (self.table.header.searched_micros.load(), boot_micros());
                let due = u128::from(now.abs_diff(last)) >= period.as_micros();
                if due && self.table.header.searched_micros.compare_exchange(last, now).is_ok() {
                    self.search(session, self.lockers(), true);
                }
            }
        }
    }

    /// Searches for circles that the waits of the lockers `starts` lead to, unless another session is searching. With
    /// `is_suspect`, checks whether that other session lives and runs.
    fn search(
        &self,
        session: &Session,
        starts: std::ops::RangeInclusive<u32>,
        is_suspect: bool,
    ) -> Option<Vec<Deadlock>> {
        let word = &self.table.header.detector;
        if word.load() != SessionId::NONE && !is_suspect {
            return None;
        }
        let role = Role::take_from_stopped(word, session)?;
        let mut search = Search::default();
        for start in starts {
            while let Some(circle) = self.find_circle(session, &mut search, start) {
                self.resolve(session, &mut search, &circle);
            }
        }
        role.give_back();
        Some(search.found)
    }

    /// Follows waits from a locker, depth first. Returns the lockers of a circle, each waiting for the next.
    pub(crate) fn find_circle(&self, session: &Session, search: &mut Search, start: u32) -> Option<Vec<u32>> {
        // Each step: a locker, and how many of its blockers have been followed.
        let mut path: Vec<(u32, usize)> = vec![(start, 0)];
        while let Some(&mut (locker, ref mut followed)) = path.last_mut() {
            let seen = search.seen.entry(locker).or_insert_with(|| self.seen_wait(session, locker));
            let next = seen.as_ref().and_then(|seen| seen.blockers.get(*followed)).copied();
            *followed += 1;
            match next {
                None => {
                    search.clear.insert(locker);
                    path.pop();
                }
                Some(next) if search.clear.contains(&next) => {}
                Some(next) => {
                    if let Some(at) = path.iter().position(|&(locker, _)| locker == next) {
                        return Some(path[at..].iter().map(|&(locker, _)| locker).collect());
                    }
                    path.push((next, 0));
                }
            }
        }
        None
    }

    /// Reads the waits of a circle again, and if the circle still exists, chooses a victim. Afterwards the search
    /// treats at least one member as not waiting, so it does not find the circle again.
    pub(crate) fn resolve(&self, session: &Session, search: &mut Search, circle: &[u32]) {
        if let Some(chosen) = self.look_again(session, search, circle) {
            self.choose_victim(session, search, circle, &chosen);
        }
    }

    /// Reads the waits of a circle again. Returns the members that an earlier search has chosen as victims; `None` for
    /// a circle that no longer exists. The chosen members are read before the second reading: a victim that ends its
    /// wait resets its word, and a search that read the word only after that would choose a second victim.
    fn look_again(&self, session: &Session, search: &mut Search, circle: &[u32]) -> Option<Vec<u32>> {
        let was_chosen = |&locker: &u32| Some(self.table.locker(locker).victim.load()) == search.number(locker);
        let chosen = circle.iter().copied().filter(was_chosen).collect();
        for (&locker, next) in circle.iter().zip(circle.iter().cycle().skip(1)) {
            let now = self.seen_wait(session, locker).filter(|now| now.blockers.contains(next));
            if now.is_none() || now.map(|now| now.number) != search.number(locker) {
                search.seen.insert(locker, None);
                return None;
            }
        }
        Some(chosen)
    }

    /// Chooses a victim, unless an earlier search has chosen a member that will end its wait.
    fn choose_victim(&self, session: &Session, search: &mut Search, circle: &[u32], chosen: &[u32]) {
        let mut candidates = circle.to_vec();
        if let Some(&locker) = chosen.first() {
            // A stopped victim cannot end its wait (PROTOCOLS D9): then another member becomes the victim, if one runs.
            candidates.retain(|&other| !self.is_stopped(other));
            let is_any_chosen = candidates.iter().any(|other| chosen.contains(other));
            if !self.is_stopped(locker) || candidates.is_empty() || is_any_chosen {
                self.keep_found(search, circle, locker, true);
                return;
            }
        }
        let victim = self.choose(&candidates);
        let slot = self.table.locker(victim);
        for &other in circle.iter().filter(|&&other| other != victim) {
            self.table.locker(other).spared.publish(search.number(other).unwrap_or(0));
        }
        failpoint("lock: victim chosen, not notified");
        slot.victim.publish(search.number(victim).unwrap_or(0));
        session.wake(slot.session.load());
        self.table.header.deadlock_count.fetch_add(1);
        tracing::debug!(circle = ?circle, victim, "deadlock");
        self.keep_found(search, circle, victim, false);
    }

    /// Adds a circle to the search's findings, and notes its victim as not waiting.
    fn keep_found(&self, search: &mut Search, circle: &[u32], victim: u32, was_known: bool) {
        let next = circle.iter().cycle().skip(1);
        let members = circle.iter().zip(next).filter_map(|(&waiter, &holder)| {
            let seen = search.seen.get(&waiter)?.as_ref()?;
            let session = self.table.locker(waiter).session.load();
            let (waiter, holder) = (LockerId(waiter), LockerId(holder));
            Some(Edge { waiter, session, holder, name: seen.name, wanted: seen.wanted })
        });
        let members = members.collect();
        search.found.push(Deadlock { members, victim: LockerId(victim), was_known });
        search.seen.insert(victim, None);
    }

    fn is_stopped(&self, locker: u32) -> bool {
        self.processes.is_stopped(self.table.locker(locker).session.load())
    }

    /// Returns the victim of a circle: the locker with the least cost according to the setting, and the youngest locker
    /// if several have the least cost.
    fn choose(&self, circle: &[u32]) -> u32 {
        let age = |locker: u32| (Reverse(self.table.locker(locker).birth.load()), Reverse(locker));
        let chosen = circle.iter().copied().min_by_key(|&locker| {
            let slot = self.table.locker(locker);
            let cost = match self.settings.victim {
                Victim::Youngest => 0,
                Victim::FewestLocks => u64::from(slot.count.load()),
                Victim::FewestLogBytes => slot.log_bytes.load(),
            };
            (cost, age(locker))
        });
        chosen.expect("a circle has lockers")
    }
}

#[cfg(test)]
mod tests {
    use super::Search;
    use crate::scene::{Scene, NAME};
    use crate::{LockName, Mode::X};

    #[test]
    fn a_victim_that_ended_its_wait_after_the_second_look_is_not_counted_twice() {
        let scene = Scene::default();
        let (locks, session) = (&scene.locks, &scene.session);
        let other = LockName { hash: 8, ..NAME };
        for (locker, name) in [(0, NAME), (1, other)] {
            locks.try_lock(session, scene.lockers[locker], name, X).unwrap();
        }
        scene.wait_for(0, other, X);
        scene.wait_for(1, NAME, X);
        let [one, victim] = [scene.lockers[0].0, scene.lockers[1].0];
        assert_eq!(locks.detect(session).unwrap(), 1);
        let mut search = Search::default();
        let circle = locks.find_circle(session, &mut search, one).expect("both lockers still wait");
        let chosen = locks.look_again(session, &mut search, &circle).expect("both lockers still wait");
        assert!(locks.table.locker(victim).was_victim(), "the locker was chosen as the victim");
        locks.choose_victim(session, &mut search, &circle, &chosen);
        assert_eq!(locks.stats().deadlocks, 1);
    }
}
