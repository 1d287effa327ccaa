//! A simulated machine goes down and is restarted: its disk has lost some or all unsynced bytes; its memory is
//! intact, or has lost some lines that were still in the processor's cache; and opening crashes, too.

use libtp::{Durability, SharedMemory, Survives};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::library::{Layout, Machine, Process, Way};
use libtp_tests::oracle::{State, Table, Value};
use libtp_tests::sizes;
use rio::{simulated_cache, Lasting, Region, WriteBack};

/// Counts over all runs.
#[derive(Debug, Default)]
struct Figures {
    crashes: u64,
    answered: u64,
    lines_lost: u64,
    unanswered_found: u64,
    within: u64,
    memories_lost: u64,
}

/// The committed states, in order, and the earliest one that may be found after a crash.
struct Committed {
    states: Vec<State>,
    /// The last state answered from memory, and the last answered from the disk.
    in_memory: usize,
    on_disk: usize,
    /// Whether a commit was answered from memory.
    is_rio: bool,
    /// Whether a relaxed commit was answered.
    is_relaxed: bool,
}

impl Committed {
    fn new(state: State) -> Committed {
        Committed { states: vec![state], in_memory: 0, on_disk: 0, is_rio: false, is_relaxed: false }
    }

    fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns the latest state from `from` on that equals `found`.
    fn place_of(&self, found: &State, from: usize) -> Option<usize> {
        (from..self.states.len()).rev().find(|&at| self.states[at] == *found)
    }
}

fn is_lasting(write_back: WriteBack) -> Lasting {
    Lasting { survives: Survives::System, write_back }
}

fn value(random: &mut Random) -> Vec<u8> {
    let bytes = if random.chance(1, 20) { 2_000 } else { 8 + random.index(120) };
    let fill = u8::try_from(random.below(256)).unwrap();
    vec![fill; bytes]
}

/// Runs some transactions of all durabilities.
fn work(process: &Process, random: &mut Random, committed: &mut Committed, figures: &mut Figures) {
    for _ in 0..2 + random.below(20) {
        let durability = match random.below(10) {
            0 => Durability::Sync,
            1..=3 => Durability::Relaxed,
            _ => Durability::Rio,
        };
        let txn = process.begin(durability).unwrap();
        committed.is_rio |= durability == Durability::Rio;
        let mut state = committed.states[committed.last()].clone();
        for _ in 0..1 + random.below(3) {
            let place = (Table::Tree("accounts"), format!("{:03}", random.below(60)).into_bytes());
            let value = value(random);
            process.put(&txn, &place, &value).unwrap();
            state.put(&place, Some(&Value::from(value)));
        }
        if random.chance(1, 10) {
            txn.abort().unwrap();
            continue;
        }
        txn.commit().unwrap();
        committed.states.push(state);
        let last = committed.last();
        match durability {
            Durability::Sync => (committed.on_disk, committed.in_memory) = (last, last),
            Durability::Rio => committed.in_memory = last,
            Durability::Relaxed => committed.is_relaxed = true,
        }
        figures.answered += u64::from(durability == Durability::Rio);
        match random.below(24) {
            0 => {
                process.flush().unwrap();
                (committed.on_disk, committed.in_memory) = (last, last);
            }
            1 => assert!(process.checkpoint().unwrap()),
            2 => process.write_pages().unwrap(),
            _ => {}
        }
    }
    if random.coin() {
        let txn = process.begin(Durability::Rio).unwrap();
        committed.is_rio = true;
        process.put(&txn, &(Table::Tree("accounts"), b"unfinished".to_vec()), b"never").unwrap();
        txn.die();
    }
}

