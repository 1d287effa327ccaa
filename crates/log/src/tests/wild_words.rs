//! Wild stores into the log's words: log that is only in memory is still found, before and after a restart of the
//! machine.

use std::mem::offset_of;
use std::sync::Arc;

use libtp_io::Directory;
use libtp_sim::{LossMode, SimDisk};
use rio::{Lasting, Offset, RootSlot, Survives, Word, WriteBack};

use super::rig::{small, Rig};
use crate::salvage::Salvage;
use crate::tail::{LogHeader, DIRECTORY_CHUNKS};
use crate::{note_lasting, rescue_ring, rescue_survivor, Lsn};

/// A value that no code stores.
const NONSENSE: u64 = 0x1357_9BDF_0246_8ACE;

/// Stores nonsense into the header's word at the byte offset `word`.
fn hit(rig: &Rig, word: usize) {
    let header = rig.region.root::<LogHeader>(RootSlot::Log).unwrap().raw();
    let place = Offset::<Word<u64>>::from_raw(header + word as u64).unwrap();
    rig.region.at(place).init(NONSENSE);
}

fn hit_directory(rig: &Rig) {
    (0..DIRECTORY_CHUNKS).for_each(|entry| hit(rig, offset_of!(LogHeader, directory) + 8 * entry));
}

/// Returns a log of which a part is on the disk, and `records` records are only in memory.
fn partly_durable(records: u8) -> (Rig, Vec<Lsn>) {
    let rig = Rig::new();
    (0..10).for_each(|number| assert!(rig.one.commit(&[number; 300]).is_ok()));
    let relaxed = (0..records).map(|number| rig.two.put(&[number; 400])).collect();
    (rig, relaxed)
}

fn all_there(disk: &SimDisk, tail: Lsn, records: &[Lsn]) {
    let (next, found) = Rig::restart_on(disk.crash_image(LossMode::DropAll, 1), small()).unwrap();
    assert_eq!(found.end.end, tail);
    assert!(records.iter().all(|&lsn| next.one.log.read(lsn).is_ok()));
}

#[test]
fn a_log_whose_word_for_its_incarnation_is_damaged_is_saved_by_its_records() {
    let (rig, relaxed) = partly_durable(90);
    let tail = rig.two.log.tail();
    hit(&rig, offset_of!(LogHeader, incarnation));
    let disk = rig.disk.crash_image(LossMode::KeepAll, 1);
    let directory: Arc<dyn Directory> = Arc::new(disk.clone());
    let saved = rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
    assert_eq!((saved.to, saved.tail), (tail, None));
    all_there(&disk, tail, &relaxed);
}

#[test]
fn after_a_restart_of_the_machine_the_log_is_saved_although_any_one_header_word_is_damaged() {
    let kept = [
        offset_of!(LogHeader, append),
        offset_of!(LogHeader, written_back),
        offset_of!(LogHeader, ring_end),
        offset_of!(LogHeader, file_end),
        offset_of!(LogHeader, poison),
        offset_of!(LogHeader, leader),
        offset_of!(LogHeader, ring_start),
        offset_of!(LogHeader, oldest),
        offset_of!(LogHeader, start),
        offset_of!(LogHeader, durable),
        offset_of!(LogHeader, incarnation),
        offset_of!(LogHeader, segment_bytes_first),
        offset_of!(LogHeader, directory),
        offset_of!(LogHeader, directory) + 8,
    ];
    // The words that state where the log ended.
    let ends = [offset_of!(LogHeader, tail)];
    for (word, is_end) in kept.into_iter().map(|word| (word, false)).chain(ends.map(|word| (word, true))) {
        let (rig, relaxed) = partly_durable(90);
        note_lasting(&rig.region, Lasting { survives: Survives::System, write_back: WriteBack::None });
        let tail = rig.two.log.tail();
        hit(&rig, word);
        let disk = rig.disk.crash_image(LossMode::KeepAll, 1);
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        for _ in 0..2 {
            let saved = rescue_survivor(&rig.region, &directory, &rig.control).unwrap();
            let saved = saved.unwrap_or_else(|| panic!("the word at {word} was hit: there is no log"));
            let stated_tail = (!is_end).then_some(tail);
            assert_eq!((saved.to, saved.tail), (tail, stated_tail), "the word at {word} was hit");
        }
        all_there(&disk, tail, &relaxed);
    }
}

#[test]
fn the_word_for_the_written_back_end_checks_itself() {
    let (rig, _) = partly_durable(3);
    rig.one.log.check().unwrap();
    rig.one.log.header.written_back.init(rig.one.log.tail().plus(8));
    let why = rig.one.log.check_words().unwrap_err();
    assert!(why.contains("out of order"), "{why}");
    hit(&rig, offset_of!(LogHeader, written_back));
    let why = rig.one.log.check_words().unwrap_err();
    assert!(why.contains("the kept end"), "{why}");
}

#[test]
fn all_chunks_of_the_ring_are_found_in_about_one_pass() {
    let (rig, mut relaxed) = partly_durable(0);
    // The log in memory becomes longer than half of the ring's greatest length.
    while rig.two.log.tail().since(rig.two.log.durable()) < 320 << 10 {
        relaxed.push(rig.two.put(&[9; 900]));
    }
    let (tail, durable) = (rig.two.log.tail(), rig.two.log.durable());
    let chunks = tail.since(durable) / small().ring_chunk_bytes;
    hit_directory(&rig);
    let header = rig.region.hold(rig.region.root::<LogHeader>(RootSlot::Log).unwrap());
    let incarnation = rig.control.incarnation();
    let mut found = Salvage::new(&rig.region, &header, small().ring_chunk_bytes, incarnation);
    assert_eq!(durable.plus(found.records(durable, &[]).len() as u64), tail);
    let places = rig.region.used() / 64;
    assert!(chunks > 64 && found.looks < 3 * places, "{chunks} chunks, {} looks at {places} places", found.looks);
    let disk = rig.disk.crash_image(LossMode::KeepAll, 1);
    let directory: Arc<dyn Directory> = Arc::new(disk.clone());
    let saved = rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
    assert_eq!((saved.to, saved.tail), (tail, None));
    all_there(&disk, tail, &relaxed);
}

