//! The benchmarks as a person starts them, very small.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn run(dir: &Path, words: &str) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_colibri"))
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn every_commit_and_steady_point_is_a_line_of_the_flush_trace() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = "bench kv --targets colibri,colibri-nolog --modes sync --workloads set --n 20 --trace-flush";
    let (text, errors, code) = run(dir.path(), flags);
    assert_eq!(code, Some(0), "{errors}");
    // Each also made the table.
    for line in ["colibri sync: summary: 21 commits: ", "colibri-nolog sync: summary: 21 commits: "] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(text.matches("colibri-nolog sync: steady ").count(), 21, "{text}");
    assert!(text.contains("; 21 steady points: "), "{text}");
    let (_, errors, code) = run(dir.path(), "bench kv --targets null --trace-flush");
    assert!(code == Some(2) && errors.contains("colibri-nolog"), "{errors}");
}

/// In a process of its own: what others write in the same one would count.
#[test]
fn records_before_a_write_workload_are_not_paid_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = "bench kv --targets colibri --modes sync --workloads crud --sync-n 50 --prefill 100000 --json results";
    let (_, errors, code) = run(dir.path(), flags);
    assert_eq!(code, Some(0), "{errors}");
    let text = fs::read_to_string(dir.path().join("results")).expect("results");
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // 50 transactions change some 50 pages of the tree, and fewer with every level above. The
    // filling alone would be more than 100 KB for each.
    let bytes = rows[0]["cost"]["written_bytes_per_op"].as_f64();
    assert!(bytes.is_none_or(|bytes| bytes < 60e3), "{text}");
}

/// The numbers of a flush trace's line, by what they count.
fn traced(line: &str) -> impl Fn(&str) -> u64 {
    let counts: Vec<(u64, String)> = line
        .split(", ")
        .map(|part| {
            let (number, name) = part.trim().split_once(' ').expect("a number and what it counts");
            (number.parse().expect("a number"), name.to_owned())
        })
        .collect();
    move |name| counts.iter().find(|(_, other)| other == name).unwrap_or_else(|| panic!("no {name}")).0
}

#[test]
fn the_lines_of_the_flush_trace_say_what_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    // Values of two pages each, and so many keys that leaves have a branch above them.
    let flags = "bench kv --targets colibri-nolog --modes sync --workloads set --n 300 --value-size 8000 --trace-flush";
    let (text, errors, code) = run(dir.path(), flags);
    assert_eq!(code, Some(0), "{errors}");
    const KINDS: [&str; 4] = ["leaves", "branches", "overflow", "free map"];
    let mut sums = [0; 7];
    let mut largest = [0; 4];
    for line in text.lines().filter_map(|line| line.strip_prefix("colibri-nolog sync: steady ")) {
        let counts = traced(line.split_once(": ").expect("a number and what it wrote").1);
        let [pages, kilobytes, ranges] = ["pages", "KB", "ranges"].map(&counts);
        let kinds = KINDS.map(&counts);
        assert!(pages > 0 && kilobytes == 4 * pages, "{line}");
        assert!((1..=pages).contains(&ranges), "{line}");
        assert!(kinds[0] > 0 && kinds.iter().sum::<u64>() == pages, "{line}");
        let all = [pages, kilobytes, ranges].into_iter().chain(kinds);
        sums.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
        largest.iter_mut().zip(kinds).for_each(|(most, count)| *most = count.max(*most));
    }
    // The leaf and the catalogue's, a branch, a value.
    assert!(largest[0] >= 2 && largest[1] >= 1 && largest[2] == 2, "{largest:?}: {text}");
    assert_eq!(sums[5], 2 * 300, "every value is written once");
    let summary = text.split("steady points: ").nth(1).expect("a summary").lines().next().expect("a line");
    let counts = traced(summary);
    let summed = ["pages", "KB", "ranges"].into_iter().chain(KINDS).map(counts);
    assert_eq!(summed.collect::<Vec<_>>(), sums, "{summary}");
}

#[test]
fn the_free_space_benchmarks_write_tables_and_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (text, errors, code) = run(dir.path(), "bench freespace --txns 30 --values 10 --json free.json --svg free.svg");
    assert_eq!(code, Some(0), "{errors}");
    assert!(["append", "lifo", "fifo", "lowest"].iter().all(|policy| text.contains(policy)), "{text}");
    let (text, errors, code) = run(
        dir.path(),
        "bench lifo --records 42 --txns 50 --log-bytes 65536 --dir data --json lifo.json --svg lifo.svg",
    );
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("512 MB: FIFO") && text.contains("without") && text.contains("note: with log"), "{text}");
    for name in ["free.json", "free.svg", "lifo.json", "lifo.svg"] {
        assert!(dir.path().join(name).metadata().is_ok_and(|file| file.len() > 100), "{name}");
    }
}

