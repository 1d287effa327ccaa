//! The example of the password file and of source control works as described.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/passwd.rs"]
mod example;

#[test]
fn files_and_records_change_together() {
    let home = tempfile::tempdir().unwrap();
    let mut message = Vec::new();
    example::show(&home.path().canonicalize().unwrap(), &mut message).unwrap();
    let expected = "passwd: root:x:0:0 margo:x:1001:1001 group: root:x:0: margo:x:1001:\n\
                    twice: the database has this key already; nothing was changed. Replace its value (`put`), or use another key\n\
                    passwd has 2 lines\n\
                    group: has changed it since this transaction first looked at it\ngroup has 4 lines\n\
                    revision 1 by margo: main 1, lib 1\nrevision 2 by mao: main 2, lib 2\nbefore: lib 1\n";
    assert_eq!(String::from_utf8(message).unwrap(), expected);
}
