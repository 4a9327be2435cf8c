//! `colibri doctor`, end to end. What it makes of machines other than this one is tested beside the
//! code.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn doctor(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_colibri")).arg("doctor").args(words).current_dir(dir).output().unwrap()
}

#[test]
fn every_finding_has_a_verdict_and_a_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let output = doctor(dir.path(), &["--json", "birds"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of = |subject: &str| findings.iter().find(|finding| finding["subject"] == subject).unwrap();
    for finding in findings {
        assert!(["ok", "note", "warning", "problem"].contains(&finding["verdict"].as_str().unwrap()), "{finding}");
        assert!(finding["meaning"].as_str().unwrap().ends_with('.'), "{finding}");
    }
    // A few dozen flushes, in order of their percentiles.
    let flush = &of("flush")["figures"];
    assert!((2..=64).contains(&flush["flushes"].as_u64().unwrap()), "{flush}");
    let us = |name: &str| flush[name].as_f64().unwrap();
    assert!(0.0 < us("p50_us") && us("p50_us") <= us("p90_us") && us("p90_us") <= us("max_us"), "{flush}");
    assert_eq!(of("kernel")["figures"]["architecture"], std::env::consts::ARCH);
    // The exit code is that of the worst.
    assert_eq!(output.status.code(), Some(i32::from(report["verdict"] == "problem")));
    assert_eq!(report["dir"], "birds");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "neither birds nor a scratch file is made");
}

#[test]
fn people_are_told_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let text = String::from_utf8(doctor(dir.path(), &[]).stdout).unwrap();
    for words in ["file system", "flush", "p50", "durable commits a second", "huge pages", "clock", "open files"] {
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 25 + 1 + 90 || !line.starts_with(' ')), "{text}");
}

#[test]
fn a_place_where_nothing_can_be_written_is_a_problem() {
    let output = doctor(Path::new("/"), &["/proc"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("colibri: /proc is no place for a database yet: 1 problem above"), "{errors}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("cannot write here"));
}

#[test]
fn a_file_is_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes"), "").unwrap();
    let output = doctor(dir.path(), &["notes"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "colibri: notes is not a directory, and a database is one: check the path\n"
    );
}
