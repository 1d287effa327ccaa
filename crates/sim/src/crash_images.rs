//! Crash images. A walk along the trace of a disk can make, at each position, the disk that a power cut at that
//! position would leave.
//!
//! The walker keeps two states of the whole disk: `durable` has the changes that syncs have made safe, `current` has
//! all changes. A list holds the unsynced changes between them. An image is a fork of `durable` with the changes that
//! happened to reach the disk.
//!
//! A disk behind a page cache never writes only the bytes of one call: it writes whole sectors with their contents in
//! the cache at that moment. So an unsynced write remembers the blocks that it changed *with their contents just after
//! the write*, and a kept sector also has bytes of earlier writes.
//!
//! Each change of a name can be lost by itself, which is harsher than a journaling filesystem. But if a change is lost,
//! all later changes of the same name are lost too, because a directory's entry is written whole.
//!
//! Invariants
//! 1. Every synced change is in every image, whatever the mode and the seed.
//! 2. Equal trace, position, mode and seed give equal images.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::content::{index, offset, Block, BLOCK_BYTES, SECTOR_BYTES};
use crate::crash_disk::{Fixture, SimDisk};
use crate::fault::Counters;
use crate::loss::LossMode;
use crate::node::NodeId;
use crate::random::Random;
use crate::trace::{Change, TraceEntry};
use crate::tree::Tree;

/// A change that no sync has covered yet.
#[derive(Debug, Clone)]
struct Unsynced {
    change: Change,
    /// For a write, the blocks that it changed, with their contents just after the write. `bytes_after` is the file's
    /// length at that moment.
    after: Vec<Block>,
    bytes_after: u64,
}

impl Unsynced {
    /// Returns the file and the bytes of a write; `None` for any other change, which cannot be torn.
    fn extent(&self) -> Option<(NodeId, Range<usize>)> {
        match &self.change {
            Change::Write { file, offset, bytes, .. } => {
                let start = index(*offset);
                Some((*file, start..start + bytes.len()))
            }
            _ => None,
        }
    }

    /// Returns the numbers of the pieces into which the change can be torn. A piece has `unit` bytes; pieces are
    /// counted from the file's beginning.
    fn pieces(&self, unit: usize) -> Range<usize> {
        match self.extent() {
            Some((_, range)) if !self.is_whole() => range.start / unit..range.end.div_ceil(unit),
            _ => 0..1,
        }
    }

    /// Returns the numbers of the blocks that a write changed.
    fn blocks(&self) -> Range<usize> {
        self.extent().map_or(0..0, |(_, range)| range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES))
    }

    /// Returns whether the disk has promised to write all bytes or none.
    fn is_whole(&self) -> bool {
        matches!(self.change, Change::Write { is_whole: true, .. })
    }

    /// Applies the whole change, and nothing else, to `image`.
    fn keep(&self, image: &mut Tree) {
        let Some((file, range)) = self.extent() else {
            image.apply(&self.change);
            return;
        };
        let content = image.content_mut(file);
        for number in self.blocks() {
            let start = number * BLOCK_BYTES;
            let part = range.start.max(start) - start..range.end.min(start + BLOCK_BYTES) - start;
            content.put(number, part, self.block(number));
        }
        content.extend(offset(range.end));
    }

    /// Applies one piece of the change to `image`, with the bytes that the cache had just after the change.
    fn keep_piece(&self, image: &mut Tree, unit: usize, piece: usize) {
        let Some((file, _)) = self.extent().filter(|_| !self.is_whole()) else {
            return self.keep(image);
        };
        let content = image.content_mut(file);
        let start = piece * unit;
        let number = start / BLOCK_BYTES;
        let part = start % BLOCK_BYTES..start % BLOCK_BYTES + unit;
        content.put(number, part, self.block(number));
        content.extend(offset(start + unit).min(self.bytes_after));
    }

    fn block(&self, number: usize) -> &Block {
        &self.after[number - self.blocks().start]
    }

    fn is_name(&self) -> bool {
        self.change.names().next().is_some()
    }

    fn is_length(&self) -> bool {
        matches!(self.change, Change::SetLen { .. } | Change::Allocate { .. })
    }
}

