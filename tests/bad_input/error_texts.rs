//! Checks of error messages.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use libtp::{Db, Env, Error, Txn};

/// Checks that the error's text contains these words, and that it is a sentence without Rust's debug output.
#[track_caller]
pub fn says(error: &Error, words: &[&str]) {
    let sentence = error.to_string();
    for word in words {
        assert!(sentence.contains(word), "the error does not name {word:?}: {sentence}");
    }
    assert!(sentence.len() > 20, "the error is no sentence: {sentence}");
    for leftover in ["Os {", "ErrorKind", "Some(", "Err("] {
        assert!(!sentence.contains(leftover), "the error has debug output: {sentence}");
    }
}

/// Checks that opening fails within a minute. Returns the error.
#[track_caller]
pub fn refused(directory: &Path) -> Error {
    let (to, from) = channel();
    let path = directory.to_path_buf();
    std::thread::spawn(move || to.send(Env::open_or_create(path)));
    match from.recv_timeout(Duration::from_secs(60)) {
        Ok(Err(error)) => error,
        Ok(Ok(env)) => panic!("{} was opened: {:?}", directory.display(), env.opened()),
        Err(_) => panic!("opening {} panicked or did not end in time", directory.display()),
    }
}

/// Returns the value that the tests put under a number.
pub fn value_of(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

/// Returns the key of a number.
pub fn key_of(number: u64) -> Vec<u8> {
    format!("key/{number:08}").into_bytes()
}

/// Reads the value of a number and compares it.
pub fn check_value(table: &Db, txn: &Txn<'_>, number: u64, bytes: usize) -> libtp::Result<()> {
    let found = table.get(txn, &key_of(number))?;
    assert!(found.as_deref() == Some(&value_of(number, bytes)[..]), "key {number} is lost or has another value");
    Ok(())
}
