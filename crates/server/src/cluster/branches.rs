//! Databases after the model of others: branches in the file of their model, or copies of it.
//!
//! `CREATE DATABASE b TEMPLATE a` makes a branch of `a` as it was committed last, in `a`'s file,
//! while sessions go on in `a`. The record of `b` says which directory and which branch it is.
//! `AS OF` makes it of a state of `a`'s past, if the server keeps such states (`Options::retention`).
//! `STRATEGY = file_copy` copies the pages to a file of its own instead.
//!
//! A directory stays as long as databases are in it: if `a` is dropped first, its tables go, and the
//! file stays for `b`.
//!
//! Invariants
//! - A branch is durable before the record that names it, and goes after that record went. So a
//!   crash leaves at most a branch that no record names. It is dropped when its file is opened next.
//! - Only branches that this server has made are ever dropped: their names have its number.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use colibri_sql::cluster::{DatabaseLocale, NewDatabase, Template, storage_time_text};
use colibri_sql::{CompactString, Error, InSql as _, Result, SqlState};
use colibri_storage::{AsOf, Database, Error as Storage};
use colibri_txn::{LocalStore, Store as _};

use super::files::FileUse;
use super::records::DatabaseRecord;
use super::{DROPPED, Directory, IN_USE, PATIENCE, expect_free, io_error, move_directory, no_such_database, path_in};
use crate::auth::scram;
use crate::registry::{Stop, Why};

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    directory: CompactString,
    branch: Option<CompactString>,
}

impl Place {
    fn of(record: &DatabaseRecord) -> Self {
        Self { directory: record.directory().into(), branch: record.branch.clone() }
    }
}

/// Removes a directory of databases, in an order that a crash does not take apart.
pub(super) fn remove_directory(dir: &Path, name: &str) -> Result<()> {
    let from = path_in(dir, name);
    if !from.exists() {
        return Ok(());
    }
    let number = u64::from_le_bytes(scram::random()?);
    let to = dir.join("databases").join(format!("{DROPPED}{number:016x}"));
    fs::rename(&from, &to).map_err(io_error("cannot rename", &from))?;
    fs::remove_dir_all(&to).map_err(io_error("cannot remove", &to))
}

/// A prepared transaction would be in both databases, and be ended twice.
fn expect_none_prepared(name: &str, database: &Database) -> Result<()> {
    let prepared = LocalStore::new(database.clone()).prepared().in_sql()?.len();
    if prepared == 0 {
        return Ok(());
    }
    let detail = match prepared {
        1 => "There is 1 prepared transaction using the database.".to_owned(),
        count => format!("There are {count} prepared transactions using the database."),
    };
    let message = format!("source database \"{name}\" is being accessed by other users");
    Err(Error::new(IN_USE, message).detail(detail))
}

/// Gives a branch a state of the past of another one, by way of a branch with the name `then`.
fn reset_as_of(model: &Database, branch: &str, then: &str, as_of: AsOf, name: &str) -> Result<()> {
    let made = model.branch_as_of(then, as_of).map_err(|error| not_kept(error, model))?;
    // A prepared transaction of that time would come back to life.
    let done = expect_none_prepared(name, &made).and_then(|()| made.reset_branch(branch).in_sql());
    drop(made);
    done.and(model.drop_branch(then).in_sql())
}

/// What the user is told of a state of the past that cannot be had.
fn not_kept(error: Storage, database: &Database) -> Error {
    const SNAPSHOT_TOO_OLD: SqlState = SqlState("72000");
    let message = match &error {
        Storage::NotKept { since: None } => "no states of the past are kept".to_owned(),
        Storage::NotKept { .. } => "the state that was asked for is not kept".to_owned(),
        Storage::PastMissing { .. } => "the state that was asked for was not kept".to_owned(),
        Storage::StillToCome { .. } => "the state that was asked for is still to come".to_owned(),
        _ => return colibri_sql::in_sql(error),
    };
    let detail = error.to_string();
    match error {
        Storage::NotKept { since: None } => Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
            .hint("Start the server with a retention, such as --retention 1h; states are kept from then on."),
        Storage::StillToCome { .. } => Error::new(SqlState::BAD_PARAMETER, message).detail(detail),
        _ => {
            let since = match error {
                Storage::NotKept { since } => since,
                _ => database.past().ok().and_then(|past| past.since),
            };
            let error = Error::new(SNAPSHOT_TOO_OLD, message).detail(detail);
            match since {
                Some((txn, time)) => {
                    error.hint(format!("States are kept from transaction {txn}, {}, on.", storage_time_text(time)))
                }
                None => error,
            }
        }
    }
}

