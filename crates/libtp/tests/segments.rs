//! A segment survives only the events that its memory survives, also if the durability of a commit promises more.
//! Opening such a segment logs a warning. After an event that the memory does not survive, opening the segment is
//! refused.
//!
//! This file has only one test: a second test in the same process could disturb the counts of the warnings.
// Functions outside of the tests may panic, too: the panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use libtp::{Durability, Env, Error, Survives};
use tracing::span::{Attributes, Id, Record};

/// The offset of the machine's boot number in a region's header (docs/formats/region.md).
const BOOT: u64 = 32;

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        *about.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the number of warnings when a segment is opened whose memory is declared to survive `declared`.
fn warnings(directory: &Path, durability: Durability, declared: Option<Survives>) -> usize {
    let env = Env::builder().durability(durability).open(directory).unwrap();
    let options = vista::Options::new(4096).anywhere();
    let options = declared.map_or(options.clone(), |survives| options.survives(survives));
    let count = Arc::new(AtomicUsize::new(0));
    let segment = tracing::subscriber::with_default(Warnings(Arc::clone(&count)), || {
        env.segment_at(directory.join("memory"), &options).unwrap()
    });
    assert_eq!(segment.survives(), declared.unwrap_or(Survives::Process));
    count.load(Ordering::Relaxed)
}

#[test]
fn a_segment_that_survives_less_than_the_durability_causes_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    assert_eq!(warnings(&at("sync"), Durability::Sync, None), 1);
    assert_eq!(
        warnings(&at("power"), Durability::Sync, Some(Survives::Power)),
        0,
        "the memory survives as much as a commit promises"
    );
    assert_eq!(
        warnings(&at("relaxed"), Durability::Relaxed, None),
        0,
        "a relaxed commit promises no more than the memory survives"
    );

    let env = Env::open_or_create(at("sync")).unwrap();
    let options = vista::Options::new(0).anywhere();
    let segment = env.segment_at(at("sync").join("memory"), &options).unwrap();
    env.run(|txn| txn.join(&segment)?.set_range(0, 1).map(|range| range.fill(7))).unwrap();
    // The machine goes down here: its next start has another number.
    let left = at("left");
    std::fs::copy(segment.path(), &left).unwrap();
    std::fs::OpenOptions::new().write(true).open(&left).unwrap().write_all_at(&[0x5a; 16], BOOT).unwrap();
    let refused = env.segment_at(&left, &options).unwrap_err();
    assert!(matches!(refused, Error::Memory(_)), "{refused}");
    assert!(refused.to_string().contains("was in use when the machine went down"), "{refused}");
}
