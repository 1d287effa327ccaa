//! Runs libFuzzer on one target of `libtp-fuzz`; `LIBTP_FUZZ_TARGET` names the target.
//!
//! `cargo xtask soak fuzz` builds and runs this program. The build's flags make it record the code that an input
//! reaches.
#![no_main]

use std::sync::OnceLock;

use libtp_fuzz::{Target, TARGETS};

/// The target of this process.
fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("LIBTP_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.into_iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("LIBTP_FUZZ_TARGET={name} is none of {:?}", TARGETS.map(|(name, _)| name)))
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| target().1(input));
