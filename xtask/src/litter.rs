//! Removes the remains of tests at the end of a run: processes, temporary files and shared memory.
//!
//! Many tests kill processes, and a planted bug ends a test before it has cleaned up. The library keeps shared memory
//! that may hold commits. The run that started a test removes the test's shared memory. If the run was interrupted, a
//! later run removes it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The variable in the environment of every process of a run.
const MARK: &str = "LIBTP_TEST_RUN";
/// The beginning of the name of a run's directory. The number of the run's process follows.
const PLACE: &str = "libtp-tests-";
const SHARED_MEMORY: &str = "/dev/shm";
/// The beginning of the names of regions.
const REGION: &str = "libtp-";
const QUIET: Duration = Duration::from_secs(24 * 60 * 60);
/// An upper limit for a region's header, which names the region's environment.
const HEADER_BYTES: u64 = 64 << 10;

/// One run of tests. Dropping it removes everything that the run has left.
pub struct Litter {
    /// Temporary files of the run.
    place: PathBuf,
    mark: String,
    /// The directory of temporary files outside a run.
    home: PathBuf,
}

impl Litter {
    /// Makes every later command belong to the run.
    ///
    /// # Errors
    /// When no directory for temporary files can be made.
    pub fn begin() -> io::Result<Litter> {
        let home = std::env::temp_dir();
        for (place, mark) in left_by_others(&home) {
            drop(Litter { place, mark, home: home.clone() });
        }
        let place = home.join(format!("{PLACE}{}", std::process::id()));
        fs::create_dir_all(&place)?;
        // Some tests change to other users.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o1777))?;
        let place = place.canonicalize()?;
        let mark = place.display().to_string();
        std::env::set_var("TMPDIR", &place);
        std::env::set_var(MARK, &mark);
        Ok(Litter { place, mark, home })
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        let processes = processes_with(&format!("{MARK}={}", self.mark));
        for process in &processes {
            // The process may have ended already.
            let _ = Command::new("kill").args(["-9", process]).stderr(Stdio::null()).status();
        }
        let regions = regions_of(Path::new(SHARED_MEMORY), &self.place);
        for region in &regions {
            let _ = fs::remove_file(region);
        }
        let _ = fs::remove_dir_all(&self.place);
        std::env::set_var("TMPDIR", &self.home);
        if !processes.is_empty() || !regions.is_empty() {
            let (processes, regions) = (processes.len(), regions.len());
            println!(
                "removed the remains of tests: {processes} processes, the shared memory of {regions} environments"
            );
        }
    }
}

/// Returns the directories and marks of interrupted runs. The process of a run in a container is not visible here. So a
/// directory counts only if nothing was made in it for a day.
fn left_by_others(home: &Path) -> Vec<(PathBuf, String)> {
    let names =
        fs::read_dir(home).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let process = |name: &String| name.strip_prefix(PLACE).and_then(|process| process.parse::<u32>().ok());
    let is_quiet = |name: &String| {
        let changed = fs::metadata(home.join(name)).and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|since| since > QUIET))
    };
    let is_over = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
    let is_left = |name: &String| process(name).is_some_and(is_over) && is_quiet(name);
    let place = |name: String| home.join(name).canonicalize().ok();
    names.filter(is_left).filter_map(place).map(|place| (place.clone(), place.display().to_string())).collect()
}

/// Returns the other processes that have this variable in their environment.
fn processes_with(variable: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = names.filter_map(|entry| entry.file_name().into_string().ok());
    let has_it = |process: &String| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own).filter(has_it).collect()
}

/// Returns the regions in `home` of environments whose directories are in `place`.
fn regions_of(home: &Path, place: &Path) -> Vec<PathBuf> {
    let within = format!("{}/", place.display());
    let names = fs::read_dir(home).into_iter().flatten().flatten();
    let regions = names.filter(|entry| entry.file_name().to_string_lossy().starts_with(REGION));
    let is_of_place = |path: &PathBuf| {
        let mut header = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut header));
        read.is_ok() && header.windows(within.len()).any(|part| part == within.as_bytes())
    };
    regions.map(|entry| entry.path()).filter(is_of_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_belongs_to_the_directory_of_its_environment() {
        let home = std::env::temp_dir().join(format!("xtask-litter-{}", std::process::id()));
        fs::create_dir_all(&home).expect("a directory");
        let made = |name: &str, text: &str| fs::write(home.join(name), format!("\0\0{text}\0")).expect("a file");
        made("libtp-1", "/tmp/libtp-tests-7/.tmpx");
        made("libtp-2", "/tmp/libtp-tests-77/.tmpx");
        made("other-3", "/tmp/libtp-tests-7/.tmpx");
        assert_eq!(regions_of(&home, Path::new("/tmp/libtp-tests-7")), [home.join("libtp-1")]);
        let _ = fs::remove_dir_all(home);
    }

    #[test]
    fn the_directory_of_an_interrupted_run_counts_as_left_after_a_day() {
        let home = std::env::temp_dir().join(format!("xtask-left-{}", std::process::id()));
        let long_ago = std::time::SystemTime::now() - 2 * QUIET;
        // No process has the first two numbers.
        for (process, is_old) in [(u32::MAX, true), (u32::MAX - 1, false), (std::process::id(), true)] {
            let place = home.join(format!("{PLACE}{process}"));
            fs::create_dir_all(&place).expect("a directory");
            let opened = fs::File::open(&place).expect("the directory exists");
            if is_old {
                opened.set_modified(long_ago).expect("the owner of a directory may set its time");
            }
        }
        let left: Vec<PathBuf> = left_by_others(&home).into_iter().map(|(place, _)| place).collect();
        assert_eq!(left, [home.canonicalize().expect("the directory exists").join(format!("{PLACE}{}", u32::MAX))]);
        let _ = fs::remove_dir_all(home);
    }

    #[test]
    fn a_process_is_found_by_its_variable() {
        let variable = format!("{MARK}=xtask-{}", std::process::id());
        let (name, value) = variable.split_once('=').expect("it has a value");
        let mut sleeper = Command::new("sleep").arg("60").env(name, value).spawn().expect("sleep runs");
        // The system shows the environment of a process a moment after its start.
        let found = (0..1000).map(|_| processes_with(&variable)).find(|found| !found.is_empty());
        assert_eq!(found, Some(vec![sleeper.id().to_string()]));
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
        assert!(processes_with(&variable).is_empty());
    }
}
