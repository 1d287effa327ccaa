//! Automatic ranges: a page is saved when the first store to it faults.
//!
//! Paper: Rio Vista, section 4: "an option to automatically generate the range of modifications on a page granularity by
//! using the virtual memory system; however this is much slower". The flat part is made readable only; the handler of the
//! fault saves the page in the undo log, makes it writable, and the store is done again.
//!
//! The `unsafe` is the handler: what it is given, and the segment it finds by the address.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::segment::UNIT;
use crate::{Error, Result, Segment, Txn};

/// Transactions of this process that can go on at once.
const SLOTS: usize = 64;

/// Where faults are expected: the first address (zero: a free slot), the one behind the last, and whose they are.
struct Slot {
    from: AtomicUsize,
    to: AtomicUsize,
    segment: AtomicPtr<Segment>,
}

static ACTIVE: [Slot; SLOTS] = [const {
    Slot { from: AtomicUsize::new(0), to: AtomicUsize::new(0), segment: AtomicPtr::new(std::ptr::null_mut()) }
}; SLOTS];

/// Who caught the signal before us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A transaction whose ranges are found by themselves. Its place is in `ACTIVE` until it is dropped, so nobody else is ever
/// given one, who might forget it.
struct AutoTxn<'s> {
    segment: &'s mut Segment,
    slot: &'static Slot,
}

impl Segment {
    /// Does `work` in a transaction that may store anywhere in the flat part: its ranges are found by themselves, a page at
    /// a time. Slow: microseconds a page. If the work returns an error, everything is taken back.
    ///
    /// If a page cannot be saved because the file cannot grow the process ends, as if killed in the transaction.
    ///
    /// # Errors
    /// `System` if the kernel refuses, or 64 such transactions of this process go on; else what `work` returns.
    pub fn automatically<R, E: From<Error>>(&mut self, work: impl FnOnce(&mut [u8]) -> Result<R, E>) -> Result<R, E> {
        let txn = self.begin_automatic()?;
        let done = work(txn.segment.flat_unsaved())?;
        txn.segment.undo.discard();
        Ok(done)
    }

    fn begin_automatic(&mut self) -> Result<AutoTxn<'_>> {
        let refused = |source| Error::System { path: self.path().to_path_buf(), call: "catching the faults", source };
        catch_faults().map_err(refused)?;
        let (from, to) =
            (self.address(), self.address() + usize::try_from(self.flat_end() - self.from).expect("it is mapped"));
        let free = |slot: &&Slot| slot.from.compare_exchange(0, from, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = ACTIVE.iter().find(free).ok_or_else(|| refused(std::io::ErrorKind::QuotaExceeded.into()))?;
        slot.segment.store(self, Ordering::Relaxed);
        slot.to.store(to, Ordering::Release);
        let txn = AutoTxn { segment: self, slot };
        txn.segment.set_flat_writable(false)?;
        Ok(txn)
    }
}

impl Drop for AutoTxn<'_> {
    fn drop(&mut self) {
        self.segment.take_back();
        let is_writable = self.segment.set_flat_writable(true);
        self.slot.to.store(0, Ordering::Relaxed);
        self.slot.from.store(0, Ordering::Release);
        is_writable.expect("pages of this process's own mapping can be made writable");
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
    // SAFETY: the transaction in the slot borrows the segment until it empties the slot. The one that has it is at the
    // store that faulted, which has not happened yet: nothing else of the segment is being used.
    let segment = unsafe { &mut *slot.segment.load(Ordering::Relaxed) };
    if segment.save_page(address - segment.address()).is_err() {
        std::process::abort();
    }
}

impl Segment {
    /// Saves the page at `at` of the flat part and makes it writable.
    fn save_page(&mut self, at: usize) -> Result<()> {
        let page = rustix::param::page_size();
        let (at, from) = ((at / page * page) as u64, self.from);
        let bytes = usize::try_from(self.bytes().len() as u64 - at).map_or(page, |left| left.min(page));
        let mut txn = std::mem::ManuallyDrop::new(Txn { segment: self });
        txn.set_range(at, bytes)?;
        self.view.set_writable_part(from + at, from + at + page as u64, true)?;
        Ok(())
    }

    fn set_flat_writable(&self, is_writable: bool) -> Result<()> {
        Ok(self.view.set_writable_part(self.from, self.flat_end(), is_writable)?)
    }

    /// Behind the last unit of the flat part.
    fn flat_end(&self) -> u64 {
        self.from + (self.bytes().len() as u64).next_multiple_of(UNIT)
    }

    fn flat_unsaved(&mut self) -> &mut [u8] {
        let bytes = self.bytes().len();
        let flat = self.view.look(self.from, bytes).expect("a segment shows its flat part");
        flat.unsaved(&mut self.owner)
    }
}
