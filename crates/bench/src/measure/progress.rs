//! Progress while a benchmark runs: a line on a terminal, else a line for each finished run, on
//! standard error either way.
//!
//! Invariants
//! - Nothing is drawn while a clock runs: no thread of its own, no ticks, so that watching costs
//!   nothing.
//!
//! Not here: results, which go to standard output.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::measure::output::tell;

/// Shows how far a benchmark is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    silent: bool,
}

impl Progress {
    /// For `runs` runs.
    pub(crate) fn new(runs: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{pos}/{len}] {elapsed_precise} {wide_msg}");
            let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
            bar.set_style(style.expect("a template that is right at compile time"));
            bar
        });
        Self { bar, silent: false }
    }

    /// Shows nothing: for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { bar: None, silent: true }
    }

    /// A run begins.
    pub(crate) fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// Something finished that deserves a line.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if self.silent => {}
            None => tell!("{text}"),
        }
    }

    /// A run ended.
    pub(crate) fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Everything ended: leaves the terminal as it was.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
