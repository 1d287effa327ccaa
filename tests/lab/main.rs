//! The guest of the warm-reboot lab: the only program of a machine, started as its init program. The machine's kernel
//! crashes while the guest stores.
//!
//! Paper: Rio Vista, section 3: the operating system crashes, and the memory keeps its contents. `cargo xtask lab`
//! starts the machine, and crashes it or makes the guest crash it. The guest stores to a file in memory that a warm
//! start keeps (`/dev/pmem0`, ext4, DAX), and the file must have these stores after the restart. Through a port
//! (`port`) the guest reports each transaction that has ended, and the host compares these reports with the state after
//! the restart.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | the work of an init program: filesystems, drivers, the crash |
//! | `port` | reports to the host |
//! | `second` | a second kernel, which the panicking kernel starts |
//! | `work` | stores to segments, and the check of their contents |
//! | `records` | records of the library itself, and the check of their contents |
//!
//! Each line that the guest prints on its console begins with `LAB`.
// A panic reports the failure and ends the work of the machine.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

#[allow(dead_code)] // The tests of a killed process need more of it.
#[path = "../vista/business.rs"]
mod business;
mod kernel;
mod port;
mod records;
mod second;
mod work;

use std::time::Duration;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("torn") {
        work::tear();
    }
    std::panic::set_hook(Box::new(|what| println!("LAB ERROR {}", what.to_string().replace('\n', " "))));
    if std::panic::catch_unwind(run).is_err() {
        // The host has read the panic's message and ends the machine. An init program must not end.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn run() {
    kernel::prepare();
    let boots = work::boots();
    if boots > 0 {
        work::look();
    }
    let books = records::open(boots);
    let kinds = kernel::argument("lab.kinds");
    let kinds: Vec<&str> = kinds.split(',').collect();
    let kind = kinds[boots % kinds.len()].to_owned();
    if second::is_running() {
        println!("LAB SECOND");
    }
    if kind == kernel::SECOND {
        second::load();
    }
    work::set_boots(boots + 1);
    println!("LAB BOOT {} {kind}", boots + 1);
    let wait = kernel::argument("lab.seed").parse::<u64>().unwrap().wrapping_add(boots as u64);
    // The wait is long enough for some transactions, and differs from boot to boot.
    let wait = 200 + business::Draw(wait.wrapping_mul(0x9e37_79b9)).below(600);
    let crash = move || {
        std::thread::sleep(Duration::from_millis(wait));
        kernel::crash(&kind);
    };
    work::work(boots as u64, books, || drop(std::thread::spawn(crash)));
}
