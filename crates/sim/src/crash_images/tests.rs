//! Each loss mode loses only data that it may lose, and keeps all data that it must keep.
//!
//! The doubt: a simulated disk that loses too little would pass a library that loses data, and a disk that loses synced
//! bytes would fail a correct library. So the tests make each mode do its worst. They also compare random workloads
//! with a second, slow model of the possible contents of the disk.

use super::*;
use crate::whole_writes::{Accepted, WholeWrites};
use libtp_io::{Directory, File, OpenMode};
use std::collections::BTreeSet;

/// A disk with one durable file of `blocks` blocks full of ones.
fn prepared(blocks: usize) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(1);
    let file = disk.open("file", OpenMode::Create).unwrap();
    file.write_at(&vec![1; blocks * BLOCK_BYTES], 0).unwrap();
    file.sync().unwrap();
    Directory::sync(&disk).unwrap();
    (disk, file)
}

fn images(disk: &SimDisk, mode: LossMode, count: u64) -> Vec<Vec<u8>> {
    let mut walk = disk.crash_images();
    walk.advance_to(usize::MAX);
    (0..count).map(|seed| walk.image(mode, seed).file_bytes("file").unwrap()).collect()
}

/// Returns the value of each sector. All bytes of a sector must have one value.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(SECTOR_BYTES)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is torn");
            sector[0]
        })
        .collect()
}

#[test]
fn synced_bytes_and_names_are_in_every_image() {
    let (disk, file) = prepared(4);
    file.write_at(&[2; 4096], 4096).unwrap();
    file.sync().unwrap();
    disk.rename("file", "other").unwrap();
    Directory::sync(&disk).unwrap();
    for mode in LossMode::ALL {
        let image = disk.crash_image(mode, 3);
        assert_eq!(image.paths(), ["other"]);
        assert_eq!(image.file_bytes("other"), disk.file_bytes("other"));
    }
}

#[test]
fn a_piece_that_the_disk_writes_whole_is_kept_or_lost_whole() {
    let (disk, file) = prepared(4);
    disk.promise_whole_writes(WholeWrites { bytes: 512..=8192, accepted: Accepted::All });
    assert!(file.write_whole(&[(8192, &[2; 8192]), (16384, &[3; 8192])], &|| true).unwrap());
    assert!(!file.write_whole(&[(4096, &[4; 8192])], &|| true).unwrap(), "a piece at a wrong offset");
    assert!(!file.write_whole(&[(0, &[4; 16384])], &|| true).unwrap(), "a piece that is too long");
    for mode in LossMode::ALL {
        let mut kept = BTreeSet::new();
        for image in images(&disk, mode, 60) {
            let there = sectors(&image);
            let (old, new) = (&there[16..32], there.get(32..48).unwrap_or(&[]));
            assert!(*old == [1; 16] || *old == [2; 16], "{mode:?}: torn");
            assert!(new.is_empty() || *new == [3; 16], "{mode:?}: torn at the end");
            kept.insert((*old == [2; 16], !new.is_empty()));
        }
        let wanted = if matches!(mode, LossMode::DropAll | LossMode::KeepAll) { 1 } else { 3 };
        assert!(kept.len() >= wanted, "{mode:?}: {kept:?}");
    }
    assert_eq!((disk.activity().whole_write, disk.activity().whole_refused), (2, 2));
}

#[test]
fn a_disk_that_breaks_its_word_refuses_every_later_piece() {
    let (disk, file) = prepared(4);
    disk.promise_whole_writes(WholeWrites { bytes: 4096..=8192, accepted: Accepted::First(1) });
    assert_eq!(file.whole_write_bytes(), Some(4096..=8192));
    assert!(!file.write_whole(&[(0, &[2; 4096]), (4096, &[3; 4096])], &|| true).unwrap());
    assert!(!file.write_whole(&[(0, &[4; 4096])], &|| true).unwrap());
    let bytes = disk.file_bytes("file").unwrap();
    assert_eq!((bytes[0], bytes[4096]), (2, 1));
}

