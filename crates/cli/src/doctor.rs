//! `colibri doctor`: what this machine means for durability and speed.
//!
//! | file | holds |
//! | --- | --- |
//! | `system` | what the kernel tells in its files |
//! | `place` | where the database is: file system, device, room |
//! | `flush` | how long a flush takes there, by trying |
//! | `machine` | kernel, CPUs, memory, clock, limits |
//!
//! Invariants
//! - What cannot be found out is left out or said to be unknown; a verdict never rests on a guess.
//! - Nothing stays behind: the file that flushes are measured with has no name from the moment it
//!   is open.
//!
//! Not here: whether a database is sound. That is `check`.

mod flush;
mod machine;
mod place;
mod system;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::version;
use system::System;

/// Look at this machine: what it means for durability and speed
///
/// Looks at the kernel, the file system that DIR is on and how it is mounted, the limits of the
/// control group, and measures how long a flush takes (64 of them, a few seconds at the most). Each
/// line comes with what follows from it.
///
/// `problem`: acknowledged commits can be lost here, or Colibri does not work; the exit code is
/// then 1. `warning`: it costs much speed, or is safe only under a condition. `note`: worth
/// knowing.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  colibri doctor\n  colibri doctor /var/lib/colibri\n  colibri doctor --json birds > machine.json"
)]
pub(crate) struct DoctorArgs {
    /// Directory of a database, or where one is to be made
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ok,
    Note,
    Warning,
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing about the machine, and what follows from it.
#[derive(Debug)]
struct Finding {
    subject: &'static str,
    found: String,
    verdict: Verdict,
    meaning: String,
    /// The same as data; an object.
    figures: Value,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<()> {
    let place = existing(&args.dir)?;
    let findings = examine(&System::of_this_machine(), &place);
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", as_json(args, &place, &findings))?,
        false => print(args, &place, &findings, &mut out)?,
    }
    match findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count() as u64 {
        0 => Ok(()),
        problems => Err(Failure::Unfit { dir: args.dir.clone(), problems }),
    }
}

/// The directory, or that in which it would be made.
fn existing(dir: &Path) -> Result<PathBuf> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for dir in dir.ancestors() {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        match dir.canonicalize() {
            Ok(path) if path.is_dir() => return Ok(path),
            Ok(_) => return Err(Failure::NotADirectory { path: dir.to_owned() }),
            Err(error) if missing(&error) => {}
            Err(error) => return Err(Failure::io("cannot look into", dir)(error)),
        }
    }
    Err(Failure::io("cannot look into", dir)(io::ErrorKind::NotFound.into()))
}

/// What matters most comes first: what is acknowledged has to stay.
fn examine(system: &System, dir: &Path) -> Vec<Finding> {
    let mount = system.mount_of(dir);
    let in_memory = mount.as_ref().is_some_and(place::is_in_memory);
    let of_the_place = [
        mount.as_ref().map(place::file_system),
        mount.as_ref().and_then(|mount| place::device(system, mount)),
        Some(place::flush(flush::measure(dir), in_memory)),
        place::room(dir),
    ];
    of_the_place.into_iter().flatten().chain(machine::examine(system)).collect()
}

fn as_json(args: &DoctorArgs, place: &Path, findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "subject": finding.subject,
            "found": finding.found,
            "verdict": finding.verdict.word(),
            "meaning": finding.meaning,
            "figures": finding.figures,
        })
    };
    json!({
        "dir": args.dir.display().to_string(),
        "examined": place.display().to_string(),
        "version": *version::TEXT,
        "verdict": worst(findings).word(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn worst(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
}

/// Width of the texts, without what stands before them.
const TEXT_CHARS: usize = 90;

fn print(args: &DoctorArgs, place: &Path, findings: &[Finding], out: &mut impl Write) -> io::Result<()> {
    match fs::canonicalize(&args.dir) {
        Ok(_) => writeln!(out, "colibri {}, {}\n", *version::TEXT, place.display())?,
        Err(_) => writeln!(
            out,
            "colibri {}, {} (would be made in {})\n",
            *version::TEXT,
            args.dir.display(),
            place.display()
        )?,
    }
    for Finding { subject, found, verdict, meaning, .. } in findings {
        writeln!(out, "{:<8} {subject:<16} {found}", verdict.word())?;
        for line in wrapped(meaning, TEXT_CHARS) {
            writeln!(out, "{:25} {line}", "")?;
        }
    }
    Ok(())
}

/// Lines no longer than a limit in characters, unless a word is.
fn wrapped(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            *line += word;
        } else if line.chars().count() + 1 + word.chars().count() <= chars_max {
            *line += " ";
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("overlong a", 3), ["overlong", "a"]);
    }

    #[test]
    fn a_directory_that_is_missing_is_looked_for_above() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(existing(dir.path()).unwrap(), real);
        assert_eq!(existing(&dir.path().join("a/b/c")).unwrap(), real);
        assert_eq!(
            existing(Path::new("no-such-directory")).unwrap(),
            std::env::current_dir().unwrap().canonicalize().unwrap()
        );
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(existing(&dir.path().join("file")), Err(Failure::NotADirectory { .. })));
    }

    #[test]
    fn this_machine_can_be_examined_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let findings = examine(&System::of_this_machine(), &dir.path().canonicalize().unwrap());
        for subject in ["file system", "flush", "room", "kernel", "CPU", "memory", "open files"] {
            assert!(findings.iter().any(|finding| finding.subject == subject), "{subject} is missing");
        }
        assert!(findings.iter().all(|finding| finding.figures.is_object() && !finding.meaning.is_empty()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
