//! Progress of a run or a load on a terminal.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ledger::Ledger;
use crate::measure::format::{significant, whole};
use crate::measure::plot;
use crate::sql::driver::{self, RunPlan, Watch};
use crate::sql::workload::load::LoadProgress;

/// Seconds whose rates are shown while a run goes on.
const RATES_SHOWN: usize = 20;

/// A line on the terminal while a run goes on, and the ledger.
pub(super) struct RunWatch {
    pub(super) ledger: Ledger,
    pub(super) bar: Option<ProgressBar>,
    pub(super) warmup: Duration,
    pub(super) last: (Instant, u64),
    /// Transactions a second, of each second so far.
    pub(super) rates: Vec<f64>,
}

impl RunWatch {
    pub(super) fn new(server_pid: Option<u32>, plan: &RunPlan) -> Self {
        let whole = (plan.warmup + plan.duration).as_secs();
        Self {
            ledger: Ledger::new(server_pid),
            bar: bar(whole.max(1), "[{pos}/{len} s] {bar:12} {wide_msg}"),
            warmup: plan.warmup,
            last: (Instant::now(), 0),
            rates: Vec::new(),
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for RunWatch {
    fn measuring_begins(&mut self) {
        self.ledger.begin();
    }

    fn measuring_ends(&mut self) {
        self.ledger.end();
    }

    fn tick(&mut self, elapsed: Duration, run: &driver::Run) {
        let Some(bar) = &self.bar else { return };
        let (at, before) = self.last;
        let since = at.elapsed();
        if since < Duration::from_secs(1) {
            return;
        }
        let (ended, failed) = run.recorder.so_far();
        let rate = significant((ended - before) as f64 / since.as_secs_f64());
        bar.set_position(elapsed.as_secs());
        bar.set_message(match run.recorder.latest(Instant::now()) {
            None if elapsed < self.warmup => "warming up".to_owned(),
            None => "measuring".to_owned(),
            Some(latest) => {
                let has_ended = latest.ended > 0;
                let p99 = if has_ended { significant(latest.quantile_ns(0.99) as f64 / 1e6) } else { "–".to_owned() };
                self.rates.push((ended - before) as f64 / since.as_secs_f64());
                let first = self.rates.len().saturating_sub(RATES_SHOWN);
                let shown = plot::sparks(&self.rates[first..]);
                format!("{rate} a second {shown} p99 {p99} ms, {} ended, {failed} failed", whole(ended as f64))
            }
        });
        self.last = (Instant::now(), ended);
    }
}

/// How far a load is, for a terminal.
pub(super) struct LoadBar {
    pub(super) bar: Option<ProgressBar>,
}

impl LoadBar {
    pub(super) fn new(rows: u64) -> Self {
        Self { bar: bar(rows, "loading [{pos}/{len} rows] {per_sec} {eta} left") }
    }

    /// Drives a load, and shows how far it is.
    pub(super) async fn watch<F: Future>(&self, progress: &LoadProgress, load: F) -> F::Output {
        let mut load = std::pin::pin!(load);
        loop {
            match colibri_runtime::timeout(Duration::from_millis(500), load.as_mut()).await {
                Ok(output) => {
                    if let Some(bar) = &self.bar {
                        bar.finish_and_clear();
                    }
                    return output;
                }
                Err(_not_yet) => {
                    if let Some(bar) = &self.bar {
                        bar.set_position(progress.rows.load(Ordering::Relaxed));
                    }
                }
            }
        }
    }
}

/// Shows nothing if there is no terminal.
fn bar(length: u64, template: &str) -> Option<ProgressBar> {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(template).expect("a template that is right at compile time"));
        bar
    })
}