#[test]
fn a_disk_that_tears_pieces_writes_a_half_and_fails() {
    let (disk, file) = prepared(4);
    disk.promise_whole_writes(WholeWrites { bytes: 4096..=8192, accepted: Accepted::TornAfter(1) });
    assert!(file.write_whole(&[(0, &[2; 4096])], &|| true).unwrap());
    assert!(matches!(file.write_whole(&[(4096, &[3; 4096])], &|| true), Err(libtp_io::Error::Io { .. })));
    let bytes = disk.file_bytes("file").unwrap();
    assert_eq!((bytes[4095], bytes[4096], bytes[6143], bytes[6144]), (2, 3, 3, 1));
    assert_eq!((disk.activity().whole_write, disk.activity().whole_torn), (1, 1));
}

#[test]
fn drop_all_loses_every_unsynced_change_and_keep_all_loses_none() {
    let (disk, file) = prepared(1);
    file.write_at(&[2; 100], 50).unwrap();
    file.set_len(5000).unwrap();
    disk.open("new", OpenMode::CreateNew).unwrap();
    let dropped = disk.crash_image(LossMode::DropAll, 0);
    assert_eq!(dropped.paths(), ["file"]);
    assert_eq!(dropped.file_bytes("file").unwrap(), [1; 4096]);
    let kept = disk.crash_image(LossMode::KeepAll, 0);
    assert_eq!(kept.paths(), ["file", "new"]);
    assert_eq!(kept.file_bytes("file"), disk.file_bytes("file"));
    assert_eq!((disk.activity().drop_all, disk.activity().keep_all), (1, 1));
    assert!(disk.activity().name_lost > 0 && disk.activity().length_lost > 0);
}

#[test]
fn a_torn_write_is_torn_at_sectors_and_nowhere_else() {
    for (mode, unit) in [(LossMode::Torn512, 512), (LossMode::Torn4096, 4096)] {
        let (disk, file) = prepared(4);
        file.write_at(&[2; 4 * 4096], 0).unwrap();
        let mut patterns = BTreeSet::new();
        for image in images(&disk, mode, 200) {
            let sectors = sectors(&image);
            for block in sectors.chunks(unit / 512) {
                assert!(
                    block.iter().all(|value| value == &block[0]),
                    "{mode:?} tore a write inside a block of {unit} bytes"
                );
            }
            patterns.insert(sectors);
        }
        assert!(patterns.contains(&vec![1; 32]) && patterns.contains(&vec![2; 32]), "{mode:?}");
        let possible = if unit == 512 { 60 } else { 12 };
        assert!(patterns.len() >= possible, "{mode:?} gave only {} states", patterns.len());
        let activity = disk.activity();
        let active = if unit == 512 { activity.torn_512 } else { activity.torn_4096 };
        assert!(active > 50, "{activity}");
    }
}

#[test]
fn writes_in_one_sector_reach_the_disk_in_their_order() {
    let (disk, file) = prepared(1);
    file.write_at(&[2; 100], 0).unwrap();
    file.write_at(&[3; 100], 100).unwrap();
    let firsts: BTreeSet<(u8, u8)> =
        images(&disk, LossMode::Torn512, 100).iter().map(|image| (image[0], image[100])).collect();
    // No image has only the later write, because it is in the same sector as the earlier write.
    assert_eq!(firsts, BTreeSet::from([(1, 1), (2, 1), (2, 3)]));
}

#[test]
fn a_prefix_keeps_the_order_of_all_changes() {
    let (disk, file) = prepared(1);
    let other = disk.open("other", OpenMode::Create).unwrap();
    Directory::sync(&disk).unwrap();
    for value in 2..10 {
        file.write_at(&[value; 10], 0).unwrap();
        other.write_at(&[value; 10], 0).unwrap();
    }
    disk.rename("other", "third").unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let image = disk.crash_image(LossMode::Prefix, seed);
        let first = image.file_bytes("file").unwrap()[0];
        let renamed = image.file_bytes("third");
        let is_renamed = renamed.is_some();
        let second = renamed.or_else(|| image.file_bytes("other")).unwrap().first().copied().unwrap_or(1);
        assert!(first == second || first == second + 1, "{first} {second}");
        assert!(!is_renamed || second == 9);
        seen.insert((first, second, is_renamed));
    }
    assert_eq!(seen.len(), 18);
}

