//! `colibri bench idle`: what processes cost while nothing is asked of them. It measures any
//! process, with all its descendants.
//!
//! ```text
//! start commands ── settle ── look ── wait ── look, read memory ── end commands     all targets in one window
//! for control: start ── settle ── look ── wait ── look, read memory ── end          each in a window of its own
//! ```
//!
//! Read it in this order: `window` (settle, look, wait, look), `measure::process_tree` (what a look
//! sees, and the difference between two), `measure::accounts` (the kernel's texts), `commands`
//! (what is started, and how all of it ends), `control`, `measure::energy`.
//!
//! The control group is this program again, as three processes that are measured like any other: a
//! thread that wakes up every 64 µs, one that wakes up every 1,024 µs, and one that never does. The
//! first two are the resolutions of a scheduler thread for which 15,625 and 977 wake-ups a second
//! were published. Targets share a window, because idle targets do not disturb each other. The
//! control group does disturb: cores that wake up 15,625 times a second do not sleep deeply, and
//! energy is measured for the whole machine. So its members are measured after all targets, one
//! after the other.
//!
//! # Traps
//!
//! - **A voluntary switch stands for a wake-up.** A thread leaves the processor to wait, and each
//!   wait ends with a wake-up. Wake-ups, and not processor time, keep a processor from sleeping.
//! - **Processor time has a resolution.** It is exact to the nanosecond for threads that sleep at
//!   both looks. For a running thread it is as of the kernel's last tick. Where the kernel has no
//!   `schedstat`, time comes in ticks of mostly 10 ms, and less than a tick shows as `<`.
//!   `cpu_resolution_us_per_s` says how little can be seen.
//! - **What ends within the window is counted in part**: see `process_tree`. The row says how many
//!   came and went.
//! - **Bytes are those of pages that were made dirty**, counted at that time. A page that is
//!   written again before it reached the disk counts once. What the journal or a copy-on-write file
//!   system adds is not counted, and tmpfs counts nothing. Write calls count what was asked for, on
//!   sockets as well, but neither `io_uring` nor mapped memory.
//! - **Work of the kernel belongs to no process**: interrupts and its own threads. Energy includes
//!   it, and everything else on the machine.
//! - **A client is not its server.** The processes of a container are no descendants of `docker
//!   run`, and a command that goes to the background is no descendant of its shell: measure such
//!   processes with `--pid`.
//! - **A daemon that a command leaves behind** is in its tree only while it keeps the parent or the
//!   process group. It is ended with the rest in any case.
//! - **Processes of other users** show their bytes and their memory to themselves and root only. A
//!   figure that could not be read is `-` in the table and null in the data, never 0.
//! - **Settling is short.** A server that has just started may tidy up for minutes. Give it longer
//!   to measure what comes after that.
//!
//! Not here: what a target does under load, and what it costs to come back from idle.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::measure::environment::Environment;
use crate::measure::flags::without_repeats;
use crate::measure::format::{align, significant};
use crate::measure::output::{self, ResultArgs, ResultFiles, say};
use crate::measure::plot::{Panel, Plot, Shape};
use crate::measure::progress::Progress;
use crate::measure::{Error, Result};

mod commands;
mod control;
mod window;

pub use control::Control;

use crate::measure::energy::Packages;
use crate::measure::process_tree::{self, Census, Machine};
use commands::Commands;
use control::CONTROLS;
use window::{Kind, Measured, Target};

/// A shorter window shows a moment only, and a longer one takes too long.
const SECONDS_MIN: f64 = 0.1;
const SECONDS_MAX: f64 = 86_400.0;
/// A member of the control group only has to start.
const CONTROL_SETTLE_MAX: Duration = Duration::from_millis(500);
/// So many characters of a name are shown in the table, and in a line below a bar.
const NAME_CHARS: usize = 40;
const PLOT_NAME_CHARS: usize = 14;

