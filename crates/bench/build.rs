//! Finds out which commit is built, for the results to name: `COLIBRI_COMMIT`, as set by who builds, or as git says.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=COLIBRI_COMMIT");
    if std::env::var_os("COLIBRI_COMMIT").is_some() {
        return;
    }
    // What makes the answer another one: a commit or checkout, or a change to what is built.
    for path in ["../../.git/logs/HEAD", "../../Cargo.toml", "../../Cargo.lock", ".."] {
        println!("cargo:rerun-if-changed={path}");
    }
    if let Some(commit) = commit() {
        println!("cargo:rustc-env=COLIBRI_COMMIT={commit}");
    }
}

/// The commit checked out, with `-dirty` if what is built differs from it; nothing outside a work tree of git.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--", "..", "../../Cargo.toml", "../../Cargo.lock"])?.is_empty();
    Some(if clean { commit } else { format!("{commit}-dirty") })
}