impl Directory {
    fn place(&self, name: &str) -> Result<Place> {
        let databases = self.databases.read();
        let place = databases.place(name).ok_or_else(|| no_such_database(name))?;
        Ok(Place::of(&databases.all[place]))
    }

    /// The number of this directory, which it gets when it is asked for first.
    fn number(&self) -> Result<u64> {
        let mut number = self.number.lock();
        if let Some(number) = *number {
            return Ok(number);
        }
        let new = u64::from_le_bytes(scram::random()?);
        self.records.write_directory(new)?;
        *number = Some(new);
        Ok(new)
    }

    /// The name of a branch of this directory, for a database with a number or another purpose.
    fn branch_name(&self, purpose: &dyn std::fmt::Display) -> Result<CompactString> {
        Ok(format!("database-{purpose}-{:016x}", self.number()?).into())
    }

    fn use_file(&self, directory: &str) -> Result<FileUse> {
        let path = path_in(&self.dir, directory);
        self.files.open(directory, &path, &self.options, |database| {
            self.drop_unnamed(directory, database)?;
            // What an earlier start kept, and nobody wants any more.
            match database.retention() {
                None => database.forget_past().in_sql(),
                Some(_) => Ok(()),
            }
        })
    }

    /// Drops the branches of a file that a crash has left without a record.
    fn drop_unnamed(&self, directory: &str, database: &Database) -> Result<()> {
        let Some(number) = *self.number.lock() else { return Ok(()) };
        let ending = format!("-{number:016x}");
        let databases = self.databases.read().clone();
        for branch in database.branches().in_sql()? {
            let is_ours = branch.name.starts_with("database-") && branch.name.ends_with(&ending);
            let is_named = |record: &DatabaseRecord| {
                record.directory() == directory && record.branch.as_deref() == Some(&branch.name)
            };
            if is_ours && !databases.all.iter().any(is_named) {
                database.drop_branch(&branch.name).in_sql()?;
            }
        }
        Ok(())
    }

    /// Opens a database's file, and its branch there.
    pub(super) fn use_database(&self, name: &str) -> Result<(FileUse, Database)> {
        let place = self.place(name)?;
        let file = self.use_file(&place.directory)?;
        let database = file.branch(place.branch.as_deref())?;
        Ok((file, database))
    }

    pub(super) fn end_sessions(&self, name: &str, force: bool) {
        if force {
            self.registry.stop(Stop::Now, Why::Administrator, |member| member.database == name);
        }
    }

    fn refuse_in_cluster(&self) -> Result<()> {
        match self.joined {
            Some(_) => Err(Error::unsupported("a database of a cluster after the model of another one")),
            None => Ok(()),
        }
    }

    /// The locale of a database; `None` is `C`.
    pub(super) fn locale_of(&self, name: &str) -> Option<DatabaseLocale> {
        let databases = self.databases.read();
        databases.all[databases.place(name)?].info.locale.clone()
    }

    /// Makes a database after the model of another one; an ephemeral one goes with its last
    /// connection.
    pub(super) fn make_after(
        &self,
        name: &str,
        how: &NewDatabase,
        template: &Template,
        is_ephemeral: bool,
    ) -> Result<()> {
        self.refuse_in_cluster()?;
        expect_free(&self.databases.read(), name)?;
        let (file, model) = self.use_database(&template.name).map_err(|error| match error.state() {
            SqlState::NO_SUCH_DATABASE => Error::new(
                SqlState::NO_SUCH_DATABASE,
                format!("template database \"{}\" does not exist", template.name),
            ),
            _ => error,
        })?;
        expect_none_prepared(&template.name, &model)?;
        let made = match template.copies {
            true => self.copy(name, how, &model),
            false => self.branch(name, how, (template, &model), is_ephemeral),
        };
        drop(model);
        made.and(file.end())
    }

