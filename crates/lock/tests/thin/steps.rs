//! The calls of the model, one store at a time. An actor may die between any two of its steps.

use crate::world::{
    bucket_of, locker_of, word_of, Actor, Bug, Goal, List, Mode, Name, Pc, Place, State, Var, Word, World,
};
use crate::world::{FREED, LAST_REAPER, LOCKERS, REAPER};
use crate::Scripts;

/// A call of the lock manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Lock(Name, Mode),
    /// Changes the lock from X to S.
    Downgrade(Name),
    /// Asks whether the lock could be granted in X, but does not take it.
    Instant(Name),
    Unlock(Name),
    UnlockAll,
}

/// One actor at one step.
struct Step<'w> {
    world: &'w mut World,
    me: usize,
    bug: Option<Bug>,
    scripts: &'w Scripts,
}

/// Makes the actors ready for their first steps.
pub(crate) fn begin(world: &mut World, scripts: &Scripts) {
    for me in 0..LOCKERS {
        world.actors[me].locker = me as u8;
        Step { world, me, bug: None, scripts }.next_op();
    }
    world.actors[REAPER].pc = Pc::Reap;
    world.actors[LAST_REAPER].pc = Pc::Reap;
}

/// Makes the actor's next step. Returns whether it could make one.
pub(crate) fn step(world: &mut World, me: usize, bug: Option<Bug>, scripts: &Scripts) -> bool {
    !world.actors[me].is_dead && Step { world, me, bug, scripts }.run()
}

/// Kills the actor. Its place in its call is forgotten.
pub(crate) fn kill(world: &mut World, me: usize) {
    let images = std::mem::take(&mut world.actors[me].images);
    world.actors[me] = Actor { is_dead: true, images, ..Actor::default() };
    world.deaths += 1;
}

/// Returns a dead actor that has left an open section, a latch or a locker.
pub(crate) fn dead_actor(world: &World) -> Option<usize> {
    let has_left = |&me: &usize| {
        let actor = &world.actors[me];
        let name = me as u8;
        actor.is_dead
            && (!actor.images.is_empty() || world.latches.contains(&Some(name)) || world.owners.contains(&name))
    };
    (0..LAST_REAPER).find(has_left)
}

