//! Slabs: typed slots, numbered from one. A slab grows in chunks, and a slot never moves.
//!
//! Chunk `k` holds `base << k` slots, so arithmetic gives a slot's place, and growing touches no old slot. A slot keeps
//! its type for the region's life (PROTOCOLS D14). The owning manager keeps track of free slots in its own words and
//! sections.

use std::ops::Range;
use std::sync::OnceLock;

use crate::{failpoint, planted, Held, HeldSlice, Link, Offset, Region, Result, Shared, Word, HEADER_BYTES};

const CHUNKS: usize = 28;

crate::shared! {
    /// The shared part of a slab.
    pub struct SlabHeader {
        /// log2 of the first chunk's slot count.
        pub base_shift: Word<u32>,
        /// Number of chunks; raised last when a chunk is added.
        pub chunk_count: Word<u32>,
        /// The place of each chunk.
        pub chunks: [Link<Word<u64>>; 28],
        /// Zero, kept for later.
        pub spare: [Word<u64>; 3],
    } size 256
}

/// A process's handle to a slab of `T`.
pub struct Slab<T: Shared> {
    header: Held<SlabHeader>,
    base_shift: u32,
    /// The chunks, each checked once. Only a counted chunk is remembered. If a process died while it added a chunk, the
    /// chunk's link exists, but the chunk is not counted, and the next process that adds a chunk replaces the link.
    chunks: [OnceLock<HeldSlice<T>>; CHUNKS],
}

impl<T: Shared> Slab<T> {
    /// Makes an empty slab whose first chunk will hold `base` slots, a power of two.
    ///
    /// # Errors
    /// The region cannot grow.
    ///
    /// # Panics
    /// If `base` is not a power of two.
    pub fn init(region: &Region, base: u32) -> Result<Offset<SlabHeader>> {
        assert!(base.is_power_of_two(), "a slab's first chunk holds a power of two of slots");
        let header = region.allocate::<SlabHeader>(1)?;
        region.at(header).base_shift.init(base.trailing_zeros());
        Ok(header)
    }

    /// Opens the slab at `header`, whose slots must be of type `T`.
    pub fn attach(region: &Region, header: Offset<SlabHeader>) -> Slab<T> {
        let header = region.hold(header);
        let base_shift = header.base_shift.get();
        Slab { header, base_shift, chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// As [`Slab::attach`], or `None` if the slab or a slot is outside the region.
    pub fn try_attach(region: &Region, header: Offset<SlabHeader>) -> Option<Slab<T>> {
        region.try_at(header)?;
        Some(Slab::attach(region, header)).filter(|slab| slab.check().is_ok())
    }

    /// Returns the slot with the number `index`. Numbers begin at one.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        let position = index.wrapping_sub(1) as usize;
        match self.chunks[0].get().and_then(|first| first.get(position)) {
            Some(slot) => slot,
            None => self.at_further(index),
        }
    }

    /// Returns a slot that is not in the first chunk, or whose chunk this handle has not checked yet.
    #[inline]
    fn at_further(&self, index: u32) -> &T {
        let (chunk, within) = self.chunk_of(index);
        let known = self.chunks.get(chunk).and_then(OnceLock::get);
        match known.and_then(|known| known.get(within)) {
            Some(slot) => slot,
            None => self.at_any(index),
        }
    }

    #[cold]
    #[inline(never)]
    fn at_any(&self, index: u32) -> &T {
        let place = self.place(index);
        self.chunk(self.chunk_of(index).0);
        self.header.region().at(place)
    }

    /// Returns the number of the slot's chunk, and the slot's number in that chunk. The numbers begin at zero.
    #[inline]
    fn chunk_of(&self, index: u32) -> (usize, usize) {
        let position = index.wrapping_sub(1) as usize;
        // Chunk k begins at base * (2^k - 1), so position / base + 1 has its highest bit at k.
        let chunk = ((position >> self.base_shift) + 1).ilog2() as usize;
        (chunk, position - (((1 << chunk) - 1) << self.base_shift))
    }

    /// Returns the slots of a chunk, or an empty slice if the slab does not count the chunk.
    fn chunk(&self, chunk: usize) -> &[T] {
        let known = &self.chunks[chunk];
        // Acquire: pairs with the publish of the count. The link of a chunk no longer changes once the chunk is
        // counted.
        let is_counted = chunk < self.header.chunk_count.load() as usize
            || planted("rio: a slab remembers a chunk that is not counted");
        if let (None, true, Some(start)) = (known.get(), is_counted, self.header.chunks[chunk].load()) {
            known.get_or_init(|| self.header.region().hold_slice(start.cast(), 1 << chunk << self.base_shift));
        }
        known.get().map_or(&[], |slots| slots)
    }

    /// Returns all slots, in the order of their numbers. The first chunk holds most slots in use and is one slice, so
    /// this is fast.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let first = self.chunk(0);
        let rest = u32::try_from(first.len()).expect("a slab numbers its slots with 32 bits") + 1..=self.capacity();
        first.iter().chain(rest.map(|index| self.at(index)))
    }

