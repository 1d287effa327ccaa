//! Records with checksums: the undo log where the memory outlives the processor's cache.
//!
//! Paper: a departure; Rio's memory and cache went through a crash together. A record is written back before the stores it
//! covers, with one fence, and they are before the log's number is raised, which is the commit. Lines get to memory in any
//! order, so a record that is there in part, or of an earlier sequence, is none.

use super::audit::Form;
use super::{bytes_of, header, no_room, Undo, CHECKED, PLACE_MASK};
use crate::bytes::copy_image;
use crate::checksum::mix;
use crate::{planted, Word, WriteBack};

impl Undo {
    /// Says that the records to come are of whatever length and place, and have checksums where that is needed. The log is
    /// empty.
    ///
    /// If we die here: it is empty whatever is said of it.
    pub fn settle(&self) {
        let wanted = if self.write_back == WriteBack::None { Form::Bytes } else { Form::Checked };
        let form = &self.region.at(self.log).form;
        // Images that nobody has decided about yet are read in the form that they were saved in.
        if form.get() != wanted as u64 && !self.has_images() {
            self.cut(0);
            self.write_back_word(&self.words[0]);
            // What was left behind the zero, when it had checksums before, is of an earlier sequence now.
            self.raise_sequence();
            form.publish(wanted as u64);
            self.write_back_word(form);
        }
    }

    /// Saves one record, where the memory outlives the cache and the log ends at `at`; where it ends then.
    #[inline(never)]
    pub(super) fn save_checked(&self, at: usize, place: u64, old: &[u8]) -> usize {
        let count = old.len().div_ceil(8);
        let words = self.words.get(at..).and_then(|rest| rest.get(..count + 3)).unwrap_or_else(|| no_room());
        let header = header(place, old.len()) | CHECKED;
        // The last word may be filled in part only.
        words[count].init(0);
        copy_image(&words[1..=count], old);
        words[count + 1].init(self.checksum(header, &words[1..=count]));
        words[count + 2].init(0);
        words[0].init(header);
        self.write_back.write_back(words.as_ptr().cast(), size_of_val(words));
        if !planted("undo: no fence behind a record") {
            self.write_back.fence();
        }
        at + count + 2
    }

    fn checksum(&self, header: u64, image: &[Word<u64>]) -> u64 {
        let sequence = self.region.at(self.log).sequence.get();
        image.iter().fold(mix(mix(1, sequence), header), |sum, word| mix(sum, word.get()))
    }

    /// Empties the log where the memory outlives the cache: the stores it covers are written back, then its number is
    /// raised.
    #[inline(never)]
    pub(super) fn commit_checked(&self) {
        let records = self.records(0);
        if planted("undo: the number is raised before the stores are written back") {
            self.raise_sequence();
        }
        for record in records {
            let header = self.words[record].load();
            self.region.write_back_part(header & PLACE_MASK, bytes_of(header));
        }
        if !planted("undo: committed before the stores are in memory") {
            self.write_back.fence();
        }
        self.raise_sequence();
        self.cut(0);
    }

    fn raise_sequence(&self) {
        let sequence = &self.region.at(self.log).sequence;
        sequence.publish(sequence.get() + 1);
        self.write_back_word(sequence);
    }

    pub(super) fn write_back_word(&self, word: &Word<u64>) {
        self.write_back.write_back(std::ptr::from_ref(word).cast(), 8);
        self.write_back.fence();
    }

    /// Whether a record's words are all there, and of this sequence.
    pub(super) fn is_whole(&self, header: u64, rest: &[Word<u64>]) -> bool {
        let sum = rest.split_last().filter(|_| header & CHECKED != 0);
        sum.is_some_and(|(sum, image)| sum.load() == self.checksum(header, image))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Region, Undo, WriteBack};

    #[test]
    fn what_was_left_of_an_earlier_use_with_checksums_is_no_record() {
        let made = Region::anonymous(1 << 20).unwrap();
        let (log, place) = (Undo::create(&made, 4096).unwrap(), made.allocate_bytes(4096, 4096).unwrap());
        let used_by = |how: WriteBack| {
            let region = made.map_again().unwrap();
            region.set_write_back(how);
            let undo = Undo::open(&region, log);
            if undo.has_images() {
                undo.roll_back();
            }
            undo.settle();
            undo
        };
        let save = |undo: &Undo, at: u64| undo.save_bytes(place.raw() + at, &[7; 40]);
        let first = used_by(WriteBack::Clflush);
        save(&first, 0);
        let one = first.top.get();
        save(&first, 100);
        let stale: Vec<u64> = first.words[one..first.top.get()].iter().map(crate::Word::get).collect();
        // It dies, and the next does without checksums, and the one after that does not.
        drop(used_by(WriteBack::None));
        let last = used_by(WriteBack::Clflush);
        save(&last, 0);
        assert_eq!(last.top.get(), one, "the records are as long as the first's");
        // The line with the zero is not in memory yet.
        for (word, was) in last.words[one..].iter().zip(stale) {
            word.init(was);
        }
        assert_eq!(last.records(0).len(), 1, "what was saved now is there, and nothing of before");
    }
}
