//! `tp man`: prints the manual page tp(1), all verbs on one page.
//!
//! The page is made from the definition of the command line, so the help and the page have the same texts. The options
//! that most verbs have appear on the page only once.

use std::io::Write;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;
use serde_json::json;

use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::verb_groups::{without_hidden, GROUPS};

/// A verb whose options `--env` and `--wait` are the same as those of most verbs.
const MODEL: &str = "get";

/// Options that most verbs have.
const SHARED: [&str; 2] = ["env", "wait"];

/// Prints the page as roff, for `man`.
pub fn run(output: &mut Output) -> Result<Ending> {
    let page = page().map_err(Failure::doing("make the manual page"))?;
    if output.is_json() {
        output.object(&json!({ "page": page }))?;
    } else {
        output.bytes(page.as_bytes())?;
    }
    Ok(Ending::Done)
}

fn page() -> std::io::Result<String> {
    let command = without_hidden(&crate::CommandLine::command());
    let shared: Vec<Arg> = command.find_subcommand(MODEL).map_or_else(Vec::new, |verb| {
        verb.get_arguments().filter(|arg| SHARED.contains(&arg.get_id().as_str())).cloned().collect()
    });
    let whole = Man::new(command.clone().disable_help_subcommand(true).args(shared.clone()));
    let mut page = Vec::new();
    // The empty argument is the date: without a date, one definition always makes the same page. The renderer would
    // drop an empty argument, so this line is written directly.
    writeln!(page, ".TH TP 1 \"\" \"tp {}\" \"libtp\"", env!("CARGO_PKG_VERSION"))?;
    whole.render_name_section(&mut page)?;
    let mut texts = Roff::default();
    texts.control("SH", ["SYNOPSIS"]).text([bold("tp "), roman("VERB [OPTIONS] [ARGUMENTS]")]);
    section(&mut texts, "DESCRIPTION", DESCRIPTION);
    texts.to_writer(&mut page)?;
    whole.render_options_section(&mut page)?;
    for group in GROUPS {
        Roff::default().control("SH", [group.heading.to_uppercase().as_str()]).to_writer(&mut page)?;
        for verb in group.verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            describe(verb, "tp", &shared, &mut page)?;
        }
    }
    let mut texts = Roff::default();
    section(&mut texts, "ENVIRONMENT", ENVIRONMENT);
    section(&mut texts, "EXIT STATUS", EXIT_STATUS);
    texts.to_writer(&mut page)?;
    whole.render_version_section(&mut page)?;
    Ok(with_one_preamble(&String::from_utf8_lossy(&page)))
}

/// Removes the preamble with which each rendered part begins, except the first. Removes spaces at the ends of lines.
fn with_one_preamble(page: &str) -> String {
    let is_definition = |line: &&str| line.starts_with(".ie ") || line.starts_with(".el ");
    let first = page.lines().filter(is_definition).take(2);
    let rest = page.lines().filter(|line| !is_definition(line));
    first.chain(rest).map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Describes a verb, or each of its subordinate verbs.
fn describe(verb: &Command, before: &str, shared: &[Arg], page: &mut Vec<u8>) -> std::io::Result<()> {
    let name = format!("{before} {}", verb.get_name());
    if verb.has_subcommands() {
        return verb.get_subcommands().try_for_each(|inner| describe(inner, &name, shared, page));
    }
    let is_shared = |arg: &Arg| shared.iter().any(|one| one.get_id() == arg.get_id() && same_help(one, arg));
    let verb = verb.clone().mut_args(|arg| if is_shared(&arg) { arg.hide(true) } else { arg });
    let man = Man::new(verb.bin_name(&name).disable_help_flag(true));
    Roff::default().control("SS", [name.as_str()]).to_writer(page)?;
    append_body(page, |out| man.render_description_section(out))?;
    Roff::default().control("PP", []).to_writer(page)?;
    append_body(page, |out| man.render_synopsis_section(out))?;
    append_body(page, |out| man.render_options_section(out))
}

fn same_help(one: &Arg, other: &Arg) -> bool {
    one.get_help().map(ToString::to_string) == other.get_help().map(ToString::to_string)
}

/// Appends a rendered section without its heading.
fn append_body(page: &mut Vec<u8>, render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut section = Vec::new();
    render(&mut section)?;
    let text = String::from_utf8_lossy(&section);
    let body = text.split_once(".SH ").and_then(|(_, rest)| rest.split_once('\n')).map_or("", |(_, body)| body);
    page.extend_from_slice(body.as_bytes());
    Ok(())
}

/// Adds a section of paragraphs.
fn section(texts: &mut Roff, heading: &str, paragraphs: &[(&str, &str)]) {
    texts.control("SH", [heading]);
    for (number, (term, text)) in paragraphs.iter().enumerate() {
        if !term.is_empty() {
            texts.control("TP", []).text([bold(*term)]);
        } else if number > 0 {
            texts.control("PP", []);
        }
        texts.text([roman(*text)]);
    }
}

const DESCRIPTION: &[(&str, &str)] = &[
    (
        "",
        "An environment is a directory with databases, a log and a control file. Any number of processes share it. Each \
         verb that works in an environment has the options --env and --wait.",
    ),
    ("", "A reader that closes the pipe, as in `tp scan NAME | head`, ends the command without a message."),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "TP_ENV",
        "The environment's directory if --env is not given. If neither is given, a verb uses the current directory, \
         but only if that is an environment already.",
    ),
    ("NO_COLOR", "If this variable is set, help and errors have no colours."),
];

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "The command is done."),
    ("1", "The command failed, a record is missing, or an audit disagrees."),
    ("2", "The command line is wrong, or no environment is named."),
    ("141", "The reader closed standard output."),
];
