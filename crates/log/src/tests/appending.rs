//! Logged records can be read: from the ring, from the files, across chunks and segments, by another process.

use super::rig::Rig;
use crate::{record_bytes, Entry, Error, Lsn, TxnId, KIND_FLUSH_MARK};

fn body(number: usize) -> Vec<u8> {
    let bytes = [0, 1, 7, 8, 90, 220, 221, 480, 481, 3000, 5000, 20_000][number % 12];
    (0..bytes).map(|at| (at * 7 + number) as u8).collect()
}

#[test]
fn the_first_record_is_at_the_first_lsn_and_lsns_are_positions() {
    let rig = Rig::new();
    assert_eq!(rig.one.put(b"one"), Lsn::FIRST);
    assert_eq!(rig.one.put(b"two"), Lsn::FIRST.plus(32));
    assert_eq!(rig.one.log.tail(), Lsn::FIRST.plus(64));
    assert_eq!(rig.one.log.durable(), Lsn::FIRST);
}

#[test]
fn records_of_every_size_are_read_back_across_chunks_and_segments_by_another_process() {
    let rig = Rig::new();
    let mut lsns = Vec::new();
    for number in 0..400 {
        lsns.push(rig.one.put(&body(number)));
        if number % 37 == 0 {
            rig.two.log.force(&rig.two.session, lsns[number]).unwrap();
        }
        let recent = lsns[number.saturating_sub(20)];
        assert_eq!(rig.two.log.read(recent).unwrap().body, body(number.saturating_sub(20)));
    }
    assert!(rig.one.log.files.geometry().locate(rig.one.log.tail()).segment > 10, "many segments were crossed");
    for (number, &lsn) in lsns.iter().enumerate() {
        assert_eq!(rig.two.log.read(lsn).unwrap().body, body(number), "record {number} at {lsn}");
    }
    let rolled = rig.two.bodies(Lsn::FIRST);
    assert_eq!(rolled.len(), 400);
    assert!(rolled.iter().enumerate().all(|(number, bytes)| *bytes == body(number)));
    rig.one.log.check().unwrap();
}

#[test]
fn parts_of_a_body_are_joined() {
    let rig = Rig::new();
    rig.one.log.reserve(&rig.one.session, 4000).unwrap();
    let long = vec![9; 1501];
    let entry = Entry { kind: 1030, flags: 1, txn: TxnId::new(5), prev: Lsn::FIRST };
    let lsn = rig.one.log.log_entry(&rig.one.session, &entry, &[b"ab", &long, b"", b"c"]);
    let record = rig.two.log.read(lsn).unwrap();
    assert_eq!(record.body, [b"ab".as_slice(), &long, b"c"].concat());
    assert_eq!((record.header.kind(), record.header.flags()), (1030, 1));
    assert_eq!((record.header.txn(), record.header.prev()), (TxnId::new(5), Lsn::FIRST));
}

#[test]
fn a_chain_is_unrolled_backwards_past_records_of_other_transactions() {
    let rig = Rig::new();
    let (mut mine, mut last) = (Vec::new(), Lsn::NONE);
    for number in 0..300_u64 {
        rig.one.log.reserve(&rig.one.session, 1000).unwrap();
        last = rig.one.log.log(&rig.one.session, 1024, TxnId::new(1), last, &[&number.to_le_bytes(), &[0; 500]]);
        mine.push(last);
        rig.two.put(b"another's");
        if number == 200 {
            rig.one.log.force(&rig.one.session, last).unwrap();
        }
    }
    let found: Vec<Lsn> = rig.two.log.unroll(last).map(|record| record.unwrap().lsn).collect();
    mine.reverse();
    assert_eq!(found, mine);
    assert_eq!(rig.two.log.unroll(Lsn::NONE).count(), 0);
    let mut part = rig.two.log.unroll(last);
    part.continue_at(mine[298]);
    assert_eq!(part.count(), 2);
}

