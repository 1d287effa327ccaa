//! What tests leave behind: processes, temporary files and shared memory, removed at the end of a run.
//!
//! Many tests kill processes, and a planted bug makes a test end before it has put things away. The library keeps shared
//! memory that may hold commits. Only the run that started a test removes the test's shared memory.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In the environment of every process of a run.
const MARK: &str = "LIBTP_TEST_RUN";
const SHARED_MEMORY: &str = "/dev/shm";
/// How the names of regions begin.
const REGION: &str = "libtp-";
/// A region's header, which says where its environment is, is no longer.
const HEADER_BYTES: u64 = 64 << 10;

/// One run of tests. What the run has left is removed when this is dropped.
pub struct Litter {
    /// Temporary files of the run.
    place: PathBuf,
    mark: String,
}

impl Litter {
    /// Every command from now on belongs to the run.
    ///
    /// # Errors
    /// When no directory for temporary files can be made.
    pub fn begin() -> io::Result<Litter> {
        let place = std::env::temp_dir().join(format!("libtp-tests-{}", std::process::id()));
        fs::create_dir_all(&place)?;
        // Tests become other users.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o1777))?;
        let place = place.canonicalize()?;
        let mark = place.display().to_string();
        std::env::set_var("TMPDIR", &place);
        std::env::set_var(MARK, &mark);
        Ok(Litter { place, mark })
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        let processes = processes_with(&format!("{MARK}={}", self.mark));
        for process in &processes {
            // The process may have ended by now.
            let _ = Command::new("kill").args(["-9", process]).stderr(Stdio::null()).status();
        }
        let regions = regions_of(Path::new(SHARED_MEMORY), &self.place);
        for region in &regions {
            let _ = fs::remove_file(region);
        }
        let _ = fs::remove_dir_all(&self.place);
        if !processes.is_empty() || !regions.is_empty() {
            let (processes, regions) = (processes.len(), regions.len());
            println!("removed what tests left: {processes} processes, the shared memory of {regions} environments");
        }
    }
}

/// Other processes that have this variable in their environment.
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

/// Regions in `home` of environments whose directories are in `place`.
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
    fn a_region_is_of_the_place_where_its_environment_was() {
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
    fn a_process_is_found_by_its_variable() {
        let variable = format!("{MARK}=xtask-{}", std::process::id());
        let (name, value) = variable.split_once('=').expect("it has a value");
        let mut sleeper = Command::new("sleep").arg("60").env(name, value).spawn().expect("sleep runs");
        assert_eq!(processes_with(&variable), [sleeper.id().to_string()]);
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
        assert!(processes_with(&variable).is_empty());
    }
}
