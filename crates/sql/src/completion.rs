//! Completes the commands of the shell, keywords of SQL, and names of tables and columns.

use crate::dot_command::COMMANDS;
use crate::rusqlite::Connection;

/// The keywords of SQL that are completed.
const WORDS: [&str; 62] = [
    "ALTER",
    "ANALYZE",
    "AND",
    "ASC",
    "ATTACH",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CHECK",
    "COLLATE",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "CREATE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DETACH",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "FOREIGN",
    "FROM",
    "GLOB",
    "GROUP",
    "HAVING",
    "IMMEDIATE",
    "INDEX",
    "INNER",
    "INSERT",
    "INTO",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ORDER",
    "PRAGMA",
    "PRIMARY",
    "REFERENCES",
    "RETURNING",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "TABLE",
    "TRANSACTION",
    "TRIGGER",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "VALUES",
    "VIEW",
    "VIRTUAL",
    "WHERE",
    "WITH",
];

/// Selects the names of the database that are completed.
const NAMES: &str = "SELECT name FROM pragma_table_list WHERE type <> 'shadow' UNION
    SELECT c.name FROM pragma_table_list l, pragma_table_info(l.name, l.schema) c WHERE l.type <> 'shadow' LIMIT 10000";

/// Returns the names of tables, views and columns. Returns no names within a transaction, because reading them would
/// add the schema to the transaction's reads. If a read fails, the names that it would return are missing.
pub fn names(connection: &Connection) -> Vec<String> {
    if !connection.is_autocommit() {
        return Vec::new();
    }
    let Ok(mut statement) = connection.prepare(NAMES) else { return Vec::new() };
    let rows = statement.query_map([], |row| row.get(0));
    rows.map(|rows| rows.filter_map(Result::ok).collect()).unwrap_or_default()
}

/// Returns the offset at which the word before `at` begins, and the completions of this word.
pub fn complete(line: &str, at: usize, names: &[String]) -> (usize, Vec<String>) {
    let before = &line[..at];
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '.');
    let begin = before
        .rfind(|character| !is_part(character))
        .map_or(0, |place| place + before[place..].chars().next().map_or(1, char::len_utf8));
    let word = &before[begin..];
    if begin == 0 && word.starts_with('.') {
        let found = COMMANDS.iter().filter(|(name, _, _)| name.starts_with(word));
        return (begin, found.map(|(name, _, _)| (*name).to_owned()).collect());
    }
    // After the dot in `table.column`, only the name of the column is completed.
    let (begin, word) = word.rfind('.').map_or((begin, word), |dot| (begin + dot + 1, &word[dot + 1..]));
    let begins = |known: &str| known.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let mut found: Vec<String> = names.iter().filter(|name| begins(name)).cloned().collect();
    if !word.is_empty() {
        let is_small = word.chars().all(char::is_lowercase);
        let spelled = |known: &&str| if is_small { known.to_lowercase() } else { (*known).to_owned() };
        found.extend(WORDS.iter().filter(|known| begins(known)).map(spelled));
    }
    (begin, found)
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn a_word_is_completed_by_commands_words_and_names() {
        let names = ["stock".to_owned(), "Stadt".to_owned()];
        assert_eq!(complete(".ta", 3, &names), (0, vec![".tables".to_owned()]));
        assert_eq!(complete("sel", 3, &names), (0, vec!["select".to_owned()]));
        assert_eq!(complete("SELECT * FROM st", 16, &names), (14, vec!["stock".to_owned(), "Stadt".to_owned()]));
        assert_eq!(complete("SELECT t.st", 11, &names).0, 9);
        assert!(complete("é", 2, &names).1.is_empty());
    }
}