/// Starts a machine, works, and crashes it, several times.
fn lives(seed: u64, write_back: WriteBack, figures: &mut Figures) {
    let mut random = Random::new(seed);
    let layout = Layout::of_seed(seed);
    let mut disk = SimDisk::new(seed);
    let mut memory = SharedMemory::lasting(is_lasting(write_back));
    let mut committed = Committed::new(State::default());
    // Whether the memory of the life before was lost, and whether commits of that life may be lost with it.
    let (mut is_lost, mut may_have_lost) = (false, false);
    for life in 0..1 + random.below(3) {
        let what = format!("seed {seed}, life {life}, {write_back:?}");
        let machine = Machine::with_memory(disk.clone(), layout, memory.clone());
        assert!(!may_have_lost || machine.start().is_err(), "{what}: the opening goes on without the memory");
        let machine = if is_lost { machine.keeping_files() } else { machine };
        let process = machine.start().unwrap();
        let is_told = may_have_lost || (is_lost && committed.is_relaxed);
        assert_eq!(process.has_lost(), is_told, "{what}: {}", process.opened());
        let begun = process.state(Way::Up).unwrap();
        let from = if is_lost { committed.on_disk } else { committed.in_memory };
        assert!(committed.place_of(&begun, from).is_some(), "{what}: the state differs from the one found before");
        committed = Committed::new(begun);
        work(&process, &mut random, &mut committed, figures);
        process.kill();
        figures.crashes += 1;
        let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
        let region = memory.region().expect("it has been used");
        let image = disk.crash_image(mode, random.next_u64());
        let kept = random.below(11);
        if write_back == WriteBack::Simulated {
            // All of the region is checked, also if its header is from a time when the region was smaller.
            assert!(region.reaches(region.size()));
            figures.lines_lost += simulated_cache::crash(&region, || random.chance(kept, 10));
        }
        region.pretend_earlier_start();
        is_lost = random.chance(1, 10);
        may_have_lost = is_lost && committed.is_rio;
        if is_lost {
            figures.memories_lost += 1;
            (disk, memory) = (image, SharedMemory::lasting(is_lasting(write_back)));
            continue;
        }
        let found = look(&image, layout, &region, write_back, &what);
        let place = committed.place_of(&found, committed.in_memory);
        let Some(place) = place else {
            let wanted = &committed.states[committed.in_memory];
            panic!(
                "{what}, {mode:?}: of {} commits {} were answered: {}",
                committed.last(),
                committed.in_memory,
                wanted.difference(&found)
            );
        };
        figures.unanswered_found += u64::from(place > committed.in_memory);
        // Opening crashes, too. The memory then is as it was before the opening.
        let mut walk = image.crash_images();
        walk.advance_to(random.index(walk.end() + 1));
        let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
        let again = walk.image(mode, random.next_u64());
        let found_again = look(&again, layout, &region, write_back, &what);
        assert!(found_again == found, "{what}: after a crash of opening, {mode:?}: {}", found.difference(&found_again));
        figures.within += 1;
        (disk, memory) = (image.crash_image(LossMode::KeepAll, 0), holding(&region, write_back));
        // The next life opens with the same old memory, which it no longer needs.
        committed.in_memory = place;
    }
}

fn holding(region: &Region, write_back: WriteBack) -> SharedMemory {
    let memory = SharedMemory::lasting(is_lasting(write_back));
    memory.put(region.clone());
    memory
}

/// Returns the state after a restart of the machine with that memory.
fn look(disk: &SimDisk, layout: Layout, region: &Region, write_back: WriteBack, what: &str) -> State {
    let machine = Machine::with_memory(disk.clone(), layout, holding(region, write_back));
    let process = machine.start().unwrap_or_else(|trouble| panic!("{what}: opening failed: {trouble}"));
    assert!(!process.has_lost(), "{what}: the memory was there: {}", process.opened());
    let found = process.state(Way::Up).unwrap_or_else(|trouble| panic!("{what}: reading failed: {trouble}"));
    let findings = process.findings().unwrap();
    assert!(findings.is_empty(), "{what}: {findings:?}");
    process.kill();
    found
}

fn many(write_back: WriteBack) {
    let mut figures = Figures::default();
    let first = sizes::first_seed();
    for seed in first..first + sizes::number("LIBTP_TEST_WARM", 300) {
        libtp_tests::trial::begin_seed(seed - first + 1);
        lives(seed, write_back, &mut figures);
        simulated_cache::forget_closed();
    }
    println!(
        "figures: {} crashes of a system, {} of opening after it, {} commits answered from memory, {} lines of cache lost, \
         {} times more was found than was answered, {} memories lost and told of; 0 lost, 0 torn",
        figures.crashes,
        figures.within,
        figures.answered,
        figures.lines_lost,
        figures.unanswered_found,
        figures.memories_lost
    );
    assert!(figures.answered > figures.crashes, "hardly anything was answered from memory");
}

#[test]
fn answered_commits_survive_with_the_cache() {
    many(WriteBack::None);
}

#[test]
fn answered_commits_survive_the_loss_of_the_cache() {
    many(WriteBack::Simulated);
}
