//! A process and its descendants at one moment (a *look*), and what they used between two looks.
//!
//! ```text
//! first look             second look
//! ──────────             ───────────
//! server ─┬─ worker a    server ─┬─ worker a     what is there at both:  the difference
//!         └─ worker b            └─ worker c     what came:              all it has
//!                                                what went:              what its parent was told (below)
//! ```
//!
//! Invariants
//! 1. Processes and threads are identified by number and start time, since a number may be used
//!    again.
//! 2. No difference is negative.
//! 3. A process that was in the tree stays in it, even if its parent ends and it gets another one.
//! 4. Nothing is read between the two looks, because reading takes locks in the kernel, and time.
//!
//! What is counted of processes and threads that end between the looks:
//! - **Processor time of a thread**: its process has it, in clock ticks. It counts if it is at
//!   least two ticks (mostly 20 ms) more than the sum of the threads, because rounding may amount
//!   to that.
//! - **Processor time and bytes of a process**: the process that waits for it gets both, the time
//!   in clock ticks. What the process had at the first look is subtracted. This also covers
//!   processes that neither look saw.
//! - **Context switches**: nothing, since no account has them after the end. How many processes
//!   ended is counted. That there were processes that neither look saw shows in their parent's page
//!   faults.
//! - **Processes that no process in the tree waits for**: nothing of what they used after the first
//!   look.
//!
//! Not here: the files' texts (`accounts`), and when to look (`window`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use crate::measure::accounts::{self, Stat, Switches, Written};

/// The rounding of processor time in clock ticks: user time and system time are rounded each.
const ROUNDING_TICKS: u64 = 2;

/// The length of a clock tick.
pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The largest error of a difference in clock ticks.
pub(crate) fn rounding_ns() -> u64 {
    ROUNDING_TICKS * tick_ns()
}

/// All processes of the machine at one moment.
#[derive(Debug)]
pub(crate) struct Machine {
    processes: BTreeMap<u32, Stat>,
}

impl Machine {
    pub(crate) fn look() -> io::Result<Self> {
        let numbers = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // What ended since the directory was read is not there.
        Ok(Self { processes: numbers.filter_map(|pid| Some((pid, stat(pid)?))).collect() })
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Stat> {
        self.processes.get(&pid)
    }

    /// The processes in `roots`, those of process group `group`, and the descendants of all of
    /// them.
    pub(crate) fn tree(&self, roots: &[u32], group: Option<u32>) -> BTreeSet<u32> {
        let of_group = self.processes.values().filter(|stat| Some(stat.group) == group).map(|stat| stat.pid);
        let known = roots.iter().copied().filter(|pid| self.processes.contains_key(pid));
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for stat in self.processes.values() {
            children.entry(stat.parent).or_default().push(stat.pid);
        }
        let mut members = BTreeSet::new();
        let mut left: Vec<u32> = known.chain(of_group).collect();
        while let Some(pid) = left.pop() {
            if members.insert(pid) {
                left.extend(children.get(&pid).into_iter().flatten());
            }
        }
        members
    }

    /// The process, its parent, and so on up to the first.
    pub(crate) fn line_of(&self, pid: u32) -> Vec<u32> {
        let mut line = Vec::new();
        let mut next = Some(pid);
        while let Some(stat) = next.and_then(|pid| self.get(pid)) {
            if line.contains(&stat.pid) {
                break; // The processes were not read at one moment, and a number may have been used again.
            }
            line.push(stat.pid);
            next = Some(stat.parent);
        }
        line
    }
}

/// What `/proc` says of a process now; `None` if there is none.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    Stat::parse(&text(format!("/proc/{pid}/stat")).ok()?)
}

/// A text of `/proc`; names of processes need not be UTF-8.
fn text(path: impl Into<PathBuf>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path.into())?).into_owned())
}

/// A process or thread: its number and its start time.
type Identity = (u32, u64);

/// A thread at one moment.
#[derive(Debug, Clone, Copy)]
struct Thread {
    cpu_ns: Option<u64>,
    switches: Option<Switches>,
}