/// Measure what processes cost while nothing is asked of them.
///
/// For each process tree: processor time, context switches, bytes written, memory, over a window
/// after settling; and the machine's energy, where it can be read. A control group is measured
/// beside them: a thread that wakes up every 64 µs, one every 1,024 µs, one never. Commands are
/// ended afterwards.
#[derive(Debug, Clone, Args)]
pub struct IdleArgs {
    /// Length of the window in seconds; 0.5 is possible
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Seconds before the window begins
    #[arg(long, default_value_t = 5.0)]
    pub settle: f64,
    /// Process to measure, with all its descendants; for several, give the flag several times
    #[arg(long)]
    pub pid: Vec<u32>,
    /// Command line to measure, for `sh -c`; for several, give the flag several times
    #[arg(long, value_name = "WORDS")]
    pub command: Vec<String>,
    /// Measure no control group
    #[arg(long)]
    pub no_control: bool,
    /// Show on standard error what commands print
    #[arg(long)]
    pub show_output: bool,
    /// Where the results go.
    #[command(flatten)]
    pub output: ResultArgs,
    /// Command to measure, started without a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
    /// Be a member of the control group.
    #[arg(long, value_enum, hide = true)]
    pub control: Option<Control>,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    bench: &'static str,
    target: String,
    /// "pid", "command" or "control".
    kind: &'static str,
    pid: u32,
    window_s: f64,
    settle_s: f64,
    cpu_us_per_s: f64,
    /// Of one core.
    cpu_percent: f64,
    /// Less may show as nothing.
    cpu_resolution_us_per_s: f64,
    voluntary_per_s: Option<f64>,
    involuntary_per_s: Option<f64>,
    /// Pages of files made dirty.
    bytes_written_per_s: Option<f64>,
    /// Given to write calls, for sockets as well.
    write_call_bytes_per_s: Option<f64>,
    write_calls_per_s: Option<f64>,
    pss_bytes: Option<u64>,
    rss_bytes: Option<u64>,
    processes: u64,
    threads: u64,
    /// There at the end of the window and not at its beginning.
    processes_came: u64,
    threads_came: u64,
    /// There at the beginning of the window and not at its end.
    processes_went: u64,
    threads_went: u64,
    /// Of the whole machine.
    machine_energy_joules: Option<f64>,
    machine_power_watts: Option<f64>,
    notes: String,
    env: Environment,
    /// Those of the notes that are about this row alone.
    #[serde(skip)]
    own_notes: Vec<String>,
}

/// What all rows of a run have in common.
struct Run {
    window: Duration,
    settle: Duration,
    /// The counters of energy, or why there are none.
    packages: std::result::Result<Packages, String>,
    environment: Environment,
}

/// Runs the benchmark: progress to standard error, results to standard output and to the files
/// asked for.
///
/// The control group is the running program again, with the words `bench idle --control`. A program
/// other than `colibri` that calls this has to understand them, or to leave the control group out.
///
/// # Errors
///
/// Wrong flags, a process that is not there and a program that cannot be started are refused before
/// anything is measured. A target that ends within its window is an error, too.
pub fn run(args: &IdleArgs) -> Result<()> {
    if let Some(control) = args.control {
        return control.run();
    }
    let [window, settle] = durations(args)?;
    let pids = pids(args)?;
    let targets = pids.iter().map(|&pid| Target::new(Kind::Pid, None, pid)).collect::<Result<Vec<_>>>()?;
    let files = ResultFiles::new(&args.output, "idle")?;
    let packages = Packages::find();
    let run = Run { window, settle, packages, environment: Environment::observe(Path::new(".")) };
    let windows = u64::from(targets_count(args) > 0) + if args.no_control { 0 } else { CONTROLS.len() as u64 };
    let progress = Progress::new(windows);
    let rows = measure(args, &run, targets, &progress);
    progress.finish();
    let rows = rows?;
    print(&run, &rows);
    files.write(&rows, &plot(&rows))
}

fn targets_count(args: &IdleArgs) -> usize {
    args.pid.len() + args.command.len() + usize::from(!args.words.is_empty())
}

