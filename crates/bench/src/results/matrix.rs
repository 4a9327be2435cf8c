//! `colibri bench matrix FILE`: a described set of workloads on targets, interleaved, in one
//! report.
//!
//! ```toml
//! rounds = 3
//!
//! [[workload]]
//! name = "TPC-C, 1 warehouse"
//! command = "tpcc --warehouses 1 --no-wait --duration 30s"
//!
//! [[target]]
//! name = "colibri"
//! flags = "--target colibri"
//!
//! [[target]]
//! name = "postgresql"
//! only = "TPC-C"
//! before = "scripts/bench-server start postgresql"
//! flags = "--target {URL} --server-pid {PID}"
//! after = "scripts/bench-server stop postgresql"
//! ```
//!
//! Each round runs every workload on every target, the targets next to each other in time, so that
//! what changes on the machine changes for all. Each run is a process of its own, so none finds
//! what another left in memory. A target with `only` takes part in the workloads whose names
//! contain that.
//!
//! `before` and `after` are commands of the shell around each run on a target; `COLIBRI` in their
//! environment is this program. Lines `NAME=value` that `before` prints are put into the flags of
//! the target in the place of `{NAME}`: where the server is that it has started, and its process.
//! Words of flags may be quoted.
//!
//! A run that fails is reported and left out; the others go on, and the exit code says so in the
//! end. What has been measured is written after each run. A signal (SIGINT, SIGTERM) ends the
//! matrix behind the run that is under way, and behind its `after`.
//!
//! `--time-scale`, `--rounds`, `--select` and `--skip` make a short form of a long matrix. Figures
//! of a short form are a look, and no result: the command that is part of each result says how long
//! it ran.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::measure::flags::check_range;
use crate::measure::format::{align, significant};
use crate::measure::output::{self, say, tell};
use crate::measure::{Error, Result, bootstrap};
use crate::sql::result::{RunResult, read};
use crate::sql::{args, html};

