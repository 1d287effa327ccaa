//! Incarnations: the numbers that are mixed into the checksums, each for a part of the log (PROTOCOLS L1).
//!
//! Every restart raises the log's incarnation before its first append. An earlier incarnation may
//! have left bytes beyond the end that restart found. The checksums of these bytes contain a smaller number, so the
//! bytes never verify again.
//!
//! Invariants
//! 1. Numbers and starts both rise strictly from entry to entry.
//! 2. The first entry's start is at or below the oldest record that may still be read.

use crate::{Error, Lsn, Result};

/// The largest number of incarnations in a control file.
pub const INCARNATIONS_MAX: usize = 1 << 20;

/// The number of incarnations in a slot of the control file; older incarnations are in further blocks. A list has more
/// incarnations only if old log is kept, because a database's file is missing or because of the setting `keep_log`.
pub(crate) const SLOT_INCARNATIONS: usize = 128;

/// The number of incarnations that stay in the list after their records were deleted, so that a follower that has
/// copied one of them can still find where it ended.
const REMEMBERED: usize = 64;

/// One incarnation of the log: from `start` on, until the start of the next incarnation, records were sealed with
/// `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The number; the first is 1.
    pub number: u64,
    /// The first LSN at which the number is used.
    pub start: Lsn,
}

/// Where an incarnation's log ends. The incarnation may have published records at and after this LSN; a restart lost
/// them, and no later incarnation has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncarnationEnd {
    /// At this LSN.
    At(Lsn),
    /// At this LSN or before it: the next incarnation is forgotten.
    AtMost(Lsn),
}

/// The incarnations whose records may still be in the log, oldest first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnations(Vec<Incarnation>);

impl Incarnations {
    /// The first incarnation of a new environment.
    pub fn first() -> Incarnations {
        Incarnations(vec![Incarnation { number: 1, start: Lsn::FIRST }])
    }

    /// Makes the incarnations from a control file's list; `None` if the list breaks the invariants.
    pub fn from_list(list: Vec<Incarnation>) -> Option<Incarnations> {
        let rising = list.windows(2).all(|two| two[0].number < two[1].number && two[0].start < two[1].start);
        let good = rising && !list.is_empty() && list.len() <= INCARNATIONS_MAX;
        good.then_some(Incarnations(list))
    }

    /// Returns all incarnations, oldest first.
    pub fn list(&self) -> &[Incarnation] {
        &self.0
    }

    /// Returns the incarnation that appends now.
    pub fn current(&self) -> Incarnation {
        *self.0.last().expect("the list is never empty")
    }

    /// Returns the number with which a record at `lsn` was sealed.
    #[inline]
    pub fn at(&self, lsn: Lsn) -> u64 {
        let current = self.current();
        if current.start <= lsn {
            return current.number;
        }
        self.0[self.begun_by(lsn).saturating_sub(1)].number
    }

    /// Returns the end of the incarnation `number`; `None` if no later incarnation is known.
    pub fn end_of(&self, number: u64) -> Option<IncarnationEnd> {
        let next = self.0.partition_point(|incarnation| incarnation.number <= number);
        let start = self.0.get(next)?.start;
        let is_next = next > 0 || self.0[next].number == number + 1;
        Some(if is_next { IncarnationEnd::At(start) } else { IncarnationEnd::AtMost(start) })
    }

    /// Returns the first LSN after `lsn` at which another number is used.
    pub(crate) fn next_change(&self, lsn: Lsn) -> Lsn {
        self.0.get(self.begun_by(lsn)).map_or(Lsn::new(u64::MAX), |incarnation| incarnation.start)
    }

    /// Returns how many incarnations begin at or before `lsn`.
    fn begun_by(&self, lsn: Lsn) -> usize {
        self.0.partition_point(|incarnation| incarnation.start <= lsn)
    }

    /// Begins a new incarnation at `start`, the end of the log that restart found. Replaces an incarnation in which
    /// nothing was appended.
    ///
    /// # Errors
    /// [`Error::Full`] when there are [`INCARNATIONS_MAX`] incarnations already.
    pub fn begin(&mut self, start: Lsn) -> Result<u64> {
        let number = self.current().number + 1;
        self.begin_as(number, start)?;
        Ok(number)
    }

    /// As [`Incarnations::begin`], with a number that is larger than all earlier numbers.
    pub(crate) fn begin_as(&mut self, number: u64, start: Lsn) -> Result<()> {
        while self.0.last().is_some_and(|incarnation| incarnation.start >= start) {
            self.0.pop();
        }
        if self.0.len() == INCARNATIONS_MAX {
            let source_text = format!("the log of the last {INCARNATIONS_MAX} restarts is still needed; let the environment run until a checkpoint has been taken");
            return Err(Error::Full { what: "one more restart", source_text });
        }
        self.0.push(Incarnation { number, start });
        Ok(())
    }

