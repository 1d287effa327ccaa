//! Faults of stores: who keeps a part of a mapping readable only is told of the first store to it.
//!
//! Paper: Rio Vista, sections 3 and 4: protection by the virtual memory system, against wild stores, and to find out what a
//! transaction changes. There is one handler of the signal for the process. The narrowest range that a fault lies in is asked;
//! a fault that nobody waits for, or that is not to be done again, goes to who caught the signal before.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Ranges of one process that can be watched at once.
const SLOTS: usize = 64;
/// Bytes of a name that are said.
const NAME_BYTES: usize = 240;

/// The first address (zero: a free slot), the one behind the last, who is told what of whom; if nobody is, what lies there.
struct Slot {
    from: AtomicUsize,
    to: AtomicUsize,
    told: AtomicPtr<()>,
    whose: AtomicPtr<()>,
    name: [AtomicU8; NAME_BYTES],
    /// Somebody is being told: one at a time.
    busy: AtomicBool,
}

static ACTIVE: [Slot; SLOTS] = [const {
    let nobody = std::ptr::null_mut();
    let (from, to) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let name = [const { AtomicU8::new(0) }; NAME_BYTES];
    Slot { from, to, told: AtomicPtr::new(nobody), whose: AtomicPtr::new(nobody), name, busy: AtomicBool::new(false) }
}; SLOTS];

/// Who caught the signal before us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// What is called when a store faults: for whom, and at which address. When it returns the store is done again.
pub type OnFault = unsafe fn(whose: *mut (), address: usize);

/// A range of addresses whose faults somebody is told of, until this is dropped.
#[derive(Debug)]
pub struct Watch {
    slot: &'static Slot,
}

impl Watch {
    /// Has `told` called with `whose` at each fault in the range, by the thread that stores; never twice at once.
    ///
    /// # Errors
    /// The kernel's, or `QuotaExceeded` if 64 ranges are watched.
    ///
    /// # Safety
    /// `told` may be called with `whose` whenever a thread of this process touches the range, until the `Watch` is dropped,
    /// or for ever if it is forgotten; and may do what it does in the middle of whatever that thread was doing.
    pub unsafe fn begin(range: Range<usize>, whose: *mut (), told: OnFault) -> std::io::Result<Watch> {
        Watch::take(range, |slot| {
            // Relaxed: published by the store of the range's end.
            slot.whose.store(whose, Ordering::Relaxed);
            slot.told.store(told as *mut (), Ordering::Relaxed);
        })
    }

    /// Has each fault in the range end as if nobody watched it, after a line on standard error that says what lies there:
    /// `name`, of which the last 240 bytes are said.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub fn refuse(range: Range<usize>, name: &str) -> std::io::Result<Watch> {
        let name = name.as_bytes();
        let said = &name[name.len().saturating_sub(NAME_BYTES)..];
        Watch::take(range, |slot| {
            // Relaxed: as above.
            slot.told.store(std::ptr::null_mut(), Ordering::Relaxed);
            for (to, from) in slot.name.iter().zip(said.iter().copied().chain(std::iter::repeat(0))) {
                // Relaxed: as above.
                to.store(from, Ordering::Relaxed);
            }
        })
    }

    fn take(range: Range<usize>, fill: impl FnOnce(&Slot)) -> std::io::Result<Watch> {
        catch_faults()?;
        // Acquire: what the slot was used for before is over.
        let free =
            |slot: &&Slot| slot.from.compare_exchange(0, range.start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = ACTIVE.iter().find(free).ok_or(std::io::ErrorKind::QuotaExceeded)?;
        fill(slot);
        // Release: pairs with the handler's load; until then the range is empty.
        slot.to.store(range.end, Ordering::Release);
        Ok(Watch { slot })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Release, in this order: a range whose end is zero is nobody's, and then the slot is free.
        self.slot.to.store(0, Ordering::Release);
        self.slot.from.store(0, Ordering::Release);
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.from.load(Ordering::Relaxed))
    }
}

fn catch_faults() -> std::io::Result<()> {
    static IS_CAUGHT: Mutex<bool> = Mutex::new(false);
    let mut is_caught = IS_CAUGHT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *is_caught {
        return Ok(());
    }
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask.
    let (mut before, mut action): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `before` is a valid place for the answer.
    unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut before) };
    BEFORE.get_or_init(|| before);
    let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = on_fault;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: a valid `sigaction`, whose handler has the form that SA_SIGINFO asks for.
    match unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) } {
        0 => *is_caught = true,
        _ => return Err(std::io::Error::last_os_error()),
    }
    Ok(())
}

extern "C" fn on_fault(signal: i32, info: *const libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid `info`.
    let about = unsafe { &*info };
    // SAFETY: of this signal the kernel says the address.
    let address = unsafe { about.si_addr() }.addr();
    let range = |slot: &Slot| slot.from.load(Ordering::Acquire)..slot.to.load(Ordering::Acquire);
    let here = ACTIVE.iter().filter(|slot| range(slot).contains(&address));
    let Some(slot) = here.min_by_key(|slot| range(slot).len()) else { return pass_on(signal, info, context) };
    let told = slot.told.load(Ordering::Relaxed);
    if told.is_null() {
        say(slot, address);
        return pass_on(signal, info, context);
    }
    // SAFETY: the slot has an end, so `begin` stored an `OnFault` before it.
    let told = unsafe { std::mem::transmute::<*mut (), OnFault>(told) };
    // Several threads may store to the range. Only what may be done in a handler: no lock that sleeps.
    while slot.busy.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    // SAFETY: whoever called `begin` has promised that this may be done now; nobody else does it.
    unsafe { told(slot.whose.load(Ordering::Relaxed), address) };
    slot.busy.store(false, Ordering::Release);
}

/// Gives the fault to who caught the signal before us.
fn pass_on(signal: i32, info: *const libc::siginfo_t, context: *const libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        // Done again, the store ends the process.
        // SAFETY: what the kernel gave us as a valid `sigaction`.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    } else if before.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: neither of the two that are none, so a handler; of this form without SA_SIGINFO.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(before.sa_sigaction) };
        handler(signal);
    } else {
        type Handler = extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void);
        // SAFETY: as above; of this form with SA_SIGINFO.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
        handler(signal, info, context);
    }
}

/// Says on standard error what lies at the address: only by what may be done in a handler.
fn say(slot: &Slot, address: usize) {
    let mut line = [0_u8; 160 + NAME_BYTES];
    let mut at = 0;
    let mut put = |bytes: &mut dyn Iterator<Item = u8>| {
        for byte in bytes.take_while(|byte| *byte != 0) {
            line[at] = byte;
            at += 1;
        }
    };
    let digits = (0..16).rev().map(|nth| b"0123456789abcdef"[address >> (nth * 4) & 15]);
    put(&mut b"a store to 0x".iter().copied());
    put(&mut digits.skip_while(|digit| *digit == b'0'));
    put(&mut b" was stopped by the guard: it is no range of a transaction of ".iter().copied());
    put(&mut slot.name.iter().map(|byte| byte.load(Ordering::Relaxed)));
    put(&mut b"\n".iter().copied());
    // SAFETY: `line` has that many bytes; `write` may be called in a handler. Nobody is to be told if it fails.
    unsafe { libc::write(2, line.as_ptr().cast(), at) };
}
