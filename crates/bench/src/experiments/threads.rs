//! `colibri bench threads`: what it brings that every thread serves every pool, after a publication
//! about YDB ("the publication" below), and what the runtime costs beside tokio.
//!
//! ```text
//! simulate   the publication's model, to the tick                                       simulator
//! pipeline   sequences at a fixed rate, with and without batch tasks: how long they take  load, executor
//! find-max   the highest rate at which 99 of 100 sequences take no longer than a limit
//! rival      tasks that do nothing, that talk, and sockets, beside tokio                micro
//! ```
//!
//! A sequence is a user task of 170 µs, four system tasks of 119 µs that it spawns, and an
//! interconnect task of 100 µs after each: the publication's model at a microsecond a tick. Batch
//! tasks take 200 µs, and there is always one more. A task computes in rounds; how many rounds are
//! a microsecond is measured at the start.
//!
//! # Traps
//!
//! - **The generator needs a CPU, too**: a thread that sleeps until the next arrival. On a machine
//!   with no CPU to spare it takes what it needs from the threads under test, from all layouts
//!   alike, and is late itself. Sequence times begin when the threads get a sequence; the table
//!   says how late that was.
//! - **A machine is slower than its best moment**, for which the work is calibrated: frequencies
//!   change, others use it. The simulator knows nothing of that, nor of what a task boundary costs,
//!   so it promises a little more than can be had.
//! - **The highest rate under a limit** is decided by tails, and the machine has one of its own. So
//!   a probe is five runs, and the median of their tails decides.
//! - **tokio knows no pools**: it runs what comes in the order that suits it. It does not lose at
//!   this, it plays another game.
//!
//! Not here: idle cost (`idle`), and databases.

use std::time::Duration;

use clap::{Args, ValueEnum};
use colibri_runtime::Pool;
use serde::Serialize;

use crate::measure::environment::Environment;
use crate::measure::flags::{check_range, without_repeats};
use crate::measure::format::{align, significant, whole};
use crate::measure::output::{self, ResultArgs, ResultFiles, say};
use crate::measure::plot::{Panel, Plot, Shape};
use crate::measure::progress::Progress;
use crate::measure::{Error, Result};

mod executor;
mod load;
mod micro;
mod simulator;

pub use executor::Layout;
pub use micro::Micro;

use executor::Executor;
use load::{Outcome, Work, arrivals};
use simulator::{SEQUENCE, published, simulate};

const THREADS_MAX: u64 = 64;
/// The search for the highest rate ends when it is known to this part of what the threads could do
/// at the most.
const RATE_RESOLUTION: f64 = 0.02;
/// Runs of a probe, whose median decides: a moment at which the machine had other things to do does
/// not.
const PROBE_RUNS: u32 = 5;
/// Sequences of a simulated run.
const SIMULATED: usize = 20_000;
const SEED: u64 = 42;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The published model, to the tick.
    Simulate,
    /// Sequences at a fixed rate on real threads.
    Pipeline,
    /// The highest rate under a limit.
    FindMax,
    /// What the runtime costs, beside tokio.
    Rival,
}

/// Measure what threads that serve all pools bring, and what the runtime costs.
///
/// Repeats the experiment of a publication about YDB, in its simulator and on real threads:
/// pipelines of short tasks beside long batch tasks, with threads that serve all pools by priority,
/// with threads of their own for pools, and on tokio.
#[derive(Debug, Clone, Args)]
pub struct ThreadsArgs {
    /// Parts to run [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub part: Vec<Part>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Who serves which pools [default: all there are]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub layouts: Vec<Layout>,
    /// Offered load of the pipeline, as a part of what the threads could do at the most
    #[arg(long, default_value_t = 0.4)]
    pub load: f64,
    /// Length of a run in seconds; in find-max of a probe
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Rounds, of which medians are shown; layouts take turns
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Limit for 99 of 100 sequences, in microseconds
    #[arg(long, default_value_t = 3_000)]
    pub limit_us: u64,
    /// What to time in `rival` [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub micro: Vec<Micro>,
    /// How often what is fastest is done in `rival`; what is slower is done less often
    #[arg(long, default_value_t = 2_000_000)]
    pub n: u64,
    /// Where the results go.
    #[command(flatten)]
    pub output: ResultArgs,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "part", rename_all = "kebab-case")]
