//! Marks: what was changed since one is put back, and the log goes on from there.
//!
//! Paper: a departure; an abort of Vista's takes everything back. Records lie one behind the other, so a mark is where the next one
//! would begin, and stays that when the log moves to a longer area.
//!
//! Where records have checksums, those that are cut off have the number of the transaction that goes on. What is saved next lies over
//! them, and were one of them still there right behind it, and the zero in between not yet in memory, it would be put back once
//! more, over what it has nothing to do with. So none of them is a record any more before anything else is saved.
//!
//! If we die here: the log is cut when all is put back, and not before. Whoever rolls it back puts some of it back once more, which
//! is the same, and goes on with what was changed before the mark.

use super::{planted, words_of, Undo, WriteBack};
use crate::failpoint;

/// How far an undo log was. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoMark(usize);

/// A record that is cut off: where it begins, and its first word.
type Gone = (usize, u64);

impl Undo {
    /// How far the log is, while its sections know where it ends. What was announced before and is declared later is saved again.
    pub fn mark(&self) -> UndoMark {
        let top = self.take_top();
        self.set_top(top);
        // Its image may be older than the mark.
        self.checked.announced.set((0, 0));
        UndoMark(top)
    }

    /// Puts back what was saved since the mark, last to first, and forgets it; how many images there were. What was saved before
    /// stays.
    ///
    /// # Panics
    /// If the log is not so long, is not whole, or has an image of what lies outside of its region: nothing was put back then.
    pub fn roll_back_to(&self, mark: UndoMark) -> usize {
        let (UndoMark(start), UndoMark(top)) = (mark, self.mark());
        assert!(start <= top, "a mark is of the transaction that goes on");
        let gone: Vec<Gone> =
            self.records(start).into_iter().map(|record| (record, self.words[record].load())).collect();
        assert!(
            gone.iter().all(|(_, header)| self.is_there(*header)),
            "an undo log has images of what lies in its region"
        );
        let end = gone.last().map_or(start, |&(record, header)| record + 1 + words_of(header));
        assert_eq!(end, top, "an undo log has records up to its end: one was stored to");
        let is_cut_first = planted("undo: a part is cut off before it is put back");
        if is_cut_first {
            self.cut_off(start, &gone);
        }
        for &(record, header) in gone.iter().rev() {
            failpoint("undo: between two before-images of a part");
            self.apply(record, header);
        }
        if self.write_back != WriteBack::None && !planted("undo: a part is cut off before memory has what it was") {
            gone.iter().for_each(|(_, header)| self.write_back_stored(*header));
            self.write_back.fence();
        }
        failpoint("undo: a part put back, not cut off");
        if !is_cut_first {
            self.cut_off(start, &gone);
        }
        gone.len()
    }

    fn cut_off(&self, start: usize, gone: &[Gone]) {
        self.cut(start);
        // The list of their first words forgets them too: a transaction of many parts would keep them to its end.
        let mut headers = self.checked.headers.borrow_mut();
        let left = headers.len().saturating_sub(gone.len());
        headers.truncate(left);
        drop(headers);
        if self.write_back == WriteBack::None {
            return;
        }
        let are_left = planted("undo: what is cut off may be read behind what is saved next");
        for &(record, _) in &gone[..if are_left { gone.len().min(1) } else { gone.len() }] {
            self.words[record].publish(0);
            self.write_back.write_back(std::ptr::from_ref(&self.words[record]).cast(), 8);
        }
        self.write_back.fence();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Region, Undo, Word, WriteBack};

    #[test]
    fn what_was_cut_off_is_not_read_behind_what_is_saved_next() {
        for how in [WriteBack::None, WriteBack::Clflush] {
            let region = Region::anonymous(1 << 20).unwrap();
            let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
            region.set_write_back(how);
            let undo = Undo::open(&region, log);
            undo.settle();
            undo.save_bytes(place, &[1; 40]);
            let mark = undo.mark();
            (2..5).for_each(|image| undo.save_bytes(place + 100 * u64::from(image), &[image; 40]));
            assert_eq!(undo.roll_back_to(mark), 3);
            let there = region.undo_bytes(place + 200, 1)[0].load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(there, 2, "put back");
            let in_memory: Vec<u64> = undo.words.iter().map(Word::get).collect();
            undo.save_bytes(place + 500, &[5; 40]);
            if how != WriteBack::None {
                // The line with the zero behind it is not in memory yet.
                let top = undo.top();
                undo.words[top].init(in_memory[top]);
            }
            let saved: Vec<u64> = undo.saved().map(|(at, _)| at - place).collect();
            assert_eq!(saved, [0, 500]);
            assert_eq!(undo.roll_back(), 2);
        }
    }

    #[test]
    fn a_log_that_was_stored_to_is_put_back_to_no_mark() {
        let region = Region::anonymous(1 << 20).unwrap();
        let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
        let undo = Undo::open(&region, log);
        let mark = undo.mark();
        undo.save_bytes(place, &[1; 40]);
        let second = undo.top();
        undo.save_bytes(place + 100, &[2; 40]);
        undo.words[second].init(0);
        let went = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| undo.roll_back_to(mark)));
        assert!(went.is_err(), "a part of the part would be put back, and the rest would stand");
        let there = region.undo_bytes(place, 1)[0].load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(there, 0, "nothing is");
    }

    #[test]
    fn what_was_announced_before_a_mark_is_saved_again_when_it_is_declared() {
        let region = Region::anonymous(1 << 20).unwrap();
        let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
        region.set_write_back(WriteBack::Clflush);
        let undo = Undo::open(&region, log);
        undo.settle();
        undo.announce(|| undo.save_bytes(place, &[0; 40]));
        let mark = undo.mark();
        undo.save_bytes(place, &[1; 40]);
        assert_eq!(undo.roll_back_to(mark), 1);
        assert_eq!(undo.roll_back(), 1);
    }
}
