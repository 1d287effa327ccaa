//! Damages files and judges the bytes read from them.
//!
//! Bits are flipped, and blocks are zeroed, exchanged or replaced by an older version, in every file of images that
//! were closed in good order and of images that crashed. Afterwards every read must return the right data or an error.
//! There are two exceptions. After a crash, damage to the last flush of the log cannot be told from a write that the
//! crash cut off (PROTOCOLS L2). An older version of a whole data page has a correct checksum; such answers are
//! counted separately.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use libtp::Durability;
use libtp_sim::{Change, CrashImages, LossMode, NodeId, Random, SimDisk, TraceEntry};

use crate::library::{Layout, Machine, Process, Trouble, Way, LATE_TREE, LINES, LISTS, SETS, TREES};
use crate::oracle::{brief, name, Allowed, History, Place, State, Table, Value};
use crate::workload::{Plan, Run};

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One bit is flipped.
    Bit,
    /// A sector is zeroed.
    ZeroSector,
    /// A block is zeroed.
    ZeroBlock,
    /// Two blocks of the file change places.
    Swap,
    /// A block is replaced by its earlier version.
    Stale,
}

const KINDS: [Kind; 5] = [Kind::Bit, Kind::ZeroSector, Kind::ZeroBlock, Kind::Swap, Kind::Stale];
const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// The end of the control file's name.
const CONTROL: &str = "control";

/// One damage.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The damaged file.
    pub path: String,
    /// The kind of damage.
    pub kind: Kind,
    /// The changed offsets, each with its new bytes.
    pub changes: Vec<(usize, Vec<u8>)>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<usize> = self.changes.iter().map(|(at, _)| *at).collect();
        write!(f, "{:?} of {} at {places:?}", self.kind, self.path)
    }
}

/// The effect of damage on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The image was not opened; the error said why.
    Refused,
    /// The image was opened, and some reads failed.
    ReadsFailed,
    /// All reads return the right data in spite of the damage.
    None,
    /// An old version of a data page was taken for the right one.
    StalePage,
}

/// An image to damage, and the states that may be read from it.
pub struct DamagedImage {
    image: SimDisk,
    older: SimDisk,
    layout: Layout,
    allowed: Allowed,
    /// The flushes of the log; empty if the image was closed in good order.
    flushes: Flushes,
    history: History,
    seed: u64,
}

/// The number of images made from one workload. The last one was closed in good order; the others crashed.
pub const IMAGES: usize = 10;

/// Returns the workload whose images are damaged.
pub fn plan(seed: u64) -> Plan {
    Plan { transactions: 150, ..Plan::full(seed) }
}

impl DamagedImage {
    /// Returns image `number` of the [`IMAGES`] images at equal steps along the workload.
    pub fn of_run(seed: u64, run: &Run, number: usize) -> DamagedImage {
        let mut walk = run.machine.disk.crash_images();
        let mut older = walk.clone();
        let place = walk.end() * (number + 1) / IMAGES;
        older.advance_to(place * 3 / 4);
        walk.advance_to(place);
        let mode = if number % 2 == 0 { LossMode::DropAll } else { LossMode::KeepAll };
        DamagedImage::new(seed, run, &walk, &older, mode)
    }

    /// Returns the images that a crash leaves just before each write of the control file that follows a flush of the
    /// log. The control file's slots are oldest at this moment. If one slot is damaged, the other must still know every
    /// incarnation of the log that has records.
    pub fn before_control_writes(seed: u64, run: &Run) -> Vec<DamagedImage> {
        let places = before_control_writes(&run.machine.disk.trace());
        let mut walk = run.machine.disk.crash_images();
        let older = walk.clone();
        let image = |place| {
            walk.advance_to(place);
            DamagedImage::new(seed, run, &walk, &older, LossMode::DropAll)
        };
        places.into_iter().map(image).collect()
    }

