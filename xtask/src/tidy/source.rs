//! The files of the tree, and Rust source with its comments and literals blanked out.

use std::fs;
use std::path::Path;

/// One text file.
#[derive(Clone)]
pub struct File {
    /// Relative to the workspace's root, with `/` between the parts.
    pub path: String,
    /// The file's text.
    pub text: String,
}

impl File {
    /// Returns whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Reads every text file below `root` except build results and hidden files (`.ci` and `.cargo` are read, too).
///
/// # Errors
/// When a folder or file cannot be read.
pub fn tree(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    gather(root, root, &mut files)?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn gather(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<(), String> {
    let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
        let kind = entry.file_type().map_err(unreadable)?;
        if hidden || (kind.is_dir() && name == "target") {
            continue;
        }
        if kind.is_dir() {
            gather(root, &entry.path(), files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path())
                .map_err(|error| format!("{} cannot be read: {error}", entry.path().display()))?;
            // A file that is not UTF-8 is a golden sample, not text.
            if let Ok(text) = String::from_utf8(bytes) {
                let path = entry.path();
                let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

/// Returns the source with comments and the insides of literals turned into spaces. Lines keep their numbers.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => line_end(&chars, at),
            ('/', Some('*')) => block_comment_end(&chars, at),
            ('"', _) => string_end(&chars, at + 1),
            ('r', Some('"' | '#')) if !after_word(&chars, at) => raw_string_end(&chars, at),
            ('\'', _) => char_end(&chars, at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        }
        while at < end {
            out.push(if chars[at] == '\n' { '\n' } else { ' ' });
            at += 1;
        }
    }
    out
}

/// Returns whether the `r` at this place ends a name. A `b` before the `r` belongs to a raw string's prefix; any other
/// word character belongs to a name.
fn after_word(chars: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| chars[before]) else {
        return false;
    };
    let prefix = (before == 'b' || before == 'c') && !at.checked_sub(2).is_some_and(|earlier| is_word(chars[earlier]));
    is_word(before) && !prefix
}

/// Returns whether the character is a letter, a digit or `_`.
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn line_end(chars: &[char], from: usize) -> usize {
    chars[from..].iter().position(|character| *character == '\n').map_or(chars.len(), |length| from + length)
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> usize {
    let hashes = chars[from + 1..].iter().take_while(|character| **character == '#').count();
    let open = from + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return from; // a raw identifier, r#type
    }
    let closes =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    (open + 1..chars.len()).find(|at| closes(*at)).map_or(chars.len(), |at| at + 1 + hashes)
}

/// Returns the end of a literal such as `'a'` or `'\n'`; `'a` is a lifetime.
fn char_end(chars: &[char], from: usize) -> usize {
    if chars.get(from + 1) == Some(&'\\') {
        let close = chars.iter().enumerate().skip(from + 3).find(|(_, character)| **character == '\'');
        return close.map_or(chars.len(), |(at, _)| at + 1);
    }
    if chars.get(from + 2) == Some(&'\'') {
        return from + 3;
    }
    from
}

/// Returns the byte offsets in `text` at which `word` occurs as a whole word.
pub fn word_places(text: &str, word: &str) -> Vec<usize> {
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    text.match_indices(word).map(|(at, _)| at).filter(whole).collect()
}

/// Returns the line of a byte offset, counted from 1.
pub fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text = "let a = \"unsafe \\\" {\"; // unsafe\n/* un /* nested */ safe\n */ fn b<'x>(c: &'x u8) { '{'; '\\''; b'\"' }\n";
        let blank = code(text);
        assert_eq!(blank.lines().count(), text.lines().count());
        assert!(!blank.contains("unsafe") && !blank.contains("nested"));
        assert!(blank.contains("fn b<'x>(c: &'x u8) {") && blank.ends_with("}\n"));
        assert_eq!(blank.matches('{').count(), 1);
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes_and_raw_names_are_code() {
        let blank = code("a(br#\"x\" // q\"#, r#type, other\"z\");");
        assert!(blank.contains("r#type") && blank.ends_with(");"));
        assert!(!blank.contains('q') && !blank.contains('x'));
    }

    #[test]
    fn only_whole_words_are_found() {
        let text = "unsafe_code\nunsafe { }";
        let places = word_places(text, "unsafe");
        assert_eq!(places.len(), 1);
        assert_eq!(line_of(text, places[0]), 2);
    }
}