#[test]
fn reordering_lets_a_later_write_overtake_an_earlier_write() {
    let (disk, file) = prepared(2);
    file.write_at(&[2; 4096], 0).unwrap();
    file.write_at(&[3; 4096], 4096).unwrap();
    file.write_at(&[4; 512], 0).unwrap();
    let (mut overtook, mut went_back) = (false, false);
    for image in images(&disk, LossMode::Reordered, 300) {
        let sectors = sectors(&image);
        assert!([1, 2, 4].contains(&sectors[0]) && sectors[1..8].iter().all(|value| *value <= 2));
        overtook |= sectors[..8].contains(&1) && sectors[8..].contains(&3);
        went_back |= sectors[0] == 2;
    }
    assert!(overtook && went_back);
    assert!(disk.activity().reordered > 100);
}

#[test]
fn in_per_file_mode_each_file_keeps_or_loses_its_changes_by_itself() {
    let (disk, file) = prepared(1);
    let other = disk.open("other", OpenMode::Create).unwrap();
    Directory::sync(&disk).unwrap();
    for value in 2..5 {
        file.write_at(&[value; 10], 0).unwrap();
        other.write_at(&[value; 10], 0).unwrap();
    }
    let states: BTreeSet<(u8, usize, u8)> = (0..300)
        .map(|seed| {
            let image = disk.crash_image(LossMode::PerFile, seed);
            let other = image.file_bytes("other").unwrap();
            (image.file_bytes("file").unwrap()[0], other.len(), other.first().copied().unwrap_or(1))
        })
        .collect();
    assert_eq!(states.len(), 16, "each of four states of one file occurs with each of four states of the other file");
}

#[test]
fn a_new_file_is_lost_with_its_name_even_if_it_was_synced() {
    let disk = SimDisk::new(2);
    let file = disk.open("file", OpenMode::CreateNew).unwrap();
    file.write_at(b"abc", 0).unwrap();
    file.sync().unwrap();
    assert!(disk.crash_image(LossMode::DropAll, 0).paths().is_empty());
    Directory::sync(&disk).unwrap();
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), b"abc");
}

#[test]
fn a_name_without_its_bytes_is_an_empty_file() {
    let disk = SimDisk::new(2);
    let file = disk.open("file", OpenMode::CreateNew).unwrap();
    file.allocate(0..8192).unwrap();
    file.write_at(b"abc", 0).unwrap();
    Directory::sync(&disk).unwrap();
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), b"");
    file.sync().unwrap();
    let mut expected = vec![0; 8192];
    expected[..3].copy_from_slice(b"abc");
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), expected);
}

#[test]
fn a_removed_or_replaced_file_may_come_back() {
    let (disk, _) = prepared(1);
    let new = disk.open("new", OpenMode::CreateNew).unwrap();
    new.write_at(b"new", 0).unwrap();
    new.sync().unwrap();
    disk.rename("new", "file").unwrap();
    let mut seen = BTreeSet::new();
    for mode in LossMode::ALL {
        for seed in 0..20 {
            seen.insert(disk.crash_image(mode, seed).file_bytes("file").unwrap().len());
        }
    }
    assert_eq!(seen, BTreeSet::from([3, 4096]), "the name leads to the old file or to the new file");
    Directory::sync(&disk).unwrap();
    disk.remove("file").unwrap();
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), b"new");
    assert!(disk.crash_image(LossMode::KeepAll, 0).paths().is_empty());
}

