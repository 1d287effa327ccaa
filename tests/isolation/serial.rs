//! Schedules of a few transactions, and the check whether a serial order has the same outcome.
//!
//! A schedule gives the order in which its sessions try their steps. [`played`] runs a schedule on the library, which
//! makes sessions wait; a session that had to wait does its further steps as soon as it can. [`interleaved`] runs a
//! schedule without waits, on a map without isolation. This is the control, in which each schedule must show its
//! anomaly. [`is_serial`] tries every order of the committed transactions.

use std::collections::{BTreeMap, VecDeque};

use libtp::Granularity;

use crate::session::{Do, Ended, Scene, Session};

/// The number of a session, and its step.
pub type Step = (usize, Do);

/// The steps and results of each session, in the session's order, and the final contents.
#[derive(Clone, Debug)]
pub struct Outcome {
    sessions: Vec<Vec<(Do, Ended)>>,
    finally: BTreeMap<String, String>,
}

type Map = BTreeMap<&'static str, &'static str>;
type Pairs = [(&'static str, &'static str)];

const NAMES: [&str; 3] = ["T1", "T2", "T3"];

impl Outcome {
    /// Returns the sessions that committed.
    pub fn committed(&self) -> Vec<usize> {
        let ended = |number: &usize| self.sessions[*number].last().is_some_and(is_commit);
        (0..self.sessions.len()).filter(ended).collect()
    }
}

fn is_commit((step, ended): &(Do, Ended)) -> bool {
    matches!((step, ended), (Do::Commit, Ended::Done))
}

fn owned(map: &Map) -> BTreeMap<String, String> {
    map.iter().map(|(&key, &value)| (key.to_owned(), value.to_owned())).collect()
}

/// Does one step on a map.
fn on_map(map: &mut Map, step: &Do) -> Ended {
    let pair = |(key, value): (&&str, &&str)| format!("{key}={value}");
    match *step {
        Do::Begin | Do::BeginSnapshot | Do::Commit | Do::Abort => Ended::Done,
        Do::Get(key) | Do::GetForUpdate(key) => Ended::Value(map.get(key).map(|&value| value.to_owned())),
        Do::Put(key, value) => {
            map.insert(key, value);
            Ended::Done
        }
        Do::PutNew(key, _) if map.contains_key(key) => Ended::Exists,
        Do::PutNew(key, value) => {
            map.insert(key, value);
            Ended::Done
        }
        Do::Delete(key) => Ended::WasThere(map.remove(key).is_some()),
        Do::Scan(from, to) => Ended::Pairs(map.range(from..to).map(pair).collect()),
        Do::ScanBack(from, to) => Ended::Pairs(map.range(from..to).rev().map(pair).collect()),
    }
}

/// Runs a schedule without waits and isolation; an abort restores the values before the session's writes.
pub fn interleaved(pairs: &Pairs, schedule: &[Step]) -> Outcome {
    let mut map: Map = pairs.iter().copied().collect();
    let count = schedule.iter().map(|(session, _)| session + 1).max().unwrap_or(0);
    let mut sessions = vec![Vec::new(); count];
    let mut before: Vec<BTreeMap<&str, Option<&str>>> = vec![BTreeMap::new(); count];
    for (session, step) in schedule {
        if let Do::Put(key, _) | Do::PutNew(key, _) | Do::Delete(key) = step {
            before[*session].entry(key).or_insert(map.get(key).copied());
        }
        if matches!(step, Do::Abort) {
            for (key, value) in std::mem::take(&mut before[*session]) {
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(key),
                };
            }
        }
        sessions[*session].push((step.clone(), on_map(&mut map, step)));
    }
    Outcome { sessions, finally: owned(&map) }
}

/// A session of a schedule: its remaining steps, the step that waits, and the steps that have ended.
struct Player {
    session: Session,
    todo: VecDeque<Do>,
    waiting: Option<Do>,
    done: Vec<(Do, Ended)>,
}

impl Player {
    /// Does the remaining steps, until a step waits.
    fn go(&mut self) {
        loop {
            let step = match self.waiting.take() {
                Some(step) => step,
                None => match self.todo.pop_front() {
                    Some(step) => {
                        self.session.begins(step.clone());
                        step
                    }
                    None => return,
                },
            };
            match self.session.ended_by_now() {
                Some(ended) => {
                    if ended == Ended::Deadlock {
                        self.todo.clear();
                    }
                    self.done.push((step, ended));
                }
                None => {
                    self.waiting = Some(step);
                    return;
                }
            }
        }
    }
}

/// How sessions without changes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// With locks, as sessions with changes do.
    Lock,
    /// From a snapshot, which is taken at their first step.
    Snapshot,
}

/// Returns the sessions of a schedule that only read.
pub fn readers(schedule: &[Step]) -> Vec<usize> {
    let only_reads = |step: &Do| matches!(step, Do::Get(_) | Do::Scan(..) | Do::ScanBack(..) | Do::Commit | Do::Abort);
    let count = schedule.iter().map(|(session, _)| session + 1).max().unwrap_or(0);
    (0..count).filter(|one| schedule.iter().all(|(session, step)| session != one || only_reads(step))).collect()
}

/// Runs a schedule in an environment with locks on records or on pages.
pub fn played(granularity: Granularity, how: Readers, pairs: &'static Pairs, schedule: &[Step]) -> Outcome {
    let looks = if how == Readers::Snapshot { readers(schedule) } else { Vec::new() };
    let scene = Scene::new(granularity, pairs);
    let count = schedule.iter().map(|(session, _)| session + 1).max().unwrap_or(0);
    let mut players: Vec<Player> = (0..count)
        .map(|number| {
            let (session, todo) = match looks.contains(&number) {
                true => (scene.idle(NAMES[number]), VecDeque::from([Do::BeginSnapshot])),
                false => (scene.session(NAMES[number]), VecDeque::new()),
            };
            Player { session, todo, waiting: None, done: Vec::new() }
        })
        .collect();
    for (session, step) in schedule {
        let player = &mut players[*session];
        // A victim gets no further steps, because its transaction has ended.
        if player.done.last().is_none_or(|(_, ended)| *ended != Ended::Deadlock) {
            player.todo.push_back(step.clone());
            player.go();
        }
    }
    // A waiting session can continue when other sessions have ended. In each round at least one session ends, so
    // `count` rounds are enough.
    for _ in 0..count {
        players.iter_mut().for_each(Player::go);
    }
    let stuck = players.iter().find(|player| player.waiting.is_some());
    assert!(stuck.is_none(), "{} waits for ever", stuck.map_or("", |player| player.session.name()));
    let sessions = players.into_iter().map(|player| player.done).collect();
    Outcome { sessions, finally: scene.everything() }
}

/// Returns whether the committed transactions, run one after the other in some order, make the same observations and
/// leave the same contents.
pub fn is_serial(pairs: &Pairs, outcome: &Outcome) -> bool {
    let start: Map = pairs.iter().copied().collect();
    orders(&outcome.committed()).into_iter().any(|order| {
        let mut map = start.clone();
        let sees = |(step, ended): &(Do, Ended)| on_map(&mut map, step) == *ended;
        order.iter().flat_map(|&session| &outcome.sessions[session]).all(sees) && owned(&map) == outcome.finally
    })
}

/// Returns all orders of these numbers.
fn orders(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for &first in of {
        let rest: Vec<usize> = of.iter().copied().filter(|&other| other != first).collect();
        all.extend(orders(&rest).into_iter().map(|order| [vec![first], order].concat()));
    }
    all
}
