//! Results as one page that opens from disk: tables, and charts as SVG within it. It loads nothing
//! and runs nothing.

use std::fmt::Write as _;

use crate::measure::format::{significant, whole};
use crate::measure::plot::{Panel, Plot, Shape, escaped};
use crate::sql::result::RunResult;
use crate::sql::workload::{Finding, Verdict};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-top:1px solid #ccc;padding-top:1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .55em;text-align:right;border-bottom:1px solid #eee}td{white-space:nowrap}\
td:first-child,th:first-child{text-align:left;white-space:normal}.bad{color:#b00020;font-weight:bold}.good{color:#00663a}\
code{background:#f3f3f3;padding:.1em .3em;overflow-wrap:anywhere}\
summary{cursor:pointer;padding:.3em 0}svg{max-width:100%;height:auto}";

/// Sections that a page shows at once.
const OPEN_MAX: usize = 4;

/// How a page begins, up to its heading.
pub(crate) fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n"
    )
}

/// How it ends.
pub(crate) const TAIL: &str = "</body></html>\n";

/// The page.
pub(crate) fn page(title: &str, results: &[RunResult]) -> String {
    let mut html = head(title);
    if results.len() > 1 {
        overview(&mut html, results);
    }
    // With many runs each section is folded, so that the overview stays in sight.
    let is_folded = results.len() > OPEN_MAX;
    for (number, result) in results.iter().enumerate() {
        if is_folded {
            let (workload, target) = (escaped(&result.workload_about), escaped(&result.target));
            let _ = write!(html, "<details><summary>{}. {workload} on {target}</summary>", number + 1);
        }
        let number = if results.len() > 1 { format!("{}. ", number + 1) } else { String::new() };
        section(&mut html, &number, result);
        if is_folded {
            html.push_str("</details>\n");
        }
    }
    html.push_str(TAIL);
    html
}

pub(crate) fn table(html: &mut String, heading: &[&str], rows: &[Vec<String>]) {
    html.push_str("<table><tr>");
    heading.iter().for_each(|cell| html.push_str(&format!("<th>{}</th>", escaped(cell))));
    html.push_str("</tr>\n");
    for row in rows {
        html.push_str("<tr>");
        row.iter().for_each(|cell| html.push_str(&format!("<td>{}</td>", escaped(cell))));
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
}

fn ms(us: f64) -> String {
    significant(us / 1e3)
}

/// Runs of one workload on one target.
struct Group<'r> {
    workload: &'r str,
    target: &'r str,
    runs: Vec<&'r RunResult>,
}

impl<'r> Group<'r> {
    /// In the order in which workloads, and targets within them, are met first.
    fn of(results: &'r [RunResult]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for result in results {
            let (workload, target) = (result.workload_about.as_str(), result.target.as_str());
            match groups.iter_mut().find(|group| group.workload == workload && group.target == target) {
                Some(group) => group.runs.push(result),
                None => groups.push(Self { workload, target, runs: vec![result] }),
            }
        }
        let mut workloads: Vec<&str> = Vec::new();
        for group in &groups {
            if !workloads.contains(&group.workload) {
                workloads.push(group.workload);
            }
        }
        groups.sort_by_key(|group| workloads.iter().position(|&workload| workload == group.workload));
        groups
    }

    fn values(&self, figure: impl Fn(&RunResult) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| figure(run)).collect()
    }

    fn median(&self, figure: impl Fn(&RunResult) -> Option<f64>) -> f64 {
        crate::measure::bootstrap::median(&self.values(figure))
    }
}

/// The figure that a search found, else the figure of the run.
fn throughput(result: &RunResult) -> f64 {
    result.find_max.as_ref().map_or(result.throughput_per_s, |found| found.throughput_per_s)
}