enum Row {
    Simulate { threads: &'static str, sequence_ticks: u64, published_ticks: u64, env: Environment },
    Pipeline(PipelineRow),
    FindMax(FindMaxRow),
    Rival(RivalRow),
}

#[derive(Debug, Clone, Serialize)]
struct PipelineRow {
    layout: &'static str,
    threads: usize,
    /// Whether there were batch tasks.
    batch: bool,
    offered_per_s: f64,
    done_per_s: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    /// How late the generator was.
    late_p99_us: f64,
    /// What the simulator gives for the same arrivals; nothing for tokio, which it does not know.
    simulated_mean_us: Option<f64>,
    simulated_p99_us: Option<f64>,
    batch_tasks_per_s: f64,
    /// Sequences that were not over in the end, of all rounds.
    left: usize,
    rounds: u32,
    env: Environment,
}

#[derive(Debug, Clone, Serialize)]
struct FindMaxRow {
    layout: &'static str,
    threads: usize,
    batch: bool,
    limit_us: u64,
    /// Zero if even the lowest rate tried takes too long.
    rate_max_per_s: f64,
    simulated_rate_max_per_s: Option<f64>,
    env: Environment,
}

#[derive(Debug, Clone, Serialize)]
struct RivalRow {
    name: &'static str,
    threads: usize,
    colibri_ns: f64,
    tokio_ns: Option<f64>,
    rounds: u32,
    env: Environment,
}

/// Runs the benchmark, prints its tables, and writes its files.
///
/// # Errors
/// If the flags make no sense, if the system does not give threads or sockets, or if files cannot
/// be written.
pub fn run(args: &ThreadsArgs) -> Result<()> {
    let plan = Plan::new(args)?;
    let files = ResultFiles::new(&args.output, "threads")?;
    let environment = Environment::observe(&std::env::current_dir().unwrap_or_default());
    output::print_heading(&environment);
    let progress = Progress::new(plan.steps());
    let mut rows = Vec::new();
    for part in &plan.parts {
        let of_part = match part {
            Part::Simulate => simulate_rows(&environment),
            Part::Pipeline => plan.pipeline_rows(&environment, &progress)?,
            Part::FindMax => plan.find_max_rows(&environment, &progress)?,
            Part::Rival => plan.rival_rows(&environment, &progress)?,
        };
        say!("\n{}", table(&of_part));
        rows.extend(of_part);
    }
    progress.finish();
    files.write(&rows, &plot(&rows))
}

/// Flags that have been checked.
struct Plan {
    parts: Vec<Part>,
    threads: Vec<usize>,
    layouts: Vec<Layout>,
    load: f64,
    duration: Duration,
    rounds: u32,
    limit_us: u64,
    micro: Vec<Micro>,
    n: u64,
}

impl Plan {
    fn new(args: &ThreadsArgs) -> Result<Self> {
        let or_all = |all: &[Part], some: &[Part]| without_repeats(if some.is_empty() { all } else { some });
        for &threads in &args.threads {
            check_range("--threads", threads as u64, 1, THREADS_MAX)?;
        }
        check_range("--rounds", args.rounds.into(), 1, 1_000)?;
        check_range("--limit-us", args.limit_us, 1, 60_000_000)?;
        check_range("--n", args.n, 1, 1_000_000_000)?;
        if !(args.load > 0.0 && args.load <= 1.0) {
            return Err(Error::usage(format!("--load is above 0 and at most 1, not {}", args.load)));
        }
        if !(args.seconds >= 0.05 && args.seconds <= 86_400.0) {
            return Err(Error::usage(format!("--seconds is 0.05 to 86400, not {}", args.seconds)));
        }
        let layouts = if args.layouts.is_empty() { Layout::value_variants() } else { &args.layouts[..] };
        if !args.threads.iter().any(|&threads| layouts.iter().any(|layout| layout.is_possible(threads))) {
            return Err(Error::usage("--layouts split needs two threads: set --threads 2"));
        }
        Ok(Self {
            parts: or_all(Part::value_variants(), &args.part),
            threads: without_repeats(&args.threads),
            layouts: without_repeats(layouts),
            load: args.load,
            duration: Duration::from_secs_f64(args.seconds),
            rounds: args.rounds,
            limit_us: args.limit_us,
            micro: without_repeats(if args.micro.is_empty() { &Micro::ALL[..] } else { &args.micro[..] }),
            n: args.n,
        })
    }

