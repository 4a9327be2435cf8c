//! What this build is called: the version, the commit where it is known, and whether a profile
//! guided it.

use std::sync::LazyLock;

/// The commit that this is built of, with `-dirty` if the sources differed from it; see `build.rs`.
const COMMIT: Option<&str> = match option_env!("COLIBRI_COMMIT") {
    Some(commit) if !commit.is_empty() => Some(commit),
    _ => None,
};

/// Set by `scripts/build-profiled`, which builds twice: `generate`, then `use`.
const PROFILED: Option<&str> = option_env!("COLIBRI_PROFILED");

/// `0123456789ab`, `0123456789ab, profile-guided`; `None` if there is nothing to be said.
pub(crate) static BUILD: LazyLock<Option<String>> = LazyLock::new(|| {
    let parts: Vec<&str> = COMMIT.into_iter().chain((PROFILED == Some("use")).then_some("profile-guided")).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
});

/// `0.1.0 (0123456789ab)`.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match BUILD.as_deref() {
        Some(build) => format!("{version} ({build})"),
        None => version.to_owned(),
    }
});