/// Medians of all workloads on all targets, as a table and side by side.
fn overview(html: &mut String, results: &[RunResult]) {
    let groups = Group::of(results);
    let shown = |value: f64| if value.is_finite() { significant(value) } else { "–".to_owned() };
    let row = |group: &Group<'_>| {
        let all = group.values(|run| Some(throughput(run)));
        let (low, high) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        let first = groups.iter().find(|first| first.workload == group.workload).expect("at least this one");
        let ratio = first.median(|run| Some(throughput(run))) / group.median(|run| Some(throughput(run)));
        vec![
            group.workload.to_owned(),
            group.target.to_owned(),
            group.runs.len().to_string(),
            shown(group.median(|run| Some(throughput(run)))),
            if all.len() > 1 { format!("{} to {}", shown(low), shown(high)) } else { String::new() },
            shown(group.median(|run| run.figures.get("tpmC").copied())),
            shown(group.median(|run| Some(run.scheduled_us.p50 / 1e3))),
            shown(group.median(|run| Some(run.scheduled_us.p99 / 1e3))),
            shown(group.median(|run| run.cost.cpu_us_per_txn)),
            shown(group.median(|run| run.cost.write_amplification)),
            if ratio.is_finite() { format!("{}\u{a0}×", significant(ratio)) } else { String::new() },
            match (group.runs.iter().any(|run| run.is_bad()), group.runs.iter().any(|run| run.has_run())) {
                (true, _) => "NOT VALID",
                (false, true) => "valid",
                (false, false) => "no run",
            }
            .to_owned(),
        ]
    };
    let heading = [
        "workload",
        "target",
        "runs",
        "transactions/s",
        "from, to",
        "tpmC",
        "p50 ms",
        "p99 ms",
        "CPU µs",
        "write amplification",
        "the first is",
        "",
    ];
    table(html, &heading, &groups.iter().map(row).collect::<Vec<_>>());
    html.push_str("<p>Medians of the runs; CPU is that of the target, a transaction.</p>\n");
    html.push_str(&side_by_side(&groups).render());
}

/// A group of bars for each workload, a series for each target.
fn side_by_side(groups: &[Group<'_>]) -> Plot {
    let (mut workloads, mut targets): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for group in groups {
        for (names, name) in [(&mut workloads, group.workload), (&mut targets, group.target)] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let panel = |title: &str, figure: fn(&RunResult) -> Option<f64>, logarithmic| {
        let value = |workload: &str, target: &str| {
            let group = groups.iter().find(|group| group.workload == workload && group.target == target);
            group.map_or(f64::NAN, |group| group.median(figure))
        };
        let series = targets.iter().map(|&target| {
            let values = workloads.iter().map(|&workload| value(workload, target)).collect();
            (target.to_owned(), values)
        });
        Panel {
            title: title.to_owned(),
            // Parts of a name below each other, so that neighbours have room.
            shape: Shape::Bars(workloads.iter().map(|workload| lines_of(workload)).collect()),
            logarithmic,
            series: series.collect(),
        }
    };
    let panels = vec![
        panel("transactions a second (logarithmic)", |run| Some(throughput(run)), true),
        panel("p99 in ms, from when a transaction was due (logarithmic)", |run| Some(run.scheduled_us.p99 / 1e3), true),
        panel("CPU of the target, µs a transaction (logarithmic)", |run| run.cost.cpu_us_per_txn, true),
    ];
    Plot { title: "side by side".to_owned(), panels }
}

/// A name of a workload in two lines at the most, each cut where it would be over its neighbour.
fn lines_of(name: &str) -> String {
    const CHARACTERS_MAX: usize = 15;
    let parts = name.splitn(2, ", ").map(|part| part.chars().take(CHARACTERS_MAX).collect::<String>());
    parts.collect::<Vec<_>>().join("\n")
}

fn section(html: &mut String, number: &str, result: &RunResult) {
    let _ = writeln!(html, "<h2>{number}{} on {}</h2>", escaped(&result.workload_about), escaped(&result.target));
    match result.valid {
        true => html.push_str("<p class=\"good\">valid</p>\n"),
        false => {
            for reason in &result.reasons {
                let _ = writeln!(html, "<p class=\"bad\">not valid: {}</p>", escaped(reason));
            }
        }
    }
    let env = &result.env;
    let facts = [
        ("target", result.target_about.clone()),
        ("command", result.command.clone()),
        ("commit", env.commit.clone()),
        ("machine", format!("{}, {} CPUs, {}, {}", env.cpu, env.cores, env.kernel, env.fs)),
        ("pacing", result.settings.pacing.clone()),
        ("isolation, durability", format!("{}, {}", result.settings.isolation, result.settings.durability)),
    ];
    let limit = result.settings.memory_limit_bytes.map(|bytes| ("memory at most", format!("{} MiB", bytes >> 20)));
    for (name, value) in facts.into_iter().chain(limit) {
        let _ = writeln!(html, "<div>{name}: <code>{}</code></div>", escaped(&value));
    }
    kinds(html, result);
    let mut rows: Vec<Vec<String>> =
        result.figures.iter().map(|(name, value)| vec![name.clone(), significant(*value)]).collect();
    rows.extend(costs(result));
    table(html, &["figure", ""], &rows);
    html.push_str(&charts(result).render());
    if let Some(analysts) = &result.analysts {
        for remark in analysts.remarks(result.throughput_per_s, result.scheduled_us.p99) {
            let _ = writeln!(html, "<p>{}</p>", escaped(&remark));
        }
        let lines = analysts.table();
        let heading: Vec<&str> = lines[0].iter().map(String::as_str).collect();
        table(html, &heading, &lines[1..]);
    }
    findings(html, "audit", &result.audit);
    findings(html, "check", &result.checks);
    for note in &result.notes {
        let _ = writeln!(html, "<p>note: {}</p>", escaped(note));
    }
}

fn kinds(html: &mut String, result: &RunResult) {
    let row = |kind: &crate::sql::result::KindResult| {
        let latency = &kind.scheduled_us;
        let mut cells =
            vec![kind.name.clone(), whole((kind.committed + kind.rolled_back) as f64), significant(kind.per_s)];
        cells.extend([latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(ms));
        cells.extend([kind.admitted_us.p99, kind.wire_us.p99].map(ms));
        cells.extend([kind.retries, kind.failed].map(|count| whole(count as f64)));
        cells
    };
    let heading = [
        "transaction",
        "count",
        "a second",
        "p50 ms",
        "p90",
        "p99",
        "p99.9",
        "max",
        "admitted p99",
        "wire p99",
        "retries",
        "failed",
    ];
    table(html, &heading, &result.kinds.iter().filter(|kind| kind.was_run()).map(row).collect::<Vec<_>>());
}

fn costs(result: &RunResult) -> Vec<Vec<String>> {
    let cost = &result.cost;
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let rows = [
        ("CPU of the target, µs a transaction", cost.cpu_us_per_txn),
        ("CPU of the generator, µs a transaction", cost.generator_cpu_us_per_txn),
        ("bytes written, a transaction", cost.written_bytes_per_txn),
        ("bytes of rows written, a transaction", cost.row_bytes_per_txn),
        ("write amplification", cost.write_amplification),
        ("bytes read from disk, a transaction", cost.read_bytes_per_txn),
        ("flushes of the log, a transaction", cost.log_flushes_per_txn),
        ("context switches, a transaction", cost.switches_per_txn),
        ("energy, J a transaction", cost.joules_per_txn),
        ("resident memory, MiB", mib(cost.rss_bytes)),
        ("the same with shared memory divided, MiB", mib(cost.pss_bytes)),
        ("disk, MiB", mib(cost.disk_bytes)),
        ("against null, transactions a second", result.control.map(|control| control.throughput_per_s)),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), significant(value?)])).collect()
}

