//! A simulated machine goes down and is restarted. Its disk has lost some or all unsynced bytes. Its memory is intact,
//! or has lost some lines that were still in the processor's cache. The opening crashes, too.

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

/// The committed states, in order, and the earliest states that may be found after a crash.
struct Committed {
    states: Vec<State>,
    /// The index of the last state acknowledged from memory.
    in_memory: usize,
    /// The index of the last state acknowledged from the disk.
    on_disk: usize,
    /// Whether there was a `Rio` transaction, which is acknowledged from memory.
    is_rio: bool,
    /// Whether a relaxed commit was acknowledged.
    is_relaxed: bool,
}

impl Committed {
    fn new(state: State) -> Committed {
        Committed { states: vec![state], in_memory: 0, on_disk: 0, is_rio: false, is_relaxed: false }
    }

    fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// Returns the index of the last state that equals `found`, if this index is not below `from`.
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

/// Runs some transactions, each with a random durability.
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

/// Several times, starts a machine, runs transactions, and crashes the machine.
fn lives(seed: u64, write_back: WriteBack, figures: &mut Figures) {
    let mut random = Random::new(seed);
    let layout = Layout::of_seed(seed);
    let mut disk = SimDisk::new(seed);
    let mut memory = SharedMemory::lasting(is_lasting(write_back));
    let mut committed = Committed::new(State::default());
    // Whether the memory of the previous life was lost, and whether commits may have been lost with that memory.
    let (mut is_lost, mut may_have_lost) = (false, false);
    for life in 0..1 + random.below(3) {
        let what = format!("seed {seed}, life {life}, {write_back:?}");
        let machine = Machine::with_memory(disk.clone(), layout, memory.clone());
        assert!(!may_have_lost || machine.start().is_err(), "{what}: the opening is not refused without the memory");
        let machine = if is_lost { machine.keeping_files() } else { machine };
        let process = machine.start().unwrap();
        let is_told = may_have_lost || (is_lost && committed.is_relaxed);
        assert_eq!(process.has_lost(), is_told, "{what}: {}", process.opened());
        let begun = process.state(Way::Up).unwrap();
        let from = if is_lost { committed.on_disk } else { committed.in_memory };
        assert!(
            committed.place_of(&begun, from).is_some(),
            "{what}: the state differs from every state that may be found"
        );
        committed = Committed::new(begun);
        work(&process, &mut random, &mut committed, figures);
        process.kill();
        figures.crashes += 1;
        let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
        let region = memory.region().expect("the machine has used it");
        let image = disk.crash_image(mode, random.next_u64());
        let kept = random.below(11);
        if write_back == WriteBack::Simulated {
            // Checks all of the region, even if memory has a header from a time when the region was smaller.
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
                "{what}, {mode:?}: of {} commits {} were acknowledged: {}",
                committed.last(),
                committed.in_memory,
                wanted.difference(&found)
            );
        };
        figures.unanswered_found += u64::from(place > committed.in_memory);
        // The opening crashes, too. The memory is then in the state before the opening.
        let mut walk = image.crash_images();
        walk.advance_to(random.index(walk.end() + 1));
        let mode = LossMode::ALL[random.index(LossMode::ALL.len())];
        let again = walk.image(mode, random.next_u64());
        let found_again = look(&again, layout, &region, write_back, &what);
        assert!(found_again == found, "{what}: after a crash of opening, {mode:?}: {}", found.difference(&found_again));
        figures.within += 1;
        (disk, memory) = (image.crash_image(LossMode::KeepAll, 0), holding(&region, write_back));
        // The next life begins with the memory from before this opening, although the opening has put all commits on
        // the disk.
        committed.in_memory = place;
    }
}

fn holding(region: &Region, write_back: WriteBack) -> SharedMemory {
    let memory = SharedMemory::lasting(is_lasting(write_back));
    memory.put(region.clone());
    memory
}

/// Restarts the machine with that memory. Returns the state that is found.
fn look(disk: &SimDisk, layout: Layout, region: &Region, write_back: WriteBack, what: &str) -> State {
    let machine = Machine::with_memory(disk.clone(), layout, holding(region, write_back));
    let process = machine.start().unwrap_or_else(|trouble| panic!("{what}: opening failed: {trouble}"));
    assert!(
        !process.has_lost(),
        "{what}: commits are reported as lost, although the memory was kept: {}",
        process.opened()
    );
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
        "figures: {} crashes of a system, {} of the next opening, {} commits acknowledged from memory, {} lines of cache lost, \
         {} times an unacknowledged commit was found, {} memories lost and reported; 0 lost, 0 torn",
        figures.crashes,
        figures.within,
        figures.answered,
        figures.lines_lost,
        figures.unanswered_found,
        figures.memories_lost
    );
    assert!(figures.answered > figures.crashes, "too few commits were acknowledged from memory");
}

#[test]
fn answered_commits_survive_with_the_cache() {
    many(WriteBack::None);
}

#[test]
fn answered_commits_survive_the_loss_of_the_cache() {
    many(WriteBack::Simulated);
}
