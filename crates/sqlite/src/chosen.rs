//! `LIBTP_SQLITE`: a list of paths and patterns. SQLite opens an environment for a file that the list names.
//!
//! A pattern that may match files of the whole machine is refused, because it would also match the many small SQLite
//! files of other programs: caches, histories, locks.

use std::path::Path;

use glob::{MatchOptions, Pattern};

/// The name of the environment variable.
pub(crate) const VARIABLE: &str = "LIBTP_SQLITE";

/// Options with which `*` does not match a slash.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Returns whether a list names a path.
///
/// # Errors
/// A text that says which item of the list is invalid, and why.
pub(crate) fn is_chosen(list: &str, path: &Path) -> Result<bool, String> {
    let mut is_chosen = false;
    for item in list.split(':').filter(|item| !item.is_empty()) {
        let refuse = |why: &str| {
            Err(format!("the variable {VARIABLE} contains {item:?}, {why}; nothing was opened. Give absolute paths, or patterns below a directory, as in /srv/shop/*.db"))
        };
        let Some(beginning) = item.strip_prefix('/').and_then(|after| after.split('/').next()) else {
            return refuse("which is not an absolute path");
        };
        if beginning.contains(['*', '?', '[']) {
            return refuse("which may match any file");
        }
        let Ok(pattern) = Pattern::new(item) else { return refuse("which is not a valid pattern") };
        is_chosen |= pattern.matches_path_with(path, OPTIONS);
    }
    Ok(is_chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_paths_and_patterns() {
        let list = "/srv/shop.db:/srv/*/app.sqlite3:/data/**/main.db:";
        let is = |path: &str| is_chosen(list, Path::new(path));
        for path in ["/srv/shop.db", "/srv/a/app.sqlite3", "/data/u/v/main.db"] {
            assert_eq!(is(path), Ok(true), "{path}");
        }
        for path in ["/srv/shop.db-wal", "/srv/a/b/app.sqlite3", "/tmp/shop.db"] {
            assert_eq!(is(path), Ok(false), "{path}");
        }
    }

    #[test]
    fn a_list_that_may_mean_any_file_is_refused() {
        for list in ["all", "*", "/*", "/**/*.db", "shop.db", "/srv/a.db:all", "/[a-z]*/x"] {
            let sentence = is_chosen(list, Path::new("/srv/x")).expect_err(list);
            assert!(sentence.contains(VARIABLE) && sentence.contains("nothing was opened"), "{sentence}");
        }
    }
}
