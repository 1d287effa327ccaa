//! Page faults of stores. If a thread stores to a read-only part of a mapping, a function of the part's owner is
//! called.
//!
//! Paper: Rio Vista, sections 3 and 4: protection by the virtual memory system, both against wild stores and to find
//! the ranges that a transaction changes. The process has one handler of the signal. The handler serves the narrowest
//! watched range that contains the fault. The handler passes a fault outside of all ranges, and a fault in a refused
//! range, to the signal's previous handler.
//!
//! The callback works on the stack of the thread that stores. The alternate signal stack exists for the overflow of a
//! thread's stack and is small. Rust gives its threads 8 KiB, of which the kernel fills up to half with registers; the
//! rest is too little for a handler built without optimisation. So the handler runs on the alternate stack only while
//! no watch has a callback. While a watch has a callback, a stack overflow ends the process without a message, because
//! no handler can run on a full stack. Every other fault is passed on as usual.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The number of ranges that one process can watch at once.
const SLOTS: usize = 64;
/// The number of bytes of a name that are printed.
const NAME_BYTES: usize = 240;

/// A watched range: its first address (zero in a free slot), the address after its last one, and the callback with its
/// argument. A slot without a callback has the name of the memory in the range.
struct Slot {
    from: AtomicUsize,
    to: AtomicUsize,
    callback: AtomicPtr<()>,
    argument: AtomicPtr<()>,
    name: [AtomicU8; NAME_BYTES],
    /// True while the callback runs. Only one call runs at a time.
    busy: AtomicBool,
}

static ACTIVE: [Slot; SLOTS] = [const {
    let nobody = std::ptr::null_mut();
    let (from, to) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let name = [const { AtomicU8::new(0) }; NAME_BYTES];
    Slot {
        from,
        to,
        callback: AtomicPtr::new(nobody),
        argument: AtomicPtr::new(nobody),
        name,
        busy: AtomicBool::new(false),
    }
}; SLOTS];

/// The signal's previous handler.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The callback for a faulting store. It gets its argument and the fault's address. After it returns, the store is
/// repeated.
pub type OnFault = unsafe fn(argument: *mut (), address: usize);

/// A range of addresses whose faults are caught until this value is dropped.
#[derive(Debug)]
pub struct Watch {
    slot: &'static Slot,
    /// Whether the range has a callback, and is counted in `CALLBACKS`.
    is_called: bool,
}

impl Watch {
    /// Calls `callback` with `argument` at each fault in the range, on the thread that stores and on that thread's
    /// stack; never twice at the same time.
    ///
    /// # Errors
    /// Errors of the kernel; `QuotaExceeded` if 64 ranges are watched.
    ///
    /// # Safety
    /// Until the `Watch` is dropped, or for ever if it is forgotten, `callback` may be called with `argument` whenever
    /// a thread of this process accesses the range. The call may come in the middle of any work of that thread.
    pub unsafe fn begin(range: Range<usize>, argument: *mut (), callback: OnFault) -> std::io::Result<Watch> {
        Watch::take(range, true, |slot| {
            // Relaxed: published by the store of the range's end.
            slot.argument.store(argument, Ordering::Relaxed);
            slot.callback.store(callback as *mut (), Ordering::Relaxed);
        })
    }

