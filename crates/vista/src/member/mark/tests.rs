//! Parts of transactions on a segment of an environment, compared with a model of their results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::outside;
use crate::{Decision, Error, Holder, Judge, Mark, Member, Membership, Options, Survives};

const BYTES: usize = 16 << 10;
/// The handle at work on the segment.
const HOLDER: Holder = Holder { handle: 1, process: 1 };

fn open(path: &Path, is_written_back: bool) -> Member {
    let bytes = if path.exists() { 0 } else { BYTES as u64 };
    let options =
        Options::new(bytes).reserve(64 << 20).anywhere().survives(Survives::System).write_back(is_written_back);
    options.open_member(path, Membership { environment: [7; 16], number: 1 }).unwrap()
}

/// A judge that knows of no commit.
struct Nothing;

impl Judge for Nothing {
    type Error = Error;

    fn committed(&self, _: u64) -> Result<Option<Decision>, Error> {
        Ok(None)
    }
}

fn fill(member: &mut Member, at: u64, bytes: usize, value: u8) {
    member.set_range(at, bytes).unwrap().fill(value);
}

#[test]
fn ranges_declared_before_and_after_a_mark_are_restored_to_the_mark_and_then_to_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, is_written_back) in [false, true].into_iter().enumerate() {
        let mut member = open(&dir.path().join(nth.to_string()), is_written_back);
        member.begin(1, HOLDER).unwrap();
        fill(&mut member, 0, 100, 1);
        let outer = member.mark();
        fill(&mut member, 50, 100, 2);
        let inner = member.mark();
        fill(&mut member, 0, 200, 3);
        // Bytes declared twice are restored from their older image.
        fill(&mut member, 0, 10, 4);
        member.go_back(&inner).unwrap();
        let shown = |member: &Member| [0, 49, 50, 149, 150].map(|at| member.segment().bytes()[at]);
        assert_eq!(shown(&member), [1, 1, 2, 2, 0]);
        // No change was made since the mark.
        member.go_back(&inner).unwrap();
        let empty = member.mark();
        member.go_back(&empty).unwrap();
        assert_eq!(shown(&member), [1, 1, 2, 2, 0]);
        member.go_back(&outer).unwrap();
        assert_eq!(shown(&member), [1, 1, 1, 0, 0]);
        // The range is declared again, and is undone with all other ranges.
        fill(&mut member, 0, 200, 5);
        member.abort();
        assert_eq!(shown(&member), [0; 5]);
        // Going back to the beginning leaves nothing to be decided.
        member.begin(2, HOLDER).unwrap();
        fill(&mut member, 0, 200, 6);
        member.go_back(&Mark::default()).unwrap();
        assert!(!member.segment().undo.has_saved());
        fill(&mut member, 150, 1, 7);
        member.prepare().unwrap();
        member.end(Decision { incarnation: 1, lsn: 2 });
        assert_eq!(shown(&member), [0, 0, 0, 0, 7]);
    }
}

/// The undo log moves to a longer area after the mark.
#[test]
fn a_mark_is_valid_after_the_log_has_grown() {
    let dir = tempfile::tempdir().unwrap();
    let mut member = open(&dir.path().join("segment"), false);
    member.begin(1, HOLDER).unwrap();
    fill(&mut member, 0, BYTES, 1);
    let (mark, before) = (member.mark(), member.segment().undo.capacity());
    for value in 2..12 {
        fill(&mut member, 0, BYTES, value);
    }
    assert!(member.segment().undo.capacity() > before, "the log has not grown");
    member.go_back(&mark).unwrap();
    assert!(member.segment().bytes().iter().all(|&byte| byte == 1));
    member.abort();
    assert!(member.segment().bytes().iter().all(|&byte| byte == 0));
}

#[test]
fn a_rolled_back_part_loses_its_new_blocks_and_keeps_the_freed_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let mut member = open(&dir.path().join("segment"), false);
    member.begin(1, HOLDER).unwrap();
    let [first, second] = [0; 2].map(|_| member.malloc(100).unwrap());
    member.free(first).unwrap();
    let mark = member.mark();
    member.free(second).unwrap();
    let large = member.malloc(300_000).unwrap();
    fill(&mut member, large, 300_000, 1);
    let end = member.segment().get(large + 299_999, 1).is_ok();
    member.go_back(&mark).unwrap();
    assert!(end && member.segment().get(large + 299_999, 1).is_err(), "the block does not exist any more");
    assert!(matches!(member.free(first), Err(Error::NotAllocated { .. })), "the block was freed before the mark");
    member.free(second).unwrap();
    assert_eq!(member.malloc(300_000).unwrap(), large, "the room of the undone part is free again");
    member.go_back(&mark).unwrap();
    member.prepare().unwrap();
    member.end(Decision { incarnation: 1, lsn: 1 });
    assert_eq!(member.segment().verify().unwrap().blocks, 1, "only the second block exists");
}

