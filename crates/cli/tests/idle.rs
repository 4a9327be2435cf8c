//! `colibri bench idle` as a person starts it, with very short windows.
//!
//! Rates are not checked: machines that run tests are busy. What must not happen at all is:
//! switches of who sleeps, bytes of who does not write, anybody left behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs it for half a second after `settle` seconds.
fn run_after(settle: &str, dir: &Path, flags: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_colibri"))
        .args(["bench", "idle", "--seconds", "0.5", "--settle", settle])
        .args(flags)
        .current_dir(dir)
        .output()
        .expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn run(dir: &Path, flags: &[&str]) -> (String, String, Option<i32>) {
    run_after("0.2", dir, flags)
}

fn rows(dir: &Path, flags: &[&str]) -> (String, Vec<serde_json::Value>) {
    rows_after("0.2", dir, flags)
}

/// Runs it, and answers the table and the rows.
fn rows_after(settle: &str, dir: &Path, flags: &[&str]) -> (String, Vec<serde_json::Value>) {
    let (text, errors, code) = run_after(settle, dir, &[&["--json", "rows.json"], flags].concat());
    assert_eq!(code, Some(0), "{errors}");
    let json = fs::read_to_string(dir.join("rows.json")).expect("the results");
    (text, serde_json::from_str(&json).expect("an array"))
}

fn number(row: &serde_json::Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"))
}

/// A number of seconds for `sleep` that no other test and no other run of this one has.
fn long_time(test: u32) -> String {
    format!("{test}00000.{}", std::process::id())
}

/// How many processes have `word` in their command line.
fn with_word(word: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    // Those that ended and wait for their parent have no command line.
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let separated = |line: &Vec<u8>| String::from_utf8_lossy(line).split(['\0', ' ']).any(|argument| argument == word);
    lines.filter(separated).count()
}

/// Waits until so many processes have `word` in their command line.
fn wait_for(count: usize, word: &str) {
    let begun = Instant::now();
    while with_word(word) != count {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} processes with {word}", with_word(word));
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Sleeper(Child);

impl Sleeper {
    fn start(seconds: &str) -> Self {
        let child = Command::new("sleep").arg(seconds).stdin(Stdio::null()).spawn().expect("sleep starts");
        wait_for(1, seconds);
        Self(child)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _may_have_ended = self.0.kill();
        let _is_a_child = self.0.wait();
    }
}

#[test]
fn who_sleeps_costs_nothing_and_is_not_left_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = long_time(1);
    // The same twice, with a shell and without.
    let by_shell = format!("exec sleep {time}");
    let flags = ["--no-control", "--svg", "plot.svg", "--command", &by_shell, "--", "sleep", &time];
    // On a busy machine it takes a moment until they sleep.
    let (text, rows) = rows_after("0.8", dir.path(), &flags);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["kind"], "command");
        for field in
            ["voluntary_per_s", "involuntary_per_s", "cpu_us_per_s", "bytes_written_per_s", "write_calls_per_s"]
        {
            assert_eq!(number(row, field), 0.0, "{field}: {row}");
        }
        assert!(number(row, "pss_bytes") > 0.0 && number(row, "rss_bytes") >= number(row, "pss_bytes"), "{row}");
        assert_eq!((number(row, "processes"), number(row, "threads")), (1.0, 1.0));
        assert!(number(row, "window_s") >= 0.5 && number(row, "settle_s") == 0.8, "{row}");
        assert!(row["env"]["kernel"].is_string() && row["notes"].is_string(), "{row}");
        assert!(row.get("machine_power_watts").is_some(), "{row}");
    }
    for part in ["command: ", "voluntary/s", "PSS MB", &by_shell, &format!("\nsleep {time}"), "written: rows.json"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("energy"), "{text}");
    assert!(fs::read_to_string(dir.path().join("plot.svg")).expect("a picture").starts_with("<svg"));
    assert_eq!(with_word(&time), 0);
}

#[test]
fn the_control_group_wakes_up_by_the_clock_or_never() {
    let dir = tempfile::tempdir().expect("a directory");
    let (text, rows) = rows(dir.path(), &[]);
    let names: Vec<_> = rows.iter().map(|row| row["target"].as_str().expect("a name")).collect();
    assert_eq!(names, ["tick 64 µs", "tick 1,024 µs", "tickless"]);
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
    let [fast, slow, never] = [0, 1, 2].map(|row| number(&rows[row], "voluntary_per_s"));
    assert!(fast > slow && slow > 200.0 && never < slow / 10.0, "{fast} {slow} {never}");
    // Never more than the period allows, however late some of them come.
    assert!(fast < 16_500.0 && slow < 1_030.0, "{fast} {slow}");
    assert!(number(&rows[0], "cpu_us_per_s") > number(&rows[2], "cpu_us_per_s"), "{text}");
    let left = rows.iter().filter(|row| Path::new(&format!("/proc/{}", row["pid"])).exists());
    assert_eq!(left.count(), 0);
}

