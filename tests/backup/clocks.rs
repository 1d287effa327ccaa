//! A wall clock that jumps: times in the log do not go back, and durations are not affected (PROTOCOLS L2, L2a).
//!
//! The cases are one test, because shifting the clock affects the whole process.

use std::time::{Duration, SystemTime};

use libtp::{Backup, RestorePoint};
use libtp_process::shift_wall_clock;
use libtp_sim::Random;

use crate::load::open;
use crate::shop::{judge, Commit, Shop};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MICROS: i64 = 3_600_000_000;

/// Resets the clock when dropped.
struct Right;
impl Drop for Right {
    fn drop(&mut self) {
        shift_wall_clock(0);
    }
}

/// Makes some trades, and flushes the log after each. Returns the LSN of the last commit.
fn trade(shop: &Shop, random: &mut Random, commits: &mut Vec<Commit>) -> u64 {
    for _ in 0..4 {
        commits.extend(shop.trade(random).unwrap());
        shop.env.flush().unwrap();
    }
    commits.iter().map(|commit| commit.lsn).max().unwrap()
}

#[test]
fn times_in_the_log_never_go_back_and_durations_do_not_follow_the_wall_clock() {
    let _right = Right;
    commits_after_a_wrong_time_have_later_times();
    a_snapshot_is_not_too_old_because_the_clock_jumps_ahead();
}

fn commits_after_a_wrong_time_have_later_times() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = other.path().join("backup");
    let shop = open(directory.path());
    let mut commits = vec![shop.stock().unwrap()];
    let mut random = Random::new(31);
    shop.env.backup(&backup, &mut |_| {}).unwrap();
    let first = trade(&shop, &mut random, &mut commits);
    std::thread::sleep(Duration::from_millis(3));
    let moment = SystemTime::now();
    // Some trades are made while the clock is two hours ahead. Then the clock is reset, and the environment is opened
    // again.
    shift_wall_clock(2 * HOUR_MICROS);
    let ahead = trade(&shop, &mut random, &mut commits);
    drop(shop);
    shift_wall_clock(0);
    let shop = open(directory.path());
    let last = trade(&shop, &mut random, &mut commits);
    shop.env.backup_more(&backup, &mut |_| {}).unwrap();
    let backup = Backup::open(&backup).unwrap();
    let restore = |name: &str, until: RestorePoint, end: u64| {
        let to = other.path().join(name);
        let restored = backup.restore(&to, until, &mut |_| {}).unwrap();
        judge(&open(&to), &commits, end);
        restored
    };
    let restored = restore("latest", RestorePoint::Time(backup.latest_time()), last + 1);
    assert!(restored.clock_behind >= 4, "{restored:?}");
    assert!((ahead..last).contains(&restored.clock_behind_from), "{restored:?}");
    assert_eq!(restored.left_out_time, 0);
    let restored = restore("moment", RestorePoint::Time(moment), first + 1);
    let wrong = SystemTime::UNIX_EPOCH + Duration::from_micros(restored.left_out_time);
    assert!(wrong > moment + HOUR, "{restored:?}");
}

fn a_snapshot_is_not_too_old_because_the_clock_jumps_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let shop = open(directory.path());
    shop.stock().unwrap();
    let snapshot = shop.env.snapshot().unwrap();
    shift_wall_clock(2 * HOUR_MICROS);
    let held = shop.env.snapshots();
    assert_eq!(held.len(), 1);
    assert!(held.iter().all(|held| held.is_kept));
    drop(snapshot);
    shift_wall_clock(0);
}
