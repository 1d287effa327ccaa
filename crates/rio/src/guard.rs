//! Faults of stores: who keeps a part of a mapping readable only is told of the first store to it.
//!
//! Paper: Rio Vista, sections 3 and 4: protection by the virtual memory system, against wild stores, and to find out what a
//! transaction changes. There is one handler of the signal for the process; a fault that nobody waits for goes to who caught
//! the signal before.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Ranges of one process that can be watched at once.
const SLOTS: usize = 64;

/// The first address (zero: a free slot), the one behind the last, and who is told what of whom.
struct Slot {
    from: AtomicUsize,
    to: AtomicUsize,
    told: AtomicPtr<()>,
    whose: AtomicPtr<()>,
}

static ACTIVE: [Slot; SLOTS] = [const {
    let nobody = std::ptr::null_mut();
    let (from, to) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Slot { from, to, told: AtomicPtr::new(nobody), whose: AtomicPtr::new(nobody) }
}; SLOTS];

/// Who caught the signal before us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// What is called when a store faults: for whom, and at which address. If it returns, the store is done again.
pub type OnFault = unsafe fn(whose: *mut (), address: usize);

/// A range of addresses whose faults somebody is told of, until this is dropped.
#[derive(Debug)]
pub struct Watch {
    slot: &'static Slot,
}

impl Watch {
    /// Has `told` called with `whose` at each fault in the range, by the thread that stores.
    ///
    /// # Errors
    /// The kernel's, or `QuotaExceeded` if 64 ranges are watched.
    ///
    /// # Safety
    /// `told` may be called with `whose` whenever a thread of this process touches the range, until the `Watch` is dropped,
    /// or for ever if it is forgotten; and may do what it does in the middle of whatever that thread was doing.
    pub unsafe fn begin(range: Range<usize>, whose: *mut (), told: OnFault) -> std::io::Result<Watch> {
        catch_faults()?;
        // Acquire: what the slot was used for before is over.
        let free =
            |slot: &&Slot| slot.from.compare_exchange(0, range.start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = ACTIVE.iter().find(free).ok_or(std::io::ErrorKind::QuotaExceeded)?;
        // Relaxed: published by the store of the range's end.
        slot.whose.store(whose, Ordering::Relaxed);
        slot.told.store(told as *mut (), Ordering::Relaxed);
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
    if BEFORE.get().is_some() {
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
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

extern "C" fn on_fault(_: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid `info`.
    let info = unsafe { &*info };
    // SAFETY: of this signal the kernel says the address.
    let address = unsafe { info.si_addr() }.addr();
    let is_here =
        |slot: &&Slot| (slot.from.load(Ordering::Acquire)..slot.to.load(Ordering::Acquire)).contains(&address);
    let Some(slot) = ACTIVE.iter().find(is_here) else {
        // Not ours: done again, it goes to who was there before us.
        let before = BEFORE.get().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: what the kernel gave us as a valid `sigaction`.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
        return;
    };
    // SAFETY: the slot has an end, so `begin` stored an `OnFault` before it.
    let told = unsafe { std::mem::transmute::<*mut (), OnFault>(slot.told.load(Ordering::Relaxed)) };
    // SAFETY: whoever called `begin` has promised that this may be done now.
    unsafe { told(slot.whose.load(Ordering::Relaxed), address) };
}
