//! The state of the model: the shared memory (words, buckets' latches, request slots, queues and stacks), and each
//! session's next step.

/// A name of an object.
pub(crate) type Name = u8;
pub(crate) const A: Name = 0;
pub(crate) const B: Name = 1;
pub(crate) const D: Name = 2;
pub(crate) const NAMES: usize = 3;

/// A request's place; zero is no place. Each locker has two slots.
pub(crate) type Place = u8;
pub(crate) const LOCKERS: usize = 3;
/// The owners, the contender, a reaper that may die, and the last reaper.
pub(crate) const ACTORS: usize = 5;
pub(crate) const REAPER: usize = 3;
pub(crate) const LAST_REAPER: usize = 4;
/// The owner of a locker that no actor has.
pub(crate) const FREED: u8 = 9;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    S,
    X,
}

impl Mode {
    pub(crate) fn conflicts(self, other: Mode) -> bool {
        self == Mode::X || other == Mode::X
    }
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    ContenderPushes,
    NotedLate,
    OwnNotSought,
    TwoBuckets,
    ThinBesideQueue,
    OldLook,
    ClearedInSection,
    ExactCompare,
    RefusedIsDone,
    MineByTag,
    PlainRelease,
    NameReadEarly,
    FatIsDone,
    InflatedTwice,
    FatTooEarly,
    OwnerStays,
    GrantNotLatched,
}

/// A word of the fixed table: the place and mode of a lock that one locker holds, and FAT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Word {
    pub(crate) place: Place,
    pub(crate) mode: Mode,
    pub(crate) fat: bool,
}

impl Word {
    pub(crate) const FREE: Word = Word { place: 0, mode: Mode::S, fat: false };
    pub(crate) const FAT: Word = Word { place: 0, mode: Mode::S, fat: true };
}

/// A request's state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    /// The request is in no queue. It is held exactly if the word has the request's place.
    Thin,
    Granted(Mode),
    Waits(Mode),
    /// Holds S and waits for X.
    Converts,
}

impl State {
    pub(crate) fn granted(self) -> Option<Mode> {
        match self {
            State::Granted(mode) => Some(mode),
            State::Converts => Some(Mode::S),
            State::Thin | State::Waits(_) => None,
        }
    }

    pub(crate) fn waits(self) -> bool {
        matches!(self, State::Waits(_) | State::Converts)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Slot {
    pub(crate) name: Name,
    pub(crate) state: State,
    /// The mode that the owner noted; only [`Bug::ExactCompare`] uses it.
    pub(crate) noted: Mode,
}

/// A short list of places, the head first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct List([Place; 4]);

impl List {
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = Place> {
        self.0.into_iter().filter(|&place| place != 0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0[0] == 0
    }

    pub(crate) fn has(self, place: Place) -> bool {
        self.0.contains(&place)
    }

    pub(crate) fn last(self) -> Option<Place> {
        self.iter().next_back()
    }

    pub(crate) fn with_first(self, place: Place) -> List {
        List([place, self.0[0], self.0[1], self.0[2]])
    }

    pub(crate) fn with_last(mut self, place: Place) -> List {
        if let Some(free) = self.0.iter_mut().find(|at| **at == 0) {
            *free = place;
        }
        self
    }

    /// Returns the list without the first occurrence of the place.
    pub(crate) fn without(self, place: Place) -> List {
        let mut left = List::default();
        let mut is_removed = false;
        for other in self.iter() {
            if other == place && !is_removed {
                is_removed = true;
            } else {
                left = left.with_last(other);
            }
        }
        left
    }
}

/// A variable that sections change, with a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Var {
    Queue(Name, List),
    Stack(u8, List),
    State(Place, State),
}

/// The next step of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Pc {
    Look,
    Note,
    Swap,
    NoteLate,
    TakeNoteBack,
    NoteMode,
    SwapMode,
    Latch,
    Fatten,
    InflateQueue,
    InflateStack,
    InflateState,
    InflateClose,
    Settle,
    Decide,
    ThinNote,
    ThinStore,
    EnterQueue,
    EnterStack,
    EnterClose,
    ConvertState,
    ConvertGrant,
    ConvertClose,
    Unlatch,
    Wait,
    WaitGrant,
    WaitClose,
    Top,
    ReleaseSwap,
    ReleaseNote,
    ReleaseLook,
    ReleaseThin,
    ReleaseQueue,
    ReleaseClear,
    ReleaseGrant,
    ReleaseStack,
    ReleaseClose,
    Reap,
    Free,
    End,
}

/// The reason for which an actor has a latch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Goal {
    Lock,
    Wait,
    Downgrade,
    Instant,
    Release,
}

