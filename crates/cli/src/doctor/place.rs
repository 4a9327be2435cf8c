//! Where the database is: its file system, the device below, what a flush takes, how much room
//! there is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use colibri_bench::measure::mounts::Mount;
use serde_json::json;

use super::flush::Flushes;
use super::system::System;
use super::{Finding, Verdict};
use crate::number::{grouped, size};

/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// File systems that other machines write to, or that do not share memory maps as the reader table
/// needs it.
const REMOTE: [&str; 17] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "ceph",
    "afs",
    "lustre",
    "beegfs",
    "gfs2",
    "ocfs2",
    "glusterfs",
    "vboxsf",
    "virtiofs",
    "fuse",
    "fuseblk",
];
/// File systems that put a page somewhere else each time that it is written.
const COPYING: [&str; 3] = ["btrfs", "zfs", "bcachefs"];
/// File systems that do what the engine asks: allocate ahead, give back, flush to the medium.
const PLAIN: [&str; 4] = ["ext4", "xfs", "ext3", "f2fs"];

/// Below this a flush was not on its way to any medium that is written by itself.
const FLUSH_DOUBTFUL: Duration = Duration::from_micros(20);
/// From here on a flush is what a session waits for most of its time.
const FLUSH_SLOW: Duration = Duration::from_millis(5);
/// One flush in ten that takes this multiple of the usual time is felt.
const FLUSH_UNEVEN: u32 = 10;

/// Less than this is soon full: a log alone may have a good part of it.
const ROOM_BYTES_MIN: u64 = 1 << 30;

pub(super) fn is_in_memory(mount: &Mount) -> bool {
    IN_MEMORY.contains(&mount.kind.as_str())
}

pub(super) fn file_system(mount: &Mount) -> Finding {
    let (verdict, meaning) = judge(mount);
    Finding {
        subject: "file system",
        found: format!("{} at {} ({})", mount.kind, mount.point.display(), mount.options.join(",")),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "type": mount.kind, "mount_point": mount.point.display().to_string(), "options": mount.options }),
    }
}

fn judge(mount: &Mount) -> (Verdict, &'static str) {
    let has = |options: &[&str]| mount.options.iter().any(|option| options.contains(&option.as_str()));
    let kind = mount.kind.as_str();
    let is = |kinds: &[&str]| kinds.contains(&kind);
    if is(&REMOTE) || kind.starts_with("fuse.") {
        let meaning = "Not supported: the processes that share a database share memory, and its flushes are another \
                       machine's or program's. Use a directory on a local disk.";
        return (Verdict::Problem, meaning);
    }
    if has(&["ro"]) {
        return (
            Verdict::Problem,
            "Mounted read-only: nothing can be written, and a database that was not closed cannot recover.",
        );
    }
    if has(&["nobarrier", "barrier=0", "barrier=none"]) {
        let meaning = "Mounted without barriers: a flush does not reach the medium, and a power failure can take acknowledged \
                       commits and damage the database. Mount it without this option.";
        return (Verdict::Problem, meaning);
    }
    if kind == "overlay" && has(&["volatile"]) {
        let meaning = "A volatile overlay ignores flushes: after a crash of the machine nothing can be relied upon. Put the \
                       database on a volume.";
        return (Verdict::Problem, meaning);
    }
    if is(&IN_MEMORY) {
        let meaning = "In memory: a commit outlives the process and not the machine. Good for tests, not for data.";
        return (Verdict::Warning, meaning);
    }
    if is(&COPYING) {
        let meaning = "Takes new space for each page that is written again, so a full disk can end the process (SIGBUS), and \
                       random writes cost more. Keep room free; on btrfs, `chattr +C` on the empty directory prevents both.";
        return (Verdict::Warning, meaning);
    }
    if kind == "overlay" {
        return (
            Verdict::Warning,
            "A container's own layer: the database goes when the container is removed. Put it on a volume.",
        );
    }
    if has(&["sync"]) {
        return (
            Verdict::Note,
            "Mounted with `sync`: each write waits for the disk, also those that no commit waits for.",
        );
    }
    if has(&["data=journal"]) {
        return (Verdict::Note, "Data go through the journal: everything is written twice.");
    }
    if is(&PLAIN) {
        return (
            Verdict::Ok,
            "A flush is carried out down to the device, and space is backed before it is written to.",
        );
    }
    (Verdict::Note, "Not one that is known here: what a flush is worth on it is for its documentation to say.")
}

