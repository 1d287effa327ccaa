//! The source line of an address in a child's code, for reports.

use std::process::Command;

use nix::unistd::Pid;

/// An address in a child's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The program or library that is mapped at the address.
    file: String,
    /// The address in the file.
    inside: u64,
}

impl Place {
    /// Returns the place of an address of the process.
    pub fn new(process: Pid, address: u64) -> Place {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let (file, inside) = in_file(&maps, address).unwrap_or_default();
        Place { file, inside }
    }

    /// Describes the place in the source by functions and lines, the innermost first. If `addr2line` or the line tables
    /// are missing, returns the file and the address in it.
    pub fn describe(&self) -> String {
        let place = format!("{}+{:#x}", self.file, self.inside);
        let arguments = ["-e", &self.file, "-f", "-C", "-i", "-p", &format!("{:#x}", self.inside)];
        match Command::new("addr2line").args(arguments).output() {
            Ok(output) if output.status.success() && !output.stdout.starts_with(b"??") => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                format!("{} ({place})", text.trim().replace("\n (inlined by)", ", in"))
            }
            _ => place,
        }
    }
}

/// Returns the file that is mapped at the address, and the address relative to the file's first mapping.
fn in_file(maps: &str, address: u64) -> Option<(String, u64)> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = |line: &str| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        Some((hex(from)?, hex(to)?, fields.nth(4)?.to_owned()))
    };
    let all: Vec<_> = maps.lines().filter_map(mapping).collect();
    let (_, _, file) = all.iter().find(|(from, to, _)| (*from..*to).contains(&address))?;
    let first = all.iter().filter(|(_, _, other)| other == file).map(|(from, ..)| *from).min()?;
    Some((file.clone(), address - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_relative_to_the_files_first_mapping() {
        let maps = "1000-2000 r--p 00000000 fe:00 1 /a\n2000-4000 r-xp 00001000 fe:00 1 /a\n5000-6000 rw-p 0 00:00 0\n";
        assert_eq!(in_file(maps, 0x2010), Some(("/a".to_owned(), 0x1010)));
        assert_eq!(in_file(maps, 0x5000), None);
        assert_eq!(in_file(maps, 0x9000), None);
    }
}
