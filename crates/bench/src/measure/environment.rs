//! The environment of a result: the commit, the processor, the kernel, the file system.
//!
//! Invariants
//! - What cannot be found out is `"unknown"`; a benchmark never fails for it.
//!
//! Not here: the load of the machine and its clock speed, which cannot be verified here.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::mounts::mount_of;

/// The machine and the build behind a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// The commit that was built, as the program has named it ([`crate::name_commit`]).
    pub(crate) commit: String,
    /// The processor's name.
    pub(crate) cpu: String,
    /// Hardware threads that this process may use.
    pub(crate) cores: usize,
    /// The operating system's name and release.
    pub(crate) kernel: String,
    /// The file system that the databases are on.
    pub(crate) fs: String,
}

impl Environment {
    /// Reads the environment; `dir` is where databases are made.
    pub(crate) fn observe(dir: &Path) -> Self {
        let uname = rustix::system::uname();
        Self {
            commit: crate::COMMIT.get().map_or_else(unknown, |&commit| commit.to_owned()),
            cpu: cpu().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            fs: file_system(dir).unwrap_or_else(unknown),
        }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn file_system(dir: &Path) -> Option<String> {
    let path = dir.canonicalize().ok()?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some(mount_of(&mountinfo, &path)?.kind)
}

/// Why no number of this run should be published.
pub(crate) fn doubts(environment: &Environment) -> impl Iterator<Item = &'static str> {
    let on_tmpfs = (environment.fs == "tmpfs").then_some("on tmpfs a sync costs nothing");
    let debug = cfg!(debug_assertions).then_some("debug build: not for publication");
    on_tmpfs.into_iter().chain(debug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observing_never_fails() {
        let environment = Environment::observe(Path::new("no such directory"));
        assert!(environment.cores > 0);
        assert_eq!(environment.fs, "unknown");
    }
}
