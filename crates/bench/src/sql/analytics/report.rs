//! What a suite came to: as data, as a table, as a page.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::measure::{Outcome, Streams, median};
use super::suite::Query;
use crate::measure::environment::Environment;
use crate::measure::format::{align, significant, whole};
use crate::measure::plot::escaped;
use crate::sql::html;
use crate::sql::result::LoadResult;
use crate::sql::workload::Finding;

/// The form of the file. // ON DISK: never renumber.
pub(super) const SCHEMA: u32 = 1;

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    pub(crate) suite: String,
    pub(crate) about: String,
    pub(crate) command: String,
    pub(crate) ended_unix_s: u64,
    pub(crate) env: Environment,
    pub(crate) notes: Vec<String>,
    pub(crate) rounds: u32,
    /// The target first, then those beside it.
    pub(crate) sides: Vec<SideReport>,
    pub(crate) queries: Vec<QueryReport>,
    pub(crate) checks: Vec<Finding>,
    /// Processor time of this process for a query that is answered at once, and has no rows.
    pub(crate) control_cpu_us_per_query: f64,
}

/// A database.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct SideReport {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Why it has no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<LoadResult>,
    pub(crate) round_trip_ms: Option<f64>,
    /// Of the medians of all queries that have one.
    pub(crate) total_ms: Option<f64>,
    /// Of the first run of each query.
    pub(crate) total_first_ms: Option<f64>,
    /// Processor time of the medians; in process the generator's is part of it.
    pub(crate) total_cpu_ms: Option<f64>,
    /// Its processes' memory after all runs; in process the generator's is part of it.
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) streams: Option<StreamsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fresh: Option<FreshReport>,
}

/// Streams at once.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StreamsReport {
    pub(crate) count: u32,
    pub(crate) seconds: f64,
    pub(crate) queries_per_hour: f64,
    pub(crate) median_ms: Option<f64>,
    pub(crate) worst_ms: Option<f64>,
    pub(crate) cpu_ms: Option<f64>,
    pub(crate) failures: Vec<String>,
}

/// The same queries directly behind changes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FreshReport {
    pub(crate) percent: u32,
    pub(crate) transactions: usize,
    pub(crate) changed_rows: u64,
    pub(crate) changing_s: f64,
    /// Of the first run of each query behind the changes.
    pub(crate) total_first_ms: Option<f64>,
    pub(crate) total_ms: Option<f64>,
    /// The former by the undisturbed total.
    pub(crate) first_ratio: Option<f64>,
}

/// A query.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QueryReport {
    pub(crate) name: String,
    pub(crate) rows: Option<usize>,
    /// As the databases are.
    pub(crate) on: Vec<OutcomeReport>,
}

/// A query on a database.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct OutcomeReport {
    /// The median of all rounds.
    pub(crate) ms: Option<f64>,
    pub(crate) first_ms: Option<f64>,
    pub(crate) least_ms: Option<f64>,
    pub(crate) most_ms: Option<f64>,
    pub(crate) cpu_ms: Option<f64>,
    /// The target's median by this one.
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fresh_first_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fresh_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Why its rows are not the target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<String>,
}

pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl QueryReport {
    pub(super) fn new(query: &Query, outcomes: &[Outcome]) -> Self {
        let own = median(&outcomes[0].took);
        let one = |outcome: &Outcome| {
            let middle = median(&outcome.took);
            OutcomeReport {
                ms: middle.map(ms),
                first_ms: outcome.took.first().copied().map(ms),
                least_ms: outcome.took.iter().min().copied().map(ms),
                most_ms: outcome.took.iter().max().copied().map(ms),
                cpu_ms: median(&outcome.cpu).map(ms),
                ratio: own.zip(middle).map(|(own, other)| own.as_secs_f64() / other.as_secs_f64().max(1e-9)),
                error: outcome.failure.clone(),
                difference: outcome.difference.clone(),
                ..OutcomeReport::default()
            }
        };
        let rows = outcomes[0].rows.as_ref().map(Vec::len);
        Self { name: query.name.clone(), rows, on: outcomes.iter().map(one).collect() }
    }

    /// Adds what the same query came to behind changes.
    pub(super) fn add_fresh(&mut self, outcomes: &[Outcome]) {
        for (report, outcome) in self.on.iter_mut().zip(outcomes) {
            report.fresh_first_ms = outcome.took.first().copied().map(ms);
            report.fresh_ms = median(&outcome.took).map(ms);
            let behind = |what: &String| format!("behind changes: {what}");
            report.error = report.error.take().or_else(|| outcome.failure.as_ref().map(behind));
            report.difference = report.difference.take().or_else(|| outcome.difference.as_ref().map(behind));
        }
    }

    fn is_bad(&self) -> bool {
        self.on[0].error.is_some() || self.on.iter().any(|other| other.difference.is_some())
    }
}

impl StreamsReport {
    pub(super) fn new(count: u32, streams: &Streams) -> Self {
        let hours = streams.took.as_secs_f64().max(1e-9) / 3600.0;
        Self {
            count,
            seconds: streams.took.as_secs_f64(),
            queries_per_hour: streams.each.len() as f64 / hours,
            median_ms: median(&streams.each).map(ms),
            worst_ms: streams.each.iter().max().copied().map(ms),
            cpu_ms: streams.cpu.map(ms),
            failures: streams.failures.clone(),
        }
    }
}

