//! Log Manager: the write-ahead log, its tail in shared memory, its body in segment files.
//!
//! Papers: LIBTP sections 3.2.1 and 4.2. Primitive operations under the paper's names: [`LogManager::log`],
//! [`LogManager::log_commit`], [`LogManager::read`] (`log_read`), [`LogManager::roll`], [`LogManager::unroll`]. The log
//! does not interpret a record's body: a record has a kind, and another crate owns the kind.
//!
//! | file | what |
//! |---|---|
//! | `lsn`, `record`, `record_buffer` | a record's position, its layout, and the buffer in which it is built |
//! | `tail`, `ring`, `seen` | the words and the memory that all processes share, and the chunk that a process remembers |
//! | `reserve`, `append` | first the reservation, then the record |
//! | `flush`, `group_commit`, `waiters`, `stopped_leader` | writing to the disk, many commits in one flush, the wait for a flush, and the end of a wait whose leader is stopped |
//! | `segment`, `segment_files`, `prepare` | the files: arithmetic, access, preparing and recycling |
//! | `reader`, `roll`, `unroll` | reading one record, all records forwards, one transaction's records backwards |
//! | `same_files` | the check that all processes use the same log directory |
//! | `incarnation`, `control` | which records are valid, and the facts that restart needs |
//! | `restart` | finding the log's end |
//! | `in_order`, `agree`, `repair`, `overwrite`, `salvage` | the log in a region that is opened again: the check of its words, the comparison with the files, the repair, and saving its records, even if the region is damaged |
//! | `copy` | copying the log's bytes into segment files elsewhere |
//! | `lasting`, `warm_rescue` | a ring that outlives the system, and saving its log |
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use libtp_log::{Control, LogManager, Lsn, Settings, TxnId};
//! # use libtp_process::ProcessManager;
//! # let path = std::env::temp_dir().join(format!("libtp-log-example-{}", std::process::id()));
//! let directory: Arc<dyn libtp_io::Directory> = Arc::new(libtp_io::PosixDirectory::create(&path)?);
//! let region = rio::Region::anonymous(1 << 24)?;
//! ProcessManager::init(&region)?;
//! let processes = ProcessManager::attach(&region, &Default::default())?;
//! let session = processes.join()?;
//!
//! let settings = Settings::default();
//! let control = Control::new([7; 16], &settings);
//! LogManager::init(&region, &settings, &directory, &control, Lsn::FIRST)?;
//! let log = LogManager::attach(&region, &settings, &directory, &control, &processes)?;
//!
//! log.reserve(&session, libtp_log::record_bytes(5))?;
//! let lsn = log.log_commit(&session, 1024, TxnId::new(1), Lsn::NONE, &[b"hello"])?;
//! assert!(log.flushed().covers(lsn));
//! assert_eq!(log.read(lsn)?.body, b"hello");
//! # std::fs::remove_dir_all(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod agree;
mod append;
mod clock;
mod control;
mod copy;
mod error;
mod flush;
mod group_commit;
mod in_order;
mod incarnation;
mod lasting;
mod lsn;
mod overwrite;
mod prepare;
mod reader;
mod record;
mod record_buffer;
mod repair;
mod reserve;
mod restart;
mod ring;
mod roles;
mod roll;
mod salvage;
mod same_files;
mod seen;
mod segment;
mod segment_files;
mod settings;
mod stopped_leader;
mod tail;
mod unroll;
mod waiters;
mod warm_rescue;

use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use libtp_io::Directory;
use libtp_process::{ProcessManager, SessionId};
use rio::{Held, Region, RootSlot};

use group_commit::RelaxedAge;
use ring::Ring;
use segment_files::Opened;
use tail::{Chunk, LogHeader};

pub use agree::{all_in_files, overwrite_from_ring};
pub use append::Entry;
pub use control::{Changing, Control, ControlFile, CONTROL_BYTES, CONTROL_NAME, CONTROL_VERSION, UNRESOLVED_MAX};
pub use copy::{LogCopy, SegmentFile};
pub use error::{Error, Result, DAMAGED_LOG_REMEDY};
pub use flush::FlushedTo;
pub use group_commit::{WAITS_FOR_FLUSH, WAITS_FOR_LOG_SPACE};
pub use in_order::{durable_in, Rescued};
pub use incarnation::{Incarnation, IncarnationEnd, Incarnations, INCARNATIONS_MAX};
pub use lasting::{is_lasting_hit, lasting_of, note_lasting};
pub use lsn::Lsn;
pub use record::{
    record_bytes, Record, RecordHeader, RecordRef, TxnId, BODY_BYTES_MAX, KIND_FILLER, KIND_FLUSH_MARK,
    RECORD_BYTES_MAX, RECORD_HEADER_BYTES,
};
pub use record_buffer::{RecordBuffer, SHORT_BODY_BYTES, SHORT_ROOM_BYTES};
pub use repair::rescue_ring;
pub use reserve::{KEPT_BACK_BYTES, UNDO_SHARE_BYTES, WORTH_BYTES};
pub use restart::{begin_incarnation, find_end, look, restart, LogEnd, Look, Restarted};
pub use roll::Roll;
pub use same_files::{check_same_files, note_files};
pub use segment::{segment_name, segment_number, Geometry, Place, LOG_VERSION, NAME_PREPARING, SEGMENT_HEADER_BYTES};
pub use segment_files::LogFiles;
pub use settings::Settings;
pub use unroll::Unroll;
pub use warm_rescue::rescue_survivor;