#[test]
fn a_tree_is_measured_with_what_comes_and_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = long_time(2);
    let words = format!("sleep {time} & while :; do sleep 0.05; echo line > file; done");
    let (text, rows) = rows(dir.path(), &["--no-control", "--command", &words]);
    let [row] = &rows[..] else { panic!("one row: {text}") };
    assert!(number(row, "processes") >= 2.0, "{row}");
    assert!(number(row, "voluntary_per_s") > 0.0 && number(row, "write_calls_per_s") > 0.0, "{row}");
    assert!(row["notes"].as_str().expect("notes").contains("went"), "{row}");
    assert!(text.contains("…") && text.contains("switches are not counted"), "{text}");
    assert_eq!(with_word(&time), 0);
}

#[test]
fn a_process_that_was_there_is_measured_and_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = long_time(3);
    let sleeper = Sleeper::start(&time);
    let pid = sleeper.0.id().to_string();
    // Given twice it is still one.
    let (text, rows) = rows(dir.path(), &["--no-control", "--pid", &pid, "--pid", &pid]);
    assert!(
        rows.len() == 1 && rows[0]["kind"] == "pid" && number(&rows[0], "pid") == f64::from(sleeper.0.id()),
        "{rows:?}"
    );
    assert!(text.contains(&format!("sleep [{pid}]")), "{text}");
    assert_eq!(with_word(&time), 1);
}

#[test]
fn a_target_that_ends_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = long_time(4);
    let failed = |flags: &[&str]| {
        // The processes that are measured beside it end, too.
        let beside = format!("sleep {time}");
        let (text, errors, code) = run(dir.path(), &[&["--command", &beside], flags].concat());
        assert!(code == Some(1) && text.is_empty(), "{flags:?}: {text}{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert_eq!(with_word(&time), 0, "{flags:?}");
        errors
    };
    let errors = failed(&["--command", "exit 3"]);
    assert!(
        errors.starts_with("colibri: cannot measure exit 3: it ended with exit status 3 while it settled"),
        "{errors}"
    );
    let errors = failed(&["--", "sleep", "0.4"]);
    assert!(errors.contains("cannot measure sleep 0.4: it ended with exit status 0 w"), "{errors}");
    let errors = failed(&["--command", "kill -9 $$"]);
    assert!(errors.contains("it ended by signal 9"), "{errors}");
    let errors = failed(&["--", "no-such-program", "--flag"]);
    assert!(errors.contains("cannot start no-such-program --flag: No such file"), "{errors}");
    let errors = failed(&["--pid", "8388608"]);
    assert!(errors.contains("cannot measure process 8388608: there is no such process"), "{errors}");

    let short = Sleeper(Command::new("sleep").arg("0.3").spawn().expect("sleep starts"));
    let errors = failed(&["--pid", &short.0.id().to_string()]);
    assert!(errors.contains(&format!("sleep [{}]: it ended ", short.0.id())), "{errors}");
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0, "no results");
}

#[test]
fn wrong_flags_are_refused_before_anything_is_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |flags: &[&str], code: i32| {
        let output = Command::new(env!("CARGO_BIN_EXE_colibri"))
            .args(["bench", "idle"])
            .args(flags)
            .args(["--", "touch", "started"])
            .current_dir(dir.path())
            .output()
            .expect("the command starts");
        let errors = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(code) && output.stdout.is_empty(), "{flags:?}: {errors}");
        errors
    };
    assert!(refused(&["--seconds", "0"], 2).contains("--seconds is 0, but must be from 0.1"));
    assert!(refused(&["--settle", "inf"], 2).contains("--settle is inf"));
    let own = std::process::id().to_string();
    assert!(refused(&["--pid", &own], 2).contains("has this benchmark among its descendants"));
    assert!(refused(&["--json", "missing/rows.json"], 1).contains("cannot write"));
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0);

    let (_, errors, code) = run(dir.path(), &["--no-control"]);
    assert!(code == Some(2) && errors.contains("nothing to measure"), "{errors}");
}

#[test]
fn what_commands_print_goes_to_standard_error_if_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let words = format!("echo 'a line'; echo 'an error' >&2; exec sleep {}", long_time(5));
    let (text, errors, _) = run(dir.path(), &["--no-control", "--command", &words]);
    assert!(!errors.contains("a line\n") && !errors.contains("an error\n") && !text.contains("a line\n"), "{errors}");
    let (text, errors, _) = run(dir.path(), &["--no-control", "--show-output", "--command", &words]);
    assert!(errors.contains("a line\n") && errors.contains("an error\n") && !text.contains("a line\n"), "{errors}");
}

#[test]
fn an_interrupted_benchmark_leaves_no_process_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    for (signal, code, test) in [("INT", 130, 6), ("TERM", 143, 7)] {
        let time = long_time(test);
        // One in the group, and one that left both its parent and the group.
        let words = format!("(setsid sleep {time} &); sleep {time} & exec sleep {time}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_colibri"))
            .args(["bench", "idle", "--seconds", "600", "--json", "rows.json", "--command", &words])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        // The benchmark's own command line has the words, too, as one argument.
        wait_for(4, &time);
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
        assert_eq!(child.wait().expect("a child").code(), Some(code));
        assert_eq!(with_word(&time), 0);
    }
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0);
}

#[test]
fn who_ignores_the_signal_to_end_is_ended_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let time = long_time(8);
    let words = format!("trap '' TERM; sleep {time}; sleep {time}");
    let (_, rows) = rows(dir.path(), &["--no-control", "--command", &words]);
    assert_eq!(number(&rows[0], "processes"), 2.0);
    assert_eq!(with_word(&time), 0);
}