    /// Forgets the incarnations whose last record is below `oldest`, but keeps at least the newest `REMEMBERED`
    /// incarnations.
    pub fn forget_below(&mut self, oldest: Lsn) {
        let unneeded = self.begun_by(oldest).saturating_sub(1);
        self.0.drain(..unneeded.min(self.0.len().saturating_sub(REMEMBERED)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_belongs_to_the_incarnation_that_had_begun_when_it_was_logged() {
        let mut incarnations = Incarnations::first();
        incarnations.begin(Lsn::new(800)).unwrap();
        incarnations.begin(Lsn::new(1600)).unwrap();
        assert_eq!([8, 799, 800, 1599, 1600, 99_999].map(|at| incarnations.at(Lsn::new(at))), [1, 1, 2, 2, 3, 3]);
        assert_eq!(incarnations.next_change(Lsn::new(799)), Lsn::new(800));
        assert_eq!(incarnations.next_change(Lsn::new(800)), Lsn::new(1600));
    }

    #[test]
    fn an_incarnation_ends_where_the_next_incarnation_with_records_begins() {
        let mut incarnations = Incarnations::first();
        for start in [800, 1600, 2400] {
            incarnations.begin(Lsn::new(start)).unwrap();
        }
        assert_eq!(incarnations.end_of(1), Some(IncarnationEnd::At(Lsn::new(800))));
        assert_eq!(incarnations.end_of(2), Some(IncarnationEnd::At(Lsn::new(1600))));
        assert_eq!(incarnations.end_of(4), None);
        incarnations.begin(Lsn::new(2400)).unwrap();
        assert_eq!(
            incarnations.end_of(3),
            Some(IncarnationEnd::At(Lsn::new(2400))),
            "an incarnation without records does not change the end of an earlier incarnation"
        );
    }

    #[test]
    fn the_end_of_an_incarnation_is_known_long_after_its_records_are_gone() {
        let mut incarnations = Incarnations::first();
        let start = |incarnation: u64| Lsn::new(incarnation * 800);
        for incarnation in 1..1000 {
            incarnations.begin(start(incarnation)).unwrap();
            incarnations.forget_below(start(incarnation));
            let last = incarnation + 1;
            for ended in last.saturating_sub(REMEMBERED as u64).max(1)..last {
                assert_eq!(
                    incarnations.end_of(ended),
                    Some(IncarnationEnd::At(start(ended))),
                    "of {last} incarnations"
                );
            }
        }
        let (first, begun) = (incarnations.list()[0].number, incarnations.list()[0].start);
        assert_eq!(
            incarnations.end_of(first - 2),
            Some(IncarnationEnd::AtMost(begun)),
            "the next incarnation is forgotten"
        );
    }

    #[test]
    fn an_incarnation_without_records_is_replaced() {
        let mut incarnations = Incarnations::first();
        for _ in 0..1000 {
            incarnations.begin(Lsn::new(800)).unwrap();
        }
        assert_eq!(incarnations.list().len(), 2);
        assert_eq!(incarnations.current(), Incarnation { number: 1001, start: Lsn::new(800) });
        // The log's end may even be before the beginning of the incarnation that wrote the torn tail.
        incarnations.begin(Lsn::new(400)).unwrap();
        assert_eq!(incarnations.current(), Incarnation { number: 1002, start: Lsn::new(400) });
    }

    #[test]
    fn lives_of_recycled_log_are_forgotten_and_a_full_list_returns_full() {
        let list = (0..INCARNATIONS_MAX as u64)
            .map(|incarnation| Incarnation { number: incarnation + 1, start: Lsn::new(incarnation * 800 + 8) });
        let mut incarnations = Incarnations::from_list(list.collect()).unwrap();
        assert!(matches!(incarnations.begin(Lsn::new(1 << 30)), Err(Error::Full { .. })));
        incarnations.forget_below(Lsn::new(900));
        assert_eq!(incarnations.list()[0], Incarnation { number: 2, start: Lsn::new(808) });
        assert_eq!(incarnations.at(Lsn::new(900)), 2);
        incarnations.begin(Lsn::new(1 << 30)).unwrap();
        incarnations.forget_below(Lsn::new(1 << 30));
        assert_eq!(incarnations.list().len(), REMEMBERED);
    }

    #[test]
    fn a_list_out_of_order_is_refused() {
        let incarnation = |number, start| Incarnation { number, start: Lsn::new(start) };
        assert!(Incarnations::from_list(vec![]).is_none());
        assert!(Incarnations::from_list(vec![incarnation(2, 8), incarnation(2, 16)]).is_none());
        assert!(Incarnations::from_list(vec![incarnation(1, 16), incarnation(2, 16)]).is_none());
        assert!(Incarnations::from_list(vec![incarnation(1, 8), incarnation(2, 16)]).is_some());
    }
}
