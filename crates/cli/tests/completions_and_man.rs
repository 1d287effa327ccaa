//! `tp completions` and `tp man`: the scripts of the shells, and the manual page.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::process::Command;

use tp::{run, tp_words};

/// Returns the visible verbs, from the help.
fn verbs() -> Vec<String> {
    let help = tp_words(&["--help"], b"").text();
    let lines = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  -"));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Runs a program with a text on standard input. Returns `None` if the program is not installed.
fn with_program(program: &str, words: &[&str], input: &str) -> Option<String> {
    let is_installed = Command::new(program).arg("--version").output().is_ok();
    let mut command = Command::new(program);
    command.args(words);
    is_installed.then(|| run(command, input.as_bytes()).text())
}

#[test]
fn each_script_has_every_visible_verb_and_no_hidden_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let script = tp_words(&["completions", shell], b"").text();
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell}: {verb}");
        }
        assert!(!script.contains("demo-worker") && !script.contains("bench-client"), "{shell}");
        let json = tp_words(&["completions", shell, "-j"], b"").result();
        assert_eq!((json["shell"].as_str(), json["script"].as_str()), (Some(shell), Some(script.as_str())));
    }
    assert!(!tp_words(&["completions", "tcsh"], b"").refused(2).is_empty());
}

#[test]
fn bash_completes_verbs_and_options() {
    let script = tp_words(&["completions", "bash"], b"").text();
    // A shell calls the function with three words: the command, the word to complete, and the word before that.
    let complete = |before: &str, word: &str| {
        let words = format!("COMP_WORDS=(tp {before} {word})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n");
        let call = format!("{script}\n{words}_tp tp {word} '{before}'\necho \"${{COMPREPLY[@]}}\"\n");
        with_program("bash", &["--norc", "-s"], &call)
    };
    let Some(verbs) = complete("", "che") else { return };
    assert_eq!(verbs, "checkpoint\n");
    assert_eq!(complete("scan", "--rev").unwrap(), "--reverse\n");
}

#[test]
fn the_page_describes_every_verb_with_its_options() {
    let page = tp_words(&["man"], b"").text();
    assert!(page.contains(".TH TP 1 "), "{page}");
    for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "RECORDS", "ENVIRONMENT", "\"EXIT STATUS\""] {
        assert_eq!(page.matches(&format!(".SH {section}\n")).count(), 1, "{section}");
    }
    for verb in verbs().iter().filter(|verb| *verb != "help") {
        let is_there = page.contains(&format!(".SS \"tp {verb}\"\n")) || page.contains(&format!(".SS \"tp {verb} "));
        assert!(is_there, "{verb}");
    }
    assert!(page.contains("\\-\\-reverse") && page.contains("TP_ENV") && !page.contains("demo\\-worker"));
    assert_eq!(
        page.matches("Longest wait for each lock").count(),
        1,
        "the options that most verbs have are described once"
    );
    assert_eq!(page.matches(".ie ").count(), 1);
    if let Some(text) = with_program("mandoc", &["-T", "utf8", "-W", "error"], &page) {
        assert!(text.contains("The reader closed standard output."), "{text}");
    }
}