    fn steps(&self) -> u64 {
        let configurations = self.configurations().len() as u64;
        let of_part = |part: &Part| match part {
            Part::Simulate => 0,
            Part::Pipeline => configurations * u64::from(self.rounds),
            Part::FindMax => configurations,
            Part::Rival => (self.threads.len() * self.micro.len()) as u64 * u64::from(self.rounds),
        };
        self.parts.iter().map(of_part).sum()
    }

    /// Numbers of threads, whether there are batch tasks, and layouts, in the order of the table.
    fn configurations(&self) -> Vec<(usize, bool, Layout)> {
        let mut configurations = Vec::new();
        for &threads in &self.threads {
            for batch in [false, true] {
                let possible = self.layouts.iter().filter(|layout| layout.is_possible(threads));
                configurations.extend(possible.map(|&layout| (threads, batch, layout)));
            }
        }
        configurations
    }

    fn pipeline_rows(&self, environment: &Environment, progress: &Progress) -> Result<Vec<Row>> {
        let work = Work::calibrate();
        let configurations = self.configurations();
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); configurations.len()];
        for round in 0..self.rounds {
            for (&(threads, batch, layout), outcomes) in configurations.iter().zip(&mut outcomes) {
                progress.begin(&describe(threads, batch, layout));
                let arrivals = arrivals(self.offered(threads), self.duration, SEED + u64::from(round));
                let executor = Executor::new(layout, threads)?;
                outcomes.push(load::run(&executor, work, &arrivals, self.duration, batch));
                progress.advance();
            }
        }
        let rows = configurations.iter().zip(&outcomes).map(|(&(threads, batch, layout), outcomes)| {
            let of = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure).collect());
            let us = |quantile: f64| of(&|outcome| outcome.sequence_ns.value_at_quantile(quantile) as f64 / 1e3);
            let simulated = simulated(layout, threads, self.offered(threads), batch);
            Row::Pipeline(PipelineRow {
                layout: layout.name(),
                threads,
                batch,
                offered_per_s: self.offered(threads),
                done_per_s: of(&|outcome| outcome.rate),
                mean_us: of(&|outcome| outcome.sequence_ns.mean() / 1e3),
                p50_us: us(0.5),
                p99_us: us(0.99),
                late_p99_us: of(&|outcome| outcome.late_ns.value_at_quantile(0.99) as f64 / 1e3),
                simulated_mean_us: simulated
                    .as_ref()
                    .map(|times| times.iter().sum::<u64>() as f64 / times.len() as f64),
                simulated_p99_us: simulated.as_ref().map(|times| p99(times)),
                batch_tasks_per_s: of(&|outcome| outcome.batch_rate),
                left: outcomes.iter().map(|outcome| outcome.left).sum(),
                rounds: self.rounds,
                env: environment.clone(),
            })
        });
        Ok(rows.collect())
    }

    /// Sequences a second.
    fn offered(&self, threads: usize) -> f64 {
        self.load * rate_at_most(threads)
    }

    fn find_max_rows(&self, environment: &Environment, progress: &Progress) -> Result<Vec<Row>> {
        let work = Work::calibrate();
        let mut rows = Vec::new();
        for (threads, batch, layout) in self.configurations() {
            progress.begin(&describe(threads, batch, layout));
            let rate_max = search(threads, |rate| {
                let (mut p99_ns, mut left) = (Vec::new(), 0);
                for run in 0..PROBE_RUNS {
                    let duration = self.duration / PROBE_RUNS;
                    let executor = Executor::new(layout, threads)?;
                    let arrivals = arrivals(rate, duration, SEED + u64::from(run));
                    let outcome = load::run(&executor, work, &arrivals, duration, batch);
                    p99_ns.push(outcome.sequence_ns.value_at_quantile(0.99) as f64);
                    left += outcome.left;
                }
                Ok(left == 0 && median(p99_ns) <= (self.limit_us * 1_000) as f64)
            })?;
            let simulated = simulated(layout, threads, 1.0, batch).map(|_| {
                search(threads, |rate| {
                    let times = self::simulated(layout, threads, rate, batch).expect("the simulator knows it");
                    Ok(p99(&times) <= self.limit_us as f64)
                })
            });
            rows.push(Row::FindMax(FindMaxRow {
                layout: layout.name(),
                threads,
                batch,
                limit_us: self.limit_us,
                rate_max_per_s: rate_max,
                simulated_rate_max_per_s: simulated.transpose()?,
                env: environment.clone(),
            }));
            progress.advance();
        }
        Ok(rows)
    }

    fn rival_rows(&self, environment: &Environment, progress: &Progress) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for &threads in &self.threads {
            for &micro in &self.micro {
                let (mut colibri_ns, mut tokio_ns) = (Vec::new(), Vec::new());
                for round in 0..self.rounds {
                    progress.begin(&format!("{} on {threads} threads", micro.name()));
                    // They take turns in being first.
                    for is_colibri in [round % 2 == 0, round % 2 == 1] {
                        if is_colibri {
                            colibri_ns.push(micro.colibri(threads, self.n)?);
                        } else {
                            #[cfg(feature = "rivals")]
                            tokio_ns.push(micro.tokio(threads, self.n)?);
                        }
                    }
                    progress.advance();
                }
                // Without the feature nothing is pushed to it.
                let tokio_ns: &mut Vec<f64> = &mut tokio_ns;
                rows.push(Row::Rival(RivalRow {
                    name: micro.name(),
                    threads,
                    colibri_ns: median(colibri_ns),
                    tokio_ns: (!tokio_ns.is_empty()).then(|| median(std::mem::take(tokio_ns))),
                    rounds: self.rounds,
                    env: environment.clone(),
                }));
            }
        }
        Ok(rows)
    }
}

