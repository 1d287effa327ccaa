//! Reads the file of a program or library (ELF): the libraries to which the file is linked, and the SQLite in the file.

/// A program or library, read from its file.
pub struct Elf<'b> {
    bytes: &'b [u8],
    /// The names of the libraries to which the file is linked.
    pub libraries: Vec<String>,
    /// The directories that the linker searches before those in `LD_LIBRARY_PATH` (DT_RPATH).
    pub before: Vec<String>,
    /// The directories that the linker searches after those in `LD_LIBRARY_PATH` (DT_RUNPATH).
    pub after: Vec<String>,
}

/// A text that every SQLite contains: the statement that describes the schema table.
const ENGINE: &[u8] = b"CREATE TABLE x(type text,name text,tbl_name text,rootpage int,sql text)";
/// The beginning of the name of SQLite on libtp.
const LIBTP_NAME: &[u8] = b"libtp-sqlite ";
/// The length of the date in SQLite's source id, for example `2025-11-28 17:28:25`.
const DATE: usize = 19;
/// The shortest length of the digest after the date.
const DIGEST: usize = 40;

impl Elf<'_> {
    /// Reads the bytes of a file. Returns `None` if the file is neither a program nor a library.
    pub fn read(bytes: &[u8]) -> Option<Elf<'_>> {
        if !bytes.starts_with(goblin::elf::header::ELFMAG) {
            return None;
        }
        let elf = goblin::elf::Elf::parse(bytes).ok()?;
        let owned = |names: &[&str]| names.iter().flat_map(|names| names.split(':')).map(str::to_owned).collect();
        let has_runpath = !elf.runpaths.is_empty();
        // The linker ignores DT_RPATH if the file has DT_RUNPATH.
        Some(Elf {
            bytes,
            libraries: elf.libraries.iter().map(|name| (*name).to_owned()).collect(),
            before: if has_runpath { Vec::new() } else { owned(&elf.rpaths) },
            after: owned(&elf.runpaths),
        })
    }

    /// Returns the name of the SQLite that the file contains, and whether it is SQLite on libtp.
    pub fn sqlite(&self) -> Option<(String, bool)> {
        find(self.bytes, ENGINE)?;
        if let Some(at) = places(self.bytes, LIBTP_NAME)
            .find(|at| self.bytes.get(at + LIBTP_NAME.len()).is_some_and(u8::is_ascii_digit))
        {
            let version =
                self.bytes[at + LIBTP_NAME.len()..].iter().take_while(|byte| **byte > b' ' && byte.is_ascii());
            let version: String = version.map(|byte| char::from(*byte)).collect();
            return Some((format!("SQLite on libtp {version}"), true));
        }
        let date = self.bytes.windows(DATE + 1 + DIGEST).find_map(source_id);
        Some((date.map_or("an SQLite".to_owned(), |date| format!("the SQLite of {date}")), false))
    }
}

/// Returns the day of a source id, which is a date, a space and hexadecimal digits. Returns `None` for other bytes.
fn source_id(window: &[u8]) -> Option<&str> {
    let is_date = window.starts_with(b"20") && window[4] == b'-' && window[7] == b'-' && window[10] == b' ';
    let digest = &window[DATE + 1..];
    let is_id = is_date && window[DATE] == b' ' && digest.iter().all(u8::is_ascii_hexdigit);
    is_id.then(|| std::str::from_utf8(&window[..10]).ok())?
}

/// Returns the offsets at which a text occurs.
fn places<'b>(bytes: &'b [u8], text: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    let first = text[0];
    let begins = bytes.iter().enumerate().filter(move |(_, byte)| **byte == first);
    begins.map(|(at, _)| at).filter(|at| bytes[*at..].starts_with(text))
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    places(bytes, text).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_and_a_text_is_not() {
        let bytes = std::fs::read("/proc/self/exe").expect("a program can read itself");
        let elf = Elf::read(&bytes).expect("a program is an ELF file");
        assert!(elf.libraries.iter().any(|library| library.starts_with("libc.so")));
        assert!(Elf::read(b"text").is_none());
    }

    #[test]
    fn a_source_id_has_a_day() {
        let id = b"2025-11-28 17:28:25 281fc0e9afc38674b9b0991943b9e9d1e64c6cbd";
        assert_eq!(source_id(id), Some("2025-11-28"));
        assert_eq!(source_id(b"2025-11-28 17:28:25 281fc0e9afc38674b9b0991943b9e9d1e64c6cb."), None);
    }
}