    /// Returns the image that a crash leaves at the position of `walk`; at the walk's end the environment was closed in
    /// good order. `older` is a walk at an earlier position.
    fn new(seed: u64, run: &Run, walk: &CrashImages, older: &CrashImages, mode: LossMode) -> DamagedImage {
        let position = walk.position();
        let history = run.history_at(position);
        let is_closed = position == walk.end();
        let allowed = if is_closed { history.allowed_at_end() } else { history.allowed_at(position) };
        let trace = run.machine.disk.trace();
        let flushes = match is_closed {
            true => Flushes::default(),
            false => flushes(&trace[..position], mode == LossMode::KeepAll),
        };
        DamagedImage {
            image: walk.image(mode, seed),
            older: older.image(LossMode::KeepAll, seed),
            layout: Layout::of_seed(seed),
            allowed,
            flushes,
            history: history.clone(),
            seed,
        }
    }

    /// Chooses random damage that changes at least one byte.
    pub fn any_damage(&self, random: &mut Random) -> Damage {
        let paths = self.image.paths();
        loop {
            let path = &paths[random.index(paths.len())];
            let kind = KINDS[random.index(KINDS.len())];
            let bytes = self.image.file_bytes(path).unwrap_or_default();
            let changes = match bytes.len() {
                0 => continue,
                _ => self.changes(kind, path, &bytes, random),
            };
            if changes.iter().any(|(at, new)| bytes[*at..*at + new.len()] != new[..]) {
                return Damage { path: path.clone(), kind, changes };
            }
        }
    }

    /// Returns one damage for each slot of the control file, which zeroes the slot.
    pub fn slots_of_control(&self) -> Vec<Damage> {
        let zeroed = |at| self.zeroed(Kind::ZeroBlock, CONTROL, at, BLOCK);
        [BLOCK, 2 * BLOCK].into_iter().filter_map(zeroed).collect()
    }

    /// Returns damage to the four flushes before the last flush. Only the log's later records prove that these flushes
    /// existed.
    pub fn flushes_before_the_last(&self) -> Vec<Damage> {
        let flushes = self.flushes.list.iter().rev().skip(1).take(4).flat_map(|flush| &flush.pieces);
        let first_sector = |range: &Range<usize>| range.start / SECTOR * SECTOR;
        flushes.filter_map(|(name, range)| self.zeroed(Kind::ZeroSector, name, first_sector(range), SECTOR)).collect()
    }

    /// Returns damage that zeroes `count` bytes at the offset `at`; `None` if they do not exist or are zero already.
    fn zeroed(&self, kind: Kind, name: &str, at: usize, count: usize) -> Option<Damage> {
        let path = self.image.paths().into_iter().find(|path| path.ends_with(name))?;
        let bytes = self.image.file_bytes(&path)?;
        let there = bytes.get(at..at + count)?;
        there.iter().any(|&byte| byte != 0).then(|| Damage { path, kind, changes: vec![(at, vec![0; count])] })
    }

    fn changes(&self, kind: Kind, path: &str, bytes: &[u8], random: &mut Random) -> Vec<(usize, Vec<u8>)> {
        let piece = |unit: usize, random: &mut Random| {
            let at = random.index(bytes.len().div_ceil(unit)) * unit;
            (at, unit.min(bytes.len() - at))
        };
        match kind {
            Kind::Bit => {
                let at = random.index(bytes.len());
                vec![(at, vec![bytes[at] ^ 1 << random.index(8)])]
            }
            Kind::ZeroSector | Kind::ZeroBlock => {
                let (at, count) = piece(if kind == Kind::ZeroBlock { BLOCK } else { SECTOR }, random);
                vec![(at, vec![0; count])]
            }
            Kind::Swap => {
                let ((one, first), (other, second)) = (piece(BLOCK, random), piece(BLOCK, random));
                let count = first.min(second);
                vec![(one, bytes[other..other + count].to_vec()), (other, bytes[one..one + count].to_vec())]
            }
            Kind::Stale => {
                let old = self.older.file_bytes(path).unwrap_or_default();
                let (at, count) = piece(BLOCK, random);
                let end = old.len().min(at + count).max(at);
                vec![(at, old.get(at..end).unwrap_or_default().to_vec())]
            }
        }
    }

