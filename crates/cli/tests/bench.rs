//! The benchmarks as a person starts them, very small.

use std::path::Path;
use std::process::Command;

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

#[test]
fn the_free_space_benchmarks_write_tables_and_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (text, errors, code) = run(dir.path(), "bench freespace --txns 30 --values 10 --json free.json --svg free.svg");
    assert_eq!(code, Some(0), "{errors}");
    assert!(["append", "lifo", "fifo", "lowest"].iter().all(|policy| text.contains(policy)), "{text}");
    let (text, errors, code) =
        run(dir.path(), "bench lifo --records 42 --txns 50 --dir data --json lifo.json --svg lifo.svg");
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("512 MB: FIFO"), "{text}");
    for name in ["free.json", "free.svg", "lifo.json", "lifo.svg"] {
        assert!(dir.path().join(name).metadata().is_ok_and(|file| file.len() > 100), "{name}");
    }
}
