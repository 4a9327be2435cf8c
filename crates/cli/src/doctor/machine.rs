//! The machine that the database runs on: kernel, CPUs, memory, clock, limits.

use serde_json::json;

use super::system::System;
use super::{Finding, Verdict};
use crate::number::{grouped, size};

/// From this version on, a failed flush is reported to all processes that have the file open, not
/// only to the first that asks.
const KERNEL_TELLS_FAILURES: (u32, u32) = (4, 13);
/// From this version on, the pages of a commit are mapped by one call instead of one page fault
/// each.
const KERNEL_POPULATES: (u32, u32) = (5, 14);

/// Clocks that are read without entering the kernel.
const CLOCKS_FAST: [&str; 5] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase"];

/// With less than this the caches of statements and the log of a busy server are a good part of it.
const MEMORY_BYTES_SMALL: u64 = 256 << 20;
/// File descriptors that the server needs besides connections.
const FILES_BESIDE: u64 = 256;
/// The default number of connections.
const CONNECTIONS_DEFAULT: u64 = 100;

pub(super) fn examine(system: &System) -> Vec<Finding> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let findings = [
        kernel(system),
        Some(cpu(system, cpus)),
        memory(system),
        huge_pages(system),
        overcommit(system),
        clock(system),
        open_files(system),
        address_space(system),
    ];
    findings.into_iter().flatten().collect()
}

fn kernel(system: &System) -> Option<Finding> {
    let release = system.text("proc/sys/kernel/osrelease")?;
    let (verdict, meaning) = match version(&release) {
        Some(version) if version < KERNEL_TELLS_FAILURES => (
            Verdict::Problem,
            "A flush that failed may go unreported before 4.13, and acknowledged commits be lost with it. Use a newer one.",
        ),
        Some(version) if version < KERNEL_POPULATES => {
            (Verdict::Note, "Commits fault their pages in one by one before 5.14, which costs CPU time.")
        }
        Some(_) => (Verdict::Ok, "Has everything that is asked of it."),
        None => (Verdict::Note, "Of unknown age; 5.14 has everything that is asked of it."),
    };
    Some(Finding {
        subject: "kernel",
        found: format!("Linux {release}, {}", std::env::consts::ARCH),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "release": release, "architecture": std::env::consts::ARCH }),
    })
}

/// Major and minor number of a release such as `6.18.44-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn cpu(system: &System, available: usize) -> Finding {
    let quota = system.group_cpus();
    let threads = format!(
        "The server and the runtime start {} unless told otherwise (`--cpus`).",
        crate::number::counted(available as u64, "thread", "threads")
    );
    let (verdict, found, meaning) = match quota {
        Some((cpus, period_us)) => (
            Verdict::Note,
            format!("{available} to use; the control group has {cpus:.2} of them every {} ms", period_us / 1000),
            format!(
                "{threads} Once a period's share is used up, everything stands still until the next: latencies of up to {} ms are the group's, not the disk's.",
                period_us / 1000
            ),
        ),
        None => (Verdict::Ok, format!("{available} to use, no limit of the control group"), threads),
    };
    Finding {
        subject: "CPU",
        found,
        verdict,
        meaning,
        figures: json!({ "cpus": available, "group_cpus": quota.map(|(cpus, _)| cpus), "group_period_us": quota.map(|(_, period)| period) }),
    }
}

fn memory(system: &System) -> Option<Finding> {
    let total = system.meminfo_bytes("MemTotal")?;
    let available = system.meminfo_bytes("MemAvailable");
    let group = system.group_memory_bytes().filter(|&bytes| bytes < total);
    let usable = group.unwrap_or(total);
    let mut found = size(total);
    if let Some(available) = available {
        found += &format!(", {} available", size(available));
    }
    found += &match group {
        Some(bytes) => format!(", limited to {} by the control group", size(bytes)),
        None => ", no limit of the control group".to_owned(),
    };
    let cached = "Pages of databases are the kernel's cache: what fits is read without the disk, and given back when others need it.";
    let (verdict, meaning) = match usable < MEMORY_BYTES_SMALL {
        true => (Verdict::Note, format!("{cached} Little: `serve --tiny` takes less.")),
        false => (Verdict::Ok, cached.to_owned()),
    };
    let figures = json!({ "total_bytes": total, "available_bytes": available, "group_bytes": group });
    Some(Finding { subject: "memory", found, verdict, meaning, figures })
}

fn huge_pages(system: &System) -> Option<Finding> {
    let mode = system.chosen("sys/kernel/mm/transparent_hugepage/enabled")?;
    let (verdict, meaning) = match mode.as_str() {
        "always" => (
            Verdict::Note,
            "The heap may take more memory than it uses, which an idle server shows; `madvise` avoids that. Databases are mapped in small pages in any case.",
        ),
        _ => (Verdict::Ok, "Memory is taken as it is used. Databases are mapped in small pages in any case."),
    };
    Some(Finding {
        subject: "huge pages",
        found: mode.clone(),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "transparent_hugepage": mode }),
    })
}

