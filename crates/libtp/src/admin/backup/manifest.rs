//! The manifest of a backup, `backup.toml`. It is written last, so a backup without a manifest is unfinished.
//!
//! The manifest is a text that people can read, but only this library writes it. Its last line is a checksum of all
//! lines before it. The format is in docs/formats/backup.md.
//!
//! If we die here: the new text has another name until it is synced, so the old manifest is whole.

use std::fmt::Write;

use libtp_io::{Directory, OpenMode};
use libtp_log::{Control, Geometry, Incarnation, Incarnations, Lsn};
use rio::failpoint;
use serde::Deserialize;

use crate::open::unfinished::MANIFEST;
use crate::{Error, Result};

/// The name of a manifest that is being written.
const MANIFEST_NEW: &str = "backup.toml.new";
/// The version of the format.
const VERSION: u32 = 1;
/// The beginning of the last line.
const SUM: &str = "# crc32c ";
/// The longest manifest that is read: a million files.
const BYTES_MAX: u64 = 256 << 20;

/// A copied database file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopiedFile {
    /// The file's name.
    pub(crate) name: String,
    /// The file's length.
    pub(crate) bytes: u64,
    /// CRC-32C of the whole file.
    pub(crate) crc: u32,
}

/// The contents of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The format's version.
    version: u32,
    /// The id of the copied environment, 32 hexadecimal digits.
    environment: String,
    /// The LSN of the checkpoint's record.
    pub(crate) checkpoint: u64,
    /// The LSN where redo begins.
    pub(crate) redo_point: u64,
    /// The LSN of the backup's first log record.
    pub(crate) begin: u64,
    /// All changes on the copied pages have LSNs below this LSN. States before this LSN cannot be restored from the
    /// pages.
    pub(crate) copied: u64,
    /// The LSN where the backup's log ends.
    pub(crate) end: u64,
    /// The log's time at that end, microseconds since 1970.
    pub(crate) time: u64,
    /// Bytes of the log's first segment file.
    segment_bytes_first: u64,
    /// Bytes of the largest segment file.
    segment_bytes_max: u64,
    /// The next database file's number.
    pub(crate) next_file_id: u32,
    /// The log's incarnations: number and first LSN.
    incarnations: Vec<[u64; 2]>,
    /// The copied files.
    #[serde(default, rename = "file")]
    pub(crate) files: Vec<CopiedFile>,
}

impl Manifest {
    /// Returns the manifest of a backup that begins with the state in `control`.
    pub(crate) fn new(control: &Control, begin: Lsn, copied: Lsn) -> Manifest {
        let mut manifest = Manifest {
            version: VERSION,
            environment: control.environment_id.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            checkpoint: control.checkpoint.raw(),
            redo_point: control.redo_point.raw(),
            begin: begin.raw(),
            copied: copied.raw(),
            end: copied.raw(),
            time: 0,
            segment_bytes_first: control.segment_bytes_first,
            segment_bytes_max: control.segment_bytes_max,
            next_file_id: control.next_file_id,
            incarnations: Vec::new(),
            files: Vec::new(),
        };
        manifest.set_incarnations(control.incarnations.list().iter().copied());
        manifest
    }

    /// Sets the log's incarnations: the incarnation in which the copied log begins, and all later incarnations.
    pub(crate) fn set_incarnations(&mut self, incarnations: impl Iterator<Item = Incarnation>) {
        let all: Vec<[u64; 2]> =
            incarnations.map(|incarnation| [incarnation.number, incarnation.start.raw()]).collect();
        let first = all.iter().rposition(|incarnation| incarnation[1] <= self.begin).unwrap_or(0);
        self.incarnations = all[first..].to_vec();
    }

    /// Returns the incarnations, or `None` if they are not in order.
    pub(crate) fn incarnations(&self) -> Option<Incarnations> {
        let incarnation = |&[number, start]: &[u64; 2]| Incarnation { number, start: Lsn::new(start) };
        Incarnations::from_list(self.incarnations.iter().map(incarnation).collect())
    }

    /// Returns a control file with the manifest's contents, for a log that ends at `end`.
    pub(crate) fn control(&self, environment_id: [u8; 16], end: Lsn) -> Option<Control> {
        Geometry::new(self.segment_bytes_first, self.segment_bytes_max)?;
        let incarnations = self.incarnations()?;
        let before: Vec<Incarnation> = incarnations
            .list()
            .iter()
            .enumerate()
            .filter(|(at, incarnation)| *at == 0 || incarnation.start < end)
            .map(|it| *it.1)
            .collect();
        let mut control = Control::new(environment_id, &libtp_log::Settings::default());
        control.segment_bytes_first = self.segment_bytes_first;
        control.segment_bytes_max = self.segment_bytes_max;
        control.incarnations = Incarnations::from_list(before)?;
        control.redo_point = Lsn::new(self.redo_point);
        control.checkpoint = Lsn::new(self.checkpoint);
        control.durable_end = end;
        control.oldest = Lsn::new(self.begin);
        control.next_file_id = self.next_file_id;
        Some(control)
    }