/// A process at one moment.
#[derive(Debug, Clone)]
struct Process {
    stat: Stat,
    written: Option<Written>,
    threads: BTreeMap<Identity, Thread>,
}

impl Process {
    /// `None` if it ends meanwhile.
    fn look(stat: &Stat) -> Option<Self> {
        let pid = stat.pid;
        // Before the threads: if it cannot be read because the process ended, they cannot either.
        let written = text(format!("/proc/{pid}/io")).ok().and_then(|io| Written::parse(&io));
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let file = |name: &str| text(entry.path().join(name)).ok();
            let Some(stat) = file("stat").and_then(|text| Stat::parse(&text)) else { continue };
            let thread = Thread {
                cpu_ns: file("schedstat").and_then(|text| accounts::cpu_ns(&text)),
                switches: file("status").and_then(|text| Switches::parse(&text)),
            };
            threads.insert((stat.pid, stat.start_ticks), thread);
        }
        // Read again now: the other one was read with those of all processes.
        let stat = self::stat(pid).filter(|now| now.start_ticks == stat.start_ticks)?;
        (!threads.is_empty()).then_some(Self { stat, written, threads })
    }

    fn id(&self) -> Identity {
        (self.stat.pid, self.stat.start_ticks)
    }
}

/// A tree at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    at: Instant,
    processes: BTreeMap<Identity, Process>,
    /// All others on the machine.
    elsewhere: BTreeSet<Identity>,
}

impl Look {
    /// The tree below `root`, and what is in process group `group`; with what was in it `before`,
    /// wherever that is by now.
    pub(crate) fn take(machine: &Machine, root: u32, group: Option<u32>, before: Option<&Self>) -> Self {
        let at = Instant::now();
        let mut roots = vec![root];
        let still_there = |&&(pid, start): &&Identity| machine.get(pid).is_some_and(|stat| stat.start_ticks == start);
        let members = before.into_iter().flat_map(|before| before.processes.keys());
        roots.extend(members.filter(still_there).map(|&(pid, _)| pid));
        let tree = machine.tree(&roots, group);
        let looks = tree.iter().filter_map(|&pid| Process::look(machine.get(pid)?));
        let processes = looks.map(|process| (process.id(), process)).collect();
        let others = machine.processes.values().filter(|stat| !tree.contains(&stat.pid));
        Self { at, processes, elsewhere: others.map(|stat| (stat.pid, stat.start_ticks)).collect() }
    }

    /// Whether the process is running: it has not ended, not even as a zombie.
    pub(crate) fn has_living(&self, pid: u32, start_ticks: u64) -> bool {
        self.processes.get(&(pid, start_ticks)).is_some_and(|process| !process.stat.is_dead())
    }

    pub(crate) fn census(&self) -> Census {
        Census::of(self.processes.values())
    }

    /// What its processes have in memory, now.
    pub(crate) fn memory(&self) -> Memory {
        let mut sum = Memory { pss_bytes: Some(0), rss_bytes: Some(0) };
        let plus = |sum: Option<u64>, more: Option<u64>| Some(sum? + more?);
        for (pid, _) in self.processes.keys() {
            let Ok(status) = text(format!("/proc/{pid}/status")) else {
                if stat(*pid).is_some() {
                    sum = Memory { pss_bytes: None, rss_bytes: None };
                }
                continue;
            };
            // Zombies and kernel threads have no memory of their own.
            let Some(rss_bytes) = accounts::rss_bytes(&status) else { continue };
            sum.rss_bytes = plus(sum.rss_bytes, Some(rss_bytes));
            let rollup = text(format!("/proc/{pid}/smaps_rollup")).ok();
            let pss_bytes = rollup.and_then(|text| accounts::pss_bytes(&text));
            if pss_bytes.is_some() || stat(*pid).is_some_and(|stat| !stat.is_dead()) {
                sum.pss_bytes = plus(sum.pss_bytes, pss_bytes);
            }
        }
        sum
    }
}

