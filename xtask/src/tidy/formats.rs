//! A format is written down once, in docs/formats, as a table of bytes. This rule finds structs that have changed after
//! their table was written.
//!
//! Under each table, a comment has the name and a hash of the struct:
//! `<!-- struct: crates/log/src/record.rs#RecordHeader sha: 0badcafe -->`. Without `#Name` the hash covers the text
//! between `// format: begin` and `// format: end` in the file. Comments and white space do not count.

use super::source::{code, line_of, tree, word_places, File};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const OPEN: &str = "<!-- struct: ";
const CLOSE: &str = " -->";
const HASH: &str = " sha: ";
const REGION: (&str, &str) = ("// format: begin", "// format: end");
const FOLDER: &str = "docs/formats/";

/// Returns complaints about tables whose struct has changed or is missing.
pub fn check(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in files.iter().filter(|file| file.path.starts_with(FOLDER)) {
        for (line, place, hash) in marks(&document.text) {
            let here = format!("{}:{line}", document.path);
            match hash_of(files, place) {
                Err(reason) => complaints.push(format!("{here}: {reason}")),
                Ok(now) if now == hash => {}
                Ok(now) => complaints.push(format!(
                    "{here}: {place} has changed ({now}, the table was written for {hash}): update the table, then run `cargo xtask formats --bless`"
                )),
            }
        }
    }
    complaints
}

/// Writes the hashes of the current structs into the documents.
///
/// # Errors
/// When a struct is missing, or a document cannot be written.
pub fn bless(root: &Path) -> Result<ExitCode, String> {
    let files = tree(root)?;
    for document in files.iter().filter(|file| file.path.starts_with(FOLDER)) {
        let text = blessed(&files, document)?;
        if text != document.text {
            fs::write(root.join(&document.path), text)
                .map_err(|error| format!("{} cannot be written: {error}", document.path))?;
            println!("{}: updated the hashes", document.path);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn blessed(files: &[File], document: &File) -> Result<String, String> {
    let mut text = document.text.clone();
    for (line, place, hash) in marks(&document.text) {
        let now = hash_of(files, place).map_err(|reason| format!("{}:{line}: {reason}", document.path))?;
        let mark = |hash: &str| format!("{OPEN}{place}{HASH}{hash}{CLOSE}");
        text = text.replace(&mark(hash), &mark(&now));
    }
    Ok(text)
}

/// Returns line, struct and hash of every mark in a document.
fn marks(text: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(OPEN) {
        let rest = &text[at + OPEN.len()..];
        let inside = rest.split(CLOSE).next().unwrap_or("");
        let (place, hash) = inside.split_once(HASH).unwrap_or((inside, ""));
        found.push((line_of(text, at), place, hash));
    }
    found
}

fn hash_of(files: &[File], place: &str) -> Result<String, String> {
    let (path, name) = place.split_once('#').map_or((place, None), |(path, name)| (path, Some(name)));
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| format!("there is no file {path}"))?;
    let text = match name {
        Some(name) => struct_named(&file.text, name).ok_or_else(|| format!("{path} has no struct or enum {name}"))?,
        None => region(&file.text).ok_or_else(|| format!("{path} has no lines {:?} and {:?}", REGION.0, REGION.1))?,
    };
    Ok(short_hash(&text))
}

/// Returns `struct Name { .. }` or `enum Name { .. }` without comments; or `Name, 16 { .. }`, where a macro declares
/// structs of a stated size.
fn struct_named(text: &str, name: &str) -> Option<String> {
    let code = code(text);
    let declares = |at: &usize| {
        let before = code[..*at].trim_end();
        let is_type = before.ends_with("struct") || before.ends_with("enum");
        let size = |one: char| one.is_ascii_digit() || one.is_whitespace();
        let sized = code[at + name.len()..].strip_prefix(',').map(|rest| rest.trim_start_matches(size));
        is_type || sized.is_some_and(|rest| rest.starts_with('{'))
    };
    let start = word_places(&code, name).into_iter().find(declares)?;
    let length = code[start..].find('}')?;
    Some(code[start..=start + length].to_owned())
}

fn region(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(REGION.0)?;
    let (inside, _) = rest.split_once(REGION.1)?;
    Some(code(inside))
}

/// Returns FNV-1a of everything but white space, folded to eight digits. The hash finds accidental changes, and does
/// not resist forgery.
fn short_hash(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "pub struct Head {\n    pub lsn: U64, // 00-07\n}\n// format: begin\nconst A: u8 = 1;\n// format: end\n";

    fn tree_with(source: &str, document: &str) -> [File; 2] {
        [
            File { path: "crates/log/src/head.rs".into(), text: source.into() },
            File { path: "docs/formats/log.md".into(), text: document.into() },
        ]
    }

    fn blessed_document() -> String {
        let document =
            "t\n<!-- struct: crates/log/src/head.rs#Head sha: 0 -->\n<!-- struct: crates/log/src/head.rs sha: 1 -->\n";
        let files = tree_with(SOURCE, document);
        assert_eq!(check(&files).len(), 2, "no hash can be right before it was blessed");
        blessed(&files, &files[1]).expect("both structs are there")
    }

    #[test]
    fn a_blessed_table_stays_valid_when_only_comments_and_spaces_change() {
        let document = blessed_document();
        assert!(check(&tree_with(SOURCE, &document)).is_empty());
        let spaced = SOURCE.replace("    pub lsn: U64, // 00-07", "  pub lsn : U64, // first");
        assert!(check(&tree_with(&spaced, &document)).is_empty());
    }

    #[test]
    fn a_changed_struct_and_a_changed_region_are_each_found() {
        let document = blessed_document();
        assert_eq!(check(&tree_with(&SOURCE.replace("lsn", "tail"), &document)).len(), 1);
        assert_eq!(check(&tree_with(&SOURCE.replace("= 1", "= 2"), &document)).len(), 1);
    }

    #[test]
    fn a_struct_that_a_macro_declares_is_found_by_its_name_and_size() {
        let text =
            "Insert, 16 is named first\nbody! { /// Body.\n Insert, 16 { page: U64, } }\nbody! { Post, 4 { a: U32, } }";
        assert_eq!(struct_named(text, "Insert").as_deref(), Some("Insert, 16 { page: U64, }"));
        assert_eq!(struct_named(text, "Body"), None);
    }

    #[test]
    fn a_missing_struct_or_file_is_found() {
        let document = blessed_document();
        let complaints = check(&tree_with("", &document));
        assert!(complaints[0].contains("no struct or enum Head") && complaints[1].contains("no lines"));
        let files = [File { path: "docs/formats/log.md".into(), text: document }];
        assert!(check(&files)[0].contains("there is no file"));
    }
}
