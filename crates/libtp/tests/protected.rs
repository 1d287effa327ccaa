//! The example of LIBTP 4.4's six steps works as described.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/protected.rs"]
mod example;

#[test]
fn the_six_steps_make_unprotected_code_protected() {
    let home = tempfile::tempdir().unwrap();
    let mut message = Vec::new();
    example::show(home.path(), &mut message).unwrap();
    let expected = "unprotected: one two three\nprotected: one two three\nin the transaction: one two three four\n\
                    after the abort: one two three\nopened again: one two three\npage 1 begins with one\n";
    assert_eq!(String::from_utf8(message).unwrap(), expected);
}