/// The names that have lost a change. All later changes of these names are lost too.
#[derive(Debug, Default)]
struct LostNames(BTreeSet<(NodeId, Arc<str>)>);

impl LostNames {
    /// Returns whether the change is kept. The change is kept if `is_kept` is true and no earlier change of its names
    /// was lost.
    fn may_keep(&mut self, change: &Change, is_kept: bool) -> bool {
        let directory = change.node();
        let is_kept = is_kept && change.names().all(|name| !self.0.contains(&(directory, name.clone())));
        if !is_kept {
            self.0.extend(change.names().map(|name| (directory, name.clone())));
        }
        is_kept
    }
}

/// Counts of kept and lost changes of one image. The counts show whether the image's mode was active.
#[derive(Debug, Default)]
struct Tally {
    kept: usize,
    lost: usize,
    torn: usize,
    overtaken: bool,
    names_lost: usize,
    lengths_lost: usize,
}

impl Tally {
    fn count(&mut self, change: &Unsynced, pieces_kept: usize, pieces: usize) {
        if pieces_kept > 0 {
            self.overtaken |= self.lost > 0;
            self.kept += 1;
        }
        if pieces_kept < pieces {
            self.lost += 1;
            self.names_lost += usize::from(change.is_name());
            self.lengths_lost += usize::from(change.is_length());
        }
        self.torn += usize::from(pieces_kept > 0 && pieces_kept < pieces);
    }

    fn is_active(&self, mode: LossMode) -> bool {
        match mode {
            LossMode::Torn512 | LossMode::Torn4096 => self.torn > 0,
            LossMode::Prefix | LossMode::PerFile => self.kept > 0 && self.lost > 0,
            LossMode::Reordered => self.overtaken,
            LossMode::DropAll => self.lost > 0,
            LossMode::KeepAll => self.kept > 0,
        }
    }
}

/// A walk along a disk's trace. At each step the walk can make the disk that a crash there would leave.
#[derive(Debug, Clone)]
pub struct CrashImages {
    trace: Arc<[TraceEntry]>,
    position: usize,
    durable: Tree,
    current: Tree,
    unsynced: Vec<Unsynced>,
    fixture: Fixture,
}

impl SimDisk {
    /// Starts a walk along all changes so far, to make crash images.
    pub fn crash_images(&self) -> CrashImages {
        let (base, trace, fixture) = self.recorded();
        CrashImages::new(base, trace, fixture)
    }

    /// Makes the disk that a crash would leave after the first `io_index` changes. Each call walks to that place from
    /// the beginning. To make many images, walk once with [`SimDisk::crash_images`].
    pub fn image_at(&self, io_index: usize, mode: LossMode, seed: u64) -> SimDisk {
        let mut images = self.crash_images();
        images.advance_to(io_index);
        images.image(mode, seed)
    }

    /// Makes the disk that a crash now would leave.
    pub fn crash_image(&self, mode: LossMode, seed: u64) -> SimDisk {
        self.image_at(usize::MAX, mode, seed)
    }
}

impl CrashImages {
    fn new(base: Tree, trace: Arc<[TraceEntry]>, fixture: Fixture) -> CrashImages {
        CrashImages { trace, position: 0, durable: base.clone(), current: base, unsynced: Vec::new(), fixture }
    }

    /// Returns the number of changes before the crash of the next image. The crash comes after the change with I/O
    /// index `position - 1` has taken effect, and before the next change.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the position of the walk's end.
    pub fn end(&self) -> usize {
        self.trace.len()
    }

    /// Returns the number of changes that no sync has covered at this position. If it is 0, all modes give the same
    /// image.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Advances by one change and returns it, `None` at the end.
    pub fn advance(&mut self) -> Option<&TraceEntry> {
        let entry = self.trace.get(self.position)?.clone();
        self.position += 1;
        self.take_in(&entry.change);
        self.trace.get(self.position - 1)
    }

