//! Measures the cost of catching the first store to a page, in two ways that Linux offers: read-only pages (`mprotect`,
//! where the kernel splits the mapping at each change of protection), and write-protected entries of the page table
//! (`userfaultfd`). The storing thread handles the fault in a signal handler. With `userfaultfd`, in a further
//! measurement, another thread waits for the fault instead.
//!
//! Each way does the work of Vista's automatic ranges: the page is copied and made writable, and the store is repeated;
//! at the end of the transaction its pages are protected again. A transaction stores to 1, 16 or 256 pages of 50 MB.
//! Prints a column for each of these numbers of pages, in microseconds per page. Each result is a median; the ways take
//! turns in the rounds.
//!
//! `cargo run --release -p libtp-rio --example fault_cost [DIRECTORY]`. Linux on x86-64 and aarch64.
#![allow(unsafe_code, clippy::unwrap_used, clippy::cast_possible_truncation, clippy::undocumented_unsafe_blocks)]
#![allow(clippy::multiple_unsafe_ops_per_block)] // A measurement, which no program uses.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Instant;

const PAGE: usize = 4096;
const BYTES: usize = 50 << 20;
const ROUNDS: usize = 21;

/// From `linux/userfaultfd.h`.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const REGISTER_MODE_WP: u64 = 2;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const WRITEPROTECT_MODE_WP: u64 = 1;

/// The handlers' parameters: the places where the copies begin and end, and the descriptor.
static LOG: AtomicUsize = AtomicUsize::new(0);
static TOP: AtomicUsize = AtomicUsize::new(0);
static UFFD: AtomicI32 = AtomicI32::new(-1);

fn save(page: usize) {
    let top = TOP.fetch_add(PAGE, Ordering::Relaxed);
    unsafe { std::ptr::copy_nonoverlapping(page as *const u8, (LOG.load(Ordering::Relaxed) + top) as *mut u8, PAGE) };
}

fn write_protect(uffd: i32, from: usize, bytes: usize, mode: u64) {
    let arguments = [from as u64, bytes as u64, mode];
    let done = unsafe { libc::ioctl(uffd, UFFDIO_WRITEPROTECT as _, arguments.as_ptr()) };
    assert_eq!(done, 0, "UFFDIO_WRITEPROTECT: {}", std::io::Error::last_os_error());
}

extern "C" fn on_segv(_: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    let page = unsafe { (*info).si_addr() } as usize & !(PAGE - 1);
    save(page);
    unsafe { libc::mprotect(page as *mut _, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
}

extern "C" fn on_bus(_: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    let page = unsafe { (*info).si_addr() } as usize & !(PAGE - 1);
    save(page);
    write_protect(UFFD.load(Ordering::Relaxed), page, PAGE, 0);
}

fn catch(signal: i32, handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void)) {
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
}

/// Maps a file in memory whose pages are all present.
fn mapped(bytes: usize) -> usize {
    map(unsafe { libc::memfd_create(c"fault-cost".as_ptr(), 0) }, bytes)
}

fn map(file: i32, bytes: usize) -> usize {
    assert_eq!(unsafe { libc::ftruncate(file, bytes as i64) }, 0);
    let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, shared, file, 0) };
    unsafe { std::ptr::write_bytes(place.cast::<u8>(), 1, bytes) };
    place as usize
}

/// Returns a descriptor that reports stores to the range, with these features.
fn watch(base: usize, features: u64, flags: libc::c_int) -> Result<i32, String> {
    let refused = |call: &str| format!("{call}: {}", std::io::Error::last_os_error());
    let uffd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) } as i32;
    if uffd < 0 {
        return Err(refused("userfaultfd"));
    }
    let api = [API, FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_HUGETLBFS_SHMEM | features, 0];
    if unsafe { libc::ioctl(uffd, UFFDIO_API as _, api.as_ptr()) } != 0 {
        return Err(refused("UFFDIO_API"));
    }
    let register = [base as u64, BYTES as u64, REGISTER_MODE_WP, 0];
    if unsafe { libc::ioctl(uffd, UFFDIO_REGISTER as _, register.as_ptr()) } != 0 {
        return Err(refused("UFFDIO_REGISTER"));
    }
    Ok(uffd)
}

