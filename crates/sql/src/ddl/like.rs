//! `CREATE TABLE … (LIKE t INCLUDING …)`: what a new table takes from another one.
//!
//! Columns come first, with NOT NULL and their collations; keys and CHECKs are then added as if they
//! were written out, and indexes and comments when the table is there.

use std::sync::Arc;

use colibri_catalog::{CONSTRAINT_COMMENT, Change, Check, Column, ColumnStorage, Relation, Table, View};
use colibri_syntax::LIKE_MARK;
use colibri_syntax::tree::{SequenceNumber, SequenceOption};
use colibri_types::{Error, Result};
use sqlparser::ast::{self, TableConstraint};

use super::Session;
use super::create::{Draft, new_column};
use super::user_types::object_name;
use crate::bind::stored::is_of_identity;
use crate::system::describe;
use crate::system::relations::table_indexes;

/// What is taken beside columns.
#[derive(Clone, Copy)]
pub(super) struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
    compression: bool,
    storage: bool,
}

/// A table that another one is like.
pub(super) struct Like {
    source: Arc<Table>,
    including: Including,
}

impl Including {
    /// As the parser has noted it.
    fn of(letters: &str) -> Self {
        Self {
            comments: letters.contains('m'),
            constraints: letters.contains('c'),
            defaults: letters.contains('d'),
            generated: letters.contains('g'),
            identity: letters.contains('i'),
            indexes: letters.contains('x'),
            compression: letters.contains('o'),
            storage: letters.contains('s'),
        }
    }
}

fn index_column(name: &str) -> ast::IndexColumn {
    ast::IndexColumn {
        column: ast::OrderByExpr {
            expr: ast::Expr::Identifier(ast::Ident::with_quote('"', name)),
            options: ast::OrderByOptions { sort: None, nulls_first: None },
            with_fill: None,
        },
        operator_class: None,
    }
}

impl Session {
    /// Adds the columns of another table to a new one. `at`: where the first of them stands among
    /// those that the statement lists.
    pub(super) fn columns_like(&mut self, draft: &mut Draft, name: &ast::ObjectName, at: &mut usize) -> Result<Like> {
        let mut name = name.clone();
        let letters = match name.0.last() {
            Some(ast::ObjectNamePart::Identifier(ident)) => ident.value.strip_prefix(LIKE_MARK).map(str::to_owned),
            _ => None,
        };
        if letters.is_some() {
            name.0.pop();
        }
        let including = Including::of(&letters.unwrap_or_default());
        let source = match self.find_relation(&name)? {
            Some(Relation::View(view)) if !view.materialized => self.table_like_view(&view)?,
            _ => self.with_binder("", |binder| binder.table(&name))?,
        };
        for (place, column) in source.live_columns() {
            let is_plain = column.identity.is_none() && column.generated.is_none();
            let storage = ColumnStorage {
                compression: column.storage.compression.filter(|_| including.compression),
                kind: column.storage.kind.filter(|_| including.storage),
            };
            let mut new = Column {
                storage,
                default: column.default.clone().filter(|_| including.defaults && is_plain),
                generated: column.generated.clone().filter(|_| including.generated),
                missing: None,
                identity: None,
                ..column.clone()
            };
            if let (true, Some(kind)) = (including.identity, column.identity) {
                let options = self.identity_like(&source, place)?;
                let at = draft.table.columns.len();
                self.make_identity(draft, &mut new, at, kind, &options)?;
            }
            new.inherited_only = false;
            self.merge_like(draft, new, *at)?;
            *at += 1;
        }
        Ok(Like { source, including })
    }

    /// A table with the columns of a view.
    fn table_like_view(&mut self, view: &View) -> Result<Arc<Table>> {
        let row = self.with_binder("", |binder| {
            let row = binder.row_of_relation(view.id)?;
            binder.forget_reads();
            Ok(row)
        })?;
        let columns = row.fields.iter().map(|(name, ty)| new_column(name.clone(), *ty)).collect();
        let table = self.new_table(view.schema.clone(), view.name.clone(), columns)?;
        Ok(Arc::new(Table { id: view.id, ..table }))
    }

    /// The options of the sequence of an identity column.
    fn identity_like(&self, source: &Table, place: usize) -> Result<Vec<SequenceOption>> {
        let sequence = self
            .catalog()
            .sequences()
            .find(|sequence| sequence.owned_by == Some((source.id, place)) && is_of_identity(source, sequence));
        let sequence = sequence.ok_or_else(|| Error::internal("an identity column has no sequence"))?;
        let number = |value: i64| SequenceNumber(value.to_string());
        Ok(vec![
            SequenceOption::Increment(number(sequence.increment)),
            SequenceOption::Min(Some(number(sequence.min))),
            SequenceOption::Max(Some(number(sequence.max))),
            SequenceOption::Start(number(sequence.start)),
            SequenceOption::Cycle(sequence.cycle),
        ])
    }

