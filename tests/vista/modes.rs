//! The modes in which the children of `killed` use recoverable memory: the work until the kill, and the opening and the
//! check of the files after the kill.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rvm::Rvm;
use vista::{Guard, Options, Segment};

use crate::business::{self, Draw};
use crate::{boxes, several, typed};

const BYTES: u64 = 256 << 10;
/// The longest ranges and blocks, in bytes.
const LONGEST: u64 = 5000;
/// The longest ranges and blocks in the modes in which the undo log and the heap grow, or much is rolled back.
const LONG: u64 = 100_000;
/// The largest flat part in the mode in which it grows.
const BYTES_MAX: u64 = 4 << 20;
/// Offset in a region's header of the number of the boot (docs/formats/region.md).
const BOOT: u64 = 32;

/// A way to use recoverable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Declared ranges and a list of blocks.
    Ranges,
    /// Declared ranges and a list of blocks, with a guard against other stores.
    Guarded,
    /// Automatic ranges.
    Automatic,
    /// The flat part, the heap and the undo log become longer.
    Growing,
    /// Vectors and maps.
    Typed,
    /// Values in boxes.
    Boxes,
    /// Values in boxes, by several threads.
    BoxesOfThreads,
    /// Declared ranges and blocks by several threads.
    Threads,
    /// Checkpoints, and segments that are restored from them.
    Checkpoints,
    /// Declared ranges and a list of blocks. The process that recovers the segment is killed, too.
    Recovery,
    /// A redo log on a disk.
    Rvm,
    /// A redo log in memory.
    RvmOnRio,
}

impl Mode {
    pub const ALL: [Mode; 12] = [
        Mode::Ranges,
        Mode::Guarded,
        Mode::Automatic,
        Mode::Growing,
        Mode::Typed,
        Mode::Boxes,
        Mode::BoxesOfThreads,
        Mode::Threads,
        Mode::Checkpoints,
        Mode::Recovery,
        Mode::Rvm,
        Mode::RvmOnRio,
    ];

    /// Returns the mode named by the segment's directory.
    pub fn of(path: &Path) -> Mode {
        let name = path.file_name().unwrap().to_str().unwrap();
        Mode::ALL.into_iter().find(|mode| mode.name() == name).unwrap()
    }

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns whether the directory is in memory. A checkpoint is synced, which takes long on a busy disk. In memory,
    /// a kill loses no bytes of a file either.
    pub fn is_in_memory(self) -> bool {
        matches!(self, Mode::RvmOnRio | Mode::Checkpoints)
    }

    /// Returns whether a kill leaves a file of the segment with an undo log.
    pub fn has_undo(self) -> bool {
        !matches!(self, Mode::Rvm | Mode::RvmOnRio)
    }

    fn options(self, is_written_back: bool) -> Options {
        let options = Options::new(0).write_back(is_written_back);
        match self {
            Mode::Guarded => options.guard(Guard::Pages),
            _ => options,
        }
    }

    /// Opens the segment, or makes it if it is missing.
    fn open(self, directory: &Path, is_written_back: bool) -> vista::Result<Segment> {
        let (path, options) = (directory.join("segment"), self.options(is_written_back));
        if !path.exists() {
            drop(Options::new(BYTES).grows_to(BYTES_MAX).open(&path)?);
        }
        match self {
            Mode::Checkpoints => options.open_or_restore(&path, &directory.join("checkpoint")),
            _ => options.open(&path),
        }
    }

