//! Records with checksums: the undo log in memory that outlives the processor's cache.
//!
//! Paper: a departure; Rio's memory and cache both survive a crash. A record is written back before the stores
//! that it covers, with one fence. Cache lines get to memory in any order, so recovery ignores partial records and
//! records of an earlier sequence.
//!
//! The commit is the log's next sequence number. There are two ways to commit. Either the commit waits for a fence
//! after the stores, and then for another fence after the number. Or, after a transaction that stored little, the
//! number is written back together with the stores and with a sum of the stored bytes; recovery then accepts the number
//! only if the sum agrees. A fence takes longer than such a sum.
//!
//! Ranges may be announced before they are declared: their records are then written back together. That takes as long
//! as writing back one record.
//!
//! If we die here: recovery checks the sum until the next transaction has its first record, so the summed bytes must
//! not change until then. If several threads have a log each, another thread can change these bytes, so in a chain of
//! several logs the commit uses fences. Code that stores outside of transactions calls [`Undo::confirm`] first.

use std::cell::{Cell, Ref, RefCell};

use super::audit::Form;
use super::{bytes_of, header, no_room, words_of, Undo, CHECKED, PLACE_MASK, RECORD_BYTES_MAX};
use crate::bytes::{copy_image, sum_bytes};
use crate::checksum::mix;
use crate::{planted, Word, WriteBack};

/// The number of low bits of `UndoLog::ended[0]` that hold the transaction's number of records. The bits above them
/// hold the next sequence number.
const COUNT_BITS: u32 = 20;
const COUNT_MAX: usize = (1 << COUNT_BITS) - 1;
/// Above this number of bytes a sum takes longer than a fence.
const SUMMED_BYTES_MAX: usize = 2048;

/// A handle's state for a log whose records have checksums.
#[derive(Default)]
pub(crate) struct Checked {
    /// False if a transaction of another log may change the same bytes between two transactions of this log.
    pub(super) is_alone: Cell<bool>,
    /// The first words of the saved records. These are copies, because a log line that was written back is no longer in
    /// the first-level cache.
    pub(super) headers: RefCell<Vec<u64>>,
    /// The range, in `headers`, of the records that are announced and not yet declared.
    pub(super) announced: Cell<(usize, usize)>,
    pub(super) is_announcing: Cell<bool>,
}

impl Undo {
    /// Sets the form of later records: images of any length and place, with checksums if the memory outlives the
    /// cache. The log must be empty.
    ///
    /// If we die here: the log is empty in either form.
    pub fn set_form(&self) {
        let wanted = if self.write_back == WriteBack::None { Form::Bytes } else { Form::Checked };
        let form = &self.region.at(self.log).form;
        // Images of a transaction that is not decided yet keep the form in which they were saved.
        if form.get() != wanted as u64 && !self.has_images() {
            self.cut(0);
            self.write_back_word(&self.words[0]);
            // Old records with checksums may remain after the zero. Raising the log's sequence number makes them
            // records of an earlier sequence, which recovery ignores.
            self.raise_sequence();
            form.publish(wanted as u64);
            self.write_back_word(form);
        }
        self.checked.is_alone.set(true);
    }

    /// Declares that there are other logs, whose transactions may change the same places between two transactions of
    /// this log.
    pub(super) fn be_one_of_several(&self) {
        self.checked.is_alone.set(false);
    }

    /// Returns whether records are written back from the cache, so that it is worth announcing ranges.
    #[inline(always)]
    pub fn is_written_back(&self) -> bool {
        self.write_back != WriteBack::None
    }

    /// Calls `save`, and then writes back all images that `save` has saved, together. The images are in memory when
    /// this call returns. If the ranges are later declared in the same order, their images are not saved again.
    pub fn announce<R>(&self, save: impl FnOnce() -> R) -> R {
        let (from, first) = (self.top.get(), self.checked.headers.borrow().len());
        self.checked.is_announcing.set(true);
        let saved = save();
        self.checked.is_announcing.set(false);
        if self.top.get() != from {
            // The zero after the last record is written back too.
            self.write_back_records(&self.words[from..=self.top.get()]);
            self.checked.announced.set((first, self.checked.headers.borrow().len()));
        }
        saved
    }

    /// Returns whether an image of `bytes` at `place` is the next announced image, which need not be saved again.
    #[inline]
    fn is_announced(&self, place: u64, bytes: usize) -> bool {
        let (next, to) = self.checked.announced.get();
        // An image that is longer than one record was announced as several records, so it is not compared.
        bytes <= RECORD_BYTES_MAX && next < to && self.checked.headers.borrow()[next] == header(place, bytes) | CHECKED
    }