fn charts(result: &RunResult) -> Plot {
    let places: Vec<f64> = result.timeline.iter().map(|point| point.at_s).collect();
    let line = |title: &str, series: Vec<(&str, Vec<f64>)>| Panel {
        title: title.to_owned(),
        shape: Shape::Lines(places.clone(), "seconds".to_owned()),
        logarithmic: false,
        series: series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
    };
    let of = |figure: fn(&crate::sql::result::Point) -> f64| result.timeline.iter().map(figure).collect::<Vec<f64>>();
    let ran: Vec<_> = result.kinds.iter().filter(|kind| kind.ended() > 0).collect();
    let percentiles = [("p50", 0), ("p90", 1), ("p99", 2), ("p99.9", 3)];
    let latency = |index: usize| {
        let of = |kind: &&&crate::sql::result::KindResult| {
            let l = &kind.scheduled_us;
            [l.p50, l.p90, l.p99, l.p999][index] / 1e3
        };
        ran.iter().map(|kind| of(&kind)).collect::<Vec<f64>>()
    };
    let cost = &result.cost;
    let bars = [
        ("CPU of the\ntarget, µs", cost.cpu_us_per_txn),
        ("CPU of the\ngenerator, µs", cost.generator_cpu_us_per_txn),
        ("bytes\nwritten", cost.written_bytes_per_txn),
        ("bytes\nof rows", cost.row_bytes_per_txn),
        ("bytes read\nfrom disk", cost.read_bytes_per_txn),
        ("flushes\nof the log", cost.log_flushes_per_txn),
        ("context\nswitches", cost.switches_per_txn),
        ("mJ of the\nmachine", cost.joules_per_txn.map(|joules| joules * 1e3)),
    ];
    let bars: Vec<(&str, f64)> = bars.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let mut panels = vec![
        line("transactions a second", vec![("all", of(|point| point.per_s))]),
        line(
            "latency in ms",
            vec![
                ("p50", of(|point| point.p50_us.map_or(f64::NAN, |us| us / 1e3))),
                ("p99", of(|point| point.p99_us.map_or(f64::NAN, |us| us / 1e3))),
            ],
        ),
        Panel {
            title: "latency in ms by transaction, from when it was due".to_owned(),
            shape: Shape::Bars(ran.iter().map(|kind| kind.name.clone()).collect()),
            logarithmic: true,
            series: percentiles.map(|(name, index)| (name.to_owned(), latency(index))).to_vec(),
        },
        Panel {
            title: "costs of a transaction".to_owned(),
            shape: Shape::Bars(bars.iter().map(|(name, _)| (*name).to_owned()).collect()),
            logarithmic: true,
            series: vec![(cost.of.clone(), bars.iter().map(|&(_, value)| value).collect())],
        },
    ];
    if !cost.pools_us_per_txn.is_empty() {
        panels.push(Panel {
            title: "CPU by pool of the runtime, µs a transaction (of generator and database)".to_owned(),
            shape: Shape::Bars(cost.pools_us_per_txn.keys().cloned().collect()),
            logarithmic: false,
            series: vec![(String::new(), cost.pools_us_per_txn.values().copied().collect())],
        });
    }
    Plot { title: format!("{} on {}", result.workload, result.target), panels }
}

