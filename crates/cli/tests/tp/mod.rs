//! Runs the real `tp` and checks its output and its exit code.
#![allow(dead_code)] // Every file of tests is a program of its own and uses a part of this module.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The output and the exit code of a run of `tp`.
pub struct Said {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs `tp VERB --env DIR WORDS..`, with nothing on standard input.
pub fn tp(verb: &str, env: &Path, words: &[&str]) -> Said {
    tp_reading(verb, env, words, b"")
}

/// Runs `tp VERB --env DIR WORDS..`, with `input` on standard input.
pub fn tp_reading(verb: &str, env: &Path, words: &[&str], input: &[u8]) -> Said {
    let mut all: Vec<&OsStr> = verb.split(' ').map(OsStr::new).collect();
    all.extend([OsStr::new("--env"), env.as_os_str()]);
    all.extend(words.iter().map(OsStr::new));
    tp_words(&all, input)
}

/// Runs `tp` with any words.
pub fn tp_words<S: AsRef<OsStr>>(words: &[S], input: &[u8]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(words).env_remove("TP_ENV");
    run(command, input)
}

/// Runs `tp` with any words in a directory, with `TP_ENV` set to `variable`.
pub fn tp_in<S: AsRef<OsStr>>(directory: &Path, variable: Option<&OsStr>, words: &[S]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(words).current_dir(directory).env_remove("TP_ENV").envs(variable.map(|value| ("TP_ENV", value)));
    run(command, b"")
}

/// Runs any program.
pub fn run(mut command: Command, input: &[u8]) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    // A program that ends early closes the pipe. The test is about its output and its exit code.
    let feeder = std::thread::spawn(move || stdin.write_all(&input).ok());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child can be waited for");
    feeder.join().expect("the feeder does not panic");
    Said { code: status.code(), out: stdout, err: String::from_utf8_lossy(&stderr).into_owned() }
}

impl Said {
    /// Returns standard output as text, of a run that must have succeeded.
    pub fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        String::from_utf8(self.out).expect("text is UTF-8")
    }

    /// Returns standard output as lines of JSON: nothing else may be on it.
    pub fn json(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.out).expect("JSON is UTF-8");
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        text.lines().map(parse).collect()
    }

    /// Returns the last line of JSON, of a run that must have succeeded.
    pub fn result(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        self.json().pop().expect("there is a result")
    }

    /// Returns standard error, of a run that must have ended with this code.
    pub fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        &self.err
    }
}
