//! CREATE, ALTER and DROP STATISTICS.
//!
//! What is said is kept, shown and dumped. The planner does not ask for it.
//!
//! Invariant: statistics are of columns that are there; they go with the first of them that is dropped.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Relation, Statistics, Table};
use colibri_syntax::tree::{Name, OnStatistics, QualifiedName};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::Cascade;
use crate::bind::fold;
use crate::session::Severity;

/// The most columns and expressions.
const COLUMNS_MAX: usize = 8;
/// What `SET STATISTICS` may say at most.
const TARGET_MAX: i32 = 10_000;

fn bad(message: &str) -> Error {
    Error::new(SqlState::BAD_OBJECT_DEFINITION, message)
}

impl Session {
    pub(crate) fn about_statistics(&mut self, statement: &OnStatistics) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match statement {
            OnStatistics::Create { name, if_not_exists, kinds, of, from } => {
                self.create_statistics(name, *if_not_exists, (kinds, of), from)
            }
            OnStatistics::Rename { name, to } => {
                let known = self.own_statistics(name)?;
                self.expect_no_statistics(&known.schema, to)?;
                self.change(vec![Change::PutStatistics(Statistics { name: to.clone(), ..(*known).clone() })])
            }
            OnStatistics::Owner { name, to } => {
                let known = self.own_statistics(name)?;
                let owner = self.actor(to)?;
                self.change(vec![Change::PutStatistics(Statistics { owner, ..(*known).clone() })])
            }
            OnStatistics::SetSchema { name, schema } => {
                let known = self.own_statistics(name)?;
                if self.catalog().schema(schema).is_none() {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                self.expect_may_create_in(schema)?;
                if *schema == known.schema {
                    return Ok(());
                }
                self.expect_no_statistics(schema, &known.name)?;
                self.change(vec![Change::PutStatistics(Statistics { schema: schema.clone(), ..(*known).clone() })])
            }
            OnStatistics::Target { name, if_exists, target } => {
                let known = match self.own_statistics(name) {
                    Err(error) if *if_exists && is_missing(&error) => {
                        self.notice_skipped_statistics(name);
                        return Ok(());
                    }
                    known => known?,
                };
                if *target < -1 {
                    let message = format!("statistics target {target} is too low");
                    return Err(Error::new(SqlState::BAD_PARAMETER, message));
                }
                if *target > TARGET_MAX {
                    let message = format!("lowering statistics target to {TARGET_MAX}");
                    self.notice(Severity::Warning, SqlState::BAD_PARAMETER, message);
                }
                let target = (*target).min(TARGET_MAX);
                self.change(vec![Change::PutStatistics(Statistics { target, ..(*known).clone() })])
            }
            OnStatistics::Drop { names, if_exists } => {
                for name in names {
                    match self.own_statistics(name) {
                        Err(error) if *if_exists && is_missing(&error) => self.notice_skipped_statistics(name),
                        known => self.change(vec![Change::DropStatistics(known?.id)])?,
                    }
                }
                Ok(())
            }
            OnStatistics::Comment { name, text } => {
                let known = self.own_statistics(name)?;
                self.change(vec![Change::Comment(known.id, 0, text.clone())])
            }
        }
    }

    fn notice_skipped_statistics(&mut self, name: &QualifiedName) {
        let message = format!("statistics object \"{}\" does not exist, skipping", name.join("."));
        self.notice(Severity::Notice, SqlState("00000"), message);
    }

    fn expect_no_statistics(&self, schema: &str, name: &str) -> Result<()> {
        if self.catalog().statistics_named(schema, name).is_none() {
            return Ok(());
        }
        let message = format!("statistics object \"{name}\" already exists in schema \"{schema}\"");
        Err(Error::new(SqlState::DUPLICATE_OBJECT, message))
    }

