//! What the kernel tells in its files, below a root that tests can put elsewhere.
//!
//! Both versions of control groups are read, since machines still have either, or both. A group's
//! limit is the lowest of its own and of those above it, as far as they can be seen from here: from
//! inside a container they cannot.

use std::fs;
use std::path::{Path, PathBuf};

use colibri_bench::measure::mounts::{self, Mount};

/// Where version 1 has no limit, it says this or more.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The kernel's files.
#[derive(Debug)]
pub(super) struct System {
    root: PathBuf,
}

impl System {
    pub(super) fn of_this_machine() -> Self {
        Self { root: PathBuf::from("/") }
    }

    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// A file's text without white space around it.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The word in brackets among those that could be chosen: `always [madvise] never`.
    pub(super) fn chosen(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
        Some(word.to_owned())
    }

    /// Bytes of a line of `/proc/meminfo`.
    pub(super) fn meminfo_bytes(&self, name: &str) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes << 10)
    }

    /// A limit of this process: what holds now, and what it may ask for. The inner `None` is no
    /// limit.
    pub(super) fn limit(&self, name: &str) -> Option<(Option<u64>, Option<u64>)> {
        let text = self.text("proc/self/limits")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut fields = line.split_whitespace();
        let mut value = || match fields.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some((value()?, value()?))
    }

    /// The file system that a path without symbolic links is on.
    pub(super) fn mount_of(&self, path: &Path) -> Option<Mount> {
        mounts::mount_of(&self.text("proc/self/mountinfo")?, path)
    }

    /// The lowest memory limit of this process's control groups, in bytes.
    pub(super) fn group_memory_bytes(&self) -> Option<u64> {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        let limits = self.group_dirs("memory").into_iter().flat_map(|dir| files.map(|file| dir.join(file)));
        limits.filter_map(|file| self.number(file)).filter(|&bytes| bytes < NO_LIMIT_BYTES).min()
    }

    /// The lowest CPU quota of this process's control groups, in CPUs, and the period over which it
    /// is counted, in microseconds.
    pub(super) fn group_cpus(&self) -> Option<(f64, u64)> {
        let quotas = self.group_dirs("cpu").into_iter().filter_map(|dir| self.quota(&dir));
        quotas
            .map(|(quota_us, period_us)| (quota_us as f64 / period_us as f64, period_us))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Quota and period in microseconds: `max 100000` in version 2, two files in version 1.
    fn quota(&self, dir: &Path) -> Option<(u64, u64)> {
        let pair = self.text(dir.join("cpu.max"));
        let (quota, period) = match pair.as_deref().and_then(|pair| pair.split_once(' ')) {
            Some((quota, period)) => (quota.parse().ok(), period.parse().ok()),
            None => (self.number(dir.join("cpu.cfs_quota_us")), self.number(dir.join("cpu.cfs_period_us"))),
        };
        Some((quota?, period.filter(|&period| period > 0)?))
    }

    /// The directories of this process's control group and of those above it, in both versions.
    fn group_dirs(&self, controller: &str) -> Vec<PathBuf> {
        let groups = self.text("proc/self/cgroup").unwrap_or_default();
        let mut dirs = Vec::new();
        // hierarchy:controllers:/path
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let base = Path::new("sys/fs/cgroup");
            let base = match controllers {
                "" => base.to_owned(),
                controllers if controllers.split(',').any(|name| name == controller) => base.join(controllers),
                _ => continue,
            };
            let path = Path::new(path.trim_start_matches('/'));
            dirs.extend(path.ancestors().map(|part| base.join(part)));
        }
        dirs
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A machine with these files.
    pub(in crate::doctor) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::below(root.path());
        (root, system)
    }

    #[test]
    fn a_group_has_the_lowest_limit_of_those_it_is_in() {
        let (_root, system) = machine(&[
            ("proc/self/cgroup", "0::/system.slice/colibri.service\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "536870912\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/system.slice/colibri.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/colibri.service/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(system.group_memory_bytes(), Some(512 << 20));
        assert_eq!(system.group_cpus(), Some((0.5, 100_000)));
    }

    #[test]
    fn groups_of_version_1_are_read_as_well() {
        let (_root, system) = machine(&[
            ("proc/self/cgroup", "4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1073741824"),
            ("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "150000"),
            ("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(system.group_memory_bytes(), Some(1 << 30));
        assert_eq!(system.group_cpus(), Some((1.5, 100_000)));
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let (_root, system) = machine(&[]);
        assert_eq!(system.mount_of(Path::new("/")), None);
        assert_eq!((system.group_memory_bytes(), system.group_cpus()), (None, None));
        assert_eq!((system.limit("Max open files"), system.meminfo_bytes("MemTotal")), (None, None));
    }

    #[test]
    fn limits_and_choices_are_read() {
        let (_root, system) = machine(&[
            (
                "proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            1024                 unlimited            files     \n",
            ),
            ("proc/meminfo", "MemTotal:       2048 kB\nMemAvailable:   1024 kB\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        assert_eq!(system.limit("Max open files"), Some((Some(1024), None)));
        assert_eq!(system.meminfo_bytes("MemTotal"), Some(2 << 20));
        assert_eq!(system.chosen("sys/kernel/mm/transparent_hugepage/enabled").as_deref(), Some("madvise"));
    }
}
