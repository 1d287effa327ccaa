//! Making the log durable: groups, thresholds, the relaxed bound, and a disk that fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{Directory, OpenMode, Operation};
use libtp_process::SessionId;
use libtp_sim::{Calls, Fault, LayeredDirectory, LossMode, Repeat, SimDisk};

use super::rig::{control_file, small, Rig, Side};
use super::slow_disk::SlowDisk;
use crate::restart::MARK_BYTES;
use crate::{segment_name, Control, Error, Lsn, Result, Settings};

/// An environment on a disk whose syncs take a millisecond.
fn slow(settings: Settings) -> (Rig, Arc<AtomicU64>) {
    let disk = SimDisk::new(3);
    let syncs = Arc::new(AtomicU64::new(0));
    let below: Arc<dyn Directory> = Arc::new(disk.clone());
    let control = Control::new([7; 16], &settings);
    control_file(&below).create(&control).unwrap();
    below.sync().unwrap();
    let directory: Arc<dyn Directory> = Arc::new(LayeredDirectory(SlowDisk { below, syncs: Arc::clone(&syncs) }));
    let rig = Rig::through(disk, directory, settings, control, Lsn::FIRST).unwrap();
    // The segments are made before syncs are counted.
    rig.one.log.prepare_segment(&rig.one.session, Lsn::new(2 << 20)).unwrap();
    syncs.store(0, Ordering::SeqCst);
    (rig, syncs)
}