    /// Damages a copy of the image, opens it and reads everything.
    ///
    /// # Errors
    /// A wrong answer, or an error that does not name the damage.
    pub fn open_and_read(&self, damage: &Damage) -> Result<Effect, String> {
        let disk = self.image.crash_image(LossMode::KeepAll, self.seed);
        for (at, bytes) in &damage.changes {
            disk.damage(&damage.path, *at as u64, bytes);
        }
        let machine = Machine::new(disk.clone(), self.layout);
        let process = match machine.start() {
            Ok(process) => process,
            Err(trouble) => return says_what(&trouble).map(|()| Effect::Refused),
        };
        let judged = self.judge(&process, damage);
        disk.halt();
        judged.map_err(|what| {
            let Allowed { least, most } = self.allowed;
            let reach = self.reach(damage);
            format!(
                "{what}; allowed commits: {least} to {most}, without the damaged end {reach} ({})",
                process.opened()
            )
        })
    }

    fn judge(&self, process: &Process, damage: &Damage) -> Result<Effect, String> {
        let allowed = Allowed { least: self.reach(damage), ..self.allowed };
        let read = read_all(process, &self.history.all_values(allowed))?;
        let judged = match read.whole {
            Some(state) => self.history.judge(&state, allowed).map(|_| ()),
            None => Ok(()),
        };
        let wrong = read.wrong.first().cloned().or(judged.err());
        match wrong {
            Some(_) if damage.kind == Kind::Stale && damage.path.ends_with(".tp") => Ok(Effect::StalePage),
            Some(wrong) => Err(format!("SILENT: {wrong}")),
            None if read.failed > 0 => Ok(Effect::ReadsFailed),
            None => Ok(Effect::None),
        }
    }

    /// Returns how many commits must be there. If damage hits a flush without a witness, all records from the first
    /// flush that it hits may be lost: nothing later in the log proves that they existed.
    fn reach(&self, damage: &Damage) -> usize {
        let is_hit = |flush: &&Flush| flush.meets(damage);
        let first = self.flushes.list.iter().find(is_hit);
        match first.filter(|_| self.flushes.without_witness().iter().any(|flush| flush.meets(damage))) {
            Some(first) => self.history.allowed_at(first.start).least.min(self.allowed.least),
            None => self.allowed.least,
        }
    }
}

/// Reads every place that was ever written, and every tree from both ends.
fn read_all(process: &Process, places: &BTreeMap<Place, Vec<Option<Value>>>) -> Result<Read, String> {
    let mut read = Read::default();
    let mut state = State::default();
    for (place, values) in places {
        match get(process, place) {
            Ok(found) if values.contains(&found) => state.put(place, found.as_ref()),
            Ok(found) => {
                let wanted: Vec<String> = values.iter().map(|value| brief(value.as_ref())).collect();
                read.wrong.push(format!(
                    "{} has {}, allowed: {}",
                    name(place),
                    brief(found.as_ref()),
                    wanted.join(" or ")
                ));
            }
            Err(trouble) => read.note(&trouble)?,
        }
    }
    for tree in TREES.into_iter().chain([LATE_TREE]) {
        for way in [Way::Up, Way::Down] {
            match scan(process, tree, way) {
                Ok(records) => read.compare(tree, way, &records, &state),
                Err(Trouble::Disorder(what)) => read.wrong.push(what),
                Err(trouble) => read.note(&trouble)?,
            }
        }
    }
    if read.failed == 0 {
        read.whole = Some(state);
    }
    Ok(read)
}

/// The results of reading a damaged image.
#[derive(Default)]
struct Read {
    failed: usize,
    wrong: Vec<String>,
    whole: Option<State>,
}

impl Read {
    fn note(&mut self, trouble: &Trouble) -> Result<(), String> {
        self.failed += 1;
        says_what(trouble)
    }

