//! Reports to the host: bytes written to a port. The virtual machine appends each byte to a file at once.
#![allow(unsafe_code)]

use std::arch::asm;

use crate::records::Committed;

const PORT: u16 = 0xe9;

/// The port.
pub struct Port(());

impl Port {
    /// Opens the port, and ends the line that a crash may have cut off.
    pub fn open() -> Port {
        // SAFETY: gets access to one port, which only this program uses.
        let done = unsafe { libc::ioperm(PORT.into(), 1, 1) };
        assert_eq!(done, 0, "ioperm: {}", std::io::Error::last_os_error());
        let port = Port(());
        port.say("\n");
        port
    }

    fn say(&self, text: &str) {
        for byte in text.bytes() {
            // SAFETY: `open` got access to the port; the virtual machine writes the byte to a file and changes
            // nothing that a program can see.
            unsafe { asm!("out dx, al", in("dx") PORT, in("al") byte, options(nomem, nostack, preserves_flags)) };
        }
    }

    /// Reports that the machine was started, and the number of transactions found.
    pub fn began(&self, ended: u64) {
        self.say(&format!("b{ended:012x}\n"));
    }

    /// Reports the number of transactions that have ended.
    pub fn ended(&self, ended: u64) {
        self.say(&format!("k{ended:012x}\n"));
    }

    /// Reports a committed transfer. The letter names the environment. A capital letter marks the state that was found
    /// at the start.
    pub fn committed(&self, letter: char, committed: Committed) {
        self.say(&format!("{letter}{:012x}{:016x}\n", committed.number, committed.digest));
    }
}
