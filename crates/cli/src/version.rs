//! What this build is called: the version, and the commit where it is known.

use std::sync::LazyLock;

/// `0.1.0 (0123456789ab)`; `-dirty` says that the sources differed from the commit.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match colibri_bench::COMMIT {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});
