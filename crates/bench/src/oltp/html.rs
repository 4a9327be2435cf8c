//! Results as one page that opens from disk: tables, and charts as SVG within it. It loads nothing and runs nothing.

use std::fmt::Write as _;

use crate::kv::report::{significant, whole};
use crate::oltp::result::RunResult;
use crate::plot::{Panel, Plot, Shape, escaped};
use crate::workload::{Finding, Verdict};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-top:1px solid #ccc;padding-top:1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #eee}\
td:first-child,th:first-child{text-align:left}.bad{color:#b00020;font-weight:bold}.good{color:#00663a}\
code{background:#f3f3f3;padding:.1em .3em}svg{max-width:100%;height:auto}";

/// The page.
pub(crate) fn page(title: &str, results: &[RunResult]) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head>\n\
         <body><h1>{}</h1>\n",
        escaped(title),
        escaped(title)
    );
    if results.len() > 1 {
        overview(&mut html, results);
    }
    for (number, result) in results.iter().enumerate() {
        section(&mut html, number + 1, result);
    }
    html.push_str("</body></html>\n");
    html
}

fn table(html: &mut String, heading: &[&str], rows: &[Vec<String>]) {
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

fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), significant)
}

/// All results, a line each, and side by side.
fn overview(html: &mut String, results: &[RunResult]) {
    let row = |result: &RunResult| {
        vec![
            result.workload_about.clone(),
            result.target.clone(),
            significant(result.throughput_per_s),
            ms(result.scheduled_us.p50),
            ms(result.scheduled_us.p99),
            or_dash(result.cost.cpu_us_per_txn),
            if result.valid { "valid" } else { "NOT VALID" }.to_owned(),
        ]
    };
    let heading = ["workload", "target", "transactions/s", "p50 ms", "p99 ms", "CPU µs", ""];
    table(html, &heading, &results.iter().map(row).collect::<Vec<_>>());
    // A group of bars for each workload, a series for each target; of several rounds the median.
    let mut workloads: Vec<&str> = results.iter().map(|result| result.workload_about.as_str()).collect();
    let mut targets: Vec<&str> = results.iter().map(|result| result.target.as_str()).collect();
    for names in [&mut workloads, &mut targets] {
        let mut seen = Vec::new();
        names.retain(|name| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
    }
    let series = |of: &dyn Fn(&RunResult) -> Option<f64>| {
        let value = |workload: &str, target: &str| {
            let of_both = results.iter().filter(|result| result.workload_about == workload && result.target == target);
            crate::bootstrap::median(&of_both.filter_map(of).collect::<Vec<_>>())
        };
        let row =
            |target: &&str| ((*target).to_owned(), workloads.iter().map(|workload| value(workload, target)).collect());
        targets.iter().map(row).collect::<Vec<(String, Vec<f64>)>>()
    };
    let groups: Vec<String> =
        workloads.iter().map(|workload| workload.split(',').next().unwrap_or_default().to_owned()).collect();
    let panel = |title: &str, series| Panel {
        title: title.to_owned(),
        shape: Shape::Bars(groups.clone()),
        logarithmic: false,
        series,
    };
    let panels = vec![
        panel("transactions a second", series(&|result| Some(result.throughput_per_s))),
        panel("p99 in ms, from when a transaction was due", series(&|result| Some(result.scheduled_us.p99 / 1e3))),
        panel("CPU of the target, µs a transaction", series(&|result| result.cost.cpu_us_per_txn)),
    ];
    html.push_str(&Plot { title: "side by side".to_owned(), panels }.render());
}

fn section(html: &mut String, number: usize, result: &RunResult) {
    let _ = writeln!(html, "<h2>{number}. {} on {}</h2>", escaped(&result.workload_about), escaped(&result.target));
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
    for (name, value) in facts {
        let _ = writeln!(html, "<div>{name}: <code>{}</code></div>", escaped(&value));
    }
    kinds(html, result);
    let mut rows: Vec<Vec<String>> =
        result.figures.iter().map(|(name, value)| vec![name.clone(), significant(*value)]).collect();
    rows.extend(costs(result));
    table(html, &["figure", ""], &rows);
    html.push_str(&charts(result).render());
    findings(html, "audit", &result.audit);
    findings(html, "check", &result.checks);
    for note in &result.notes {
        let _ = writeln!(html, "<p>note: {}</p>", escaped(note));
    }
}

fn kinds(html: &mut String, result: &RunResult) {
    let row = |kind: &crate::oltp::result::KindResult| {
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
    table(html, &heading, &result.kinds.iter().map(row).collect::<Vec<_>>());
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
    let of = |figure: fn(&crate::oltp::result::Point) -> f64| result.timeline.iter().map(figure).collect::<Vec<f64>>();
    let ran: Vec<_> = result.kinds.iter().filter(|kind| kind.committed + kind.rolled_back > 0).collect();
    let percentiles = [("p50", 0), ("p90", 1), ("p99", 2), ("p99.9", 3)];
    let latency = |index: usize| {
        let of = |kind: &&&crate::oltp::result::KindResult| {
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
        line("latency in ms", vec![("p50", of(|point| point.p50_us / 1e3)), ("p99", of(|point| point.p99_us / 1e3))]),
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
            series: vec![("pools".to_owned(), cost.pools_us_per_txn.values().copied().collect())],
        });
    }
    Plot { title: format!("{} on {}", result.workload, result.target), panels }
}

fn findings(html: &mut String, title: &str, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(html, "<table><tr><th>{title}</th><th>found</th><th>wanted</th><th></th></tr>");
    for Finding { what, found, wanted, verdict } in findings {
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
    use crate::oltp::result::tests::example;

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
        // Nothing from elsewhere, nothing that runs.
        let namespace = "http://www.w3.org/2000/svg";
        let elsewhere = html.replace(namespace, "");
        for needle in ["http://", "https://", "<script", "src=", "href=", "@import", "url(", "NaN"] {
            assert!(!elsewhere.contains(needle), "{needle}");
        }
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
