//! FROM: relations, joins, and the names that they bring.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use colibri_catalog::{Relation as Object, Table, View, cluster::Privileges, system_tables::SystemTable};
use colibri_types::{Error, Result, SqlState, Type, functions::TABLESAMPLE};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::logical::{Column, From, Join, Query, Relation, Source};
use super::{
    Binder, Levels, Part, Scope, With, WithSource, fold, in_database, name_span, no_such_relation, qualified, whole,
};
use crate::expr::Expr;

/// Views inside each other at most. They are bound, planned and run on the stack of the thread at
/// hand, whatever the depth of the statement itself.
const VIEWS_MAX: usize = 32;

/// Relations that a query joins at most.
const RELATIONS_MAX: usize = 100;

/// A WITH query that depends on an outer query is planned wherever it is read, with all those that
/// it reads itself: a chain in which each reads the one before twice is doubled by every link.
const COPIES_MAX: usize = 4_096;

impl Binder<'_> {
    /// Binds FROM, with commas as cross joins. The names go into the scope at hand.
    pub(super) fn from(
        &mut self,
        tables: &[ast::TableWithJoins],
        relations: &mut Vec<Relation>,
    ) -> Result<Option<From>> {
        let mut from = None;
        for table in tables {
            let right = self.joins(table, relations)?;
            from = Some(match from {
                None => right,
                Some(left) => {
                    From::Join { kind: Join::Inner, left: Box::new(left), right: Box::new(right), on: Vec::new() }
                }
            });
        }
        Ok(from)
    }

    pub(super) fn factor(&mut self, factor: &ast::TableFactor, relations: &mut Vec<Relation>) -> Result<From> {
        if relations.len() >= RELATIONS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT,
                format!("a query joins more than {RELATIONS_MAX} relations"),
            ));
        }
        whole::factor(factor)?;
        let alias = match factor {
            ast::TableFactor::Table { alias, .. }
            | ast::TableFactor::Derived { alias, .. }
            | ast::TableFactor::Function { alias, .. } => alias.as_ref(),
            _ => None,
        };
        if let Some(alias) = alias {
            super::check_name(self.text, &alias.name)?;
        }
        match factor {
            ast::TableFactor::Table { name, alias, sample: Some(sample), .. } => {
                let (ast::TableSampleKind::BeforeTableAlias(sample) | ast::TableSampleKind::AfterTableAlias(sample)) =
                    sample;
                self.sample(name, sample, alias.as_ref(), relations)
            }
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let from = self.named(name, alias.as_ref(), relations)?;
                if whole::is_only(factor)
                    && let Some(relation) = relations.last_mut()
                {
                    Self::without_leaves(&mut relation.source);
                }
                Ok(from)
            }
            ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.functions(name, &args.args, alias.as_ref(), *with_ordinality, relations)
            }
            ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.functions(name, args, alias.as_ref(), *with_ordinality, relations)
            }
            // The parser takes this one apart from other functions.
            ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let name = ast::ObjectName::from(vec![ast::Ident::new("unnest")]);
                let arg = |expr: &ast::Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr.clone()));
                let args: Vec<ast::FunctionArg> = array_exprs.iter().map(arg).collect();
                self.functions(&name, &args, alias.as_ref(), *with_ordinality, relations)
            }
            ast::TableFactor::Derived { lateral, subquery, alias, .. } => {
                let Some(alias) = alias else {
                    let error = Error::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .hint("For example, FROM (SELECT ...) [AS] foo.");
                    return Err(self.place(factor.span(), error));
                };
                if *lateral {
                    return self.lateral(subquery, alias, relations);
                }
                let query = match self.is_rows(&alias.name) {
                    true => self.for_rows(|binder| binder.derived(subquery)),
                    false => self.derived(subquery),
                }?;
                let columns = query.columns.clone();
                self.add(fold(&alias.name), None, columns, &[], Source::Query(Box::new(query)), Some(alias), relations)
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let first = self.scope().tables.len();
                let first_merged = self.scope().merged.len();
                let from = self.joins(table_with_joins, relations)?;
                if let Some(alias) = alias {
                    self.hide_behind(first, first_merged, alias)?;
                }
                Ok(from)
            }
            other => Err(self.place(other.span(), Error::unsupported(format_args!("{other} in FROM")))),
        }
    }

    /// `LATERAL (SELECT …)`: a query of its own frame, for each row of what stands before it.
    pub(super) fn lateral(
        &mut self,
        query: &ast::Query,
        alias: &ast::TableAlias,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (mut query, args) = self.subquery_query(query)?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        let columns = query.columns.clone();
        let query = Box::new(query);
        let source = if args.is_empty() { Source::Query(query) } else { Source::Lateral { query, args } };
        self.add(fold(&alias.name), None, columns, &[], source, Some(alias), relations)
    }

    /// A query in FROM: it does not see the names beside it.
    pub(super) fn derived(&mut self, query: &ast::Query) -> Result<Query> {
        let beside = std::mem::take(&mut self.frame().scopes);
        let bound = self.deeper(|binder| binder.query(query));
        self.frame().scopes = beside;
        let mut query = bound?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        Ok(query)
    }

    /// A table of which some rows are taken: a query with a condition on each row's key.
    fn sample(
        &mut self,
        name: &ast::ObjectName,
        sample: &ast::TableSample,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let Some(Object::Table(table)) = self.relation(name)?.cloned() else {
            let error = match self.relation(name)? {
                None if self.system_table(name)?.is_none() => no_such_relation(name),
                _ => {
                    let message = "TABLESAMPLE clause can only be applied to tables and materialized views";
                    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                }
            };
            return Err(self.place(name_span(name), error));
        };
        self.note_schema(name, &table.schema);
        self.used.push(table.id);
        self.need(table.id, &table.schema, Privileges::SELECT);
        let quantity = sample.quantity.as_ref().ok_or_else(|| Error::internal("a sample has no percentage"))?;
        let seed = match &sample.seed {
            Some(seed) => ast::Expr::Value(seed.value.clone()),
            // Another one for each statement.
            None => colibri_syntax::parse_expr("pg_catalog.statement_timestamp()")?,
        };
        let beside = std::mem::replace(&mut self.frame().scopes, vec![Scope { no_calls: "FROM", ..Scope::default() }]);
        let bound = self.sample_arguments(&quantity.value, &seed);
        self.frame().scopes = beside;
        let mut args = bound?;
        let (mut columns, hidden) = table_columns(&table);
        let key: Vec<usize> = match &table.primary_key {
            Some(key) => key.columns.clone(),
            None => vec![table.columns.len()],
        };
        let source = match table.is_tree() {
            true => Source::Tree(self.tree(&table)?),
            false => Source::Table(Arc::clone(&table)),
        };
        let key = if table.is_tree() { vec![table.columns.len(), table.columns.len() + 1] } else { key };
        args.extend(key.into_iter().map(Expr::Column));
        let output: Vec<usize> = (0..columns.len()).filter(|&column| !hidden[column]).collect();
        let width = columns.len();
        let visible_as = alias.map_or(table.name.clone(), |alias| fold(&alias.name));
        let schema = if alias.is_some() { None } else { Some(table.schema.clone()) };
        columns = output.iter().map(|&column| columns[column].clone()).collect();
        let mut filter = Vec::new();
        let subject = self.subject_to(&table)?;
        if let Some(authority) = &subject {
            filter = self.policy_filter(&table, authority, 'r')?;
        }
        filter.push(Expr::Call { function: &TABLESAMPLE, args });
        let select = super::logical::Select {
            relations: vec![Relation::new(0, width, source, visible_as.clone())],
            from: Some(From::Relation(0)),
            filter,
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output: output.into_iter().map(Expr::Column).collect(),
            distinct: super::logical::Distinct::No,
        };
        let mut query = Query::plain(super::logical::Body::Select(Box::new(select)), columns.clone());
        query.barrier = subject.map(|_| table);
        self.add(visible_as, schema, columns, &[], Source::Query(Box::new(query)), alias, relations)
    }

    /// The percentage and the seed of a sample.
    fn sample_arguments(&mut self, percentage: &ast::Expr, seed: &ast::Expr) -> Result<Vec<Expr>> {
        let context = colibri_types::cast::CastContext::Assignment;
        let bound = self.expr(percentage)?;
        let percentage = self.coerce(bound, Type::Float8.into(), context, percentage.span())?;
        let bound = self.expr(seed)?;
        let seed = match bound.ty.ty {
            Type::TimestampTz => bound.expr,
            _ => self.coerce(bound, Type::Float8.into(), context, seed.span())?,
        };
        Ok(vec![percentage, seed])
    }

    fn named(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (schema, relation) = in_database(&self.env.database, name)?;
        let visible_as = alias.map_or(relation.clone(), |alias| fold(&alias.name));
        if schema.is_none()
            && let Some(place) = self.with.iter().rposition(|with| with.name == relation)
        {
            let (columns, source) = self.with_query(place, name_span(name))?;
            return self.add(visible_as, None, columns, &[], source, alias, relations);
        }
        if schema.is_none()
            && let Some(from) = self.rows_in_sight(&relation, alias, relations)?
        {
            return Ok(from);
        }
        // What is a call without parentheses elsewhere is one here.
        if let [ast::ObjectNamePart::Identifier(ident)] = &name.0[..]
            && ident.quote_style.is_none()
            && (super::functions::is_value(&ident.value.to_ascii_lowercase())
                || ident.value.eq_ignore_ascii_case("current_schema"))
        {
            return self.functions(name, &[], alias, false, relations);
        }
        if let Some(table) = self.system_table(name)? {
            self.note_schema(name, table.schema);
            return self.system(table, name, alias, relations);
        }
        match self.relation(name)? {
            Some(Object::Table(table)) => {
                let table = Arc::clone(table);
                self.note_schema(name, &table.schema);
                self.used.push(table.id);
                let read = self.need_read(table.id, &table.schema);
                let (columns, hidden) = table_columns(&table);
                let schema = if alias.is_some() { None } else { Some(table.schema.clone()) };
                let source = match table.is_tree() {
                    true => Source::Tree(self.tree(&table)?),
                    false => Source::Table(Arc::clone(&table)),
                };
                let from = match self.subject_to(&table)? {
                    None => self.add(visible_as, schema, columns, &hidden, source, alias, relations),
                    Some(authority) => {
                        let source = self.barrier(&table, source, &authority, &columns)?;
                        let from = self.add(visible_as, schema, columns, &hidden, source, alias, relations);
                        self.looks_like_table(&table);
                        from
                    }
                };
                self.notes_reads(&read);
                from
            }
            Some(Object::View(view)) => {
                let view = Arc::clone(view);
                self.note_schema(name, &view.schema);
                let read = self.need_read(view.id, &view.schema);
                let query = self.view(&view)?;
                let columns = query.columns.clone();
                let schema = if alias.is_some() { None } else { Some(view.schema.clone()) };
                let from = self.add(visible_as, schema, columns, &[], Source::Query(Box::new(query)), alias, relations);
                self.notes_reads(&read);
                from
            }
            Some(Object::Sequence(sequence)) => {
                let (id, schema) = (sequence.id, sequence.schema.clone());
                self.note_schema(name, &schema);
                self.need(id, &schema, Privileges::SELECT);
                let query = self.sequence_state(id)?;
                let columns = query.columns.clone();
                let schema = if alias.is_some() { None } else { Some(schema) };
                self.add(visible_as, schema, columns, &[], Source::Query(Box::new(query)), alias, relations)
            }
            Some(other) => {
                let message = format!("cannot open relation \"{relation}\": it is an {}", other.kind());
                Err(self.place(name_span(name), Error::new(SqlState::WRONG_OBJECT_TYPE, message)))
            }
            None => Err(self.place(name_span(name), no_such_relation(name))),
        }
    }

    /// What a WITH query stands for in FROM.
    fn with_query(&mut self, place: usize, span: Span) -> Result<(Vec<Column>, Source)> {
        let with = &self.with[place];
        if let WithSource::Part { id, returns } = with.source {
            if !returns {
                let message = format!("WITH query \"{}\" does not have a RETURNING clause", with.name);
                return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
            }
            let (columns, levels) = (with.columns.clone(), with.levels);
            self.deepens(levels)?;
            return Ok((columns, Source::Part { id }));
        }
        let WithSource::Query { id, query, uses_args, reads } = &with.source else { return self.working(place, span) };
        // One inside another query's expression may be run for each row.
        let is_inside = with.frame != self.frames.len();
        reads.fetch_add(1 + usize::from(is_inside), Ordering::Relaxed);
        let (query, reads) = (Arc::clone(query), Arc::clone(reads));
        let source = Source::Shared { id: *id, query, uses_args: *uses_args, reads };
        let copies = if *uses_args { 1 + with.copies } else { 0 };
        if is_inside && *uses_args {
            let error = Error::unsupported("a WITH query that depends on an outer query, inside another subquery");
            return Err(self.place(span, error));
        }
        let (columns, levels) = (with.columns.clone(), with.levels);
        self.deepens(levels)?;
        self.copies += copies;
        if self.copies > COPIES_MAX {
            let name = &self.with[place].name;
            let message = format!("WITH query \"{name}\", which depends on an outer query, is read too often");
            return Err(self.place(span, Error::new(SqlState::TOO_COMPLEX, message)));
        }
        Ok((columns, source))
    }

    /// The system's table of a name: those of `pg_catalog` are found first, unless the search path
    /// has it behind other schemas.
    pub fn system_table(&self, name: &ast::ObjectName) -> Result<Option<&'static SystemTable>> {
        let (schema, relation) = in_database(&self.env.database, name)?;
        Ok(match schema {
            Some(schema) => self.builtin.tables.table(&schema, &relation),
            None if self.is_found_before_system(&relation) => None,
            None => self
                .builtin
                .tables
                .table("pg_catalog", &relation)
                .or_else(|| self.search_path.iter().find_map(|schema| self.builtin.tables.table(schema, &relation))),
        })
    }

    fn is_found_before_system(&self, relation: &str) -> bool {
        let before = self.search_path.iter().position(|schema| schema == "pg_catalog");
        // Temporary objects come before those of the system, unless the search path says otherwise.
        let temporary = self.catalog.temporary_schema().map(|schema| &schema.name);
        let is_first = temporary.is_some() && self.search_path.first() == temporary;
        let before = before.unwrap_or(usize::from(is_first));
        self.search_path[..before].iter().any(|schema| self.catalog.relation(schema, relation).is_some())
    }

    pub(super) fn system(
        &mut self,
        table: &'static SystemTable,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (_, relation) = qualified(name)?;
        let visible_as = alias.map_or(relation, |alias| fold(&alias.name));
        let schema = if alias.is_some() { None } else { Some(table.schema.into()) };
        let column = |(at, (name, ty)): (usize, &(&'static str, Type))| Column {
            name: CompactString::const_new(name),
            ty: (*ty).into(),
            origin: Some((table.oid, at as i16 + 1)),
            collation: Collation::Default,
        };
        let columns = table.columns.iter().enumerate().map(column).collect();
        // However often it is named, its rows are made once.
        let id = match self.system.iter().find(|(known, _)| *known == table.name) {
            Some((_, id)) => *id,
            None => {
                let id = self.new_id();
                self.system.push((table.name, id));
                id
            }
        };
        self.add(visible_as, schema, columns, &[], Source::System { id, table }, alias, relations)
    }

    /// What reading a sequence as a table means: its one row, out of those that the system makes
    /// for all sequences.
    fn sequence_state(&mut self, id: u32) -> Result<Query> {
        let text = format!(
            "SELECT last_value, log_cnt, is_called FROM pg_catalog.pg_sequence_states() AS s WHERE s.seqrelid = {id}"
        );
        let mut query = self.derived(&colibri_syntax::parse_query(&text)?)?;
        for (at, column) in query.columns.iter_mut().enumerate() {
            column.origin = Some((id, at as i16 + 1));
        }
        Ok(query)
    }

    /// A view's query, bound as if it stood here.
    ///
    /// Bug: its names were looked up in the search path of the user who read it. Consequence: that
    /// user chose which table it read, even one that only the owner may read. Fix: names are stored
    /// with their schemas.
    ///
    /// Bug: a view that reads itself was bound without end. Consequence: an overflow of the stack,
    /// or an error about its depth. Fix: the views that are being bound are known, and none stands
    /// inside itself.
    pub fn view(&mut self, view: &View) -> Result<Query> {
        self.used.push(view.id);
        if self.views.contains(&view.id) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        if self.views.len() >= VIEWS_MAX {
            return Err(colibri_syntax::too_deep());
        }
        let statement = colibri_syntax::parse_query(&view.query)?;
        let bound = self.in_view(view, |binder| binder.deeper(|binder| binder.query(&statement)));
        let mut query = bound?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        // Where `*` stands for a query's columns that have no names of their own.
        query.columns.truncate(view.columns.len());
        for (column, name) in query.columns.iter_mut().zip(&view.columns) {
            column.name = name.clone();
            column.origin = None;
        }
        query.view = Some(Arc::new(view.clone()));
        Ok(query)
    }

    /// Binds parts of a view's query, with the names that the view knows. The privileges are those of
    /// the view's owner, or with `security_invoker` those of the user.
    pub(super) fn in_view<T>(&mut self, view: &View, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let search_path = std::mem::replace(&mut self.search_path, &super::stored::SEARCH_PATH);
        let meanings = self.meanings.take();
        let with = std::mem::take(&mut self.with);
        let frames = std::mem::replace(&mut self.frames, vec![super::Frame::default()]);
        let text = std::mem::take(&mut self.text);
        let is_stored = std::mem::replace(&mut self.is_stored, true);
        let by = self.by;
        if !view.invoker {
            self.by = Some(view.owner);
        }
        self.views.push(view.id);
        let bound = bind(self);
        self.views.pop();
        self.is_stored = is_stored;
        self.by = by;
        self.meanings = meanings;
        self.search_path = search_path;
        self.text = text;
        self.frames = frames;
        self.with = with;
        bound
    }

    /// Binds WITH: each query sees those before it.
    pub(super) fn with(&mut self, with: &ast::With) -> Result<()> {
        whole::with(with)?;
        for (number, cte) in with.cte_tables.iter().enumerate() {
            let name = fold(&cte.alias.name);
            if with.cte_tables[..number].iter().any(|before| fold(&before.alias.name) == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(self.place(cte.alias.name.span, Error::new(SqlState::DUPLICATE_ALIAS, message)));
            }
        }
        if with.recursive {
            return self.with_recursive(with);
        }
        for cte in &with.cte_tables {
            if self.part(cte)? {
                continue;
            }
            let copies_before = self.copies;
            let outermost = std::mem::replace(&mut self.is_outermost, false);
            let bound = self.measured(|binder| binder.derived(&cte.query));
            self.is_outermost = outermost;
            let (query, levels) = bound?;
            self.add_with(cte, query, levels, self.copies - copies_before)?;
        }
        Ok(())
    }

    /// Binds a member of WITH that writes; `false` if it is a query.
    pub(super) fn part(&mut self, cte: &ast::Cte) -> Result<bool> {
        let (ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement)
        | ast::SetExpr::Merge(statement)) = &*cte.query.body
        else {
            return Ok(false);
        };
        let refuse = |binder: &Self, message: &str| {
            Err(binder.place(cte.alias.name.span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)))
        };
        if matches!(&*cte.query.body, ast::SetExpr::Merge(_)) {
            return refuse(self, "MERGE not supported in WITH query");
        }
        if !self.is_outermost {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            return refuse(self, message);
        }
        // It sees neither the names beside it nor those of what it stands in front of, and its own
        // WITH is not that of the statement.
        self.is_outermost = false;
        let beside = std::mem::take(&mut self.frame().scopes);
        let owners = self.owners_of_part(&cte.alias.name.value);
        let bound = self.measured(|binder| {
            let change = |binder: &mut Self| binder.by_rule(&owners, |binder| binder.change(statement));
            binder.deeper(|binder| binder.behind_with(&cte.query, change))
        });
        self.frame().scopes = beside;
        self.is_outermost = true;
        let (change, levels) = bound?;
        let returning = change.returning();
        let mut columns = returning.map_or_else(Vec::new, <[Column]>::to_vec);
        self.at(cte.alias.name.span, rename(&mut columns, cte))?;
        let (id, frame, returns) = (self.new_id(), self.frames.len(), returning.is_some());
        let source = WithSource::Part { id, returns };
        self.with.push(With { name: fold(&cte.alias.name), columns, source, levels, copies: 0, frame });
        self.parts.push(Part { id, change });
        Ok(true)
    }

    /// A WITH query that is bound comes into sight.
    pub(super) fn add_with(&mut self, cte: &ast::Cte, query: Query, levels: Levels, copies: usize) -> Result<()> {
        let mut columns = query.columns.clone();
        self.at(cte.alias.name.span, rename(&mut columns, cte))?;
        let (id, frame) = (self.new_id(), self.frames.len());
        let uses_args = super::rewrite::query_uses_args(&query);
        // A query with volatile functions is computed as a whole: each column may have an effect.
        let gives_all = matches!(cte.materialized, Some(ast::CteAsMaterialized::Materialized))
            || super::rewrite::gives_volatile(&query);
        let reads = Arc::new(AtomicUsize::new(usize::from(gives_all)));
        let source = WithSource::Query { id, query: Arc::new(query), uses_args, reads };
        self.with.push(With { name: fold(&cte.alias.name), columns, source, levels, copies, frame });
        Ok(())
    }
}

