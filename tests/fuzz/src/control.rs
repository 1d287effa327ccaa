//! A slot of the control file whose checksum is right and whose contents are anybody's.
//!
//! What is read of it is written to another file and read as the same; and the log that it speaks of, of which there is one
//! segment without records, is restarted: that finds an end, or is an error.

use std::cell::RefCell;
use std::sync::Arc;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_name, Control, ControlFile, CONTROL_BYTES, CONTROL_NAME};
use tempfile::TempDir;

use crate::world::{control_file, place, short_log_settings};

const SLOT_BYTES: usize = 4096;
/// The first of two slots.
const SLOT_AT: usize = 4096;
/// What the log's one segment begins with.
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
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(place.path()).expect("it is ours"));
        let file = directory.open(CONTROL_NAME, OpenMode::Create).expect("the directory is ours");
        control_file(&directory).create(&Control::new([0; 16], &short_log_settings())).expect("the directory is empty");
        let mut control = vec![0; usize::try_from(CONTROL_BYTES).expect("it is three blocks")];
        file.read_at(&mut control, 0).expect("it was written");
        Template { place, directory, control }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.directory.open(name, OpenMode::Create).expect("the directory is ours");
        file.set_len(0).and_then(|()| file.write_at(bytes, 0)).expect("there is memory");
    }
}

/// The slot of a new environment's control file, behind its checksum: what the fuzzer starts from.
pub fn first_slot() -> Vec<u8> {
    Template::new().control[SLOT_AT + 4..SLOT_AT + SLOT_BYTES].to_vec()
}

/// One input: a slot behind its checksum.
pub fn control(input: &[u8]) {
    let template = TEMPLATE.take().unwrap_or_else(Template::new);
    let mut bytes = template.control.clone();
    let slot = &mut bytes[SLOT_AT..SLOT_AT + SLOT_BYTES];
    slot.fill(0);
    let said = &input[..input.len().min(SLOT_BYTES - 4)];
    slot[4..4 + said.len()].copy_from_slice(said);
    let crc = crc32c::crc32c(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
    // The other slot says nothing.
    bytes[SLOT_AT + SLOT_BYTES..].fill(0);
    template.put(CONTROL_NAME, &bytes);
    let file = control_file(&template.directory);
    match file.read() {
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(CONTROL_NAME) && text.contains(' '), "{text:?} does not say what is wrong");
        }
        Ok(control) => read(&template, &file, &control),
    }
    TEMPLATE.set(Some(template));
}

fn read(template: &Template, file: &ControlFile, control: &Control) {
    let _ = template.directory.remove("again");
    let again = template.directory.open("again", OpenMode::Create).expect("the directory is ours");
    let again = ControlFile::new(again, "again");
    again.create(control).expect("there is memory");
    assert_eq!(again.read().as_ref().ok(), Some(control), "it is not read as it was written");
    template.put(&segment_name(1), &[0; SEGMENT_BYTES]);
    if let Err(error) = libtp_log::restart(&template.directory, file, &short_log_settings()) {
        assert!(error.to_string().contains(' '), "{error:?} says nothing to anybody");
    }
    let _ = template.place.path();
}