fn overcommit(system: &System) -> Option<Finding> {
    let mode = system.text("proc/sys/vm/overcommit_memory")?;
    let (verdict, found, meaning) = match mode.as_str() {
        "2" => (
            Verdict::Note,
            "strict (2)",
            "The maps of databases do not count. Sorts and sessions do: when the limit is reached, the process that asks for more ends; what was committed stays.",
        ),
        "1" => (
            Verdict::Ok,
            "always (1)",
            "Memory is never refused; if it runs out, the kernel ends a process. What was committed stays.",
        ),
        _ => (
            Verdict::Ok,
            "by judgement (0)",
            "The maps of databases, which reserve a terabyte of addresses each, do not count as memory.",
        ),
    };
    Some(Finding {
        subject: "overcommit",
        found: found.to_owned(),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "overcommit_memory": mode }),
    })
}

fn clock(system: &System) -> Option<Finding> {
    let source = system.text("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    let (verdict, meaning) = match CLOCKS_FAST.contains(&source.as_str()) {
        true => (Verdict::Ok, "Read without entering the kernel: timeouts and measuring cost nothing to speak of."),
        false => (
            Verdict::Warning,
            "Each look at the clock enters the kernel: statements cost more, and measured latencies include it. See whether `tsc` is available.",
        ),
    };
    Some(Finding {
        subject: "clock",
        found: source.clone(),
        verdict,
        meaning: meaning.to_owned(),
        figures: json!({ "source": source }),
    })
}

fn open_files(system: &System) -> Option<Finding> {
    let (soft, hard) = system.limit("Max open files")?;
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), grouped);
    let connections = hard.map(|hard| hard.saturating_sub(FILES_BESIDE));
    let (verdict, meaning) = match connections {
        Some(connections) if connections < CONNECTIONS_DEFAULT => (
            Verdict::Warning,
            "Not enough for the server's 100 connections: raise it (LimitNOFILE of systemd, ulimit -Hn).".to_owned(),
        ),
        Some(connections) => (
            Verdict::Ok,
            format!(
                "The server raises its own limit as far as it may: that is enough for {} connections.",
                grouped(connections)
            ),
        ),
        None => (Verdict::Ok, "The server raises its own limit to what `--max-connections` needs.".to_owned()),
    };
    Some(Finding {
        subject: "open files",
        found: format!("{}, up to {} if asked for", word(soft), word(hard)),
        verdict,
        meaning,
        figures: json!({ "soft": soft, "hard": hard }),
    })
}

/// Checked only if there is a limit.
fn address_space(system: &System) -> Option<Finding> {
    let (soft, _) = system.limit("Max address space")?;
    let bytes = soft?;
    Some(Finding {
        subject: "address space",
        found: format!("limited to {}", size(bytes)),
        verdict: Verdict::Note,
        meaning: "A database can grow to what is left of it, instead of a terabyte; several share it. `ulimit -v unlimited` takes the limit away.".to_owned(),
        figures: json!({ "bytes": bytes }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::system::tests::machine;
    use super::*;

    #[track_caller]
    fn check(finding: Option<Finding>, expected: Verdict, word: &str) {
        let finding = finding.unwrap();
        assert_eq!(finding.verdict, expected, "{finding:?}");
        let text = format!("{} {}", finding.found, finding.meaning);
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }

    #[test]
    fn kernels_are_judged_by_what_they_can_do() {
        let of = |release: &str| kernel(&machine(&[("proc/sys/kernel/osrelease", release)]).1);
        check(of("6.18.44-generic\n"), Verdict::Ok, "6.18.44");
        check(of("5.14.0"), Verdict::Ok, "everything");
        check(of("5.4.0-42"), Verdict::Note, "5.14");
        check(of("4.9.337"), Verdict::Problem, "unreported");
        check(of("odd"), Verdict::Note, "unknown age");
    }

    #[test]
    fn a_quota_explains_latencies() {
        let files = [("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "50000 100000\n")];
        let (_root, limited) = machine(&files);
        check(Some(cpu(&limited, 2)), Verdict::Note, "0.50 of them every 100 ms");
        check(Some(cpu(&machine(&[]).1, 1)), Verdict::Ok, "start 1 thread unless");
    }

    #[test]
    fn the_group_limits_memory_only_if_it_has_less_than_the_machine() {
        let with = |limit: &str| {
            machine(&[
                ("proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n"),
                ("proc/self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/memory.max", limit),
            ])
        };
        check(memory(&with("134217728").1), Verdict::Note, "--tiny");
        check(memory(&with("1073741824").1), Verdict::Ok, "limited to 1,074 MB");
        check(memory(&with("99999999999999").1), Verdict::Ok, "no limit of the control group");
    }

    #[test]
    fn settings_of_the_kernel_are_explained() {
        let (_root, system) = machine(&[
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            (
                "proc/self/limits",
                "Max open files            128                  256                  files     \n\
                 Max address space         1073741824           unlimited            bytes     \n",
            ),
        ]);
        check(huge_pages(&system), Verdict::Note, "madvise");
        check(overcommit(&system), Verdict::Note, "strict");
        check(clock(&system), Verdict::Warning, "hpet");
        check(open_files(&system), Verdict::Warning, "LimitNOFILE");
        check(address_space(&system), Verdict::Note, "1,074 MB");
    }
}
