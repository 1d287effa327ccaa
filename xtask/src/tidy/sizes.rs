//! Limits for the length of functions, files and design pages.

use super::source::{code, line_of, word_places, File};

/// A function longer than this fails.
const FUNCTION_LINES_MAX: usize = 110;
/// A function longer than this is printed, without a failure.
const FUNCTION_LINES_NOTED: usize = 100;
/// A file longer than this fails.
const FILE_LINES_MAX: usize = 900;
/// A page of docs/design longer than this fails.
const DESIGN_LINES_MAX: usize = 80;

/// Returns functions that are too long for a reader, and prints functions that are near the limit.
pub fn long_functions(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (name, line, length) in functions(&code(&file.text)) {
            let place = format!("{}:{line}: fn {name} has {length} lines", file.path);
            if length > FUNCTION_LINES_MAX {
                complaints.push(format!("{place}, the limit is {FUNCTION_LINES_MAX}; split it into its steps"));
            } else if length > FUNCTION_LINES_NOTED {
                println!("  note: {place}");
            }
        }
    }
    complaints
}

/// Returns Rust files so long that they must have more than one concept.
pub fn long_files(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(file, lines)| {
            format!("{}: {lines} lines, the limit is {FILE_LINES_MAX}: keep one concept per file", file.path)
        })
        .collect()
}

/// Returns design pages that are too long to be read in one go.
pub fn long_designs(files: &[File]) -> Vec<String> {
    let designs = files.iter().filter(|file| file.path.starts_with("docs/design/"));
    let lengths = designs.map(|file| (file, file.text.lines().count()));
    lengths
        .filter(|(_, lines)| *lines > DESIGN_LINES_MAX)
        .map(|(file, lines)| {
            format!("{}: {lines} lines, the limit is {DESIGN_LINES_MAX}: problem, choices, numbers, choice", file.path)
        })
        .collect()
}

/// Returns name, first line and number of lines of every function with a body.
pub(super) fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for place in word_places(code, "fn") {
        let rest = &code[place + 2..];
        let name: String = rest.trim_start().chars().take_while(|c| super::source::is_word(*c)).collect();
        if name.is_empty() {
            continue; // the type fn(..), or a macro's fn $name
        }
        if let Some(length) = body_end(rest) {
            let first = line_of(code, place);
            found.push((name, first, line_of(code, place + 2 + length) - first + 1));
        }
    }
    found
}

/// Returns the place of the brace that closes the first body in `rest`, or `None` if a `;` comes before any body.
fn body_end(rest: &str) -> Option<usize> {
    let mut nested = 0_i32; // parentheses and brackets: `[u8; 4]` contains a `;`
    let mut depth = 0_i32;
    for (place, character) in rest.char_indices() {
        match character {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if nested == 0 && depth == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_function_is_from_its_name_to_its_last_brace() {
        let text = "trait T { fn a(x: [u8; 4]) -> u8; }\nfn b(f: fn(u8)) {\n  if c { d }\n}\n";
        assert_eq!(functions(&code(text)), [("b".to_owned(), 2, 3)]);
    }

    #[test]
    fn a_long_function_and_a_long_file_are_found() {
        let long = |lines: usize| format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        let file = |lines| [File { path: "a.rs".into(), text: long(lines) }];
        assert_eq!(long_functions(&file(FUNCTION_LINES_MAX - 2)).len(), 0);
        assert_eq!(long_functions(&file(FUNCTION_LINES_MAX)).len(), 1);
        assert_eq!(long_files(&file(FILE_LINES_MAX - 2)).len(), 0);
        assert_eq!(long_files(&file(FILE_LINES_MAX)).len(), 1);
    }

    #[test]
    fn a_long_design_page_is_found() {
        let page = |path: &str, lines| [File { path: path.into(), text: "a\n".repeat(lines) }];
        assert_eq!(long_designs(&page("docs/design/0001-a.md", DESIGN_LINES_MAX)).len(), 0);
        assert_eq!(long_designs(&page("docs/design/0001-a.md", DESIGN_LINES_MAX + 1)).len(), 1);
        assert_eq!(long_designs(&page("docs/a.md", DESIGN_LINES_MAX + 1)).len(), 0);
    }
}
