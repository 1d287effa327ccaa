//! Measures the least cost of a transaction on recoverable memory, and the cost of each further word that it reads.
//!
//! Eight bytes change at a random place in 50 MB: without a before-image; with a before-image, in the fewest possible
//! stores; and with a before-image and 3, 6 or 12 reads of a word in the cache. Then five ranges change, as in
//! debit-credit, in seven ways to write stores back from the cache:
//! * nothing is saved or written back;
//! * nothing is saved, and the data are written back once at the end;
//! * the log is written back for all ranges together, by `clwb`;
//! * the log is written for all ranges together, by stores that bypass the cache;
//! * the log is written back by `clwb`; a sum of the data, in the cache line of the sequence number that ends the
//!   transaction, replaces the fence before this number;
//! * the same with this sum, but the log, the sum and the number are written by stores that bypass the cache;
//! * the log is written back for each range.
//!
//! Prints nanoseconds per transaction: the quickest of many rounds. The variants take turns in the rounds.
//!
//! `cargo run --release -p libtp-rio --example undo_cost`. Linux on x86-64, `clwb`.
// A measurement, which no program uses.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(clippy::cast_possible_truncation)]

#[cfg(target_arch = "x86_64")]
mod measured {
    use std::arch::asm;
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
    use std::hint::black_box;
    use std::sync::atomic::{compiler_fence, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
    use std::time::Instant;

    /// The number of words of the database. The constant below is the number of words that are always in the cache.
    const WORDS: u64 = (50 << 20) / 8;
    const HOT_WORDS: u64 = (64 << 10) / 8;
    const LOG: usize = WORDS as usize + HOT_WORDS as usize;
    const SEQUENCE: usize = LOG + 64;
    const TIMES: u64 = 10_000;
    const ROUNDS: usize = 1_500;

    fn drawn(nth: u64) -> u64 {
        (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    fn put(word: &AtomicU64, value: u64) {
        compiler_fence(SeqCst);
        word.store(value, Relaxed);
        compiler_fence(SeqCst);
    }

    fn line(word: &AtomicU64) {
        unsafe { asm!("clwb [{}]", in(reg) word.as_ptr(), options(nostack, preserves_flags)) };
    }

    fn fence() {
        unsafe { _mm_sfence() };
    }

    fn around_the_cache(word: &AtomicU64, value: u64) {
        unsafe { _mm_stream_si64(word.as_ptr().cast(), i64::from_ne_bytes(value.to_ne_bytes())) };
    }

    fn mix(sum: u64, word: u64) -> u64 {
        let wide = u128::from(sum ^ word) * 0x9e37_79b9_7f4a_7c15;
        wide as u64 ^ ((wide >> 64) as u64).rotate_left(32)
    }

    /// Changes eight bytes, with a before-image if `is_saved`, after `LOOKED_UP` reads of a word.
    #[inline(always)]
    fn eight_bytes<const LOOKED_UP: usize>(words: &[AtomicU64], known: &AtomicU64, nth: u64, is_saved: bool) {
        let at = drawn(nth) % WORDS;
        let (place, log) = (&words[at as usize], &words[LOG..LOG + 3]);
        for _ in 0..LOOKED_UP {
            compiler_fence(SeqCst);
            black_box(known.load(Relaxed));
        }
        if is_saved {
            log[1].store(place.load(Relaxed), Relaxed);
            log[2].store(0, Relaxed);
            put(&log[0], at | 8 << 48);
        }
        put(place, nth | 1);
        if is_saved {
            put(&log[0], 0);
        }
    }

    /// The way in which the lines of a transaction of five ranges are written back.
    #[derive(Clone, Copy, PartialEq)]
    enum Back {
        Not,
        Once,
        Together,
        Around,
        Summed,
        SummedAround,
        Each,
    }

    fn five_ranges(words: &[AtomicU64], nth: u64, back: Back) {
        // Two places are random; the other three are in the cache.
        let place = |range: u64| match range {
            0 | 1 => drawn(nth * 5 + range) % WORDS,
            _ => WORDS + range * 512 + nth % 8,
        };
        let places: [u64; 5] = std::array::from_fn(|range| place(range as u64));
        let log = &words[LOG..LOG + 16];
        for (at, record) in places.iter().zip(log.chunks_exact(3)) {
            let word = &words[*at as usize];
            let old = word.load(Relaxed);
            let image = [at | 8 << 48, old, old ^ nth];
            for (to, value) in record.iter().zip(image) {
                match back {
                    Back::Not | Back::Once => {}
                    Back::Around | Back::SummedAround => around_the_cache(to, value),
                    Back::Together | Back::Summed | Back::Each => to.store(value, Relaxed),
                }
            }
            if back == Back::Each {
                line(&record[0]);
                line(&record[2]);
                fence();
                put(word, old.wrapping_add(nth));
            }
        }
        if matches!(back, Back::Together | Back::Summed) {
            line(&log[0]);
            line(&log[8]);
        }
        if matches!(back, Back::Together | Back::Summed | Back::Around | Back::SummedAround) {
            fence();
        }
        if matches!(back, Back::Summed | Back::SummedAround) {
            let mut sum = nth;
            for at in places {
                let word = &words[at as usize];
                let new = word.load(Relaxed).wrapping_add(nth);
                put(word, new);
                sum = mix(sum, new);
            }
            // The sum proves that the stored bytes are in memory, so no fence is needed before the end.
            if back == Back::Summed {
                put(&words[SEQUENCE + 1], sum);
                put(&words[SEQUENCE], nth);
                line(&words[SEQUENCE]);
            } else {
                let end = SEQUENCE.next_multiple_of(8);
                for (nth_word, value) in [sum, nth, 0, 0, 0, 0, 0, 0].into_iter().enumerate() {
                    around_the_cache(&words[end + nth_word], value);
                }
            }
        }
        for at in places {
            let word = &words[at as usize];
            if !matches!(back, Back::Each | Back::Summed | Back::SummedAround) {
                put(word, word.load(Relaxed).wrapping_add(nth));
            }
            if back != Back::Not {
                line(word);
            }
        }
        if back == Back::Not {
            return;
        }
        fence();
        if !matches!(back, Back::Once | Back::Summed | Back::SummedAround) {
            put(&words[SEQUENCE], nth);
            line(&words[SEQUENCE]);
            fence();
        }
    }

    /// Returns nanoseconds per transaction: the quickest round of each work; the works take turns.
    fn quickest<const N: usize>(rounds: usize, works: [&dyn Fn(u64); N]) -> [f64; N] {
        let (mut least, mut nth) = ([f64::MAX; N], 0);
        for _ in 0..rounds {
            for (work, least) in works.iter().zip(&mut least) {
                let start = Instant::now();
                work(nth);
                *least = least.min(start.elapsed().as_secs_f64() * 1e9 / TIMES as f64);
                nth += TIMES;
            }
        }
        least
    }

    pub fn main() {
        let words: Vec<AtomicU64> = (0..SEQUENCE + 80).map(|_| AtomicU64::new(1)).collect();
        let known = AtomicU64::new(0);
        let (words, known) = (words.as_slice(), &known);
        let bare = |nth| (nth..nth + TIMES).for_each(|nth| eight_bytes::<0>(words, known, nth, false));
        let least = |nth| (nth..nth + TIMES).for_each(|nth| eight_bytes::<0>(words, known, nth, true));
        let three = |nth| (nth..nth + TIMES).for_each(|nth| eight_bytes::<3>(words, known, nth, true));
        let six = |nth| (nth..nth + TIMES).for_each(|nth| eight_bytes::<6>(words, known, nth, true));
        let twelve = |nth| (nth..nth + TIMES).for_each(|nth| eight_bytes::<12>(words, known, nth, true));
        let of_eight = quickest(ROUNDS, [&bare, &least, &three, &six, &twelve]);
        for (what, ns) in
            ["bare", "before-image", "before-image, 3 reads", "before-image, 6 reads", "before-image, 12 reads"]
                .iter()
                .zip(of_eight)
        {
            println!("8 bytes, {what}: {ns:.1}");
        }
        let work = |back| move |nth| (nth..nth + TIMES).for_each(|nth| five_ranges(words, nth, back));
        let (not, once, together) = (work(Back::Not), work(Back::Once), work(Back::Together));
        let (around, summed, sa, each) =
            (work(Back::Around), work(Back::Summed), work(Back::SummedAround), work(Back::Each));
        let of_five = quickest(ROUNDS / 10, [&not, &once, &together, &around, &summed, &sa, &each]);
        let whats = [
            "bare",
            "data written back",
            "log written back once",
            "log stored past the cache",
            "log written back once, with a sum",
            "log and sum stored past the cache",
            "log written back for each range",
        ];
        for (what, ns) in whats.iter().zip(of_five) {
            println!("5 ranges, {what}: {ns:.0}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn main() {
    measured::main();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("x86-64 only");
}
