//! A limit on the memory of processes, by a control group of the kernel: for data larger than memory.
//!
//! Everything that the members touch for the first time counts, pages of files among it. So a limit
//! is set before data are loaded; files that were read before are put out of memory
//! ([`forget_files`]), or they would be there for free. The memory that a process has when it is taken
//! in counts with version 1 only: a server should be started anew. Members swap nothing.
//!
//! | version of control groups | where the group is | what limits it |
//! | --- | --- | --- |
//! | 1 | below this process's own | `memory.limit_in_bytes` |
//! | 2 | beside this process's own, or below it if that is the first of all | `memory.max` |
//!
//! Invariants
//! - A group that was made is removed, and its members go back to where they were. After a signal an
//!   empty group stays, which the next run removes.
//! - Nothing runs without the limit that was asked for: what the system refuses is an error.
//!
//! Not here: finding the processes of a server, which is told by its number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::measure::process_tree::Machine;
use crate::measure::{Error, Result};

/// Less than this is not enough for the program itself.
const LIMIT_MIN: u64 = 16 << 20;
/// What the names of groups begin with, before the number of the process.
const PREFIX: &str = "colibri-bench-";
/// How often the removal of a group is tried: members that have ended leave it a little later.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// A size with its unit: 512M, 1.5G, or bytes.
pub(crate) fn size(text: &str) -> std::result::Result<u64, String> {
    let bad = || "give a size with a unit (K, M, G), such as 512M".to_owned();
    let split = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: f64 = match unit {
        "" => 1.0,
        "K" | "KiB" | "k" => 1024.0,
        "M" | "MiB" | "m" => 1024.0 * 1024.0,
        "G" | "GiB" | "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(bad()),
    };
    let bytes = number.parse::<f64>().map_err(|_| bad())? * unit;
    if !(bytes >= LIMIT_MIN as f64 && bytes <= 2_f64.powi(60)) {
        return Err(format!("the least is {}M", LIMIT_MIN >> 20));
    }
    Ok(bytes as u64)
}

/// Where groups are made, and how they are limited.
#[derive(Debug, PartialEq)]
struct Place {
    /// The directory in which a group is made.
    parent: PathBuf,
    is_second: bool,
}

impl Place {
    /// Of this process, by the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn find(mountinfo: &str, groups: &str) -> Option<Self> {
        let mounts = mountinfo.lines().filter_map(|line| {
            let (mount, system) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(3);
            let (root, point) = (mount.next()?, mount.next()?);
            let mut system = system.split(' ');
            Some((root, point, system.next()?, system.nth(1).unwrap_or_default()))
        });
        let own = |controller: Option<&str>| {
            groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                let is_it = match controller {
                    Some(controller) => controllers.split(',').any(|known| known == controller),
                    None => controllers.is_empty(),
                };
                is_it.then_some(path)
            })
        };
        // What is mounted may be a part of the hierarchy, as in containers.
        let below = |root: &str, point: &str, path: &str| {
            let inner = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
            if inner.is_empty() { PathBuf::from(point) } else { Path::new(point).join(inner) }
        };
        let mut second = None;
        for (root, point, kind, options) in mounts {
            if kind == "cgroup" && options.split(',').any(|option| option == "memory") {
                return own(Some("memory")).map(|path| Self { parent: below(root, point, path), is_second: false });
            }
            if kind == "cgroup2"
                && let Some(path) = own(None)
            {
                let own = below(root, point, path);
                // A group with members has no groups below it that share memory, but for the first.
                let parent = if own == Path::new(point) { own } else { own.parent()?.to_owned() };
                second = Some(Self { parent, is_second: true });
            }
        }
        second
    }
}

/// A control group with a limit of memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    dir: PathBuf,
    /// Members, and the file that takes them back.
    members: Vec<(u32, PathBuf)>,
}