    /// Returns whether the caller may store to `bytes` at `place` without a further step, if the log ends at `top`.
    /// Always false in a child of the process that opened the log.
    pub fn is_ready(&self, top: usize, place: u64, bytes: usize) -> bool {
        self.has_quick_room(top, bytes) || (self.is_announced(place, bytes) && self.start.mark.is_current())
    }

    /// Removes the record from the announced records, if it is the next announced record. Returns whether it was
    /// removed.
    fn was_announced(&self, place: u64, bytes: usize) -> bool {
        let is_next = self.is_announced(place, bytes) && !self.checked.is_announcing.get();
        if is_next {
            let (next, to) = self.checked.announced.get();
            self.checked.announced.set((next + 1, to));
        }
        is_next
    }

    /// Saves one record with a checksum in the log that ends at `at`. Returns the new end.
    #[inline(never)]
    pub(super) fn save_checked(&self, at: usize, place: u64, old: &[u8]) -> usize {
        if self.was_announced(place, old.len()) {
            return at;
        }
        let header = header(place, old.len()) | CHECKED;
        let count = old.len().div_ceil(8);
        let words = self.words.get(at..).and_then(|rest| rest.get(..count + 3)).unwrap_or_else(|| no_room());
        // The image may fill only a part of the last word, so the word is cleared first.
        words[count].init(0);
        copy_image(&words[1..=count], old);
        words[count + 1].init(checksum(self.sequence_now(), header, &words[1..=count]));
        words[count + 2].init(0);
        words[0].init(header);
        self.checked.headers.borrow_mut().push(header);
        if !self.checked.is_announcing.get() {
            self.write_back_records(words);
        }
        at + count + 2
    }

    /// Writes records back. The records are in memory before any later store.
    pub(super) fn write_back_records(&self, words: &[Word<u64>]) {
        self.write_back.write_back(words.as_ptr().cast(), size_of_val(words));
        if !planted("undo: no fence follows the write-back of a record") {
            self.write_back.fence();
        }
    }

    /// Returns the sequence number of the log's current transaction.
    fn sequence_now(&self) -> u64 {
        let log = self.region.at(self.log);
        log.sequence.get().max(log.ended[0].get() >> COUNT_BITS)
    }

    /// Empties the log in memory that outlives the cache. First writes the stores back and then the next sequence
    /// number, or writes both back together.
    #[inline(never)]
    pub(super) fn commit_checked(&self) {
        let top = self.top.get();
        if top == 0 {
            // A dead process has written these records, so this handle has no list of them.
            let records = self.records(0);
            return self.keep_rolled_back(0, &records);
        }
        let (sequence, headers) = (self.sequence_now(), self.headers_to(top));
        let (bytes, count) = (headers.iter().map(|header| bytes_of(*header)).sum::<usize>(), headers.len());
        let is_summed = self.checked.is_alone.get() && bytes <= SUMMED_BYTES_MAX && count <= COUNT_MAX;
        // The sum is made before any write-back, because a load of a line that is being written back has to wait.
        let sum = if is_summed { self.sum_stored(sequence, &headers) } else { 0 };
        if !(is_summed && planted("undo: a transaction commits before its stores are in memory")) {
            headers.iter().for_each(|header| self.write_back_stored(*header));
        }
        drop(headers);
        if is_summed {
            let log = self.region.at(self.log);
            let [number, sum_of_it, _] = &log.ended;
            sum_of_it.publish(sum);
            number.publish((sequence + 1) << COUNT_BITS | count as u64);
            self.write_back.write_back(std::ptr::from_ref(log).cast(), size_of_val(log));
            if !planted("undo: a commit returns before its end is in memory") {
                self.write_back.fence();
            }
            // The fence of the next record also covers this write-back, so the commit does not wait for it. Once the
            // number is in memory, recovery ignores the sum, and stores outside of transactions need no extra step.
            log.sequence.publish(sequence + 1);
            self.write_back.write_back(std::ptr::from_ref(&log.sequence).cast(), 8);
        } else {
            if !planted("undo: a transaction commits before its stores are in memory") {
                self.write_back.fence();
            }
            self.raise_sequence();
        }
        self.forget_saved();
    }

    /// Writes back every store that the log covers. Called before another log decides whether the stores are kept.
    pub fn save_stored(&self) {
        let top = self.top.get();
        if self.write_back != WriteBack::None && top != 0 {
            self.headers_to(top).iter().for_each(|header| self.write_back_stored(*header));
            self.write_back.fence();
        }
    }

