//! A restart over an arbitrary log: the log's first segment with records whose checksums are right, and its control
//! file.
//!
//! An input gives the durable end and the last checkpoint of the control file, and the log's bytes from its beginning.
//! Everything that could be a record gets a right checksum. The test computes it from the table of
//! `docs/formats/log.md`, not by the library's own code. Then:
//!
//! * `restart` must find an end, or name the damage and its LSN.
//! * The log up to this end is rolled. A second read of each record, by its LSN, must give the same record. The
//!   record's transaction is unrolled, to its beginning or to an error.
//! * Recovery runs over a copy of the small databases: redo, and undo of the losers. It must return an error or
//!   succeed. If it succeeds, `verify` checks every file.
//!
//! The library makes no promise about a log with right checksums that it did not write. So the test does not require
//! right data, only an end or an error.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_name, Control, LogFiles, LogManager, Lsn, Restarted, RECORD_HEADER_BYTES};
use libtp_record::Access;
use tempfile::TempDir;

use crate::input::Input;
use crate::world::{control_file, managers, place, short_log_settings, Scene, World};

/// The largest number of log bytes in an input.
const LOG_BYTES_MAX: usize = 48 << 10;
/// The offset of the first record in its file.
const FIRST_AT: u64 = libtp_log::SEGMENT_HEADER_BYTES + Lsn::FIRST.raw();

/// A bit of an input's first byte: recovery is tried, too.
const RECOVER: u8 = 1;
/// A bit of an input's first byte: the databases have no pages yet.
const NEW_FILES: u8 = 2;

/// The environment that every input begins with.
struct Template {
    control: Control,
    /// The header block before the log's bytes.
    segment_header: Vec<u8>,
    /// For each database: its name, and the contents of its file with all pages and without pages.
    files: Vec<(String, Vec<u8>, Vec<u8>)>,
    place: TempDir,
}

thread_local! {
    static TEMPLATE: RefCell<Option<Template>> = const { RefCell::new(None) };
}

/// Encodes an input: two flags, the durable end and the checkpoint of the log, in units of eight bytes, and the log's
/// bytes.
pub fn encode(recovers: bool, new_files: bool, durable: u16, checkpoint: u16, log: &[u8]) -> Vec<u8> {
    let flags = if recovers { RECOVER } else { 0 } | if new_files { NEW_FILES } else { 0 };
    [&[flags][..], &durable.to_le_bytes(), &checkpoint.to_le_bytes(), log].concat()
}

/// Returns the log's bytes of the small environment, from its first record on.
pub fn log_of(world: &World) -> Vec<u8> {
    let log = &world.managers.log;
    log.force_all(world.txn.session()).expect("there is memory");
    let file = world.directory.open(&segment_name(1), OpenMode::Existing).expect("the log has a file");
    let mut bytes = vec![0; usize::try_from(log.durable().since(Lsn::FIRST)).expect("the log is short")];
    file.read_at(&mut bytes, FIRST_AT).expect("it can be read");
    bytes
}

impl Template {
    fn new() -> Template {
        let (world, place) = (World::new(), place());
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(place.path()).expect("the place is ours"));
        let control = Control::new([0; 16], &short_log_settings());
        control_file(&directory).create(&control).expect("the directory is empty");
        drop(managers(&directory, &control, Lsn::FIRST).expect("the log is new"));
        let file = directory.open(&segment_name(1), OpenMode::Existing).expect("the log has a file");
        let mut segment_header = vec![0; usize::try_from(FIRST_AT).expect("a block is short")];
        file.read_at(&mut segment_header, 0).expect("it can be read");
        let bytes = |scene: &Scene, lsn| crate::scene::on_disk(&scene.pages, lsn);
        let file =
            |scene: &Scene| (libtp_buffer::file_name(scene.name), bytes(scene, Some(Lsn::FIRST)), bytes(scene, None));
        let files = world.scenes.iter().map(file).collect();
        Template { control, segment_header, files, place }
    }

    /// Makes the directory that an input describes.
    fn lay_out(&self, message: &Finished) -> Arc<dyn Directory> {
        clear(self.place.path());
        let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::create(self.place.path()).expect("place is ours"));
        let mut control = self.control.clone();
        control.durable_end = message.durable;
        control.checkpoint = message.checkpoint;
        control_file(&directory).create(&control).expect("the directory is empty");
        put(
            &directory,
            &segment_name(1),
            &[&self.segment_header[..], &message.log].concat(),
            Some(self.control.segment_bytes_first),
        );
        if message.recovers {
            for (name, full, empty) in &self.files {
                put(&directory, name, if message.new_files { empty } else { full }, None);
            }
        }
        directory
    }
}

fn put(directory: &Arc<dyn Directory>, name: &str, bytes: &[u8], length: Option<u64>) {
    let file = directory.open(name, OpenMode::Create).expect("the directory is ours");
    file.write_at(bytes, 0).expect("there is memory");
    if let Some(length) = length {
        file.set_len(length).expect("there is memory");
    }
}

fn clear(path: &Path) {
    for entry in std::fs::read_dir(path).expect("the place is ours").flatten() {
        let _ = std::fs::remove_file(entry.path());
    }
}

/// The parts of an input.
struct Finished {
    recovers: bool,
    new_files: bool,
    durable: Lsn,
    checkpoint: Lsn,
    log: Vec<u8>,
}

