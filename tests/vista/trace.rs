//! A child stepped through its work one instruction at a time, with what each step did to a file that it maps.
//!
//! The `unsafe` is the mapping of that file here.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{raise, Signal};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::Pid;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file's bytes are others than before.
    Store,
    /// The line of 64 bytes at this offset of the file is on its way to memory.
    WriteBack(usize),
    /// What was on its way is there.
    Fence,
}

/// In the child: from here on the parent steps.
pub fn be_traced() {
    ptrace::traceme().unwrap();
    raise(Signal::SIGSTOP).unwrap();
}

/// Runs the command, which calls [`be_traced`], to its end, and tells of each event with the file's bytes after it.
/// Returns the number of steps.
pub fn trace(command: &mut Command, path: &Path, mut told: impl FnMut(Event, &[u8])) -> u64 {
    let child = command.stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let stopped = waitpid(pid, None).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)), "the child came to {stopped:?}");
    let file = Mapped::new(path);
    let ranges = ranges(pid, path);
    let (mut before, mut steps) = (file.bytes().to_vec(), 0);
    loop {
        let event = instruction(pid).and_then(|event| event.of(pid, &ranges));
        ptrace::step(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Exited(_, 0) => return steps,
            other => panic!("the child came to {other:?}"),
        }
        steps += 1;
        if let Some(event) = event {
            told(event, file.bytes());
        } else if file.bytes() != before {
            before.copy_from_slice(file.bytes());
            told(Event::Store, &before);
        }
    }
}

/// An instruction that writes back or fences.
enum Instruction {
    /// The register with the line's address.
    WriteBack(u8),
    Fence,
}

impl Instruction {
    fn of(self, pid: Pid, ranges: &[(u64, u64, u64)]) -> Option<Event> {
        let Instruction::WriteBack(register) = self else { return Some(Event::Fence) };
        let regs = ptrace::getregs(pid).unwrap();
        let all = [
            regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi, regs.r8, regs.r9, regs.r10,
            regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ];
        let address = all[usize::from(register)];
        let (from, _, offset) = *ranges.iter().find(|(from, to, _)| (*from..*to).contains(&address))?;
        Some(Event::WriteBack(usize::try_from((address - from + offset) & !63).unwrap()))
    }
}

/// The next instruction, if it is one of ours.
fn instruction(pid: Pid) -> Option<Instruction> {
    let at = ptrace::getregs(pid).unwrap().rip;
    let bytes = ptrace::read(pid, at as *mut libc::c_void).unwrap().to_ne_bytes();
    let mut rest = bytes.iter().copied().peekable();
    let is_new = rest.next_if_eq(&0x66).is_some();
    let extended = u8::from(rest.next_if(|byte| byte & 0xf1 == 0x41).is_some()) * 8;
    if (rest.next(), rest.next()) != (Some(0x0f), Some(0xae)) {
        return None;
    }
    let form = rest.next()?;
    if form == 0xf8 {
        return Some(Instruction::Fence);
    }
    // clwb is 66 0f ae /6, clflushopt 66 0f ae /7, clflush 0f ae /7; all of one register here.
    let (mode, operation, register) = (form >> 6, form >> 3 & 7, form & 7);
    let is_write_back = operation == 7 || (operation == 6 && is_new);
    (is_write_back && mode < 3).then_some(Instruction::WriteBack(register + extended))
}

/// Where the child has the file mapped: from, to, and the offset of the file there.
fn ranges(pid: Pid, path: &Path) -> Vec<(u64, u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let ours = maps.lines().filter(|line| line.ends_with(path.to_str().unwrap()));
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    ours.map(|line| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next().unwrap().split_once('-').unwrap();
        (hex(from), hex(to), hex(fields.nth(1).unwrap()))
    })
    .collect()
}

/// A file, mapped to be looked at.
struct Mapped {
    place: *mut libc::c_void,
    bytes: usize,
}

impl Mapped {
    fn new(path: &Path) -> Mapped {
        let file = File::open(path).unwrap();
        let bytes = usize::try_from(file.metadata().unwrap().len()).unwrap();
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping.
        let place = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
        Mapped { place, bytes }
    }

    /// The bytes. The one process that changes them is stopped whenever we run.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping just made, which lives as long as `self`; its file does not become shorter; who writes it is
        // stopped.
        unsafe { std::slice::from_raw_parts(self.place.cast::<u8>(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of which nothing is borrowed any more.
        unsafe { munmap(self.place, self.bytes) }.unwrap();
    }
}