/// Waits for faults, and handles them as the signal handlers do.
fn serve(uffd: i32) {
    let mut message = [0_u8; 32];
    while unsafe { libc::read(uffd, message.as_mut_ptr().cast(), message.len()) } == message.len() as isize {
        let address = u64::from_ne_bytes(message[16..24].try_into().unwrap()) as usize & !(PAGE - 1);
        save(address);
        write_protect(uffd, address, PAGE, 0);
    }
}

/// A way to catch stores.
struct Way {
    name: &'static str,
    base: usize,
    uffd: Option<i32>,
    figures: Vec<f64>,
}

impl Way {
    fn protect(&self, from: usize, bytes: usize) {
        match self.uffd {
            Some(uffd) => write_protect(uffd, from, bytes, WRITEPROTECT_MODE_WP),
            None => assert_eq!(unsafe { libc::mprotect(from as *mut _, bytes, libc::PROT_READ) }, 0),
        }
    }

    fn round(&mut self, round: usize, pages: usize) {
        TOP.store(0, Ordering::Relaxed);
        UFFD.store(self.uffd.unwrap_or(-1), Ordering::Relaxed);
        let place = |nth: usize| self.base + (nth + round) * 7919 % (BYTES / PAGE) * PAGE;
        let start = Instant::now();
        for nth in 0..pages {
            unsafe { std::ptr::write_volatile((place(nth) + round) as *mut u8, round as u8) };
        }
        (0..pages).for_each(|nth| self.protect(place(nth), PAGE));
        self.figures.push(start.elapsed().as_secs_f64() * 1e6 / pages as f64);
        assert_eq!(TOP.load(Ordering::Relaxed), pages * PAGE, "{}: each page was reported once", self.name);
    }
}

fn main() {
    LOG.store(mapped(BYTES), Ordering::Relaxed);
    catch(libc::SIGSEGV, on_segv);
    catch(libc::SIGBUS, on_bus);
    let mut ways = vec![Way { name: "mprotect", base: mapped(BYTES), uffd: None, figures: Vec::new() }];
    for (name, features) in [("userfaultfd, signal", FEATURE_SIGBUS), ("userfaultfd, thread", 0)] {
        let base = mapped(BYTES);
        let all = watch(base, features, 0);
        println!(
            "{name}: with the right to catch faults of the kernel: {}",
            all.as_ref().map_or_else(String::as_str, |_| "yes")
        );
        // If `vm.unprivileged_userfaultfd` is 0, a process without rights gets only the faults of user mode.
        let few = all.or_else(|_| watch(base, features, USER_MODE_ONLY));
        println!("{name}: only for faults of user mode: {}", few.as_ref().map_or_else(String::as_str, |_| "yes"));
        let Ok(uffd) = few else { continue };
        if features == 0 {
            std::thread::spawn(move || serve(uffd));
        }
        ways.push(Way { name, base, uffd: Some(uffd), figures: Vec::new() });
    }
    // The kernel does not write-protect pages by userfaultfd in files on a disk, or in files on a DAX filesystem.
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    let path = std::ffi::CString::new(directory.clone()).unwrap();
    let on_disk = map(unsafe { libc::open(path.as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600) }, BYTES);
    let told = watch(on_disk, FEATURE_SIGBUS, USER_MODE_ONLY).map_or_else(|what| what, |_| "yes".into());
    println!("userfaultfd, a file in {directory}: {told}");
    ways.iter().for_each(|way| way.protect(way.base, BYTES));
    println!("{:>24} {:>8} {:>8} {:>8}   us per page", "pages", 1, 16, 256);
    let mut table = vec![String::new(); ways.len()];
    for pages in [1, 16, 256] {
        for round in 0..ROUNDS {
            ways.iter_mut().for_each(|way| way.round(round, pages));
        }
        for (way, line) in ways.iter_mut().zip(&mut table) {
            way.figures.sort_by(f64::total_cmp);
            line.push_str(&format!(" {:>8.2}", way.figures[ROUNDS / 2]));
            way.figures.clear();
        }
    }
    ways.iter().zip(table).for_each(|(way, line)| println!("{:>24}{line}", way.name));
}
