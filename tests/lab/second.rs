//! A second kernel, which the running kernel loads into reserved memory. When the running kernel panics, it starts the
//! second kernel directly, without firmware.
//!
//! Paper: Rio Vista, section 3. There the warm start reads the memory before the memory is cleared. Here the second
//! kernel runs in memory that was reserved for it (`crashkernel=`), and starts this program. The program finds the
//! filesystem in the kept memory.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

const KERNEL: &str = "/second/kernel";
const INITRD: &str = "/second/initrd";
/// A file that exists only under a second kernel: the memory of the kernel that panicked.
const MEMORY_OF_THE_FIRST: &str = "/proc/vmcore";

/// Returns whether this is the second kernel.
pub fn is_running() -> bool {
    Path::new(MEMORY_OF_THE_FIRST).exists()
}

/// Loads the second kernel, with the command line of the running kernel.
pub fn load() {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap();
    let words = line.split_whitespace().filter(|word| !word.starts_with("crashkernel="));
    let words: Vec<&str> = words.chain(["nr_cpus=1", "reset_devices"]).collect();
    let line = CString::new(words.join(" ")).unwrap();
    let (kernel, initrd) = (File::open(KERNEL).unwrap(), File::open(INITRD).unwrap());
    // SAFETY: two open files, and a text of the given length with a zero at its end; all outlive the call. The kernel
    // copies them and changes nothing that this program can see.
    let done = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            libc::c_long::from(kernel.as_raw_fd()),
            libc::c_long::from(initrd.as_raw_fd()),
            line.as_bytes_with_nul().len(),
            line.as_ptr(),
            libc::c_long::from(libc::KEXEC_FILE_ON_CRASH),
        )
    };
    assert_eq!(done, 0, "kexec_file_load: {}", std::io::Error::last_os_error());
}