/// One process's handle to the log manager. Its threads share it; each call takes the thread's session.
pub struct LogManager {
    header: Held<LogHeader>,
    ring: Ring,
    files: LogFiles,
    processes: ProcessManager,
    settings: Settings,
    incarnation: u64,
    relaxed: RelaxedAge,
    wall_clock: clock::WallClock,
    /// True if this process failed to write the log and no other process is expected to write it: no other process
    /// wrote it in time, or other processes would probably fail, too. Relaxed: only the length of a wait depends on the
    /// flag.
    no_other_writer: AtomicBool,
}

impl LogManager {
    /// The layout of everything that the log manager shares. It includes the version of the files' format, which is
    /// also the format of the records in the ring.
    pub const LAYOUT: u64 =
        rio::LayoutHash::new().number(rio::layout![LogHeader, tail::FlushWaiter]).number(LOG_VERSION as u64).get();

    /// Returns the bytes of region that a new log manager takes.
    pub fn size(settings: &Settings) -> u64 {
        size_of::<LogHeader>() as u64 + 2 * settings.ring_chunk_bytes + 128
    }

    /// Makes the log manager's part of a new region, for a log that ends at `end`. Makes the segment for the next
    /// record if it is missing. No other process is attached, and `control` with its incarnation has been synced.
    ///
    /// # Errors
    /// [`Error::Full`] when the region or the disk has no room, [`Error::Io`], [`Error::Corrupt`] when the segment at
    /// the end is not this environment's.
    ///
    /// # Panics
    /// If the ring's chunk size is no power of two from 4 KiB.
    pub fn init(
        region: &Region,
        settings: &Settings,
        directory: &Arc<dyn Directory>,
        control: &Control,
        end: Lsn,
    ) -> Result<()> {
        let chunk = settings.ring_chunk_bytes;
        assert!(chunk.is_power_of_two() && chunk >= 4096, "a ring's chunk is a power of two from 4 KiB");
        let files = LogFiles::new(Arc::clone(directory), control);
        let file_end = prepared_end(&files, control, end)?;
        let no_room = |error| Error::from_region("the log's part in shared memory", error);
        let offset = region.allocate::<LogHeader>(1).map_err(no_room)?;
        let header = region.hold(offset);
        header.incarnation.init(control.incarnation());
        header.segment_bytes_first.init(control.segment_bytes_first);
        header.segment_bytes_max.init(control.segment_bytes_max);
        header.chunk_bytes.init(chunk);
        header.session_high.init(1);
        header.reserve_largest.init(reserve::RESERVE_BYTES_MIN);
        header.file_end.init(file_end);
        header.oldest.init(control.oldest.min(end));
        header.directory.iter().for_each(|entry| entry.init(Chunk::NONE));
        header.leader.init(SessionId::NONE);
        header.preparer.init(SessionId::NONE);
        header.written_back.init(end);
        let ring = settings.ring_bytes_max.max(Settings::default().ring_bytes_max);
        header.mark_time.init(clock::last_mark_time(&files, control.oldest, end, ring)?);
        for word in [&header.start, &header.durable, &header.tail] {
            word.init(end);
        }
        // The ring begins with the bytes just before the end, so that region and files can be compared (F1).
        let witness = end.minus(in_order::WITNESS_BYTES).max(control.oldest).min(end);
        let first = witness.minus(witness.raw() % chunk);
        header.ring_start.init(first);
        header.ring_end.init(first);
        let ring = Ring::new(region, header.clone());
        while header.ring_end.get() <= end {
            ring.add_chunk(header.ring_end.get())?;
        }
        let mut before = vec![0; usize::try_from(end.since(witness)).expect("at most 4096 bytes")];
        let read = files.copy_out(witness, &mut before)?;
        before[read..].fill(0);
        assert!(ring.copy_in(witness, end, &before), "the ring was just made up to the end");
        region.set_root(RootSlot::Log, offset);
        note_files(region, directory)
    }