    /// Prints a line on standard error at each fault in the range, with the last 240 bytes of `name`, the name of the
    /// memory there. Then passes the fault to the previous handler.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub fn refuse(range: Range<usize>, name: &str) -> std::io::Result<Watch> {
        let name = name.as_bytes();
        let said = &name[name.len().saturating_sub(NAME_BYTES)..];
        Watch::take(range, false, |slot| {
            // Relaxed: as above.
            slot.callback.store(std::ptr::null_mut(), Ordering::Relaxed);
            for (to, from) in slot.name.iter().zip(said.iter().copied().chain(std::iter::repeat(0))) {
                // Relaxed: as above.
                to.store(from, Ordering::Relaxed);
            }
        })
    }

    fn take(range: Range<usize>, is_called: bool, fill: impl FnOnce(&Slot)) -> std::io::Result<Watch> {
        // Acquire: the slot's previous use has ended.
        let free =
            |slot: &&Slot| slot.from.compare_exchange(0, range.start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = ACTIVE.iter().find(free).ok_or(std::io::ErrorKind::QuotaExceeded)?;
        // From here on, dropping the watch frees the slot.
        let mut watch = Watch { slot, is_called: false };
        fill(slot);
        catch_faults(|callback| callback + usize::from(is_called))?;
        watch.is_called = is_called;
        // Release: pairs with the handler's load. Until this store the range is empty.
        slot.to.store(range.end, Ordering::Release);
        Ok(watch)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Release, in this order: while its end is zero, a range contains no address; after the second store the slot
        // is free.
        self.slot.to.store(0, Ordering::Release);
        self.slot.from.store(0, Ordering::Release);
        // If this call fails, the handler stays on the threads' stacks, and works there too.
        let _ = catch_faults(|callback| callback - usize::from(self.is_called));
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.from.load(Ordering::Relaxed))
    }
}

/// The number of ranges with a callback; `None` while the signal is not caught.
static CALLBACKS: Mutex<Option<usize>> = Mutex::new(None);

/// Catches the signal, if it is not caught yet, and chooses the handler's stack by the number of callbacks.
fn catch_faults(changed: impl FnOnce(usize) -> usize) -> std::io::Result<()> {
    let mut callback = CALLBACKS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let now = changed(callback.unwrap_or(0));
    let is_as_before = callback.is_some_and(|before| (before == 0) == (now == 0));
    if !is_as_before {
        handle_on(if now == 0 { libc::SA_ONSTACK } else { 0 })?;
    }
    *callback = Some(now);
    Ok(())
}

/// Installs the handler on the alternate stack (`SA_ONSTACK`) or on the thread's stack (0).
fn handle_on(stack: i32) -> std::io::Result<()> {
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask.
    let (mut before, mut action): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the action; `before` is a valid place for the answer.
    unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut before) };
    let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = on_fault;
    if before.sa_sigaction == handler as usize {
        // The present handler is ours: only its stack is changed.
    } else if BEFORE.set(before).is_err() {
        // A later handler has replaced ours. The library leaves the later handler in place. That handler may or may not
        // pass faults on to ours.
        return Ok(());
    }
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | stack;
    // SAFETY: a valid `sigaction`, whose handler has the form that SA_SIGINFO asks for. The handler may run on the
    // stack of any thread: the kernel keeps the red zone below the stack pointer (128 bytes, if the ABI has one), puts
    // its frame below that, and ends the process if the stack has no room. The handler keeps no address of its own
    // stack.
    match unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

extern "C" fn on_fault(signal: i32, info: *const libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid `info`.
    let about = unsafe { &*info };
    // SAFETY: for this signal the kernel fills in the address.
    let address = unsafe { about.si_addr() }.addr();
    let range = |slot: &Slot| slot.from.load(Ordering::Acquire)..slot.to.load(Ordering::Acquire);
    let here = ACTIVE.iter().filter(|slot| range(slot).contains(&address));
    let Some(slot) = here.min_by_key(|slot| range(slot).len()) else { return pass_on(signal, info, context) };
    let callback = slot.callback.load(Ordering::Relaxed);
    if callback.is_null() {
        say(slot, address);
        return pass_on(signal, info, context);
    }
    // SAFETY: the slot has an end, so `begin` stored an `OnFault` before it.
    let callback = unsafe { std::mem::transmute::<*mut (), OnFault>(callback) };
    // Several threads may store to the range. A handler may not take a lock that sleeps.
    while slot.busy.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    // SAFETY: the caller of `begin` has promised that this call is allowed at any time; `busy` keeps out a second
    // call.
    unsafe { callback(slot.argument.load(Ordering::Relaxed), address) };
    slot.busy.store(false, Ordering::Release);
}