    /// Returns the id of the copied environment.
    pub(crate) fn environment(&self) -> Option<[u8; 16]> {
        let mut id = [0; 16];
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(self.environment.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        (self.environment.len() == 32).then_some(id)
    }

    fn to_text(&self) -> String {
        let mut text = String::from("# A backup of a libtp environment: `tp restore` makes an environment of it.\n");
        let numbers = [
            ("checkpoint", self.checkpoint),
            ("redo_point", self.redo_point),
            ("begin", self.begin),
            ("copied", self.copied),
            ("end", self.end),
            ("time", self.time),
            ("segment_bytes_first", self.segment_bytes_first),
            ("segment_bytes_max", self.segment_bytes_max),
            ("next_file_id", self.next_file_id.into()),
        ];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "version = {}\nenvironment = \"{}\"", self.version, self.environment);
        for (name, number) in numbers {
            let _ = writeln!(text, "{name} = {number}");
        }
        let _ = writeln!(text, "incarnations = {:?}", self.incarnations);
        for file in &self.files {
            let _ = writeln!(text, "\n[[file]]\nname = {}", quoted(&file.name));
            let _ = writeln!(text, "bytes = {}\ncrc = {}", file.bytes, file.crc);
        }
        let sum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "{SUM}{sum:08x}");
        text
    }

    fn parse(text: &str) -> std::result::Result<Manifest, String> {
        let (rest, sum) = text
            .trim_end()
            .rsplit_once(SUM)
            .ok_or("its last line, a checksum, is missing; nothing was changed. Use another backup")?;
        if u32::from_str_radix(sum, 16).ok() != Some(crc32c::crc32c(rest.as_bytes())) {
            return Err("its checksum is wrong, so the file was changed or is damaged; nothing was changed now. Use another backup".into());
        }
        let manifest: Manifest = toml::from_str(rest).map_err(|error| error.to_string())?;
        if manifest.version != VERSION {
            return Err(format!("it has version {}, and this build reads version {VERSION}; nothing was changed. Use the build that made the backup", manifest.version));
        }
        let in_order = manifest.begin <= manifest.redo_point
            && manifest.redo_point <= manifest.checkpoint
            && manifest.checkpoint < manifest.copied
            && manifest.copied <= manifest.end;
        if !in_order || manifest.control([0; 16], Lsn::new(manifest.end)).is_none() || manifest.environment().is_none()
        {
            return Err("its places in the log contradict each other; nothing was changed. Use another backup".into());
        }
        Ok(manifest)
    }

    /// Reads the manifest of the backup in `directory`; returns `None` if it has none.
    ///
    /// # Errors
    /// `Backup` if it is damaged, or of another version.
    pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Manifest>> {
        if !directory.exists(MANIFEST)? {
            return Ok(None);
        }
        let file = directory.open(MANIFEST, OpenMode::ReadOnly)?;
        let mut text = vec![0; usize::try_from(file.len()?.min(BYTES_MAX)).unwrap_or(usize::MAX)];
        let read = file.read_at(&mut text, 0)?;
        text.truncate(read);
        let parsed =
            String::from_utf8(text).map_err(|_| "it is not UTF-8".to_string()).and_then(|text| Manifest::parse(&text));
        parsed.map(Some).map_err(|what| Error::Backup { backup: directory.describe(MANIFEST), what })
    }

    /// Replaces the manifest. The new manifest is durable when this call returns.
    ///
    /// # Errors
    /// `Full`, `Io`: the old manifest stays valid.
    pub(crate) fn write(&self, directory: &dyn Directory) -> Result<()> {
        let file = directory.open(MANIFEST_NEW, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(self.to_text().as_bytes(), 0)?;
        file.sync()?;
        failpoint("backup: manifest written, without its name");
        directory.rename(MANIFEST_NEW, MANIFEST)?;
        failpoint("backup: manifest named, not durable");
        Ok(directory.sync()?)
    }
}

/// Returns a text quoted for TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut control = Control::new([7; 16], &libtp_log::Settings::default());
        (control.redo_point, control.checkpoint) = (Lsn::new(800), Lsn::new(1600));
        control.incarnations.begin(Lsn::new(1000)).unwrap();
        let mut manifest = Manifest::new(&control, Lsn::new(400), Lsn::new(2400));
        manifest.files.push(CopiedFile { name: "a \"quoted\" näme.tp".into(), bytes: 24576, crc: 17 });
        manifest
    }

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        let manifest = manifest();
        assert_eq!(Manifest::parse(&manifest.to_text()), Ok(manifest.clone()));
        assert_eq!(manifest.environment(), Some([7; 16]));
        let control = manifest.control([9; 16], Lsn::new(900)).unwrap();
        assert_eq!(control.incarnations.list().len(), 1, "the restored log ends before the second incarnation");
        assert_eq!(manifest.control([9; 16], Lsn::new(2400)).unwrap().incarnation(), 2);
    }

    #[test]
    fn a_manifest_that_was_changed_is_refused() {
        let text = manifest().to_text();
        for (at, byte) in text.bytes().enumerate().step_by(7) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if byte == b'1' { b'2' } else { b'1' };
            if let Ok(text) = String::from_utf8(bytes) {
                assert!(Manifest::parse(&text).is_err(), "byte {at}");
            }
        }
        assert!(Manifest::parse(&text[..text.len() / 2]).is_err());
    }
}