    /// Statistics that the user may change.
    fn own_statistics(&self, name: &QualifiedName) -> Result<Arc<Statistics>> {
        let catalog = self.catalog();
        let found = match &name[..] {
            [.., schema, name] => {
                if catalog.schema(schema).is_none() && !crate::system::is_system_schema(schema) {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                catalog.statistics_named(schema, name)
            }
            [name] => self.search_path().iter().find_map(|schema| catalog.statistics_named(schema, name)),
            [] => None,
        };
        let found = found.cloned().ok_or_else(|| {
            let message = format!("statistics object \"{}\" does not exist", name.join("."));
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })?;
        self.expect_owner(found.owner, "statistics object", &found.name)?;
        Ok(found)
    }

    fn create_statistics(
        &mut self,
        name: &QualifiedName,
        if_not_exists: bool,
        (kinds, of): (&[Name], &[ast::Expr]),
        from: &[QualifiedName],
    ) -> Result<()> {
        let [from] = from else {
            let message = "only a single relation is allowed in CREATE STATISTICS";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        let table = self.table_with_statistics(from)?;
        let idents = name.iter().map(|part| ast::Ident::with_quote('"', part.as_str())).collect::<Vec<_>>();
        let (schema, name) = self.new_name(&ast::ObjectName::from(idents))?;
        if self.catalog().statistics_named(&schema, &name).is_some() {
            let message = format!("statistics object \"{name}\" already exists");
            if if_not_exists {
                self.notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if of.len() > COLUMNS_MAX {
            let message = format!("cannot have more than {COLUMNS_MAX} columns in statistics");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let (columns, expressions) = self.parts_of_statistics(&table, of)?;
        let letters = kinds_of(kinds, (columns.len(), expressions.len()))?;
        let statistics = Statistics {
            id: self.new_id()?,
            schema,
            name,
            owner: self.role(),
            table: table.id,
            columns,
            expressions,
            kinds: letters,
            target: -1,
        };
        self.change(vec![Change::PutStatistics(statistics)])
    }

    /// A table that may have statistics.
    fn table_with_statistics(&mut self, name: &QualifiedName) -> Result<Arc<Table>> {
        let shown = name.last().cloned().unwrap_or_default();
        let relation = self.relation_named(name)?.cloned().ok_or_else(|| {
            Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{}\" does not exist", name.join(".")))
        })?;
        let kind = match relation {
            Relation::Table(table) => {
                self.expect_owner_of(&Relation::Table(Arc::clone(&table)))?;
                return Ok(table);
            }
            Relation::View(_) => "views",
            Relation::Sequence(_) => "sequences",
            Relation::Index(..) | Relation::PrimaryKey(_) => "indexes",
        };
        let message = format!("cannot define statistics for relation \"{shown}\"");
        Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail(format!("This operation is not supported for {kind}.")))
    }

    /// The columns and the expressions that statistics are of.
    fn parts_of_statistics(&mut self, table: &Arc<Table>, of: &[ast::Expr]) -> Result<(Vec<usize>, Vec<String>)> {
        let (mut columns, mut expressions): (Vec<usize>, Vec<String>) = Default::default();
        let not_ordered = |what: &str, ty: colibri_types::Type| {
            let ty = ty.sql_name();
            let message = format!(
                "{what} cannot be used in statistics because its type {ty} has no default btree operator class"
            );
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        for part in of {
            let mut inner = part;
            while let ast::Expr::Nested(next) = inner {
                inner = next;
            }
            if let ast::Expr::Identifier(ident) = inner {
                let name = fold(ident);
                if ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"].contains(&name.as_str()) {
                    let message = "statistics creation on system columns is not supported";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let place = table
                    .column(&name)
                    .ok_or_else(|| Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")))?;
                let ty = table.columns[place].ty.ty;
                if !ty.is_ordered() {
                    return not_ordered(&format!("column \"{name}\""), ty);
                }
                columns.push(place);
                continue;
            }
            let text = self.stored_text(inner)?;
            let bound = self.with_binder("", |binder| binder.index_expr(&text, table)).map_err(|error| {
                let message = error.report().message.replace("index expressions", "statistics expressions");
                Error::new(error.state(), message)
            })?;
            if of.len() > 1 && !bound.ty.ty.is_ordered() {
                return not_ordered("expression", bound.ty.ty);
            }
            expressions.push(text);
        }
        if of.len() < 2 && expressions.is_empty() {
            return Err(bad("extended statistics require at least 2 columns"));
        }
        columns.sort_unstable();
        if columns.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, "duplicate column name in statistics definition"));
        }
        if (1..expressions.len()).any(|at| expressions[..at].contains(&expressions[at])) {
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, "duplicate expression in statistics definition"));
        }
        Ok((columns, expressions))
    }

    /// Drops the statistics of a table that need a column.
    pub(super) fn without_statistics_on(&self, table: &Table, place: usize, name: &str) -> Vec<Change> {
        let needs = |one: &&Arc<Statistics>| {
            let is_named = |text: &String| {
                let Ok(expr) = crate::statement::parse_expr(text) else { return false };
                let mut found = false;
                _ = ast::visit_expressions(&expr, |expr| {
                    found |= matches!(expr, ast::Expr::Identifier(ident) if fold(ident) == name);
                    std::ops::ControlFlow::<()>::Continue(())
                });
                found
            };
            one.columns.contains(&place) || one.expressions.iter().any(is_named)
        };
        let all = self.catalog().statistics_of(table.id);
        all.iter().filter(needs).map(|one| Change::DropStatistics(one.id)).collect()
    }

    /// The statistics of a table with another name for a column in their expressions.
    pub(super) fn statistics_with_renamed(
        &self,
        table: &Table,
        rename: &dyn Fn(&str) -> Result<String>,
    ) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for one in self.catalog().statistics_of(table.id) {
            let mut changed = (*one).clone();
            for text in &mut changed.expressions {
                *text = rename(text)?;
            }
            if changed != *one {
                changes.push(Change::PutStatistics(changed));
            }
        }
        Ok(changes)
    }

    /// Collations and statistics of a schema, as messages show them.
    pub(super) fn told_of_schema(&self, schema: &str) -> Vec<String> {
        let quote = colibri_types::functions::quote_identifier;
        let shown = |name: &str| match self.search_path().iter().any(|known| known == schema) {
            true => quote(name),
            false => format!("{}.{}", quote(schema), quote(name)),
        };
        let collations = self.catalog().collations().filter(|one| one.schema == schema);
        let mut told: Vec<String> = collations.map(|one| format!("collation {}", shown(&one.name))).collect();
        let statistics = self.catalog().statistics().filter(|one| one.schema == schema);
        told.extend(statistics.map(|one| format!("statistics object {}", shown(&one.name))));
        told.extend(self.told_of_search(|of, _| of == schema));
        told
    }

    /// Drops the collations and statistics of a schema.
    pub(super) fn drop_others_of_schema(&mut self, schema: &str) -> Result<()> {
        let statistics = self.catalog().statistics().filter(|one| one.schema == schema);
        let changes: Vec<Change> = statistics.map(|one| Change::DropStatistics(one.id)).collect();
        self.change(changes)?;
        let collations: Vec<CompactString> =
            self.catalog().collations().filter(|one| one.schema == schema).map(|one| one.name.clone()).collect();
        for name in collations {
            let mut quiet = Cascade::new(true);
            self.drop_collation_along(&[schema.into(), name], &mut quiet)?;
        }
        self.drop_search(|of, _| of == schema)?;
        Ok(())
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error.state(), SqlState::NO_SUCH_OBJECT | SqlState::NO_SUCH_SCHEMA)
}

/// The letters of the kinds that are asked for, or of all of them.
fn kinds_of(kinds: &[Name], (columns, expressions): (usize, usize)) -> Result<CompactString> {
    let mut has = [false; 3];
    for kind in kinds {
        let at = match kind.as_str() {
            "ndistinct" => 0,
            "dependencies" => 1,
            "mcv" => 2,
            other => {
                let message = format!("unrecognized statistics kind \"{other}\"");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        has[at] = true;
    }
    let is_single = (columns, expressions) == (0, 1);
    if is_single && !kinds.is_empty() {
        let message = "when building statistics on a single expression, statistics kinds may not be specified";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if kinds.is_empty() && !is_single {
        has = [true; 3];
    }
    let letters = "dfm".chars().zip(has).filter(|(_, has)| *has).map(|(letter, _)| letter);
    Ok(letters.chain((expressions > 0).then_some('e')).collect())
}