    /// Opens the log manager of a region.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the region has no log, or a log whose sizes or incarnation differ from those of
    /// `control`.
    pub fn attach(
        region: &Region,
        settings: &Settings,
        directory: &Arc<dyn Directory>,
        control: &Control,
        processes: &ProcessManager,
    ) -> Result<LogManager> {
        let unusable =
            |what: &str| Error::Unusable { file: region.path().display().to_string(), what: what.to_string() };
        let offset = region.root::<LogHeader>(RootSlot::Log).ok_or_else(|| unusable("it has no log"))?;
        region.try_at(offset).ok_or_else(|| unusable("the header of its log is outside the region"))?;
        let header = region.hold(offset);
        if header.incarnation.get() != control.incarnation() {
            return Err(unusable("its log and the control file come from different restarts"));
        }
        let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
        if sizes != (control.segment_bytes_first, control.segment_bytes_max) {
            return Err(unusable("its log has other segment sizes than the control file"));
        }
        if !header.chunk_bytes.get().is_power_of_two() {
            return Err(unusable("the part of its log in memory has an impossible size"));
        }
        let files = LogFiles::new(Arc::clone(directory), control);
        files.keep_spare();
        let manager = LogManager {
            ring: Ring::new(region, header.clone()),
            incarnation: header.incarnation.get(),
            header,
            files,
            processes: processes.clone(),
            settings: settings.clone(),
            relaxed: RelaxedAge::default(),
            wall_clock: clock::WallClock::default(),
            no_other_writer: AtomicBool::new(false),
        };
        manager.note_relaxed_bound();
        Ok(manager)
    }

    /// Returns the beginning of this region's log: the end that restart found. When the region was made, the files had
    /// all log below this LSN.
    #[inline]
    pub fn began(&self) -> Lsn {
        self.header.start.get()
    }

    /// Returns the end of the last published record, which is the LSN of the next record.
    #[inline]
    pub fn tail(&self) -> Lsn {
        // Acquire: pairs with the publish of the tail, so the bytes of the records below the tail are visible.
        self.header.tail.load()
    }

    /// Returns the durable end: the record at an LSN below this position is durable.
    #[inline]
    pub fn durable(&self) -> Lsn {
        // Acquire: pairs with the leader's store after the sync.
        self.header.durable.load()
    }

    /// Returns the oldest LSN that is kept: records below it are deleted.
    pub fn oldest(&self) -> Lsn {
        self.header.oldest.load()
    }

    /// Returns the bytes that flushes have written to the segment files since the region was made.
    pub fn bytes_written(&self) -> u64 {
        self.header.bytes_written.load()
    }

    /// Returns the number of syncs of segment files by flushes since the region was made.
    pub fn fsyncs(&self) -> u64 {
        self.header.sync_count.load()
    }

    /// Returns the number of flushes since the region was made.
    pub fn flushes(&self) -> u64 {
        self.header.flush_count.load()
    }

    /// Returns the end of an earlier incarnation.
    pub fn end_of_incarnation(&self, number: u64) -> Option<IncarnationEnd> {
        self.files.incarnations().end_of(number)
    }

    /// Returns the mark that pages carry for the incarnation that wrote the record at `lsn`: one of 65,535 values,
    /// different from the marks of the previous and the next incarnation. `None` if that incarnation is forgotten.
    pub fn incarnation_mark(&self, lsn: Lsn) -> Option<NonZeroU16> {
        let incarnations = self.files.incarnations();
        let is_known = incarnations.list().first().is_some_and(|first| first.start <= lsn);
        let mark = u16::try_from(incarnations.at(lsn) % u64::from(u16::MAX)).unwrap_or(0);
        is_known.then(|| NonZeroU16::MIN.saturating_add(mark))
    }

    /// Returns the log's incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns the log's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Makes sure that the segment at `end` exists, and returns the end of the segments up to the first gap. Records beyond
/// `end` are from an earlier incarnation, so their checksums are wrong in this incarnation. Segments beyond a gap are
/// replaced when the log reaches them.
fn prepared_end(files: &LogFiles, control: &Control, end: Lsn) -> Result<Lsn> {
    let mut number = files.geometry().locate(end).segment;
    if may_be_made(files, control, end)? {
        files.prepare_new(number, control.incarnation())?;
    }
    if let Some(why) = files.why_not_whole(number)? {
        return Err(files.damage(end.minus(8), &why));
    }
    // Blocks after the end are missing if the disk was full when the segment was made, or if they were freed later.
    let geometry = files.geometry();
    let mut from = geometry.locate(end).offset;
    let most_undo = 3 * end.since(control.oldest.min(end)) + ENOUGH_BYTES;
    loop {
        let blocks_end = files.blocks_end(number, from, from + most_undo)?;
        let is_whole = blocks_end >= geometry.file_bytes(number);
        if !is_whole || !matches!(files.segment(number + 1)?, Opened::Good(_)) {
            files.directory().sync()?;
            return Ok(geometry.start(number).plus(blocks_end - SEGMENT_HEADER_BYTES));
        }
        (number, from) = (number + 1, SEGMENT_HEADER_BYTES);
    }
}

/// If the disk has no room for a whole segment, the log begins with blocks for at most this number of bytes, plus the
/// log space that restart's undo may need.
const ENOUGH_BYTES: u64 = 512 << 10;

/// Returns whether the segment at the log's end is missing and cannot have contained any log.
fn may_be_made(files: &LogFiles, control: &Control, end: Lsn) -> Result<bool> {
    let number = files.geometry().locate(end).segment;
    let is_unused =
        if number == 1 { end == Lsn::FIRST && !control.begun } else { end == files.geometry().start(number) };
    Ok(is_unused && matches!(files.segment(number)?, Opened::Missing))
}

#[cfg(test)]
mod tests;