/// Run a described set of workloads on targets, interleaved
///
/// The description is a TOML file with `rounds`, `[[workload]]` (name, command) and `[[target]]`
/// (name, flags, only, before, after).
#[derive(Debug, Clone, Args)]
pub struct MatrixArgs {
    /// The description
    pub file: PathBuf,
    /// Rounds, whatever the description says
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Run and warm up for this multiple of what the description says
    #[arg(long, default_value_t = 1.0)]
    pub time_scale: f64,
    /// Only workloads whose names contain one of these
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    pub select: Vec<String>,
    /// Not those whose names contain one of these
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// File to write all results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to write all results to, as a page with charts
    #[arg(long)]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(default = "one")]
    rounds: u32,
    workload: Vec<WorkloadEntry>,
    target: Vec<TargetEntry>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadEntry {
    name: String,
    /// As behind `colibri bench`.
    command: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetEntry {
    name: String,
    flags: String,
    /// The workloads that it takes part in: their names contain this.
    only: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl TargetEntry {
    fn takes_part_in(&self, workload: &WorkloadEntry) -> bool {
        self.only.as_ref().is_none_or(|only| workload.name.contains(only.as_str()))
    }
}

impl Description {
    fn parse(text: &str, path: &Path) -> Result<Self> {
        let described: Self = toml::from_str(text).map_err(|e| Error::usage(format!("{}: {e}", path.display())))?;
        check_range("rounds", described.rounds.into(), 1, 1_000)?;
        if described.workload.is_empty() || described.target.is_empty() {
            return Err(Error::usage(format!("{} needs a [[workload]] and a [[target]]", path.display())));
        }
        let names = |names: Vec<&String>, what: &str| {
            let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
            twice.map_or(Ok(()), |(_, name)| {
                // Their results would be rounds of one.
                Err(Error::usage(format!("{}: two [[{what}]] are called {name:?}: name them apart", path.display())))
            })
        };
        names(described.workload.iter().map(|workload| &workload.name).collect(), "workload")?;
        names(described.target.iter().map(|target| &target.name).collect(), "target")?;
        for command in described.workload.iter().map(|workload| &workload.command) {
            scaled(words(command)?, 1.0)?;
        }
        for flags in described.target.iter().map(|target| &target.flags) {
            words(flags)?;
        }
        Ok(described)
    }

    /// What the flags want of it.
    ///
    /// # Errors
    /// If nothing is left, or a flag is out of range.
    fn shortened(mut self, args: &MatrixArgs) -> Result<Self> {
        if !(args.time_scale > 0.0 && args.time_scale <= 1_000.0) {
            return Err(Error::usage(format!("--time-scale is above 0 and at most 1000, not {}", args.time_scale)));
        }
        self.rounds = args.rounds.unwrap_or(self.rounds);
        check_range("--rounds", self.rounds.into(), 1, 1_000)?;
        let contains = |name: &str, texts: &[String]| texts.iter().any(|text| name.contains(text.trim()));
        self.workload.retain(|workload| {
            (args.select.is_empty() || contains(&workload.name, &args.select)) && !contains(&workload.name, &args.skip)
        });
        if self.runs().is_empty() {
            return Err(Error::usage("--select and --skip leave nothing to run"));
        }
        Ok(self)
    }

    /// Round, workload and target of all runs, in their order.
    fn runs(&self) -> Vec<(u32, usize, usize)> {
        let mut runs = Vec::new();
        for round in 0..self.rounds {
            for (number, workload) in self.workload.iter().enumerate() {
                // The first target of a round finds a machine that has just done something else, so
                // targets take turns.
                let count = self.target.len();
                let targets = (0..count).map(|at| (at + round as usize) % count);
                let targets = targets.filter(|&target| self.target[target].takes_part_in(workload));
                runs.extend(targets.map(|target| (round, number, target)));
            }
        }
        runs
    }
}

/// The words of a command with its times scaled; those that it does not name are named.
fn scaled(mut words: Vec<String>, scale: f64) -> Result<Vec<String>> {
    for (flag, default) in [("--duration", args::DURATION_DEFAULT), ("--warmup", args::WARMUP_DEFAULT)] {
        let place = words.iter().position(|word| word == flag || word.starts_with(&format!("{flag}=")));
        let value = match place {
            Some(at) => match words[at].split_once('=') {
                Some((_, value)) => value.to_owned(),
                None => words.get(at + 1).cloned().ok_or_else(|| Error::usage(format!("{flag} needs a value")))?,
            },
            None => default.to_owned(),
        };
        let time = args::duration(&value).map_err(|e| Error::usage(format!("{flag} {value}: {e}")))?;
        if let Some(at) = place {
            words.drain(at..=at + usize::from(words[at] == flag));
        }
        let time = Duration::try_from_secs_f64(time.as_secs_f64() * scale).map_err(|e| Error::usage(e.to_string()))?;
        words.extend([flag.to_owned(), format!("{}ms", time.as_millis())]);
    }
    Ok(words)
}

/// Flags with the values that `before` has given.
fn filled(flags: &str, given: &[(String, String)]) -> String {
    given.iter().fold(flags.to_owned(), |flags, (name, value)| flags.replace(&format!("{{{name}}}"), value))
}

/// The first `{NAME}` of flags that nothing was given for.
fn unfilled(flags: &str) -> Option<&str> {
    let names = flags.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let mut names = names.filter(|name| is_name(name));
    names.next()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The flags of a target, with what its `before` has printed.
fn flags_of(target: &TargetEntry, printed: &str) -> Result<String> {
    let flags = filled(&target.flags, &given(printed));
    match (unfilled(&flags), &target.before) {
        (None, _) => Ok(flags),
        (Some(name), Some(before)) => Err(Error::usage(format!(
            "the flags of {} have {{{name}}}, and `before` ({before}) printed no line {name}=…",
            target.name
        ))),
        (Some(name), None) => Err(Error::usage(format!(
            "the flags of {} have {{{name}}}, and there is no `before` that prints a line {name}=…",
            target.name
        ))),
    }
}

/// Lines `NAME=value` of what `before` has printed.
fn given(printed: &str) -> Vec<(String, String)> {
    let pairs = printed.lines().filter_map(|line| line.trim().split_once('='));
    pairs.filter(|(name, _)| is_name(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The words of a line; those in quotes may have blanks.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(character), true),
            (None, character) if character.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, character) => {
                word.push(character);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err(Error::usage(format!("a quote is not closed: {line}")));
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

/// Runs a command of the description; gives what it prints.
fn shell(command: Option<&String>) -> Result<String> {
    let Some(command) = command else { return Ok(String::new()) };
    tell!("$ {command}");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let output = shell.env("COLIBRI", program()?).output().map_err(|e| Error::io("cannot run", "sh", e))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::usage(format!("{command}: {}", output.status))),
    }
}

fn program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::io("cannot find", "this program", e))
}

/// One run, with what belongs around it. Results that are not valid are results.
fn run_one(workload: &WorkloadEntry, target: &TargetEntry, time_scale: f64) -> Result<Vec<RunResult>> {
    let file = std::env::temp_dir().join(format!("colibri-bench-{}.json", std::process::id()));
    let ran = shell(target.before.as_ref()).and_then(|printed| {
        let flags = flags_of(target, &printed)?;
        let status = Command::new(program()?)
            .arg("bench")
            .args(scaled(words(&workload.command)?, time_scale)?)
            .args(words(&flags)?)
            .arg("--json")
            .arg(&file)
            .stdout(Stdio::null())
            .status();
        status.map_err(|e| Error::io("cannot run", "this program", e))
    });
    // Also if it could not be run, or `before` has failed half-way.
    let after = shell(target.after.as_ref());
    let found = read(&file);
    let _may_not_be_there = std::fs::remove_file(&file);
    let status = ran?;
    after?;
    let mut found = found.map_err(|_| Error::usage(format!("it has ended with {status}, and says above why")))?;
    for result in &mut found {
        result.workload_about.clone_from(&workload.name);
        result.target.clone_from(&target.name);
    }
    Ok(found)
}

/// A line for each workload and target, the medians of its rounds.
fn summary(description: &Description, all: &[RunResult]) -> String {
    let heading = [
        "workload",
        "target",
        "rounds",
        "transactions/s",
        "tpmC",
        "p50 ms",
        "p99 ms",
        "CPU µs",
        "written",
        "the first is",
        "",
    ];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    for workload in &description.workload {
        let mut first = None;
        for target in description.target.iter().filter(|target| target.takes_part_in(workload)) {
            let of: Vec<&RunResult> =
                all.iter().filter(|r| r.workload_about == workload.name && r.target == target.name).collect();
            let runs: Vec<&RunResult> = of.iter().copied().filter(|result| result.has_run()).collect();
            let median = |figure: &dyn Fn(&RunResult) -> Option<f64>| {
                bootstrap::median(&runs.iter().filter_map(|result| figure(result)).collect::<Vec<_>>())
            };
            let throughput = median(&|result| {
                Some(result.find_max.as_ref().map_or(result.throughput_per_s, |found| found.throughput_per_s))
            });
            let first = *first.get_or_insert(throughput);
            let shown = |value: f64| if value.is_finite() { significant(value) } else { "–".to_owned() };
            cells.push(vec![
                workload.name.clone(),
                target.name.clone(),
                runs.len().to_string(),
                shown(throughput),
                shown(median(&|result| result.figures.get("tpmC").copied())),
                shown(median(&|result| Some(result.scheduled_us.p50 / 1e3))),
                shown(median(&|result| Some(result.scheduled_us.p99 / 1e3))),
                shown(median(&|result| result.cost.cpu_us_per_txn)),
                shown(median(&|result| result.cost.written_bytes_per_txn)),
                // How many times as fast, with a ratio above one in the favour of the first.
                if (first / throughput).is_finite() {
                    format!("{} ×", significant(first / throughput))
                } else {
                    String::new()
                },
                if of.iter().any(|result| result.is_bad()) { "NOT VALID".to_owned() } else { String::new() },
            ]);
        }
    }
    align(&cells, 2)
}

/// Runs what a file describes.
///
/// # Errors
/// If the description is wrong or files cannot be written; [`Error::FailedRuns`] or
/// [`Error::InvalidResults`] if runs failed or are not valid.
pub fn run(args: &MatrixArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| Error::io("cannot read", &args.file, e))?;
    let description = Description::parse(&text, &args.file)?.shortened(args)?;
    output::ensure_writable(args.json.iter().chain(&args.html))?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
            .map_err(|e| Error::io("cannot handle signals", "", e))?;
    }
    let runs = description.runs();
    let (mut all, mut failed, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (number, &(round, workload, target)) in runs.iter().enumerate() {
        let (workload, target) = (&description.workload[workload], &description.target[target]);
        tell!("{} of {}: round {}, {} on {}", number + 1, runs.len(), round + 1, workload.name, target.name);
        match run_one(workload, target, args.time_scale) {
            Ok(found) => all.extend(found),
            Err(error) => {
                let told = format!("failed: round {}, {} on {}: {error}", round + 1, workload.name, target.name);
                tell!("{told}");
                failed.push(told);
            }
        }
        // Results so far are kept, even if later runs fail.
        write(args, &all)?;
        if is_interrupted.load(Ordering::Relaxed) {
            left_out = runs.len() - number - 1;
            tell!("interrupted: {left_out} runs are left out");
            break;
        }
    }
    say!("{}", summary(&description, &all));
    failed.iter().for_each(|told| say!("{told}"));
    let invalid = all.iter().filter(|result| result.is_bad()).count();
    match (failed.len(), left_out, invalid) {
        (0, 0, 0) => Ok(()),
        (0, 0, invalid) => Err(Error::InvalidResults { invalid, total: all.len() }),
        (failed, left_out, invalid) => Err(Error::FailedRuns { failed, left_out, invalid, total: runs.len() }),
    }
}

fn write(args: &MatrixArgs, all: &[RunResult]) -> Result<()> {
    if let Some(path) = &args.json {
        output::write_json(path, all)?;
    }
    if let Some(path) = &args.html {
        let title = args.file.file_stem().unwrap_or_default().to_string_lossy();
        output::write(path, html::page(&format!("matrix {title}"), all))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::result::tests::example;
    use crate::sql::{StockArgs, TpccArgs, YcsbArgs};

    const TEXT: &str = "rounds = 2\n[[workload]]\nname = 'A'\ncommand = 'ycsb --workload a'\n[[workload]]\nname = 'T'\n\
                        command = 'tpcc'\n[[target]]\nname = 'x'\nflags = '--target \"a b\"'\n[[target]]\nname = 'y'\nflags = ''\n";

    #[test]
    fn rounds_are_interleaved_and_targets_take_turns_in_being_first() {
        let description = Description::parse(TEXT, Path::new("m.toml")).unwrap();
        let runs = description.runs();
        assert_eq!(runs, [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0)]);
    }

    #[test]
    fn a_wrong_description_is_refused_before_anything_runs() {
        for (from, to) in [
            ("rounds = 2", "rounds = 0"),
            ("name = 'A'", "nome = 'A'"),
            ("'tpcc'", "'tpcc \"'"),
            ("[[target]]", "[[x]]"),
            ("name = 'y'", "name = 'x'"),
            ("name = 'T'", "name = 'A'"),
        ] {
            assert!(Description::parse(&TEXT.replace(from, to), Path::new("m.toml")).is_err(), "{to}");
        }
        let timed = TEXT.replace("'tpcc'", "'tpcc --duration 5y'");
        assert!(Description::parse(&timed, Path::new("m.toml")).is_err());
    }

    #[test]
    fn those_of_the_project_can_be_run() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks"));
        let mut count = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            count += 1;
            let description = Description::parse(&std::fs::read_to_string(&path).unwrap(), &path).unwrap();
            for (_, workload, target) in description.runs() {
                let (workload, target) = (&description.workload[workload], &description.target[target]);
                let words = words(&workload.command).unwrap();
                let given = [("URL".to_owned(), "postgres://h/d".to_owned()), ("PID".to_owned(), "1".to_owned())];
                let flags = filled(&target.flags, &given);
                assert!(!flags.contains('{'), "{}: {flags}", path.display());
                let all = scaled(words[1..].to_vec(), 0.5).unwrap().join(" ") + " " + &flags;
                let parsed = match words[0].as_str() {
                    "tpcc" => crate::parse::<TpccArgs>(&all).map(drop),
                    "ycsb" => crate::parse::<YcsbArgs>(&all).map(drop),
                    _ => crate::parse::<StockArgs>(&all).map(drop),
                };
                assert!(parsed.is_ok(), "{}: {all}: {parsed:?}", path.display());
            }
        }
        assert!(count >= 3, "{count}");
    }

    #[test]
    fn a_short_form_has_fewer_workloads_and_shorter_times() {
        let parse = |flags: &str| {
            let args: MatrixArgs = crate::parse(&format!("m.toml {flags}")).unwrap();
            Description::parse(TEXT, Path::new("m.toml")).unwrap().shortened(&args)
        };
        let short = parse("--rounds 1 --select A,B --skip T").unwrap();
        assert_eq!(short.runs(), [(0, 0, 0), (0, 0, 1)]);
        assert_eq!(parse("--skip A").unwrap().workload[0].name, "T");
        for wrong in ["--rounds 0", "--time-scale 0", "--select nothing", "--skip A,T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let scaled = |text: &str| scaled(words(text).unwrap(), 0.1).unwrap().join(" ");
        assert_eq!(scaled("ycsb --duration 15s --records 5"), "ycsb --records 5 --duration 1500ms --warmup 1000ms");
        assert_eq!(scaled("ycsb --warmup=2s --duration=1m"), "ycsb --duration 6000ms --warmup 200ms");
    }

    #[test]
    fn a_target_may_take_part_in_some_workloads_only() {
        let text = TEXT.replace("name = 'y'", "name = 'y'\nonly = 'T'");
        let description = Description::parse(&text, Path::new("m.toml")).unwrap();
        assert_eq!(description.runs(), [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0)]);
    }

    #[test]
    fn what_before_prints_is_put_into_the_flags() {
        let given = given("starting…\nURL=postgres://a@/b?host=/x&port=1\n PID=7 \n= 5\nnot a name=1\n");
        assert_eq!(given.len(), 2);
        assert_eq!(
            filled("--target {URL} --server-pid {PID} {X}", &given),
            "--target postgres://a@/b?host=/x&port=1 --server-pid 7 {X}"
        );
    }

    #[test]
    fn a_name_that_nothing_was_given_for_is_told() {
        let target = |before: Option<&str>| TargetEntry {
            name: "x".to_owned(),
            flags: "--target {URL} --json '{}' {not a name}".to_owned(),
            only: None,
            before: before.map(str::to_owned),
            after: None,
        };
        let told = |before, printed| flags_of(&target(before), printed).map_err(|e| e.to_string());
        assert_eq!(told(Some("up"), "URL=u").unwrap(), "--target u --json '{}' {not a name}");
        assert!(told(Some("up"), "PID=1").unwrap_err().contains("`before` (up) printed no line URL=…"));
        assert!(told(None, "").unwrap_err().contains("there is no `before`"));
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(words("a  'b c' d\"e f\"g ''").unwrap(), ["a", "b c", "de fg", ""]);
        assert!(words("'open").is_err());
        assert_eq!(words("  ").unwrap().len(), 0);
    }

    #[test]
    fn the_summary_has_medians_and_ratios() {
        let description = Description::parse(TEXT, Path::new("m.toml")).unwrap();
        let result = |workload: &str, target: &str, throughput: f64| {
            let mut result = example("ycsb", target);
            (result.workload_about, result.throughput_per_s) = (workload.to_owned(), throughput);
            result
        };
        let all = [result("A", "x", 100.0), result("A", "x", 300.0), result("A", "y", 600.0)];
        let text = summary(&description, &all);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("A         x").contains("200"), "{text}");
        assert!(line("A         y").contains("0.33 ×"), "{text}");
        assert!(line("T         x").contains('–'), "{text}");
    }
}