/// A session with its place in its script, and its open section.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Actor {
    pub(crate) is_dead: bool,
    pub(crate) images: Vec<Var>,
    pub(crate) pc: Pc,
    pub(crate) op: u8,
    pub(crate) locker: u8,
    pub(crate) goal: Goal,
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    /// The request that the call makes or releases.
    pub(crate) place: Place,
    /// The owner's request, which the call inflates, and its name.
    pub(crate) other: Place,
    pub(crate) other_name: Name,
    pub(crate) seen: Word,
    pub(crate) state: State,
    /// The step after the latch is released.
    pub(crate) then: Pc,
    pub(crate) is_single: bool,
}

impl Default for Actor {
    fn default() -> Actor {
        Actor {
            is_dead: false,
            images: Vec::new(),
            pc: Pc::End,
            op: 0,
            locker: 0,
            goal: Goal::Lock,
            name: 0,
            mode: Mode::S,
            place: 0,
            other: 0,
            other_name: 0,
            seen: Word::FREE,
            state: State::Thin,
            then: Pc::End,
            is_single: false,
        }
    }
}

/// The shared memory, and the actors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) words: [Word; 2],
    /// The actor that has the bucket's latch.
    pub(crate) latches: [Option<u8>; 2],
    pub(crate) slots: [Slot; 2 * LOCKERS],
    pub(crate) queues: [List; NAMES],
    pub(crate) stacks: [List; LOCKERS],
    /// Slots that are noted and on no stack; only [`Bug::ContenderPushes`] uses it.
    pub(crate) notes: [List; LOCKERS],
    /// The actor that has the locker.
    pub(crate) owners: [u8; LOCKERS],
    /// The locks that the lockers' owners rely on.
    pub(crate) relied: [[Option<Mode>; NAMES]; LOCKERS],
    /// An instant lock was granted while another locker held the name.
    pub(crate) is_instant_wrong: bool,
    pub(crate) actors: [Actor; ACTORS],
    pub(crate) deaths: u8,
}

impl World {
    pub(crate) fn new() -> World {
        let slot = Slot { name: A, state: State::Thin, noted: Mode::S };
        World {
            words: [Word::FREE; 2],
            latches: [None; 2],
            slots: [slot; 2 * LOCKERS],
            queues: [List::default(); NAMES],
            stacks: [List::default(); LOCKERS],
            notes: [List::default(); LOCKERS],
            owners: [0, 1, 2],
            relied: [[None; NAMES]; LOCKERS],
            is_instant_wrong: false,
            actors: std::array::from_fn(|_| Actor::default()),
            deaths: 0,
        }
    }

    pub(crate) fn slot(&self, place: Place) -> &Slot {
        &self.slots[place as usize - 1]
    }

    pub(crate) fn slot_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.slots[place as usize - 1]
    }

    pub(crate) fn word(&mut self, name: Name) -> &mut Word {
        &mut self.words[word_of(name)]
    }

    /// Stores a variable. Returns its old value.
    pub(crate) fn store(&mut self, var: Var) -> Var {
        match var {
            Var::Queue(name, list) => Var::Queue(name, std::mem::replace(&mut self.queues[name as usize], list)),
            Var::Stack(locker, list) => Var::Stack(locker, std::mem::replace(&mut self.stacks[locker as usize], list)),
            Var::State(place, state) => Var::State(place, std::mem::replace(&mut self.slot_mut(place).state, state)),
        }
    }

    /// Stores the before-images of the actor's open section.
    pub(crate) fn roll_back(&mut self, actor: usize) {
        while let Some(image) = self.actors[actor].images.pop() {
            self.store(image);
        }
    }

    /// Returns the next grant in a queue: conversions first, then waiters in their order.
    pub(crate) fn next_grant(&self, name: Name) -> Option<(Place, State)> {
        let queue = self.queues[name as usize];
        let others = |place| {
            queue.iter().filter(move |&other| other != place).filter_map(|other| self.slot(other).state.granted())
        };
        if let Some(place) = queue.iter().find(|&place| self.slot(place).state == State::Converts) {
            return others(place).next().is_none().then_some((place, State::Granted(Mode::X)));
        }
        let waits = |place| match self.slot(place).state {
            State::Waits(mode) => Some((place, mode)),
            _ => None,
        };
        let (place, mode) = queue.iter().find_map(waits)?;
        others(place).all(|held| !held.conflicts(mode)).then_some((place, State::Granted(mode)))
    }

    /// Returns whether the name's bucket has a queue of any name with the same word.
    pub(crate) fn has_queue(&self, name: Name, bug: Option<Bug>) -> bool {
        let is_here = |other: Name| word_of(other) == word_of(name) && bucket_of(other, bug) == bucket_of(name, bug);
        (0..NAMES as u8).any(|other| is_here(other) && !self.queues[other as usize].is_empty())
    }
}

pub(crate) fn word_of(name: Name) -> usize {
    usize::from(name == D)
}

pub(crate) fn bucket_of(name: Name, bug: Option<Bug>) -> usize {
    usize::from(name == D || name == B && bug == Some(Bug::TwoBuckets))
}

pub(crate) fn locker_of(place: Place) -> u8 {
    (place - 1) / 2
}
