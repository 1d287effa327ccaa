//! Records with checksums: the undo log where the memory outlives the processor's cache.
//!
//! Paper: a departure; Rio's memory and cache went through a crash together. A record is written back before the stores it
//! covers, with one fence, and they are before the log's number is raised, which is the commit. Lines get to memory in any
//! order, so a record that is there in part, or of an earlier sequence, is none.

use super::audit::Form;
use super::{bytes_of, header, no_room, Undo, CHECKED, PLACE_MASK};
use crate::bytes::copy_image;
use crate::{planted, Word, WriteBack};

impl Undo {
    /// Says that the records to come are of whatever length and place, and have checksums where that is needed. The log is
    /// empty.
    ///
    /// If we die here: it is empty whatever is said of it.
    pub fn settle(&self) {
        let wanted = if self.write_back == WriteBack::None { Form::Bytes } else { Form::Checked };
        let form = &self.region.at(self.log).form;
        if form.get() != wanted as u64 {
            self.cut(0);
            self.write_back_word(&self.words[0]);
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
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let sequence = self.region.at(self.log).sequence.get();
        image.iter().fold(mix(mix(1, sequence), header), |sum, word| mix(sum, word.get()))
    }

    /// Empties the log where the memory outlives the cache: the stores it covers are written back, then its number is
    /// raised.
    #[inline(never)]
    pub(super) fn commit_checked(&self) {
        for record in self.records(0) {
            let header = self.words[record].load();
            self.region.write_back_part(header & PLACE_MASK, bytes_of(header));
        }
        if !planted("undo: committed before the stores are in memory") {
            self.write_back.fence();
        }
        let sequence = &self.region.at(self.log).sequence;
        sequence.publish(sequence.get() + 1);
        self.write_back_word(sequence);
        self.cut(0);
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