#[test]
fn results_go_to_a_folder_that_is_made_and_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let lifo = "lifo --records 42 --txns 50 --log without --dir data";
    let freespace = "freespace --txns 30 --values 10";
    for (bench, flags, folder, name) in [
        (lifo, "", "colibri-bench-results", "lifo"),
        (freespace, "", "colibri-bench-results", "freespace"),
        (lifo, "--results mine", "mine", "lifo"),
        (freespace, "--results mine", "mine", "freespace"),
    ] {
        let (text, errors, code) = run(dir.path(), &format!("bench {bench} {flags}"));
        assert_eq!(code, Some(0), "{errors}");
        for ending in ["json", "svg"] {
            let file = format!("{folder}/{name}.{ending}");
            assert!(text.contains(&format!("written: {file}\n")), "{text}");
            let content = fs::read_to_string(dir.path().join(&file)).expect("the results");
            assert!(content.starts_with(if ending == "json" { "[" } else { "<svg" }), "{file}: {content}");
        }
    }
    let (text, errors, code) = run(dir.path(), &format!("bench {lifo} --json other.json"));
    assert!(
        code == Some(0) && text.contains("written: other.json") && !text.contains("colibri-bench-results"),
        "{errors}"
    );
    let mut left: Vec<_> = fs::read_dir(dir.path()).expect("the directory").flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["colibri-bench-results", "mine", "other.json"]);
}

#[test]
fn results_that_cannot_be_kept_are_refused_before_anything_is_run() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "mine").expect("a file");
    // Were it run, each would take hours.
    let kv = "kv --n 1000000000";
    for (bench, flags) in [
        (kv, "--json missing/results"),
        (kv, "--dir file"),
        ("freespace --txns 1000000000", "--json missing/results"),
        ("freespace --txns 1000000000", "--svg missing/plot"),
        ("freespace --txns 1000000000", "--dir missing/data"),
        ("freespace --txns 1000000000", "--results file"),
        ("freespace --txns 1000000000", "--results missing/folder"),
        ("lifo --records 1000000000 --dir data", "--results file/folder"),
        ("lifo --records 1000000000 --dir data", "--json ."),
        ("lifo --records 1000000000 --dir data", "--svg file/plot"),
        ("lifo --records 1000000000", "--dir file/data"),
    ] {
        let (text, errors, code) = run(dir.path(), &format!("bench {bench} {flags}"));
        assert!(code == Some(1) && text.is_empty(), "{bench} {flags}: {errors}");
        assert!(errors.starts_with("colibri: cannot ") && errors.lines().count() == 1, "{bench} {flags}: {errors}");
    }
    let (_, errors, code) = run(dir.path(), "bench lifo --records 1000000000 --json out --svg out");
    assert!(code == Some(2) && errors.contains("choose two names"), "{errors}");
    let left: Vec<_> = fs::read_dir(dir.path()).expect("the directory").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Starts a benchmark that would take hours, sends it a signal once it is at work, and answers its
/// exit code.
fn interrupted(dir: &Path, flags: &str, signal: &str) -> Option<i32> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_colibri"))
        .args(flags.split_whitespace())
        .args(["--dir", "data"])
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let started = Instant::now();
    while files_below(&dir.join("data/")) == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no database comes");
        assert_eq!(child.try_wait().expect("a child"), None, "{flags} ends by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    child.wait().expect("a child").code()
}

fn files_below(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

#[test]
fn an_interrupted_benchmark_removes_its_databases() {
    let dir = tempfile::tempdir().expect("a directory");
    let kv = "bench kv --targets colibri --n 1000000000 --sync-n 1000000000 --workloads set";
    for (flags, signal, code) in [
        (format!("{kv} --modes sync"), "INT", 130),
        (format!("{kv} --modes lazy --writers 2"), "TERM", 143),
        (format!("{kv} --modes lazy --rate 1"), "INT", 130),
        ("bench freespace --txns 1000000000".to_owned(), "INT", 130),
        ("bench lifo --txns 1000000000 --records 42".to_owned(), "TERM", 143),
    ] {
        assert_eq!(interrupted(dir.path(), &flags, signal), Some(code), "{flags}");
        assert!(!dir.path().join("data").exists(), "{flags}");
    }
    // What was there before stays.
    fs::create_dir(dir.path().join("data")).expect("a directory");
    fs::create_dir(dir.path().join("data/mine")).expect("a directory");
    assert_eq!(interrupted(dir.path(), kv, "INT"), Some(130));
    let left: Vec<_> = fs::read_dir(dir.path().join("data")).expect("the directory").flatten().collect();
    assert!(left.len() == 1 && left[0].file_name() == "mine", "{left:?}");
}

#[test]
fn an_open_loop_is_a_row_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = "bench kv --targets flush,colibri --modes sync --workloads crud --n 100 --load 0.5 --json rows.json";
    let (text, errors, code) = run(dir.path(), flags);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("due/s") && text.contains("p99.9/p50"), "{text}");
    let json = fs::read_to_string(dir.path().join("rows.json")).expect("the results");
    let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let rates: Vec<_> = rows.as_array().expect("an array").iter().map(|row| row["rate"].as_f64()).collect();
    assert_eq!(rates.len(), 4);
    assert_eq!(rates.iter().flatten().filter(|rate| **rate > 0.0).count(), 2, "{rates:?}");
}