    /// The keys that a new table has like another one, and its CHECKs, which are added at once.
    pub(super) fn constraints_like(&mut self, draft: &mut Draft, like: &Like) -> Result<Vec<TableConstraint>> {
        let Like { source, including } = like;
        if including.constraints {
            for check in &source.checks {
                let id = self.new_id_in(&draft.table.schema)?;
                draft.table.checks.push(Check {
                    id,
                    not_valid: false,
                    inherited: false,
                    declared: false,
                    ..check.clone()
                });
            }
        }
        if !including.indexes {
            return Ok(Vec::new());
        }
        let mut keys = Vec::new();
        for index in table_indexes(source).into_iter().filter(|index| index.constraint) {
            let columns: Vec<ast::IndexColumn> =
                index.columns.iter().map(|part| index_column(&source.columns[part.column].name)).collect();
            let of_exclusion = crate::system::describe::exclusion(source, &index);
            let unique = format!("UNIQUE (a){}", crate::system::describe::deferrable(index.timing));
            let text = match (index.primary, index.exclusion.is_empty()) {
                (true, _) => "PRIMARY KEY (a)",
                (false, true) => &unique,
                (false, false) => &of_exclusion,
            };
            let statement = crate::statement::parse_relational(&format!("CREATE TABLE t (a int, {text})"))?;
            let ast::Statement::CreateTable(create) = statement else { continue };
            let ident = |&place: &usize| ast::Ident::with_quote('"', source.columns[place].name.as_str());
            let include = index.include.iter().map(ident).collect();
            keys.extend(create.constraints.into_iter().next().map(|constraint| match constraint {
                TableConstraint::PrimaryKey(key) => {
                    TableConstraint::PrimaryKey(ast::PrimaryKeyConstraint { columns, include, ..key })
                }
                TableConstraint::Unique(unique) => {
                    let nulls_distinct = match index.nulls_not_distinct {
                        true => ast::NullsDistinctOption::NotDistinct,
                        false => unique.nulls_distinct,
                    };
                    TableConstraint::Unique(ast::UniqueConstraint { columns, nulls_distinct, include, ..unique })
                }
                other => other,
            }));
        }
        Ok(keys)
    }

    /// Makes the indexes and comments that a new table has like another one.
    pub(super) fn indexes_and_comments_like(&mut self, id: u32, like: &Like) -> Result<()> {
        let Like { source, including } = like;
        let current = |session: &Self| {
            let table = session.catalog().table(id).cloned();
            table.ok_or_else(|| Error::internal("a new table is not there"))
        };
        let mut numbers = Vec::new();
        if including.indexes {
            let table = current(self)?;
            let on = object_name(&[table.schema.clone(), table.name.clone()]).to_string();
            for index in table_indexes(source).into_iter().filter(|index| !index.constraint) {
                let before = current(self)?.part_numbers();
                let mut statement = crate::statement::parse_relational(&describe::index_like(source, &index, &on))?;
                if let ast::Statement::CreateIndex(create) = &mut statement {
                    create.name = None;
                }
                self.ddl(&statement)?;
                let new = current(self)?.part_numbers().into_iter().find(|number| !before.contains(number));
                numbers.extend(new.map(|new| (index.id, new)));
            }
        }
        if !including.comments {
            return Ok(());
        }
        let table = current(self)?;
        let comments: Vec<((u32, i32), String)> =
            self.catalog().comments().map(|(key, text)| (key, text.to_owned())).collect();
        let mut changes = Vec::new();
        for ((object, part), text) in comments {
            if object == source.id && part > 0 {
                let name = source.columns.get(part as usize - 1).map(|column| &column.name);
                if let Some(at) = name.and_then(|name| table.column(name)) {
                    changes.push(Change::Comment(id, at as i32 + 1, Some(text)));
                }
            } else if let Some((_, new)) = numbers.iter().find(|(old, _)| *old == object) {
                changes.push(Change::Comment(*new, part, Some(text)));
            } else if part == CONSTRAINT_COMMENT
                && let Some(old) = source.checks.iter().find(|check| check.id == object)
                && let Some(new) = table.checks.iter().find(|check| check.name == old.name)
            {
                changes.push(Change::Comment(new.id, part, Some(text)));
            }
        }
        self.change(changes)
    }
}