impl MemoryLimit {
    /// Makes a group with this limit, without members.
    ///
    /// # Errors
    /// [`Error::Usage`] if the kernel has no such groups or does not let this process make one.
    fn new(bytes: u64) -> Result<Self> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let place = Place::find(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup")).ok_or_else(|| {
            Error::usage("--memory-limit needs control groups with a controller of memory: none is mounted")
        })?;
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = place.parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let refused = |what: &str, error: &io::Error| {
            Error::usage(format!(
                "--memory-limit: {what} {} is refused ({error}): it takes the rights of root, or a group of one's own (systemd-run --scope -p Delegate=yes)",
                dir.display()
            ))
        };
        if place.is_second {
            // It may be so already, or not be allowed, which shows below.
            let _told_below = fs::write(place.parent.join("cgroup.subtree_control"), "+memory");
        }
        remove_left_over(&place.parent);
        fs::create_dir(&dir).map_err(|e| refused("making", &e))?;
        let group = Self { dir: dir.clone(), members: Vec::new() };
        let limit = bytes.to_string();
        let (file, swap, swapped) = match place.is_second {
            true => ("memory.max", "memory.swap.max", "0"),
            false => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", &*limit),
        };
        fs::write(dir.join(file), &limit).map_err(|e| refused("setting the limit of", &e))?;
        if !place.is_second {
            // What a process has when it is taken in comes with it. Version 2 has no such thing.
            let _older_kernels = fs::write(dir.join("memory.move_charge_at_immigrate"), "3");
        }
        // Not there where the kernel does not count what is swapped.
        let _no_account_of_swap = fs::write(dir.join(swap), swapped);
        Ok(group)
    }

    /// A group with this process as its member, if there is to be a limit.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn of_self(bytes: Option<u64>) -> Result<Option<Self>> {
        Self::of(std::process::id(), bytes)
    }

    /// A group with this process and its descendants as its members, if there is to be a limit.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn of(pid: u32, bytes: Option<u64>) -> Result<Option<Self>> {
        let Some(bytes) = bytes else { return Ok(None) };
        let mut group = Self::new(bytes)?;
        group.take_in(pid)?;
        Ok(Some(group))
    }

    /// Takes a process in, with its descendants; those that it will have are members as well.
    ///
    /// # Errors
    /// [`Error::Usage`] if the kernel refuses.
    fn take_in(&mut self, pid: u32) -> Result<()> {
        let machine = Machine::look().map_err(|e| Error::io("cannot read", Path::new("/proc"), e))?;
        for member in machine.tree(&[pid], None) {
            let before = fs::read_to_string(format!("/proc/{member}/cgroup")).unwrap_or_default();
            let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let before = own_group(&mountinfo, &before);
            match fs::write(self.dir.join("cgroup.procs"), member.to_string()) {
                Ok(()) => self.members.extend(before.map(|before| (member, before.join("cgroup.procs")))),
                // It has ended since.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => {
                    return Err(Error::usage(format!("--memory-limit: process {member} cannot be limited: {e}")));
                }
            }
        }
        Ok(())
    }
}

/// Removes the groups of runs that were ended by a signal: they have no members any more.
fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _not_empty = fs::remove_dir(entry.path());
        }
    }
}

/// The directory of a process's group of memory.
fn own_group(mountinfo: &str, groups: &str) -> Option<PathBuf> {
    let place = Place::find(mountinfo, groups)?;
    if !place.is_second {
        return Some(place.parent);
    }
    let name = groups.lines().find_map(|line| line.strip_prefix("0::"))?.rsplit('/').next()?;
    Some(if name.is_empty() { place.parent } else { place.parent.join(name) })
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        for (pid, before) in &self.members {
            let _it_may_have_ended = fs::write(before, pid.to_string());
        }
        // Children that came meanwhile go where their parent was.
        if let (Some((_, before)), Ok(left)) = (self.members.first(), fs::read_to_string(self.dir.join("cgroup.procs")))
        {
            for pid in left.lines() {
                let _it_may_have_ended = fs::write(before, pid);
            }
        }
        // The kernel forgets the pages of files that the group has read. The next run reads them from the disk.
        for (file, amount) in [("memory.force_empty", "0"), ("memory.reclaim", "1T")] {
            let _one_of_them_exists = fs::write(self.dir.join(file), amount);
        }
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
        crate::measure::output::tell!("{} could not be removed", self.dir.display());
    }
}

