//! A search, breadth first, through every order of the actors' steps and every death.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::steps::{begin, dead_actor, kill, step};
use crate::world::{word_of, Bug, Pc, World, ACTORS, LAST_REAPER, LOCKERS, NAMES};
use crate::Scripts;

/// The outcome of a search.
pub(crate) enum SearchResult {
    /// Every path ends well.
    Nothing { states: usize },
    /// A shortest path to a failure.
    Failure { failure: String, path: Vec<String> },
}

/// A state's predecessor, and the step from there.
struct Origin {
    from: u32,
    actor: u8,
    pc: Pc,
    is_death: bool,
}

/// Makes every step from every state that can be reached, with up to `deaths` deaths.
pub(crate) fn explore(scripts: &Scripts, bug: Option<Bug>, deaths: u8) -> SearchResult {
    let mut first = World::new();
    begin(&mut first, scripts);
    let mut seen = HashSet::from([fingerprint(&first)]);
    let mut origins = vec![Origin { from: 0, actor: 0, pc: Pc::End, is_death: false }];
    let mut frontier = vec![(0_u32, first)];
    while !frontier.is_empty() {
        let mut next_frontier = Vec::new();
        for (number, world) in frontier {
            let mut can_step = false;
            for actor in 0..ACTORS {
                let pc = world.actors[actor].pc;
                let mut stepped = world.clone();
                let mut successors = Vec::new();
                if step(&mut stepped, actor, bug, scripts) {
                    can_step = true;
                    successors.push((stepped, false));
                }
                if may_die(&world, actor) && world.deaths < deaths {
                    let mut died = world.clone();
                    kill(&mut died, actor);
                    successors.push((died, true));
                }
                for (successor, is_death) in successors {
                    if !seen.insert(fingerprint(&successor)) {
                        continue;
                    }
                    let at = u32::try_from(origins.len()).expect("fewer than 2^32 states");
                    origins.push(Origin { from: number, actor: actor as u8, pc, is_death });
                    if let Some(failure) = failure(&successor) {
                        return SearchResult::Failure { failure, path: path(&origins, at) };
                    }
                    next_frontier.push((at, successor));
                }
            }
            if !can_step {
                if let Some(failure) = failure_at_end(&world) {
                    return SearchResult::Failure { failure, path: path(&origins, number) };
                }
            }
        }
        frontier = next_frontier;
    }
    SearchResult::Nothing { states: origins.len() }
}

/// Returns two sums of the state, so that two different states practically never have the same fingerprint.
fn fingerprint(world: &World) -> u128 {
    let mut sums = Sums(1, 2);
    world.hash(&mut sums);
    u128::from(sums.0) << 64 | u128::from(sums.1)
}

/// A hasher that is quicker than the standard library's.
struct Sums(u64, u64);

impl Sums {
    fn add(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.1 = (self.1.rotate_left(23) ^ value).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(31);
    }
}

impl Hasher for Sums {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.add(u64::from(byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.add(value as u64);
    }
}

fn may_die(world: &World, actor: usize) -> bool {
    let is_idle = matches!(world.actors[actor].pc, Pc::End | Pc::Reap) && world.actors[actor].images.is_empty();
    actor != LAST_REAPER && !world.actors[actor].is_dead && !is_idle
}

/// Returns the state's failure. No state may have one.
fn failure(world: &World) -> Option<String> {
    for name in 0..NAMES {
        for one in 0..LOCKERS {
            for other in one + 1..LOCKERS {
                if let (Some(held), Some(beside)) = (world.relied[one][name], world.relied[other][name]) {
                    if held.conflicts(beside) {
                        return Some(format!("two holders of name {name}: {held:?}, {beside:?}"));
                    }
                }
            }
        }
    }
    if world.is_instant_wrong {
        return Some("an instant lock is granted while another locker holds the name".into());
    }
    // The queues are checked as a repair would find them.
    let mut repaired = world.clone();
    (0..ACTORS).for_each(|actor| repaired.roll_back(actor));
    let is_hidden = |&name: &usize| !repaired.queues[name].is_empty() && !repaired.words[word_of(name as u8)].fat;
    (0..NAMES).find(is_hidden).map(|name| format!("name {name} has a queue, and its word is not FAT"))
}

/// Returns the failure of a state in which no actor can make a step.
fn failure_at_end(world: &World) -> Option<String> {
    let waiter = world.actors.iter().position(|actor| !actor.is_dead && !matches!(actor.pc, Pc::End | Pc::Reap));
    if let Some(waiter) = waiter {
        return Some(format!("actor {waiter} waits for ever"));
    }
    if let Some(dead) = dead_actor(world) {
        return Some(format!("dead actor {dead} is not repaired"));
    }
    if let Some(word) = world.words.iter().position(|word| word.place != 0) {
        return Some(format!("word {word} has an owner at the end: a lock that no session releases"));
    }
    let name = (0..NAMES).find(|&name| !world.queues[name].is_empty());
    if let Some(name) = name {
        return Some(format!("name {name} has a queue at the end: a lock that no session releases"));
    }
    let is_left = world.stacks.iter().any(|stack| !stack.is_empty()) || world.latches.iter().any(Option::is_some);
    is_left.then(|| "a stack or a latch is left".into())
}

fn path(origins: &[Origin], mut at: u32) -> Vec<String> {
    let mut steps = Vec::new();
    while at != 0 {
        let origin = &origins[at as usize];
        let what = if origin.is_death { "dies before" } else { "steps" };
        steps.push(format!("actor {} {what} {:?}", origin.actor, origin.pc));
        at = origin.from;
    }
    steps.reverse();
    steps
}