/// The sum of what each query has; `None` if none has.
pub(super) fn total(queries: &[QueryReport], side: usize, of: impl Fn(&OutcomeReport) -> Option<f64>) -> Option<f64> {
    let all: Vec<f64> = queries.iter().filter_map(|query| of(query.on.get(side)?)).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

impl Report {
    /// What must not be believed: queries that failed or have other answers, checks that do not
    /// hold.
    pub(crate) fn bad(&self) -> usize {
        use crate::sql::workload::Verdict;
        let streams = self.sides.iter().take(1).filter_map(|side| side.streams.as_ref());
        self.queries.iter().filter(|query| query.is_bad()).count()
            + self.checks.iter().filter(|check| check.verdict == Verdict::Broken).count()
            + streams.filter(|streams| !streams.failures.is_empty()).count()
    }

    fn run_sides(&self) -> impl Iterator<Item = (usize, &SideReport)> {
        self.sides.iter().filter(|side| side.not_run.is_none()).enumerate()
    }

    /// The table of queries: a heading and rows.
    fn table(&self) -> Vec<Vec<String>> {
        let has_fresh = self.sides.iter().any(|side| side.fresh.is_some());
        let mut heading = vec!["query".to_owned(), "rows".to_owned()];
        for (at, side) in self.run_sides() {
            heading.push(format!("{} ms", short(&side.name)));
            heading.push("first".to_owned());
            heading.push("cpu".to_owned());
            if has_fresh {
                heading.push("fresh".to_owned());
            }
            if at > 0 {
                heading.push("ratio".to_owned());
            }
        }
        heading.push(String::new());
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
        let mut lines = vec![heading];
        for query in &self.queries {
            let mut line = vec![query.name.clone(), query.rows.map_or("–".to_owned(), |rows| rows.to_string())];
            let mut remarks = Vec::new();
            for (at, on) in query.on.iter().enumerate() {
                line.extend([shown(on.ms), shown(on.first_ms), shown(on.cpu_ms)]);
                if has_fresh {
                    line.push(shown(on.fresh_first_ms));
                }
                if at > 0 {
                    line.push(on.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
                }
                remarks.extend(on.error.as_ref().map(|error| format!("failed: {error}")));
                remarks.extend(on.difference.as_ref().map(|why| format!("OTHER ANSWER: {why}")));
            }
            line.push(remarks.join("; "));
            lines.push(line);
        }
        let mut line = vec!["all".to_owned(), String::new()];
        let own = self.sides.first().and_then(|side| side.total_ms);
        for (at, side) in self.run_sides() {
            line.extend([shown(side.total_ms), shown(side.total_first_ms), shown(side.total_cpu_ms)]);
            if has_fresh {
                line.push(shown(side.fresh.as_ref().and_then(|fresh| fresh.total_first_ms)));
            }
            if at > 0 {
                let ratio = own.zip(side.total_ms).map(|(own, other)| own / other);
                line.push(ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
            }
        }
        lines.push(line);
        lines
    }

    /// What is told besides the table, a line each.
    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for side in &self.sides {
            let name = short(&side.name);
            if let Some(why) = &side.not_run {
                lines.push(format!("{name}: NOT RUN: {why}"));
                continue;
            }
            let mut parts = Vec::new();
            if let Some(load) = side.load.filter(|load| load.rows > 0) {
                parts.push(format!("{} rows loaded in {} s", whole(load.rows as f64), significant(load.seconds)));
            }
            parts.extend(side.round_trip_ms.map(|ms| format!("round trip {} ms", significant(ms))));
            let mib = |bytes: u64| format!("{} MiB", significant(bytes as f64 / f64::from(1 << 20)));
            parts.extend(side.rss_bytes.map(|bytes| format!("{} of memory", mib(bytes))));
            parts.extend(side.disk_bytes.map(|bytes| format!("{} on disk", mib(bytes))));
            lines.push(format!("{name}: {}", parts.join(", ")));
            lines.extend(side.streams.as_ref().map(|streams| streams_line(&name, streams)));
            lines.extend(side.fresh.as_ref().map(|fresh| fresh_line(&name, fresh)));
        }
        let control = significant(self.control_cpu_us_per_query);
        lines.push(format!("control group: a query that is answered at once costs this process {control} µs of CPU"));
        let check = |check: &Finding| {
            format!("{}: {} (wanted: {}): {}", check.verdict.word(), check.what, check.wanted, check.found)
        };
        lines.extend(self.checks.iter().map(check));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.about);
        for (side, label) in self.sides.iter().zip(std::iter::once("target").chain(std::iter::repeat("beside"))) {
            _ = writeln!(text, "{label}:  {}", side.about);
        }
        _ = writeln!(text, "medians of {} rounds\n", self.rounds);
        text.push_str(&align(&self.table(), 1));
        text.push('\n');
        self.remarks().iter().for_each(|line| _ = writeln!(text, "{line}"));
        text.trim_end().to_owned()
    }

    /// As a page that needs nothing else.
    pub(crate) fn page(&self) -> String {
        let mut page = html::head(&self.about);
        _ = write!(page, "<p><code>{}</code></p>\n<ul>", escaped(&self.command));
        let Environment { commit, cpu, cores, kernel, fs } = &self.env;
        let machine = format!("{commit}; {cpu}, {cores} cores, {kernel}, {fs}");
        for line in self.sides.iter().map(|side| &side.about).chain([&machine]) {
            _ = writeln!(page, "<li>{}</li>", escaped(line));
        }
        _ = writeln!(page, "</ul><p>Milliseconds: medians of {} rounds, the first run, CPU.</p>", self.rounds);
        let lines = self.table();
        let heading: Vec<&str> = lines[0].iter().map(String::as_str).collect();
        html::table(&mut page, &heading, &lines[1..]);
        page.push_str("<ul>");
        self.remarks().iter().for_each(|line| _ = writeln!(page, "<li>{}</li>", escaped(line)));
        page.push_str("</ul>");
        page.push_str(html::TAIL);
        page
    }
}

fn streams_line(name: &str, streams: &StreamsReport) -> String {
    let shown = |ms: Option<f64>| ms.map_or("–".to_owned(), significant);
    let mut line = format!(
        "{name}: {} streams took {} s: {} queries an hour, median {} ms, worst {} ms, CPU {} ms",
        streams.count,
        significant(streams.seconds),
        whole(streams.queries_per_hour),
        shown(streams.median_ms),
        shown(streams.worst_ms),
        shown(streams.cpu_ms)
    );
    if let Some(first) = streams.failures.first() {
        _ = write!(line, "; {} FAILED: {first}", streams.failures.len());
    }
    line
}

fn fresh_line(name: &str, fresh: &FreshReport) -> String {
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
    format!(
        "{name}: {} % changed by {} transactions in {} s ({} rows); directly behind that all queries took {} ms, {} times \
         the undisturbed time, and {} ms in the median",
        fresh.percent,
        fresh.transactions,
        significant(fresh.changing_s),
        whole(fresh.changed_rows as f64),
        shown(fresh.total_first_ms),
        shown(fresh.first_ratio),
        shown(fresh.total_ms)
    )
}

/// The name of a database in a heading.
fn short(name: &str) -> String {
    match name.split_once("://") {
        // The user says less than the place and the database.
        Some((_, place)) => place.rsplit_once('@').map_or(place, |(_, place)| place).to_owned(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sql::analytics::suite::Check;

    fn outcome(ms: &[u64]) -> Outcome {
        Outcome { took: ms.iter().map(|&ms| Duration::from_millis(ms)).collect(), ..Outcome::default() }
    }

    fn report(outcomes: Vec<Vec<Outcome>>) -> Report {
        let query = Query { name: "q1".to_owned(), sql: String::new(), check: Check::Rows };
        let queries: Vec<_> = outcomes.iter().map(|outcomes| QueryReport::new(&query, outcomes)).collect();
        let side = |at, name: &str| SideReport {
            name: name.to_owned(),
            total_ms: total(&queries, at, |on| on.ms),
            ..SideReport::default()
        };
        Report {
            schema: SCHEMA,
            suite: "tpch".to_owned(),
            about: "a <suite>".to_owned(),
            command: String::new(),
            ended_unix_s: 0,
            env: Environment::observe(Path::new(".")),
            notes: Vec::new(),
            rounds: 3,
            sides: vec![side(0, "colibri"), side(1, "postgres://me@host:1/db")],
            queries,
            checks: Vec::new(),
            control_cpu_us_per_query: 1.0,
        }
    }

    #[test]
    fn the_ratio_is_of_medians_and_the_first_run_is_shown() {
        let report = report(vec![vec![outcome(&[30, 10, 20]), outcome(&[40, 40, 50])]]);
        let text = report.text();
        assert!(text.contains("host:1/db ms"), "{text}");
        let line: Vec<&str> = text.lines().find(|line| line.starts_with("q1")).unwrap().split_whitespace().collect();
        assert_eq!(line, ["q1", "–", "20.0", "30.0", "–", "40.0", "40.0", "–", "0.50"]);
        assert_eq!(report.bad(), 0);
        assert!(report.page().contains("a &lt;suite&gt;"));
    }

    #[test]
    fn failures_other_answers_and_broken_checks_are_bad() {
        let failed = Outcome { failure: Some("57014: too slow".to_owned()), ..Outcome::default() };
        let differs = Outcome { difference: Some("1 row".to_owned()), ..outcome(&[1]) };
        let mut bad = report(vec![
            vec![failed.clone(), outcome(&[1])],
            vec![outcome(&[1]), failed],
            vec![outcome(&[1]), differs],
        ]);
        assert_eq!(bad.bad(), 2, "what fails beside is told, and not bad");
        bad.checks.push(Finding::fact("answers", "none", "all", false));
        bad.sides[1].not_run = Some("there is none".to_owned());
        assert_eq!(bad.bad(), 3);
        assert!(bad.text().contains("NOT RUN: there is none"));
    }
}
