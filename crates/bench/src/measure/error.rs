//! What can go wrong in a benchmark: wrong flags, a failing engine, the disk, or results that must
//! not be believed.

use std::path::PathBuf;

/// The result of a benchmark operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The flags contradict each other or are out of range: fix them.
    #[error("{reason}")]
    Usage {
        /// Which flag, and what would be right.
        reason: String,
    },
    /// The target exists, but not in this build: build with the feature.
    #[error("target {target} is not in this build: build with --features {feature}")]
    NotCompiledIn {
        /// The target asked for.
        target: String,
        /// The cargo feature that compiles it in.
        feature: &'static str,
    },
    /// An engine failed.
    #[error("{target}: {source}")]
    Engine {
        /// The engine.
        target: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system refused something that the harness itself did.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted, as a verb phrase: "cannot create".
        action: &'static str,
        /// The file or directory it was attempted on.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A target of SQL workloads failed.
    #[error("{target}: {message}")]
    Target {
        /// The target, as the command line has it.
        target: String,
        /// What it said, with its code.
        message: String,
    },
    /// A comparison found that something became worse; it has been printed.
    #[error("{worse} of {total} figures became worse")]
    Regression {
        /// How many became worse.
        worse: usize,
        /// How many were compared.
        total: usize,
    },
    /// Some runs gave no result. Which ones, and why, has been printed.
    #[error("{}", failed_runs(*failed, *left_out, *invalid, *total))]
    FailedRuns {
        /// How many failed.
        failed: usize,
        /// How many were not begun.
        left_out: usize,
        /// How many of the others are not valid.
        invalid: usize,
        /// How many runs were planned.
        total: usize,
    },
    /// Some results are not valid; they have been printed, and their notes say why.
    #[error("{invalid} of {total} results are not valid: see their notes")]
    InvalidResults {
        /// How many are not.
        invalid: usize,
        /// How many there are.
        total: usize,
    },
}

fn failed_runs(failed: usize, left_out: usize, invalid: usize, total: usize) -> String {
    let told = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let parts = [
        told(failed, "failed"),
        told(left_out, "were left out"),
        told(invalid, "came to results that are not valid: see their notes"),
    ];
    format!("of {total} runs {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

impl Error {
    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage { reason: reason.into() }
    }

    pub(crate) fn engine(target: impl ToString, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Engine { target: target.to_string(), source: source.into() }
    }

    pub(crate) fn target(target: impl Into<String>, message: impl ToString) -> Self {
        Self::Target { target: target.into(), message: message.to_string() }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }
}
