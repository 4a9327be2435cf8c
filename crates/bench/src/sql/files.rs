//! The files that a run's result goes to.

use std::path::PathBuf;

use super::args::{CommonArgs, Step};
use super::html;
use super::result::RunResult;
use crate::measure::output::{self, tell};
use crate::measure::{Error, Result};

/// The files that a result goes to.
pub(super) struct Files {
    pub(super) folder: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) html: Option<PathBuf>,
}

impl Files {
    /// Those of the flags. Without such flags a result of all steps goes to the default folder, for
    /// pages and comparisons.
    pub(super) fn of(args: &CommonArgs, workload: &str) -> Self {
        let (json, html) = (args.json.clone(), args.html.clone());
        if json.is_some() || html.is_some() || args.step != Step::All {
            return Self { folder: None, json, html };
        }
        let folder = PathBuf::from(output::RESULTS_DEFAULT);
        let file = |ending: &str| Some(folder.join(format!("{workload}.{ending}")));
        Self { json: file("json"), html: file("html"), folder: Some(folder) }
    }

    pub(super) fn make_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::create_dir_all(folder).map_err(|error| Error::io("cannot create", folder, error))
    }

    pub(super) fn ensure_writable(&self) -> Result<()> {
        self.make_folder()?;
        let outcome = output::ensure_writable(self.json.iter().chain(&self.html));
        // The folder is made again when there is a result. One with older results is not empty, so
        // it stays.
        self.folder.iter().for_each(|folder| _ = std::fs::remove_dir(folder));
        outcome
    }

    /// Writes the results of a command: one, or several of the same workload.
    pub(super) fn write(&self, results: &[RunResult]) -> Result<()> {
        let Some(first) = results.first() else { return Ok(()) };
        self.make_folder()?;
        if let Some(path) = &self.json {
            output::write_json(path, results)?;
        }
        if let Some(path) = &self.html {
            let title = format!("{} on {}", first.workload, first.target);
            output::write(path, html::page(&title, results))?;
        }
        for path in self.html.iter().chain(&self.json) {
            tell!("written: {}", path.display());
        }
        Ok(())
    }
}