fn findings(html: &mut String, title: &str, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(html, "<table><tr><th>{title}</th><th>found</th><th>wanted</th><th></th></tr>");
    for Finding { what, found, wanted, verdict, .. } in findings {
        let class = match verdict {
            Verdict::Holds => "good",
            Verdict::TooFew => "",
            Verdict::Broken => "bad",
        };
        let cells = [what, found, wanted].map(|cell| format!("<td>{}</td>", escaped(cell))).concat();
        let _ = writeln!(html, "<tr>{cells}<td class=\"{class}\">{}</td></tr>", verdict.word());
    }
    html.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::result::tests::example;

    /// Tags that are open where the page ends, or closed out of turn.
    fn unbalanced(html: &str) -> Option<String> {
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1) {
            let name = tag.split(['>', ' ', '/', '\n']).find(|part| !part.is_empty()).unwrap_or_default();
            let is_alone =
                matches!(name, "!DOCTYPE" | "meta") || tag.split('>').next().is_some_and(|tag| tag.ends_with('/'));
            match tag.strip_prefix('/') {
                Some(_) if open.last() == Some(&name) => drop(open.pop()),
                Some(_) => return Some(format!("{name} closes {open:?}")),
                None if !is_alone => open.push(name),
                None => {}
            }
        }
        (!open.is_empty()).then(|| format!("{open:?}"))
    }

    #[test]
    fn the_page_stands_alone_and_shows_everything() {
        let mut broken = example("tpcc", "postgres://x@h:1/d");
        broken.valid = false;
        broken.reasons.push("1 < 2 & 3".to_owned());
        let html = page("two <results>", &[example("tpcc", "colibri"), broken]);
        assert_eq!(unbalanced(&html), None);
        for needle in [
            "not valid: 1 &lt; 2 &amp; 3",
            "side by side",
            "NewOrder",
            "two &lt;results&gt;",
            "condition 1",
            "polyline",
        ] {
            assert!(html.contains(needle), "{needle}");
        }
        // The page loads nothing and runs no scripts.
        let namespace = "http://www.w3.org/2000/svg";
        let elsewhere = html.replace(namespace, "");
        for needle in ["http://", "https://", "<script", "src=", "href=", "@import", "url(", "NaN"] {
            assert!(!elsewhere.contains(needle), "{needle}");
        }
    }

    #[test]
    fn many_results_are_medians_first_and_folded_behind_them() {
        let result = |workload: &str, target: &str, throughput: f64| {
            let mut result = example("ycsb", target);
            (result.workload_about, result.throughput_per_s) = (workload.to_owned(), throughput);
            result
        };
        let results = [
            result("A, x", "one", 100.0),
            result("A, x", "other", 50.0),
            result("B", "one", 7.0),
            result("A, x", "one", 300.0),
            result("A, x", "other", 40.0),
        ];
        let html = page("all", &results);
        assert_eq!(unbalanced(&html), None);
        let rows: Vec<&str> = html.lines().filter(|line| line.starts_with("<tr><td>A, x</td>")).collect();
        assert_eq!(rows.len(), 2, "a line for each target");
        assert!(
            rows[0].contains("<td>200</td><td>100 to 300</td>") && rows[1].contains("<td>4.44\u{a0}×</td>"),
            "{rows:?}"
        );
        assert_eq!(
            (html.matches("<details>").count(), page("few", &results[..4]).matches("<details>").count()),
            (5, 0)
        );
        assert_eq!((lines_of("YCSB A, zipfian"), lines_of("x")), ("YCSB A\nzipfian".to_owned(), "x".to_owned()));
    }

    #[test]
    fn a_result_of_nothing_is_still_a_page() {
        let mut nothing = example("tpcc", "colibri");
        nothing.kinds.clear();
        nothing.timeline.clear();
        assert_eq!(unbalanced(&page("nothing", &[nothing])), None);
        assert_eq!(unbalanced(&page("none", &[])), None);
    }
}
