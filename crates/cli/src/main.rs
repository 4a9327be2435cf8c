//! The `colibri` command: reads the command line, runs one command, turns its outcome into an exit
//! code.
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

mod allocator;
mod backup;
mod bench;
mod bench_cluster;
mod branch;
mod check;
mod cluster;
mod columns;
mod compact;
mod completions;
mod copy;
mod database;
mod diff;
mod doctor;
mod dump;
mod dump_sql;
mod failure;
mod key;
mod load;
mod man;
mod new_file;
mod number;
mod readers;
mod rekey;
mod restore;
mod serve;
mod sql;
mod stat;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// A transactional database that costs nothing while idle.
#[derive(Debug, Parser)]
#[command(name = "colibri", version = version::TEXT.as_str(), arg_required_else_help = true)]
#[command(
    after_help = "A database is a directory, and so is what a server serves. Examples:\n  colibri sql birds\n  colibri serve nest\n  \
                  colibri bench tpcc\n  colibri doctor\n  mdb_dump -a lmdb-dir | colibri load birds && colibri check birds"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sql(sql::SqlArgs),
    Serve(serve::ServeArgs),
    Cluster(cluster::ClusterArgs),
    Bench(bench::BenchArgs),
    Doctor(doctor::DoctorArgs),
    Check(check::CheckArgs),
    Stat(stat::StatArgs),
    Readers(readers::ReadersArgs),
    Branch(branch::BranchArgs),
    Diff(diff::DiffArgs),
    Compact(compact::CompactArgs),
    Copy(copy::CopyArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Rekey(rekey::RekeyArgs),
    Dump(dump::DumpArgs),
    Load(load::LoadArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    let command = match CommandLine::try_parse() {
        Ok(line) => line.command,
        Err(answer) => return ExitCode::from(print(&answer)),
    };
    let outcome = match command {
        Command::Bench(args) => bench::run(args),
        Command::Check(args) => check::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Readers(args) => readers::run(&args),
        Command::Branch(args) => branch::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Rekey(args) => rekey::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args, CommandLine::command()),
        Command::Man(args) => man::run(&args, CommandLine::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(Failure::Told { code }) => ExitCode::from(code),
        Err(failure) => {
            // If standard error is closed, the exit code reports the failure.
            _ = writeln!(io::stderr(), "colibri: {failure}");
            failure.exit_code()
        }
    }
}

/// Prints help, the version, or what is wrong with the command line; gives the exit code.
fn print(answer: &clap::Error) -> u8 {
    match answer.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            _ = writeln!(io::stderr(), "colibri: {}", Failure::Output(error));
            1
        }
        _ => answer.exit_code() as u8,
    }
}

#[cfg(test)]
mod tests;
