//! The kernel's accounts of processes and threads, as the text of files under `/proc`.
//!
//! | file | taken from it |
//! | --- | --- |
//! | `PID/stat` | parent, group, start, page faults and processor time in ticks, also of children waited for |
//! | `PID/io` | bytes of pages made dirty, bytes and number of write calls, bytes that came from the disk |
//! | `PID/smaps_rollup`, `PID/status` | memory |
//! | `PID/task/TID/`: `stat`, `schedstat`, `status` | a thread's start, processor time in nanoseconds, switches |
//!
//! Invariants
//! - All functions are pure: they read no file.
//! - A figure that is not in the text is `None`, never zero.

/// What `stat` says of a process, or of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) command: String,
    /// A letter: `R`unning, `S`leeping, `Z`ombie...
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Page faults without I/O. Every process has some.
    pub(crate) faults: u64,
    /// Those of children that ended and were waited for, their children included.
    pub(crate) children_faults: u64,
    /// Processor time of all threads, ended ones included.
    pub(crate) cpu_ticks: u64,
    /// That of children that ended and were waited for, their children included.
    pub(crate) children_cpu_ticks: u64,
    pub(crate) threads: u64,
    /// Since the machine started. With the number it tells a process from others, earlier and
    /// later.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// `None` if the text is not that of a `stat` file.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The name is whatever the process likes, spaces and parentheses included; no other field
        // has parentheses.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let pid = text[..open].trim().parse().ok()?;
        let command = text.get(open + 1..close)?.to_owned();
        let fields: Vec<&str> = text[close + 1..].split_ascii_whitespace().collect();
        // The manual counts fields from one, and these begin with the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let count = |number: usize| field(number)?.parse::<u64>().ok();
        // Signed in the kernel's own format.
        let signed = |number: usize| Some(field(number)?.parse::<i64>().ok()?.max(0).unsigned_abs());
        Some(Self {
            pid,
            command,
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            group: u32::try_from(signed(5)?).ok()?,
            faults: count(10)?,
            children_faults: count(11)?,
            cpu_ticks: count(14)? + count(15)?,
            children_cpu_ticks: signed(16)? + signed(17)?,
            threads: signed(20)?,
            start_ticks: count(22)?,
        })
    }

    /// Whether it has ended and its parent has not waited for it yet. A process whose first thread
    /// ended while others go on has not ended.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }
}

/// How often a thread left the processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// To wait for something. Each ends with a wake-up.
    pub(crate) voluntary: u64,
    /// Because another thread was to run.
    pub(crate) involuntary: u64,
}

impl Switches {
    /// From a thread's `status`.
    pub(crate) fn parse(status: &str) -> Option<Self> {
        Some(Self {
            voluntary: field(status, "voluntary_ctxt_switches:")?,
            involuntary: field(status, "nonvoluntary_ctxt_switches:")?,
        })
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { voluntary: self.voluntary + other.voluntary, involuntary: self.involuntary + other.involuntary }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// What a process wrote, and had the disk read: all its threads, ended ones included, and the
/// children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Pages of files that it made dirty.
    pub(crate) bytes: u64,
    /// Bytes given to write calls, for sockets and terminals as well.
    pub(crate) call_bytes: u64,
    pub(crate) calls: u64,
    /// Bytes read from the disk for it, without those that the page cache had.
    pub(crate) read_bytes: u64,
}

impl Written {
    /// From a process's `io`.
    pub(crate) fn parse(io: &str) -> Option<Self> {
        Some(Self {
            bytes: field(io, "write_bytes:")?,
            call_bytes: field(io, "wchar:")?,
            calls: field(io, "syscw:")?,
            read_bytes: field(io, "read_bytes:")?,
        })
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            call_bytes: self.call_bytes + other.call_bytes,
            calls: self.calls + other.calls,
            read_bytes: self.read_bytes + other.read_bytes,
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            call_bytes: self.call_bytes.saturating_sub(earlier.call_bytes),
            calls: self.calls.saturating_sub(earlier.calls),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
        }
    }
}

/// A thread's processor time in nanoseconds, from its `schedstat`. A kernel that does not count
/// says zero three times; a thread that has run never has three zeros.
pub(crate) fn cpu_ns(schedstat: &str) -> Option<u64> {
    let counts = schedstat.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let [cpu_ns, _, _] = counts[..] else { return None };
    counts.iter().any(|&count| count > 0).then_some(cpu_ns)
}

