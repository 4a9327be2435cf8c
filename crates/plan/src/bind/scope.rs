//! Names of a FROM clause: which columns they bring, and how they are found.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_types::{Datum, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::expr::Bound;
use super::logical::{Column, From, Relation, Source};
use super::routines::Ambiguous;
use super::{Binder, Merged, Scope, ScopeTable, fold};
use crate::expr::Expr;

impl Binder<'_> {
    #[expect(clippy::too_many_arguments, reason = "all that a relation in FROM consists of")]
    pub(super) fn add(
        &mut self,
        name: CompactString,
        schema: Option<CompactString>,
        mut columns: Vec<Column>,
        hidden: &[bool],
        source: Source,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let hidden: Vec<bool> = if hidden.is_empty() { vec![false; columns.len()] } else { hidden.to_vec() };
        if let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) {
            let shown: Vec<usize> = (0..columns.len()).filter(|&index| !hidden[index]).collect();
            if alias.columns.len() > shown.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    shown.len(),
                    alias.columns.len()
                );
                return Err(self.place(alias.name.span, Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
            }
            for (&index, renamed) in shown.iter().zip(&alias.columns) {
                columns[index].name = fold(&renamed.name);
            }
        }
        let scope = self.scope();
        if scope.tables.iter().any(|table| table.visible && table.name == name && table.schema == schema) {
            let message = format!("table name \"{name}\" specified more than once");
            let span = alias.map_or(Span::empty(), |alias| alias.name.span);
            return Err(self.place(span, Error::new(SqlState::DUPLICATE_ALIAS, message)));
        }
        let (base, width) = (scope.width, columns.len());
        scope.width += width;
        let oid = match &source {
            Source::Table(table) => Some(table.id),
            Source::Tree(tree) => Some(tree.root.id),
            Source::System { table, .. } => Some(table.oid),
            _ => None,
        };
        let marker = match &source {
            Source::Table(table) => super::from::marker(table).map(|place| base + place),
            Source::Tree(tree) => super::from::marker(&tree.root).map(|place| base + place),
            _ => None,
        };
        let row_name = match &source {
            Source::Table(table) => table.name.clone(),
            Source::Tree(tree) => tree.root.name.clone(),
            Source::System { table, .. } => table.name.into(),
            _ => CompactString::default(),
        };
        let is_scalar = matches!(&source, Source::Functions { calls, numbered: false } if calls.len() == 1);
        scope.tables.push(ScopeTable {
            name: name.clone(),
            schema,
            base,
            columns,
            hidden,
            visible: true,
            oid,
            marker,
            row_name,
            is_scalar,
            is_nullable: false,
            computed: None,
            read: None,
        });
        relations.push(Relation::new(base, width, source, name));
        Ok(From::Relation(relations.len() - 1))
    }

    /// `(a JOIN b) AS x`: one name for all columns.
    pub(super) fn hide_behind(&mut self, first: usize, first_merged: usize, alias: &ast::TableAlias) -> Result<()> {
        let scope = self.scope();
        let merged = scope.merged.split_off(first_merged);
        let mut parts: Vec<(Column, Expr, usize)> = Vec::new();
        let mut reads = Vec::new();
        for merged in &merged {
            let column =
                Column { name: merged.name.clone(), ty: merged.ty.into(), origin: None, collation: Collation::Default };
            parts.push((column, merged.expr.clone(), merged.parts[0]));
            // They were read to join by them.
            reads.push(None);
        }
        let covered: Vec<usize> = merged.iter().flat_map(|merged| merged.parts.clone()).collect();
        for table in &mut scope.tables[first..] {
            if table.visible {
                for (index, column) in table.columns.iter().enumerate() {
                    if !table.hidden[index] && !covered.contains(&(table.base + index)) {
                        parts.push((column.clone(), Expr::Column(table.base + index), table.base + index));
                        reads.push(table.read.as_ref().map(|(read, first)| (Arc::clone(read), first + index)));
                    }
                }
            }
            table.visible = false;
        }
        if alias.columns.len() > parts.len() {
            let message = format!(
                "join expression \"{}\" has {} columns available but {} columns specified",
                fold(&alias.name),
                parts.len(),
                alias.columns.len()
            );
            return Err(self.place(alias.name.span, Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
        }
        // The name's columns are scattered over the wide row: each is a column of its own of a
        // table without a base.
        for (index, ((column, expr, place), read)) in parts.into_iter().zip(reads).enumerate() {
            let name = alias.columns.get(index).map_or(column.name.clone(), |column| fold(&column.name));
            let ty = column.ty;
            let scope = self.scope();
            scope.tables.push(ScopeTable {
                name: fold(&alias.name),
                schema: None,
                base: place,
                columns: vec![Column { name: name.clone(), ..column }],
                hidden: vec![false],
                visible: true,
                oid: None,
                marker: None,
                row_name: CompactString::default(),
                is_scalar: false,
                is_nullable: false,
                computed: None,
                read,
            });
            if !matches!(expr, Expr::Column(column) if column == place) {
                scope.merged.push(Merged { name, expr, ty: ty.ty, parts: vec![place] });
            }
        }
        Ok(())
    }

    /// A column by name, from the innermost query outwards.
    pub(super) fn column(
        &mut self,
        table: Option<(Option<CompactString>, CompactString)>,
        ident: &ast::Ident,
    ) -> Result<Bound> {
        self.column_at(table, ident, ident.span)
    }

    /// A column whose name begins in another place than the last part of it.
    pub(super) fn column_at(
        &mut self,
        table: Option<(Option<CompactString>, CompactString)>,
        ident: &ast::Ident,
        span: Span,
    ) -> Result<Bound> {
        let name = fold(ident);
        let mut variable = None;
        if self.variables.is_some() {
            let parts: Vec<CompactString> = match &table {
                None => vec![name.clone()],
                Some((schema, table)) => schema.iter().chain([table, &name]).cloned().collect(),
            };
            variable = self.variable(&parts, span)?;
        }
        for depth in (0..self.frames.len()).rev() {
            let Some(scope) = self.frames[depth].scopes.last() else { continue };
            let found = match self.at(span, scope.find(table.as_ref(), &name))? {
                None => self.at(span, self.system_column(scope, table.as_ref(), &name))?,
                found => found,
            };
            if let Some(mut bound) = found {
                if let Some(variable) = variable.take()
                    && self.settle_ambiguous(&name, span)? == Ambiguous::Variable
                {
                    return Ok(variable);
                }
                if let Expr::Column(place) = bound.expr
                    && depth + 1 == self.frames.len()
                    && let Some(scope) = self.frames[depth].scopes.last_mut()
                    && !scope.in_call
                {
                    scope.references.push((place, span));
                }
                if table.is_none() {
                    self.note_column(ident.span, depth, &name, &bound.expr);
                }
                let collation = scope_collation(&self.frames[depth], &bound.expr);
                bound.expr = self.handed_down(bound.expr, depth);
                self.meet_column(collation, ident.span)?;
                return Ok(bound);
            }
        }
        if let Some(variable) = variable {
            return Ok(variable);
        }
        // Where no column is meant, a whole row is.
        if table.is_none()
            && let Some(row) = self.whole_row(&(None, name.clone()))?
        {
            return Ok(row);
        }
        Err(self.place(span, self.no_such_column(table.as_ref(), &name)))
    }

    /// The columns `ctid` and `xmin`, which tables have unless a column has the name.
    ///
    /// `ctid` tells rows of a table apart: it is made from the number of a row, or from a primary key of
    /// one integer. `xmin` is a number that is another one when a value of the row has changed.
    #[inline(never)]
    fn system_column(
        &self,
        scope: &Scope,
        named: Option<&(Option<CompactString>, CompactString)>,
        name: &str,
    ) -> Result<Option<Bound>> {
        if !matches!(name, "ctid" | "xmin") {
            return Ok(None);
        }
        let is_named = |candidate: &ScopeTable| {
            named.is_none_or(|(schema, table)| {
                candidate.name == *table && (schema.is_none() || *schema == candidate.schema)
            })
        };
        let mut found = None;
        for candidate in scope.tables.iter().filter(|candidate| candidate.visible && is_named(candidate)) {
            let Some(table) = candidate.oid.and_then(|oid| self.catalog.table(oid)) else { continue };
            if candidate.computed.is_some() || candidate.columns.len() < table.columns.len() {
                continue;
            }
            if found.is_some() {
                return Err(ambiguous(name));
            }
            found = Some(if name == "ctid" {
                self.place_of(candidate, table)?
            } else {
                self.version_of(candidate, table)?
            });
        }
        Ok(found)
    }

    fn place_of(&self, candidate: &ScopeTable, table: &Table) -> Result<Bound> {
        let number = match table.primary_key.as_ref().map(|key| &key.columns[..]) {
            // The number of the row stands behind the columns.
            None if candidate.columns.len() > table.columns.len() => table.columns.len(),
            Some(&[column]) if matches!(table.columns[column].ty.ty, Type::Int2 | Type::Int4 | Type::Int8) => column,
            _ => return Err(Error::unsupported("ctid of a table whose primary key is not one integer")),
        };
        let function = self.builtin.functions.function(".row_place", &[Type::Int8])?;
        Ok(Bound::new(Expr::Call { function, args: vec![candidate.column(number)] }, Type::Tid))
    }

    fn version_of(&self, candidate: &ScopeTable, table: &Table) -> Result<Bound> {
        let mut args = Vec::with_capacity(2 * table.columns.len());
        for (place, column) in table.live_columns() {
            args.push(Expr::Const(Datum::Int(column.ty.ty.code().into())));
            args.push(candidate.column(place));
        }
        let function = self.builtin.functions.function(".row_version", &[Type::Void])?;
        let version = Expr::Call { function, args };
        let Some(marker) = candidate.marker.filter(|_| candidate.is_nullable) else {
            return Ok(Bound::new(version, Type::Xid));
        };
        // Where an outer join finds no row there is no version.
        let is_missing = Expr::IsNull { input: Box::new(Expr::Column(marker)), negated: false };
        let arms = vec![(is_missing, Expr::Const(Datum::Null))];
        Ok(Bound::new(Expr::Case { arms, otherwise: Box::new(version) }, Type::Xid))
    }

    /// What two columns say together.
    pub(super) fn collation_of_both(&mut self, left: &Expr, right: &Expr) -> Result<Collation> {
        let frame = self.frame();
        let (left, right) = (scope_collation(frame, left), scope_collation(frame, right));
        left.with(right)
    }

    fn no_such_column(&self, table: Option<&(Option<CompactString>, CompactString)>, name: &str) -> Error {
        match table {
            None => Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")),
            Some((schema, table)) => {
                let known = self.frames.iter().flat_map(|frame| frame.scopes.last()).any(|scope| {
                    scope.tables.iter().any(|known| {
                        known.visible && known.name == *table && (schema.is_none() || known.schema == *schema)
                    })
                });
                if known {
                    return Error::new(SqlState::NO_SUCH_COLUMN, format!("column {table}.{name} does not exist"));
                }
                // It may be there under another name.
                let is_its = |known: &&ScopeTable| {
                    let of_table = known.oid.and_then(|oid| self.catalog.table(oid));
                    known.visible && of_table.is_some_and(|of| of.name == *table)
                };
                let scopes = self.frames.iter().rev().flat_map(|frame| frame.scopes.last());
                match scopes.flat_map(|scope| &scope.tables).find(is_its) {
                    Some(known) => {
                        let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
                        let hint = format!("Perhaps you meant to reference the table alias \"{}\".", known.name);
                        Error::new(SqlState::NO_SUCH_TABLE, message).hint(hint)
                    }
                    None => {
                        let message = format!("missing FROM-clause entry for table \"{table}\"");
                        Error::new(SqlState::NO_SUCH_TABLE, message)
                    }
                }
            }
        }
    }
}

impl Scope {
    pub(super) fn find(
        &self,
        table: Option<&(Option<CompactString>, CompactString)>,
        name: &str,
    ) -> Result<Option<Bound>> {
        let mut covered: &[usize] = &[];
        let mut found: Option<Bound> = None;
        if table.is_none() {
            let mut merged = self.merged.iter().filter(|merged| merged.name == name);
            if let Some(first) = merged.next() {
                if merged.next().is_some() {
                    return Err(ambiguous(name));
                }
                covered = &first.parts;
                found = Some(Bound::new(first.expr.clone(), first.ty));
            }
        }
        for candidate in self.tables.iter().filter(|candidate| candidate.visible) {
            if let Some((schema, table)) = table {
                let same_schema = schema.is_none() || *schema == candidate.schema;
                if candidate.name != *table || !same_schema {
                    continue;
                }
            }
            let was_found = found.is_some();
            for (index, column) in candidate.columns.iter().enumerate() {
                let place = candidate.base + index;
                if candidate.hidden[index] || column.name != name || covered.contains(&place) {
                    continue;
                }
                if found.is_some() {
                    return Err(ambiguous(name));
                }
                found = Some(Bound::new(candidate.column(index), column.ty));
            }
            // The one system column that there is: which table a row is of.
            if let ("tableoid", Some(oid), true) = (name, candidate.oid, was_found == found.is_some()) {
                if was_found {
                    return Err(ambiguous(name));
                }
                let of_rows = candidate.columns.last().filter(|column| column.name == "tableoid");
                let which = match of_rows {
                    Some(_) => candidate.column(candidate.columns.len() - 1),
                    None => Expr::Const(Datum::Int(oid.into())),
                };
                found = Some(Bound::new(which, Type::Oid));
            }
        }
        Ok(found)
    }

    /// All columns in the order of `*`, or of one table.
    pub(super) fn all(&self, table: Option<&(Option<CompactString>, CompactString)>) -> Option<Vec<(Column, Expr)>> {
        let mut columns = Vec::new();
        let mut known = table.is_none();
        let mut covered = Vec::new();
        if table.is_none() {
            for merged in &self.merged {
                let column = Column {
                    name: merged.name.clone(),
                    ty: merged.ty.into(),
                    origin: None,
                    collation: Collation::Default,
                };
                columns.push((column, merged.expr.clone()));
                covered.extend_from_slice(&merged.parts);
            }
        }
        for candidate in self.tables.iter().filter(|candidate| candidate.visible) {
            if let Some((schema, table)) = table
                && (candidate.name != *table || !(schema.is_none() || *schema == candidate.schema))
            {
                continue;
            }
            known = true;
            for (index, column) in candidate.columns.iter().enumerate() {
                let place = candidate.base + index;
                if !candidate.hidden[index] && !covered.contains(&place) {
                    columns.push((column.clone(), candidate.column(index)));
                }
            }
        }
        known.then_some(columns)
    }
}

/// What a column of a query's FROM says of its collation.
pub(super) fn scope_collation(frame: &super::Frame, expr: &Expr) -> Collation {
    let (Expr::Column(place), Some(scope)) = (expr, frame.scopes.last()) else { return Collation::Default };
    let of = |table: &ScopeTable| Some(table.columns.get(place.checked_sub(table.base)?)?.collation.clone());
    scope.tables.iter().find_map(of).unwrap_or_default()
}

impl ScopeTable {
    /// A column is read.
    pub(super) fn reads(&self, index: usize) {
        if let Some((read, first)) = &self.read {
            read.note(first + index);
        }
    }

    /// What a column is.
    pub(super) fn column(&self, index: usize) -> Expr {
        self.reads(index);
        self.computed.clone().unwrap_or(Expr::Column(self.base + index))
    }
}

fn ambiguous(name: &str) -> Error {
    Error::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
}
