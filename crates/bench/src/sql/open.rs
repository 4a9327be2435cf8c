//! The targets that a command line can name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use colibri::Durability;

use super::args::{CommonArgs, Durable, Step};
use crate::measure::flags::DIR_DEFAULT;
use crate::measure::workplace::Workplace;
use crate::measure::{Error, Result};
use crate::sql::target::colibri::Colibri;
use crate::sql::target::null::Null;
use crate::sql::target::outer::{Engine, Outer};
use crate::sql::target::postgres::Postgres;
#[cfg(feature = "rivals")]
use crate::sql::target::sqlite::Sqlite;
use crate::sql::target::{Failure, Target};
use crate::sql::workload::Workload;

/// The targets of these names.
pub(crate) const SQLITE: &str = "sqlite";
pub(crate) const NULL: &str = "null";
/// The database of the former, in its directory.
pub(crate) const SQLITE_FILE: &str = "data.sqlite";

/// A target, and what has to go away with it.
pub(crate) struct Opened {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) _workplace: Option<Workplace>,
}

pub(super) fn open(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<Opened> {
    let refused = |failure: Failure| Error::target(&args.target, failure);
    let target: Arc<dyn Target> = match args.target.as_str() {
        NULL => Arc::new(Null::new(workload)),
        "colibri" => {
            let (dir, workplace) = place(args)?;
            let target = Arc::new(Colibri::open(&dir, durability(args)).map_err(refused)?);
            return Ok(Opened { target, _workplace: workplace });
        }
        SQLITE => return open_sqlite(args, workload),
        url if url.contains("://") => Arc::new(Postgres::new(url).map_err(Error::usage)?.with_patience(args.timeout)),
        other => {
            return Err(Error::usage(format!(
                "there is no target {other:?}: colibri, sqlite, null, or an address as postgres://localhost/bench"
            )));
        }
    };
    Ok(Opened { target, _workplace: None })
}

/// A target by its name, for what has no workload: Colibri in process, in a directory or in one
/// that goes away in the end, or a server.
///
/// # Errors
/// If there is no such target, or it cannot be opened.
pub(crate) fn open_named(name: &str, dir: Option<&Path>) -> Result<Opened> {
    if name.contains("://") {
        return Ok(Opened { target: Arc::new(Postgres::new(name).map_err(Error::usage)?), _workplace: None });
    }
    if name != "colibri" {
        return Err(Error::usage(format!(
            "there is no target {name:?} here: colibri, or an address as postgres://localhost/bench"
        )));
    }
    let (dir, workplace) = own_dir(dir)?;
    let target = Colibri::open(&dir, Durability::Sync).map_err(|failure| Error::target(name, failure))?;
    Ok(Opened { target: Arc::new(target), _workplace: workplace })
}

/// A database that a suite of queries runs on: as [`open_named`], and DuckDB or SQLite by their
/// packages for Python.
///
/// # Errors
/// As there; [`Error::Target`] if there is no such package.
pub(super) fn open_side(name: &str, dir: Option<&Path>) -> Result<Opened> {
    let engine = match name {
        "duckdb" => Engine::DuckDb,
        SQLITE => Engine::Sqlite,
        name if name == "colibri" || name.contains("://") => return open_named(name, dir),
        name => {
            return Err(Error::usage(format!(
                "there is no target {name:?} here: colibri, duckdb, sqlite, or an address as postgres://localhost/bench"
            )));
        }
    };
    let (dir, workplace) = own_dir(dir)?;
    let target = Outer::open(engine, &dir).map_err(|failure| Error::target(name, failure))?;
    Ok(Opened { target: Arc::new(target), _workplace: workplace })
}

/// The directory that was given, or one that goes away in the end.
fn own_dir(dir: Option<&Path>) -> Result<(PathBuf, Option<Workplace>)> {
    match dir {
        Some(dir) => Ok((dir.to_owned(), None)),
        None => {
            let workplace = Workplace::new(Path::new(DIR_DEFAULT), false)?;
            Ok((workplace.make("database")?, Some(workplace)))
        }
    }
}

fn durability(args: &CommonArgs) -> Durability {
    match args.durability() {
        Durable::Sync => Durability::Sync,
        Durable::Lazy => Durability::LAZY,
        Durable::Nosync => Durability::NoSync,
    }
}

#[cfg(feature = "rivals")]
fn open_sqlite(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<Opened> {
    if workload.name() == crate::sql::workload::script::NAME {
        return Err(Error::usage(
            "statements of a script are not put into SQLite's words: it takes tpcc, ycsb and stock",
        ));
    }
    if ["jobs", "messages"].contains(&workload.name()) {
        return Err(Error::usage("SQLite cannot skip rows that are locked: bench queue does not take it"));
    }
    let (dir, workplace) = place(args)?;
    let target = Sqlite::open(&dir, durability(args)).map_err(|failure| Error::target(&args.target, failure))?;
    Ok(Opened { target: Arc::new(target), _workplace: workplace })
}

#[cfg(not(feature = "rivals"))]
fn open_sqlite(_args: &CommonArgs, _workload: &Arc<dyn Workload>) -> Result<Opened> {
    Err(Error::usage("target sqlite is not in this build: build with --features rivals"))
}

/// Refuses to run on, or to check, a database in process that is not there: a path with a mistake
/// in it is not to become a database.
pub(super) fn ensure_there(args: &CommonArgs, workload: &dyn Workload) -> Result<()> {
    let file = match args.target.as_str() {
        "colibri" => "data",
        SQLITE if cfg!(feature = "rivals") => SQLITE_FILE,
        _ => return Ok(()),
    };
    let Some(dir) = &args.dir else { return Ok(()) };
    if args.step.loads() || dir.join(file).is_file() {
        return Ok(());
    }
    let (dir, name, target) = (dir.display(), workload.name(), &args.target);
    let target = if target == "colibri" { String::new() } else { format!(" --target {target}") };
    Err(Error::usage(format!(
        "{dir} holds no database: check the path, or load one with `colibri bench {name} load{target} --dir {dir}`"
    )))
}

/// Where the database of a target in process is.
fn place(args: &CommonArgs) -> Result<(std::path::PathBuf, Option<Workplace>)> {
    if let Some(dir) = &args.dir {
        return Ok((dir.clone(), None));
    }
    if args.step != Step::All {
        return Err(Error::usage(
            "which database? Without --dir there is one for the step `all` only, which is removed after it",
        ));
    }
    let workplace = Workplace::new(Path::new(DIR_DEFAULT), false)?;
    let dir = workplace.make("database")?;
    Ok((dir, Some(workplace)))
}