/// Gives a WITH query's columns the names that are written behind its own.
pub(super) fn rename(columns: &mut [Column], cte: &ast::Cte) -> Result<()> {
    if cte.alias.columns.len() > columns.len() {
        let message = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            fold(&cte.alias.name),
            columns.len(),
            cte.alias.columns.len()
        );
        return Err(Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
    }
    for (column, renamed) in columns.iter_mut().zip(&cte.alias.columns) {
        column.name = fold(&renamed.name);
    }
    Ok(())
}

/// The place of a column of [`table_columns`] that is NULL in no row.
pub(super) fn marker(table: &Table) -> Option<usize> {
    if table.is_tree() {
        return Some(table.columns.len() + 1);
    }
    match &table.primary_key {
        Some(key) => key.columns.first().copied(),
        None => Some(table.columns.len()),
    }
}

/// A table's columns as a relation has them, and which are not to be found by name.
pub(super) fn table_columns(table: &Table) -> (Vec<Column>, Vec<bool>) {
    let mut columns: Vec<Column> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| Column {
            name: column.name.clone(),
            ty: column.ty,
            origin: Some((table.id, index as i16 + 1)),
            collation: column.collation.clone().map_or(Collation::Default, Collation::Implicit),
        })
        .collect();
    let mut hidden: Vec<bool> = table.columns.iter().map(|column| column.dropped).collect();
    // Those of a tree have a number, and say which table they are of.
    if table.primary_key.is_none() || table.is_tree() {
        columns.push(Column {
            name: CompactString::default(),
            ty: Type::Int8.into(),
            origin: None,
            collation: Collation::Default,
        });
        hidden.push(true);
    }
    if table.is_tree() {
        columns.push(Column {
            name: CompactString::const_new("tableoid"),
            ty: Type::Oid.into(),
            origin: None,
            collation: Collation::Default,
        });
        hidden.push(true);
    }
    (columns, hidden)
}
