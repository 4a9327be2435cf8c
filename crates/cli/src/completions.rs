//! `colibri completions`: what a shell needs to complete this command's words.

use std::io::{self, Write};

use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{Bash, Fish, Zsh, generate};

use crate::failure::Result;

/// Write completions for a shell: of commands, flags and their values
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions\n  \
    colibri completions bash > ~/.local/share/bash-completion/completions/colibri\n  \
    colibri completions zsh > ~/.zfunc/_colibri        # with ~/.zfunc in $fpath before compinit\n  \
    colibri completions fish > ~/.config/fish/completions/colibri.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    // Written to memory first: the generator does not handle errors of writing.
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => generate(Bash, &mut command, "colibri", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "colibri", &mut script),
        Shell::Fish => generate(Fish, &mut command, "colibri", &mut script),
    }
    Ok(io::stdout().write_all(&script)?)
}
