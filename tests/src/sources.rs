//! Names that the sources of the library give to their planted bugs and failpoints.

use std::path::Path;

/// Returns the string literal after each occurrence of `marker` in the sources of all crates. If the marker ends with
/// a quote, this quote begins the literal. Otherwise the next quote begins it.
///
/// # Panics
/// If the sources cannot be read.
pub fn names_after(marker: &str) -> Vec<String> {
    let skipped = usize::from(!marker.ends_with('"'));
    let (mut names, mut open) = (Vec::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")]);
    while let Some(directory) = open.pop() {
        let entries = std::fs::read_dir(directory).expect("the sources are there");
        for path in entries.map(|entry| entry.expect("the sources can be listed").path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let source = std::fs::read_to_string(path).expect("a source can be read");
                names.extend(
                    source.split(marker).skip(1).filter_map(|text| text.split('"').nth(skipped)).map(str::to_owned),
                );
            }
        }
    }
    names
}
