//! A machine with store buffers, and a search through all its possible executions.
//!
//! The memory order is that of x86: each thread's stores reach the memory in order and with a delay, the thread itself
//! sees them at once, and loads are executed in order. A locked instruction waits until the thread's stores are in
//! memory. `membarrier` moves the stores of all threads into memory. A kill stops a thread between two instructions.
//! Its stores reach the memory before another thread learns of the death, because the kernel was entered.

use std::collections::HashMap;
use std::hash::Hash;

/// The memory, and the stores in the threads' store buffers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Memory<const WORDS: usize, const THREADS: usize> {
    words: [u8; WORDS],
    on_their_way: [Vec<(usize, u8)>; THREADS],
}

impl<const WORDS: usize, const THREADS: usize> Memory<WORDS, THREADS> {
    /// Makes a memory with these contents.
    pub fn new(words: [u8; WORDS]) -> Self {
        Memory { words, on_their_way: std::array::from_fn(|_| Vec::new()) }
    }

    /// Returns the value of the word that the thread sees.
    pub fn load(&self, thread: usize, word: usize) -> u8 {
        let own = self.on_their_way[thread].iter().rev().find(|(stored, _)| *stored == word);
        own.map_or(self.words[word], |(_, value)| *value)
    }

    /// Stores a word.
    pub fn store(&mut self, thread: usize, word: usize, value: u8) {
        self.on_their_way[thread].push((word, value));
    }

    /// Returns whether the thread may execute a locked instruction.
    pub fn is_drained(&self, thread: usize) -> bool {
        self.on_their_way[thread].is_empty()
    }

    /// Executes a locked compare-and-swap: stores `new` if the word is `old`. Returns whether the word was `old`.
    pub fn swap(&mut self, thread: usize, word: usize, old: u8, new: u8) -> bool {
        assert!(self.is_drained(thread), "a locked instruction waits for the thread's stores");
        let is_old = self.words[word] == old;
        if is_old {
            self.words[word] = new;
        }
        is_old
    }

    /// Lets the thread's oldest store reach the memory. Returns whether the thread had a store in its buffer.
    pub fn drain_one(&mut self, thread: usize) -> bool {
        let is_one = !self.on_their_way[thread].is_empty();
        if is_one {
            let (word, value) = self.on_their_way[thread].remove(0);
            self.words[word] = value;
        }
        is_one
    }

    /// Lets all stores of the thread reach the memory.
    pub fn drain(&mut self, thread: usize) {
        while self.drain_one(thread) {}
    }

    /// Lets all stores of all threads reach the memory.
    pub fn barrier_everywhere(&mut self) {
        (0..THREADS).for_each(|thread| self.drain(thread));
    }
}

/// A state of a model.
pub trait State: Clone + Eq + Hash {
    /// Returns each state to which one step of one thread leads, with the step's name.
    fn next(&self) -> Vec<(String, Self)>;
    /// Returns the broken rule, if the state breaks one.
    fn broken(&self) -> Option<&'static str>;
}

/// Visits all reachable states. Returns their number, or the broken rule and the shortest sequence of steps to it.
pub fn explore<S: State>(start: S) -> Result<usize, String> {
    let mut states = vec![(start.clone(), None::<(usize, String)>)];
    let mut known = HashMap::from([(start, 0)]);
    let mut at = 0;
    while at < states.len() {
        let state = states[at].0.clone();
        if let Some(rule) = state.broken() {
            return Err(format!("{rule}: {}", way_to(&states, at).join(", ")));
        }
        for (step, next) in state.next() {
            if !known.contains_key(&next) {
                known.insert(next.clone(), states.len());
                states.push((next, Some((at, step))));
            }
        }
        at += 1;
    }
    Ok(states.len())
}

fn way_to<S>(states: &[(S, Option<(usize, String)>)], end: usize) -> Vec<String> {
    let mut steps = Vec::new();
    let mut at = end;
    while let Some((before, step)) = &states[at].1 {
        steps.push(step.clone());
        at = *before;
    }
    steps.reverse();
    steps
}