    /// Returns the first words of the records before `top`.
    fn headers_to(&self, top: usize) -> Ref<'_, Vec<u64>> {
        let words = |headers: &[u64]| headers.iter().map(|header| 1 + words_of(*header)).sum::<usize>();
        if words(&self.checked.headers.borrow()) != top {
            // A section was rolled back after the list was made, so the list is made again.
            let (mut headers, mut at) = (self.checked.headers.borrow_mut(), 0);
            headers.clear();
            while at < top {
                headers.push(self.words[at].get());
                at += 1 + words_of(self.words[at].get());
            }
        }
        self.checked.headers.borrow()
    }

    /// Discards all records.
    fn forget_saved(&self) {
        self.checked.headers.borrow_mut().clear();
        self.checked.announced.set((0, 0));
        self.cut(0);
    }

    /// Writes back the bytes that the records cover, after the records were rolled back or another process ended their
    /// transaction. Then discards the log. Does nothing if `start` is not the log's beginning: the rollback of the
    /// whole log writes these bytes back.
    pub(super) fn keep_rolled_back(&self, start: usize, records: &[usize]) {
        if start != 0 || self.write_back == WriteBack::None {
            return;
        }
        // The last transaction may have ended by a sum, and its stores may not be in memory yet.
        let last =
            if records.is_empty() { self.whole_records(0, self.sequence_now().wrapping_sub(1)) } else { Vec::new() };
        for &record in records.iter().chain(&last) {
            self.write_back_stored(self.words[record].load());
        }
        self.write_back.fence();
        self.raise_sequence();
        self.forget_saved();
    }

    /// If the last transaction ended by a sum, makes its end independent of the sum. Call this before code that is not
    /// in a transaction stores to bytes that a transaction ended by a sum may have changed.
    pub fn confirm(&self) {
        if self.write_back != WriteBack::None {
            let sequence = &self.region.at(self.log).sequence;
            sequence.publish(self.sequence_now());
            self.write_back_word(sequence);
        }
    }

    /// Returns the records to restore after a death.
    ///
    /// The stores of a transaction that ended by a sum may be in memory only in part. The transaction is whole if its
    /// changed bytes have the sum. The transaction is also whole if some of its records are missing: then the next
    /// transaction has overwritten these records, and it began only when all stores of the ended transaction were in
    /// memory. While all records of the last transaction exist, no later transaction has stored anything, so the sum
    /// decides whether the ended transaction is whole.
    pub(super) fn checked_records(&self, start: usize) -> Vec<usize> {
        let log = self.region.at(self.log);
        let (sequence, ended) = (log.sequence.load(), log.ended[0].load());
        let own = self.whole_records(start, self.sequence_now());
        if start != 0 || !own.is_empty() || ended >> COUNT_BITS <= sequence {
            return own;
        }
        let before = (ended >> COUNT_BITS) - 1;
        let last = self.whole_records(0, before);
        let count = usize::try_from(ended & COUNT_MAX as u64).expect("twenty bits fit usize");
        let Some(all) = last.get(..count) else { return own };
        let headers: Vec<u64> = all.iter().map(|&record| self.words[record].load()).collect();
        let is_whole = headers.iter().all(|header| self.is_there(*header))
            && self.sum_stored(before, &headers) == log.ended[1].load();
        if is_whole {
            own
        } else {
            last
        }
    }

    fn whole_records(&self, start: usize, sequence: u64) -> Vec<usize> {
        let (mut records, mut at) = (Vec::new(), start);
        while let Some(header) = self.words.get(at).map(Word::load).filter(|&header| header != 0) {
            let next = at + 1 + words_of(header);
            if !is_whole(sequence, header, self.words.get(at + 1..next).unwrap_or_default()) {
                break;
            }
            records.push(at);
            at = next;
        }
        records
    }

    /// Returns the sum of the bytes that these records cover.
    fn sum_stored(&self, sequence: u64, headers: &[u64]) -> u64 {
        headers.iter().fold(mix(2, sequence), |sum, &header| {
            let bytes = bytes_of(header);
            let stored = self.region.undo_bytes(header & PLACE_MASK, bytes);
            sum_bytes(mix(sum, header), stored)
        })
    }

    pub(super) fn is_there(&self, header: u64) -> bool {
        self.region.place(header & PLACE_MASK, bytes_of(header), 1).is_some()
    }

    pub(super) fn write_back_stored(&self, header: u64) {
        self.region.write_back_part(header & PLACE_MASK, bytes_of(header));
    }

    fn raise_sequence(&self) {
        let sequence = &self.region.at(self.log).sequence;
        sequence.publish(self.sequence_now() + 1);
        self.write_back_word(sequence);
    }

    pub(super) fn write_back_word(&self, word: &Word<u64>) {
        self.write_back.write_back(std::ptr::from_ref(word).cast(), 8);
        self.write_back.fence();
    }
}

