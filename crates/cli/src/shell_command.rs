//! The commands of `tp shell`, and how a line is read.

use libtp::PageLock;

use crate::failure::{Failure, Result};

/// The command on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// No command: the line is empty or a comment.
    Nothing,
    Help,
    Quit,
    Begin,
    Commit,
    Abort,
    Get {
        database: String,
        key: String,
    },
    Put {
        database: String,
        key: String,
        value: String,
    },
    Del {
        database: String,
        key: String,
    },
    Lock {
        file: String,
        page: u32,
        lock: PageLock,
    },
    Unlock {
        file: String,
        page: u32,
    },
    BufGet {
        file: String,
        page: u32,
    },
    /// Shows bytes of the page that the shell holds.
    BufLook {
        at: usize,
        count: usize,
    },
    /// Changes bytes of the page that the shell holds.
    BufChange {
        at: usize,
        bytes: String,
    },
    BufUnpin,
}

/// The answer to `help`.
pub const HELP: &str = "\
begin                     begins a transaction; outside of one, each get, put and del is a separate transaction
commit, abort             ends the transaction
get DATABASE KEY          shows the value of a key, or the record with a number
put DATABASE KEY VALUE    stores a value; a missing database is made as a B-tree
del DATABASE KEY          deletes a key and its value
lock FILE PAGE read|write locks a page of a file of pages; a missing file is made
unlock FILE PAGE          releases the read lock of a page
buf_get FILE PAGE         gets a page and holds it
buf_look AT COUNT         shows bytes of the held page
buf_change AT BYTES       changes bytes of the held page
buf_unpin                 stores the held page if it was changed, and releases it
help                      shows these lines
quit                      ends the shell, and aborts an open transaction
Words with blanks are \"in quotes\"; a # begins a comment.";

impl Command {
    /// Parses a line.
    pub fn read(line: &str) -> Result<Command> {
        let words = words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let owned = |word: &str| word.to_owned();
        Ok(match words[..] {
            [] => Command::Nothing,
            ["help"] => Command::Help,
            ["quit"] => Command::Quit,
            ["begin"] => Command::Begin,
            ["commit"] => Command::Commit,
            ["abort"] => Command::Abort,
            ["get", database, key] => Command::Get { database: owned(database), key: owned(key) },
            ["put", database, key, value] => {
                Command::Put { database: owned(database), key: owned(key), value: owned(value) }
            }
            ["del", database, key] => Command::Del { database: owned(database), key: owned(key) },
            ["lock", file, page, lock] => {
                Command::Lock { file: owned(file), page: number(page)?, lock: lock_of(lock)? }
            }
            ["unlock", file, page] => Command::Unlock { file: owned(file), page: number(page)? },
            ["buf_get", file, page] => Command::BufGet { file: owned(file), page: number(page)? },
            ["buf_look", at, count] => Command::BufLook { at: number(at)?, count: number(count)? },
            ["buf_change", at, bytes] => Command::BufChange { at: number(at)?, bytes: owned(bytes) },
            ["buf_unpin"] => Command::BufUnpin,
            [verb, ..] => return Err(Failure::Usage(not_a_command(verb))),
        })
    }
}

/// Returns the error text for a line that is no command. If the verb is known, names the words that it needs.
fn not_a_command(verb: &str) -> String {
    let known = HELP.lines().find(|line| line.split(' ').next() == Some(verb));
    match known.and_then(|line| line.split("  ").next()) {
        Some(usage) => format!("`{verb}` was given too few or too many words; nothing was done. Write: {usage}"),
        None => format!("`{verb}` is not a command; nothing was done. `help` lists the commands"),
    }
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N> {
    word.parse().map_err(|_| Failure::Usage(format!("`{word}` is not a number, or too large; nothing was done")))
}

fn lock_of(word: &str) -> Result<PageLock> {
    match word {
        "read" => Ok(PageLock::Read),
        "write" => Ok(PageLock::Write),
        _ => Err(Failure::Usage(format!(
            "a page is locked for `read` or `write`, and `{word}` was given; nothing was done"
        ))),
    }
}

/// Splits a line into words, at blanks outside quotes.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '#' if !is_quoted && word.is_none() => break,
            blank if blank.is_whitespace() && !is_quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    if is_quoted {
        return Err(Failure::Usage("a quote (\") is not closed; nothing was done".to_owned()));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_blanks_that_are_not_in_quotes() {
        let read = |line| words(line).unwrap();
        assert_eq!(read("  put  stock apples\t3 # comment"), ["put", "stock", "apples", "3"]);
        assert_eq!(read(r#"put stock "two words" """#), ["put", "stock", "two words", ""]);
        assert_eq!(read(r##"get s a#b "# no comment""##), ["get", "s", "a#b", "# no comment"]);
        assert!(read("# nothing").is_empty());
        assert!(words("get \"open").is_err());
    }

    #[test]
    fn a_line_that_is_no_command_is_refused_with_a_message() {
        let refused = |line| Command::read(line).unwrap_err().to_string();
        assert!(refused("fetch stock apples").contains("`fetch` is not a command"));
        assert!(refused("get stock").contains("Write: get DATABASE KEY"));
        assert!(refused("lock file 0 exclusive").contains("exclusive"));
        assert!(refused("buf_get file -1").contains("-1"));
        assert_eq!(Command::read("").unwrap(), Command::Nothing);
        let lock = Command::Lock { file: "file".into(), page: 7, lock: PageLock::Write };
        assert_eq!(Command::read("lock file 7 write").unwrap(), lock);
    }

    #[test]
    fn help_names_every_command() {
        for verb in [
            "begin",
            "commit",
            "abort",
            "get ",
            "put ",
            "del ",
            "lock ",
            "unlock ",
            "buf_get ",
            "buf_look ",
            "buf_change ",
            "buf_unpin",
            "help",
            "quit",
        ] {
            assert!(HELP.contains(verb), "{verb}");
        }
    }
}