/// Sequences a second of threads that do nothing else and are never idle.
fn rate_at_most(threads: usize) -> f64 {
    threads as f64 * 1e6 / SEQUENCE as f64
}

fn describe(threads: usize, batch: bool, layout: Layout) -> String {
    let batch = if batch { "with batch tasks" } else { "alone" };
    format!("{} on {threads} threads, {batch}", layout.name())
}

/// The highest rate that `is_good`, by halving what is between a good and a bad one; 0 if none is.
fn search(threads: usize, mut is_good: impl FnMut(f64) -> Result<bool>) -> Result<f64> {
    let (mut good, mut bad) = (0.0, 1.0);
    while bad - good > RATE_RESOLUTION {
        let middle = (good + bad) / 2.0;
        match is_good(middle * rate_at_most(threads))? {
            true => good = middle,
            false => bad = middle,
        }
    }
    Ok(good * rate_at_most(threads))
}

/// Sequence times in the simulator, sorted, at a microsecond a tick.
fn simulated(layout: Layout, threads: usize, rate: f64, batch: bool) -> Option<Vec<u64>> {
    #[cfg(feature = "rivals")]
    if layout == Layout::Tokio {
        return None;
    }
    let arrivals = arrivals(rate, Duration::from_secs_f64(SIMULATED as f64 / rate), SEED);
    let ticks: Vec<u64> = arrivals.iter().map(|arrival| arrival.as_micros() as u64).collect();
    let mut times = simulate(&layout.simulated(threads), &ticks, batch).sequence;
    times.sort_unstable();
    Some(times)
}

/// Of times that are sorted.
fn p99(times: &[u64]) -> f64 {
    times.get(times.len() * 99 / 100).copied().unwrap_or(0) as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}

