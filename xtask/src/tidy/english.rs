//! Constructions that a reader has to read twice, counted by crate. The counts may only fall.
//!
//! `english.txt` in this directory has the count of each crate. A higher count means a new construction of this kind; a
//! lower count is written into the file, so that it cannot rise again.

use super::source::{code, line_of, File};
use std::collections::BTreeMap;

/// Where the counts are kept.
const LIMITS: &str = "xtask/src/tidy/english.txt";
/// Places that a complaint names.
const PLACES_MAX: usize = 5;
/// Words in a row, in small letters.
const CONSTRUCTIONS: &[&[&str]] = &[
    &["who"],
    &["whoever"],
    &["whom"],
    &["nobody"],
    &["somebody"],
    &["anybody"],
    &["so", "many"],
    &["so", "often"],
    &["so", "much"],
    &["none", "if"],
    &["none", "where"],
    &["none", "when"],
    &["is", "told"],
    &["are", "told"],
    &["is", "said"],
    &["are", "said"],
    &["the", "one", "that"],
    &["the", "one", "of"],
    &["that", "of", "which"],
    &["of", "which", "that"],
    &["what", "is"],
    &["what", "was"],
    &["what", "it"],
];

/// Returns a complaint for each crate whose count differs from the kept count.
pub fn riddles(files: &[File]) -> Vec<String> {
    let limits = files.iter().find(|file| file.path == LIMITS).map_or("", |file| &file.text);
    let limits: BTreeMap<&str, usize> = limits.lines().filter_map(limit).collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_prose(file)) {
        found.entry(part(&file.path)).or_default().extend(places(file));
    }
    let mut complaints = Vec::new();
    for (part, places) in &found {
        let (count, limit) = (places.len(), limits.get(part.as_str()).copied().unwrap_or(0));
        if count > limit {
            let some = places[places.len().saturating_sub(PLACES_MAX)..].join(", ");
            complaints.push(format!(
                "{part} has {count} constructions that are read twice, and had {limit}: name the thing instead \
                 (CONTRIBUTING.md, \"How we write\"). Some of them: {some}"
            ));
        } else if count < limit {
            complaints.push(format!(
                "{part} has {count} constructions that are read twice: write `{part} {count}` into {LIMITS}"
            ));
        }
    }
    complaints
}

fn limit(line: &str) -> Option<(&str, usize)> {
    let (part, count) = line.rsplit_once(' ')?;
    Some((part, count.parse().ok()?))
}

/// Returns whether a person reads and writes the file: source or a document.
fn is_prose(file: &File) -> bool {
    let is_text = [".rs", ".md", ".h", ".c", ".py", ".toml", ".3"].iter().any(|end| file.path.ends_with(end));
    is_text && file.path != "xtask/src/tidy/english.rs" && !file.path.starts_with("docs/paper/")
}

/// Returns the crate of a file, or its folder.
fn part(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(name), Some(_)) => format!("crates/{name}"),
        (Some(first), Some(_), _) => first.to_owned(),
        _ => "the root".to_owned(),
    }
}

/// Returns the places of the constructions in a file.
fn places(file: &File) -> Vec<String> {
    let words = words(file);
    let starts = |at: usize, wanted: &[&str]| {
        words[at..].len() >= wanted.len() && words[at..].iter().zip(wanted).all(|((_, word), wanted)| word == wanted)
    };
    let is_one = |&at: &usize| CONSTRUCTIONS.iter().any(|wanted| starts(at, wanted));
    let place = |at: usize| format!("{}:{} ({})", file.path, line_of(&file.text, words[at].0), words[at].1);
    (0..words.len()).filter(is_one).map(place).collect()
}

/// Returns the words of comments, literals and documents, each with the byte where it begins. Names between backquotes
/// do not count as words.
fn words(file: &File) -> Vec<(usize, String)> {
    let code = if file.is_rust() { code(&file.text) } else { String::new() };
    let is_generated = generated(&file.text);
    // Comments and literals are blank in the code.
    let mut is_code = code.chars().map(|one| !one.is_whitespace()).chain(std::iter::repeat(false));
    let mut words: Vec<(usize, String)> = Vec::new();
    let (mut is_inside, mut is_name) = (false, false);
    for (at, one) in file.text.char_indices() {
        let is_covered = is_code.next().unwrap_or(false);
        is_name = one != '\n' && (is_name != (one == '`' && !is_covered));
        let is_letter =
            one.is_alphabetic() && !is_covered && !is_name && !is_generated.iter().any(|part| part.contains(&at));
        match (is_letter, is_inside) {
            (true, true) => words.last_mut().expect("a word was begun").1.extend(one.to_lowercase()),
            (true, false) => words.push((at, one.to_lowercase().collect())),
            (false, _) => {}
        }
        is_inside = is_letter;
    }
    words
}

/// Returns the parts of a document that a command writes.
fn generated(text: &str) -> Vec<std::ops::Range<usize>> {
    let ends: Vec<usize> = text.match_indices(": end -->").map(|(at, _)| at).collect();
    text.match_indices(": begin -->").map(|(at, _)| at).zip(ends).map(|(begin, end)| begin..end).collect()
}

#[cfg(test)]
mod tests {
    use super::{riddles, File, LIMITS};

    fn tree(limit: usize) -> Vec<File> {
        let text = "//! Who waits is told, or `who`.\n// so\n// many\nfn who() -> &'static str { \"nobody\" }\n";
        let file = |path: &str, text: String| File { path: path.into(), text };
        vec![file("crates/lock/src/wait.rs", text.into()), file(LIMITS, format!("crates/lock {limit}\n"))]
    }

    #[test]
    fn counts_words_of_comments_and_literals_and_ignores_names() {
        assert!(riddles(&tree(4)).is_empty(), "{:?}", riddles(&tree(4)));
    }

    #[test]
    fn ignores_generated_text() {
        let text = "Who?\n<!-- soak: begin -->\nnobody\n<!-- soak: end -->\nwho\n";
        let file = File { path: "docs/reliability.md".into(), text: text.into() };
        assert!(riddles(&[file])[0].starts_with("docs has 2 "));
    }

    #[test]
    fn complains_of_a_count_that_differs_from_the_kept_count() {
        let more = riddles(&tree(3));
        assert!(more.len() == 1 && more[0].contains("wait.rs:4 (nobody)"), "{more:?}");
        assert!(riddles(&tree(5))[0].contains("crates/lock 4"));
    }
}
