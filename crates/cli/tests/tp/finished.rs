//! Runs a program and keeps its output and its exit code.

use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The output and the exit code of a program.
pub struct Finished {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs any program.
pub fn run(mut command: Command, input: &[u8]) -> Finished {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = loop {
        match command.spawn() {
            // Another thread has forked while this test copied the program. The child of that fork has the copy open
            // for writing until the child runs another program.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            spawned => break spawned.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        }
    };
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    // A program that ends early closes the pipe, so the write may fail. The test checks only the output and the exit
    // code.
    let feeder = std::thread::spawn(move || stdin.write_all(&input).ok());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child can be waited for");
    feeder.join().expect("the feeder does not panic");
    Finished { code: status.code(), out: stdout, err: String::from_utf8_lossy(&stderr).into_owned() }
}

impl Finished {
    /// Returns standard output as text. The run must have succeeded.
    pub fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        String::from_utf8(self.out).expect("text is UTF-8")
    }

    /// Returns standard output as lines of JSON. Nothing else may be on it.
    pub fn json(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.out).expect("JSON is UTF-8");
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        text.lines().map(parse).collect()
    }

    /// Returns the last line of JSON. The run must have succeeded.
    pub fn result(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        self.json().pop().expect("there is a result")
    }

    /// Returns standard error. The run must have ended with the exit code `code`.
    pub fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        &self.err
    }
}
