//! `tp completions`: prints the script by which a shell completes the words of `tp`.

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::aot::{generate, Shell};
use serde_json::json;

use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::verb_groups::without_hidden;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// The shell that reads the script.
    #[arg(value_enum)]
    shell: ShellName,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    /// Save the script as ~/.local/share/bash-completion/completions/tp, or run: source <(tp completions bash).
    Bash,
    /// Save the script as a file _tp in a directory of $fpath, or run: source <(tp completions zsh).
    Zsh,
    /// Save the script as ~/.config/fish/completions/tp.fish, or run: tp completions fish | source.
    Fish,
}

/// Prints the script. Hidden verbs are not completed.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut without_hidden(&crate::CommandLine::command()), "tp", &mut script);
    if output.is_json() {
        output.object(&json!({ "shell": shell.to_string(), "script": String::from_utf8_lossy(&script) }))?;
    } else {
        output.bytes(&script)?;
    }
    Ok(Ending::Done)
}
