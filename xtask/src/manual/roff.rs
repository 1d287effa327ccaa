//! Blocks of a comment in the language of `man`.

use super::header::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The longest line of a text.
const WIDTH: usize = 80;

/// The words that a page shows in bold or italic letters.
pub struct Words<'w> {
    /// The functions of the page.
    pub here: &'w [String],
    /// All functions.
    pub functions: &'w BTreeMap<String, String>,
    /// All types.
    pub types: &'w BTreeMap<String, String>,
    /// All constants.
    pub constants: &'w BTreeSet<String>,
}

/// Returns a block. `paragraph` is the request that begins a paragraph here; it is empty for a first paragraph.
pub fn block(block: &Block, words: &Words, paragraph: &str) -> String {
    let paragraph = if paragraph.is_empty() { String::new() } else { format!("{paragraph}\n") };
    match block {
        Block::Text(text) if text.is_empty() => String::new(),
        Block::Text(text) => paragraph + &filled(&words.marked(text)),
        Block::Code(lines) => format!("{paragraph}.nf\n{}.fi\n", code(&lines.join("\n"))),
    }
}

/// Returns lines as they are.
pub fn code(text: &str) -> String {
    text.lines().map(|line| protected(&escaped(line)) + "\n").collect()
}

impl Words<'_> {
    /// Returns a text in which these words are bold or italic. Backquotes enclose code.
    fn marked(&self, text: &str) -> String {
        let mut marked = String::new();
        for (number, part) in text.split('`').enumerate() {
            if number % 2 == 1 {
                marked += &format!("\\fI{}\\fP", escaped(part));
            } else {
                marked += &part.split(' ').map(|word| self.word(word)).collect::<Vec<_>>().join(" ");
            }
        }
        marked
    }

    fn word(&self, word: &str) -> String {
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let begin = word.find(|letter| is_of_name(letter) || letter == '*').unwrap_or(0);
        let star = usize::from(word[begin..].starts_with('*'));
        let end =
            begin + star + word[begin + star..].find(|letter| !is_of_name(letter)).unwrap_or(word.len() - begin - star);
        let (before, name, after) = (&word[..begin], &word[begin..end], &word[end..]);
        let is_call = after.starts_with('(');
        let shown = if !is_call && self.here.iter().any(|one| one == name) && self.functions.contains_key(name) {
            format!("\\fB{name}\\fP()")
        } else if !is_call && self.functions.contains_key(name) {
            format!("\\fB{name}\\fP(3)")
        } else if self.constants.contains(name) {
            format!("\\fB{name}\\fP")
        } else if self.types.contains_key(name) || (name.len() > 1 && name.starts_with('*')) {
            format!("\\fI{name}\\fP")
        } else {
            name.to_owned()
        };
        let shown = escaped(before) + &shown + &escaped(after);
        // A dash before a number or an option is a minus; a dash inside a word is a hyphen.
        if word.trim_start_matches('(').starts_with('-') {
            shown
        } else {
            shown.replace("\\-", "-")
        }
    }
}

/// Breaks a text into lines, between words.
fn filled(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("the text begins with one line, and no line is removed");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + word.len() < WIDTH {
            *last += " ";
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.into_iter().map(|line| protected(&line) + "\n").collect()
}

/// Escapes the characters that `man` would interpret.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |escaped, letter| match letter {
        '\\' => escaped + "\\e",
        '-' => escaped + "\\-",
        '^' => escaped + "\\(ha",
        '~' => escaped + "\\(ti",
        '\'' => escaped + "\\(aq",
        '`' => escaped + "\\(ga",
        _ => escaped + &letter.to_string(),
    })
}

/// Protects a line from being read as a request.
fn protected(line: &str) -> String {
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line.to_owned()
    }
}