#[test]
fn a_torn_append_makes_the_file_as_long_as_the_kept_bytes() {
    for mode in [LossMode::Torn512, LossMode::Torn4096, LossMode::Reordered] {
        let (disk, file) = prepared(1);
        file.write_at(&[2; 10_000], 4096).unwrap();
        let mut lengths = BTreeSet::new();
        for image in images(&disk, mode, 200) {
            let last = image.iter().rposition(|byte| *byte != 0).unwrap();
            assert!(last + 1 == image.len(), "{mode:?}: zeros at the end of {} bytes", image.len());
            lengths.insert(image.len());
        }
        assert!(lengths.contains(&4096) && lengths.contains(&14_096) && lengths.len() > 3, "{mode:?} {lengths:?}");
    }
}

#[test]
fn a_lost_change_of_a_name_never_loses_another_file() {
    let (disk, _) = prepared(1);
    let other = disk.open("other", OpenMode::Create).unwrap();
    other.write_at(b"other", 0).unwrap();
    other.sync().unwrap();
    Directory::sync(&disk).unwrap();
    disk.rename("file", "first").unwrap();
    disk.rename("other", "file").unwrap();
    disk.rename("file", "third").unwrap();
    disk.open("file", OpenMode::CreateNew).unwrap();
    disk.remove("file").unwrap();
    let mut seen = BTreeSet::new();
    for mode in LossMode::ALL {
        for seed in 0..100 {
            let image = disk.crash_image(mode, seed);
            let lengths: Vec<usize> = image.paths().iter().map(|path| image.file_bytes(path).unwrap().len()).collect();
            assert!(lengths.contains(&4096) && lengths.contains(&5), "{mode:?} {:?}", image.paths());
            seen.insert(image.paths());
        }
    }
    assert_eq!(seen.len(), 5, "these changes depend on each other, so only prefixes are left: {seen:?}");
}

#[test]
fn a_file_in_a_new_directory_needs_both_names() {
    let disk = SimDisk::new(3);
    let below = disk.subdirectory("log").unwrap();
    below.open("log.1", OpenMode::Create).unwrap();
    below.sync().unwrap();
    assert!(disk.crash_image(LossMode::DropAll, 0).paths().is_empty());
    Directory::sync(&disk).unwrap();
    assert_eq!(disk.crash_image(LossMode::DropAll, 0).paths(), ["log/log.1"]);
}

#[test]
fn after_a_failed_sync_the_next_sync_succeeds_and_writes_nothing() {
    let mut states = BTreeSet::new();
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let file = disk.open("file", OpenMode::Create).unwrap();
        file.allocate(0..4 * 4096).unwrap();
        file.sync().unwrap();
        Directory::sync(&disk).unwrap();
        file.write_at(&[1; 4 * 4096], 0).unwrap();
        disk.fail_call(crate::Calls::Of(libtp_io::Operation::Sync), 0, crate::Fault::Eio, crate::Repeat::Once);
        file.sync().unwrap_err();
        file.sync().unwrap();
        let mut seen = [0; 4 * 4096];
        file.read_at(&mut seen, 0).unwrap();
        assert_eq!(seen, [1; 4 * 4096], "the cache shows bytes that the disk does not have");
        // Changes lost by a failed sync are lost in every mode, because they no longer count as unsynced.
        let image = disk.crash_image(LossMode::DropAll, 1);
        for mode in LossMode::ALL {
            assert_eq!(disk.crash_image(mode, 2).file_bytes("file"), image.file_bytes("file"));
        }
        let sectors = sectors(&image.file_bytes("file").unwrap());
        if sectors.contains(&0) {
            assert!(disk.activity().failed_sync_lost > 0);
        }
        states.insert(sectors);
        // Bytes that are written again after a failed sync can be synced again.
        file.write_at(&[2; 4 * 4096], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(disk.crash_image(LossMode::DropAll, 1).file_bytes("file").unwrap(), [2; 4 * 4096]);
    }
    assert!(states.len() > 8, "{states:?}");
}

