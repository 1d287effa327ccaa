//! The verbs in groups, as `tp --help` and tp(1) list them.
//!
//! Each visible verb is in exactly one group.

use clap::builder::StyledStr;
use clap::Command;

/// A group: its heading and its verbs, in the order of the help.
pub struct VerbGroup {
    /// The heading.
    pub heading: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

/// All groups, in the order of the help.
pub const GROUPS: &[VerbGroup] = &[
    VerbGroup { heading: "Records", verbs: &["get", "put", "del", "scan", "shell", "sql"] },
    VerbGroup { heading: "Databases", verbs: &["list", "load", "dump", "rename", "empty", "drop", "compact"] },
    VerbGroup { heading: "Watch", verbs: &["top", "stat", "sessions", "locks", "txns", "snapshots"] },
    VerbGroup { heading: "Log and backup", verbs: &["printlog", "checkpoint", "archive", "backup", "restore"] },
    VerbGroup {
        heading: "Repair",
        verbs: &["recover", "verify", "salvage", "vista", "files", "abort", "deadlock", "upgrade"],
    },
    VerbGroup { heading: "Measure", verbs: &["demo", "bench"] },
    VerbGroup { heading: "Help", verbs: &[HELP, "completions"] },
];

/// The verb that clap adds.
const HELP: &str = "help";

/// Returns the one-line description of a verb.
pub fn about(command: &Command, verb: &str) -> String {
    let found = command.find_subcommand(verb).and_then(Command::get_about);
    match found {
        Some(about) => about.to_string(),
        None => "Print the help of a verb".into(),
    }
}

/// Returns the command with a help that lists the verbs in groups.
pub fn with_groups(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

/// Returns the command without its hidden verbs, for the manual page and the shells.
pub fn without_hidden(command: &Command) -> Command {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let visible = Command::new("tp").args(command.get_arguments().cloned()).subcommands(verbs);
    visible.version(env!("CARGO_PKG_VERSION")).about(command.get_about().cloned().unwrap_or_default())
}

/// Returns the template of the help. Clap removes the colours if standard output is no terminal.
fn template(command: &Command) -> StyledStr {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = GROUPS.iter().flat_map(|group| group.verbs).map(|verb| verb.len()).max().unwrap_or(0);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for group in GROUPS {
        text.push_str(&format!("\n{header}{}:{header:#}\n", group.heading));
        for verb in group.verbs {
            text.push_str(&format!("  {literal}{verb:width$}{literal:#}  {}\n", about(command, verb)));
        }
    }
    text.push_str(&format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}"));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_visible_verb_is_in_exactly_one_group() {
        let mut command = crate::CommandLine::command();
        command.build();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let mut visible: Vec<&str> = visible.collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.verbs).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }
}
