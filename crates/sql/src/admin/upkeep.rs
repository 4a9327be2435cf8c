//! VACUUM, ANALYZE, CLUSTER and REINDEX. But for VACUUM FULL, which makes the database's file as short
//! as it can be, they have nothing to do here. The tables and indexes that they name have to exist,
//! and the user has to own them: VACUUM and ANALYZE skip other people's tables with a warning,
//! CLUSTER and REINDEX refuse them.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{Index, Relation, cluster::BOOTSTRAP_ROLE, store_error::InSql as _};
use colibri_syntax::tree::{Reindex, Upkeep};
use colibri_types::{Error, Result, SqlState, pulse};
use compact_str::CompactString;

use crate::session::{Session, Severity};

/// Whether a statement may not run in a transaction block.
pub(super) fn runs_alone(upkeep: &Upkeep) -> bool {
    match upkeep {
        Upkeep::Vacuum { .. } | Upkeep::Cluster(None) => true,
        Upkeep::Reindex(what) => matches!(what, Reindex::Schema(_) | Reindex::Database(_)),
        Upkeep::Analyze(_) | Upkeep::Cluster(Some(_)) => false,
    }
}

impl Session {
    /// Looks whether what a statement about upkeep names is there.
    pub(super) fn upkeep(&mut self, upkeep: &Upkeep) -> Result<()> {
        if self.engine().is_standby() {
            return Err(self.refusal(format!("cannot execute {} during recovery", upkeep.tag())));
        }
        match upkeep {
            Upkeep::Cluster(None) => Ok(()),
            Upkeep::Vacuum { tables, full, verbose } => {
                // Without tables, it is about those of others as well.
                let mut any = tables.is_empty() && self.authority().has_role(self.own_database_info().owner);
                for table in tables {
                    any |= self.upkeep_table(upkeep.tag(), &table.name, &table.columns)?;
                }
                if *full && any { self.compact(*verbose) } else { Ok(()) }
            }
            Upkeep::Analyze(tables) => tables
                .iter()
                .try_for_each(|table| self.upkeep_table(upkeep.tag(), &table.name, &table.columns).map(|_| ())),
            Upkeep::Cluster(Some((name, index))) => {
                let Relation::Table(table) = self.expect_relation(name)? else { return Err(not_a("table", name)) };
                self.expect_owner(table.owner, "table", &table.name)?;
                let Some(index) = index else {
                    let message = format!("there is no previously clustered index for table \"{}\"", table.name);
                    return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                };
                let is_it = |known: &&Arc<Index>| known.name == *index && known.is_inverted();
                if let Some(index) = table.indexes.iter().find(is_it) {
                    let name = &index.name;
                    let message =
                        format!("cannot cluster on index \"{name}\" because access method does not support clustering");
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let is_key = table.primary_key.as_ref().is_some_and(|key| key.name == *index);
                if is_key || table.indexes.iter().any(|known| known.name == *index) {
                    return Ok(());
                }
                if self.catalog().relation(&table.schema, index).is_some() {
                    let message = format!("\"{index}\" is not an index for table \"{}\"", table.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                let message = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
                Err(Error::new(SqlState::NO_SUCH_OBJECT, message))
            }
            Upkeep::Reindex(Reindex::Table(name)) if is_system(name) => {
                self.expect_owner(BOOTSTRAP_ROLE, "table", last(name))
            }
            Upkeep::Reindex(Reindex::Table(name)) => match self.expect_relation(name)? {
                Relation::Table(table) => self.expect_owner(table.owner, "table", &table.name),
                _ => {
                    let message = format!("\"{}\" is not a table or materialized view", last(name));
                    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
                }
            },
            Upkeep::Reindex(Reindex::Index(name)) => {
                let relation = self.expect_relation(name)?;
                if !matches!(relation, Relation::Index(..) | Relation::PrimaryKey(_)) {
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not an index", last(name))));
                }
                self.expect_owner_of(&relation)
            }
            Upkeep::Reindex(Reindex::Schema(name)) => match self.catalog().schema(name) {
                Some(schema) => self.expect_owner(schema.owner, "schema", name),
                None if crate::system::is_system_schema(name) => self.expect_owner(BOOTSTRAP_ROLE, "schema", name),
                None => Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{name}\" does not exist"))),
            },
            Upkeep::Reindex(Reindex::Database(name)) => {
                let database = self.own_database_info();
                if *name != database.name {
                    let message = "can only reindex the currently open database";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.expect_owner(database.owner, "database", name)
            }
        }
    }

    /// Gives the free pages of the database's file back, while others read and write.
    fn compact(&mut self, verbose: bool) -> Result<()> {
        // It would keep the file as long as it is.
        self.give_up_snapshot();
        let Some(store) = self.engine().local_store() else { return Ok(()) };
        let (mut ended, database) = (Ok(()), store.database());
        let page_size = u64::from(database.page_size());
        let done = database.compact(|_| {
            ended = pulse::check();
            if ended.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let done = done.in_sql()?;
        ended?;
        if verbose {
            let megabytes = |pages: u32| (u64::from(pages) * page_size) as f64 / f64::from(1 << 20);
            let message = format!(
                "the file of database \"{}\" has {:.1} MB, {:.1} MB before; {:.1} MB were moved",
                self.own_database_info().name,
                megabytes(done.pages),
                megabytes(done.pages_before),
                megabytes(u32::try_from(done.moved).unwrap_or(u32::MAX)),
            );
            self.notice(Severity::Info, SqlState("00000"), message);
        }
        Ok(())
    }

    /// Looks whether a table is there, and the user may keep it up; `false` if it is skipped.
    fn upkeep_table(&mut self, tag: &str, name: &[CompactString], columns: &[CompactString]) -> Result<bool> {
        let verb = if tag == "VACUUM" { "vacuum" } else { "analyze" };
        let relation = if is_system(name) { None } else { Some(self.expect_relation(name)?) };
        let owner = match &relation {
            Some(Relation::Table(table)) => table.owner,
            Some(Relation::View(view)) => view.owner,
            Some(Relation::Sequence(sequence)) => sequence.owner,
            Some(Relation::Index(table, _) | Relation::PrimaryKey(table)) => {
                self.catalog().table(*table).map_or(BOOTSTRAP_ROLE, |table| table.owner)
            }
            None => BOOTSTRAP_ROLE,
        };
        let authority = self.authority();
        if !authority.has_role(owner) && !authority.has_role(self.own_database_info().owner) {
            let who = if relation.is_none() { "superuser" } else { "table" };
            let message = format!("skipping \"{}\" --- only {who} or database owner can {verb} it", last(name));
            self.notice(Severity::Warning, SqlState("01000"), message);
            return Ok(false);
        }
        let table = match relation {
            None => return Ok(true),
            Some(Relation::Table(table)) => table,
            Some(_) => {
                let message =
                    format!("skipping \"{}\" --- cannot {verb} non-tables or special system tables", last(name));
                self.notice(Severity::Warning, SqlState("01000"), message);
                return Ok(false);
            }
        };
        for (place, column) in columns.iter().enumerate() {
            if table.column(column).is_none() {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
            }
            if columns[..place].contains(column) {
                let message = format!("column \"{column}\" of relation \"{}\" appears more than once", table.name);
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        Ok(true)
    }
}

fn is_system(name: &[CompactString]) -> bool {
    match name {
        [name] => crate::system::table("pg_catalog", name).is_some(),
        [schema, name] => crate::system::table(schema, name).is_some(),
        _ => false,
    }
}

fn last(name: &[CompactString]) -> &str {
    name.last().map_or("", CompactString::as_str)
}

fn not_a(kind: &str, name: &[CompactString]) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a {kind}", last(name)))
}
