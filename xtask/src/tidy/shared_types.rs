//! Shared types: each must be part of the layout number, by which two builds of the library decide whether they may
//! share memory.

use super::source::{code, is_word, File};

/// The file that combines the managers' layout numbers.
const ALL: &str = "crates/libtp/src/open/record_types.rs";

/// Crates whose shared types are in separate files, with a separate layout number.
const APART: &[&str] = &["vista"];

/// Returns shared types that no `layout!` of their crate names, and crates with shared types whose layout number is not
/// part of the library's layout number.
pub fn uncounted(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    let all = files.iter().find(|file| file.path == ALL).map_or(String::new(), |file| code(&file.text));
    for (krate, file, name) in files.iter().filter_map(|file| Some((crate_of(&file.path)?, file))).flat_map(declared) {
        let own = files.iter().filter(|other| crate_of(&other.path) == Some(krate));
        if !own.into_iter().any(|other| counted(&other.text).contains(&name)) {
            let path = &file.path;
            complaints.push(format!("{path}: {name} is shared; name it in the `layout!` of the manager that owns it"));
        }
        if APART.contains(&krate) {
            continue;
        }
        let in_code = if krate == "rio" { "rio::LAYOUT".into() } else { format!("libtp_{krate}::") };
        if !all.contains(&in_code) {
            complaints
                .push(format!("{ALL}: the layout of crate `{krate}`, which has shared types, is not in the hash"));
        }
    }
    complaints.dedup();
    complaints
}

/// Returns the crate of a library's source file, or `None` for tests.
fn crate_of(path: &str) -> Option<&str> {
    let (krate, rest) = path.strip_prefix("crates/")?.split_once("/src/")?;
    (rest.ends_with(".rs") && !rest.ends_with("tests.rs") && !rest.contains("tests/")).then_some(krate)
}

fn declared<'f>((krate, file): (&'f str, &'f File)) -> Vec<(&'f str, &'f File, String)> {
    let code = code(&file.text);
    let before_tests = code.split("#[cfg(test)]\nmod ").next().unwrap_or(&code);
    let bodies = before_tests.split("shared! {").skip(1);
    let names = bodies.filter_map(|body| body.split_once("struct ").map(|(_, rest)| word(rest)));
    names.filter(|name| !name.is_empty()).map(|name| (krate, file, name)).collect()
}

/// Returns the names in the file's `layout!` calls, without their paths.
fn counted(text: &str) -> Vec<String> {
    let code = code(text);
    let lists = code.split("layout![").skip(1).filter_map(|rest| rest.split_once(']'));
    let names = lists.flat_map(|(list, _)| list.split(','));
    names.map(|name| word(name.trim().rsplit("::").next().unwrap_or_default())).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| is_word(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_type_that_is_not_counted_is_found() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let slot = "rio::shared! {\n    /// A slot.\n    pub struct Slot { a: Word<u64> } size 8\n}\n";
        let (manager, hash) =
            ("const LAYOUT: u64 = rio::layout![Header, slot::Slot];", "libtp_lock::LockManager::LAYOUT");
        let tree = |manager: &str, hash: &str| {
            vec![file("crates/lock/src/slot.rs", slot), file("crates/lock/src/lib.rs", manager), file(ALL, hash)]
        };
        assert_eq!(uncounted(&tree(manager, hash)), Vec::<String>::new());
        assert_eq!(uncounted(&tree("const LAYOUT: u64 = rio::layout![Header, SlotOther];", hash)).len(), 1);
        assert_eq!(uncounted(&tree(manager, "// libtp_lock::LockManager::LAYOUT")).len(), 1);
        assert_eq!(
            uncounted(&[file("crates/lock/src/tests.rs", slot)]).len(),
            0,
            "types of a test are not shared between builds"
        );
    }
}
