//! What this build is called: the version, and the commit where it is known.

use std::sync::LazyLock;

/// The commit that this is built of, with `-dirty` if the sources differed from it; see `build.rs`.
pub(crate) const COMMIT: Option<&str> = match option_env!("COLIBRI_COMMIT") {
    Some(commit) if !commit.is_empty() => Some(commit),
    _ => None,
};

/// `0.1.0 (0123456789ab)`.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match COMMIT {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});
