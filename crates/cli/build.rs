//! Finds out which commit is built, for `--version` and for results to name: `COLIBRI_COMMIT`, as
//! set by who builds, or as git says. Here and in no crate below, so that a commit builds again no
//! more than the command itself.

use std::path::Path;
use std::process::Command;

/// Where this package is in its repository. Sources that somebody has put into another one are not
/// what that one's commit names.
const PLACE: &str = "crates/cli/";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=COLIBRI_COMMIT");
    let is_told = std::env::var_os("COLIBRI_COMMIT").is_some_and(|commit| !commit.is_empty());
    if is_told || git(&["rev-parse", "--show-prefix"]).as_deref() != Some(PLACE) {
        return;
    }
    // A commit or a checkout, wherever git keeps what it knows of this work tree; with or without a
    // log of it.
    for name in ["HEAD", "logs/HEAD"] {
        watch(git(&["rev-parse", "--git-path", name]));
    }
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"]) {
        watch(git(&["rev-parse", "--git-path", &branch]));
    }
    // Whether the sources differ from it.
    for path in ["..", "../../Cargo.toml", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
    if let Some(commit) = commit() {
        println!("cargo:rustc-env=COLIBRI_COMMIT={commit}");
    }
}

/// What does not exist is left out: cargo takes it for changed each time.
fn watch(path: Option<String>) {
    if let Some(path) = path.filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
}

/// The commit checked out, with `-dirty` if what is built differs from it.
fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--", "..", "../../Cargo.toml", "../../Cargo.lock"])?.is_empty();
    Some(if clean { commit } else { format!("{commit}-dirty") })
}

/// What git prints; nothing if it fails or is not there, as in sources from an archive.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
