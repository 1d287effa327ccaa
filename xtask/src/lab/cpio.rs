//! An archive that a kernel unpacks as its first file system: format `newc`, with a header of hexadecimal digits for
//! each file.

/// An archive under construction.
#[derive(Clone, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    count: usize,
}

impl Archive {
    /// Adds a directory.
    pub fn directory(&mut self, name: &str) {
        self.add(name, 0o40755, &[]);
    }

    /// Adds an executable file.
    pub fn file(&mut self, name: &str, contents: &[u8]) {
        self.add(name, 0o100_755, contents);
    }

    /// Returns the bytes of the whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn add(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.count += 1;
        let links = 1;
        // Inode, mode, owner, group, links, time, length, four numbers of devices, length of the name, no checksum.
        let fields = [self.count, mode as usize, 0, 0, links, 0, contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn every_part_begins_at_a_multiple_of_four() {
        let mut archive = Archive::default();
        archive.directory("p");
        archive.file("init", b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let at = bytes.windows(5).position(|five| five == b"hello").unwrap();
        assert_eq!((at % 4, &bytes[..6], &bytes[6..14]), (0, &b"070701"[..], &b"00000001"[..]));
        let header = &bytes[at - 110 - 6..at];
        assert_eq!(&header[6 + 6 * 8..6 + 7 * 8], b"00000005", "its length");
    }
}
