//! A log whose ring outlives the system: a commit is safe when its record is in memory, and no system call is made for it.
//!
//! Paper: Rio Vista, section 3, under the log of LIBTP 4.2; PROTOCOLS L9. What the region's memory survives is noted in the
//! log's header by who makes the region, and every process goes by that. Where what is in the processor's cache does not
//! survive as much as memory, the lines are written back: those of the log and no others, since nothing else is taken from
//! such a region ([`crate::rescue_survivor`]).
//!
//! Invariants, where lines are written back
//! 1. Every byte of the ring below `kept` is in memory, and so is a tail at or beyond it.
//! 2. `durable` is at or below `kept`; it is in memory before a chunk below it is used again.
//! 3. The directory's entry of a chunk is in memory before `ring_end` says that the chunk is there, and so before anybody logs in it.
//!
//! `ring_end` and `file_end` are not written back: somebody may log behind what memory has of them, whenever that were done. Who
//! looks at a region of an earlier start goes by the directory ([`Ring::end`](crate::ring::Ring::end)).
//!
//! The word `kept` itself is in memory when the next commit writes its line back: after a crash it says of what was answered last
//! too little, never too much. So records that were answered last and are damaged pass for such as nobody was told of; those
//! that the processor wrote back are not damaged, and nothing is lost that could be had. A second fence for each commit would say
//! it at once.
//!
//! If we die here: `kept` is merely too small, and the next writes the same lines back again.

use rio::{planted, Lasting, Offset, Region, RootSlot, WriteBack};

use crate::tail::LogHeader;
use crate::{LogManager, Lsn};

/// Notes in a region that nobody else has what its memory survives, for a log that has its part of it already.
///
/// # Panics
/// If the region has no log.
pub fn note_lasting(region: &Region, lasting: Lasting) {
    let offset = region.root::<LogHeader>(RootSlot::Log).expect("whoever notes it has seen the log");
    region.at(offset).lasting.publish(lasting.to_word());
}

/// What was noted in a region; of one without a log that it survives processes.
pub fn lasting_of(region: &Region) -> Lasting {
    let header = region.root::<LogHeader>(RootSlot::Log).and_then(|offset| region.try_at(offset));
    header.map_or_else(Lasting::default, |header| Lasting::from_word(header.lasting.load()))
}

/// Whether nothing says any more what a region's memory survives: the word was hit. Then records that prove themselves may be in
/// it, and where to look for them it does not say either.
pub fn is_lasting_hit(region: &Region) -> bool {
    let header = region.root::<LogHeader>(RootSlot::Log).and_then(|offset| region.try_at(offset));
    header.is_some_and(|header| Lasting::try_from_word(header.lasting.load()).is_none())
}

impl LogManager {
    /// What the region's memory survives.
    #[inline]
    pub fn lasting(&self) -> Lasting {
        self.ring.lasting
    }

    /// Makes the record at `lsn` safe, and all before it: they are in memory that survives what [`LogManager::lasting`] says.
    /// No system call.
    #[inline]
    pub fn keep(&self, lsn: Lsn) {
        if self.ring.lasting.write_back != WriteBack::None {
            self.write_back(lsn);
        }
    }

    #[inline(never)]
    fn write_back(&self, lsn: Lsn) {
        let (header, how) = (&*self.header, self.ring.lasting.write_back);
        let kept = header.kept.load();
        if kept > lsn || planted("log: what is answered is not written back") {
            return;
        }
        // Acquire: the records below are there, whoever logged them.
        let tail = header.tail.load();
        self.ring.write_back(kept.max(header.ring_start.load()), tail);
        self.ring.region().write_back_thing(how, &header.tail);
        self.ring.region().fence(how);
        header.kept.raise(tail);
    }
}

/// Where the log says that it is durable up to: in memory before a chunk below is used again.
pub(crate) fn keep_durable(region: &Region, header: &LogHeader, how: WriteBack) {
    if !planted("log: chunks are used again before memory says that they may") {
        region.write_back_thing(how, &header.durable);
        region.fence(how);
    }
}

/// Where a chunk is, and that the region reaches so far: in memory before anybody logs there.
pub(crate) fn keep_chunk(region: &Region, header: &LogHeader, entries: [usize; 2], how: WriteBack) {
    if how == WriteBack::None || planted("log: the ring's directory is not written back") {
        return;
    }
    for entry in entries {
        region.write_back_thing(how, &header.directory[entry]);
    }
    region.write_back_thing(how, &header.ring_start);
    let (at, bytes) = rio::SIZES;
    let sizes = Offset::from_raw(at).expect("the sizes are not the first word");
    region.write_back_lines(how, sizes, usize::try_from(bytes).expect("two words"));
    region.fence(how);
}
