//! Measures how long the first process, and a process that joins it, take to open an environment of many databases
//! and to get a record.
//!
//! ```text
//! cargo run --release -p libtp --example many_databases -- DIRECTORY 100000
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use libtp::Env;

/// Number of databases that one process makes: each open database keeps a descriptor.
const AT_ONCE: u32 = 500;
const LOOKS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", directory, from, to] => make(directory, from.parse()?, to.parse()?),
        ["look", directory] => look(directory),
        [directory, count] => measure(directory, count.parse()?),
        _ => Err("many_databases DIRECTORY COUNT".into()),
    }
}

fn measure(directory: &str, count: u32) -> Result<(), Box<dyn Error>> {
    for from in (0..count).step_by(AT_ONCE as usize) {
        child(&["make", directory, &from.to_string(), &count.min(from + AT_ONCE).to_string()])?;
        eprint!("\r{from} of {count} databases");
    }
    eprintln!();
    (0..LOOKS).try_for_each(|_| child(&["look", directory]))?;
    let _others = Env::open_or_create(directory)?;
    (0..LOOKS).try_for_each(|_| child(&["look", directory]))
}

fn child(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new(std::env::current_exe()?).args(words).stdin(Stdio::null()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{words:?} failed").into())
    }
}

fn make(directory: &str, from: u32, to: u32) -> Result<(), Box<dyn Error>> {
    let env = Env::open_or_create(directory)?;
    for number in from..to {
        let database = env.btree(&name(number))?;
        if number == 0 {
            env.run(|txn| database.put(txn, b"key", b"value"))?;
        }
    }
    Ok(())
}

fn look(directory: &str) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let env = Env::open_or_create(directory)?;
    let opened = begin.elapsed();
    let database = env.btree(&name(0))?;
    let found = env.run(|txn| database.get(txn, b"key"))?;
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    let [opened, all] = [opened, begin.elapsed()].map(|time| time.as_secs_f64() * 1000.0);
    println!("{:?}: opened in {opened:.1} ms, the first get after {all:.1} ms", env.opened().how);
    Ok(())
}

fn name(number: u32) -> String {
    format!("db{number:06}")
}
