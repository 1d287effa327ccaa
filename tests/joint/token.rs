//! The example of a token under kills: there is always one token, and each holder does its work once.

#[path = "../../crates/libtp/examples/token/ring.rs"]
mod example;

use std::path::Path;
use std::time::Duration;

use libtp::Env;
use libtp_sim::Random;
use libtp_tests::process::{say, Process};
use libtp_tests::sizes;

use example::Ring;

const DIRECTORY: &str = "LIBTP_TEST_TOKEN_DIRECTORY";
const STATION: &str = "LIBTP_TEST_TOKEN_STATION";
const STATIONS: u64 = 3;

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(station)) = (std::env::var_os(DIRECTORY), std::env::var(STATION)) else { return };
    let env = Env::open_or_create(Path::new(&directory)).unwrap();
    let (ring, station) = (Ring::open(&env, STATIONS).unwrap(), station.parse().unwrap());
    say("open");
    loop {
        match ring.turn(station) {
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(Duration::from_micros(50)),
            Err(error) => say(&format!("failed: {error}")),
        }
    }
}

#[test]
fn there_is_always_one_token_under_kills() {
    let kills = sizes::number("LIBTP_TEST_KILLS", 30);
    let directory = tempfile::tempdir().unwrap();
    let start = |station: u64| {
        let variables = [(DIRECTORY, directory.path().display().to_string()), (STATION, station.to_string())];
        let process = Process::start("token::entry", &variables);
        process.says("open");
        process
    };
    let mut stations: Vec<_> = (0..STATIONS).map(start).collect();
    let env = Env::open_or_create(directory.path()).unwrap();
    let ring = Ring::open(&env, STATIONS).unwrap();
    let (mut random, mut last) = (Random::new(sizes::first_seed()), 0);
    for kill in 0..kills {
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        let chosen = random.below(STATIONS);
        let station = &mut stations[usize::try_from(chosen).unwrap()];
        station.kill();
        station.wait();
        assert_eq!(station.lines_so_far().collect::<Vec<_>>(), Vec::<String>::new(), "station {chosen} failed");
        let count = ring.check().unwrap().unwrap_or_else(|wrong| panic!("after kill {kill}: {wrong}"));
        assert!(count >= last, "{last} turns were done before the kill, and only {count} are found after it");
        last = count;
        *station = start(chosen);
    }
    drop(stations);
    let count = ring.check().unwrap().unwrap();
    println!("figures: {kills} kills, {count} turns, one token");
    assert!(count > kills, "the token moved too seldom");
}