fn checksum(sequence: u64, header: u64, image: &[Word<u64>]) -> u64 {
    image.iter().fold(mix(mix(1, sequence), header), |sum, word| mix(sum, word.get()))
}

/// Returns whether a record is complete and belongs to the sequence number `sequence`.
fn is_whole(sequence: u64, header: u64, rest: &[Word<u64>]) -> bool {
    let sum = rest.split_last().filter(|_| header & CHECKED != 0);
    sum.is_some_and(|(sum, image)| sum.load() == checksum(sequence, header, image))
}

#[cfg(test)]
mod tests {
    use crate::{Region, Undo, Word, WriteBack};

    /// A region, an undo log, and a place for data.
    struct Made {
        region: Region,
        log: crate::Offset<crate::UndoLog>,
        place: u64,
    }

    impl Made {
        fn new() -> Made {
            let region = Region::anonymous(1 << 20).unwrap();
            let (log, place) = (Undo::create(&region, 4096).unwrap(), region.allocate_bytes(4096, 4096).unwrap().raw());
            Made { region, log, place }
        }

        /// Opens the log again, as the next user does.
        fn used_by(&self, how: WriteBack) -> Undo {
            let region = self.region.map_again().unwrap();
            region.set_write_back(how);
            let undo = Undo::open(&region, self.log);
            undo.recover_all();
            undo
        }

        fn word(&self, at: u64) -> &Word<u64> {
            self.region.at(crate::Offset::from_raw(self.place + at).unwrap())
        }

        /// Saves a word and stores to it.
        fn store(&self, undo: &Undo, at: u64, value: u64) {
            undo.save_bytes(self.place + at, &self.word(at).get().to_ne_bytes());
            self.word(at).init(value);
        }

        fn words(&self) -> [u64; 3] {
            [0, 64, 128].map(|at| self.word(at).get())
        }
    }

    fn copy(undo: &Undo) -> Vec<u64> {
        undo.words.iter().map(Word::get).collect()
    }

    fn put(undo: &Undo, copy: &[u64]) {
        undo.words.iter().zip(copy).for_each(|(word, was)| word.init(*was));
    }

    /// Ends the transaction by a sum, with a sequence word that is not in memory yet.
    fn end_by_sum(undo: &Undo) {
        let sequence = &undo.region.at(undo.log).sequence;
        let before = sequence.get();
        undo.discard();
        assert_ne!(sequence.get(), before);
        sequence.init(before);
    }

    #[test]
    fn remains_of_an_earlier_use_with_checksums_are_no_records() {
        let made = Made::new();
        let save = |undo: &Undo, at: u64| undo.save_bytes(made.place + at, &[7; 40]);
        let first = made.used_by(WriteBack::Clflush);
        save(&first, 0);
        let one = first.top.get();
        save(&first, 100);
        let stale: Vec<u64> = first.words[one..first.top.get()].iter().map(Word::get).collect();
        // The first user dies. The second user writes records without checksums, and the third user with checksums.
        drop(made.used_by(WriteBack::None));
        let last = made.used_by(WriteBack::Clflush);
        save(&last, 0);
        assert_eq!(last.top.get(), one, "the records are as long as the first user's records");
        // The line with the zero is not in memory yet.
        for (word, was) in last.words[one..].iter().zip(stale) {
            word.init(was);
        }
        assert_eq!(last.records(0).len(), 1, "the new record is there, and no older record");
    }