fn durations(args: &IdleArgs) -> Result<[Duration; 2]> {
    let within = |flag: &str, seconds: f64, min: f64| {
        if (min..=SECONDS_MAX).contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        Err(Error::usage(format!("{flag} is {seconds}, but must be from {min} to {SECONDS_MAX}")))
    };
    Ok([within("--seconds", args.seconds, SECONDS_MIN)?, within("--settle", args.settle, 0.0)?])
}

/// The processes to measure, none of which is this one or has it among its descendants.
fn pids(args: &IdleArgs) -> Result<Vec<u32>> {
    if args.no_control && targets_count(args) == 0 {
        return Err(Error::usage("there is nothing to measure: give --pid or a command, or leave out --no-control"));
    }
    let machine = Machine::look().map_err(|error| Error::io("cannot read", "/proc", error))?;
    let own = std::process::id();
    let line = machine.line_of(own);
    if line.is_empty() {
        let hidden = io::Error::other("it does not show this process");
        return Err(Error::io("cannot use", "/proc", hidden));
    }
    for &pid in &args.pid {
        if pid == own {
            return Err(Error::usage(format!("--pid {pid} is this benchmark itself")));
        }
        if line.contains(&pid) {
            return Err(Error::usage(format!(
                "--pid {pid} has this benchmark among its descendants, and would be measured with it: give a process \
                 below it"
            )));
        }
    }
    Ok(without_repeats(&args.pid))
}

/// The targets side by side, then one member of the control group after another.
fn measure(args: &IdleArgs, run: &Run, mut targets: Vec<Target>, progress: &Progress) -> Result<Vec<Row>> {
    let commands = Commands::new()?;
    for (name, mut command) in commands_of(args) {
        quieten(&mut command, args.show_output)?;
        let pid = commands.start(&mut command, &name)?;
        targets.push(Target::new(Kind::Command, Some(name), pid)?);
    }
    let mut rows = Vec::new();
    if !targets.is_empty() {
        rows.extend(measure_window(run, &targets, run.settle, progress)?);
    }
    commands.end();
    let controls = if args.no_control { &[][..] } else { &CONTROLS[..] };
    for control in controls {
        let mut command = control.command()?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let pid = commands.start(&mut command, control.name())?;
        let target = Target::new(Kind::Control, Some(control.name().to_owned()), pid)?;
        rows.extend(measure_window(run, &[target], run.settle.min(CONTROL_SETTLE_MAX), progress)?);
        commands.end();
    }
    Ok(rows)
}

/// The commands to start, with the names that they have in the results.
fn commands_of(args: &IdleArgs) -> Vec<(String, Command)> {
    let shell = args.command.iter().map(|words| {
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        (words.clone(), command)
    });
    let direct = args.words.split_first().map(|(program, words)| {
        let mut command = Command::new(program);
        command.args(words);
        let all: Vec<_> = args.words.iter().map(|word| word.to_string_lossy()).collect();
        (all.join(" "), command)
    });
    shell.chain(direct).collect()
}

/// Nothing to read, and what it prints goes nowhere, or to standard error, as standard output has
/// the results.
fn quieten(command: &mut Command, show_output: bool) -> Result<()> {
    command.stdin(Stdio::null());
    for set in [Command::stdout::<Stdio>, Command::stderr::<Stdio>] {
        let output = match show_output {
            true => io::stderr().as_fd().try_clone_to_owned().map(Stdio::from),
            false => Ok(Stdio::null()),
        };
        set(command, output.map_err(|error| Error::io("cannot pass on", "standard error", error))?);
    }
    Ok(())
}

