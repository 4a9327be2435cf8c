//! What was measured where: the commit, the processor, the kernel, the file system.
//!
//! Invariants
//! - What cannot be found out is `"unknown"`; a benchmark never fails for it.
//!
//! Not here: the load of the machine and its clock speed, which nothing here could vouch for.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

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
    /// Looks around; `dir` is where databases are made.
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
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    file_system_of(&mounts, &path)
}

/// The type of the mount whose point is the longest prefix of `path`; a later mount hides an earlier one.
fn file_system_of(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(point), Some(kind)) = (fields.nth(1), fields.next()) else {
            continue;
        };
        if path.starts_with(point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_is_the_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n";
        assert_eq!(file_system_of(mounts, Path::new("/tmp/disk/x")).as_deref(), Some("xfs"));
        assert_eq!(file_system_of(mounts, Path::new("/tmp/diskette")).as_deref(), Some("tmpfs"));
        assert_eq!(file_system_of(mounts, Path::new("/home")).as_deref(), Some("ext4"));
    }

    #[test]
    fn observing_never_fails() {
        let environment = Environment::observe(Path::new("no such directory"));
        assert!(environment.cores > 0);
        assert_eq!(environment.fs, "unknown");
    }
}
