//! A process that makes or restores a backup dies at each failpoint. Other processes continue undisturbed, and no log
//! is kept for the dead process. There is a complete backup or no backup, and a complete restored environment or none.

use std::path::Path;

use libtp::{Backup, Env, Error, RestorePoint};
use libtp_sim::Random;
use libtp_tests::failpoints::{self, Scene};
use libtp_tests::process::dies_at;
use tempfile::TempDir;

use crate::load::{open, settings};
use crate::shop::{judge, Commit, Shop};

const JOB: &str = "LIBTP_TEST_BACKUP_JOB";
const PLACE: &str = "LIBTP_TEST_BACKUP_PLACE";

/// The child's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Full,
    More,
    Restore,
}

/// The entry of the child, which dies at the failpoint in `LIBTP_FAILPOINT`.
#[test]
fn entry() {
    let (Ok(job), Ok(place)) = (std::env::var(JOB), std::env::var(PLACE)) else { return };
    let place = Path::new(&place);
    let env = || Env::builder().settings(settings()).open(place.join("env")).unwrap();
    match job.as_str() {
        "Full" => env().backup(place.join("backup"), &mut |_| {}).map(|_| ()).unwrap(),
        "More" => env().backup_more(place.join("backup"), &mut |_| {}).map(|_| ()).unwrap(),
        _ => restore(place).map(|_| ()).unwrap(),
    }
}

fn restore(place: &Path) -> libtp::Result<u64> {
    let backup = Backup::open(place.join("backup"))?;
    Ok(backup.restore(place.join("restored"), RestorePoint::End, &mut |_| {})?.end)
}

fn judge_restored(place: &Path, commits: &[Commit]) -> u64 {
    let end = restore(place).unwrap();
    judge(&open(&place.join("restored")), commits, end);
    std::fs::remove_dir_all(place.join("restored")).unwrap();
    end
}

/// A shop in which some trades were made, and its commits.
struct Scenery {
    place: TempDir,
    shop: Shop,
    commits: Vec<Commit>,
    random: Random,
}

impl Scenery {
    fn new(seed: u64) -> Scenery {
        let place = tempfile::tempdir().unwrap();
        let shop = open(&place.path().join("env"));
        let commits = vec![shop.stock().unwrap()];
        let mut scenery = Scenery { place, shop, commits, random: Random::new(seed) };
        scenery.trade(60);
        scenery
    }

    fn trade(&mut self, count: usize) {
        for _ in 0..count {
            self.commits.extend(self.shop.trade(&mut self.random).unwrap());
        }
    }

    fn dies(&self, job: Job, name: &str) -> bool {
        let place = self.place.path().display().to_string();
        dies_at(name, "deaths::entry", &[(JOB, format!("{job:?}")), (PLACE, place)])
    }

    /// Checks that the present log is recycled when it is no longer needed, so no log is kept for the dead process.
    fn gives_up_log(&mut self, name: &str) {
        let tail = self.shop.env.stats().unwrap().log_tail;
        for _ in 0..100 {
            self.trade(20);
            assert!(self.shop.env.checkpoint().unwrap() || self.shop.env.checkpoint().unwrap());
            if self.shop.env.stats().unwrap().log_oldest >= tail {
                return;
            }
            // Perhaps the dead process is not repaired yet.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("{name}: the log is kept for a dead process");
    }
}

fn jobs(name: &str) -> &'static [Job] {
    match name {
        _ if name.starts_with("restore") || name == "log copy: a segment made" => &[Job::Restore],
        "backup: log added, manifest old" => &[Job::More],
        "log copy: a piece written" | "backup: log copied, not read back" => &[Job::Full, Job::More],
        _ if name.starts_with("backup: manifest") => &[Job::Full, Job::More],
        _ => &[Job::Full],
    }
}

fn who_dies(name: &str, job: Job, seed: u64) {
    let mut scenery = Scenery::new(seed);
    let place = scenery.place.path().to_owned();
    let backup = place.join("backup");
    if job != Job::Full {
        scenery.shop.env.backup(&backup, &mut |_| {}).unwrap();
        scenery.trade(20);
    }
    assert!(scenery.dies(job, name), "no process reached {name} in {job:?}");
    if job != Job::Restore {
        scenery.gives_up_log(name);
    }
    match job {
        Job::Full => {
            match Backup::open(&backup) {
                Ok(_) => {
                    assert!(
                        name == "backup: manifest named, not durable"
                            || name == "backup: done, still marked as unfinished"
                    )
                }
                Err(Error::Backup { .. } | Error::Io(_)) => {
                    scenery.shop.env.backup(&backup, &mut |_| {}).map(|_| ()).unwrap()
                }
                Err(error) => panic!("{name}: {error}"),
            }
            judge_restored(&place, &scenery.commits);
        }
        Job::More => {
            judge_restored(&place, &scenery.commits);
            let more = scenery.shop.env.backup_more(&backup, &mut |_| {}).unwrap();
            assert_eq!(judge_restored(&place, &scenery.commits), more.end, "{name}");
        }
        Job::Restore => {
            let restored = place.join("restored");
            // An opening may make a new environment, but must not do so in the directory of an unfinished restore.
            match Env::builder().settings(settings()).open(&restored) {
                Ok(env) => {
                    assert_eq!(name, "restore: an environment, not opened");
                    judge(&Shop::open(env).unwrap(), &scenery.commits, Backup::open(&backup).unwrap().end());
                }
                Err(_) => match restore(&place) {
                    // Nothing was copied before the death.
                    Ok(_) => {
                        assert!(name == "restore: begun, mark not durable" || name == "restore: control file empty")
                    }
                    Err(Error::Environment { .. }) => {}
                    Err(error) => panic!("{name}: {error}"),
                },
            }
            std::fs::remove_dir_all(&restored).unwrap();
            judge_restored(&place, &scenery.commits);
        }
    }
}

#[test]
fn after_a_death_in_a_backup_or_restore_nothing_is_broken_and_no_log_is_kept() {
    let mut deaths = 0;
    for point in failpoints::all().filter(|point| point.scene == Scene::Backup) {
        for job in jobs(point.name) {
            deaths += 1;
            who_dies(point.name, *job, deaths);
        }
    }
    println!("figures: {deaths} deaths in backups and restores, nothing broken, no log kept");
}