impl Finished {
    fn of(input: &[u8], incarnation: u64) -> Finished {
        let mut input = Input(input);
        let (flags, durable, checkpoint) = (input.byte(), input.short(), input.short());
        let mut log = input.take(LOG_BYTES_MAX).to_vec();
        mend(&mut log, incarnation);
        let place = |words: u16| Lsn::new(8 * u64::from(words));
        let (recovers, new_files) = (flags & RECOVER != 0, flags & NEW_FILES != 0);
        Finished { recovers, new_files, durable: place(durable).max(Lsn::FIRST), checkpoint: place(checkpoint), log }
    }
}

/// Gives every record its checksum, up to the first bytes that are no record.
fn mend(log: &mut [u8], incarnation: u64) {
    let mut at = 0;
    while let Some(length) = log.get(at..).and_then(record_length) {
        let Some(record) = log.get_mut(at..at + length) else { return };
        let lsn = Lsn::FIRST.plus(at as u64);
        record[..4].fill(0);
        let crc = sealed(crc32c::crc32c(record), lsn, incarnation);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        at += length;
    }
}

/// Returns the length of the record with which `bytes` begin, by docs/formats/log.md; `None` if its kind is zero.
pub fn record_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..RECORD_HEADER_BYTES).filter(|header| header[4..6] != [0, 0])?;
    Some((RECORD_HEADER_BYTES + body_length(header)).next_multiple_of(8))
}

/// Returns the length of the body that a record's header states.
pub fn body_length(header: &[u8]) -> usize {
    usize::from(header[23]) << 16 | usize::from(header[7]) << 8 | usize::from(header[6])
}

/// Combines a checksum with the LSN and the incarnation, by docs/formats/log.md.
#[allow(clippy::cast_possible_truncation)] // halves of words
fn sealed(crc: u32, lsn: Lsn, incarnation: u64) -> u32 {
    let place = lsn.raw() / 8;
    crc ^ (place as u32).wrapping_mul(0x9e37_79b1)
        ^ ((place >> 32) as u32).wrapping_mul(0x85eb_ca77)
        ^ (incarnation as u32).wrapping_mul(0xc2b2_ae3d)
        ^ (incarnation >> 32) as u32
}

/// Tests one input.
pub fn log_file(input: &[u8]) {
    let template = TEMPLATE.take().unwrap_or_else(Template::new);
    let message = Finished::of(input, template.control.incarnation());
    let directory = template.lay_out(&message);
    let file = control_file(&directory);
    match libtp_log::restart(&directory, &file, &short_log_settings()) {
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("LSN") || text.contains("log."), "the error names no LSN and no log file: {text}");
        }
        Ok(restarted) => {
            assert!(restarted.end.end >= message.durable, "the log ends before the durable end in the control file");
            rolled(&directory, &restarted);
            if message.recovers {
                recovered(&directory, &restarted);
            }
        }
    }
    TEMPLATE.set(Some(template));
}

/// Rolls the log. Reads each record again by its LSN, and unrolls the record's transaction.
fn rolled(directory: &Arc<dyn Directory>, restarted: &Restarted) {
    let files = LogFiles::new(Arc::clone(directory), &restarted.control);
    let (mut at, mut records) = (Lsn::FIRST, 0_u32);
    for record in files.roll(Lsn::FIRST, restarted.end.end) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                assert!(error.to_string().contains("LSN"), "{error}");
                return;
            }
        };
        assert_eq!(record.lsn, at, "the roll left bytes out");
        assert!(files.read(record.lsn).is_ok_and(|again| again == record), "a read by the LSN returns another record");
        at = record.end();
        records += 1;
        // The chain of a record may be as long as the log. So only the first records and some later records are
        // unrolled.
        if records < 64 || records % 64 == 0 {
            files.unroll(record.lsn).take_while(Result::is_ok).for_each(drop);
        }
    }
    // The log's end may be inside a record, because the control file may give any LSN as the durable end.
    assert!(at >= restarted.end.end, "the roll ended before the log");
}

/// Recovers the databases, and checks each.
fn recovered(directory: &Arc<dyn Directory>, restarted: &Restarted) {
    match recover(directory, restarted) {
        Ok(()) => {}
        Err(error) => assert!(error.contains(' '), "the error {error:?} is no sentence"),
    }
}

fn recover(directory: &Arc<dyn Directory>, restarted: &Restarted) -> Result<(), String> {
    let message = |error: libtp_record::Error| error.to_string();
    let registry = libtp_buffer::Registry::new(Arc::clone(directory), [0; 16]);
    libtp_record::make_registry(&registry, &**directory, &[0; 16], restarted.control.next_file_id).map_err(message)?;
    libtp_record::restore_torn(&registry, &**directory, &[0; 16]).map_err(message)?;
    let control = &restarted.control;
    let managers = managers(directory, control, restarted.end.end)?;
    let _: &LogManager = &managers.log;
    let txn = managers.join().map_err(|error| error.to_string())?;
    let checkpoint = Some(control.checkpoint).filter(|&lsn| lsn != Lsn::NONE);
    libtp_txn::restart(&managers, &txn, checkpoint, control.oldest, &mut |_, _, _| {})
        .map_err(|error| error.to_string())?;
    libtp_record::after_restart(&managers, &txn).map_err(message)?;
    for file in libtp_record::entered_files(&registry, &**directory, &[0; 16]).map_err(message)? {
        let database =
            libtp_record::open(&managers, &txn, &**directory, &file.info.name, &Default::default()).map_err(message)?;
        let Some(database) = database else { continue };
        let access = Access::new(&managers, &txn, &database, libtp_lock::Wait::No);
        libtp_record::verify(&access).map_err(message)?;
    }
    managers.leave(txn);
    Ok(())
}