/// Resident memory of a tree; `None` where some of it could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Pages that several processes have are divided among them.
    pub(crate) pss_bytes: Option<u64>,
    /// Such pages count for each process.
    pub(crate) rss_bytes: Option<u64>,
}

/// How many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) processes: u64,
    pub(crate) threads: u64,
}

impl Census {
    fn of<'a>(processes: impl Iterator<Item = &'a Process>) -> Self {
        processes.fold(Self::default(), |census, process| Self {
            processes: census.processes + 1,
            threads: census.threads + process.threads.len() as u64,
        })
    }
}

/// What a tree used between two looks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// Processor time of those that are there, and of those that ended as far as it is known.
    pub(crate) cpu_ns: u64,
    /// The part of it that clock ticks tell.
    pub(crate) cpu_ns_by_ticks: u64,
    /// Whether the kernel tells the time of threads in nanoseconds; if not, all of it is by clock
    /// ticks.
    pub(crate) has_cpu_ns: bool,
    pub(crate) switches: Option<Switches>,
    pub(crate) written: Option<Written>,
    /// Not there at the first look. Threads are those of all processes, of these as well.
    pub(crate) came: Census,
    /// Not there at the second look.
    pub(crate) went: Census,
    /// Processes of the machine that became part of the tree. What they used is not counted, as
    /// there is no first figure.
    pub(crate) joined: u64,
    /// Whether, by page faults, processes came and went that neither look saw.
    pub(crate) missed: bool,
}

impl Used {
    /// `tick_ns` is the length of a clock tick.
    pub(crate) fn between(first: &Look, second: &Look, tick_ns: u64) -> Self {
        let went = Went::between(first, second);
        let mut used = Self {
            seconds: second.at.saturating_duration_since(first.at).as_secs_f64(),
            cpu_ns: 0,
            cpu_ns_by_ticks: 0,
            has_cpu_ns: true,
            switches: Some(Switches::default()),
            written: Some(Written::default()),
            came: Census::default(),
            went: went.census,
            joined: 0,
            missed: false,
        };
        for (id, process) in &second.processes {
            let earlier = first.processes.get(id);
            if earlier.is_none() && first.elsewhere.contains(id) {
                used.joined += 1;
                continue;
            }
            used.came.processes += u64::from(earlier.is_none());
            used.add_own(earlier, process, tick_ns);
            used.add_children(earlier, process, went.told_to(id), tick_ns);
        }
        used
    }

    /// What a process used, and its threads.
    fn add_own(&mut self, earlier: Option<&Process>, process: &Process, tick_ns: u64) {
        let earlier_thread = |id: &Identity| earlier.and_then(|earlier| earlier.threads.get(id));
        let mut cpu_ns = Some(0);
        for (id, thread) in &process.threads {
            let then = earlier_thread(id);
            self.came.threads += u64::from(then.is_none());
            let cpu_then = then.and_then(|then| then.cpu_ns).unwrap_or(0);
            cpu_ns = cpu_ns.and_then(|sum| Some(sum + thread.cpu_ns?.saturating_sub(cpu_then)));
            let switches_then = then.and_then(|then| then.switches).unwrap_or_default();
            self.switches = self.switches.and_then(|sum| Some(sum.plus(thread.switches?.since(switches_then))));
        }
        let went =
            earlier.iter().flat_map(|earlier| earlier.threads.keys()).filter(|id| !process.threads.contains_key(id));
        self.went.threads += went.count() as u64;

        let ticks = process.stat.cpu_ticks.saturating_sub(earlier.map_or(0, |earlier| earlier.stat.cpu_ticks));
        match cpu_ns {
            Some(cpu_ns) => {
                self.cpu_ns += cpu_ns;
                // Threads that ended are in the process's ticks alone.
                if ticks * tick_ns > cpu_ns + ROUNDING_TICKS * tick_ns {
                    let ended_ns = ticks * tick_ns - cpu_ns;
                    self.cpu_ns += ended_ns;
                    self.cpu_ns_by_ticks += ended_ns;
                }
            }
            None => {
                self.has_cpu_ns = false;
                self.cpu_ns += ticks * tick_ns;
                self.cpu_ns_by_ticks += ticks * tick_ns;
            }
        }
    }