#[test]
fn a_failed_sync_concerns_no_other_file() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let (file, other) = (disk.open("file", OpenMode::Create).unwrap(), disk.open("x", OpenMode::Create).unwrap());
        Directory::sync(&disk).unwrap();
        file.write_at(&[1; 4096], 0).unwrap();
        other.write_at(&[2; 4096], 0).unwrap();
        disk.fail_call(crate::Calls::Of(libtp_io::Operation::Sync), 0, crate::Fault::Eio, crate::Repeat::Once);
        other.sync().unwrap_err();
        assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), b"");
        file.sync().unwrap();
        assert_eq!(disk.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap(), [1; 4096]);
    }
}

#[test]
fn names_lost_in_a_failed_sync_of_a_directory_stay_lost() {
    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        disk.open("file", OpenMode::Create).unwrap();
        let calls = crate::Calls::Of(libtp_io::Operation::SyncDirectory);
        disk.fail_call(calls, 0, crate::Fault::Eio, crate::Repeat::Once);
        Directory::sync(&disk).unwrap_err();
        Directory::sync(&disk).unwrap();
        seen.insert(disk.crash_image(LossMode::KeepAll, 0).paths().len());
    }
    assert_eq!(seen, BTreeSet::from([0, 1]));
}

#[test]
fn an_image_can_be_used_and_crashed_again() {
    let (disk, file) = prepared(1);
    file.write_at(&[2; 10], 0).unwrap();
    let mut image = disk;
    for value in 3..10 {
        image = image.crash_image(LossMode::KeepAll, 0);
        assert_eq!(image.io_index(), 0);
        let file = image.open("file", OpenMode::Existing).unwrap();
        file.write_at(&[value; 10], 0).unwrap();
        assert_eq!(image.crash_image(LossMode::DropAll, 0).file_bytes("file").unwrap()[0], value - 1);
        file.sync().unwrap();
    }
    assert_eq!(image.activity().keep_all, 1, "only the first image had unsynced writes");
}

/// A workload of writes, lengths, names and syncs over a few files.
fn random_workload(seed: u64, steps: usize) -> SimDisk {
    let disk = SimDisk::new(seed);
    let mut random = Random::new(seed);
    for step in 0..steps {
        let name = format!("f{}", random.below(4));
        let file = disk.open(&name, OpenMode::Create).unwrap();
        let value = u8::try_from(step % 250).unwrap() + 1;
        match random.below(12) {
            0 => file.set_len(random.below(20_000)).unwrap(),
            1 => {
                let end = random.below(20_000);
                file.allocate(random.below(end + 1)..end).unwrap();
            }
            2 => file.sync().unwrap(),
            3 => Directory::sync(&disk).unwrap(),
            4 => disk.rename(&name, &format!("f{}", random.below(4))).unwrap(),
            5 => disk.remove(&name).unwrap(),
            _ => file.write_at(&vec![value; 1 + random.index(9000)], random.below(12_000)).unwrap(),
        }
    }
    disk
}

/// Returns all files of a disk.
fn contents(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let paths = disk.paths();
    paths.into_iter().map(|path| (path.clone(), disk.file_bytes(&path).unwrap())).collect()
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    for seed in 0..5 {
        let (one, two) = (random_workload(seed, 100), random_workload(seed, 100));
        for mode in LossMode::ALL {
            for at in (0..one.io_index()).step_by(7) {
                let image = one.image_at(at, mode, seed + 9);
                assert_eq!(contents(&image), contents(&two.image_at(at, mode, seed + 9)));
            }
        }
    }
}

#[test]
fn a_walk_and_a_single_image_agree() {
    let disk = random_workload(77, 150);
    let mut walk = disk.crash_images();
    loop {
        let seed = u64::try_from(walk.position()).unwrap();
        let mode = LossMode::ALL[walk.position() % 7];
        assert_eq!(contents(&walk.image(mode, seed)), contents(&disk.image_at(walk.position(), mode, seed)));
        if walk.advance().is_none() {
            break;
        }
    }
    assert_eq!(walk.position(), walk.end());
    assert_eq!(contents(&walk.image(LossMode::KeepAll, 0)), contents(&disk));
}

