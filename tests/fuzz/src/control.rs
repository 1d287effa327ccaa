//! A slot of the control file, and its further blocks (they have the incarnations that do not fit into the slot). The
//! contents are arbitrary, and the checksums are right.
//!
//! If the contents can be read, they are written to another file, and must be the same when they are read back. Then
//! the log's restart runs with this control file and one segment without records. It must find an end, or return an
//! error.

use std::cell::RefCell;
use std::sync::Arc;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_name, Control, ControlFile, CONTROL_BYTES, CONTROL_NAME};
use tempfile::TempDir;

use crate::world::{control_file, place, short_log_settings};

const SLOT_BYTES: usize = 4096;
/// The offset of the first of two slots.
const SLOT_AT: usize = 4096;
/// Bytes of a further block.
const BLOCK_BYTES: usize = 4096;
/// The offset of the number of the log's incarnations, in the slot.
const COUNT_AT: usize = 84;
/// The offset of the newest incarnations, in the slot.
const INCARNATIONS_AT: usize = 96;
/// The number of incarnations for which a slot has room.
const SLOT_INCARNATIONS: usize = 128;
/// Bytes of an incarnation's entry.
const INCARNATION_BYTES: usize = 16;
/// The offset of the checksum of the further blocks, in the slot.
const OLDER_CRC_AT: usize = 92;
/// The largest number of incarnations in the further blocks of an input.
const OLDER_INCARNATIONS_MAX: usize = 1024;
/// Bytes of the log's one segment.
const SEGMENT_BYTES: usize = 64 << 10;

/// A directory, and the control file of a new environment.
struct Template {
    place: TempDir,
    directory: Arc<dyn Directory>,
    control: Vec<u8>,
}

thread_local! {
    static TEMPLATE: RefCell<Option<Template>> = const { RefCell::new(None) };
}

impl Template {
    fn new() -> Template {
        let place = place();
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(place.path()).expect("the place is ours"));
        let file = directory.open(CONTROL_NAME, OpenMode::Create).expect("the directory is ours");
        control_file(&directory).create(&Control::new([0; 16], &short_log_settings())).expect("the directory is empty");
        let mut control = vec![0; usize::try_from(CONTROL_BYTES).expect("the file is small")];
        file.read_at(&mut control, 0).expect("the file was written");
        Template { place, directory, control }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.directory.open(name, OpenMode::Create).expect("the directory is ours");
        file.set_len(0).and_then(|()| file.write_at(bytes, 0)).expect("there is memory");
    }
}

/// Returns the slot of a new environment's control file without its checksum. The fuzzer starts with this input.
pub fn first_slot() -> Vec<u8> {
    Template::new().control[SLOT_AT + 4..SLOT_AT + SLOT_BYTES].to_vec()
}

/// Returns the slot, without its checksum, and the further blocks of an environment whose log has had `incarnations`
/// incarnations, at most 1,024.
pub fn slot_of_many(incarnations: u64) -> Vec<u8> {
    let mut slot = first_slot();
    let words: Vec<u8> = (1..=incarnations)
        .flat_map(|incarnation| [incarnation, 8 * incarnation].map(u64::to_le_bytes))
        .flatten()
        .collect();
    let older = words.len().saturating_sub(SLOT_INCARNATIONS * INCARNATION_BYTES);
    let count = u32::try_from(incarnations).expect("the count is small");
    // The slot lacks the checksum at its beginning, so offsets are 4 less.
    slot[COUNT_AT - 4..COUNT_AT].copy_from_slice(&count.to_le_bytes());
    slot[INCARNATIONS_AT - 4..INCARNATIONS_AT - 4 + words.len() - older].copy_from_slice(&words[older..]);
    [&slot, &words[..older]].concat()
}

/// Tests one input: a slot without its checksum, and its further blocks.
pub fn control(input: &[u8]) {
    let template = TEMPLATE.take().unwrap_or_else(Template::new);
    let file = made_of(&template, input);
    match file.read() {
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(CONTROL_NAME) && text.contains(' '), "the error {text:?} does not name the file");
        }
        Ok(control) => read(&template, &file, &control),
    }
    TEMPLATE.set(Some(template));
}

/// Writes the input into the directory's control file.
fn made_of(template: &Template, input: &[u8]) -> ControlFile {
    let mut bytes = template.control.clone();
    let (message, further) = input.split_at(input.len().min(SLOT_BYTES - 4));
    let slot = &mut bytes[SLOT_AT..SLOT_AT + SLOT_BYTES];
    slot.fill(0);
    slot[4..4 + message.len()].copy_from_slice(message);
    let incarnations = u32::from_le_bytes(slot[COUNT_AT..COUNT_AT + 4].try_into().expect("four bytes")) as usize;
    let mut older =
        vec![0; incarnations.saturating_sub(SLOT_INCARNATIONS).min(OLDER_INCARNATIONS_MAX) * INCARNATION_BYTES];
    let given = further.len().min(older.len());
    older[..given].copy_from_slice(&further[..given]);
    let older_crc = crc32c::crc32c(&older);
    slot[OLDER_CRC_AT..OLDER_CRC_AT + 4].copy_from_slice(&older_crc.to_le_bytes());
    let crc = crc32c::crc32c(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
    // The other slot is empty.
    bytes[SLOT_AT + SLOT_BYTES..].fill(0);
    // The further blocks of the two slots alternate.
    for block in older.chunks(BLOCK_BYTES) {
        let end = bytes.len() + 2 * BLOCK_BYTES;
        bytes.extend_from_slice(block);
        bytes.resize(end, 0);
    }
    template.put(CONTROL_NAME, &bytes);
    control_file(&template.directory)
}

fn read(template: &Template, file: &ControlFile, control: &Control) {
    let _ = template.directory.remove("again");
    let again = template.directory.open("again", OpenMode::Create).expect("the directory is ours");
    let again = ControlFile::new(again, "again");
    again.create(control).expect("there is memory");
    assert_eq!(again.read().as_ref().ok(), Some(control), "the control file has other contents when it is read back");
    template.put(&segment_name(1), &[0; SEGMENT_BYTES]);
    if let Err(error) = libtp_log::restart(&template.directory, file, &short_log_settings()) {
        assert!(error.to_string().contains(' '), "the error {error:?} is no sentence");
    }
    let _ = template.place.path();
}

#[cfg(test)]
mod tests {
    use super::{made_of, slot_of_many, Template};

    #[test]
    fn a_slot_with_further_blocks_is_read() {
        let control = made_of(&Template::new(), &slot_of_many(500)).read().unwrap();
        assert_eq!(control.incarnations.list().len(), 500);
    }
}