    /// Advances to `position`, or to the end if that comes first.
    ///
    /// # Panics
    /// If `position` is before the walk's position: a walk cannot go backward.
    pub fn advance_to(&mut self, position: usize) {
        assert!(position >= self.position, "the walk is at {} already, beyond {position}", self.position);
        while self.position < position && self.advance().is_some() {}
    }

    /// Makes the disk that a crash at this position leaves. That disk can be used, everything on it is durable, and its
    /// trace is empty. `seed` also decides the new disk's random choices.
    pub fn image(&self, mode: LossMode, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let mut tally = Tally::default();
        let mut tree = match mode {
            LossMode::Torn512 => self.torn(SECTOR_BYTES, &mut random, &mut tally),
            LossMode::Torn4096 => self.torn(BLOCK_BYTES, &mut random, &mut tally),
            LossMode::Prefix => self.prefix(&mut random, &mut tally),
            LossMode::Reordered => self.reordered(&mut random, &mut tally),
            LossMode::PerFile => self.per_file(&mut random, &mut tally),
            LossMode::DropAll => {
                self.unsynced.iter().for_each(|change| tally.count(change, 0, 1));
                self.durable.clone()
            }
            LossMode::KeepAll => {
                self.unsynced.iter().for_each(|change| tally.count(change, 1, 1));
                self.current.clone()
            }
        };
        let counters = &self.fixture.counters;
        if tally.is_active(mode) {
            Counters::add(counters.of_mode(mode));
        }
        if tally.names_lost > 0 {
            Counters::add(&counters.name_lost);
        }
        if tally.lengths_lost > 0 {
            Counters::add(&counters.length_lost);
        }
        tree.forget_unnamed();
        SimDisk::of_tree(tree, random.next_u64(), self.fixture.clone())
    }

    fn take_in(&mut self, change: &Change) {
        self.durable.make_node(change);
        self.current.make_node(change);
        match change {
            Change::Sync { .. } | Change::SyncDirectory { .. } => self.sync(change.node()),
            Change::SyncFailed { node, seed } => self.fail_sync(*node, &mut Random::new(*seed)),
            Change::Damage { .. } => {
                self.durable.apply(change);
                self.current.apply(change);
            }
            _ => {
                self.current.apply(change);
                let mut unsynced = Unsynced { change: change.clone(), after: Vec::new(), bytes_after: 0 };
                if let Some((file, _)) = unsynced.extent() {
                    let content = self.current.content(file);
                    unsynced.after = unsynced.blocks().map(|number| content.block(number).clone()).collect();
                    unsynced.bytes_after = content.len();
                }
                self.unsynced.push(unsynced);
            }
        }
    }

    fn sync(&mut self, node: NodeId) {
        let durable = &mut self.durable;
        self.unsynced.retain(|unsynced| {
            let is_covered = unsynced.change.node() == node;
            if is_covered {
                unsynced.keep(durable);
            }
            !is_covered
        });
    }

    /// Applies a failed sync. The kernel then treats every byte as clean, so a change that has not reached the disk is
    /// lost. Reads still return the lost bytes from the cache until the crash.
    fn fail_sync(&mut self, node: NodeId, random: &mut Random) {
        let durable = &mut self.durable;
        let mut is_lost = false;
        let mut lost_names = LostNames::default();
        self.unsynced.retain(|unsynced| {
            if unsynced.change.node() != node {
                return true;
            }
            for piece in unsynced.pieces(BLOCK_BYTES) {
                if lost_names.may_keep(&unsynced.change, random.coin()) {
                    unsynced.keep_piece(durable, BLOCK_BYTES, piece);
                } else {
                    is_lost = true;
                }
            }
            false
        });
        self.current.take_node(node, &self.durable);
        if is_lost {
            Counters::add(&self.fixture.counters.failed_sync_lost);
        }
    }

