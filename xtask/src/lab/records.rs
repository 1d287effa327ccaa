//! Compares the announced records with the records found: all announced records must be found if the memory is kept,
//! and some must be lost if the memory is not kept.

use super::announcements::Line;

/// The observations about records.
#[derive(Default)]
pub struct Records {
    announced: u64,
    /// The number of crashes after which one unannounced transfer was found: the transfer that was under way.
    unannounced: u64,
    /// Transactions that were under way and were undone.
    undone: u64,
    /// Bytes of log that were replayed.
    log_bytes: u64,
    control_announced: u64,
    control_lost: u64,
}

/// The machine's report about an environment.
struct Found<'f> {
    text: &'f str,
    ended: u64,
    digest: u64,
    before: u64,
}

impl<'f> Found<'f> {
    fn new(text: &'f str) -> Option<Found<'f>> {
        let mut found = Found { text, ended: 0, digest: 0, before: 0 };
        found.ended = found.word("ended")?.parse().ok()?;
        found.digest = u64::from_str_radix(found.word("digest")?, 16).ok()?;
        found.before = u64::from_str_radix(found.word("before")?, 16).ok()?;
        Some(found)
    }

    fn word(&self, name: &str) -> Option<&'f str> {
        self.text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> u64 {
        self.word(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    fn value_is(&self, name: &str, value: &str) -> bool {
        self.word(name) == Some(value)
    }
}

impl Records {
    /// Judges a report and counts it.
    ///
    /// # Errors
    /// When the report is wrong, or proves nothing.
    pub fn judge(&mut self, announced: &Line, found: &str) -> Result<(), String> {
        let wrong = |what: &str| {
            format!(
                "{} transfers were announced, {} of them in that life: {what}: {found}",
                announced.last,
                announced.steps()
            )
        };
        if announced.steps() == 0 {
            return Err(wrong("no transfer was announced, so the crash proved nothing"));
        }
        let last = announced.digests.get(&announced.last).copied();
        let it = Found::new(found).ok_or_else(|| wrong("the machine's report cannot be read"))?;
        // The transfer under way may be committed without an announcement.
        let is_whole = (it.ended == announced.last && Some(it.digest) == last)
            || (it.ended == announced.last + 1 && Some(it.before) == last);
        if !is_whole {
            return Err(wrong("the machine found other transfers"));
        }
        if !it.value_is("how", "Survived") || !it.value_is("lost", "false") || !it.value_is("survives", "system") {
            return Err(wrong("the transfers were not found in memory that survived"));
        }
        self.announced += announced.steps();
        self.unannounced += u64::from(it.ended > announced.last);
        self.undone += it.number("undone");
        self.log_bytes += it.number("log_bytes");
        Ok(())
    }

    /// Judges the report about the control.
    ///
    /// # Errors
    /// When the control lost nothing, lost transfers that are not the last transfers, or did not report the loss.
    pub fn judge_control(&mut self, announced: &Line, found: &str) -> Result<(), String> {
        let wrong = |what: &str| format!("the control announced {} transfers: {what}: {found}", announced.last);
        let it = Found::new(found).ok_or_else(|| wrong("the machine's report about the control cannot be read"))?;
        if it.ended >= announced.last {
            return Err(wrong("the control lost nothing, so the crash proved nothing"));
        }
        // The state at the beginning of a life was read from the files, so it must be there again.
        if announced.digests.get(&it.ended) != Some(&it.digest) {
            return Err(wrong("the control's state differs from the state after its last kept transfer"));
        }
        if !it.value_is("lost", "true") || !found.ends_with("refused at first") {
            return Err(wrong("the control did not report the loss"));
        }
        self.control_announced += announced.steps();
        self.control_lost += announced.last - it.ended;
        Ok(())
    }

    /// Adds the observations of another machine.
    pub fn add(&mut self, other: &Records) {
        self.announced += other.announced;
        self.unannounced += other.unannounced;
        self.undone += other.undone;
        self.log_bytes += other.log_bytes;
        self.control_announced += other.control_announced;
        self.control_lost += other.control_lost;
    }

    /// Returns a summary line. `is_good` states that no fault was found.
    pub fn summary(&self, crashes: u64, is_good: bool) -> String {
        format!(
            "records, commits acknowledged from memory: {} announced, {}, {} found that were not announced, {} found under way and undone, \
             {} KiB of log replayed; control whose memory is not kept: refused, and lost {} of {} announced in {crashes} crashes",
            self.announced,
            if is_good { "0 lost or torn" } else { "FAILED" },
            self.unannounced,
            self.undone,
            self.log_bytes >> 10,
            self.control_lost,
            self.control_announced,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Records;
    use crate::lab::announcements::Line;

    fn announced() -> Line {
        Line { began: 7, last: 9, digests: [(7, 0x70), (8, 0x80), (9, 0x90)].into() }
    }

    #[test]
    fn all_announced_transactions_and_at_most_one_other_are_found() {
        let judge = |found: &str| {
            Records::default().judge(&announced(), &format!("{found} how=Survived lost=false survives=system"))
        };
        assert_eq!(judge("ended=9 digest=90 before=80"), Ok(()));
        assert_eq!(judge("ended=10 digest=a0 before=90"), Ok(()));
        for wrong in [
            "ended=8 digest=80 before=70",
            "ended=9 digest=91 before=80",
            "ended=10 digest=a0 before=91",
            "ended=11 digest=b0 before=90",
            "",
        ] {
            assert!(judge(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn records_that_were_not_found_in_memory_are_a_failure() {
        let whole = "ended=9 digest=90 before=80";
        for wrong in [
            "how=Restarted lost=false survives=system",
            "how=Survived lost=true survives=system",
            "how=Survived lost=false survives=process",
        ] {
            assert!(Records::default().judge(&announced(), &format!("{whole} {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_control_must_lose_the_last_transaction_and_report_the_loss() {
        let judge = |found: &str| Records::default().judge_control(&announced(), found);
        assert_eq!(judge("ended=8 digest=80 before=70 lost=true refused at first"), Ok(()));
        for wrong in [
            "ended=9 digest=90 before=80 lost=true refused at first",
            "ended=8 digest=81 before=70 lost=true refused at first",
            "ended=8 digest=80 before=70 lost=false refused at first",
            "ended=8 digest=80 before=70 lost=true",
        ] {
            assert!(judge(wrong).is_err(), "{wrong}");
        }
    }
}