    /// Compares a scan that had no errors with the successful single reads. The scan and the reads must agree.
    fn compare(&mut self, tree: &'static str, way: Way, records: &[(Vec<u8>, Value)], state: &State) {
        let mut scanned = State::default();
        for (key, value) in records {
            scanned.put(&(Table::Tree(tree), key.clone()), Some(value));
        }
        let of_tree = state.records().iter().filter(|((table, _), _)| *table == Table::Tree(tree));
        let missing = of_tree.filter(|(place, value)| scanned.get(place) != Some(value)).count();
        let strange = scanned.records().keys().filter(|place| state.get(place).is_none()).count();
        if missing > 0 || (strange > 0 && self.failed == 0) {
            self.wrong.push(format!(
                "a scan {way:?} of {tree} differs from single reads: {missing} missing, {strange} extra"
            ));
        }
    }
}

fn get(process: &Process, place: &Place) -> Result<Option<Value>, Trouble> {
    for late in [LATE_TREE, LINES, LISTS, SETS] {
        if place.0 == Table::Tree(late) && !process.has_tree(late)? {
            return Ok(None);
        }
    }
    let txn = process.begin(Durability::Relaxed)?;
    process.get(&txn, place)
}

fn scan(process: &Process, tree: &'static str, way: Way) -> Result<Vec<(Vec<u8>, Value)>, Trouble> {
    if tree == LATE_TREE && !process.has_tree(LATE_TREE)? {
        return Ok(Vec::new());
    }
    let txn = process.begin(Durability::Relaxed)?;
    process.scan(&txn, tree, None, way, usize::MAX)
}

/// Checks that an error names the damaged file, page or LSN.
fn says_what(trouble: &Trouble) -> Result<(), String> {
    let text = trouble.to_string();
    let words = ["page", "LSN", "log.", ".tp", "control", "double", "file"];
    match words.iter().any(|word| text.contains(word)) {
        true => Ok(()),
        false => Err(format!("MUTE: an error does not name the damaged file, page or LSN: {text}")),
    }
}

/// Returns the positions in a trace just before each write of the control file, where the log was written since the
/// control file's previous write.
fn before_control_writes(trace: &[TraceEntry]) -> Vec<usize> {
    let (mut control, mut logs, mut is_flushed, mut places) = (Vec::new(), Vec::new(), false, Vec::new());
    for (at, entry) in trace.iter().enumerate() {
        match &entry.change {
            Change::CreateFile { name, file: node, .. } | Change::Rename { to: name, node, .. } => {
                control.extend(name.ends_with(CONTROL).then_some(*node));
                logs.extend(is_log_name(name).then_some(*node));
            }
            Change::Write { file, .. } if control.contains(file) => {
                if is_flushed {
                    places.push(at);
                }
                is_flushed = false;
            }
            Change::Write { file, .. } if logs.contains(file) => is_flushed = true,
            _ => {}
        }
    }
    places
}

fn is_log_name(name: &str) -> bool {
    name.starts_with("log.")
}

/// A flush of the log: the trace position of its first write, and the files and byte ranges that it wrote.
#[derive(Debug)]
struct Flush {
    start: usize,
    pieces: Vec<(String, Range<usize>)>,
}

impl Flush {
    fn meets(&self, damage: &Damage) -> bool {
        let touched = |at: usize, bytes: &[u8]| at..at + bytes.len();
        damage.changes.iter().any(|(at, bytes)| {
            let touched = touched(*at, bytes);
            let is_hit = |range: &Range<usize>| range.start < touched.end && touched.start < range.end;
            self.pieces.iter().any(|(path, range)| damage.path.ends_with(path.as_str()) && is_hit(range))
        })
    }
}

/// The flushes of a log, in order.
#[derive(Debug, Default)]
struct Flushes {
    list: Vec<Flush>,
    /// The last flush filled its segment. It may be the first part of a flush that would have continued in the next
    /// segment. Then its flush mark is missing, so the flush before it has no witness either.
    fills_segment: bool,
}

