//! Counts the lines of code of the parts that the paper calls Vista, in the source from which this program is built.
//! The test `crates/vista/tests/budget.rs` counts in the same way, and fails if there are more than the paper's 720
//! lines.

/// The source files of the parts that the paper's section 4 counts: transactions, recovery, the heap, and ranges found
/// by the virtual memory system.
const FILES: [&str; 9] = [
    include_str!("../../../../vista/src/lib.rs"),
    include_str!("../../../../vista/src/segment.rs"),
    include_str!("../../../../vista/src/open.rs"),
    include_str!("../../../../vista/src/txn.rs"),
    include_str!("../../../../vista/src/recover.rs"),
    include_str!("../../../../vista/src/heap.rs"),
    include_str!("../../../../vista/src/allocate.rs"),
    include_str!("../../../../vista/src/auto_range.rs"),
    include_str!("../../../../rio/src/undo.rs"),
];

/// Returns the number of lines of code, without tests. Lines that have only a comment or brackets do not count.
fn code_lines(text: &str) -> usize {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter(|line| line.contains(char::is_alphanumeric)).count()
}

pub(super) fn note() -> String {
    let lines: usize = FILES.map(code_lines).iter().sum();
    format!(
        "The parts that the paper's section 4 counts in its 720 lines of C (transactions, recovery, the heap, ranges found by the virtual memory system) \
         have {lines} lines of Rust in the source of this program. `cargo test -p libtp-vista --test budget -- --nocapture` prints the count of each \
         file, and also counts vista's other files."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_brackets_and_tests_do_not_count_as_lines() {
        let text =
            "//! A file.\nfn one() {\n    two(); // this\n}\n\n#[cfg(test)]\nmod tests {\n    fn three() {}\n}\n";
        assert_eq!(code_lines(text), 2);
        assert!(FILES.iter().all(|file| code_lines(file) > 3), "a file has no code");
        assert!(note().contains("lines of Rust"));
    }
}