#[test]
fn the_note_of_an_append_remains_until_it_is_cleared() {
    let rig = Rig::new();
    rig.one.log.reserve(&rig.one.session, record_bytes(1)).unwrap();
    let lsn = rig.one.log.log(&rig.one.session, 1024, TxnId::new(77), Lsn::NONE, &[b"x"]);
    let noted = |rig: &Rig| {
        rig.one.processes.sessions().iter().find(|info| info.id == rig.one.session.id()).map(|info| info.append_lsn)
    };
    assert_eq!(noted(&rig), Some(lsn.raw()));
    rig.one.session.clear_append();
    assert_eq!(noted(&rig), Some(0));
}

#[test]
fn a_read_or_force_of_a_missing_record_returns_the_right_error() {
    let rig = Rig::new();
    let lsn = rig.one.commit(b"a body").unwrap();
    let end = rig.one.log.tail();
    assert!(matches!(rig.one.log.read(end), Err(Error::PastEnd { .. })));
    assert!(matches!(rig.one.log.read(Lsn::NONE), Err(Error::NoRecord { .. })));
    assert!(matches!(rig.one.log.read(lsn.plus(3)), Err(Error::NoRecord { .. })));
    assert!(matches!(rig.one.log.read(lsn.plus(8)), Err(Error::Corrupt { .. })));
    assert!(matches!(rig.one.log.force(&rig.one.session, end), Err(Error::PastEnd { .. })));
}

#[test]
#[should_panic(expected = "without reserving")]
fn an_append_beyond_its_reservation_panics() {
    let rig = Rig::new();
    for _ in 0..1000 {
        rig.one.log.log(&rig.one.session, 1024, TxnId::NONE, Lsn::NONE, &[&[0; 4000]]);
    }
}

#[test]
fn the_ring_stays_within_its_bound_without_flushes_and_stays_small_with_flushes() {
    let rig = Rig::new();
    let ring = |rig: &Rig| rig.one.log.header.ring_end.load().since(rig.one.log.header.ring_start.load());
    for number in 0..6000 {
        rig.one.put(&body(number % 9));
    }
    let bound = rig.settings.ring_bytes_max + 2 * (64 << 10) + (8 << 10);
    assert!(ring(&rig) <= bound, "{} bytes", ring(&rig));
    assert!(rig.one.log.durable() > Lsn::FIRST, "the appender flushed by itself");
    let used = rig.region.used();
    for number in 0..2000 {
        rig.one.commit(&body(number % 9)).unwrap();
    }
    assert_eq!(rig.region.used(), used, "chunks are used again");
    rig.one.log.check().unwrap();
}

#[test]
fn each_flush_ends_with_a_mark_of_the_previous_durable_end() {
    let rig = Rig::new();
    for number in 0..50 {
        rig.one.commit(&body(number)).unwrap();
    }
    let mut durable = Lsn::FIRST;
    let mut marks = 0;
    for record in rig.two.log.roll(Lsn::FIRST).map(|record| record.unwrap()) {
        if record.header.kind() == KIND_FLUSH_MARK {
            assert_eq!(record.body, durable.raw().to_le_bytes());
            durable = record.end();
            marks += 1;
        }
    }
    assert_eq!((marks, durable), (50, rig.one.log.durable()));
}

#[test]
fn the_largest_record_fits_and_one_byte_more_does_not() {
    let rig = Rig::new();
    let largest = vec![3; crate::BODY_BYTES_MAX];
    let lsn = rig.one.commit(&largest).unwrap();
    assert_eq!(rig.two.log.read(lsn).unwrap().body, largest);
    assert_eq!(rig.two.bodies(lsn).len(), 1);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rig.one.log.log(&rig.one.session, 1024, TxnId::NONE, Lsn::NONE, &[&largest, b"x"]);
    }));
    assert!(caught.is_err());
}
