//! Measures the main cost of a before-image of a long range: reading bytes that are in no cache of the processor.
//!
//! Runs six operations in turns, each on a range at a random place in 50 MB of `/dev/shm`, and prints the median of the
//! rounds in nanoseconds:
//! * a store by `memcpy`, which for such lengths need not read the old bytes;
//! * a store of 32 bytes at a time, which reads the old bytes;
//! * a read;
//! * a copy to a log that is in the cache;
//! * this copy, and then a store by `memcpy`;
//! * a copy to the log from a place that is in the cache.
//!
//! `cargo run --release -p libtp-rio --example long_range_cost`. Linux on x86-64 with AVX2.
// A measurement, which no program uses.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]
#![allow(clippy::cast_possible_truncation)]

#[cfg(target_arch = "x86_64")]
mod measured {
    use std::arch::x86_64::{_mm256_load_si256, _mm256_set1_epi8, _mm256_store_si256, _mm256_xor_si256};
    use std::fs::File;
    use std::hint::black_box;
    use std::time::Instant;

    const DATABASE: usize = 50 << 20;
    const LONGEST: usize = 1 << 20;
    const ROUNDS: usize = 201;
    /// Bytes of a round.
    const ROUND: usize = 16 << 20;

    fn drawn(nth: usize) -> usize {
        (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    #[derive(Clone, Copy)]
    enum Access {
        Stored,
        StoredBy32,
        LookedAt,
        Saved,
        SavedAndStored,
        InTheCache,
    }

    const ALL: [(Access, &str); 6] = [
        (Access::Stored, "stored by memcpy"),
        (Access::StoredBy32, "stored, 32 bytes at a time"),
        (Access::LookedAt, "read"),
        (Access::Saved, "copied to the log"),
        (Access::SavedAndStored, "copied to the log, then stored by memcpy"),
        (Access::InTheCache, "copied to the log from the cache"),
    ];

    #[target_feature(enable = "avx2")]
    unsafe fn stored_by_32(to: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(32) {
            unsafe { _mm256_store_si256(to.add(at).cast(), _mm256_set1_epi8(3)) };
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn looked_at(from: *const u8, bytes: usize) {
        let mut sum = [_mm256_set1_epi8(0); 4];
        for at in (0..bytes).step_by(128) {
            for (lane, sum) in sum.iter_mut().enumerate() {
                *sum = _mm256_xor_si256(*sum, unsafe { _mm256_load_si256(from.add(at + lane * 32).cast()) });
            }
        }
        black_box(sum);
    }

    #[target_feature(enable = "avx2")]
    unsafe fn saved(from: *const u8, to: *mut u8, bytes: usize) {
        for at in (0..bytes).step_by(32) {
            unsafe { _mm256_store_si256(to.add(at).cast(), _mm256_load_si256(from.add(at).cast())) };
        }
    }

    fn memory() -> *mut u8 {
        use rustix::mm::{mmap, MapFlags, ProtFlags};
        let path = format!("/dev/shm/long_range_cost.{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a new file");
        std::fs::remove_file(&path).expect("this program made the file");
        let bytes = DATABASE + 2 * LONGEST;
        file.set_len(bytes as u64).expect("room");
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, &file, 0) };
        let at = at.expect("addresses").cast::<u8>();
        unsafe { at.write_bytes(1, bytes) };
        at
    }

    pub fn main() {
        let (memory, image) = (memory(), vec![3_u8; LONGEST]);
        let (log, hot) = (DATABASE, DATABASE + LONGEST);
        let mut nth = 0;
        for bytes in [4096, 64 << 10, 1 << 20] {
            let times = ROUND / bytes;
            let mut took = ALL.map(|_| Vec::new());
            for _ in 0..ROUNDS {
                for ((what, _), took) in ALL.iter().zip(&mut took) {
                    let start = Instant::now();
                    for _ in 0..times {
                        nth += 1;
                        let at = drawn(nth) % (DATABASE / bytes) * bytes;
                        let image = black_box(image.as_ptr());
                        unsafe {
                            let (place, log) = (memory.add(at), memory.add(log));
                            match what {
                                Access::Stored => place.copy_from_nonoverlapping(image, bytes),
                                Access::StoredBy32 => stored_by_32(place, bytes),
                                Access::LookedAt => looked_at(place, bytes),
                                Access::Saved => saved(place, log, bytes),
                                Access::SavedAndStored => {
                                    saved(place, log, bytes);
                                    place.copy_from_nonoverlapping(image, bytes);
                                }
                                Access::InTheCache => saved(memory.add(hot), log, bytes),
                            }
                        }
                    }
                    took.push(start.elapsed().as_secs_f64() * 1e9 / times as f64);
                }
            }
            for ((_, what), took) in ALL.iter().zip(&mut took) {
                took.sort_unstable_by(f64::total_cmp);
                println!("{bytes} bytes, {what}: {:.0}", took[ROUNDS / 2]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn main() {
    if std::is_x86_feature_detected!("avx2") {
        measured::main();
    } else {
        println!("AVX2 only");
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("x86-64 only");
}
