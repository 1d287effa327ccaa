//! A program or library as a file: the libraries that it links, and the SQLite inside of it.

/// A file of code.
pub struct Elf<'b> {
    bytes: &'b [u8],
    /// The names of the libraries that it links.
    pub libraries: Vec<String>,
    /// Directories in which the linker looks for them before `LD_LIBRARY_PATH`.
    pub before: Vec<String>,
    /// Directories in which the linker looks for them behind `LD_LIBRARY_PATH`.
    pub behind: Vec<String>,
}

/// A text that each SQLite has: the first line of its own schema.
const ENGINE: &[u8] = b"CREATE TABLE x(type text,name text,tbl_name text,rootpage int,sql text)";
/// The beginning of the name of SQLite on libtp.
const LIBTP_NAME: &[u8] = b"libtp-sqlite ";
/// The length of a date as in SQLite's source id: `2025-11-28 17:28:25`.
const DATE: usize = 19;
/// The shortest digest behind the date.
const DIGEST: usize = 40;

impl Elf<'_> {
    /// Reads a file. Returns `None` if it is no program and no library.
    pub fn read(bytes: &[u8]) -> Option<Elf<'_>> {
        if !bytes.starts_with(goblin::elf::header::ELFMAG) {
            return None;
        }
        let elf = goblin::elf::Elf::parse(bytes).ok()?;
        let owned = |names: &[&str]| names.iter().flat_map(|names| names.split(':')).map(str::to_owned).collect();
        let has_later = !elf.runpaths.is_empty();
        Some(Elf {
            bytes,
            libraries: elf.libraries.iter().map(|name| (*name).to_owned()).collect(),
            before: if has_later { Vec::new() } else { owned(&elf.rpaths) },
            behind: owned(&elf.runpaths),
        })
    }

    /// Returns the name of the SQLite inside, and whether it is SQLite on libtp.
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

/// Returns the day of a source id: a date, a space, and hexadecimal digits.
fn source_id(window: &[u8]) -> Option<&str> {
    let is_date = window.starts_with(b"20") && window[4] == b'-' && window[7] == b'-' && window[10] == b' ';
    let digest = &window[DATE + 1..];
    let is_id = is_date && window[DATE] == b' ' && digest.iter().all(u8::is_ascii_hexdigit);
    is_id.then(|| std::str::from_utf8(&window[..10]).ok())?
}

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
    fn this_program_has_no_stock_sqlite() {
        let bytes = std::fs::read("/proc/self/exe").expect("a program can read itself");
        let elf = Elf::read(&bytes).expect("a program is of this format");
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