fn simulate_rows(environment: &Environment) -> Vec<Row> {
    let row = |(name, threads, published_ticks)| Row::Simulate {
        threads: name,
        sequence_ticks: simulate(&threads, &[0], false).sequence[0],
        published_ticks,
        env: environment.clone(),
    };
    published().into_iter().map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let texts = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
    let or_dash = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), whole);
    let yes = |batch| if batch { "yes" } else { "no" }.to_owned();
    let heading = match rows.first() {
        None => return String::new(),
        Some(Row::Simulate { .. }) => texts(&["simulated threads", "sequence, ticks", "published"]),
        Some(Row::Pipeline(_)) => texts(&[
            "pipeline",
            "threads",
            "batch",
            "offered/s",
            "done/s",
            "mean µs",
            "p50 µs",
            "p99 µs",
            "simulated mean",
            "simulated p99",
            "batch tasks/s",
            "generator p99",
            "left",
        ]),
        Some(Row::FindMax(_)) => texts(&["find-max", "threads", "batch", "limit µs", "rate/s", "simulated rate/s"]),
        Some(Row::Rival(_)) => texts(&["rival", "threads", "colibri ns", "tokio ns", "tokio/colibri"]),
    };
    let cells = rows.iter().map(|row| match row {
        Row::Simulate { threads, sequence_ticks, published_ticks, .. } => {
            vec![(*threads).to_owned(), sequence_ticks.to_string(), published_ticks.to_string()]
        }
        Row::Pipeline(row) => vec![
            row.layout.to_owned(),
            row.threads.to_string(),
            yes(row.batch),
            whole(row.offered_per_s),
            whole(row.done_per_s),
            whole(row.mean_us),
            whole(row.p50_us),
            whole(row.p99_us),
            or_dash(row.simulated_mean_us),
            or_dash(row.simulated_p99_us),
            whole(row.batch_tasks_per_s),
            whole(row.late_p99_us),
            row.left.to_string(),
        ],
        Row::FindMax(row) => vec![
            row.layout.to_owned(),
            row.threads.to_string(),
            yes(row.batch),
            row.limit_us.to_string(),
            whole(row.rate_max_per_s),
            or_dash(row.simulated_rate_max_per_s),
        ],
        Row::Rival(row) => vec![
            row.name.to_owned(),
            row.threads.to_string(),
            significant(row.colibri_ns),
            row.tokio_ns.map_or_else(|| "-".to_owned(), significant),
            row.tokio_ns.map_or_else(|| "-".to_owned(), |tokio_ns| significant(tokio_ns / row.colibri_ns)),
        ],
    });
    let cells: Vec<_> = std::iter::once(heading).chain(cells).collect();
    let mut text = align(&cells, 1);
    if matches!(rows.first(), Some(Row::Rival(RivalRow { tokio_ns: None, .. }))) {
        text.push_str("note: tokio is not in this build: build with --features rivals\n");
    }
    text
}

