//! Result files, standard output and standard error, and the lines above every table.
//!
//! Not here: what the results are, and the table itself.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use parking_lot::Mutex;

use crate::measure::environment::Environment;
use crate::measure::plot::Plot;
use crate::measure::{Error, Result};

/// The folder that results go to unless a flag says otherwise.
pub(crate) const RESULTS_DEFAULT: &str = "colibri-bench-results";

/// Where the results of an experiment go, as data and as a picture.
#[derive(Debug, Clone, Default, Args)]
pub struct ResultArgs {
    /// Folder to write the results to, as a JSON array and as an SVG picture; it is made if it is
    /// missing [default: colibri-bench-results, unless there is --json or --svg]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// File to write the results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to plot the results to, as an SVG picture
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// The files that an experiment writes.
#[derive(Debug)]
pub(crate) struct ResultFiles {
    folder: Option<PathBuf>,
    json: Vec<PathBuf>,
    svg: Vec<PathBuf>,
}

impl ResultFiles {
    /// Those of the experiment `name`, all of which can be written: what is made to find that out
    /// is removed.
    pub(crate) fn new(args: &ResultArgs, name: &str) -> Result<Self> {
        let without_flags = args.json.is_none() && args.svg.is_none();
        let folder = args.results.clone().or_else(|| without_flags.then(|| RESULTS_DEFAULT.into()));
        let in_folder = |ending: &str| folder.as_ref().map(|folder| folder.join(format!("{name}.{ending}")));
        let json = in_folder("json").into_iter().chain(args.json.clone()).collect();
        let svg = in_folder("svg").into_iter().chain(args.svg.clone()).collect();
        let files = Self { folder, json, svg };
        let is_new = files.make_folder()?;
        let writable = ensure_writable(files.json.iter().chain(&files.svg));
        if let Some(folder) = files.folder.as_ref().filter(|_| is_new) {
            fs::remove_dir(folder).map_err(|error| Error::io("cannot remove", folder, error))?;
        }
        writable?;
        Ok(files)
    }

    /// Returns whether it was missing.
    fn make_folder(&self) -> Result<bool> {
        let Some(folder) = &self.folder else { return Ok(false) };
        match fs::create_dir(folder) {
            Ok(()) => Ok(true),
            Err(_) if folder.is_dir() => Ok(false),
            Err(error) => Err(Error::io("cannot create", folder, error)),
        }
    }

    /// Writes all files, and prints their names.
    pub(crate) fn write<T: serde::Serialize>(&self, rows: &[T], plot: &Plot) -> Result<()> {
        self.make_folder()?;
        for path in &self.json {
            write_json(path, rows)?;
        }
        for path in &self.svg {
            write(path, plot.render())?;
        }
        for path in self.json.iter().chain(&self.svg) {
            say!("written: {}", path.display());
        }
        Ok(())
    }
}

/// The first error of writing to standard output.
static UNSAID: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line of results to standard output. A closed pipe or a full disk ends no run: the
/// remaining work is done, files are written, and [`unsaid`] reports the error in the end.
macro_rules! say {
    ($($words:tt)*) => { $crate::measure::output::say_line(format_args!($($words)*)) };
}

/// Prints a line of progress to standard error. Errors of printing are ignored.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        _ = writeln!(std::io::stderr().lock(), $($words)*);
    }};
}

pub(crate) use {say, tell};

pub(crate) fn say_line(line: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout().lock(), "{line}") {
        UNSAID.lock().get_or_insert(error);
    }
}

/// The first failure to print results since this was asked last.
pub(crate) fn unsaid() -> Option<io::Error> {
    UNSAID.lock().take()
}

/// Called before anything is run, so that no hours are spent on results that cannot be written.
pub(crate) fn ensure_writable<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut seen = Vec::new();
    for path in paths {
        let failed = |error| Error::io("cannot write", path, error);
        if seen.contains(&path) {
            return Err(Error::usage(format!("two results would both go to {}: choose two names", path.display())));
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

pub(crate) fn write(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("cannot write", path, error))
}

/// Prints what was run, and where.
pub(crate) fn print_heading(environment: &Environment) {
    let command: Vec<_> = std::env::args().collect();
    let Environment { commit, cpu, cores, kernel, fs } = environment;
    say!("command: {}", command.join(" "));
    say!("commit:  {commit}");
    say!("machine: {cpu}, {cores} cores, {kernel}, {fs}");
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

    #[test]
    fn results_go_to_a_folder_and_to_the_files_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(dir.path().join(name));
        let files = |results, json, svg| ResultFiles::new(&ResultArgs { results, json, svg }, "lifo");
        let written = files(path("folder"), path("extra"), None).unwrap();
        assert_eq!(written.json, [dir.path().join("folder/lifo.json"), dir.path().join("extra")]);
        assert_eq!(written.svg, [dir.path().join("folder/lifo.svg")]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of the look");
        written.write(&[1], &Plot { title: "a".to_owned(), panels: Vec::new() }).unwrap();
        assert!(written.json.iter().chain(&written.svg).all(|path| path.exists()));

        assert!(files(path("missing/folder"), None, None).unwrap_err().to_string().contains("cannot create"));
        assert!(files(path("extra"), None, None).unwrap_err().to_string().contains("cannot create"));
        assert!(files(path("folder"), path("folder/lifo.json"), None).is_err());
        assert!(files(None, None, path("plot")).unwrap().json.is_empty(), "no folder beside files");
    }
}
