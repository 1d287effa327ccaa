//! A machine: QEMU with a file as memory, a console that is read, a monitor that takes commands, and a port whose bytes
//! go to a file.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use super::build::{Built, MEMORY};

/// The file with the port's bytes.
pub const TOLD: &str = "told";
/// A kind of crash: the kernel panics, and a second kernel takes over at once, without the firmware.
pub const SECOND: &str = "p";
const MONITOR: &str = "monitor";
const CONSOLE: &str = "console";

/// A machine that is switched on.
pub struct Machine {
    command: Vec<String>,
    state: PathBuf,
    child: Child,
    lines: Receiver<String>,
}

impl Machine {
    /// Switches a machine on.
    pub fn start(built: &Built, state: &Path, kinds: &str, seed: u64) -> io::Result<Machine> {
        // The disk of the records' files, and of the controls.
        fs::File::create(state.join("disk"))?.set_len(MEMORY << 20)?;
        // A second kernel has its own memory, which the first kernel never uses.
        let (megabytes, set_aside, initrd) = match kinds.split(',').any(|kind| kind == SECOND) {
            true => (512, "crashkernel=160M ", &built.initrd_of_two),
            false => (320, "", &built.initrd),
        };
        // These options switch off parts of the kernel that start slowly on an emulated machine and are not under test.
        let kernel = format!(
            "console=ttyS0 quiet loglevel=1 panic=-1 reboot=t nokaslr mitigations=off tsc=reliable no_timer_check audit=0 \
             random.trust_cpu=on acpi=off cryptomgr.notests \
             initcall_blacklist=init_kprobe_trace,load_system_certificate_list,crypto_kdf108_init \
             memmap={MEMORY}M!128M {set_aside}rdinit=/init lab.kinds={kinds} lab.seed={seed}"
        );
        let place = |name: &str| state.join(name).display().to_string();
        let arguments = [
            format!("-nodefaults -no-user-config -display none -m {megabytes} -smp 1 -serial stdio"),
            "-machine pc,usb=off,vmport=off,memory-backend=ram -accel tcg -cpu qemu64".to_owned(),
            format!("-object memory-backend-file,id=ram,share=on,mem-path={},size={megabytes}M", place("memory")),
            format!("-monitor unix:{},server=on,wait=off", place(MONITOR)),
            format!(
                "-chardev file,id=told,path={},append=on -device isa-debugcon,iobase=0xe9,chardev=told",
                place(TOLD)
            ),
            format!(
                "-drive if=none,id=disk,file={},format=raw,cache=unsafe -device virtio-blk-pci,drive=disk",
                place("disk")
            ),
            format!("-kernel {} -initrd {}", built.kernel.display(), initrd.display()),
        ];
        let mut command: Vec<String> = arguments.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
        command.extend(["-append".to_owned(), kernel]);
        let (child, lines) = turn_on(&command, state)?;
        Ok(Machine { command, state: state.to_path_buf(), child, lines })
    }

    /// Returns the next line of the console, or `None` if no line comes in time.
    pub fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Crashes the machine from outside.
    pub fn crash(&mut self, kind: &str) -> io::Result<()> {
        match kind {
            "m" => self.tell("system_reset"),
            "n" => self.tell("nmi"),
            _ => {
                self.child.kill()?;
                self.child.wait()?;
                // Drains the rest of the old console.
                while self.lines.recv().is_ok() {}
                (self.child, self.lines) = turn_on(&self.command, &self.state)?;
                Ok(())
            }
        }
    }

    /// Gives the monitor a command and waits until the command is done: if the connection is closed too early, the
    /// command may be lost.
    fn tell(&self, what: &str) -> io::Result<()> {
        let mut monitor = UnixStream::connect(self.state.join(MONITOR))?;
        monitor.set_read_timeout(Some(Duration::from_secs(30)))?;
        wait_for_prompt(&mut monitor)?;
        monitor.write_all(format!("{what}\n").as_bytes())?;
        wait_for_prompt(&mut monitor)
    }
}

/// Reads the monitor's output up to its prompt.
fn wait_for_prompt(monitor: &mut UnixStream) -> io::Result<()> {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"(qemu) ") {
        monitor.read_exact(&mut byte)?;
        said.push(byte[0]);
    }
    Ok(())
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The machine may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn turn_on(command: &[String], state: &Path) -> io::Result<(Child, Receiver<String>)> {
    let errors = fs::File::create(state.join("qemu.errors"))?;
    let mut child = Command::new("qemu-system-x86_64")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()?;
    let console = child.stdout.take().ok_or_else(|| io::Error::other("the machine has no console"))?;
    let mut copy = fs::OpenOptions::new().create(true).append(true).open(state.join(CONSOLE))?;
    let (say, lines) = channel();
    std::thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes != 0) {
            // The lines are also kept in a file, for the search after a failure.
            let _ = copy.write_all(&line);
            if say.send(String::from_utf8_lossy(&line).trim().to_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });
    Ok((child, lines))
}