/// Runs `work` on as many threads as there are sides.
fn on_threads<R: Send>(sides: Vec<Side>, work: impl Fn(usize, &Side) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            sides.into_iter().enumerate().map(|(number, side)| scope.spawn(move || work(number, &side))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn flushed_after(rig: &Rig) -> Lsn {
    let (_, found) = Rig::restart_on(rig.disk.crash_image(LossMode::DropAll, 1), rig.settings.clone()).unwrap();
    found.end.end
}

#[test]
fn a_commit_is_on_the_disk_when_it_returns_and_a_record_is_not() {
    let rig = Rig::new();
    let lsn = rig.one.commit(b"safe").unwrap();
    let relaxed = rig.two.put(b"not yet");
    assert!(rig.two.log.flushed().covers(lsn) && !rig.two.log.flushed().covers(relaxed));
    assert_eq!(flushed_after(&rig), rig.two.log.durable());
    rig.two.log.force(&rig.two.session, relaxed).unwrap();
    assert!(flushed_after(&rig) > relaxed);
}

#[test]
fn a_flush_without_new_records_writes_nothing() {
    let rig = Rig::new();
    let lsn = rig.one.commit(b"once").unwrap();
    let (io, syncs) = (rig.disk.io_index(), rig.one.log.fsyncs());
    for _ in 0..10 {
        rig.one.log.force(&rig.one.session, lsn).unwrap();
        rig.two.log.force_all(&rig.two.session).unwrap();
        assert!(!rig.two.log.background_flush(&rig.two.session).unwrap());
    }
    assert_eq!((rig.disk.io_index(), rig.one.log.fsyncs()), (io, syncs));
}

#[test]
fn commits_share_syncs_and_are_acknowledged_only_when_durable() {
    const COMMITS: usize = 40;
    let (rig, syncs) = slow(small());
    let sides: Vec<Side> = (0..8).map(|_| rig.another()).collect();
    let acknowledged = on_threads(sides, |number, side| {
        let mut done = Vec::new();
        for round in 0..COMMITS {
            let lsn = side.commit(&[number as u8, round as u8]).unwrap();
            assert!(side.log.durable() > lsn);
            done.push((rig.disk.io_index(), lsn));
        }
        done
    });
    let syncs = syncs.load(Ordering::SeqCst);
    assert!(syncs < 8 * COMMITS as u64 / 2, "{syncs} syncs for {} commits", 8 * COMMITS);
    // If the power is cut at an acknowledgement and everything unsynced is lost, the acknowledged record is kept.
    let mut all: Vec<(usize, Lsn)> = acknowledged.into_iter().flatten().collect();
    all.sort_unstable();
    let mut images = rig.disk.crash_images();
    for (io_index, lsn) in all.into_iter().step_by(7) {
        images.advance_to(io_index);
        let (_, found) = Rig::restart_on(images.image(LossMode::DropAll, 1), rig.settings.clone()).unwrap();
        assert!(found.end.end > lsn, "acknowledged {lsn}, but the log ends at {}", found.end.end);
    }
    assert_eq!(rig.one.bodies(Lsn::FIRST).len(), 8 * COMMITS);
}

#[test]
fn a_failed_sync_poisons_the_log_permanently() {
    let rig = Rig::new();
    let safe = rig.one.commit(b"safe").unwrap();
    rig.disk.fail_call(Calls::On(Operation::Sync, "log.0".into()), 0, Fault::Eio, Repeat::Once);
    let (durable, failed) = (rig.one.log.durable(), rig.one.commit(b"lost").unwrap_err());
    assert!(matches!(failed, Error::Failed { .. }), "{failed}");
    rig.disk.clear_faults();
    let is_failed = |outcome: Result<()>| matches!(outcome, Err(Error::Failed { .. }));
    for side in [&rig.one, &rig.two] {
        assert!(side.log.is_poisoned());
        assert!(is_failed(side.log.reserve(&side.session, 100)));
        assert!(is_failed(side.log.force(&side.session, safe).map(drop)));
        assert!(is_failed(side.log.background_flush(&side.session).map(drop)));
        assert!(is_failed(side.log.recycle(&side.session, Lsn::FIRST, Lsn::new(u64::MAX))));
        assert_eq!(side.log.read(safe).unwrap().body, b"safe", "reads still work");
        assert_eq!(side.log.durable(), durable);
    }
}

/// Error numbers of Linux.
const EINTR: i32 = 4;
const EBADF: i32 = 9;
const ENOMEM: i32 = 12;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;

/// Appends until the next flush begins in a segment that this process has not opened.
fn reach_a_new_segment(side: &Side) {
    let geometry = *side.log.files.geometry();
    let segment = geometry.locate(side.log.durable()).segment;
    while geometry.locate(side.log.durable()).segment == segment {
        side.commit(&[0; 1000]).unwrap();
    }
    // The segments are made here, so that no later append makes one.
    side.log.prepare_segment(&side.session, side.log.tail().plus(1 << 20)).unwrap();
}

#[test]
fn a_limit_of_one_process_does_not_stop_the_others() {
    let limits = [
        (Operation::Write, Fault::Limit(EFBIG)),
        (Operation::Write, Fault::Limit(ENOMEM)),
        (Operation::Write, Fault::Limit(EBADF)),
        // Copy-on-write filesystems need new blocks even for bytes that have blocks.
        (Operation::Write, Fault::Enospc),
        (Operation::Sync, Fault::Limit(EBADF)),
        (Operation::Sync, Fault::Limit(EINTR)),
    ];
    for (operation, fault) in limits {
        let rig = Rig::new();
        rig.one.commit(b"before").unwrap();
        let log_calls = Calls::On(operation, "log.0".into());
        rig.disk.fail_call(log_calls, 0, fault, Repeat::Once);
        let refused = rig.one.commit(b"stepped back").unwrap_err();
        assert!(matches!(refused, Error::SteppedBack { .. }), "{operation} {fault:?}: {refused}");
        assert!(!rig.two.log.is_poisoned() && !rig.one.log.is_poisoned());
        rig.two.commit(b"another leads").unwrap();
        rig.one.commit(b"once more").unwrap();
        assert_eq!(flushed_after(&rig), rig.two.log.durable());
        assert_eq!(rig.two.bodies(Lsn::FIRST).len(), 4);
    }
}

#[test]
fn flushes_that_step_back_add_one_mark() {
    let rig = Rig::new();
    rig.one.commit(b"before").unwrap();
    rig.disk.fail_call(Calls::On(Operation::Write, "log.0".into()), 0, Fault::Limit(EFBIG), Repeat::Forever);
    let mut last = Lsn::NONE;
    for record in 1..=3 {
        last = rig.one.put(b"stepped back");
        for _ in 0..10 {
            let refused = rig.one.log.force(&rig.one.session, last).unwrap_err();
            assert!(matches!(refused, Error::SteppedBack { .. }), "{refused}");
        }
        let grown = rig.one.log.tail().since(rig.one.log.durable());
        assert_eq!(grown, record * (2 * MARK_BYTES as u64 + 8), "{record} records, and a mark after each");
    }
    rig.disk.clear_faults();
    rig.two.log.force(&rig.two.session, last).unwrap();
    assert_eq!(rig.two.log.durable(), rig.two.log.tail());
}

#[test]
fn a_leader_without_descriptors_steps_back_and_the_flush_of_another_answers_its_commit() {
    let rig = Rig::on(SimDisk::new(1), Settings { relaxed_micros_max: 1_000_000, ..small() });
    reach_a_new_segment(&rig.two);
    // Side one has never opened this segment, and closes all other segments because no descriptor is free.
    let opens = Calls::On(Operation::Open, "log.0".into());
    rig.disk.fail_call(opens, 0, Fault::Limit(EMFILE), Repeat::Forever);
    let Rig { one, two, .. } = rig;
    let answers = on_threads(vec![one, two], |number, side| {
        std::thread::sleep(Duration::from_millis(50 * number as u64));
        side.commit(b"limited").map(|_| side.log.is_poisoned())
    });
    assert!(answers.iter().all(|answer| matches!(answer, Ok(false))), "{answers:?}");
}

#[test]
fn without_a_free_descriptor_a_segment_is_opened_in_place_of_another() {
    let rig = Rig::new();
    rig.one.commit(b"in the first segment").unwrap();
    reach_a_new_segment(&rig.two);
    let opens = Calls::On(Operation::Open, "log.0".into());
    rig.disk.fail_call(opens, 0, Fault::Limit(EMFILE), Repeat::Once);
    rig.one.commit(b"in place of the first segment").unwrap();
}

#[test]
fn a_commit_whose_segment_has_lost_its_name_is_not_answered() {
    for what in ["moved", "removed", "replaced"] {
        let rig = Rig::new();
        let (name, aside) = (segment_name(1), "log.aside");
        rig.one.commit(b"before").unwrap();
        rig.two.commit(b"before").unwrap();
        match what {
            "moved" => rig.disk.rename(&name, aside).unwrap(),
            "removed" => rig.disk.remove(&name).unwrap(),
            _ => {
                let bytes = rig.disk.file_bytes(&name).unwrap();
                rig.disk.open(aside, OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
                rig.disk.rename(aside, &name).unwrap();
            }
        }
        let refused = rig.one.commit(b"lost").unwrap_err();
        assert!(matches!(&refused, Error::Failed { cause } if cause.contains(&name)), "{what}: {refused}");
        assert!(matches!(rig.two.commit(b"after"), Err(Error::Failed { .. })), "{what}");
        if what == "moved" {
            rig.disk.rename(aside, &name).unwrap();
            let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
            crate::rescue_ring(&rig.region, &directory, &rig.control).unwrap();
            let (again, _) = Rig::restart_on(rig.disk.clone(), rig.settings.clone()).unwrap();
            assert_eq!(again.one.bodies(Lsn::FIRST)[..2], [b"before", b"before"], "the file is back");
        }
    }
}

#[test]
fn a_failed_write_poisons_the_log_and_every_waiter_gets_the_error() {
    let (rig, _) = slow(small());
    rig.disk.fail_call(Calls::On(Operation::Write, "log.0".into()), 3, Fault::Eio, Repeat::Forever);
    let sides: Vec<Side> = (0..6).map(|_| rig.another()).collect();
    let last = on_threads(sides, |_, side| {
        for _ in 0..1000 {
            if let Err(error) = side.commit(b"x") {
                return error;
            }
        }
        panic!("a commit without a disk");
    });
    assert!(last.iter().all(|error| matches!(error, Error::Failed { .. })));
}

#[test]
fn a_dead_leader_is_replaced() {
    let rig = Rig::new();
    // The session's slot is free again.
    let ghost = rig.another().session.id();
    rig.one.log.header.leader.publish(ghost);
    let begun = Instant::now();
    rig.one.commit(b"anyway").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(rig.one.log.header.leader.load(), SessionId::NONE);
}

#[test]
fn another_session_leads_after_a_leader_panics() {
    let rig = Rig::new();
    let lsn = rig.one.put(b"x");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _leader = rig.one.log.try_lead(&rig.one.session, false).unwrap();
        panic!("in the disk's code");
    }));
    assert!(caught.is_err());
    // The session is dead, so it no longer has the role: the code that caught the panic has marked it dead (PROTOCOLS
    // D10).
    rig.one.session.mark_dead();
    rig.two.log.force(&rig.two.session, lsn).unwrap();
}