fn measure_window(run: &Run, targets: &[Target], settle: Duration, progress: &Progress) -> Result<Vec<Row>> {
    let names: Vec<String> = targets.iter().map(|target| shortened(&target.name)).collect();
    progress.begin(&names.join(", "));
    let measured = window::measure(targets, settle, run.window, run.packages.as_ref().ok())?;
    let beside = targets.len() - 1;
    let rows: Vec<Row> =
        targets.iter().zip(&measured).map(|(target, measured)| row(run, target, settle, beside, measured)).collect();
    for row in &rows {
        let wake_ups = row.voluntary_per_s.map_or("-".to_owned(), exact);
        progress.line(&format!(
            "{}: {} µs/s of CPU, {wake_ups} voluntary switches/s in {:.1} s",
            shortened(&row.target),
            cpu(row, row.cpu_us_per_s, 1.0),
            row.window_s
        ));
    }
    progress.advance();
    Ok(rows)
}

fn row(run: &Run, target: &Target, settle: Duration, beside: usize, measured: &Measured) -> Row {
    let Measured { used, census, memory, energy } = measured;
    let seconds = used.seconds.max(f64::MIN_POSITIVE);
    let per_s = |count: u64| count as f64 / seconds;
    let cpu_us_per_s = per_s(used.cpu_ns) / 1e3;
    let own_notes = own_notes(measured, seconds);
    let mut notes = own_notes.clone();
    notes.push(NOTE.to_owned());
    if beside > 0 {
        notes.push(format!("in one window with {beside} other {}", plural(beside as u64, "target", "targets")));
    }
    if energy.is_none() {
        notes.push(format!("no energy: {}", run.no_energy()));
    }
    Row {
        bench: "idle",
        target: target.name.clone(),
        kind: match target.kind {
            Kind::Pid => "pid",
            Kind::Command => "command",
            Kind::Control => "control",
        },
        pid: target.pid,
        window_s: used.seconds,
        settle_s: settle.as_secs_f64(),
        cpu_us_per_s,
        cpu_percent: cpu_us_per_s / 1e4,
        cpu_resolution_us_per_s: per_s(if used.has_cpu_ns { 1 } else { process_tree::rounding_ns() }) / 1e3,
        voluntary_per_s: used.switches.map(|switches| per_s(switches.voluntary)),
        involuntary_per_s: used.switches.map(|switches| per_s(switches.involuntary)),
        bytes_written_per_s: used.written.map(|written| per_s(written.bytes)),
        write_call_bytes_per_s: used.written.map(|written| per_s(written.call_bytes)),
        write_calls_per_s: used.written.map(|written| per_s(written.calls)),
        pss_bytes: memory.pss_bytes,
        rss_bytes: memory.rss_bytes,
        processes: census.processes,
        threads: census.threads,
        processes_came: used.came.processes,
        threads_came: used.came.threads,
        processes_went: used.went.processes,
        threads_went: used.went.threads,
        machine_energy_joules: energy.map(|energy| energy.joules),
        machine_power_watts: energy.map(|energy| energy.watts),
        notes: notes.join("; "),
        env: run.environment.clone(),
        own_notes,
    }
}

impl Run {
    fn no_energy(&self) -> &str {
        self.packages.as_ref().err().map_or("its counters could not be read", String::as_str)
    }
}

const NOTE: &str = "CPU is that of one core; a voluntary switch is a wait, which ends with a wake-up; written are pages of \
                    files made dirty; PSS divides pages among the processes that share them; processes and threads as \
                    of the end of the window";

