//! What a run costs besides time: processor time, bytes to and from the disk, memory, space.
//!
//! - **Processor time** is the whole process's, background threads included, from
//!   `CLOCK_PROCESS_CPUTIME_ID`. Where readers run beside writers, the readers' is that of their
//!   own threads, from `CLOCK_THREAD_CPUTIME_ID`, and all the rest is the writers'.
//! - **Bytes** are the kernel's accounts in `/proc/self/io`: `write_bytes` counts a page of the
//!   page cache when it becomes dirty, so a page written again before it went to disk counts once;
//!   `read_bytes` counts what really came from the disk.
//! - **Memory** is the peak resident set (`VmHWM`), reset before each start. Pages of mapped files
//!   count, so an engine that maps its file shows its data here, while one that reads it through
//!   the page cache does not.
//! - **Space** is what the directory's files have allocated, holes excluded.
//!
//! Invariants
//! - Only differences between two [`Meter`]s are reported; what was there before a run does not
//!   count.
//! - A figure that the kernel does not give is `None`, never zero.
//!
//! Not here: the disk's own accounts, which other processes share.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    cpu_ns: u64,
    written_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

/// The difference of two [`Meter`]s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    pub(crate) written_bytes: Option<u64>,
    pub(crate) read_bytes: Option<u64>,
}

impl Meter {
    pub(crate) fn now() -> Self {
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Self {
            cpu_ns: cpu_ns(ClockId::ProcessCPUTime),
            written_bytes: field(&io, "write_bytes:"),
            read_bytes: field(&io, "read_bytes:"),
        }
    }

    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Usage {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            written_bytes: difference(self.written_bytes, earlier.written_bytes),
            read_bytes: difference(self.read_bytes, earlier.read_bytes),
        }
    }
}

/// Processor time of the thread that asks.
pub(crate) fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("a clock that starts at zero")
}

/// Makes the present resident set the peak, so that the next peak is the next run's. Where the
/// kernel refuses, peaks are those of the process.
pub(crate) fn reset_memory_peak() {
    let _refused_in_some_sandboxes = fs::write("/proc/self/clear_refs", "5");
}

/// Peak resident set since the last reset, in bytes.
pub(crate) fn memory_peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    field(&status, "VmHWM:").map(|kib| kib << 10)
}

/// Bytes allocated for the files under `dir`.
pub(crate) fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

/// The number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_at_line_starts_only() {
        let text = "rchar: 1\nread_bytes: 20\nwrite_bytes: 4096\ncancelled_write_bytes: 3\n";
        assert_eq!(field(text, "write_bytes:"), Some(4096));
        assert_eq!(field(text, "read_bytes:"), Some(20));
        assert_eq!(field(text, "VmHWM:"), None);
    }

    #[test]
    fn disk_bytes_counts_blocks_and_not_holes() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("inner/data"), vec![1; 100_000]).unwrap();
        fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let file = fs::File::open(dir.path().join("inner/data")).unwrap();
        file.sync_all().unwrap();
        let bytes = disk_bytes(dir.path()).unwrap();
        assert!((100_000..1 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = Meter::now();
        let spun = (0..20_000_000_u64).fold(0, |sum: u64, i| std::hint::black_box(sum ^ i));
        assert!(Meter::now().since(&before).cpu_ns > 0, "{spun}");
        let elsewhere = std::thread::spawn(thread_cpu_ns).join().unwrap();
        assert!(elsewhere < thread_cpu_ns(), "a thread's time is its own");
    }
}