impl Flushes {
    /// Returns the flushes whose existence no later record proves after a crash.
    fn without_witness(&self) -> &[Flush] {
        &self.list[self.list.len().saturating_sub(1 + usize::from(self.fills_segment))..]
    }
}

/// Returns the flushes of the log, in order. The last flush is left out if no sync completed it and unsynced writes are
/// lost.
///
/// A flush that fills a segment's file syncs the file and continues in the next file: both parts are one flush.
fn flushes(trace: &[TraceEntry], keeps_unsynced: bool) -> Flushes {
    let mut names: BTreeMap<NodeId, String> = BTreeMap::new();
    let mut lengths: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut flushes: Vec<Flush> = Vec::new();
    let (mut is_open, mut fills_segment) = (false, false);
    for (at, entry) in trace.iter().enumerate() {
        match &entry.change {
            Change::CreateFile { name, file: node, .. } | Change::Rename { to: name, node, .. }
                if is_log_name(name) =>
            {
                names.insert(*node, name.to_string());
            }
            Change::Allocate { file, range } => drop(lengths.insert(*file, range.end)),
            Change::Write { file, offset, bytes, .. }
                if *offset >= BLOCK as u64 && bytes.iter().any(|byte| *byte != 0) =>
            {
                let Some(name) = names.get(file) else { continue };
                if !is_open && !fills_segment {
                    flushes.push(Flush { start: at, pieces: Vec::new() });
                }
                is_open = true;
                let start = usize::try_from(*offset).expect("a segment fits in memory");
                let end = start + bytes.len();
                fills_segment = lengths.get(file) == Some(&(end as u64));
                let flush = flushes.last_mut().expect("the first write begins a flush");
                flush.pieces.push((name.clone(), start..end));
            }
            Change::Sync { file } if names.contains_key(file) => is_open = false,
            _ => {}
        }
    }
    if is_open && !keeps_unsynced {
        flushes.pop();
        fills_segment = false;
    }
    Flushes { list: flushes, fills_segment }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_io::{Directory, OpenMode};

    #[test]
    fn the_last_flush_is_the_last_that_a_sync_completed() {
        let disk = SimDisk::new(1);
        let log = disk.open("log.00000001", OpenMode::Create).unwrap();
        let other = disk.open("bank.tp", OpenMode::Create).unwrap();
        log.allocate(0..8192).unwrap();
        log.write_at(&[0; 8192], 0).unwrap();
        log.sync().unwrap();
        log.write_at(b"first", 4096).unwrap();
        log.sync().unwrap();
        other.write_at(b"page", 8192).unwrap();
        let start = disk.io_index();
        log.write_at(b"second", 4200).unwrap();
        log.write_at(b"third", 4300).unwrap();
        log.sync().unwrap();
        log.write_at(b"unsynced", 4400).unwrap();
        let last = flushes(&disk.trace(), false).list.pop().unwrap();
        assert_eq!((last.start, last.pieces.len()), (start, 2));
        assert_eq!(flushes(&disk.trace(), true).list.pop().unwrap().start, disk.io_index() - 1);

        let next = disk.open("log.00000002", OpenMode::Create).unwrap();
        log.sync().unwrap();
        let start = disk.io_index();
        log.write_at(&[7; 3000], 8192 - 3000).unwrap();
        log.sync().unwrap();
        assert_eq!(flushes(&disk.trace(), false).without_witness().len(), 2, "the mark would be in the next segment");
        next.write_at(b"the rest of the flush", 4096).unwrap();
        next.sync().unwrap();
        assert_eq!(flushes(&disk.trace(), false).without_witness().len(), 1);
        let last = flushes(&disk.trace(), false).list.pop().unwrap();
        assert_eq!(last.start, start);
        assert!(last.meets(&Damage {
            path: "log/log.00000002".into(),
            kind: Kind::Bit,
            changes: vec![(4100, vec![1])]
        }));
        assert!(!last.meets(&Damage { path: "log.00000001".into(), kind: Kind::Bit, changes: vec![(4100, vec![1])] }));
    }
}