    /// What the kernel charged a process for children that ended, and the bytes that it wrote,
    /// which include theirs.
    fn add_children(&mut self, earlier: Option<&Process>, process: &Process, went: Told, tick_ns: u64) {
        let then = |of: fn(&Stat) -> u64| earlier.map_or(0, |earlier| of(&earlier.stat));
        let told_faults = process.stat.children_faults.saturating_sub(then(|stat| stat.children_faults));
        let told_ticks = process.stat.children_cpu_ticks.saturating_sub(then(|stat| stat.children_cpu_ticks));
        // If the account did not grow by at least what they had, they ended without having been
        // waited for.
        let waited = told_faults >= went.faults;
        let already = if waited { went } else { Told::default() };
        // A child that the first look saw has caused a few more faults since; one that it did not
        // see has caused all of its faults.
        self.missed |= told_faults > 2 * went.faults;
        let ended_ns = told_ticks.saturating_sub(already.cpu_ticks) * tick_ns;
        self.cpu_ns += ended_ns;
        self.cpu_ns_by_ticks += ended_ns;
        // Without a first figure there is no difference, unless it began at zero.
        let written_then = match earlier {
            Some(earlier) => earlier.written,
            None => Some(Written::default()),
        };
        self.written =
            self.written.and_then(|sum| Some(sum.plus(process.written?.since(written_then?).since(already.written))));
    }
}

/// What processes had at the first look that ended before the second, by the nearest ancestor that
/// is still there, which is charged for them if they were waited for.
struct Went {
    told: BTreeMap<Identity, Told>,
    census: Census,
}

/// Counts of a process itself, and those of its ended children.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    faults: u64,
    cpu_ticks: u64,
    written: Written,
}

impl Went {
    fn between(first: &Look, second: &Look) -> Self {
        let gone = || first.processes.values().filter(|process| !second.processes.contains_key(&process.id()));
        let by_number: BTreeMap<u32, &Process> =
            first.processes.values().map(|process| (process.stat.pid, process)).collect();
        let mut told: BTreeMap<Identity, Told> = BTreeMap::new();
        for process in gone() {
            let mut line = vec![process];
            while let Some(parent) = by_number.get(&line[line.len() - 1].stat.parent) {
                if second.processes.contains_key(&parent.id()) {
                    let sum = told.entry(parent.id()).or_default();
                    sum.faults += process.stat.faults + process.stat.children_faults;
                    sum.cpu_ticks += process.stat.cpu_ticks + process.stat.children_cpu_ticks;
                    sum.written = sum.written.plus(process.written.unwrap_or_default());
                    break;
                }
                if line.iter().any(|seen| seen.id() == parent.id()) {
                    break;
                }
                line.push(parent);
            }
        }
        Self { told, census: Census::of(gone()) }
    }