    #[test]
    fn an_end_mark_without_all_its_stores_in_memory_is_ignored() {
        let made = Made::new();
        let undo = made.used_by(WriteBack::Clflush);
        made.store(&undo, 0, 1);
        undo.discard();
        for lost in [0, 64] {
            made.store(&undo, 0, 2);
            made.store(&undo, 64, 2);
            let log = copy(&undo);
            end_by_sum(&undo);
            let ended = made.words();
            // The machine crashes. The zero that empties the log is not in memory.
            put(&undo, &log);
            let next = made.used_by(WriteBack::Clflush);
            assert_eq!(
                (made.words(), next.has_saved()),
                (ended, false),
                "all stores of the ended transaction were in memory"
            );
            // One of the changed lines is not in memory either.
            made.store(&next, 0, 3);
            made.store(&next, 64, 3);
            let log = copy(&next);
            end_by_sum(&next);
            put(&next, &log);
            made.word(lost).init(ended[0]);
            drop(made.used_by(WriteBack::Clflush));
            assert_eq!(made.words(), ended, "the line at {lost} was not in memory, so the transaction is rolled back");
        }
    }

    #[test]
    fn records_saved_over_the_records_of_an_ended_transaction_show_that_it_has_ended() {
        let made = Made::new();
        let undo = made.used_by(WriteBack::Clflush);
        made.store(&undo, 0, 1);
        made.store(&undo, 64, 1);
        undo.discard();
        // The next transaction has a record, and has stored.
        made.store(&undo, 0, 2);
        drop(made.used_by(WriteBack::Clflush));
        assert_eq!(made.words(), [1, 1, 0], "only the next transaction is rolled back");
        let undo = made.used_by(WriteBack::Clflush);
        made.store(&undo, 0, 5);
        let first = copy(&undo)[..undo.top.get()].to_vec();
        made.store(&undo, 64, 5);
        undo.discard();
        // The next transaction has only its second record in memory, and has stored nothing.
        undo.announce(|| [0, 64].map(|at| undo.save_bytes(made.place + at, &5_u64.to_ne_bytes())));
        put(&undo, &first);
        drop(made.used_by(WriteBack::Clflush));
        assert_eq!(made.words(), [5, 5, 0], "the earlier transaction has ended, and its stores stay");
    }

    #[test]
    fn no_sum_is_needed_after_confirm_or_with_several_logs() {
        let made = Made::new();
        let undo = made.used_by(WriteBack::Clflush);
        let further = undo.add_further(4096).unwrap();
        for (nth, log) in (1..).zip([&undo, &further]) {
            made.store(log, 0, nth);
            let saved = copy(log);
            log.discard();
            if nth == 1 {
                log.confirm();
            }
            put(log, &saved);
            // Another thread has stored there after the commit.
            made.word(0).init(90 + nth);
            drop(made.used_by(WriteBack::Clflush));
            assert_eq!(made.words()[0], 90 + nth, "the record is not taken for a record of the ended transaction");
        }
    }

    #[test]
    fn a_confirmed_end_needs_no_sum() {
        for is_confirmed in [false, true] {
            let made = Made::new();
            let undo = made.used_by(WriteBack::Clflush);
            made.store(&undo, 0, 1);
            let saved = copy(&undo);
            end_by_sum(&undo);
            if is_confirmed {
                undo.confirm();
            }
            put(&undo, &saved);
            // This store belongs to no transaction.
            made.word(0).init(90);
            drop(made.used_by(WriteBack::Clflush));
            assert_eq!(made.words()[0], if is_confirmed { 90 } else { 0 });
        }
    }

    #[test]
    fn an_announced_range_is_not_taken_for_a_longer_range() {
        let made = Made::new();
        let undo = made.used_by(WriteBack::Clflush);
        undo.announce(|| undo.save_bytes(made.place, &[0; 8]));
        let at = undo.words.len();
        assert!(undo.is_ready(at, made.place, 8), "the range was announced");
        // The lowest bits of the longer lengths are the same.
        for longer in [8 << 20, 16 << 20] {
            assert!(!undo.is_ready(at, made.place, longer + 8), "{longer} and 8 bytes");
        }
    }

    #[test]
    fn announced_ranges_are_saved_once() {
        let made = Made::new();
        let undo = made.used_by(WriteBack::Clflush);
        undo.announce(|| [0, 64].map(|at| undo.save_bytes(made.place + at, &made.word(at).get().to_ne_bytes())));
        let all = undo.top.get();
        for at in [0, 64] {
            made.store(&undo, at, 7);
        }
        assert_eq!((undo.top.get(), undo.saved().count()), (all, 2));
        // A range that was not announced, or that is declared again, is saved as usual.
        made.store(&undo, 128, 7);
        made.store(&undo, 0, 8);
        assert_eq!(undo.saved().count(), 4);
        undo.roll_back();
        assert_eq!(made.words(), [0, 0, 0]);
        // No announced record is left.
        made.store(&undo, 0, 1);
        assert_eq!(undo.saved().count(), 1);
    }
}
