//! The next instruction of a stepped child, and its possible effect on memory that the child shares: one mapped file,
//! or all shared memory.
//!
//! Few instructions store to that memory. A trace reads the memory only after these instructions.

use std::collections::HashMap;
use std::path::PathBuf;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory,
};
use libc::user_regs_struct;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::quiet::{Quiet, Successors};

/// The longest instruction of the processor, rounded up to whole words.
const WORDS: usize = 2;
/// The most bytes between the beginning of a store and the first byte that it changes.
const LONGEST_STORE: u64 = 4096;

/// The memory that a trace watches: the trace finds the stores to this memory.
#[derive(Clone, Debug)]
pub enum Memory {
    /// All mappings of the file with this path.
    File(PathBuf),
    /// All shared mappings that the child may write to.
    Shared,
}

/// The effect of an instruction on the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The memory does not change.
    None,
    /// The memory may have other bytes afterwards.
    Store,
    /// The cache line at this offset of the mapped file is written back.
    WriteBack(usize),
    /// All cache lines that were written back before are in memory afterwards.
    Fence,
    /// A system call with this number. The memory may have other bytes afterwards.
    Call(i64),
}

/// A decoded instruction.
struct Known {
    mnemonic: Mnemonic,
    /// The memory operands that the instruction writes, or whose cache lines it writes back.
    places: Vec<UsedMemory>,
    /// The addresses at which the child can be after the instruction. `None` if the instruction stores to other memory
    /// than the stack, or if it jumps to an address that depends on registers or memory.
    successors: Option<Successors>,
}

/// The instructions of a child.
pub struct Instructions {
    pid: Pid,
    memory: Memory,
    factory: InstructionInfoFactory,
    /// The instructions decoded so far, by address. A child loads no code while it is stepped.
    known: HashMap<u64, Known>,
    /// The child's mappings of the memory: first address, end, and the file's offset at the first.
    ranges: Vec<(u64, u64, u64)>,
    quiet: Quiet,
}

impl Instructions {
    /// Begins to decode the instructions of the thread `pid`, which has the memory mapped.
    pub fn new(pid: Pid, memory: Memory) -> Instructions {
        let factory = InstructionInfoFactory::new();
        let (ranges, quiet) = (ranges(pid, &memory), Quiet::new(pid));
        Instructions { pid, memory, factory, known: HashMap::new(), ranges, quiet }
    }

    /// Runs the child past quiet instructions, and returns the effect of its next instruction.
    ///
    /// # Panics
    /// If the thread is not stopped.
    pub fn upcoming(&mut self) -> Effect {
        let (pid, factory, known) = (self.pid, &mut self.factory, &mut self.known);
        let mut decoded = |address| known.entry(address).or_insert_with(|| decode(pid, address, factory)).successors;
        let mut regs = ptrace::getregs(pid).expect("the thread is stopped");
        while self.quiet.run(regs.rip, &mut decoded) {
            regs = ptrace::getregs(pid).expect("the thread is stopped");
        }
        decoded(regs.rip);
        let known = &self.known[&regs.rip];
        let offset_of = |place: &UsedMemory| offset(&self.ranges, &regs, place);
        match known.mnemonic {
            Mnemonic::Syscall => Effect::Call(i64::from_ne_bytes(regs.rax.to_ne_bytes())),
            Mnemonic::Sfence => Effect::Fence,
            Mnemonic::Clwb | Mnemonic::Clflush | Mnemonic::Clflushopt => match known.places.first().map(offset_of) {
                Some(Place::Inside(offset)) => Effect::WriteBack(offset & !63),
                _ => Effect::None,
            },
            _ if known.places.iter().any(|place| offset_of(place) != Place::Outside) => Effect::Store,
            _ => Effect::None,
        }
    }

    /// Reads the mappings again, because the child made a system call, which may have changed them.
    pub fn has_called(&mut self) {
        self.ranges = ranges(self.pid, &self.memory);
    }
}

/// Whether a memory operand of an instruction is in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    /// At this offset of the file.
    Inside(usize),
    /// The operand may be in the file. Either the address is just before the file and the store may be long, or the
    /// address cannot be computed from the general registers.
    Maybe,
}