impl Step<'_> {
    fn actor(&mut self) -> &mut Actor {
        &mut self.world.actors[self.me]
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Begins the next call of the script.
    fn next_op(&mut self) {
        let me = self.me;
        let (op, locker) = (self.world.actors[me].op, self.world.actors[me].locker);
        let images = std::mem::take(&mut self.actor().images);
        let mut next = Actor { images, op: op + 1, locker, ..Actor::default() };
        match self.scripts[me].get(usize::from(op)) {
            None => next.op = 0,
            Some(&Op::Lock(name, mode)) => next = Actor { pc: Pc::Look, name, mode, ..next },
            Some(&Op::Downgrade(name)) => next = Actor { pc: Pc::Look, goal: Goal::Downgrade, name, ..next },
            Some(&Op::Instant(name)) => {
                next = Actor { pc: Pc::Look, goal: Goal::Instant, name, mode: Mode::X, ..next };
            }
            Some(&Op::Unlock(name)) => next = Actor { pc: Pc::Top, is_single: true, name, ..next },
            Some(Op::UnlockAll) => next = Actor { pc: Pc::Top, ..next },
        }
        *self.actor() = next;
    }

    /// Ends the call.
    fn done(&mut self) {
        let actor = self.actor().clone();
        if actor.pc != Pc::Top && matches!(actor.goal, Goal::Lock | Goal::Wait) {
            let relied = &mut self.world.relied[usize::from(actor.locker)][actor.name as usize];
            *relied = (*relied).max(Some(actor.mode));
        }
        if self.me >= LOCKERS {
            self.go(Pc::Free);
        } else {
            self.next_op();
        }
    }

    fn go(&mut self, pc: Pc) {
        self.actor().pc = pc;
    }

    /// Makes the release of the latch the next step; after it the actor continues with `then`.
    fn leave(&mut self, then: Pc) {
        let actor = self.actor();
        // States that differ only in words which are not read again are one state.
        (actor.then, actor.other, actor.other_name, actor.seen) = (then, 0, 0, Word::FREE);
        self.go(Pc::Unlatch);
    }

    /// Stores a variable in the open section.
    fn set(&mut self, var: Var) {
        let image = self.world.store(var);
        self.actor().images.push(image);
    }

    fn is_mine(&self, word: Word) -> bool {
        let actor = &self.world.actors[self.me];
        word.place != 0
            && locker_of(word.place) == actor.locker
            && (self.world.slot(word.place).name == actor.name || self.has(Bug::MineByTag))
    }

    fn stack(&self, locker: u8) -> List {
        self.world.stacks[usize::from(locker)]
    }

    /// Fills a free slot of the locker, and puts the slot on the locker's stack.
    fn note(&mut self) -> Place {
        let actor = self.actor().clone();
        let (stack, noted) = (self.stack(actor.locker), self.world.notes[usize::from(actor.locker)]);
        let first = 2 * actor.locker + 1;
        let is_free = |&place: &Place| !stack.has(place) && !noted.has(place);
        let place = (first..first + 2).find(is_free).expect("a locker holds two locks at most");
        let mode = if self.has(Bug::ExactCompare) { actor.mode } else { Mode::S };
        *self.world.slot_mut(place) = crate::world::Slot { name: actor.name, state: State::Thin, noted: mode };
        self.actor().place = place;
        match self.bug {
            Some(Bug::ContenderPushes) => self.world.notes[usize::from(actor.locker)] = noted.with_last(place),
            Some(Bug::NotedLate) => {}
            _ => self.world.stacks[usize::from(actor.locker)] = stack.with_last(place),
        }
        place
    }

    fn pop_thin_request(&mut self) {
        let (locker, place) = (usize::from(self.actor().locker), self.actor().place);
        self.world.stacks[locker] = self.world.stacks[locker].without(place);
        self.world.notes[locker] = self.world.notes[locker].without(place);
    }

    fn run(&mut self) -> bool {
        let actor = self.actor().clone();
        let (name, place) = (actor.name, actor.place);
        let word = self.world.words[word_of(name)];
        match actor.pc {
            Pc::End => return false,
            Pc::Latch => return self.latch(&actor),
            Pc::Unlatch => {
                self.world.latches[bucket_of(name, self.bug)] = None;
                match actor.then {
                    Pc::End => self.done(),
                    then => self.go(then),
                }
            }
            Pc::Wait if self.has(Bug::GrantNotLatched) && !self.world.slot(place).state.waits() => self.done(),
            Pc::Wait if !self.world.slot(place).state.waits() || self.world.next_grant(name).is_some() => {
                self.actor().goal = Goal::Wait;
                self.go(Pc::Latch);
            }
            Pc::Wait => return false,
            Pc::Reap => return self.reap(),
            Pc::Free => {
                self.world.owners[usize::from(actor.locker)] = FREED;
                *self.actor() = Actor { pc: Pc::Reap, ..Actor::default() };
            }
            _ => {
                return self.alone(&actor, word)
                    || self.inflation(&actor)
                    || self.queueing(&actor)
                    || self.release(&actor, word)
            }
        }
        true
    }

    /// Makes a step of a lock that no other locker wants.
    fn alone(&mut self, actor: &Actor, word: Word) -> bool {
        let (name, mode, place, locker) = (actor.name, actor.mode, actor.place, actor.locker);
        match actor.pc {
            Pc::Look => self.look(actor, word),
            Pc::Note => {
                self.note();
                self.go(Pc::Swap);
            }
            Pc::Swap if word == Word::FREE => {
                *self.world.word(name) = Word { place, mode, fat: false };
                if self.has(Bug::NotedLate) {
                    self.go(Pc::NoteLate);
                } else {
                    self.done();
                }
            }
            Pc::Swap => self.go(Pc::TakeNoteBack),
            Pc::NoteLate => {
                self.world.stacks[usize::from(locker)] = self.stack(locker).with_last(place);
                self.done();
            }
            Pc::TakeNoteBack => {
                self.pop_thin_request();
                self.actor().place = 0;
                self.go(Pc::Latch);
            }
            Pc::NoteMode => {
                self.world.slot_mut(actor.seen.place).noted = mode;
                self.go(Pc::SwapMode);
            }
            Pc::SwapMode if word == actor.seen => {
                *self.world.word(name) = Word { mode, ..word };
                self.done();
            }
            Pc::SwapMode => self.go(Pc::Latch),
            Pc::ThinNote => {
                self.note();
                self.go(Pc::ThinStore);
            }
            Pc::ThinStore => {
                *self.world.word(name) = Word { place, mode, fat: false };
                self.leave(Pc::End);
            }
            _ => return false,
        }
        true
    }

    /// Makes a step of an inflation.
    fn inflation(&mut self, actor: &Actor) -> bool {
        let name = actor.name;
        match actor.pc {
            Pc::Fatten => self.fatten(name),
            Pc::InflateQueue => {
                let queue = self.world.queues[actor.other_name as usize].with_first(actor.other);
                self.set(Var::Queue(actor.other_name, queue));
                self.go(if self.has(Bug::ContenderPushes) { Pc::InflateStack } else { Pc::InflateState });
            }
            Pc::InflateStack => {
                let owner = locker_of(actor.other);
                self.set(Var::Stack(owner, self.stack(owner).with_last(actor.other)));
                self.go(Pc::InflateState);
            }
            Pc::InflateState => {
                self.set(Var::State(actor.other, State::Granted(actor.seen.mode)));
                if self.has(Bug::FatTooEarly) {
                    *self.world.word(name) = Word::FAT;
                }
                self.go(Pc::InflateClose);
            }
            Pc::InflateClose => {
                self.actor().images.clear();
                self.go(Pc::Settle);
            }
            Pc::Settle => {
                *self.world.word(name) = Word::FAT;
                if self.has(Bug::ContenderPushes) {
                    let notes = &mut self.world.notes[usize::from(locker_of(actor.other))];
                    *notes = notes.without(actor.other);
                }
                self.go(Pc::Decide);
            }
            _ => return false,
        }
        true
    }

    /// Makes a step at a queue.
    fn queueing(&mut self, actor: &Actor) -> bool {
        let (name, place, locker) = (actor.name, actor.place, actor.locker);
        match actor.pc {
            Pc::Decide => self.decide(actor),
            Pc::EnterQueue => {
                let place = self.enter_note();
                self.world.slot_mut(place).state = actor.state;
                let queue = self.world.queues[name as usize].with_last(place);
                self.set(Var::Queue(name, queue));
                self.go(Pc::EnterStack);
            }
            Pc::EnterStack => {
                self.set(Var::Stack(locker, self.stack(locker).with_last(place)));
                self.go(Pc::EnterClose);
            }
            Pc::EnterClose => {
                self.actor().images.clear();
                self.leave(if actor.state.waits() { Pc::Wait } else { Pc::End });
            }
            Pc::ConvertState => {
                self.set(Var::State(place, actor.state));
                self.go(Pc::ConvertGrant);
            }
            Pc::ConvertGrant => self.grant(name, Pc::ConvertClose),
            Pc::ConvertClose => {
                self.actor().images.clear();
                self.leave(if actor.state.waits() { Pc::Wait } else { Pc::End });
            }
            Pc::WaitGrant => self.grant(name, Pc::WaitClose),
            Pc::WaitClose => {
                self.actor().images.clear();
                self.leave(if self.world.slot(place).state.waits() { Pc::Wait } else { Pc::End });
            }
            _ => return false,
        }
        true
    }

    /// Makes a step of a release.
    fn release(&mut self, actor: &Actor, word: Word) -> bool {
        let (name, place, locker) = (actor.name, actor.place, actor.locker);
        match actor.pc {
            Pc::Top => self.top(actor),
            Pc::ReleaseSwap if word == actor.seen || self.has(Bug::PlainRelease) => {
                *self.world.word(name) = Word::FREE;
                self.go(Pc::ReleaseNote);
            }
            Pc::ReleaseSwap if self.has(Bug::RefusedIsDone) => self.go(Pc::ReleaseNote),
            Pc::ReleaseSwap => {
                self.actor().goal = Goal::Release;
                self.go(Pc::Latch);
            }
            Pc::ReleaseNote => {
                self.pop_thin_request();
                self.released(actor);
            }
            Pc::ReleaseLook => self.release_look(actor, word),
            Pc::ReleaseThin => {
                self.pop_thin_request();
                self.leave(Pc::Top);
            }
            Pc::ReleaseQueue => {
                let queue = self.world.queues[name as usize].without(place);
                self.set(Var::Queue(name, queue));
                let is_last = self.has(Bug::ClearedInSection) && !self.world.has_queue(name, self.bug);
                self.go(if is_last { Pc::ReleaseClear } else { Pc::ReleaseGrant });
            }
            Pc::ReleaseClear => {
                *self.world.word(name) = Word::FREE;
                self.go(Pc::ReleaseGrant);
            }
            Pc::ReleaseGrant => self.grant(name, Pc::ReleaseStack),
            Pc::ReleaseStack => {
                self.set(Var::Stack(locker, self.stack(locker).without(place)));
                self.go(Pc::ReleaseClose);
            }
            Pc::ReleaseClose => {
                self.actor().images.clear();
                self.leave(Pc::Top);
            }
            _ => return false,
        }
        true
    }

    /// Looks at the word without the latch.
    fn look(&mut self, actor: &Actor, word: Word) {
        if self.has(Bug::NameReadEarly) && word.place != 0 {
            self.actor().other = word.place;
            self.actor().other_name = self.world.slot(word.place).name;
        }
        let is_mine = self.is_mine(word) && !word.fat;
        if actor.goal == Goal::Downgrade {
            self.world.relied[usize::from(actor.locker)][actor.name as usize] = Some(Mode::S);
        }
        match actor.goal {
            Goal::Instant if !word.fat && (word.place == 0 || is_mine) => self.instant(true),
            Goal::Lock if word == Word::FREE => self.go(Pc::Note),
            Goal::Lock if is_mine && word.mode >= actor.mode => self.done(),
            Goal::Lock | Goal::Downgrade if is_mine => {
                self.actor().seen = word;
                self.go(if self.has(Bug::ExactCompare) { Pc::NoteMode } else { Pc::SwapMode });
            }
            _ => self.go(Pc::Latch),
        }
    }

    /// Ends an instant lock. `is_granted` states whether the lock could be granted.
    fn instant(&mut self, is_granted: bool) {
        let (locker, name) = (usize::from(self.actor().locker), self.actor().name as usize);
        let is_held = (0..LOCKERS).any(|other| other != locker && self.world.relied[other][name].is_some());
        self.world.is_instant_wrong |= is_granted && is_held;
        self.done();
    }

    /// Takes the latch. If its holder is dead, first rolls back the holder's section, then releases its latch
    /// (PROTOCOLS D4).
    fn latch(&mut self, actor: &Actor) -> bool {
        let latch = bucket_of(actor.name, self.bug);
        match self.world.latches[latch].map(usize::from) {
            None => {
                self.world.latches[latch] = Some(self.me as u8);
                self.go(match actor.goal {
                    Goal::Lock if self.has(Bug::OldLook) => Pc::Decide,
                    Goal::Lock | Goal::Downgrade | Goal::Instant => Pc::Fatten,
                    Goal::Wait => Pc::WaitGrant,
                    Goal::Release => Pc::ReleaseLook,
                });
            }
            Some(holder) if !self.world.actors[holder].is_dead => return false,
            Some(holder) if self.world.actors[holder].images.is_empty() => self.world.latches[latch] = None,
            Some(holder) => self.world.roll_back(holder),
        }
        true
    }

    /// Makes the word FAT, and puts the request of the word's thin lock into a queue.
    fn fatten(&mut self, name: Name) {
        let word = *self.world.word(name);
        if word.place == 0 {
            *self.world.word(name) = Word::FAT;
            self.go(Pc::Decide);
        } else if !word.fat {
            self.world.word(name).fat = true;
        } else {
            let slot = *self.world.slot(word.place);
            let is_early = self.has(Bug::NameReadEarly) && self.actor().other == word.place;
            let other_name = if is_early { self.actor().other_name } else { slot.name };
            let inflates = self.has(Bug::InflatedTwice) || slot.state == State::Thin && !self.has(Bug::FatIsDone);
            let actor = self.actor();
            (actor.other, actor.other_name, actor.seen) = (word.place, other_name, word);
            self.go(if inflates { Pc::InflateQueue } else { Pc::Settle });
        }
    }

    /// Decides how the call continues. The actor has the latch, and the word has FAT.
    fn decide(&mut self, actor: &Actor) {
        let (name, mode) = (actor.name, actor.mode);
        let queue = self.world.queues[name as usize];
        let own = queue.iter().find(|&place| locker_of(place) == actor.locker);
        let own = own.filter(|_| !self.has(Bug::OwnNotSought));
        let others: Vec<State> =
            queue.iter().filter(|&place| Some(place) != own).map(|place| self.world.slot(place).state).collect();
        let is_free = others.iter().all(|state| state.granted().is_none_or(|held| !held.conflicts(mode)));
        match (actor.goal, own) {
            (Goal::Instant, _) => {
                self.world.latches[bucket_of(name, self.bug)] = None;
                self.instant(is_free);
            }
            (Goal::Downgrade, Some(place)) => self.convert(place, State::Granted(Mode::S)),
            (Goal::Downgrade, None) => panic!("a lock that is made weaker is held"),
            (_, Some(place)) => match self.world.slot(place).state.granted() {
                Some(held) if held >= mode => self.leave(Pc::End),
                _ => self.convert(place, if is_free { State::Granted(mode) } else { State::Converts }),
            },
            (_, None) if queue.is_empty() && self.may_be_thin(name) => self.go(Pc::ThinNote),
            (_, None) => {
                let waits = !is_free || others.iter().any(|state| state.waits());
                self.actor().state = if waits { State::Waits(mode) } else { State::Granted(mode) };
                self.go(Pc::EnterQueue);
            }
        }
    }

    /// Under the latch: returns whether the word may have an owner again.
    fn may_be_thin(&self, name: Name) -> bool {
        let has_queue = self.world.has_queue(name, self.bug) && !self.has(Bug::ThinBesideQueue);
        !has_queue && !self.has(Bug::OldLook)
    }

    fn convert(&mut self, place: Place, state: State) {
        let actor = self.actor();
        (actor.place, actor.state) = (place, state);
        self.go(Pc::ConvertState);
    }

    /// Chooses and fills a free slot of the locker, which is on no stack yet.
    fn enter_note(&mut self) -> Place {
        let locker = usize::from(self.actor().locker);
        let (stack, noted) = (self.world.stacks[locker], self.world.notes[locker]);
        let place = self.note();
        (self.world.stacks[locker], self.world.notes[locker]) = (stack, noted);
        place
    }

    /// Makes the next grant; if there is none, continues with `then`.
    fn grant(&mut self, name: Name, then: Pc) {
        match self.world.next_grant(name) {
            Some((place, state)) => self.set(Var::State(place, state)),
            None => self.go(then),
        }
    }

    /// Begins to release the newest request, or the request of the call's name.
    fn top(&mut self, actor: &Actor) {
        let locker = usize::from(actor.locker);
        if actor.is_single {
            self.world.relied[locker][actor.name as usize] = None;
        } else {
            self.world.relied[locker] = Default::default();
        }
        let (stack, noted) = (self.world.stacks[locker], self.world.notes[locker]);
        let place = if actor.is_single {
            stack.iter().chain(noted.iter()).find(|&place| self.world.slot(place).name == actor.name)
        } else {
            stack.last().or(noted.last())
        };
        let Some(place) = place else { return self.done() };
        let slot = *self.world.slot(place);
        let word = *self.world.word(slot.name);
        let is_thin = word.place == place && !word.fat;
        let is_as_noted = !self.has(Bug::ExactCompare) || word.mode == slot.noted;
        let actor = self.actor();
        (actor.place, actor.name) = (place, slot.name);
        if is_thin && is_as_noted {
            actor.seen = word;
            self.go(Pc::ReleaseSwap);
        } else {
            actor.goal = Goal::Release;
            self.go(Pc::Latch);
        }
    }

    fn released(&mut self, actor: &Actor) {
        self.go(Pc::Top);
        if actor.is_single {
            self.done();
        }
    }

    /// Decides how a release continues. The actor has the latch, and the request is thin or in a queue.
    fn release_look(&mut self, actor: &Actor, word: Word) {
        let is_mine = word.place == actor.place;
        if self.world.slot(actor.place).state != State::Thin {
            if is_mine && !self.has(Bug::OwnerStays) {
                // This store is before the section in which the slot becomes free.
                *self.world.word(actor.name) = Word::FAT;
            }
            self.go(Pc::ReleaseQueue);
            return;
        }
        let is_as_noted = !self.has(Bug::ExactCompare) || word.mode == self.world.slot(actor.place).noted;
        if is_mine && is_as_noted {
            *self.world.word(actor.name) = if word.fat { Word::FAT } else { Word::FREE };
        }
        self.go(Pc::ReleaseThin);
    }

    /// Repairs a dead actor: first its section, then its latches, then its lockers.
    fn reap(&mut self) -> bool {
        if self.me == LAST_REAPER && !self.world.actors[REAPER].is_dead {
            return false;
        }
        let Some(dead) = dead_actor(self.world).filter(|&dead| dead != self.me) else { return false };
        if !self.world.actors[dead].images.is_empty() {
            self.world.roll_back(dead);
        } else if let Some(latch) = self.world.latches.iter_mut().find(|latch| **latch == Some(dead as u8)) {
            *latch = None;
        } else if let Some(locker) = self.world.owners.iter().position(|&owner| usize::from(owner) == dead) {
            self.world.owners[locker] = self.me as u8;
            self.world.relied[locker] = Default::default();
            *self.actor() = Actor { pc: Pc::Top, locker: locker as u8, ..Actor::default() };
        }
        true
    }
}
