//! The kept inputs of each target, and random mutations of them.

use std::path::{Path, PathBuf};

use crate::input::Random;

/// Returns the directory of a target's inputs.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the inputs of a target and their file names, sorted by name.
///
/// # Panics
/// If there are no inputs. A missing corpus must not pass as a corpus without findings.
pub fn read(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<(String, Vec<u8>)> = entries
        .flatten()
        .map(|entry| {
            let bytes =
                std::fs::read(entry.path()).unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    assert!(!found.is_empty(), "{} is empty", folder.display());
    found.sort();
    found
}

/// Words that often reveal a missing check, at any offset.
const TELLING: [u64; 10] = [0, 1, 7, 8, 0x7f, 0x80, 0xff, 0xffff, 0xffff_ffff, u64::MAX];

/// Changes an input at a few random offsets. Some changes insert a piece of `other`.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let count = 1 << random.below(4);
        let end = (at + count).min(bytes.len());
        match random.below(8) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.number().to_le_bytes()[0]),
            2 => {
                let word = TELLING[random.below(TELLING.len())].to_le_bytes();
                bytes[at..end].iter_mut().zip(word).for_each(|(place, byte)| *place = byte);
            }
            3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(1)),
            4 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_sub(1)),
            5 => drop(bytes.drain(at..end)),
            6 => drop(bytes.splice(at..at, (0..count).map(|_| random.number().to_le_bytes()[0]).collect::<Vec<u8>>())),
            _ => {
                let from = random.below(other.len() + 1);
                let piece = &other[from..(from + 1 + random.below(64)).min(other.len())];
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
    bytes
}
