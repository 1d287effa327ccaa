//! The two clocks: how much time has passed, and what time it is.
//!
//! Every duration that processes share comes from the time since the machine started, `CLOCK_BOOTTIME`. Nobody sets this clock, all
//! processes of the machine read it alike, and it goes on while the machine is suspended. The wall clock may jump: it is read only
//! for times that people are shown or name.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use rio::planted;
use rustix::time::{clock_gettime, ClockId};

/// What tests add to the wall clock of this process, in microseconds.
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Microseconds since the machine started. Every duration in shared memory is a difference of two of these.
pub fn boot_micros() -> u64 {
    if planted("process: durations come from the wall clock") {
        return wall_micros();
    }
    let now = clock_gettime(ClockId::Boottime);
    let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000);
    u64::try_from(micros).unwrap_or(0)
}

/// Microseconds since 1970 as the wall clock says: it may jump.
pub fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    // Relaxed: the number alone is the message.
    micros.saturating_add_signed(SHIFT.load(Ordering::Relaxed))
}

/// What the wall clock of now calls the moment `boot` of [`boot_micros`].
pub fn wall_time(boot: u64) -> SystemTime {
    let ago = Duration::from_micros(boot_micros().saturating_sub(boot));
    SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Sets the wall clock of this process ahead, or back, by so many microseconds: for tests.
#[doc(hidden)]
pub fn shift_wall_clock(micros: i64) {
    SHIFT.store(micros, Ordering::Relaxed);
}
