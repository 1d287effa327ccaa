//! A token that processes pass round while they are killed: there is always one token, and each piece of work is done
//! once.
//!
//! `cargo run --release -p libtp --example token`

mod ring;

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use libtp::Env;
use ring::Ring;

const STATIONS: u64 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, station, path] = &arguments[..] {
        let ring = Ring::open(&Env::open_or_create(path)?, STATIONS)?;
        let station = station.parse()?;
        loop {
            if ring.turn(station)?.is_none() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
    let directory = tempfile::tempdir()?;
    let start = |station: u64| -> std::io::Result<Child> {
        Command::new(std::env::current_exe()?).arg(station.to_string()).arg(directory.path()).spawn()
    };
    let mut stations = (0..STATIONS).map(start).collect::<Result<Vec<Child>, _>>()?;
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(5) {
        for station in 0..STATIONS {
            std::thread::sleep(Duration::from_millis(100));
            let process = &mut stations[usize::try_from(station)?];
            process.kill()?;
            process.wait()?;
            *process = start(station)?;
            kills += 1;
        }
    }
    for process in &mut stations {
        process.kill()?;
        process.wait()?;
    }
    let count = Ring::open(&Env::open_or_create(directory.path())?, STATIONS)?.check()??;
    println!("{kills} stations were killed; the token was passed on {count} times, and there is one token");
    Ok(())
}