/// Compares images of one file with all values that each byte has had since the last sync.
#[test]
fn no_image_has_a_byte_that_was_never_written_or_lacks_a_synced_byte() {
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let mut random = Random::new(seed);
        let file = disk.open("file", OpenMode::Create).unwrap();
        Directory::sync(&disk).unwrap();
        // The possible values of each byte. Bytes after the end have the possible value zero, because they are zero
        // when the file grows.
        let mut possible: Vec<BTreeSet<u8>> = vec![BTreeSet::from([0]); 30_000];
        let mut lengths = BTreeSet::from([0]);
        for step in 1..60_u8 {
            if random.chance(1, 10) {
                file.sync().unwrap();
                let now = disk.file_bytes("file").unwrap();
                for (at, values) in possible.iter_mut().enumerate() {
                    *values = BTreeSet::from([now.get(at).copied().unwrap_or(0)]);
                }
                lengths = BTreeSet::from([now.len()]);
            } else {
                let (from, count) = (random.index(20_000), 1 + random.index(9000));
                file.write_at(&vec![step; count], offset(from)).unwrap();
                for values in &mut possible[from..from + count] {
                    values.insert(step);
                }
                lengths.insert(disk.file_bytes("file").unwrap().len());
            }
            let mode = LossMode::ALL[usize::from(step) % 7];
            let image = disk.crash_image(mode, seed).file_bytes("file").unwrap();
            let (least, most) = (lengths.first().unwrap(), lengths.last().unwrap());
            assert!((least..=most).contains(&&image.len()), "{mode:?}: {} of {lengths:?}", image.len());
            for (at, byte) in image.iter().enumerate() {
                assert!(possible[at].contains(byte), "{mode:?}: byte {at} is {byte}, of {:?}", possible[at]);
            }
        }
    }
}

#[test]
fn every_class_of_loss_is_active_over_a_mixed_workload() {
    let disk = random_workload(5, 200);
    let mut walk = disk.crash_images();
    let mut seed = 0;
    while walk.advance().is_some() {
        for mode in LossMode::ALL {
            seed += 1;
            walk.image(mode, seed);
        }
    }
    let activity = disk.activity();
    for (class, count) in activity.classes() {
        let is_loss =
            !["eio", "enospc", "short_write", "limit", "failed_sync", "failed_sync_lost", "disk_full", "crash"]
                .contains(&class)
                && !["process_killed", "whole_write", "whole_refused", "whole_torn"].contains(&class);
        assert_eq!(count > 20, is_loss, "{class} was active {count} times: {activity}");
    }
}

/// The walk must stay fast: the crash suites make tens of thousands of images in minutes.
#[test]
#[ignore = "a measurement: run it in release with --nocapture"]
fn images_per_second() {
    let disk = SimDisk::new(1);
    let mut random = Random::new(1);
    let log = disk.open("log", OpenMode::Create).unwrap();
    let bank = disk.open("bank", OpenMode::Create).unwrap();
    log.allocate(0..1 << 20).unwrap();
    bank.allocate(0..1 << 20).unwrap();
    let mut end = 0;
    for step in 0..1000 {
        // Each commit has a sync; now and then a checkpoint writes pages.
        log.write_at(&vec![7; 300 + random.index(700)], end).unwrap();
        end = (end + 500) % 1_000_000;
        log.sync().unwrap();
        bank.write_at(&[8; 8192], random.below(127) * 8192).unwrap();
        if step % 100 == 99 {
            bank.sync().unwrap();
        }
    }
    let (mut walk, mut count, started) = (disk.crash_images(), 0_u32, std::time::Instant::now());
    while walk.advance().is_some() {
        for mode in LossMode::ALL {
            std::hint::black_box(walk.image(mode, u64::from(count)));
            count += 1;
        }
    }
    let rate = f64::from(count) / started.elapsed().as_secs_f64();
    println!("{count} images of 2 MiB, up to 100 pages unsynced: {rate:.0} a second");
}