#[test]
fn relaxed_records_are_flushed_in_the_background_within_their_bound() {
    let settings = Settings { relaxed_micros_max: 20_000, relaxed_bytes_max: 10_000, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings);
    assert!(!rig.two.log.background_flush(&rig.two.session).unwrap());
    let begun = Instant::now();
    let lsn = rig.one.put(b"relaxed");
    while !rig.two.log.flushed().covers(lsn) {
        rig.two.log.background_flush(&rig.two.session).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
    assert!(begun.elapsed() >= Duration::from_millis(8), "the flush was too early, after {:?}", begun.elapsed());
    // Many unflushed bytes are flushed without a wait.
    rig.one.put(&[0; 11_000]);
    assert!(rig.two.log.background_flush(&rig.two.session).unwrap());
}

#[test]
fn relaxed_records_are_flushed_within_the_least_bound_of_all_processes() {
    let rig = Rig::on(SimDisk::new(1), Settings { relaxed_micros_max: 3_600_000_000, ..small() });
    let hasty = rig.another_with(&Settings { relaxed_micros_max: 20_000, ..small() });
    let begun = Instant::now();
    let lsn = hasty.put(b"relaxed");
    while !rig.two.log.flushed().covers(lsn) {
        rig.two.log.background_flush(&rig.two.session).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(begun.elapsed() < Duration::from_secs(2), "flushed within the bound of another process");
    }
}

#[test]
fn the_papers_thresholds_make_commits_wait_for_other_commits() {
    let thresholds = Settings {
        group_threshold: 4,
        wait_threshold_percent: 100,
        log_delay_bytes: 1 << 20,
        group_wait_micros_max: 2_000_000,
        ..small()
    };
    let commit = |side: &Side, active| {
        side.log.reserve(&side.session, 100).unwrap();
        let lsn = side.log.log(&side.session, 1024, crate::TxnId::new(1), Lsn::NONE, &[b"x"]);
        side.session.clear_append();
        side.log.force_group(&side.session, lsn, active).unwrap();
        assert!(side.log.flushed().covers(lsn));
    };
    // With fewer transactions than the group threshold, no commit waits.
    let rig = Rig::on(SimDisk::new(1), thresholds.clone());
    let begun = Instant::now();
    commit(&rig.one, 3);
    assert!(begun.elapsed() < Duration::from_secs(1));
    // All four wait until the last arrives, and one flush makes all four durable.
    let before = rig.one.log.flushes();
    let sides: Vec<Side> = (0..4).map(|_| rig.another()).collect();
    on_threads(sides, |number, side| {
        std::thread::sleep(Duration::from_millis(20 * number as u64));
        commit(side, 4);
    });
    assert!(begun.elapsed() < Duration::from_secs(2), "the longest wait was not needed");
    assert_eq!(rig.one.log.flushes() - before, 1);
    // With much unflushed log, no commit waits.
    let rig = Rig::on(SimDisk::new(1), Settings { log_delay_bytes: 1, ..thresholds.clone() });
    let begun = Instant::now();
    commit(&rig.one, 4);
    assert!(begun.elapsed() < Duration::from_secs(1));
    // When no other commit comes, the wait ends after the longest wait.
    let rig = Rig::on(SimDisk::new(1), Settings { group_wait_micros_max: 30_000, ..thresholds });
    let begun = Instant::now();
    commit(&rig.one, 4);
    assert!(begun.elapsed() >= Duration::from_millis(30));
}

#[test]
fn each_record_of_two_processes_that_append_and_flush_at_once_is_in_the_log_once() {
    let (rig, _) = slow(small());
    let sides: Vec<Side> = (0..4).map(|_| rig.another()).collect();
    on_threads(sides, |number, side| {
        for round in 0..2000_u32 {
            let mut body = vec![number as u8; (round % 300) as usize];
            body.extend_from_slice(&round.to_le_bytes());
            if round % 50 == 0 {
                side.commit(&body).unwrap();
            } else {
                side.put(&body);
            }
        }
    });
    let mut next = [0_u32; 4];
    for body in rig.two.bodies(Lsn::FIRST) {
        let round = u32::from_le_bytes(body[body.len() - 4..].try_into().unwrap());
        let Some(&number) = body.first().filter(|_| body.len() > 4) else { continue };
        let known = &mut next[usize::from(number)];
        assert!(round > *known || *known == 0, "records of one session are in its order");
        *known = round;
    }
    assert_eq!(next, [1999; 4]);
    assert_eq!(rig.two.bodies(Lsn::FIRST).len(), 8000);
    rig.one.log.check().unwrap();
}
