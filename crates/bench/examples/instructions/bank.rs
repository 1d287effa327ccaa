//! TPC-B's transfers and read-only transactions on the small bank (1,000 accounts).

use std::path::Path;

use libtp_bench::{engine_libtp::Libtp, Durability, Engine, Granularity, Outcome, Scale, Transfers};

use crate::{Paths, Place};

const SEED: u64 = 42;
const TRANSFERS: u64 = 1_000;

pub fn run(paths: &Paths, place: &Place) {
    let open =
        |directory: &Path, granularity| Libtp::open(directory, Durability::Relaxed, granularity, &mut |_| {}).unwrap();
    let records = bank(place, "records", |directory| open(directory, Granularity::Record));
    transfers(paths, "TPC-B transfer, record locks", &records);
    reads(paths, "three gets in a transaction", &records);
    let records = records.reading_snapshots(true);
    reads(paths, "three gets in a snapshot", &records);
    let pages = bank(place, "pages", |directory| open(directory, Granularity::Page));
    transfers(paths, "TPC-B transfer, page locks", &pages);
    let bare = bank(place, "unprotected", |directory| Libtp::unprotected(directory, false).unwrap());
    transfers(paths, "TPC-B transfer, neither locks nor log", &bare);
}

fn bank(place: &Place, name: &str, open: impl FnOnce(&Path) -> Libtp) -> Libtp {
    let directory = place.0.path().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join(libtp::SETTINGS_NAME), "no_background = true\nmemory = \"256 MiB\"\n").unwrap();
    // The load ends with a flush, which an environment refuses if it has never logged anything.
    let env = libtp::Env::open_or_create(&directory).unwrap();
    let first = env.btree("first").unwrap();
    env.run(|txn| first.put(txn, b"logged", b"")).unwrap();
    drop((first, env));
    let bank = open(&directory);
    bank.load(&Scale::SMALL, &mut |_| {}).unwrap();
    bank
}

fn transfers(paths: &Paths, name: &str, bank: &Libtp) {
    let mut session = bank.session().unwrap();
    let mut transfers = Transfers::new(Scale::SMALL, SEED, 0);
    paths.run(name, 1, TRANSFERS, &mut || {
        let outcome = session.transact(&transfers.next_transfer()).unwrap();
        assert!(
            matches!(outcome, Outcome::Committed { .. }),
            "a transfer was aborted, although no other transaction runs"
        );
    });
}

fn reads(paths: &Paths, name: &str, bank: &Libtp) {
    let mut session = bank.session().unwrap();
    let mut transfers = Transfers::new(Scale::SMALL, SEED, 1);
    paths.run(name, 1, TRANSFERS, &mut || {
        session.read_only(&transfers.next_transfer()).unwrap();
    });
}
