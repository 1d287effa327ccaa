//! Marks in the log: a rollback to a mark undoes the changes made since the mark, and the log continues from there.
//!
//! Paper: a departure; an abort of Vista undoes everything. Records are contiguous, so a mark is the place of the
//! next record, and stays valid when the log moves to a longer area.
//!
//! If records have checksums, a truncated record still has the sequence number of the running transaction. The next
//! record overwrites the first truncated record. If another truncated record then began right after the new record, and
//! the zero between the two were not in memory yet, recovery would store the image of the truncated record over
//! unrelated data. So every truncated record is made invalid before another record is saved.
//!
//! If we die here: the log is cut only after all images are restored. The repairing session restores some images a
//! second time, which changes nothing, and continues with the images before the mark.

use super::{planted, words_of, Undo, WriteBack};
use crate::failpoint;

/// A place in an undo log. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoMark(usize);

/// A record that is cut off: the index of its first word, and that word's value.
type Gone = (usize, u64);

impl Undo {
    /// Returns the log's end as a mark. Only for a log whose end is kept in the log's handle, not in a transaction's
    /// copy. A range announced before the mark and declared after it is saved again.
    pub fn mark(&self) -> UndoMark {
        let top = self.take_top();
        self.set_top(top);
        // An announced image may be older than the mark, and is therefore dropped.
        self.checked.announced.set((0, 0));
        UndoMark(top)
    }

    /// Restores the images saved since the mark, last to first, and discards them. Returns their number. Images from
    /// before the mark stay.
    ///
    /// # Panics
    /// If the log ends before the mark, is not whole, or has an image of a place outside its region. Nothing was
    /// restored then.
    pub fn roll_back_to(&self, mark: UndoMark) -> usize {
        let (UndoMark(start), UndoMark(top)) = (mark, self.mark());
        assert!(start <= top, "a mark belongs to the running transaction");
        let gone: Vec<Gone> =
            self.records(start).into_iter().map(|record| (record, self.words[record].load())).collect();
        assert!(gone.iter().all(|(_, header)| self.is_there(*header)), "an undo log has images of bytes in its region");
        let end = gone.last().map_or(start, |&(record, header)| record + 1 + words_of(header));
        assert_eq!(end, top, "the records of an undo log reach its end: a record was overwritten");
        let is_cut_first = planted("undo: records after a savepoint are cut before their images are restored");
        if is_cut_first {
            self.cut_off(start, &gone);
        }
        for &(record, header) in gone.iter().rev() {
            failpoint("undo: between two before-images of a savepoint");
            self.apply(record, header);
        }
        if self.write_back != WriteBack::None
            && !planted("undo: records after a savepoint are cut before the restored bytes are in memory")
        {
            gone.iter().for_each(|(_, header)| self.write_back_stored(*header));
            self.write_back.fence();
        }
        failpoint("undo: before-images of a savepoint restored, not cut");
        if !is_cut_first {
            self.cut_off(start, &gone);
        }
        gone.len()
    }

    fn cut_off(&self, start: usize, gone: &[Gone]) {
        self.cut(start);
        // The list of first words is cut too; otherwise it would grow until the end of a transaction with many parts.
        let mut headers = self.checked.headers.borrow_mut();
        let left = headers.len().saturating_sub(gone.len());
        headers.truncate(left);
        drop(headers);
        if self.write_back == WriteBack::None {
            return;
        }
        let are_left = planted("undo: cut records stay readable after new records");
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
    fn records_that_were_cut_off_are_not_read_after_new_records() {
        for how in [WriteBack::None, WriteBack::Clflush] {
            let region = Region::anonymous(1 << 20).unwrap();
            let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
            region.set_write_back(how);
            let undo = Undo::open(&region, log);
            undo.set_form();
            undo.save_bytes(place, &[1; 40]);
            let mark = undo.mark();
            (2..5).for_each(|image| undo.save_bytes(place + 100 * u64::from(image), &[image; 40]));
            assert_eq!(undo.roll_back_to(mark), 3);
            let there = region.undo_bytes(place + 200, 1)[0].load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(there, 2, "put back");
            let in_memory: Vec<u64> = undo.words.iter().map(Word::get).collect();
            undo.save_bytes(place + 500, &[5; 40]);
            if how != WriteBack::None {
                // The line with the zero after the new record is not in memory yet.
                let top = undo.top();
                undo.words[top].init(in_memory[top]);
            }
            let saved: Vec<u64> = undo.saved().map(|(at, _)| at - place).collect();
            assert_eq!(saved, [0, 500]);
            assert_eq!(undo.roll_back(), 2);
        }
    }

    #[test]
    fn a_damaged_log_is_not_rolled_back_to_a_mark() {
        let region = Region::anonymous(1 << 20).unwrap();
        let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
        let undo = Undo::open(&region, log);
        let mark = undo.mark();
        undo.save_bytes(place, &[1; 40]);
        let second = undo.top();
        undo.save_bytes(place + 100, &[2; 40]);
        undo.words[second].init(0);
        let went = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| undo.roll_back_to(mark)));
        assert!(went.is_err(), "only some of the images since the mark would be restored");
        let there = region.undo_bytes(place, 1)[0].load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(there, 0, "no image is restored");
    }

    #[test]
    fn a_range_announced_before_a_mark_is_saved_again_when_it_is_declared() {
        let region = Region::anonymous(1 << 20).unwrap();
        let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
        region.set_write_back(WriteBack::Clflush);
        let undo = Undo::open(&region, log);
        undo.set_form();
        undo.announce(|| undo.save_bytes(place, &[0; 40]));
        let mark = undo.mark();
        undo.save_bytes(place, &[1; 40]);
        assert_eq!(undo.roll_back_to(mark), 1);
        assert_eq!(undo.roll_back(), 1);
    }
}