    fn torn(&self, unit: usize, random: &mut Random, tally: &mut Tally) -> Tree {
        let mut image = self.durable.clone();
        // The share of whole changes is random, from zero to seven eighths, so that losses of single changes occur too.
        let whole_of_eight = random.below(8);
        let mut lost_names = LostNames::default();
        for change in &self.unsynced {
            let pieces = change.pieces(unit);
            let cut = pieces.start + random.index(pieces.len() + 1);
            let manner = if random.chance(whole_of_eight, 8) { Manner::Whole } else { Manner::any(random) };
            let mut kept = 0;
            for piece in pieces.clone() {
                let is_kept = match manner {
                    Manner::Whole => true,
                    Manner::Lost => false,
                    Manner::Head => piece < cut,
                    Manner::Tail => piece >= cut,
                    Manner::Holes => random.coin(),
                };
                if lost_names.may_keep(&change.change, is_kept) {
                    change.keep_piece(&mut image, unit, piece);
                    kept += 1;
                }
            }
            tally.count(change, kept, pieces.len());
        }
        image
    }

    fn prefix(&self, random: &mut Random, tally: &mut Tally) -> Tree {
        let mut image = self.durable.clone();
        let cut = random.index(self.unsynced.len() + 1);
        for (at, change) in self.unsynced.iter().enumerate() {
            if at < cut {
                change.keep(&mut image);
            }
            tally.count(change, usize::from(at < cut), 1);
        }
        image
    }

    fn reordered(&self, random: &mut Random, tally: &mut Tally) -> Tree {
        let mut image = self.durable.clone();
        let kept_of_eight = 1 + random.below(7);
        let mut lost_names = LostNames::default();
        let mut pieces = Vec::new();
        for (at, change) in self.unsynced.iter().enumerate() {
            let before = pieces.len();
            let all = change.pieces(SECTOR_BYTES);
            let count = all.len();
            let kept = all.filter(|_| lost_names.may_keep(&change.change, random.chance(kept_of_eight, 8)));
            pieces.extend(kept.map(|piece| (at, piece)));
            tally.count(change, pieces.len() - before, count);
        }
        // Changes of names keep their order among themselves: no filesystem reorders two renamings.
        let (names, mut pieces): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|(at, _)| self.unsynced[*at].is_name());
        random.shuffle(&mut pieces);
        tally.overtaken |= pieces.windows(2).any(|pair| pair[0].0 > pair[1].0);
        for (at, piece) in pieces.into_iter().chain(names) {
            self.unsynced[at].keep_piece(&mut image, SECTOR_BYTES, piece);
        }
        image
    }

    fn per_file(&self, random: &mut Random, tally: &mut Tally) -> Tree {
        let mut image = self.durable.clone();
        let mut counts = BTreeMap::<NodeId, usize>::new();
        for change in &self.unsynced {
            *counts.entry(change.change.node()).or_default() += 1;
        }
        let mut kept_of_node: BTreeMap<NodeId, usize> = counts
            .into_iter()
            .map(|(node, count)| match random.below(3) {
                0 => (node, 0),
                1 => (node, count),
                _ => (node, random.index(count + 1)),
            })
            .collect();
        for change in &self.unsynced {
            let left = kept_of_node.get_mut(&change.change.node()).expect("every node was counted above");
            let is_kept = *left > 0;
            if is_kept {
                *left -= 1;
                change.keep(&mut image);
            }
            tally.count(change, usize::from(is_kept), 1);
        }
        image
    }
}

/// The fate of one torn change.
#[derive(Clone, Copy)]
enum Manner {
    Whole,
    Lost,
    Head,
    Tail,
    Holes,
}

impl Manner {
    fn any(random: &mut Random) -> Manner {
        [Manner::Lost, Manner::Head, Manner::Tail, Manner::Holes][random.index(4)]
    }
}

#[cfg(test)]
mod tests;