fn offset(ranges: &[(u64, u64, u64)], regs: &user_regs_struct, place: &UsedMemory) -> Place {
    let Some(address) = place.virtual_address(0, |register, _, _| value(regs, register)) else { return Place::Maybe };
    let inside = ranges.iter().find(|range| (range.0..range.1).contains(&address));
    if let Some((from, _, offset)) = inside {
        return Place::Inside(usize::try_from(address - from + offset).expect("a usize has 64 bits"));
    }
    let is_near = ranges.iter().any(|range| (range.0 - LONGEST_STORE..range.0).contains(&address));
    if is_near {
        Place::Maybe
    } else {
        Place::Outside
    }
}

fn decode(pid: Pid, address: u64, factory: &mut InstructionInfoFactory) -> Known {
    let mut bytes = Vec::new();
    for word in 0..WORDS {
        // The mapping of the code may end after the instruction.
        let Ok(word) = ptrace::read(pid, (address + 8 * word as u64) as *mut libc::c_void) else { break };
        bytes.extend(word.to_ne_bytes());
    }
    let instruction = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode();
    let mnemonic = instruction.mnemonic();
    let is_place = |access| {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        matches!(access, Write | ReadWrite | CondWrite | ReadCondWrite)
            || matches!(mnemonic, Mnemonic::Clwb | Mnemonic::Clflush | Mnemonic::Clflushopt)
    };
    let used = factory.info(&instruction).used_memory();
    // The stack is not in the file.
    let is_stack = |used: &UsedMemory| used.base() == Register::RSP && used.index() == Register::None;
    let places = used.iter().filter(|used| is_place(used.access()) && !is_stack(used)).copied().collect::<Vec<_>>();
    let successors = if places.is_empty() { successors(&instruction) } else { None };
    Known { mnemonic, places, successors }
}

/// Returns the addresses at which the child can be after the instruction; `None` if the instruction does not determine
/// them, or makes a system call.
fn successors(instruction: &Instruction) -> Option<Successors> {
    let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
    match (instruction.mnemonic(), instruction.flow_control()) {
        (Mnemonic::Syscall | Mnemonic::Sfence, _) => None,
        (_, FlowControl::Next) => Some(Successors { one: next, other: None }),
        (_, FlowControl::UnconditionalBranch | FlowControl::Call) => Some(Successors { one: target, other: None }),
        (_, FlowControl::ConditionalBranch) => Some(Successors { one: next, other: Some(target) }),
        _ => None,
    }
}

/// Returns the value of a general register, or the base of a segment.
fn value(regs: &user_regs_struct, register: Register) -> Option<u64> {
    Some(match register.full_register() {
        Register::RAX => regs.rax,
        Register::RCX => regs.rcx,
        Register::RDX => regs.rdx,
        Register::RBX => regs.rbx,
        Register::RSP => regs.rsp,
        Register::RBP => regs.rbp,
        Register::RSI => regs.rsi,
        Register::RDI => regs.rdi,
        Register::R8 => regs.r8,
        Register::R9 => regs.r9,
        Register::R10 => regs.r10,
        Register::R11 => regs.r11,
        Register::R12 => regs.r12,
        Register::R13 => regs.r13,
        Register::R14 => regs.r14,
        Register::R15 => regs.r15,
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}

/// Returns the child's mappings of the memory: first address, end, and the file's offset at the first.
fn ranges(pid: Pid, memory: &Memory) -> Vec<(u64, u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a stopped child has mappings");
    let is_ours = |line: &str| match memory {
        Memory::File(path) => line.ends_with(&*path.to_string_lossy()),
        Memory::Shared => {
            line.split_whitespace().nth(1).is_some_and(|mode| mode.starts_with("rw") && mode.ends_with('s'))
        }
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = |line: &str| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        Some((hex(from)?, hex(to)?, hex(fields.nth(1)?)?))
    };
    maps.lines().filter(|line| is_ours(line)).filter_map(range).collect()
}
