//! Words that must not be in the tree: markers of postponed work, paths of one machine, documents that do not exist.

use super::source::{code, line_of, word_places, File};

/// Markers of postponed work. Each is written here in two halves, because the rule also checks this file.
const LEFTOVERS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
/// Macros for unfinished code.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// Macros that print.
const PRINTING: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];
/// Folders of programs and tests, which may print. All other code is a library and may not.
const PROGRAMS: [&str; 6] = ["crates/bank/", "crates/console/", "crates/cli/", "crates/bench/", "tests/", "xtask/"];
/// Paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Returns markers of postponed work, in source.
pub fn leftovers(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| !file.path.ends_with(".md") && !file.path.ends_with(".lock")) {
        for mark in LEFTOVERS {
            complaints.extend(at_words(file, &file.text, mark, "write an issue instead"));
        }
        if file.is_rust() {
            let code = code(&file.text);
            for call in UNFINISHED {
                complaints.extend(at_words(file, &code, call, "finish it or remove it"));
            }
        }
    }
    complaints
}

/// Returns library code that prints, except in tests.
pub fn printing(files: &[File]) -> Vec<String> {
    let library = |file: &&File| {
        file.is_rust()
            && file.path.contains("/src/")
            && !file.path.ends_with("/tests.rs")
            && !PROGRAMS.iter().any(|program| file.path.starts_with(program))
    };
    let mut complaints = Vec::new();
    for file in files.iter().filter(library) {
        let code = code(&file.text);
        let before_tests = code.split("#[cfg(test)]\nmod ").next().unwrap_or(&code);
        for call in PRINTING {
            complaints.extend(at_words(file, before_tests, call, "return it, or emit a tracing event"));
        }
    }
    complaints
}

/// Returns absolute paths of one machine. A folder of one letter (`x`) is a sample and allowed.
pub fn machine_paths(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        for path in MACHINE_PATHS {
            for (at, _) in file.text.match_indices(path) {
                let before = file.text[..at].chars().next_back();
                let relative = before.is_some_and(|one| one.is_alphanumeric() || "._-/~*}".contains(one));
                let folder = file.text[at + path.len()..].split(|one: char| !one.is_alphanumeric()).next();
                let sample = folder.is_some_and(|name| name.len() == 1);
                if !relative && !sample {
                    let line = line_of(&file.text, at);
                    complaints.push(format!("{}:{line}: {path}.. is a path of one machine", file.path));
                }
            }
        }
    }
    complaints
}

/// Documents that are not in the tree: a command writes them where its user wants.
const WRITTEN: [&str; 1] = ["report.md"];

/// Returns mentions of Markdown documents that are not in the tree.
pub fn dead_references(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        for (at, _) in file.text.match_indices(".md") {
            let after = file.text[at + 3..].chars().next();
            if after.is_some_and(|character| character.is_alphanumeric() || character == '_') {
                continue;
            }
            let named = name_before(&file.text[..at]);
            // A pattern (`docs/design/*.md`) or a foreign address is no mention of our documents.
            if named.is_empty() || named.contains("//") || named.contains("NNNN") {
                continue;
            }
            let document = format!("{}.md", named.rsplit('/').next().unwrap_or(named));
            let is_written = WRITTEN.contains(&document.as_str());
            if !is_written && !files.iter().any(|other| other.name() == document) {
                complaints.push(format!("{}:{}: there is no {document} here", file.path, line_of(&file.text, at)));
            }
        }
    }
    complaints
}

/// Finds, in the documents, paths of source files that do not exist.
pub fn dead_paths(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for start in ["crates/", "xtask/"] {
            for (at, _) in file.text.match_indices(start) {
                let before = file.text[..at].chars().next_back();
                if before.is_some_and(|character| character.is_alphanumeric() || "/.-_".contains(character)) {
                    continue;
                }
                let part = |character: char| character.is_alphanumeric() || "_-/.".contains(character);
                let length = file.text[at..].find(|character| !part(character)).unwrap_or(file.text.len() - at);
                let path = file.text[at..at + length].trim_end_matches(['.', '/']);
                let folder = format!("{path}/");
                if !files.iter().any(|other| other.path == path || other.path.starts_with(&folder)) {
                    complaints.push(format!("{}:{}: there is no {path}", file.path, line_of(&file.text, at)));
                }
            }
        }
    }
    complaints
}

/// Returns the path that ends at the end of `text`, or an empty text for a pattern.
fn name_before(text: &str) -> &str {
    let part = |character: char| character.is_alphanumeric() || "_-/.:".contains(character);
    let start = text.char_indices().rev().take_while(|(_, character)| part(*character)).last();
    start.map_or("", |(at, _)| &text[at..])
}

fn at_words(file: &File, text: &str, word: &str, advice: &str) -> Vec<String> {
    let places = word_places(text, word);
    places.into_iter().map(|at| format!("{}:{}: {word}: {advice}", file.path, line_of(text, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn postponed_work_is_found() {
        let later = format!("//! A.\n// {}: later\nfn a() {{ todo!() }}", LEFTOVERS[0]);
        let files = [file("a.rs", &later), file("b.rs", "// todo!() in a comment"), file("c.md", &later)];
        assert_eq!(leftovers(&files).len(), 2);
    }

    #[test]
    fn a_library_that_prints_is_found_and_tests_that_print_are_allowed() {
        let printing_test = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { println!(); } }";
        let files = [
            file("crates/log/src/a.rs", "fn a() { eprintln!(); }"),
            file("crates/log/src/b.rs", printing_test),
            file("crates/cli/src/c.rs", "fn a() { println!(); }"),
        ];
        let complaints = printing(&files);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("crates/log/src/a.rs:1: eprintln!"));
    }

    #[test]
    fn paths_of_one_machine_are_found_and_relative_paths_are_not() {
        let (one, other) = (MACHINE_PATHS[0], MACHINE_PATHS[1]);
        let text = format!("cd {one}bank\nnet{one}bank ./a{other}bank {other}x/bank");
        let complaints = machine_paths(&[file("a.md", &text)]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("a.md:1"));
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let text = "`crates/log/src/tail.rs`, crates/log, crates/gone.rs. and xtask/src/{a,b}.rs";
        let files = [file("docs/a.md", text), file("crates/log/src/tail.rs", ""), file("xtask/src/a.rs", "")];
        assert_eq!(dead_paths(&files), ["docs/a.md:1: there is no crates/gone.rs"]);
    }

    #[test]
    fn a_document_that_does_not_exist_is_found() {
        let text = "see docs/log.md, [x](../gone.md), docs/design/*.md, https://a.org/b.md, NNNN.md, report.md";
        let files = [file("a.rs", text), file("docs/log.md", "")];
        let complaints = dead_references(&files);
        assert_eq!(complaints, ["a.rs:1: there is no gone.md here"]);
    }
}
