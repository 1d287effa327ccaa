//! The times of the log: when each flush mark was logged.
//!
//! The wall clock may be set back or ahead. The times of flush marks never go back: a mark has the time of the wall
//! clock, or, if the previous mark's time is not earlier, the previous mark's time plus one microsecond. A restart
//! finds the time of the last mark in the log itself. Each process that leads a flush warns of a jump of the wall
//! clock.
//!
//! Invariant: the shared word is written only under the append latch, before the store of the tail publishes the mark.
//! If we die here: the next mark's time is a microsecond later than needed.

use std::sync::atomic::{AtomicI64, Ordering};

use libtp_process::{boot_micros, wall_micros};
use rio::planted;

use crate::restart::{copy_out_unchecked, mark_at, MARK_BYTES};
use crate::{LogFiles, LogManager, Lsn, RecordHeader, Result};

/// The longest jump, in microseconds, that causes no warning.
const JUMP: u64 = 1_000_000;
/// Bytes that the search for the last mark reads at a time.
const PIECE_BYTES: u64 = 64 << 10;
/// The value before the process has read the clocks.
const UNREAD: i64 = i64::MIN;

/// The number of microseconds by which the wall clock was ahead of the boot-time clock when this process last led a
/// flush.
#[derive(Debug)]
pub(crate) struct WallClock {
    ahead: AtomicI64,
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock { ahead: AtomicI64::new(UNREAD) }
    }
}

/// A jump of the wall clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    Ahead(u64),
    Back(u64),
    /// The process reads the clock for the first time, and the log has later times.
    BehindTheLog(u64),
}

impl WallClock {
    /// Returns how the wall clock, which shows `wall`, has jumped since the last call. The previous mark has the time
    /// `last`.
    pub(crate) fn jump(&self, wall: u64, boot: u64, last: u64) -> Option<Jump> {
        let ahead = i64::try_from(wall).unwrap_or(i64::MAX).saturating_sub_unsigned(boot);
        // Relaxed: if two leaders swap at once, one of them or both warn of a jump.
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        let distance = ahead.abs_diff(before);
        match before {
            UNREAD => Some(last.saturating_sub(wall)).filter(|&micros| micros > JUMP).map(Jump::BehindTheLog),
            _ if distance <= JUMP => None,
            _ if ahead > before => Some(Jump::Ahead(distance)),
            _ => Some(Jump::Back(distance)),
        }
    }

    fn warn(&self, wall: u64, last: u64) {
        let seconds = |micros: u64| micros / 1_000_000;
        match self.jump(wall, boot_micros(), last) {
            None => {}
            Some(Jump::Ahead(by)) => tracing::warn!(
                "the wall clock jumped ahead by {} s: the log has the new time from now on; if that time is wrong, `tp restore --until` finds later states only by their LSNs",
                seconds(by)
            ),
            Some(Jump::Back(by)) => tracing::warn!(
                "the wall clock jumped back by {} s: times in the log stand still until the clock has passed them, and until then `tp restore --until` finds states only by their LSNs",
                seconds(by)
            ),
            Some(Jump::BehindTheLog(by)) => tracing::warn!(
                "the wall clock is {} s behind the last time in the log: times in the log stand still until the clock has passed them, and until then `tp restore --until` finds states only by their LSNs",
                seconds(by)
            ),
        }
    }
}

impl LogManager {
    /// Returns the time of the log, in microseconds since 1970: every mark in the log has this time or an earlier one.
    pub fn time(&self) -> u64 {
        wall_micros().max(self.header.mark_time.get())
    }

    /// Returns the time for a mark that is logged now, when the wall clock shows `wall`. The caller holds the append
    /// latch.
    pub(crate) fn next_mark_time(&self, wall: u64) -> u64 {
        let last = self.header.mark_time.get();
        match planted("log: times of flush marks go back") {
            true => wall,
            false => wall.max(last.saturating_add(1)),
        }
    }

    /// Warns if the wall clock, which shows `wall`, has jumped. The previous mark has the time `last`.
    pub(crate) fn warn_of_jumps(&self, wall: u64, last: u64) {
        self.wall_clock.warn(wall, last);
    }
}

/// Returns the time of the last flush mark in `oldest .. end`; searches the last `bytes` only. Zero if there is no
/// mark.
pub(crate) fn last_mark_time(files: &LogFiles, oldest: Lsn, end: Lsn, bytes: u64) -> Result<u64> {
    let first = oldest.max(end.minus(bytes.min(end.raw())));
    let last = [files.geometry().locate(end).segment];
    let mut to = end;
    while to > first {
        let from = first.max(to.minus(PIECE_BYTES.min(to.raw())));
        // A mark may begin in this piece and end in the next piece.
        let want = end.since(from).min(PIECE_BYTES + MARK_BYTES as u64);
        let mut piece = vec![0; usize::try_from(want).expect("a piece is short")];
        let read = copy_out_unchecked(files, &last, from, &mut piece)?;
        // Searches backwards from the last place.
        for into in (0..=read.saturating_sub(MARK_BYTES) / 8).rev().map(|place| place * 8) {
            let Some(place) = piece[..read].get(into..into + MARK_BYTES) else { continue };
            let lsn = from.plus(into as u64);
            if mark_at(place, lsn, files.incarnations().at(lsn)).is_some() {
                return Ok(RecordHeader::plausible(place).ok().and_then(|header| header.time()).unwrap_or(0));
            }
        }
        to = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::{Jump, WallClock};

    const HOUR: u64 = 3_600_000_000;

    #[test]
    fn a_jump_of_the_wall_clock_is_reported_once_with_its_direction() {
        let clock = WallClock::default();
        let (wall, boot) = (500 * HOUR, 3 * HOUR);
        assert_eq!(clock.jump(wall, boot, 0), None);
        assert_eq!(clock.jump(wall + 5 * HOUR, boot + 5 * HOUR, 0), None, "time has passed");
        assert_eq!(clock.jump(wall + 8 * HOUR, boot + 6 * HOUR, 0), Some(Jump::Ahead(2 * HOUR)));
        assert_eq!(clock.jump(wall + 8 * HOUR, boot + 6 * HOUR, 0), None);
        assert_eq!(clock.jump(wall + 6 * HOUR, boot + 6 * HOUR, 0), Some(Jump::Back(2 * HOUR)));
        let newcomer = WallClock::default();
        assert_eq!(newcomer.jump(wall, boot, wall + HOUR), Some(Jump::BehindTheLog(HOUR)));
    }
}
