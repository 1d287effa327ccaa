//! The help of `tp`: verbs in groups, `tp help VERB`, colours.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::process::Command;

use tp::{run, tp_words, Finished};

/// The character that begins a change of colour.
const ESCAPE: char = '\u{1b}';

/// Runs `tp` with words and variables.
fn tp_with(words: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TP_ENV"] {
        command.env_remove(name);
    }
    command.args(words).envs(variables.iter().copied());
    run(command, b"")
}

#[test]
fn the_verbs_are_listed_in_groups() {
    let help = tp_words(&["--help"], b"").text();
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text:?} in {help}"));
    let headings = ["Records:", "Databases:", "Watch:", "Log and backup:", "Repair:", "Measure:", "Help:", "Options:"];
    let places: Vec<usize> = headings.iter().map(|heading| place(&format!("\n{heading}\n"))).collect();
    assert!(places.is_sorted(), "{help}");
    let verb = place("\n  scan ");
    assert!(places[0] < verb && verb < places[1], "{help}");
    assert!(help.contains("-j, --json") && !help.contains("demo-worker"), "{help}");
    assert_eq!(tp_words(&["-h"], b"").text(), help);
    assert_eq!(tp_words(&["help"], b"").text(), help);
}

#[test]
fn the_help_of_a_verb_is_printed_in_two_ways() {
    for words in [&["scan"][..], &["backup"], &["vista", "verify"]] {
        let help = tp_words(&[&["help"], words].concat(), b"").text();
        assert_eq!(help, tp_words(&[words, &["--help"]].concat(), b"").text());
        assert!(help.contains("Usage: tp "), "{help}");
    }
    assert!(tp_words(&["help", "fly"], b"").refused(2).contains("fly"));
}

#[test]
fn help_and_errors_have_colours_only_if_colours_are_wanted() {
    let forced = ("CLICOLOR_FORCE", "1");
    for (variables, is_coloured) in
        [(&[][..], false), (&[forced], true), (&[("NO_COLOR", "1")], false), (&[forced, ("NO_COLOR", "1")], false)]
    {
        let help = tp_with(&["--help"], variables).text();
        assert_eq!(help.contains(ESCAPE), is_coloured, "{variables:?}: {help}");
        let error = tp_with(&["fly"], variables);
        assert_eq!(error.refused(2).contains(ESCAPE), is_coloured, "{variables:?}: {}", error.err);
    }
}
