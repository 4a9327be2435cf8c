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
mod completions;
mod copy;
mod database;
mod doctor;
mod dump;
mod dump_sql;
mod failure;
mod load;
mod man;
mod new_file;
mod number;
mod readers;
mod restore;
mod serve;
mod sql;
mod stat;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// A transactional database that costs nothing while idle.
#[derive(Debug, Parser)]
#[command(name = "colibri", version = version::TEXT.as_str(), arg_required_else_help = true)]
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
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
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
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args, CommandLine::command()),
        Command::Man(args) => man::run(&args, CommandLine::command()),
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
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_that_it_would_understand() {
        let mut command = CommandLine::command();
        command.build();
        let examples = check_examples(&mut command, "colibri");
        assert!(examples > 40, "{examples} examples: they are not found any more");
    }

    /// Each command's help has an example of itself, and what is in it can be parsed. Answers how many there are.
    fn check_examples(command: &mut clap::Command, name: &str) -> usize {
        let help = command.render_long_help().to_string();
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{name} has none: {help}"));
        let examples: Vec<_> = examples.replace("\\\n", " ").lines().flat_map(commands_of).collect();
        assert!(examples.iter().any(|words| words.join(" ").starts_with(name)), "{name} has none of itself: {help}");
        for words in &examples {
            let parsed = CommandLine::try_parse_from(words);
            assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.err().map(|e| e.to_string()).unwrap_or_default());
        }
        let below = command.get_subcommands_mut().filter(|below| below.get_name() != "help");
        let below: usize = below.map(|below| check_examples(below, &format!("{name} {}", below.get_name()))).sum();
        examples.len() + below
    }

    /// The words of each `colibri …` of a line of a shell.
    fn commands_of(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![Vec::new()];
        let mut word = None::<String>;
        let mut quoted = false;
        for c in line.chars().chain([' ']) {
            match c {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                c if quoted => word.get_or_insert_default().push(c),
                ' ' => {
                    let Some(word) = word.take() else { continue };
                    match word.as_str() {
                        "|" | "&&" | ">" | "#" => commands.push(Vec::new()),
                        _ => commands.last_mut().expect("there is one").push(word),
                    }
                }
                c => word.get_or_insert_default().push(c),
            }
        }
        commands.into_iter().filter(|words| words.first().is_some_and(|word| word == "colibri")).collect()
    }
}
