//! The command line as it is defined, and everything that is said about it: each example in a help
//! text and each command in a document has to be understood.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

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

/// Each command's help has an example of itself, and what is in it can be parsed. Answers how many
/// there are.
fn check_examples(command: &mut clap::Command, name: &str) -> usize {
    let help = command.render_long_help().to_string();
    let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{name} has no example: {help}"));
    let examples = commands(examples);
    assert!(examples.iter().any(|words| words.join(" ").starts_with(name)), "{name} has no example of itself: {help}");
    examples.iter().for_each(|words| check_understood(words, name));
    let below = command.get_subcommands_mut().filter(|below| below.get_name() != "help");
    let below: usize = below.map(|below| check_examples(below, &format!("{name} {}", below.get_name()))).sum();
    examples.len() + below
}

fn check_understood(words: &[String], place: &str) {
    if let Err(error) = CommandLine::try_parse_from(words) {
        let is_help =
            matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
        assert!(is_help, "{place}: {}: {error}", words.join(" "));
    }
}

#[test]
fn commands_in_the_documents_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for dir in ["", "docs", "docs/design", "packaging"] {
        for entry in fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // Blocks of a shell's commands, which begin with ```sh.
            for block in text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n")) {
                for words in commands(block) {
                    check_understood(&words, &path.display().to_string());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 30, "{found} commands: they are not found any more");
}

/// The words of each `colibri …`, or `cargo run … -- …`, in a shell's text. A line that ends with a
/// backslash goes on.
fn commands(text: &str) -> Vec<Vec<String>> {
    text.replace("\\\n", " ").lines().flat_map(commands_of_line).filter_map(command_line).collect()
}

/// What a shell would start with these words, if it is this command.
fn command_line(words: Vec<String>) -> Option<Vec<String>> {
    match words.first()?.as_str() {
        "colibri" => Some(words),
        "cargo" if words[1] == "run" && !words.iter().any(|word| word == "--example") => {
            let arguments = words.iter().skip_while(|word| *word != "--").skip(1).cloned();
            Some(std::iter::once("colibri".to_owned()).chain(arguments).collect())
        }
        _ => None,
    }
}

/// The words of each command of a line, as a shell takes them apart.
fn commands_of_line(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = None::<String>;
    let mut quote = None;
    for c in line.chars().chain([' ']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => match word.take().as_deref() {
                None => {}
                // Words after the sign of a comment or of a file are no arguments.
                Some("|" | "&&" | ">" | ">>" | "<" | "#" | "&") => commands.push(Vec::new()),
                Some(word) => commands.last_mut().expect("there is one").push(word.to_owned()),
            },
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

#[test]
fn words_are_taken_apart_as_a_shell_does() {
    let words =
        commands("a -x | colibri sql d -c 'SELECT 1' && b\ncargo run --release -- bench kv \\\n  --n 5 # short\n");
    assert_eq!(words, [vec!["colibri", "sql", "d", "-c", "SELECT 1"], vec!["colibri", "bench", "kv", "--n", "5"]]);
}