fn plot(rows: &[Row]) -> Plot {
    let mut panels = Vec::new();
    let group = |threads: usize, batch: bool| {
        format!(
            "{threads} thread{}\n{}",
            if threads == 1 { "" } else { "s" },
            if batch { "with batch" } else { "alone" }
        )
    };
    let mut bars = |title: &str, figures: Vec<(String, String, f64)>| {
        let (mut groups, mut names): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for (group, name, _) in &figures {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if groups.is_empty() {
            return;
        }
        let figure = |group: &String, name: &String| {
            figures.iter().find(|(g, n, _)| g == group && n == name).map_or(f64::NAN, |&(_, _, figure)| figure)
        };
        let series = names.iter().map(|name| (name.clone(), groups.iter().map(|group| figure(group, name)).collect()));
        panels.push(Panel {
            title: title.to_owned(),
            series: series.collect(),
            shape: Shape::Bars(groups),
            logarithmic: false,
        });
    };
    let simulated = rows.iter().filter_map(|row| match row {
        Row::Simulate { threads, sequence_ticks, .. } => {
            Some(((*threads).to_owned(), "sequence time".to_owned(), *sequence_ticks as f64))
        }
        _ => None,
    });
    bars("Sequence time in the published model, ticks", simulated.collect());
    let pipeline = |figure: fn(&PipelineRow) -> f64| {
        let rows = rows.iter().filter_map(move |row| match row {
            Row::Pipeline(row) => Some((group(row.threads, row.batch), row.layout.to_owned(), figure(row))),
            _ => None,
        });
        rows.collect()
    };
    bars("Sequence time at a fixed rate, p99 in µs", pipeline(|row| row.p99_us));
    bars("Sequence time at a fixed rate, mean in µs", pipeline(|row| row.mean_us));
    bars("Batch tasks a second beside it", pipeline(|row| row.batch_tasks_per_s));
    let find_max = rows.iter().filter_map(|row| match row {
        Row::FindMax(row) => Some((group(row.threads, row.batch), row.layout.to_owned(), row.rate_max_per_s)),
        _ => None,
    });
    bars("Highest rate under the limit, sequences a second", find_max.collect());
    for micro in Micro::ALL {
        let rival = rows.iter().filter_map(|row| match row {
            Row::Rival(row) if row.name == micro.name() => Some(row),
            _ => None,
        });
        let figures = rival.flat_map(|row| {
            let group = format!("{} thread{}", row.threads, if row.threads == 1 { "" } else { "s" });
            let tokio = row.tokio_ns.map(|ns| (group.clone(), "tokio".to_owned(), ns));
            std::iter::once((group, "colibri".to_owned(), row.colibri_ns)).chain(tokio)
        });
        bars(&format!("{}, ns", micro.name()), figures.collect());
    }
    Plot { title: "Threads that serve all pools".to_owned(), panels }
}

/// The pools in the order in which they go first, for documentation that is checked.
const _: () =
    assert!((Pool::Interconnect as usize) < Pool::System as usize && (Pool::User as usize) < Pool::Batch as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(flags: &str) -> Vec<Row> {
        let args: ThreadsArgs = crate::parse(flags).unwrap();
        let plan = Plan::new(&args).unwrap();
        let environment = Environment::observe(std::path::Path::new("."));
        let progress = Progress::silent();
        let mut rows = Vec::new();
        for part in &plan.parts {
            rows.extend(match part {
                Part::Simulate => simulate_rows(&environment),
                Part::Pipeline => plan.pipeline_rows(&environment, &progress).unwrap(),
                Part::FindMax => plan.find_max_rows(&environment, &progress).unwrap(),
                Part::Rival => plan.rival_rows(&environment, &progress).unwrap(),
            });
        }
        rows
    }

    #[test]
    fn the_table_has_the_published_figures() {
        let text = table(&rows("--part simulate"));
        for line in ["dedicated 6 508 508", "dedicated 4 746 746", "shared 4 389 389", "shared 1 1046 1046"] {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert!(text.lines().any(|found| words(found) == words(line)), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_small_pipeline_gives_plausible_figures_everywhere() {
        let rows = rows("--part pipeline --seconds 0.3 --rounds 1 --load 0.3");
        let layouts = Layout::value_variants().len();
        assert_eq!(rows.len(), 2 * layouts + 2 * (layouts - 1));
        for row in &rows {
            let Row::Pipeline(row) = row else { panic!("{row:?}") };
            assert!(row.p50_us <= row.p99_us && row.p50_us > 300.0, "{row:?}");
            assert_eq!(row.batch, row.batch_tasks_per_s > 0.0, "{row:?}");
            assert!(row.done_per_s > 0.0 && row.left == 0, "{row:?}");
        }
        let plot = plot(&rows).render();
        assert!(plot.contains("with batch"));
    }

    #[test]
    fn the_highest_rate_is_found_by_halving() {
        let limit = 0.37 * rate_at_most(2);
        let found = search(2, |rate| Ok(rate <= limit)).unwrap();
        assert!(found <= limit && found > limit - 2.0 * RATE_RESOLUTION * rate_at_most(2), "{found} {limit}");
        assert_eq!(search(2, |_| Ok(false)).unwrap(), 0.0);
        // In the simulator: shared threads do more under the limit than dedicated ones.
        let rate_max =
            |layout: Layout| search(2, |rate| Ok(p99(&simulated(layout, 2, rate, true).unwrap()) <= 3_000.0)).unwrap();
        assert!(rate_max(Layout::Shared) > rate_max(Layout::Common) * 1.1);
    }

    #[test]
    fn what_the_runtime_costs_is_measured() {
        for row in rows("--part rival --n 2000 --rounds 1") {
            let Row::Rival(row) = row else { panic!("{row:?}") };
            assert!(row.colibri_ns > 10.0 && row.colibri_ns < 1e8, "{row:?}");
            assert_eq!(row.tokio_ns.is_some(), cfg!(feature = "rivals"));
        }
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        for (flags, word) in [
            ("--threads 0", "--threads"),
            ("--load 0", "--load"),
            ("--load NaN", "--load"),
            ("--seconds 0", "--seconds"),
            ("--rounds 0", "--rounds"),
            ("--limit-us 0", "--limit-us"),
            ("--layouts split --threads 1", "--threads 2"),
        ] {
            let args: ThreadsArgs = crate::parse(flags).unwrap();
            let Err(error) = Plan::new(&args) else { panic!("{flags} is accepted") };
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