    /// Returns the place of the slot with the number `index`. Numbers begin at one.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn place(&self, index: u32) -> Offset<T> {
        assert!(index != 0, "slot numbers begin at one");
        let (chunk, within) = self.chunk_of(index);
        // Acquire: pairs with the publish in `grow`. The slot's chunk existed before any code knew the slot's number.
        let start = self.header.chunks[chunk].load().expect("the slot's chunk exists");
        start.cast::<T>().plus((within * size_of::<T>()) as u64)
    }

    /// Returns the number of the slot that begins at `place`, or `None` if no slot begins there.
    pub fn index_of(&self, place: u64) -> Option<u32> {
        let bytes = size_of::<T>() as u64;
        for chunk in 0..self.header.chunk_count.load() {
            let start = self.header.chunks[chunk as usize].load()?.raw();
            let slots = 1_u64 << (chunk + self.base_shift);
            if (start..start + slots * bytes).contains(&place) {
                let before = ((1_u64 << chunk) - 1) << self.base_shift;
                let within = (place - start) / bytes;
                let is_start = (place - start) % bytes == 0;
                return u32::try_from(before + within + 1).ok().filter(|_| is_start);
            }
        }
        None
    }

    /// Returns the places of the chunks and their lengths in bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let links = self.header.chunks.iter().zip(0..self.header.chunk_count.load());
        links.filter_map(|(link, nth)| Some((link.load()?.raw(), (size_of::<T>() as u64) << (nth + self.base_shift))))
    }

    /// Checks the slab's header. If a wild store had hit the header, every process would use wrong places.
    ///
    /// # Errors
    /// The fault, as half a sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        let header = &*self.header;
        let (count, shift) = (header.chunk_count.load(), header.base_shift.load());
        if shift != self.base_shift || count as usize > CHUNKS || count.saturating_add(shift) > 31 {
            return Err(format!("a slab says that it has {count} chunks, the first of 2^{shift} slots"));
        }
        for chunk in 0..count {
            let bytes = (size_of::<T>() as u64) << (chunk + shift);
            let start = header.chunks[chunk as usize].load().map_or(0, Offset::raw);
            if start < HEADER_BYTES || start % 64 != 0 || start.saturating_add(bytes) > self.header.region().used() {
                return Err(format!("a slab has its chunk {chunk} at {start}, outside the region"));
            }
        }
        for (chunk, known) in self.chunks.iter().enumerate() {
            let place = known.get().map(|slots| self.header.region().offset_of(&slots[0]).raw());
            if place.is_some() && place != header.chunks[chunk].load().map(Offset::raw) {
                return Err(format!("a slab's chunk {chunk} has moved"));
            }
        }
        Ok(())
    }

    /// Returns the places of the slab's header and of its chunks, in this order: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Range<u64>> {
        let header = self.header.region().offset_of(&*self.header).raw();
        let chunks = self.parts().map(|(start, bytes)| start..start + bytes);
        std::iter::once(header..header + size_of::<SlabHeader>() as u64).chain(chunks).collect()
    }

    /// Returns the number of slots, which are numbered `1..=capacity`.
    #[inline]
    pub fn capacity(&self) -> u32 {
        let count = self.header.chunk_count.load();
        ((1_u32 << count) - 1) << self.base_shift
    }

    /// Adds one chunk of zeroed slots and returns their numbers. The caller makes sure that no other thread adds a
    /// chunk at the same time.
    ///
    /// If we die here: the chunk's memory is lost, because no list has it; the slab is as it was.
    ///
    /// # Errors
    /// The region cannot grow; nothing was changed.
    pub fn grow(&self) -> Result<Range<u32>> {
        let region = self.header.region();
        let count = self.header.chunk_count.load();
        assert!((count as usize) < CHUNKS && count + self.base_shift < 31, "a slab holds at most 2^31 slots");
        let first = self.capacity() + 1;
        let slots = 1_u64 << (count + self.base_shift);
        let words = (slots * size_of::<T>() as u64).div_ceil(8);
        let chunk = region.allocate::<Word<u64>>(words)?;
        failpoint("rio: slab has memory for a chunk");
        self.header.chunks[count as usize].publish(Some(chunk));
        let header = (region.offset_of(&*self.header).raw(), size_of::<SlabHeader>() as u64);
        // The link and the count are in different cache lines, which are written back to memory in any order.
        region.write_back_and_fence(header);
        failpoint("rio: chunk in the slab's list, not counted");
        self.header.chunk_count.publish(count + 1);
        region.write_back_and_fence(header);
        Ok(first..self.capacity() + 1)
    }
}