    fn told_to(&self, id: &Identity) -> Told {
        self.told.get(id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TICK_NS: u64 = 10_000_000;

    /// A process with a thread of its own number, which has `cpu_ns` and switches.
    fn process(pid: u32, parent: u32, cpu_ns: u64, voluntary: u64) -> Process {
        let stat = Stat {
            pid,
            command: "x".to_owned(),
            state: 'S',
            parent,
            group: pid,
            faults: 10,
            children_faults: 0,
            cpu_ticks: cpu_ns / TICK_NS,
            children_cpu_ticks: 0,
            threads: 1,
            start_ticks: u64::from(pid),
        };
        let thread = Thread { cpu_ns: Some(cpu_ns), switches: Some(Switches { voluntary, involuntary: 1 }) };
        let threads = BTreeMap::from([((pid, stat.start_ticks), thread)]);
        Process { stat, written: Some(Written { bytes: 100, call_bytes: 10, calls: 1, read_bytes: 3 }), threads }
    }

    fn look(at: Instant, processes: impl IntoIterator<Item = Process>) -> Look {
        let processes = processes.into_iter().map(|process| (process.id(), process)).collect();
        Look { at, processes, elsewhere: BTreeSet::new() }
    }

    fn between(first: Vec<Process>, second: Vec<Process>) -> Used {
        let at = Instant::now();
        let (first, second) = (look(at, first), look(at + Duration::from_secs(2), second));
        Used::between(&first, &second, TICK_NS)
    }

    #[test]
    fn who_sleeps_uses_nothing() {
        let server = process(1, 0, 7_123, 5);
        let used = between(vec![server.clone()], vec![server]);
        assert_eq!((used.seconds, used.cpu_ns, used.cpu_ns_by_ticks), (2.0, 0, 0));
        assert_eq!((used.switches, used.written), (Some(Switches::default()), Some(Written::default())));
        assert_eq!((used.came, used.went, used.joined, used.missed), (Census::default(), Census::default(), 0, false));
    }

    #[test]
    fn what_came_counts_in_whole_and_a_number_used_again_is_somebody_else() {
        let mut again = process(2, 1, 300, 3);
        again.stat.start_ticks = 99;
        again.threads = BTreeMap::from([((2, 99), again.threads[&(2, 2)])]);
        let used =
            between(vec![process(1, 0, 1_000, 5), process(2, 1, 9_000, 9)], vec![process(1, 0, 1_500, 6), again]);
        assert_eq!(used.cpu_ns, 500 + 300);
        assert_eq!(used.switches, Some(Switches { voluntary: 1 + 3, involuntary: 1 }));
        assert_eq!(used.came, Census { processes: 1, threads: 1 });
        assert_eq!(used.went, Census { processes: 1, threads: 1 });
    }

    #[test]
    fn what_a_process_was_told_of_an_ended_child_counts_without_what_the_child_had_before() {
        let (mut parent, mut child) = (process(1, 0, 0, 0), process(2, 1, 0, 0));
        child.stat.cpu_ticks = 40;
        let first = vec![parent.clone(), child];
        // It used 60 more, and wrote 400 more, and was waited for.
        parent.stat.children_cpu_ticks = 100;
        parent.stat.children_faults = 12;
        parent.written = Some(Written { bytes: 100 + 500, call_bytes: 10 + 10, calls: 1 + 1, read_bytes: 3 + 3 });
        let used = between(first.clone(), vec![parent.clone()]);
        assert_eq!((used.cpu_ns, used.cpu_ns_by_ticks), (60 * TICK_NS, 60 * TICK_NS));
        assert_eq!(used.written, Some(Written { bytes: 400, call_bytes: 0, calls: 0, read_bytes: 0 }));
        assert!(used.went.processes == 1 && !used.missed);

        // No process waited for it: nothing is subtracted from the parent's own bytes.
        parent.stat.children_cpu_ticks = 0;
        parent.stat.children_faults = 0;
        let used = between(first, vec![parent]);
        assert_eq!((used.cpu_ns, used.written.map(|written| written.bytes)), (0, Some(500)));
    }

    #[test]
    fn an_ended_grandchild_is_told_to_the_nearest_that_is_left() {
        let mut root = process(1, 0, 0, 0);
        let first = vec![root.clone(), process(2, 1, 3 * TICK_NS, 0), process(3, 2, 5 * TICK_NS, 0)];
        root.stat.children_cpu_ticks = 3 + 5 + 4;
        root.stat.children_faults = 20;
        let used = between(first, vec![root]);
        assert_eq!(used.cpu_ns, 4 * TICK_NS);
        assert_eq!(used.went, Census { processes: 2, threads: 2 });
    }

    #[test]
    fn processes_that_neither_look_saw_are_known_by_their_page_faults() {
        let mut parent = process(1, 0, 0, 0);
        let first = vec![parent.clone()];
        parent.stat.children_faults = 50;
        parent.stat.children_cpu_ticks = 3;
        let used = between(first, vec![parent]);
        assert!(used.missed);
        assert_eq!(used.cpu_ns, 3 * TICK_NS);
    }

    #[test]
    fn ended_threads_count_once_their_time_is_more_than_rounding() {
        let first = process(1, 0, 1_000, 0);
        let with_ticks = |ticks| {
            let mut second = first.clone();
            second.stat.cpu_ticks = ticks;
            between(vec![first.clone()], vec![second]).cpu_ns
        };
        assert_eq!([0, 1, 2, 3, 50].map(with_ticks), [0, 0, 0, 3 * TICK_NS, 50 * TICK_NS]);

        let mut two = first.clone();
        two.threads.insert((7, 7), two.threads[&(1, 1)]);
        let used = between(vec![two], vec![first]);
        assert_eq!((used.went, used.cpu_ns), (Census { processes: 0, threads: 1 }, 0));
    }

    #[test]
    fn who_was_elsewhere_before_is_not_counted() {
        let at = Instant::now();
        let mut first = look(at, [process(1, 0, 0, 0)]);
        first.elsewhere.insert((5, 5));
        let second = look(at, [process(1, 0, 0, 0), process(5, 1, 1 << 40, 1 << 40)]);
        let used = Used::between(&first, &second, TICK_NS);
        assert_eq!((used.joined, used.cpu_ns, used.came), (1, 0, Census::default()));
        assert_eq!(used.switches, Some(Switches::default()));
    }

    #[test]
    fn what_could_not_be_read_is_not_zero() {
        let mut second = process(1, 0, 2 * TICK_NS, 0);
        second.written = None;
        for thread in second.threads.values_mut() {
            *thread = Thread { cpu_ns: None, switches: None };
        }
        let used = between(vec![process(1, 0, 0, 0)], vec![second.clone()]);
        assert_eq!((used.written, used.switches, used.has_cpu_ns), (None, None, false));
        assert_eq!(used.cpu_ns, 2 * TICK_NS);
        // Neither is what could only be read later.
        let used = between(vec![second], vec![process(1, 0, 0, 0)]);
        assert_eq!(used.written, None);
    }

    #[test]
    fn a_tree_is_the_roots_their_descendants_and_the_group() {
        let stat = |pid: u32, parent: u32, group: u32| Stat { group, ..process(pid, parent, 0, 0).stat };
        let stats =
            [stat(1, 0, 1), stat(2, 1, 2), stat(3, 2, 2), stat(4, 3, 4), stat(5, 1, 2), stat(6, 1, 6), stat(7, 5, 7)];
        let machine = Machine { processes: stats.map(|stat| (stat.pid, stat)).into() };
        let tree = |roots: &[u32], group| machine.tree(roots, group).into_iter().collect::<Vec<_>>();
        assert_eq!(tree(&[2], None), [2, 3, 4]);
        assert_eq!(tree(&[2], Some(2)), [2, 3, 4, 5, 7]);
        assert!(tree(&[8], None).is_empty());
        assert_eq!(tree(&[3, 6, 9], None), [3, 4, 6]);
        assert_eq!(machine.line_of(4), [4, 3, 2, 1]);
        assert!(machine.line_of(9).is_empty());
    }

    #[test]
    fn this_process_is_found_with_its_threads() {
        let (told, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        let machine = Machine::look().unwrap();
        let own = std::process::id();
        let look = Look::take(&machine, own, None, None);
        let stat = machine.get(own).unwrap();
        assert!(look.has_living(own, stat.start_ticks) && !look.has_living(own, stat.start_ticks + 1));
        assert!(look.census().processes >= 1 && look.census().threads >= 2, "{:?}", look.census());
        assert!(machine.line_of(own).len() > 1);
        assert!(look.memory().rss_bytes.unwrap() > 100_000);
        let used = Used::between(&look, &Look::take(&Machine::look().unwrap(), own, None, Some(&look)), TICK_NS);
        assert!(used.switches.is_some() && used.seconds > 0.0, "{used:?}");
        drop(told);
        assert!(thread.join().unwrap().is_err());
    }
}
