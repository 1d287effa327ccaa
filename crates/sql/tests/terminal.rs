//! Does the shell work at a terminal: editing, completion, history, Ctrl-C?
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_sql;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use tempfile::tempdir;

/// A program at a pseudo-terminal, and the other end of this terminal.
struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<u8>,
}

impl Terminal {
    fn start(home: &std::path::Path, words: &[&str]) -> Terminal {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let end = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let mut command = tp_sql::command(home, words);
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm").env("XDG_STATE_HOME", home);
        let child = command.spawn().unwrap();
        let (keys, mut screen) = (File::from(person.try_clone().unwrap()), File::from(person));
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails when the program has ended.
            while let Ok(length) = screen.read(&mut bytes) {
                let mut sent = bytes[..length].iter().map(|byte| sender.send(*byte));
                if sent.any(|sent| sent.is_err()) {
                    break;
                }
            }
        });
        Terminal { child, keys, shown }
    }

    /// Waits for the prompt, and then presses keys. Before the prompt, the kernel's terminal driver would edit the
    /// line.
    #[track_caller]
    fn enter(&mut self, keys: &str) {
        self.shows("sql> ");
        self.press(keys);
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text is shown. Calls `meanwhile` after each tenth of a second without output.
    #[track_caller]
    fn until(&self, text: &str, mut meanwhile: impl FnMut()) {
        let (mut shown, begin) = (Vec::new(), Instant::now());
        while !shown.ends_with(text.as_bytes()) {
            match self.shown.recv_timeout(Duration::from_millis(100)) {
                Ok(byte) => shown.push(byte),
                Err(_) => meanwhile(),
            }
            let all = || String::from_utf8_lossy(&shown).into_owned();
            assert!(begin.elapsed() < Duration::from_secs(60), "{text:?} is not shown: {:?}", all());
        }
    }

    /// Waits until the program has exited with success.
    #[track_caller]
    fn ends(&mut self) {
        let begin = Instant::now();
        let ended = loop {
            match self.child.try_wait().unwrap() {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the program does not end");
        };
        assert!(ended.success(), "{ended}");
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        self.until(text, || {});
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test the program may still run. Killing a program that has ended is an error without harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_are_edited_and_ctrl_c_ends_the_statement_and_not_the_shell() {
    let home = tempdir().unwrap();
    tp_sql::sql(home.path(), &["one.tp", "CREATE TABLE ledger(cents); INSERT INTO ledger VALUES (4711)"]).text();
    let mut terminal = Terminal::start(home.path(), &["one.tp"]);
    // A statement of two lines, with a name and a word of SQL that Tab completes.
    terminal.enter("sel\t cents,\r1 FROM led\t;\r");
    terminal.shows("4711   1\r\n");
    terminal.enter("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n;\r");
    let pid = Pid::from_child(&terminal.child);
    terminal.until("tp: interrupted\r\n", || kill_process(pid, Signal::INT).unwrap());
    terminal.enter("SELECT 2 + 2;\r");
    terminal.shows("4\r\n");
    terminal.enter("SELECT missing;\r");
    terminal.shows("tp: no such column: missing");
    terminal.enter("SELECT 'given up");
    terminal.shows("given up");
    terminal.press("\x03");
    terminal.shows("\r\n");
    terminal.enter(".quit\r");
    terminal.ends();
    let history = std::fs::read_to_string(home.path().join("tp/sql_history")).unwrap();
    assert!(history.contains("SELECT 2 + 2;") && !history.contains("given up"), "{history}");
}

#[test]
fn control_characters_are_escaped_at_a_terminal() {
    let home = tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), &[":memory:", "SELECT 'a' || char(27) || 'b' AS v"]);
    terminal.shows("a\\u{1b}b\r\n");
    terminal.ends();
}