/// What the kernel believes of the device's cache; nothing where there is no single device.
pub(super) fn device(system: &System, mount: &Mount) -> Option<Finding> {
    let device = system.path(Path::new("sys/dev/block").join(&mount.device));
    // A partition's queue is that of its disk.
    let dirs: [PathBuf; 2] = [device.join("queue"), device.join("../queue")];
    let cache = dirs.iter().find_map(|queue| system.text(queue.join("write_cache")))?;
    let meaning = match cache.as_str() {
        "write back" => {
            "Has a cache that a power failure can take; each flush makes it write that out, which is what durable commits wait for."
        }
        _ => {
            "Says that it has no cache which a power failure can take, so flushes are not passed on. Believe that of disks with \
              power loss protection, and of virtual ones as far as you believe the host."
        }
    };
    Some(Finding {
        subject: "device",
        found: format!("{} ({cache})", mount.device),
        verdict: Verdict::Ok,
        meaning: meaning.to_owned(),
        figures: json!({ "number": mount.device, "write_cache": cache }),
    })
}

pub(super) fn flush(flushes: io::Result<Flushes>, in_memory: bool) -> Finding {
    let flushes = match flushes {
        Ok(flushes) => flushes,
        Err(error) => {
            return Finding {
                subject: "flush",
                found: "not measured".to_owned(),
                verdict: Verdict::Problem,
                meaning: format!(
                    "This user cannot write here ({error}): choose another directory, or run as the user that the database belongs to."
                ),
                figures: json!({ "error": error.to_string() }),
            };
        }
    };
    let [p50, p90, max] = [50, 90, 100].map(|percent| flushes.percentile(percent));
    let (verdict, meaning) = judge_flush(p50, p90, in_memory);
    Finding {
        subject: "flush",
        found: format!(
            "p50 {}, p90 {}, slowest {} ({} flushes of one block)",
            time(p50),
            time(p90),
            time(max),
            flushes.count()
        ),
        verdict,
        meaning,
        figures: json!({
            "flushes": flushes.count(),
            "p50_us": p50.as_secs_f64() * 1e6,
            "p90_us": p90.as_secs_f64() * 1e6,
            "max_us": max.as_secs_f64() * 1e6,
        }),
    }
}

fn judge_flush(p50: Duration, p90: Duration, in_memory: bool) -> (Verdict, String) {
    let rate = grouped((1.0 / p50.as_secs_f64().max(1e-9)) as u64);
    let rate = format!(
        "One session can make about {rate} durable commits a second; sessions that commit together share flushes."
    );
    if in_memory {
        return (Verdict::Note, "Memory needs no flush.".to_owned());
    }
    if p50 < FLUSH_DOUBTFUL {
        let doubt = "Shorter than media take by themselves: either a cache with power loss protection takes it, or something \
                     below ignores flushes, and then a power failure takes acknowledged commits. Find out which.";
        return (Verdict::Warning, format!("{doubt} {rate}"));
    }
    if p50 > FLUSH_SLOW {
        let advice = "Slow: commit more in one transaction or from more sessions at once; the modes Lazy and NoSync do not wait.";
        return (Verdict::Warning, format!("{rate} {advice}"));
    }
    if p90 > p50 * FLUSH_UNEVEN {
        return (
            Verdict::Note,
            format!("{rate} One in ten takes ten times as long: something else uses the disk, or limits it."),
        );
    }
    (Verdict::Ok, rate)
}

/// A time with three digits or so.
fn time(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..10_000 => format!("{} µs", grouped(us as u64)),
        us => format!("{} ms", grouped((us / 1000) as u64)),
    }
}