/// Calls the signal's previous handler for the fault.
fn pass_on(signal: i32, info: *const libc::siginfo_t, context: *const libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        // After the return the processor repeats the store, and the signal then ends the process.
        // SAFETY: the kernel returned this `sigaction`, so it is valid.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    } else if before.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: the value is neither SIG_DFL nor SIG_IGN, so it is a handler; a handler without SA_SIGINFO has this
        // form.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(before.sa_sigaction) };
        handler(signal);
    } else {
        type Handler = extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void);
        // SAFETY: as above; a handler with SA_SIGINFO has this form.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
        handler(signal, info, context);
    }
}

/// Prints the name of the memory at the address on standard error, by async-signal-safe means only.
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
    put(&mut b" was stopped by the guard, because no running transaction has declared that memory of ".iter().copied());
    put(&mut slot.name.iter().map(|byte| byte.load(Ordering::Relaxed)));
    put(&mut b"\n".iter().copied());
    // SAFETY: `line` has at least `at` bytes; `write` may be called in a handler. A failure is ignored.
    unsafe { libc::write(2, line.as_ptr().cast(), at) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watched page, the stack address at which the callback ran, and its number of calls.
    struct Told {
        page: *mut libc::c_void,
        bytes: usize,
        place: usize,
        times: usize,
    }

    unsafe fn open(argument: *mut (), _: usize) {
        // SAFETY: the argument of `Watch::begin`, which no other code uses before the store is repeated.
        let callback = unsafe { &mut *argument.cast::<Told>() };
        (callback.place, callback.times) = (std::ptr::from_ref(&argument).addr(), callback.times + 1);
        // SAFETY: a mapping of this test.
        unsafe { libc::mprotect(callback.page, callback.bytes, libc::PROT_READ | libc::PROT_WRITE) };
    }

    fn is_on_stack_of_signals() -> bool {
        // SAFETY: zeros are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only reads the present setting.
        unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut action) };
        action.sa_flags & libc::SA_ONSTACK != 0
    }

    #[test]
    fn the_callback_runs_on_the_threads_stack_and_only_for_its_own_fault() {
        // SAFETY: zeros are a valid `stack_t`.
        let mut alternate: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: only reads the present setting.
        unsafe { libc::sigaltstack(std::ptr::null(), &mut alternate) };
        let of_signals = alternate.ss_sp.addr()..alternate.ss_sp.addr() + alternate.ss_size;
        assert!(!of_signals.is_empty(), "a thread of Rust's has a stack for signals");
        let bytes = rustix::param::page_size();
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which replaces no existing mapping.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read, private, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let mut callback = Told { page, bytes, place: 0, times: 0 };
        let argument = std::ptr::from_mut(&mut callback);

        // The stack is not checked before this call, because the signal may not be caught yet.
        let refused = Watch::refuse(8..16, "nothing").unwrap();
        assert!(is_on_stack_of_signals());
        // SAFETY: `callback` and the page outlive the watch.
        let watch = unsafe { Watch::begin(page.addr()..page.addr() + bytes, argument.cast(), open) }.unwrap();
        // SAFETY: as above; no fault ever happens there.
        let another = unsafe { Watch::begin(16..24, std::ptr::null_mut(), open) }.unwrap();
        drop(another);
        // SAFETY: the page is read-only, so the store faults, and is repeated when the page is writable.
        unsafe { page.cast::<u8>().write_volatile(1) };
        assert!(!is_on_stack_of_signals());
        drop(watch);
        assert!(is_on_stack_of_signals());
        drop(refused);
        assert!(is_on_stack_of_signals());

        assert_eq!(callback.times, 1);
        assert!(!of_signals.contains(&callback.place), "{:#x} of {of_signals:#x?}", callback.place);
        // SAFETY: no code uses the page any more.
        unsafe { libc::munmap(page, bytes) };
    }
}
