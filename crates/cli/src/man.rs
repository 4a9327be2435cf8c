//! `colibri man`: the manual, one page a command, made of what `--help` says.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};

use crate::failure::{Failure, Result};

/// Write the manual: a page for each command
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  colibri man /usr/local/share/man/man1\n  colibri man . && man ./colibri-serve.1")]
pub(crate) struct ManArgs {
    /// Directory to write the pages to; it is made if it is missing, and pages that are there are
    /// replaced
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs, command: Command) -> Result<()> {
    fs::create_dir_all(&args.dir).map_err(Failure::io("cannot make", &args.dir))?;
    clap_mangen::generate_to(command, &args.dir).map_err(Failure::io("cannot write to", &args.dir))?;
    writeln!(io::stdout(), "{}: a page for each command", args.dir.join("colibri.1").display())?;
    Ok(())
}
