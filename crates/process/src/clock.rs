//! The two clocks: the time since the machine started, and the time of day.
//!
//! Every duration that processes share comes from the time since the machine started, `CLOCK_BOOTTIME`. This clock is
//! never set, all processes of the machine read the same time, and it continues while the machine is suspended. The
//! wall clock may jump: the library reads it only for times that it shows to people or gets from them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use rio::planted;
use rustix::time::{clock_gettime, ClockId};

/// Microseconds that tests add to the wall clock of this process.
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Returns the microseconds since the machine started. Every duration in shared memory is the difference of two
/// such times.
pub fn boot_micros() -> u64 {
    if planted("process: durations come from the wall clock") {
        return wall_micros();
    }
    let now = clock_gettime(ClockId::Boottime);
    let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000);
    u64::try_from(micros).unwrap_or(0)
}

/// Returns the microseconds since 1970 by the wall clock, which may jump.
pub fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    // Relaxed: the store publishes nothing else.
    micros.saturating_add_signed(SHIFT.load(Ordering::Relaxed))
}

/// Converts `boot`, a value of [`boot_micros`], into the time of the wall clock, as the wall clock is set at present.
pub fn wall_time(boot: u64) -> SystemTime {
    let ago = Duration::from_micros(boot_micros().saturating_sub(boot));
    SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Shifts the wall clock of this process by `micros` microseconds: for tests.
#[doc(hidden)]
pub fn shift_wall_clock(micros: i64) {
    SHIFT.store(micros, Ordering::Relaxed);
}
