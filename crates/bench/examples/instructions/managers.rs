//! Calls of the managers below the record interface: latches, locks, pages, the log.

use std::hint::black_box;

use libtp_buffer::{PageId, PageNo};
use libtp_lock::{LockName, Mode, Wait};
use libtp_log::{record_bytes, Lsn, TxnId};
use libtp_process::{Latch, Rank};

use crate::{Paths, Place, Random};

const CALLS: u64 = 2_000;
/// A database's first page after its meta page.
const PAGE: u32 = 1;
/// The type code of a log record that the program defines.
const KIND: u16 = 1024;

pub fn run(paths: &Paths, place: &Place) {
    let env = place.env("managers");
    let tree = env.btree("tree").unwrap();
    env.run(|txn| (0..1_000_u32).try_for_each(|number| tree.put(txn, &number.to_be_bytes(), &[7; 100]))).unwrap();
    let managers = env.managers();
    let session = managers.processes.join().unwrap();

    let latch = managers.region.at(managers.region.allocate::<Latch>(1).unwrap());
    paths.run("latch, exclusive", 1, CALLS, &mut || drop(black_box(latch).exclusive(&session, Rank::CATALOGUE)));
    paths.run("latch, shared", 1, CALLS, &mut || drop(black_box(latch).shared(&session, Rank::CATALOGUE)));

    let locker = managers.locks.new_locker(&session).unwrap();
    let mut random = Random::default();
    paths.run("lock and unlock of a record, eight at a time", 8, CALLS / 8, &mut || {
        for _ in 0..8 {
            let name = LockName { space: 1_000, kind: 3, hash: random.draw() };
            managers.locks.lock(&session, locker, name, Mode::X, Wait::Forever).unwrap();
        }
        managers.locks.unlock_all(&session, locker);
    });
    managers.locks.free_locker(&session, locker);

    let file = managers.buffers.file_by_name("tree").unwrap();
    let id = PageId::new(file.id, PageNo::new(PAGE));
    paths.run("page in memory, latched shared", 1, CALLS, &mut || {
        black_box(&*managers.buffers.shared(&session, black_box(id), Rank::page(0)).unwrap());
    });
    paths.run("page in memory, latched exclusive", 1, CALLS, &mut || {
        black_box(&*managers.buffers.exclusive(&session, black_box(id), Rank::page(0)).unwrap());
    });

    let body = [7; 100];
    paths.run("append of 100 bytes to the log", 1, CALLS, &mut || {
        managers.log.reserve(&session, record_bytes(body.len())).unwrap();
        black_box(managers.log.log(&session, KIND, TxnId::NONE, Lsn::NONE, &[black_box(&body)]));
        session.clear_append();
    });
}
