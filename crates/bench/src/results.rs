//! The files that results go to, and what stands above every table.
//!
//! Not here: what the results are, and the table itself.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kv::environment::Environment;
use crate::kv::{Error, Result};
use crate::plot::Plot;

/// Before anything is run: results that cannot be kept are not worth hours.
pub(crate) fn ensure_writable<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut seen = Vec::new();
    for path in paths {
        let failed = |error| Error::io("cannot write", path, error);
        if seen.contains(&path) {
            return Err(Error::usage(format!("--json and --svg are both {}: choose two names", path.display())));
        }
        seen.push(path);
        let is_new = !path.exists();
        fs::File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        if is_new {
            fs::remove_file(path).map_err(failed)?;
        }
    }
    Ok(())
}

pub(crate) fn write_json<T: serde::Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let mut text = serde_json::to_string_pretty(rows).expect("rows are plain data");
    text.push('\n');
    write(path, text)
}

pub(crate) fn write_svg(path: &Path, plot: &Plot) -> Result<()> {
    write(path, plot.render())
}

fn write(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("cannot write", path, error))
}

/// Prints what was run, and where.
pub(crate) fn print_heading(environment: &Environment) {
    let command: Vec<_> = std::env::args().collect();
    let Environment { commit, cpu, cores, kernel, fs } = environment;
    println!("command: {}", command.join(" "));
    println!("commit:  {commit}");
    println!("machine: {cpu}, {cores} cores, {kernel}, {fs}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_and_what_can_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let error = |paths: &[PathBuf]| ensure_writable(paths).unwrap_err().to_string();
        assert!(error(&[path("missing/results")]).contains("cannot write"));
        assert!(error(&[path("")]).contains("cannot write"));
        assert!(error(&[path("a"), path("a")]).contains("choose two names"));

        fs::write(path("old"), "old results").unwrap();
        ensure_writable(&[path("old"), path("new")]).unwrap();
        assert_eq!(fs::read_to_string(path("old")).unwrap(), "old results");
        assert!(!path("new").exists());
    }
}