/// Resident memory, from a process's `status`; none for what has no memory of its own, as threads
/// of the kernel.
pub(crate) fn rss_bytes(status: &str) -> Option<u64> {
    field(status, "VmRSS:").map(|kib| kib << 10)
}

/// Resident memory, pages that several processes map divided among them, from `smaps_rollup`.
pub(crate) fn pss_bytes(smaps_rollup: &str) -> Option<u64> {
    field(smaps_rollup, "Pss:").map(|kib| kib << 10)
}

/// The number behind `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "S 2228 2220 1731 0 -1 4194304 100 7 3 4 11 22 5 6 20 0 3 0 3397186 3133440 383 184467440";

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        for name in ["cat", "a b", "(sd-pam)", "x) R 1 1 (", ") (", "", "Web Content", "tmux: server", "é(1)"] {
            let stat = Stat::parse(&format!("2234 ({name}) {FIELDS}\n")).unwrap();
            let expected = Stat {
                pid: 2234,
                command: name.to_owned(),
                state: 'S',
                parent: 2228,
                group: 2220,
                faults: 100,
                children_faults: 7,
                cpu_ticks: 33,
                children_cpu_ticks: 11,
                threads: 3,
                start_ticks: 3_397_186,
            };
            assert_eq!(stat, expected);
        }
    }

    #[test]
    fn what_is_not_a_stat_is_none() {
        for text in ["", "1", "1 (a", "1 (a)", "x (a) S 1", ")(", "1 (a) S 2 3 4 5 6", "-1 (a) S 0"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
        // Process groups outside this process's namespace appear as -1 or 0.
        assert_eq!(Stat::parse(&format!("1 (a) {}", FIELDS.replacen("2220", "-1", 1))).unwrap().group, 0);
    }

    #[test]
    fn a_zombie_is_dead_unless_other_threads_go_on() {
        let state = |state: &str, threads: &str| {
            let fields = FIELDS.replacen('S', state, 1).replacen("0 3 0", &format!("0 {threads} 0"), 1);
            Stat::parse(&format!("1 (a) {fields}")).unwrap().is_dead()
        };
        assert!(state("Z", "1") && state("X", "0"));
        assert!(!state("Z", "2") && !state("S", "1") && !state("R", "3") && !state("T", "1"));
    }

    #[test]
    fn voluntary_is_not_mistaken_for_nonvoluntary() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(Switches::parse(status), Some(Switches { voluntary: 17, involuntary: 4 }));
        let turned = "nonvoluntary_ctxt_switches:\t4\nvoluntary_ctxt_switches:\t17\n";
        assert_eq!(Switches::parse(turned), Switches::parse(status));
        assert_eq!(Switches::parse("Name:\tvoluntary_ctxt_switches: 1\n"), None);
    }

    #[test]
    fn cancelled_bytes_are_not_written_bytes() {
        let io =
            "rchar: 1\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 9\n";
        assert_eq!(Written::parse(io), Some(Written { bytes: 4096, call_bytes: 20, calls: 4, read_bytes: 5 }));
        assert_eq!(Written::parse("wchar: 20\n"), None);
    }

    #[test]
    fn a_clock_that_the_kernel_does_not_keep_is_none() {
        assert_eq!(cpu_ns("148531 1617014 2\n"), Some(148_531));
        assert_eq!(cpu_ns("0 55 0\n"), Some(0));
        for text in ["0 0 0\n", "", "1 2", "a b c", "1 2 3 4", "-1 0 1"] {
            assert_eq!(cpu_ns(text), None, "{text}");
        }
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(rss_bytes("VmHWM:\t 9 kB\nVmRSS:\t    1608 kB\n"), Some(1608 << 10));
        assert_eq!(rss_bytes("Name:\tkthreadd\n"), None);
        let rollup = "55d0-7ffc ---p 00000000 00:00 0   [rollup]\nRss:   1608 kB\nPss:    302 kB\nPss_Dirty:  112 kB\n";
        assert_eq!(pss_bytes(rollup), Some(302 << 10));
        assert_eq!(pss_bytes(""), None);
    }
}
