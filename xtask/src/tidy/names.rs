//! The names of files, and the comment at each file's start.

use super::source::File;

/// Names that do not describe the contents.
const EMPTY_NAMES: [&str; 11] =
    ["utils", "util", "helpers", "helper", "common", "misc", "types", "base", "core", "manager", "impl"];

/// Returns Rust files that do not begin with `//!`.
pub fn missing_module_docs(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.text.starts_with("//!"))
        .map(|file| format!("{}: begin the file with `//!`, and describe its contents and its invariants", file.path))
        .collect()
}

/// Returns Rust files and folders of Rust files whose names do not describe the contents.
pub fn empty_names(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            complaints.push(format!(
                "{}: {part:?} does not describe the contents; name the file for its one noun or verb",
                file.path
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_rust_file_without_a_first_sentence_is_found() {
        let files = [file("a.rs", "use b;"), file("b.rs", "//! The b.\n"), file("c.md", "# c")];
        let complaints = missing_module_docs(&files);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("a.rs"));
    }

    #[test]
    fn empty_names_are_found_in_files_and_folders() {
        let files = [
            file("crates/log/src/utils.rs", ""),
            file("crates/log/src/common/tail.rs", ""),
            file("crates/log/src/tail.rs", ""),
            file("docs/common.md", ""),
        ];
        assert_eq!(empty_names(&files).len(), 2);
    }
}
