//! `pg_depend`: which object needs which others, and `pg_init_privs`: who may use the system's own
//! tables.
//!
//! The rows are made from what objects say of each other. Expressions are kept as texts, so the
//! functions and sequences that one names are found by reading it. System objects, on which
//! everything could depend, are left out, as PostgreSQL leaves out what it pins.

use std::sync::Arc;

use colibri_catalog::cluster::ObjectKind;
use colibri_catalog::{Routine, Sequence, Table, View};
use colibri_types::{Env, Result, pulse};

use super::relations::{
    PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_EXTENSION, PG_NAMESPACE, PG_PROC, PG_TRIGGER, PG_TYPE, acl, default_number,
    referenced_index, sorted_sequences, sorted_tables, system_acl, table_indexes,
};
use super::{Fill, PG_CATALOG, Rows, int, oid, text};
use crate::ddl::routine_users::{calls_in_expression, calls_in_query};
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_depend", dependencies), ("pg_init_privs", initial_rights)];

/// PostgreSQL's number of `pg_rewrite`.
const PG_REWRITE: u32 = 2618;
const PG_LANGUAGE: u32 = 2612;
const PG_OPCLASS: u32 = 2616;
const PG_OPFAMILY: u32 = 2753;

/// An object, or a part of one: its system table, its number, the part's number.
type Object = (u32, u32, i64);

/// How one object depends on another; the letters are PostgreSQL's.
#[derive(Clone, Copy)]
enum Need {
    /// The other one cannot be dropped without it.
    Normal,
    /// It goes with the other one.
    Auto,
    /// It is a part of the other one.
    Internal,
    /// It is the partition of such an index.
    Partition,
    /// It is that index's part for this table.
    PartitionTable,
    /// It came with that extension.
    Member,
}

struct Dependencies<'a> {
    names: &'a Surroundings,
    rows: &'a mut Rows,
    routines: Vec<Arc<Routine>>,
    sequences: Vec<Arc<Sequence>>,
}

fn dependencies(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let mut routines: Vec<Arc<Routine>> = names.catalog.routines().cloned().collect();
    routines.sort_by_key(|routine| routine.id);
    let mut all = Dependencies { names, rows, routines, sequences: sorted_sequences(names) };
    all.of_sequences()?;
    for table in sorted_tables(names) {
        pulse::look();
        all.of_table(&table)?;
        all.of_constraints(&table)?;
        all.of_indexes(&table)?;
    }
    all.of_types()?;
    let mut views: Vec<&Arc<View>> = names.catalog.views().collect();
    views.sort_by_key(|view| view.id);
    for view in views {
        pulse::look();
        all.of_view(view)?;
    }
    all.of_routines()?;
    all.of_operators()?;
    all.of_rules()?;
    all.of_statistics()?;
    all.of_extensions()
}