/// Flushes all files below a directory, and has the kernel forget their pages. The next reader gets
/// them from the disk. Pages that another process has mapped may stay in memory.
///
/// # Errors
/// If a file cannot be read or flushed.
pub(crate) fn forget_files(dir: &Path) -> Result<()> {
    let failed = |path: &Path, e: io::Error| Error::io("cannot put out of memory", path, e);
    for entry in fs::read_dir(dir).map_err(|e| failed(dir, e))? {
        let path = entry.map_err(|e| failed(dir, e))?.path();
        if path.is_dir() {
            forget_files(&path)?;
        } else if path.is_file() {
            let file = fs::File::open(&path).map_err(|e| failed(&path, e))?;
            file.sync_all().map_err(|e| failed(&path, e))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|e| failed(&path, e.into()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
35 30 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
36 30 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
37 30 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const SECOND: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!((size("1.5G"), size("67108864")), (Ok(3 << 29), Ok(64 << 20)));
        for wrong in ["", "M", "5T", "1M", "-3G", "nan", "inf", "9e99G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn groups_are_made_where_the_kernel_allows_it() {
        let find = |mounts, groups| Place::find(mounts, groups).map(|place| (place.parent, place.is_second));
        assert_eq!(
            find(FIRST, "8:pids:/\n4:memory:/a/b\n0::/\n"),
            Some((PathBuf::from("/sys/fs/cgroup/memory/a/b"), false))
        );
        assert_eq!(find(SECOND, "0::/user.slice/x.scope\n"), Some((PathBuf::from("/sys/fs/cgroup/user.slice"), true)));
        assert_eq!(find(SECOND, "0::/\n"), Some((PathBuf::from("/sys/fs/cgroup"), true)));
        assert_eq!(find("", "0::/\n"), None);
        assert_eq!(own_group(SECOND, "0::/user.slice/x.scope\n"), Some("/sys/fs/cgroup/user.slice/x.scope".into()));
        // In a container only a part of the hierarchy is mounted.
        let inner = FIRST.replace("36 30 0:32 / ", "36 30 0:32 /docker/1 ");
        assert_eq!(find(&inner, "4:memory:/docker/1\n"), Some((PathBuf::from("/sys/fs/cgroup/memory"), false)));
    }

    /// Where groups may be made, a child process may not use more than the limit, and the group is
    /// gone afterwards. Elsewhere the error says what is missing.
    #[test]
    fn a_limit_holds_and_goes_away() {
        let mut limit = match MemoryLimit::new(64 << 20) {
            Ok(limit) => limit,
            Err(error) => {
                assert!(error.to_string().contains("--memory-limit"), "{error}");
                return;
            }
        };
        let dir = limit.dir.clone();
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("large");
        fs::write(&file, vec![7; 128 << 20]).unwrap();
        forget_files(outer.path()).unwrap();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read go; cat \"$0\" > /dev/null; echo read; read end"])
            .arg(&file)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        limit.take_in(child.id()).unwrap();
        use io::{Read as _, Write as _};
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"go\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let used = ["memory.usage_in_bytes", "memory.current"]
            .iter()
            .find_map(|file| fs::read_to_string(dir.join(file)).ok()?.trim_end().parse::<u64>().ok())
            .unwrap();
        // It has read twice as much: nearly all that it may have is in use, and no more.
        assert!((32 << 20..=64 << 20).contains(&used), "{used} bytes are in use");
        drop(limit);
        assert!(!dir.exists(), "the group is removed");
        stdin.write_all(b"end\n").unwrap();
        assert!(child.wait().unwrap().success());
    }
}
