//! The list of exceptions: test cases that pass with stock SQLite on a file and not with this library on an environment.
//!
//! The list is a text. A line `[KIND] REASON` begins a section. Each further line has a script and a pattern for names
//! of its test cases, in which `*` stands for any text: `SCRIPT PATTERN`. A line `SCRIPT ? PATTERN` is for cases that
//! pass in some runs. In the section `[left out]` each line has a pattern for names of scripts that are not run.
//! A line that begins with `#` is a comment.

/// The section with scripts that are not run.
const LEFT_OUT: &str = "left out";

/// All exceptions.
pub struct Exceptions {
    items: Vec<Item>,
    left_out: Vec<String>,
}

/// One line of the list.
pub struct Item {
    script: String,
    pub pattern: String,
    kind: String,
    /// Whether the cases pass in some runs.
    pub is_sometimes: bool,
}

impl Exceptions {
    /// Reads the list.
    ///
    /// # Errors
    /// A text with the number of the first line that is invalid.
    pub fn read(text: &str) -> Result<Exceptions, String> {
        let (mut exceptions, mut kind) = (Exceptions { items: Vec::new(), left_out: Vec::new() }, None);
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (&kind, &*words) {
                (_, []) => {}
                (_, [word, ..]) if word.starts_with('#') => {}
                (_, [word, ..]) if word.starts_with('[') => {
                    let (name, reason) = line[1..].split_once(']').ok_or(format!("line {number} has no ]"))?;
                    if reason.trim().is_empty() {
                        return Err(format!("line {number} gives no reason"));
                    }
                    kind = Some(name.to_owned());
                }
                (Some(kind), [script]) if kind == LEFT_OUT => exceptions.left_out.push((*script).to_owned()),
                (Some(kind), [script, pattern]) => exceptions.items.push(Item::new(script, pattern, kind, false)),
                (Some(kind), [script, "?", pattern]) => exceptions.items.push(Item::new(script, pattern, kind, true)),
                _ => return Err(format!("line {number} has no script and pattern: {line}")),
            }
        }
        Ok(exceptions)
    }

    /// Returns whether a run of all scripts leaves this script out.
    pub fn leaves_out(&self, script: &str) -> bool {
        self.left_out.iter().any(|pattern| matches(pattern, script))
    }

    /// Returns the kind of the first item that names a case.
    pub fn kind<'e>(&'e self, script: &'e str, case: &str) -> Option<&'e str> {
        self.of(script).find(|item| item.names(case)).map(|item| item.kind.as_str())
    }

    /// Returns the items of a script.
    pub fn of<'e>(&'e self, script: &'e str) -> impl Iterator<Item = &'e Item> {
        self.items.iter().filter(move |item| item.script == script)
    }
}

impl Item {
    fn new(script: &str, pattern: &str, kind: &str, is_sometimes: bool) -> Item {
        Item { script: script.into(), pattern: pattern.into(), kind: kind.into(), is_sometimes }
    }

    /// Returns whether the item names a case. A pattern has no spaces: `_` in it stands for a space.
    pub fn names(&self, case: &str) -> bool {
        matches(&self.pattern, &case.replace(' ', "_"))
    }
}

/// Returns whether a text matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(behind, &rest[at..]))
}

#[test]
fn the_list_has_kinds_and_patterns() {
    let list =
        Exceptions::read("[pages] Files have pages.\nvacuum vacuum-1.*\nhook ? hook-2\n[left out] Slow.\nwal*\n")
            .unwrap();
    assert_eq!(list.kind("vacuum", "vacuum-1.2"), Some("pages"));
    assert_eq!(list.kind("vacuum", "vacuum-2.1"), None);
    assert_eq!(list.kind("other", "vacuum-1.2"), None);
    assert!(list.leaves_out("wal2") && !list.leaves_out("swal"));
    assert!(list.of("hook").all(|item| item.is_sometimes && item.names("hook-2")));
    for wrong in ["hook hook-1", "[pages]\nhook hook-1", "[pages Files", "[pages] Files have pages.\nhook"] {
        assert!(Exceptions::read(wrong).is_err(), "{wrong}");
    }
}