pub(super) fn room(dir: &Path) -> Option<Finding> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    let (verdict, meaning) = match bytes < ROOM_BYTES_MIN {
        false => (
            Verdict::Ok,
            "A full disk is an error that takes nothing which was committed, but commits fail until there is room.",
        ),
        true => (
            Verdict::Warning,
            "Little: once the disk is full, commits fail until there is room again; what was committed stays.",
        ),
    };
    Some(Finding {
        subject: "room",
        found: format!("{} free", size(bytes)),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "free_bytes": bytes }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::system::tests::machine;
    use super::*;

    fn mount(kind: &str, options: &str) -> Mount {
        let options = options.split(',').map(str::to_owned).collect();
        Mount { kind: kind.to_owned(), point: "/data".into(), device: "8:1".to_owned(), options }
    }

    #[track_caller]
    fn check(kind: &str, options: &str, expected: Verdict, word: &str) {
        let finding = file_system(&mount(kind, options));
        assert_eq!(finding.verdict, expected, "{kind} {options}: {}", finding.meaning);
        assert!(finding.meaning.contains(word), "{:?} does not say {word:?}", finding.meaning);
    }

    #[test]
    fn a_file_system_is_judged_by_what_a_crash_leaves_on_it() {
        check("ext4", "rw,relatime", Verdict::Ok, "flush");
        check("xfs", "rw,noatime", Verdict::Ok, "flush");
        check("ext4", "rw,nobarrier", Verdict::Problem, "barriers");
        check("ext4", "rw,barrier=0", Verdict::Problem, "barriers");
        check("ext4", "ro", Verdict::Problem, "read-only");
        check("nfs4", "rw", Verdict::Problem, "local disk");
        check("fuse.sshfs", "rw", Verdict::Problem, "local disk");
        check("overlay", "rw,volatile", Verdict::Problem, "ignores flushes");
        check("overlay", "rw", Verdict::Warning, "volume");
        check("tmpfs", "rw", Verdict::Warning, "In memory");
        check("btrfs", "rw", Verdict::Warning, "chattr +C");
        check("ext4", "rw,data=journal", Verdict::Note, "twice");
        check("minix", "rw", Verdict::Note, "Not one that is known");
    }

    #[test]
    fn a_flush_is_judged_by_its_length() {
        let us = Duration::from_micros;
        let verdict = |usual, slowest| flush(Ok(Flushes::all(us(usual), us(slowest))), false).verdict;
        assert_eq!(verdict(3, 3), Verdict::Warning);
        assert_eq!(verdict(200, 90_000), Verdict::Ok, "one of 64 says nothing");
        assert_eq!(verdict(8_000, 8_000), Verdict::Warning);
        assert_eq!(flush(Ok(Flushes::all(us(3), us(3))), true).verdict, Verdict::Note);
        assert_eq!(judge_flush(us(100), us(5_000), false).0, Verdict::Note);
        let found = flush(Ok(Flushes::all(us(200), us(90_000))), false);
        assert_eq!(found.found, "p50 200 µs, p90 200 µs, slowest 90 ms (64 flushes of one block)");
        assert!(found.meaning.contains("about 5,000 durable commits"), "{}", found.meaning);
        assert_eq!(flush(Err(io::ErrorKind::PermissionDenied.into()), false).verdict, Verdict::Problem);
    }

    #[test]
    fn a_partition_has_the_cache_of_its_disk() {
        let (root, system) = machine(&[
            ("sys/devices/sda/queue/write_cache", "write back\n"),
            ("sys/devices/sda/sda1/size", "1\n"),
            ("sys/dev/block/keep", ""),
        ]);
        std::os::unix::fs::symlink(root.path().join("sys/devices/sda/sda1"), root.path().join("sys/dev/block/8:1"))
            .unwrap();
        let finding = device(&system, &mount("ext4", "rw")).unwrap();
        assert_eq!(finding.found, "8:1 (write back)");
        assert!(device(&system, &Mount { device: "0:40".to_owned(), ..mount("tmpfs", "rw") }).is_none());
    }
}
