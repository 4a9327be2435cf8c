//! Pages of `colibri bench`, opened from disk in a browser.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

fn bench(dir: &Path, args: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
    let output = command.current_dir(dir).arg("bench").args(args.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A browser without a window.
struct Browser(&'static str);

impl Browser {
    fn find() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok()).map(Self)
    }

    /// What it makes of a page, and what it has to say about it.
    fn open(&self, page: &Path, flags: &[&str]) -> (String, String) {
        let profile = tempfile::tempdir().unwrap();
        let output = Command::new(self.0)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1200,3000"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(flags)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// A page has these texts, at least so many charts, and nothing that the browser complains of.
    #[track_caller]
    fn look(&self, page: &Path, charts: usize, texts: &[&str]) {
        let (dom, told) = self.open(page, &["--dump-dom"]);
        assert!(dom.matches("<svg").count() >= charts, "{}: {dom}", page.display());
        // What has been drawn: bars and lines, beside backgrounds and keys.
        assert!(dom.matches("<rect").count() + dom.matches("<polyline").count() > 4 * charts, "{dom}");
        for text in texts {
            assert!(dom.contains(text), "{}: {text} is not there: {dom}", page.display());
        }
        assert!(!told.contains("CONSOLE"), "{}: {told}", page.display());
        let picture = page.with_extension("png");
        self.open(page, &[&format!("--screenshot={}", picture.display())]);
        // An empty page of that size compresses to some 10 KB.
        let bytes = std::fs::metadata(&picture).unwrap().len();
        assert!(bytes > 40_000, "{}: a picture of {bytes} bytes", page.display());
    }
}

#[test]
fn pages_show_their_charts_in_a_browser() {
    let Some(browser) = Browser::find() else {
        eprintln!("SKIPPED: no chromium is installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let brief = "--warmup 100ms --clients 4";
    let quick = format!("{brief} --duration 3s");
    bench(dir.path(), &format!("tpcc --miniature --no-wait {quick} --json t.json --html t.html"));
    bench(dir.path(), &format!("ycsb --workload a --records 300 {quick} --no-control --json y.json --html y.html"));
    let all =
        ["transactions a second", "by transaction", "costs of a transaction", "CPU by pool", "write amplification"];
    browser.look(&path("t.html"), 1, &[&all[..], &["NewOrder", "StockLevel", "condition 12", "tpmC"]].concat());
    browser.look(&path("y.html"), 1, &[&all[..], &["Update", "closed loop"]].concat());

    let description = format!(
        "rounds = 2\n[[workload]]\nname = 'reads'\ncommand = 'ycsb --workload c --records 100 {quick} --no-control'\n\
         [[workload]]\nname = 'orders'\ncommand = 'stock {quick} --no-control'\n\
         [[target]]\nname = 'nobody'\nflags = '--target null'\n[[target]]\nname = 'colibri'\nflags = ''\n"
    );
    std::fs::write(path("m.toml"), description).unwrap();
    bench(dir.path(), "matrix m.toml --time-scale 0.2 --json m.json --html m.html");
    // One that compares, and one for each run.
    browser.look(&path("m.html"), 1 + 8, &["side by side", "reads", "orders", "nobody", "p99 in ms"]);

    std::fs::create_dir(path("runs")).unwrap();
    for run in 0..4 {
        let file = path(&format!("runs/{run}.json"));
        bench(dir.path(), &format!("stock {brief} --no-control --duration 300ms --json {}", file.display()));
        // As if each were of another commit.
        let mut results: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        results[0]["env"]["commit"] = format!("{run}c0ffee0").into();
        std::fs::write(&file, results.to_string()).unwrap();
    }
    bench(dir.path(), "history runs --html h.html");
    browser.look(&path("h.html"), 1, &["stock", "transactions/s", "p99", "0c0ffee0", "3c0ffee0"]);
}