impl Dependencies<'_> {
    fn push(&mut self, of: Object, on: Object, need: Need) -> Result<()> {
        let letter = match need {
            Need::Normal => "n",
            Need::Auto => "a",
            Need::Internal => "i",
            Need::Partition => "P",
            Need::PartitionTable => "S",
            Need::Member => "e",
        };
        self.rows.push([oid(of.0), oid(of.1), int(of.2), oid(on.0), oid(on.1), int(on.2), text(letter)])?;
        Ok(())
    }

    /// An object stands in its schema.
    fn within(&mut self, of: Object, schema: &str) -> Result<()> {
        let Some(schema) = self.names.schema_number(schema).filter(|&schema| schema != PG_CATALOG) else {
            return Ok(());
        };
        self.push(of, (PG_NAMESPACE, schema, 0), Need::Normal)
    }

    /// The functions that an expression calls, and the sequences that it takes numbers from.
    fn of_expression(&mut self, of: Object, expression: &str) -> Result<()> {
        self.of_calls(of, expression, calls_in_expression)?;
        // A sequence is named in a literal.
        if !expression.contains('\'') {
            return Ok(());
        }
        let uses = |sequence: &&Arc<Sequence>| crate::bind::stored::uses_sequence(expression, sequence);
        let mentioned = |sequence: &&Arc<Sequence>| expression.contains(sequence.name.as_str());
        let used: Vec<u32> = self.sequences.iter().filter(mentioned).filter(uses).map(|sequence| sequence.id).collect();
        for sequence in used {
            self.push(of, (PG_CLASS, sequence, 0), Need::Normal)?;
        }
        Ok(())
    }

    fn of_calls(&mut self, of: Object, sql: &str, calls: fn(&str, &Routine) -> bool) -> Result<()> {
        let lower = sql.to_ascii_lowercase();
        let mentioned = |routine: &&Arc<Routine>| lower.contains(routine.name.to_ascii_lowercase().as_str());
        let called = |routine: &&Arc<Routine>| calls(sql, routine);
        let used: Vec<u32> = self.routines.iter().filter(mentioned).filter(called).map(|routine| routine.id).collect();
        for routine in used {
            self.push(of, (PG_PROC, routine, 0), Need::Normal)?;
        }
        Ok(())
    }

    fn of_sequences(&mut self) -> Result<()> {
        for sequence in self.sequences.clone() {
            let own = (PG_CLASS, sequence.id, 0);
            self.within(own, &sequence.schema)?;
            let Some((table, column)) = sequence.owned_by else { continue };
            let of_identity =
                self.names.table(table).is_some_and(|table| crate::bind::stored::is_of_identity(table, &sequence));
            let need = if of_identity { Need::Internal } else { Need::Auto };
            self.push(own, (PG_CLASS, table, column as i64 + 1), need)?;
        }
        Ok(())
    }

    fn of_table(&mut self, table: &Table) -> Result<()> {
        self.within((PG_CLASS, table.id, 0), &table.schema)?;
        if let Some(of) = &table.partition_of {
            self.push((PG_CLASS, table.id, 0), (PG_CLASS, of.parent, 0), Need::Auto)?;
        }
        for &parent in &table.inherits {
            self.push((PG_CLASS, table.id, 0), (PG_CLASS, parent, 0), Need::Normal)?;
        }
        for (at, column) in table.live_columns() {
            let own = (PG_CLASS, table.id, at as i64 + 1);
            if self.names.catalog.user_type_of(column.ty.oid()).is_some() {
                self.push(own, (PG_TYPE, column.ty.oid(), 0), Need::Normal)?;
            }
            let default = column.default.as_ref().filter(|_| column.identity.is_none());
            let Some(default) = column.generated.as_ref().or(default) else { continue };
            let number = (PG_ATTRDEF, default_number(table.id, at), 0);
            self.push(number, own, Need::Auto)?;
            self.of_expression(number, default)?;
        }
        for trigger in &table.triggers {
            let own = (PG_TRIGGER, trigger.id, 0);
            self.push(own, (PG_PROC, trigger.function, 0), Need::Normal)?;
            self.push(own, (PG_CLASS, table.id, 0), Need::Auto)?;
        }
        Ok(())
    }

    fn of_constraints(&mut self, table: &Table) -> Result<()> {
        for check in &table.checks {
            let own = (PG_CONSTRAINT, check.id, 0);
            self.push(own, (PG_CLASS, table.id, 0), Need::Auto)?;
            self.of_expression(own, &check.condition)?;
        }
        for key in &table.foreign_keys {
            let own = (PG_CONSTRAINT, key.id, 0);
            for &column in &key.columns {
                self.push(own, (PG_CLASS, table.id, column as i64 + 1), Need::Auto)?;
            }
            for &column in &key.target_columns {
                self.push(own, (PG_CLASS, key.target, column as i64 + 1), Need::Normal)?;
            }
            if let Some(index) = referenced_index(self.names, key) {
                self.push(own, (PG_CLASS, index.id, 0), Need::Normal)?;
            }
        }
        Ok(())
    }

    fn of_indexes(&mut self, table: &Table) -> Result<()> {
        for index in table_indexes(table) {
            let own = (PG_CLASS, index.id, 0);
            let holder = if index.constraint { (PG_CONSTRAINT, index.id, 0) } else { own };
            if index.constraint {
                self.push(own, holder, Need::Internal)?;
            }
            for &place in &index.include {
                self.push(holder, (PG_CLASS, table.id, place as i64 + 1), Need::Auto)?;
            }
            for part in &index.columns {
                match &table.columns[part.column].expression {
                    Some(expression) => {
                        self.push(holder, (PG_CLASS, table.id, 0), Need::Auto)?;
                        self.of_expression(holder, expression)?;
                    }
                    None => self.push(holder, (PG_CLASS, table.id, part.column as i64 + 1), Need::Auto)?,
                }
            }
            if let Some(condition) = &index.predicate {
                self.of_expression(own, condition)?;
            }
            if let Some(parent) = index.parent {
                self.push(own, (PG_CLASS, parent, 0), Need::Partition)?;
                self.push(own, (PG_CLASS, table.id, 0), Need::PartitionTable)?;
                if index.constraint {
                    self.push((PG_CONSTRAINT, index.id, 0), (PG_CONSTRAINT, parent, 0), Need::Partition)?;
                    self.push((PG_CONSTRAINT, index.id, 0), (PG_CLASS, table.id, 0), Need::PartitionTable)?;
                }
            }
        }
        Ok(())
    }

    /// Rules go with their relations.
    fn of_rules(&mut self) -> Result<()> {
        let rules: Vec<_> = self.names.catalog.rules().cloned().collect();
        for rule in rules {
            self.push((PG_REWRITE, rule.id, 0), (PG_CLASS, rule.relation, 0), Need::Auto)?;
        }
        Ok(())
    }

    /// What extended statistics depend on.
    fn of_statistics(&mut self) -> Result<()> {
        let statistics: Vec<_> = self.names.catalog.statistics().cloned().collect();
        for one in statistics {
            let own = (super::relations::PG_STATISTIC_EXT, one.id, 0);
            self.within(own, &one.schema)?;
            for place in &one.columns {
                self.push(own, (PG_CLASS, one.table, *place as i64 + 1), Need::Auto)?;
            }
            if !one.expressions.is_empty() {
                self.push(own, (PG_CLASS, one.table, 0), Need::Auto)?;
            }
        }
        Ok(())
    }

    /// What operators that users have defined depend on.
    fn of_operators(&mut self) -> Result<()> {
        let operators: Vec<_> = self.names.catalog.operators().cloned().collect();
        for one in operators {
            let own = (super::relations::PG_OPERATOR, one.id, 0);
            self.within(own, &one.schema)?;
            let types: Vec<u32> = one.left.into_iter().chain([one.right, one.result]).collect();
            for ty in types.into_iter().filter(|&ty| self.names.catalog.user_type(ty).is_some()) {
                self.push(own, (PG_TYPE, ty, 0), Need::Normal)?;
            }
            if let colibri_catalog::OperatorFunction::Routine(id) = one.function {
                self.push(own, (PG_PROC, id, 0), Need::Normal)?;
            }
        }
        Ok(())
    }

    /// What types that users have defined depend on.
    fn of_types(&mut self) -> Result<()> {
        let types: Vec<_> = self.names.catalog.types().cloned().collect();
        for ty in types {
            let own = (PG_TYPE, ty.id, 0);
            self.within(own, &ty.schema)?;
            if ty.array != 0 {
                self.push((PG_TYPE, ty.array, 0), own, Need::Internal)?;
            }
            let Some(domain) = ty.domain() else { continue };
            if self.names.catalog.user_type_of(domain.base.oid()).is_some() {
                self.push(own, (PG_TYPE, domain.base.oid(), 0), Need::Normal)?;
            }
            for check in &domain.checks {
                let number = (PG_CONSTRAINT, check.id, 0);
                self.push(number, own, Need::Auto)?;
                self.of_expression(number, &check.condition)?;
            }
        }
        Ok(())
    }

    /// A view is its rule, which depends on what its query reads.
    fn of_view(&mut self, view: &View) -> Result<()> {
        let rule = (PG_REWRITE, view.id, 0);
        let own = (PG_CLASS, view.id, 0);
        if !view.materialized {
            self.within(own, &view.schema)?;
        }
        self.push(rule, own, Need::Internal)?;
        for &read in &view.reads {
            self.push(rule, (PG_CLASS, read, 0), Need::Normal)?;
        }
        self.of_calls(rule, &view.query, calls_in_query)?;
        for trigger in &view.triggers {
            let own = (PG_TRIGGER, trigger.id, 0);
            self.push(own, (PG_PROC, trigger.function, 0), Need::Normal)?;
            self.push(own, (PG_CLASS, view.id, 0), Need::Auto)?;
        }
        Ok(())
    }

    fn of_routines(&mut self) -> Result<()> {
        let types: Vec<u32> = self.names.catalog.types().map(|ty| ty.id).collect();
        let tables = self.names.catalog.tables().map(|table| table.id);
        let mut relations: Vec<u32> = tables.chain(self.names.catalog.views().map(|view| view.id)).collect();
        relations.sort_unstable();
        relations.dedup();
        for routine in self.routines.clone() {
            let own = (PG_PROC, routine.id, 0);
            self.within(own, &routine.schema)?;
            for &ty in types.iter().filter(|&&ty| routine.uses_type(ty)) {
                self.push(own, (PG_TYPE, ty, 0), Need::Normal)?;
            }
            // Of their rows.
            for &relation in relations.iter().filter(|&&relation| routine.uses_type(relation)) {
                self.push(own, (PG_CLASS, relation, 0), Need::Normal)?;
            }
        }
        Ok(())
    }

    /// What stands in an extension's schema is a member of the extension; its functions are the
    /// system's.
    fn of_extensions(&mut self) -> Result<()> {
        let extensions: Vec<_> = self.names.catalog.extensions().cloned().collect();
        for extension in extensions {
            let own = (PG_EXTENSION, extension.id, 0);
            self.within(own, &extension.schema)?;
            let brought = colibri_types::Type::all().filter(|ty| ty.extension() == Some(extension.name.as_str()));
            for ty in brought {
                self.push((PG_TYPE, ty.oid(), 0), own, Need::Member)?;
            }
            for function in super::procedures::of_extension(&extension.name) {
                self.push((PG_PROC, function, 0), own, Need::Member)?;
            }
            for &member in &extension.members {
                let class = if self.names.catalog.routine(member).is_some() { PG_PROC } else { PG_TYPE };
                self.push((class, member, 0), own, Need::Member)?;
            }
            for (class, family) in super::types::classes_of_extension(&extension.name) {
                self.push((PG_OPCLASS, class, 0), own, Need::Member)?;
                self.push((PG_OPFAMILY, family, 0), own, Need::Member)?;
            }
        }
        let plpgsql = (PG_EXTENSION, super::extensions::PLPGSQL_NUMBER, 0);
        self.push((PG_LANGUAGE, super::routines::LANGUAGE_PLPGSQL, 0), plpgsql, Need::Member)?;
        for function in super::types::FUNCTIONS_OF_PLPGSQL {
            self.push((PG_PROC, function, 0), plpgsql, Need::Member)?;
        }
        Ok(())
    }
}

/// The privileges that the system's own objects were made with, which are those that they have.
fn initial_rights(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let schema = acl(Some(&system_acl(ObjectKind::Schema)), names);
    rows.push([oid(PG_CATALOG), oid(PG_NAMESPACE), int(0), text("i"), schema])?;
    let of_tables = acl(Some(&system_acl(ObjectKind::Table)), names);
    for table in super::tables().filter(|table| table.schema == "pg_catalog") {
        rows.push([oid(table.oid), oid(PG_CLASS), int(0), text("i"), of_tables.clone()])?;
    }
    Ok(())
}
