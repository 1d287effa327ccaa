//! "The entire Vista library is 720 lines of code": what the paper has stays within that here, too, and knows of nothing else.
//!
//! A line counts if there is more on it than a comment or the brackets that a formatter puts on lines of their own.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// The paper's, section 4.
const LINES_MAX: usize = 720;

/// What the paper has. Not in it: how the undo log grows, where it has checksums, how it is looked at (`rio/undo/`), how the heap
/// gets more of the file (`fresh`), settings, errors, what a segment says of itself, the guard (Rio's, section 3).
const FILES: [&str; 7] = [
    "vista/src/lib.rs",
    "vista/src/segment.rs",
    "vista/src/txn.rs",
    "vista/src/recover.rs",
    "vista/src/heap.rs",
    "vista/src/auto_range.rs",
    "rio/src/undo.rs",
];

/// What else the counted files may name of this crate.
const BESIDE: [&str; 6] = ["about", "error", "fresh", "guard", "options", "tests"];

fn code(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter(|line| line.contains(char::is_alphanumeric)).map(str::to_owned).collect()
}

#[test]
fn what_the_paper_has_stays_within_its_720_lines() {
    let counts = FILES.map(|file| (file, code(file).len()));
    let total: usize = counts.iter().map(|(_, lines)| lines).sum();
    println!("figures: {total} lines of code: {counts:?}");
    assert!(total <= LINES_MAX, "{total} lines of code, the paper has {LINES_MAX}: {counts:?}");
}

#[test]
fn what_the_paper_has_calls_nothing_that_is_beyond_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let modules: Vec<String> = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect();
    let is_beyond = |module: &&String| {
        !BESIDE.contains(&module.as_str()) && !FILES.contains(&format!("vista/src/{module}.rs").as_str())
    };
    for beyond in modules.iter().filter(is_beyond) {
        for file in FILES.iter().filter(|file| !file.ends_with("lib.rs")) {
            let names_it = |line: &&String| line.contains(&format!("{beyond}::"));
            assert_eq!(code(file).iter().find(names_it), None, "{file} calls what lies in {beyond}.rs");
        }
    }
}