#[test]
fn a_record_across_two_lost_chunks_is_found_and_the_search_ends_after_the_last_record() {
    let rig = Rig::new();
    // The first record begins in the middle of a chunk and ends in the next.
    rig.one.commit(&[1; 2000]).unwrap();
    let durable = rig.one.log.durable();
    rig.two.put(&[2; 3000]);
    let tail = rig.two.log.tail();
    assert_ne!(durable.raw() >> 12, tail.raw() >> 12);
    hit_directory(&rig);
    let header = rig.region.hold(rig.region.root::<LogHeader>(RootSlot::Log).unwrap());
    let mut before = [0; 64];
    rig.one.log.files.copy_out(durable.minus(64), &mut before).unwrap();
    let mut found = Salvage::new(&rig.region, &header, small().ring_chunk_bytes, rig.control.incarnation());
    assert_eq!(durable.plus(found.records(durable, &before).len() as u64), tail);
    let looks = found.looks;
    assert!(found.records(tail, &[]).is_empty());
    assert_eq!(found.looks, looks, "the chunk at the tail is known, and has no further record");
}

#[test]
fn a_single_copied_record_is_not_taken_for_its_chunk() {
    let rig = Rig::new();
    // Allocates memory before the ring's second chunk, for a copy of a record.
    let decoy = rig.region.allocate_bytes(4096, 64).unwrap();
    rig.one.put(&[0; 32]);
    // The records have 64 bytes, so one of them begins each chunk.
    (0..200).for_each(|number| assert_eq!(rig.one.put(&[number; 40]).raw() % 64, 0));
    let (second, tail) = (Lsn::new(4096), rig.one.log.tail());
    let mut record = [0; 64];
    assert!(rig.one.log.ring.copy_out(second, &mut record));
    rig.region.copy_in(decoy, &record);
    hit_directory(&rig);
    let header = rig.region.hold(rig.region.root::<LogHeader>(RootSlot::Log).unwrap());
    let mut found = Salvage::new(&rig.region, &header, small().ring_chunk_bytes, rig.control.incarnation());
    assert_eq!(Lsn::FIRST.plus(found.records(Lsn::FIRST, &[]).len() as u64), tail);
}

#[test]
fn words_that_are_valid_but_contradict_each_other_are_reported() {
    type Change = fn(&LogHeader);
    let cases: &[(Change, &str)] = &[
        (|header| header.oldest.publish(header.durable.load().plus(8)), "out of order"),
        (|header| header.durable.publish(header.tail.load().plus(8)), "out of order"),
        (|header| header.ring_start.publish(header.durable.load().plus(8)), "out of order"),
        (
            |header| [&header.oldest, &header.ring_start, &header.durable].iter().for_each(|at| at.publish(Lsn::NONE)),
            "out of order",
        ),
        (|header| header.poison.publish(7), "a failed write"),
        (|header| header.chunk_bytes.init(4097), "chunks of 4097 bytes"),
        (|header| header.chunk_bytes.init(1024), "chunks of 1024 bytes"),
        (|header| header.ring_start.publish(header.ring_start.load().plus(8)), "not the ends of chunks"),
        (|header| header.ring_end.publish(header.ring_end.load().plus(8)), "not the ends of chunks"),
        (
            |header| header.ring_end.publish(header.ring_end.load().plus((DIRECTORY_CHUNKS as u64 + 2) << 12)),
            "longer than its directory",
        ),
        (|header| header.directory[0].publish(crate::tail::Chunk::NONE), "has no chunk at"),
        (
            |header| header.directory[0].publish(crate::tail::Chunk::at(Offset::from_raw(1 << 40).unwrap())),
            "outside the region",
        ),
        (|header| header.directory[1].publish(header.directory[0].load()), "share memory"),
    ];
    for (change, expected) in cases {
        let rig = Rig::new();
        (0..10).for_each(|number| assert!(rig.one.commit(&[number; 300]).is_ok()));
        assert_eq!(rig.one.log.check(), Ok(()));
        let header = rig.region.at(rig.region.root::<LogHeader>(RootSlot::Log).unwrap());
        change(header);
        let error = rig.one.log.check().unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
        // The rescue does not use these words, and everything committed is on the disk.
        let directory: Arc<dyn Directory> = Arc::new(rig.disk.crash_image(LossMode::KeepAll, 1));
        let saved = rescue_ring(&rig.region, &directory, &rig.control);
        assert!(!matches!(saved, Ok(Some(saved)) if saved.tail.is_some()), "{expected}: {saved:?}");
    }
}

#[test]
fn a_log_with_other_segment_sizes_is_not_accepted() {
    let (rig, _) = partly_durable(20);
    let header = rig.region.at(rig.region.root::<LogHeader>(RootSlot::Log).unwrap());
    header.segment_bytes_max.init(1 << 30);
    assert!(crate::in_order::ring_of_any_incarnation(&rig.region, &rig.control).is_none());
}
