//! The `colibri` command: reads the command line, runs one command, turns its outcome into an exit code.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | failed, or `check` found problems, or `bench` results are not valid; one line on standard error says why |
//! | 2 | the command line is wrong |
//! | 3 | a statement of a script that `sql` ran failed, which was said where it did |
//! | 130, 143 | `bench` was ended by SIGINT or SIGTERM; its databases are removed |
//!
//! Invariants
//! - One command, one file, named after it.
//! - Results go to standard output, everything else to standard error.
//! - A reader that has seen enough (`colibri dump DIR | head`) ends the command quietly.
//!
//! Not here: anything a program could not do with the `colibri` library.

mod backup;
mod bench;
mod check;
mod columns;
mod copy;
mod database;
mod dump;
mod dump_sql;
mod failure;
mod load;
mod new_file;
mod number;
mod readers;
mod restore;
mod serve;
mod sql;
mod stat;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A transactional database that costs nothing while idle.
#[derive(Debug, Parser)]
#[command(name = "colibri", version, arg_required_else_help = true)]
#[command(
    after_help = "A database is a directory. Example:\n  mdb_dump -a lmdb-dir | colibri load birds && colibri check birds"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::BenchArgs),
    Check(check::CheckArgs),
    Stat(stat::StatArgs),
    Readers(readers::ReadersArgs),
    Copy(copy::CopyArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Dump(dump::DumpArgs),
    Load(load::LoadArgs),
    Sql(sql::SqlArgs),
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Readers(args) => readers::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Serve(args) => serve::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(Failure::Told { code }) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("colibri: {failure}");
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in CommandLine::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{help}");
        }
    }
}