/// What has to be known about this row only.
fn own_notes(measured: &Measured, seconds: f64) -> Vec<String> {
    let used = &measured.used;
    let mut notes = Vec::new();
    let census = |census: Census| {
        let Census { processes, threads } = census;
        let name = plural(processes, "process", "processes");
        format!("{processes} {name} and {threads} {}", plural(threads, "thread", "threads"))
    };
    if used.came != Census::default() || used.went != Census::default() {
        notes.push(format!("{} came, {} went", census(used.came), census(used.went)));
    }
    if used.missed {
        notes.push("processes came and went between the looks".to_owned());
    }
    // With nanoseconds known, ticks tell of the dead only: threads that neither look saw are in
    // them.
    if used.missed || used.went != Census::default() || (used.has_cpu_ns && used.cpu_ns_by_ticks > 0) {
        let by_ticks = exact(used.cpu_ns_by_ticks as f64 / 1e3 / seconds);
        notes.push(format!(
            "of what went, switches are not counted, and CPU time by clock ticks as far as it was told: {by_ticks} µs/s"
        ));
    }
    if used.joined > 0 {
        notes.push(format!("{} joined from elsewhere, not counted", used.joined));
    }
    if !used.has_cpu_ns {
        notes.push("the kernel tells CPU time in clock ticks only".to_owned());
    }
    if used.switches.is_none() {
        notes.push("context switches cannot be read from /proc".to_owned());
    }
    if used.written.is_none() {
        notes.push("bytes written cannot be read: /proc/PID/io is for the same user and for root".to_owned());
    }
    if measured.memory.pss_bytes.is_none() {
        notes.push("PSS cannot be read: /proc/PID/smaps_rollup is for the same user and for root".to_owned());
    }
    notes
}

fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Two digits that matter at least, and 0 for nothing only.
fn exact(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 0.1 => format!("{v:.*}", (1.0 - v.log10().floor()).min(9.0) as usize),
        v => significant(v),
    }
}

/// Processor time in another unit; `unit` is how many of these a µs/s has.
fn cpu(row: &Row, value: f64, unit: f64) -> String {
    let resolution = row.cpu_resolution_us_per_s * unit;
    if value == 0.0 && row.cpu_resolution_us_per_s > 1.0 { format!("<{}", exact(resolution)) } else { exact(value) }
}

fn print(run: &Run, rows: &[Row]) {
    output::print_heading(&run.environment);
    say!("\n{}", table(rows));
    say!("note: {NOTE}");
    say!("note: {:.1} s of window after {:.1} s", run.window.as_secs_f64(), run.settle.as_secs_f64());
    if rows.iter().filter(|row| row.kind != "control").count() > 1 {
        say!("note: all targets in one window, side by side");
    }
    if rows.iter().any(|row| row.kind == "control") {
        say!(
            "note: control group: {} and {} are published as 15,625 and 977 wake-ups/s; each in a window of its own after \
             {:.1} s",
            Control::Tick64.name(),
            Control::Tick1024.name(),
            run.settle.min(CONTROL_SETTLE_MAX).as_secs_f64()
        );
        if cfg!(debug_assertions) {
            say!("note: control group of a debug build: not for publication");
        }
    }
    match rows.iter().all(|row| row.machine_power_watts.is_none()) {
        true => say!("note: no energy: {}", run.no_energy()),
        false => say!("note: energy is that of the whole machine's processor packages, whatever runs on them"),
    }
    for row in rows {
        for note in &row.own_notes {
            say!("note: {}: {note}", shortened(&row.target));
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut headings = vec!["target", "CPU %", "CPU µs/s", "voluntary/s", "involuntary/s", "written B/s"];
    headings.extend(["write calls/s", "PSS MB", "RSS MB", "processes", "threads"]);
    let with_energy = rows.iter().any(|row| row.machine_power_watts.is_some());
    if with_energy {
        headings.extend(["machine J", "machine W"]);
    }
    let mut cells = vec![headings.into_iter().map(str::to_owned).collect()];
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), exact);
    for row in rows {
        let mut line = vec![shortened(&row.target), cpu(row, row.cpu_percent, 1e-4), cpu(row, row.cpu_us_per_s, 1.0)];
        line.extend([row.voluntary_per_s, row.involuntary_per_s, row.bytes_written_per_s].map(or_dash));
        line.push(or_dash(row.write_calls_per_s));
        line.extend([row.pss_bytes, row.rss_bytes].map(|bytes| or_dash(bytes.map(|bytes| bytes as f64 / 1e6))));
        line.extend([row.processes, row.threads].map(|count| count.to_string()));
        if with_energy {
            line.extend([row.machine_energy_joules, row.machine_power_watts].map(or_dash));
        }
        cells.push(line);
    }
    align(&cells, 1)
}

