//! `tp shell`: its answers, its changes of records and pages in transactions, and its end when a command fails.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use serde_json::json;
use tempfile::tempdir;
use tp::{tp, tp_reading};

#[test]
fn records_are_put_got_and_deleted_with_and_without_a_transaction() {
    let env = tempdir().unwrap();
    let message = tp_reading(
        "shell",
        env.path(),
        &[],
        b"put stock apples 3\nget stock apples\nbegin\nput stock \"red pears\" 7\nget stock \"red pears\"\ndel stock apples\nabort\n\
          get stock \"red pears\" # undone\nget stock apples\nbegin\ndel stock apples\ncommit\nget stock apples\n",
    );
    let text = message.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("transaction ")).collect();
    let expected =
        ["put", "3", "put", "7", "deleted", "aborted", "not found", "3", "deleted", "committed", "not found"];
    assert_eq!(lines, expected);
    assert_eq!(text.lines().count(), expected.len() + 2);
}

#[test]
fn a_page_is_locked_got_changed_and_released() {
    let env = tempdir().unwrap();
    let store = b"begin\nlock parts 0 write\nbuf_get parts 0\nbuf_change 64 bolt\nbuf_unpin\ncommit\n";
    assert!(tp_reading("shell", env.path(), &[], store).text().ends_with("changed\nunpinned\ncommitted\n"));
    let taken_back = b"begin\nlock parts 0 write\nbuf_get parts 0\nbuf_change 64 nuts\nbuf_unpin\nabort\n";
    assert!(tp_reading("shell", env.path(), &[], taken_back).text().ends_with("unpinned\naborted\n"));
    let look = b"begin\nlock parts 0 read\nbuf_get parts 0\nbuf_look 64 4\nbuf_unpin\nunlock parts 0\ncommit\n";
    assert!(tp_reading("shell", env.path(), &[], look).text().ends_with("bolt\nunpinned\nunlocked\ncommitted\n"));
    let message = tp_reading("shell", env.path(), &["--json", "--hex"], look);
    assert_eq!(message.json()[3], json!({ "bytes_hex": "626f6c74" }));
    assert_eq!(message.json()[4], json!({ "unpinned": 0, "stored": false }));
}

#[test]
fn a_command_that_fails_ends_the_shell_with_a_line_number_and_aborts_the_transaction() {
    let env = tempdir().unwrap();
    let script = b"put stock apples 3\nbegin\nput stock apples 4\nfetch stock apples\nput stock apples 5\ncommit\n";
    let message = tp_reading("shell", env.path(), &[], script);
    assert!(message.refused(1).contains("line 4: `fetch` is not a command"), "{}", message.err);
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "3\n");
    for (script, why) in [
        (&b"commit\n"[..], "no transaction has begun"),
        (b"buf_look 0 1\n", "no page is held"),
        (b"lock parts 0 read\n", "no transaction has begun"),
        (b"begin\nlock parts 0 read\nbuf_get parts 0\nbuf_look 1000000 8\n", "the page has"),
        (b"begin\nlock parts 0 write\nbuf_get parts 0\nbuf_change 0 x\ncommit\n", "with buf_unpin first"),
        (b"begin\nlock parts 0 read\nbuf_get parts 0\nbuf_change 0 x\nbuf_unpin\n", "lock"),
        (b"begin\nbegin\n", "has begun already"),
        (b"get nowhere x\n", "nowhere"),
        (b"get \"stock apples\n", "quote"),
    ] {
        let message = tp_reading("shell", env.path(), &[], script);
        assert!(message.refused(1).contains(why), "{}", message.err);
    }
}

#[test]
fn a_transaction_that_is_open_at_the_end_is_aborted_with_a_message() {
    let env = tempdir().unwrap();
    let message = tp_reading("shell", env.path(), &[], b"begin\nput stock apples 3\nquit\nput stock pears 1\n");
    assert!(message.err.contains("was aborted"), "{}", message.err);
    assert!(tp("get", env.path(), &["stock", "apples"]).refused(1).contains("no record apples"));
    assert!(tp_reading("shell", env.path(), &[], b"help\n").text().contains("buf_get FILE PAGE"));
}