/// A source of pseudorandom numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The expected contents of the segment.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    flat: Vec<u8>,
    /// Blocks, with their lengths and the value that fills them.
    blocks: BTreeMap<u64, (usize, u8)>,
    freed: BTreeSet<u64>,
}

impl Model {
    #[track_caller]
    fn is_shown_by(&self, member: &Member, what: &str) {
        assert!(member.segment().bytes() == self.flat, "{what}: the flat part");
        for (&at, &(bytes, value)) in &self.blocks {
            let block = member.segment().get(at, bytes).unwrap();
            assert!(block.iter().all(|&byte| byte == value), "{what}: the block at {at}");
        }
        assert_eq!(member.segment().verify().unwrap().blocks, self.blocks.len() as u64, "{what}");
    }

    fn any_block(&self, draw: &mut Draw) -> Option<u64> {
        let there: Vec<u64> = self.blocks.keys().filter(|at| !self.freed.contains(at)).copied().collect();
        (!there.is_empty()).then(|| there[draw.below(there.len())])
    }

    fn does_something(&mut self, member: &mut Member, draw: &mut Draw) {
        let value = u8::try_from(draw.below(256)).unwrap();
        match draw.below(6) {
            0 => {
                let most = if draw.below(20) == 0 { 100_000 } else { 2000 };
                let bytes = 1 + draw.below(most);
                let at = member.malloc(bytes as u64).unwrap();
                fill(member, at, bytes, value);
                self.blocks.insert(at, (bytes, value));
            }
            1 => {
                let Some(at) = self.any_block(draw) else { return };
                member.free(at).unwrap();
                self.freed.insert(at);
            }
            2 => {
                let Some(at) = self.any_block(draw) else { return };
                let block = self.blocks.get_mut(&at).unwrap();
                block.1 = value;
                fill(member, at, block.0, value);
            }
            _ => {
                let at = draw.below(BYTES);
                let most = if draw.below(20) == 0 { BYTES } else { 300 };
                let bytes = draw.below((BYTES - at).min(most) + 1);
                fill(member, at as u64, bytes, value);
                self.flat[at..at + bytes].fill(value);
            }
        }
    }
}

/// Transactions with nested parts, some of which are undone. The transactions commit, abort, or are left to a judge.
#[test]
fn nested_parts_agree_with_a_model() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let (path, is_written_back) = (dir.path().join(seed.to_string()), seed % 3 == 2);
        let (mut member, mut draw) = (open(&path, is_written_back), Draw(seed));
        let mut model = Model { flat: vec![0; BYTES], ..Model::default() };
        for txn in 1..40 {
            member.begin(txn, HOLDER).unwrap();
            let before = model.clone();
            let mut marks: Vec<(Mark, Model)> = vec![(Mark::default(), model.clone())];
            for step in 0..draw.below(40) {
                match draw.below(8) {
                    0 => marks.push((member.mark(), model.clone())),
                    1 => {
                        marks.truncate(1 + draw.below(marks.len()));
                        let (mark, then) = marks.last().unwrap();
                        member.go_back(mark).unwrap();
                        model = then.clone();
                        model.is_shown_by(&member, &format!("seed {seed}, transaction {txn}, step {step}"));
                    }
                    _ => model.does_something(&mut member, &mut draw),
                }
            }
            match draw.below(4) {
                0 => {
                    member.abort();
                    model = before;
                }
                1 => {
                    member.leave_to_log();
                    drop(member);
                    member = open(&path, is_written_back);
                    member.settle(&Nothing).unwrap();
                    model = before;
                }
                _ => {
                    member.prepare().unwrap();
                    member.end(Decision { incarnation: 1, lsn: txn });
                    let freed = std::mem::take(&mut model.freed);
                    model.blocks.retain(|at, _| !freed.contains(at));
                }
            }
            model.is_shown_by(&member, &format!("seed {seed}, after transaction {txn}"));
        }
    }
}

#[test]
fn outside_returns_the_parts_of_a_range_that_no_other_range_has() {
    assert_eq!(outside((10, 50), &[]), [(10, 50)]);
    assert_eq!(outside((10, 50), &[(0, 10), (50, 60)]), [(10, 50)]);
    assert_eq!(outside((10, 50), &[(40, 60), (20, 30), (0, 15)]), [(15, 20), (30, 40)]);
    assert_eq!(outside((10, 50), &[(20, 30), (0, 100)]), []);
}
