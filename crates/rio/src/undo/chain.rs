//! A chain of logs: a segment that several threads change has one log for each thread.
//!
//! Paper: a departure; Vista is for one thread. The header word `further` of each log leads to the next log. The
//! changes of two open transactions never overlap, so the order of the rollbacks does not matter. The logs do not
//! overlap either: if two logs of a chain share bytes, the chain was damaged, and none of its images is restored.
//!
//! If we die here: a log is linked only once it is whole and empty; a log that is not linked is merely unused memory.

use std::ops::Range;

use super::{Undo, UndoLog};
use crate::{planted, Offset, Word};

impl Undo {
    /// Returns the word that leads to the next log.
    fn next(&self) -> &Word<u64> {
        &self.region.at(self.log).further
    }

    /// Makes an empty log of `bytes` and links it after this log.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn add_further(&self, bytes: u64) -> crate::Result<Undo> {
        let further = Undo::open(&self.region, Undo::create(&self.region, bytes)?);
        further.set_form();
        further.be_one_of_several();
        further.next().init(self.next().get());
        self.region.write_back_part(further.log.raw(), size_of::<UndoLog>());
        self.write_back.fence();
        if !planted("undo: a further log is not linked") {
            self.next().publish(further.log.raw());
        }
        self.write_back_word(self.next());
        Ok(further)
    }

    /// Returns another handle to this log. The caller makes sure that no thread uses the log.
    #[must_use]
    pub fn reopen(&self) -> Undo {
        Undo::open(&self.region, self.log)
    }

    /// Returns all logs after this log in the chain.
    ///
    /// # Errors
    /// The fault of the chain, as a sentence without its full stop.
    pub fn further(&self) -> Result<Vec<Undo>, String> {
        let mut logs: Vec<Undo> = Vec::new();
        let (mut next, mut taken) = (self.next().load(), self.parts().to_vec());
        while let Some(log) = Offset::from_raw(next) {
            if logs.iter().chain([self]).any(|known| known.log == log) {
                return Err("the undo logs lead in a circle".into());
            }
            let log = Undo::try_open(&self.region, log).ok_or("one of the undo logs is outside the region")?;
            let parts = log.parts();
            let all = parts
                .iter()
                .enumerate()
                .flat_map(|(nth, part)| taken.iter().chain(&parts[..nth]).map(move |it| (part, it)));
            if let Some((part, _)) = all.into_iter().find(|(part, other)| overlap(part, other)) {
                return Err(format!("two of the undo logs share the bytes at {}", part.start));
            }
            next = log.next().load();
            taken.extend(parts);
            logs.push(log);
        }
        Ok(logs)
    }

    /// Returns the ranges of the log's header and of its records.
    fn parts(&self) -> [Range<u64>; 2] {
        [self.header_place(), self.area_range()].map(|(at, bytes)| at..at + bytes)
    }

    /// As [`Undo::audit`], for this log and the logs after it. Also checks that no image covers a log's own bytes,
    /// and that no two logs have images of the same bytes.
    ///
    /// # Errors
    /// As [`Undo::audit`].
    pub fn audit_all(&self) -> Result<(), String> {
        self.audit()?;
        let further = self.further()?;
        further.iter().try_for_each(Undo::audit)?;
        let (mut images, mut logs) = (Vec::new(), Vec::new());
        for (nth, log) in (0_usize..).zip(std::iter::once(self).chain(&further)) {
            images.extend(log.saved().map(|(place, bytes)| (place, place + bytes, nth)));
            logs.extend(log.parts());
        }
        let is_of_a_log = |image: &&(u64, u64, usize)| logs.iter().any(|part| overlap(part, &(image.0..image.1)));
        if let Some((place, ..)) = images.iter().find(is_of_a_log) {
            return Err(format!("an undo log has an image of an undo log's own bytes, at {place}"));
        }
        images.sort_unstable();
        // `furthest`: the largest end of all images so far. `whose`: the log with that image. `of_others`: the largest
        // end among the images of all other logs.
        let (mut furthest, mut whose, mut of_others) = (0, 0, 0);
        for (place, end, log) in images {
            if place < if log == whose { of_others } else { furthest } {
                return Err(format!("two undo logs have images of the bytes at {place}"));
            }
            if log == whose {
                furthest = furthest.max(end);
            } else if end > furthest {
                (of_others, furthest, whose) = (furthest, end, log);
            } else {
                of_others = of_others.max(end);
            }
        }
        Ok(())
    }

    /// Rolls back this log and the logs after it, and sets the form of their records. Returns the number of images. The
    /// caller has audited the logs.
    pub fn recover_all(&self) -> usize {
        let further = self.further().unwrap_or_default();
        let logs = std::iter::once(self).chain(&further);
        let rolled_back = logs.map(|log| {
            let images = if log.has_images() { log.roll_back() } else { 0 };
            log.set_form();
            log.confirm();
            images
        });
        rolled_back.sum()
    }

    /// Returns the places and lengths in bytes of this log and of the logs after it.
    pub fn areas(&self) -> Vec<(u64, u64)> {
        let further = self.further().unwrap_or_default();
        let after = further.iter().flat_map(|log| [log.header_place(), log.area_range()]);
        std::iter::once(self.area_range()).chain(after).collect()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