    fn branch(
        &self,
        name: &str,
        how: &NewDatabase,
        (template, model): (&Template, &Database),
        is_ephemeral: bool,
    ) -> Result<()> {
        let expected = self.place(&template.name)?;
        let mut made = None;
        let done = self.change(|databases| {
            expect_free(databases, name)?;
            // It may have been renamed or dropped meanwhile.
            let is_same = |record: &DatabaseRecord| Place::of(record) == expected;
            if !databases.all.iter().any(is_same) {
                return Err(no_such_database(&template.name));
            }
            let branch = self.branch_name(&databases.next_oid())?;
            match template.as_of {
                None => drop(model.branch(&branch).in_sql()?),
                Some(as_of) => {
                    let then = model.branch_as_of(&branch, as_of).map_err(|error| not_kept(error, model))?;
                    made = Some(branch.clone());
                    expect_none_prepared(&template.name, &then)?;
                }
            }
            made = Some(branch.clone());
            databases.add_in(name, how.clone(), &expected.directory, Some(branch)).is_ephemeral = is_ephemeral;
            Ok(())
        });
        if let (Err(_), Some(branch)) = (&done, &made) {
            // If this fails, too, it goes when the file is opened next.
            _ = model.drop_branch(branch);
        }
        done
    }

    fn copy(&self, name: &str, how: &NewDatabase, model: &Database) -> Result<()> {
        // A name that is removed at the next start, if a crash comes first.
        let number = u64::from_le_bytes(scram::random()?);
        let temporary = format!("{DROPPED}{number:016x}");
        let path = path_in(&self.dir, &temporary);
        let done = model.copy_to(&path, false).in_sql().and_then(|_| {
            self.change(|databases| {
                expect_free(databases, name)?;
                let directory = databases.free_directory(name);
                // What was made there and never used.
                remove_directory(&self.dir, &directory)?;
                move_directory(&self.dir, &temporary, &directory)?;
                databases.add_in(name, how.clone(), &directory, None);
                Ok(())
            })
        });
        if done.is_err() && path.exists() {
            _ = fs::remove_dir_all(&path);
        }
        done
    }

    /// Gives a database what another one in its file, or itself, has now or has had.
    pub(super) fn reset_to(&self, name: &str, to: &Template, force: bool, cancel: &AtomicBool) -> Result<()> {
        self.refuse_in_cluster()?;
        let (to, as_of) = (&*to.name, to.as_of);
        let (place, model) = (self.place(name)?, self.place(to)?);
        if place.directory != model.directory || place == model && as_of.is_none() {
            let message = format!("databases \"{name}\" and \"{to}\" are not branches of each other");
            let hint = format!("A database that was made by CREATE DATABASE ... TEMPLATE \"{to}\" can be reset to it.");
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).hint(hint));
        }
        self.end_sessions(name, force);
        let slot = self.slot(name);
        let closed = slot.close_for_good(name, PATIENCE, cancel)?;
        let reset = || {
            // Neither may have gone while sessions were waited for.
            if (self.place(name)?, self.place(to)?) != (place.clone(), model.clone()) {
                return Err(no_such_database(to));
            }
            let (file, database) = self.use_database(to)?;
            expect_none_prepared(to, &database)?;
            let branch = place.branch.as_deref().unwrap_or("main");
            match as_of {
                None => database.reset_branch(branch).in_sql()?,
                Some(as_of) => {
                    // A crash may leave it: then it goes as one that no record names.
                    let then = self.branch_name(&format!("{branch}-then"))?;
                    reset_as_of(&database, branch, &then, as_of, to)?;
                }
            }
            drop(database);
            file.end()
        };
        let done = reset();
        closed.reopen();
        done
    }

    /// Gives up what a database had whose record is gone: its branch, its tables, or its directory.
    pub(super) fn give_up(&self, record: &DatabaseRecord) -> Result<()> {
        let directory = record.directory();
        if self.databases.read().count_in(directory) == 0 {
            self.files.forget(directory);
            remove_directory(&self.dir, directory)?;
            if self.databases.read().left.iter().any(|left| left == directory) {
                return self.change(|databases| {
                    databases.left.retain(|left| left != directory);
                    Ok(())
                });
            }
            return Ok(());
        }
        let file = self.use_file(directory)?;
        match &record.branch {
            Some(branch) => match file.main().drop_branch(branch) {
                // It was dropped when the file was opened.
                Err(colibri_storage::Error::NoSuchBranch { .. }) => {}
                dropped => dropped.in_sql()?,
            },
            None => {
                let mut txn = file.main().write().in_sql()?;
                for table in txn.tables().in_sql()? {
                    txn.drop_table(&table).in_sql()?;
                }
                txn.commit().in_sql()?;
            }
        }
        file.end()
    }
}