/// Letters that a terminal or a picture may not take are not shown.
fn printable(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter })
}

fn shortened(name: &str) -> String {
    let letters: Vec<char> = printable(name).collect();
    match letters.len() <= NAME_CHARS {
        true => letters.iter().collect(),
        false => letters[..NAME_CHARS - 1].iter().chain(&['…']).collect(),
    }
}

/// Two lines below a bar: what begins the name, and the process.
fn plot_name(row: &Row) -> String {
    let letters: Vec<char> = printable(&row.target).collect();
    let first: String = match letters.len() <= PLOT_NAME_CHARS {
        true => letters.iter().collect(),
        false => letters[..PLOT_NAME_CHARS - 1].iter().chain(&['…']).collect(),
    };
    if row.kind == "control" { format!("{first}\ncontrol") } else { format!("{first}\n{}", row.pid) }
}

fn plot(rows: &[Row]) -> Plot {
    let panel = |title: &str, series: Vec<(&str, Vec<f64>)>| Panel {
        title: title.to_owned(),
        shape: Shape::Bars(rows.iter().map(plot_name).collect()),
        logarithmic: true,
        series: series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
    };
    let of = |of: fn(&Row) -> Option<f64>| rows.iter().map(|row| of(row).unwrap_or(f64::NAN)).collect::<Vec<_>>();
    let switches = vec![("voluntary", of(|row| row.voluntary_per_s)), ("involuntary", of(|row| row.involuntary_per_s))];
    let cpu = vec![("CPU", of(|row| Some(row.cpu_us_per_s)))];
    let mut panels = vec![
        panel("context switches a second; each voluntary one ends with a wake-up", switches),
        panel("CPU time, µs a second (10,000 are 1 % of a core)", cpu),
    ];
    if rows.iter().any(|row| row.machine_power_watts.is_some()) {
        let watts = vec![("machine", of(|row| row.machine_power_watts))];
        panels.push(Panel { logarithmic: false, ..panel("power of the machine's processor packages, watts", watts) });
    }
    Plot { title: "What processes cost while nothing is asked of them".to_owned(), panels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn measured() -> Measured {
        let used = process_tree::Used {
            seconds: 2.0,
            cpu_ns: 0,
            cpu_ns_by_ticks: 0,
            has_cpu_ns: true,
            switches: Some(crate::measure::accounts::Switches { voluntary: 4, involuntary: 0 }),
            written: Some(crate::measure::accounts::Written { bytes: 8192, call_bytes: 20, calls: 2, read_bytes: 0 }),
            came: Census::default(),
            went: Census::default(),
            joined: 0,
            missed: false,
        };
        let memory = process_tree::Memory { pss_bytes: Some(1_500_000), rss_bytes: Some(2_000_000) };
        Measured { used, census: Census { processes: 1, threads: 3 }, memory, energy: None }
    }

    fn row_of(measured: &Measured) -> Row {
        let run = Run {
            window: Duration::from_secs(2),
            settle: Duration::ZERO,
            packages: Err("there is no package".to_owned()),
            environment: Environment::observe(Path::new(".")),
        };
        let target = Target::new(Kind::Pid, Some("a\u{7} name".to_owned()), std::process::id()).unwrap();
        row(&run, &target, run.settle, 0, measured)
    }

    #[test]
    fn rates_are_a_second() {
        let mut measured = measured();
        measured.used.cpu_ns = 3_000;
        let row = row_of(&measured);
        assert_eq!((row.cpu_us_per_s, row.cpu_percent), (1.5, 0.00015));
        assert_eq!((row.voluntary_per_s, row.involuntary_per_s), (Some(2.0), Some(0.0)));
        assert_eq!((row.bytes_written_per_s, row.write_calls_per_s), (Some(4096.0), Some(1.0)));
        assert!(row.own_notes.is_empty() && row.notes.contains("no energy: there is no package"), "{}", row.notes);
        let text = table(&[row]);
        assert!(text.contains("0.00015") && text.contains("a? name") && !text.contains("machine W"), "{text}");
    }

    #[test]
    fn what_could_not_be_read_is_a_dash_and_null_and_a_note() {
        let mut measured = measured();
        (measured.used.written, measured.used.switches, measured.memory.pss_bytes) = (None, None, None);
        measured.used.has_cpu_ns = false;
        let row = row_of(&measured);
        assert_eq!(row.own_notes.len(), 4, "{:?}", row.own_notes);
        let json = serde_json::to_value(&row).unwrap();
        for field in ["bytes_written_per_s", "voluntary_per_s", "pss_bytes", "machine_power_watts"] {
            assert!(json.get(field).is_some_and(serde_json::Value::is_null), "{field}: {json}");
        }
        assert!(json.get("own_notes").is_none());
        let text = table(&[row]);
        assert!(text.contains(" - ") && text.contains('<'), "{text}");
    }

    #[test]
    fn who_came_and_who_went_is_said() {
        let mut measured = measured();
        assert!(row_of(&measured).own_notes.is_empty());
        measured.used.cpu_ns_by_ticks = 20_000_000;
        assert!(row_of(&measured).own_notes.join("; ").contains("10,000 µs/s"), "threads that came and went unseen");
        measured.used.went = Census { processes: 1, threads: 2 };
        measured.used.missed = true;
        measured.used.joined = 1;
        let notes = row_of(&measured).own_notes.join("; ");
        assert!(notes.contains("0 processes and 0 threads came, 1 process and 2 threads went"), "{notes}");
        assert!(notes.contains("between the looks") && notes.contains("joined"), "{notes}");
    }

    #[test]
    fn only_nothing_is_zero() {
        let values = [0.0, 1e-6, 0.00034, 0.033, 0.099, 0.5, 976.6, 15_625.0];
        let expected = ["0", "0.0000010", "0.00034", "0.033", "0.099", "0.50", "977", "15,625"];
        assert_eq!(values.map(exact), expected);
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        for (flags, reason) in [
            ("--seconds 0.01".to_owned(), "--seconds is 0.01"),
            ("--seconds NaN".to_owned(), "--seconds is NaN"),
            ("--seconds 1e9".to_owned(), "must be from"),
            ("--settle=-1".to_owned(), "--settle is -1"),
            ("--no-control".to_owned(), "nothing to measure"),
            (format!("--pid {own}"), "this benchmark itself"),
            (format!("--pid {parent}"), "among its descendants"),
        ] {
            let error = run(&parse(&flags).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }) && error.to_string().contains(reason), "{flags}: {error}");
        }
        assert!(parse::<IdleArgs>("--pid x").is_err() && parse::<IdleArgs>("--control x").is_err());
        let missing = run(&parse("--pid 8388608").unwrap()).unwrap_err();
        assert_eq!(missing.to_string(), "cannot measure process 8388608: there is no such process");
    }

    #[test]
    fn commands_are_named_by_their_words() {
        let mut args: IdleArgs = parse("--command one -- two --three four").unwrap();
        args.command.push("a 'b c'".to_owned());
        let commands = commands_of(&args);
        let names: Vec<_> = commands.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["one", "a 'b c'", "two --three four"]);
        let words: Vec<_> = commands[1].1.get_args().collect();
        assert_eq!(words, ["-c", "a 'b c'"]);
        assert_eq!(commands[2].1.get_program(), "two");
    }

    #[test]
    fn the_picture_has_a_bar_for_each_target() {
        let mut measured = measured();
        measured.used.switches = None;
        let svg = plot(&[row_of(&measured), row_of(&self::measured())]).render();
        assert!(svg.contains("a? name") && !svg.contains("NaN") && !svg.contains('\u{7}'), "{svg}");
        // A background, three keys, two bars of switches, two of processor time.
        assert_eq!(svg.matches("<rect").count(), 1 + 3 + 2 + 2);
    }
}
