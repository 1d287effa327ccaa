//! The search of the dynamic linker for a library, in the order that ld.so(8) describes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::elf::Elf;

/// The directories that the linker searches last.
const DIRECTORIES: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// The search path of the dynamic linker, from the environment of this process.
pub struct Linker {
    /// The directories in `LD_LIBRARY_PATH`.
    chosen: Vec<PathBuf>,
    /// The paths of libraries by name, from the cache of ldconfig(8).
    listed: HashMap<String, PathBuf>,
}

impl Linker {
    /// Reads `LD_LIBRARY_PATH` and the output of `ldconfig -p`.
    pub fn of_system() -> Linker {
        let chosen = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let chosen = std::env::split_paths(&chosen).filter(|path| !path.as_os_str().is_empty()).collect();
        let output =
            ["/sbin/ldconfig", "ldconfig"].iter().find_map(|program| Command::new(program).arg("-p").output().ok());
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let mut listed = HashMap::new();
        for (name, path) in output.lines().filter_map(|line| line.split_once(" => ")) {
            let name = name.split_whitespace().next().unwrap_or("").to_owned();
            listed.entry(name).or_insert_with(|| PathBuf::from(path.trim()));
        }
        Linker { chosen, listed }
    }

    /// Returns the path of a library to which `file` is linked. `elf` is the contents of `file`.
    pub fn find(&self, library: &str, file: &Path, elf: &Elf<'_>) -> Option<PathBuf> {
        if library.contains('/') {
            return Some(PathBuf::from(library)).filter(|path| path.exists());
        }
        let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        let own = |names: &[String]| -> Vec<PathBuf> {
            names.iter().map(|name| name.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into()).collect()
        };
        let directories = [own(&elf.before), self.chosen.clone(), own(&elf.after)].concat();
        let found = directories.iter().map(|directory| directory.join(library)).find(|path| path.exists());
        let last = || DIRECTORIES.iter().map(|directory| Path::new(directory).join(library)).find(|path| path.exists());
        found.or_else(|| self.listed.get(library).cloned()).or_else(last)
    }
}
