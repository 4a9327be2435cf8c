//! What the command says about itself: version, completions, manual.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn colibri(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_colibri")).args(words).output().unwrap()
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// As `--version` tells it; nothing where this was built outside a work tree of git.
fn commit() -> Option<String> {
    let version = text(colibri(&["--version"]));
    let begin = concat!("colibri ", env!("CARGO_PKG_VERSION"));
    let rest = version.trim_end().strip_prefix(begin).unwrap();
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    assert!(rest.is_empty() || commit.is_some(), "{version:?}");
    commit.map(str::to_owned)
}

#[test]
fn the_version_names_the_commit_where_it_is_known() {
    let Some(commit) = commit() else { return };
    assert!(commit.trim_end_matches("-dirty").chars().all(|c| c.is_ascii_hexdigit()), "{commit:?}");
}

#[test]
fn results_name_the_same_commit() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.json");
    let words =
        ["bench", "kv", "--targets", "null", "--workloads", "set", "--n", "100", "--json", results.to_str().unwrap()];
    text(Command::new(env!("CARGO_BIN_EXE_colibri")).args(words).current_dir(dir.path()).output().unwrap());
    let rows: serde_json::Value = serde_json::from_str(&fs::read_to_string(&results).unwrap()).unwrap();
    assert_eq!(rows[0]["env"]["commit"], commit().as_deref().unwrap_or("unknown"), "{rows}");
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("colibri");
    fs::write(&script, text(colibri(&["completions", "bash"]))).unwrap();
    for (typed, expected) in [
        ("colibri doc", "doctor"),
        ("colibri bench tp", "tpcc tpch"),
        ("colibri serve --met", "--metrics"),
        ("colibri sql --format c", "csv"),
        ("colibri serve --auth s", "scram-sha-256"),
        ("colibri serve --log-format j", "json"),
    ] {
        let complete = format!(
            "source '{}'; COMP_WORDS=({typed}); COMP_CWORD=$(({} - 1)); \
             _colibri colibri \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            typed.split(' ').count()
        );
        let words = text(Command::new("bash").args(["--norc", "-c", &complete]).output().unwrap());
        assert_eq!(words.trim(), expected, "{typed}");
    }
}

#[test]
fn other_shells_are_given_every_command() {
    for (shell, begins) in [("zsh", "#compdef colibri"), ("fish", "# Print an optspec")] {
        let script = text(colibri(&["completions", shell]));
        assert!(script.starts_with(begins), "{shell}: {}", &script[..60]);
        for word in ["doctor", "serve", "tpcc", "idle-exit"] {
            assert!(script.contains(word), "{shell} is not told of {word}");
        }
    }
    assert_eq!(colibri(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn the_manual_has_a_page_for_each_command_with_its_example() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("share/man1");
    text(colibri(&["man", pages.to_str().unwrap()]));
    for name in ["colibri", "colibri-serve", "colibri-doctor", "colibri-bench", "colibri-bench-tpcc"] {
        let page = fs::read_to_string(pages.join(name).with_extension("1")).unwrap();
        assert!(page.contains(".TH "), "{name}");
        assert!(page.contains("Example"), "{name} has no example");
    }
    let output = colibri(&["man", "/proc/no/such"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot make /proc/no/such"));
}

#[test]
fn help_that_nobody_reads_to_the_end_is_no_error() {
    let colibri = Path::new(env!("CARGO_BIN_EXE_colibri")).display();
    let script = format!("set -o pipefail; '{colibri}' completions bash | head -1");
    assert!(Command::new("bash").args(["-c", &script]).output().unwrap().status.success());
}