    /// The child's part: changes the contents of the directory until it is killed.
    pub fn change(self, directory: &Path, seed: u64) {
        if !self.has_undo() {
            return change_by_redo(directory, seed);
        }
        tell("\nopening");
        let mut segment = self.open(directory, seed % 4 == 0).unwrap();
        let (mut draw, before) = (Draw(seed), self.judge_segment(&segment).unwrap());
        let ended = AtomicU64::new(before);
        let tell_of = |ended: u64| {
            if ended % 64 == 0 {
                tell(&ended.to_string())
            }
        };
        let one_more = || tell_of(ended.fetch_add(1, Ordering::SeqCst) + 1);
        match self {
            Mode::Threads => {
                let threads = segment.share_by(several::STRIPE).unwrap();
                return several::change(&threads, seed, u64::MAX, LONGEST, &|_| one_more());
            }
            Mode::BoxesOfThreads => return boxes::change_together(segment, several::STRIPE, seed, &one_more),
            Mode::Boxes => return boxes::change_alone(&mut segment, seed, &one_more),
            Mode::Checkpoints => return change_and_copy(&mut segment, directory, draw),
            _ => {}
        }
        loop {
            let done = match self {
                Mode::Automatic => business::transact_automatically(&mut segment, &mut draw, LONGEST),
                Mode::Typed => typed::transact(&mut segment, &mut draw),
                Mode::Growing | Mode::Recovery => business::transact(&mut segment, &mut draw, LONG),
                _ => business::transact(&mut segment, &mut draw, LONGEST),
            };
            if let Some(ended) = done {
                tell_of(ended);
            }
            if self == Mode::Growing && draw.below(8) == 0 {
                let longer = segment.bytes().len() as u64 + draw.below(100_000);
                segment.grow(longer.min(BYTES_MAX)).unwrap();
            }
        }
    }

    /// The part of a child that only opens the segment, and may be killed while it rolls back.
    pub fn recover(self, directory: &Path, seed: u64) {
        tell("\nopening");
        drop(self.open(directory, seed % 4 == 0).unwrap());
    }

    fn judge_segment(self, segment: &Segment) -> Result<u64, String> {
        match self {
            Mode::Typed => typed::judge(segment),
            Mode::Boxes | Mode::BoxesOfThreads => boxes::judge(segment),
            Mode::Threads => several::judge(segment),
            _ => business::judge(segment),
        }
    }

    /// Returns the number of ended transactions, and whether a transaction was rolled back. If a part is torn, returns
    /// its description.
    pub fn judge(self, directory: &Path) -> Result<(u64, bool), String> {
        if !self.has_undo() {
            let memory = open_redo(directory, 1).map_err(|error| error.to_string())?;
            return Ok((business::judge(memory.segment())?, false));
        }
        let segment = self.open(directory, false).map_err(|error| error.to_string())?;
        Ok((self.judge_segment(&segment)?, segment.rolled_back() != 0 || segment.is_restored()))
    }
}

/// Prints a line for the parent process.
fn tell(what: &str) {
    let mut told = std::io::stdout().lock();
    writeln!(told, "{what}").unwrap();
}

/// Makes checkpoints until the kill, and reports only transactions that are in a checkpoint.
fn change_and_copy(segment: &mut Segment, directory: &Path, mut draw: Draw) {
    loop {
        let mut last = None;
        for _ in 0..draw.below(20) {
            last = business::transact(segment, &mut draw, LONGEST).or(last);
        }
        segment.checkpoint(directory.join("checkpoint")).unwrap();
        if let Some(ended) = last {
            tell(&ended.to_string());
        }
    }
}

/// Simulates a crash of the machine under a segment in use: the number of the boot in the file differs from the present
/// boot.
pub fn tear(directory: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(directory.join("segment")).unwrap();
    file.write_all_at(&[0x5a; 16], BOOT).unwrap();
}

fn open_redo(directory: &Path, group: u32) -> rvm::Result<Rvm> {
    // The log is small, so that it is truncated often.
    let options = rvm::Options::of(Options::new(BYTES).anywhere()).log_bytes(128 << 10).group(group);
    options.memory(memory_of(directory)).open(directory)
}

/// Returns the directory of the memory that ends with the process. The directory stays empty; the parent removes it.
pub fn memory_of(directory: &Path) -> PathBuf {
    let number = directory.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let memory = Path::new("/dev/shm").join(format!("vista-killed{number}"));
    std::fs::create_dir_all(&memory).unwrap();
    memory
}

impl business::Announces for rvm::Txn<'_> {
    fn announce(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()> {
        rvm::Txn::announce(self, ranges)
    }
}

fn change_by_redo(directory: &Path, seed: u64) {
    tell("\nopening");
    let group = if seed % 2 == 0 { 1 } else { 4 };
    let (mut memory, mut draw) = (open_redo(directory, group).unwrap(), Draw(seed));
    loop {
        let mut txn = memory.begin().unwrap();
        match business::change(&mut txn, &mut draw, LONGEST) {
            // The transactions of a group that is not full may be lost.
            Some(ended) => {
                txn.end().unwrap();
                tell(&(ended + 1).saturating_sub(u64::from(group)).to_string());
            }
            None => txn.abort(),
        }
    }
}
