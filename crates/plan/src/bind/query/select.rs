//! Binding a SELECT: its list, WHERE, GROUP BY, HAVING, DISTINCT and ORDER BY; the list of
//! RETURNING.

use std::borrow::Cow;

use colibri_types::{Error, Result, SqlState, Type, aggregates, cast::CastContext};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::super::collation::{self, Collation};
use super::grouping_sets::{GroupBy, resolve_groupings};
use super::names::{UNNAMED, name_of};
use super::{OUTPUT_MAX, at_ordinal, ordinal, sort_key_options, too_many_columns};
use crate::bind::expr::{Bound, as_tuple, known};
use crate::bind::functions::{NamedWindows, WINDOWS_PER_LEVEL};
use crate::bind::logical::{Body, Column, Distinct, Extra, Group, Query, Relation, Select, Source};
use crate::bind::types::expect_comparable;
use crate::bind::{Binder, Scope, fold, in_database, rewrite, whole};
use crate::expr::Expr;
use crate::plan::{AggregateCall, SortKey};

/// An item of a SELECT list.
pub(super) struct Item {
    bound: Bound,
    name: CompactString,
    origin: Option<(u32, i16)>,
    collation: Collation,
    span: Span,
}

impl Binder<'_> {
    pub(super) fn select(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        whole::select(select)?;
        self.frame().scopes.push(Scope { no_calls: "FROM", ..Scope::default() });
        let measured = self.measured(|binder| binder.select_in_scope(select, order));
        let scope = self.frame().scopes.pop();
        let (bound, levels) = measured?;
        // Windows are computed above all that the query reads from.
        let windows = scope.map_or(0, |scope| scope.computed_windows.len()).div_ceil(WINDOWS_PER_LEVEL);
        match windows {
            0 => self.deepest = self.deepest.max(self.at.with(levels.all, levels.queries)),
            _ => self.deepens(levels.with(windows, windows))?,
        }
        Ok(bound)
    }

    /// Columns of a table whose primary key is among the keys depend on it: they become keys too,
    /// which changes no group.
    fn add_dependent_keys(&self, keys: &mut Vec<Expr>, relations: &[Relation], exprs: &[&Expr]) {
        for relation in relations {
            let table = match &relation.source {
                Source::Table(table) => table,
                Source::Tree(tree) => &tree.root,
                _ => continue,
            };
            let is_key = |keys: &[Expr], place: usize| {
                keys.iter().any(|key| matches!(key, Expr::Column(other) if *other == place))
            };
            let columns = table.key_columns();
            if table.primary_key.is_none() || !columns.iter().all(|&column| is_key(keys, relation.base + column)) {
                continue;
            }
            for expr in exprs {
                rewrite::for_each_column(expr, &mut |place| {
                    let inside = (relation.base..relation.base + relation.width).contains(&place);
                    if inside && !is_key(keys, place) {
                        keys.push(Expr::Column(place));
                    }
                });
            }
        }
    }

    fn select_in_scope(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        let mut relations = Vec::new();
        let from = self.from(&select.from, &mut relations)?;
        self.scope().calls = Some(Vec::new());
        self.scope().extras = Some(Vec::new());
        if !select.named_window.is_empty() {
            self.scope().windows = NamedWindows::new(&select.named_window).into();
        }
        // The clauses are bound in PostgreSQL's order: the first place of a parameter tells its
        // type, and of two errors the first is reported.
        let mut items = self.items(&select.projection)?;
        let width = items.len();
        if width > OUTPUT_MAX {
            return Err(too_many_columns());
        }
        let filter = match &select.selection {
            Some(condition) => {
                let bound = self.without_calls("WHERE", |binder| binder.condition(condition, "WHERE"))?;
                rewrite::conjuncts(bound)
            }
            None => Vec::new(),
        };
        // PostgreSQL takes a parameter alone for a text here, and refuses it if WHERE says
        // otherwise (42P08).
        for item in &mut items {
            if let (Type::Unknown, &Expr::Param(index)) = (item.bound.ty.ty, &item.bound.expr) {
                item.bound.ty = self.params[index].unwrap_or(Type::Unknown).into();
            }
        }
        let having = match &select.having {
            Some(condition) => {
                let extras = self.scope().extras.take();
                let no_calls = std::mem::replace(&mut self.scope().no_calls, "HAVING");
                let bound = self.condition(condition, "HAVING");
                (self.scope().extras, self.scope().no_calls) = (extras, no_calls);
                Some(bound?)
            }
            None => None,
        };
        let is_ordered = !order.is_empty();
        let all_distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
        let mut order = self.order(order, &mut items, width, all_distinct)?;
        if all_distinct {
            for item in &mut items[..width] {
                self.compared(item)?;
                self.at(item.span, item.collation.expect_one())?;
                self.at(item.span, expect_comparable(item.bound.ty.ty, false))?;
            }
        }
        let (keys, sets) = match self.group_keys(&select.group_by, &items[..width])? {
            Some(GroupBy { keys, sets }) => (Some(keys), sets),
            None => (None, None),
        };
        let folded = std::mem::take(&mut self.scope().folded_keys);
        if !folded.is_empty() && sets.is_some() {
            return Err(Error::unsupported("grouping sets with a nondeterministic collation"));
        }
        for item in &mut items[..width] {
            let is_key = |keys: &Vec<Expr>| keys.iter().any(|key| rewrite::same(key, &item.bound.expr));
            if keys.as_ref().is_some_and(is_key) {
                self.compared(item)?;
            }
        }
        let on = match &select.distinct {
            Some(ast::Distinct::On(exprs)) if exprs.is_empty() => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \")\""));
            }
            Some(ast::Distinct::On(exprs)) => self.distinct_on(exprs, &mut items, width)?,
            _ => Vec::new(),
        };
        if !on.is_empty() {
            order = order_for_distinct_on(order, &on)?;
        }
        self.named_windows()?;
        let mut calls = self.scope().calls.take().unwrap_or_default();
        let mut extras = self.scope().extras.take().unwrap_or_default();
        let mut having = having;
        for key in folded {
            let (aggregate, args) = (&aggregates::MIN_OF_ANY, vec![key.chosen_by.clone()]);
            calls.push(AggregateCall { aggregate, args, distinct: false, filter: None, order: Vec::new() });
            let of_items = items.iter_mut().map(|item| &mut item.bound.expr);
            for expr in of_items.chain(&mut having).chain(extras.iter_mut().flat_map(Extra::exprs_mut)) {
                key.replace(expr, calls.len() - 1);
            }
        }
        let distinct_keys: Vec<Option<Expr>> = match all_distinct {
            true => (0..width)
                .map(|place| self.equality_key(&Expr::Column(place), items[place].bound.ty.ty, &items[place].collation))
                .collect(),
            false => Vec::new(),
        };
        let mut output = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(width);
        for (index, item) in items.into_iter().enumerate() {
            if index < width {
                let (name, ty) = (item.name, item.bound.ty);
                columns.push(Column { name, ty, origin: item.origin, collation: item.collation });
            }
            output.push(item.bound.expr);
        }
        let reads_working = |relation: &Relation| matches!(relation.source, Source::Working { .. });
        if !calls.is_empty() && relations.iter().any(reads_working) {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(Error::new(SqlState::BAD_RECURSION, message));
        }
        let has_groupings = self.scope().has_groupings;
        let grouped = !calls.is_empty() || having.is_some() || keys.is_some() || has_groupings;
        let mut grouped_rows = Vec::new();
        let group = if grouped {
            let mut keys = keys.unwrap_or_default();
            grouped_rows = take_grouped_rows(&mut extras, &mut output, &keys);
            if !keys.is_empty() && sets.is_none() {
                let of_extras = extras.iter().flat_map(Extra::exprs);
                let exprs: Vec<&Expr> = output.iter().chain(&having).chain(of_extras).collect();
                self.add_dependent_keys(&mut keys, &relations, &exprs);
            }
            let rewriter = rewrite::Grouping { keys: &keys, binder: self };
            for expr in output.iter_mut().chain(extras.iter_mut().flat_map(Extra::exprs_mut)) {
                rewriter.rewrite(expr)?;
            }
            if let Some(having) = &mut having {
                rewriter.rewrite(having)?;
            }
            let direct_args = self.frames.last().and_then(|frame| frame.scopes.last()).map(|scope| &scope.direct_args);
            for (arg, _) in direct_args.into_iter().flatten() {
                rewriter.rewrite(&mut arg.clone()).map_err(|error| {
                    error.detail("Direct arguments of an ordered-set aggregate must use only grouped columns.")
                })?;
            }
            if has_groupings {
                let of_extras = extras.iter_mut().flat_map(Extra::exprs_mut);
                for expr in output.iter_mut().chain(&mut having).chain(of_extras) {
                    resolve_groupings(keys.len(), sets.as_deref(), expr)?;
                }
            }
            Some(Group { keys, calls, always: Vec::new(), having })
        } else {
            None
        };
        let is_folded = distinct_keys.iter().any(Option::is_some);
        let distinct = match &select.distinct {
            Some(ast::Distinct::Distinct) if is_folded => Distinct::No,
            Some(ast::Distinct::Distinct) => Distinct::All(width),
            Some(ast::Distinct::On(_)) => Distinct::On(on),
            _ => Distinct::No,
        };
        let select = match (group, sets) {
            (Some(Group { keys, calls, having, .. }), Some(sets)) => {
                let grouped = self.grouped_by_sets((relations, from, filter), (keys, &sets), calls, having)?;
                Select { extras, output, distinct, ..grouped }
            }
            (group, _) => Select { relations, from, filter, group, grouped_rows, extras, output, distinct },
        };
        let mut query = Query::plain(Body::Select(Box::new(select)), columns);
        if is_folded {
            query = collation::distinct_by_keys(query, distinct_keys);
        }
        if is_folded || all_distinct && order.iter().any(|key| !matches!(key.expr, Expr::Column(_))) {
            return Ok(if is_ordered { collation::ordered_by_keys(query, order) } else { query });
        }
        query.order = order;
        Ok(if is_ordered { rows_behind_distinct_on(query) } else { query })
    }

    fn items(&mut self, projection: &[ast::SelectItem]) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(projection.len());
        self.scope().references.clear();
        for item in projection {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => items.push(self.item(expr, name_of(expr))?),
                ast::SelectItem::ExprWithAlias { expr, alias } => items.push(self.item(expr, fold(alias))?),
                ast::SelectItem::Wildcard(options) => {
                    whole::star(options)?;
                    if self.scope().tables.is_empty() {
                        let error =
                            Error::new(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid");
                        return Err(self.place(item.span(), error));
                    }
                    let all = self.scope().all(None).unwrap_or_default();
                    self.note_star(item.span(), all.iter().map(|(column, expr)| (&*column.name, expr)));
                    items.extend(all.into_iter().map(|column| from_column(column, item.span())));
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    whole::star(options)?;
                    if let Some(parts) = parts_of_star(kind)
                        && let Some(fields) = self.fields_of_variable(&parts, item.span())?
                    {
                        for (name, bound) in fields {
                            let collation = Collation::Default;
                            items.push(Item { bound, name, origin: None, collation, span: item.span() });
                        }
                        continue;
                    }
                    let table_name;
                    let name = match kind {
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name) => name,
                        ast::SelectItemQualifiedWildcardKind::Expr(row) => match self.table_meant(row) {
                            Some(table) => {
                                let ident = ast::Ident::with_quote_and_span('"', item.span(), table.as_str());
                                table_name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ident)]);
                                &table_name
                            }
                            None => {
                                let row = self.expr(row)?;
                                for (name, bound) in self.fields(&row, item.span())? {
                                    let collation = Collation::Default;
                                    items.push(Item { bound, name, origin: None, collation, span: item.span() });
                                }
                                continue;
                            }
                        },
                    };
                    let table = in_database(&self.env.database, name)?;
                    let Some(all) = self.scope().all(Some(&table)) else {
                        let message = format!("missing FROM-clause entry for table \"{}\"", table.1);
                        return Err(self.place(item.span(), Error::new(SqlState::NO_SUCH_TABLE, message)));
                    };
                    self.note_star(item.span(), all.iter().map(|(column, expr)| (&*column.name, expr)));
                    items.extend(all.into_iter().map(|column| from_column(column, item.span())));
                }
                other => return Err(self.place(other.span(), Error::unsupported(format_args!("{other}")))),
            }
        }
        Ok(items)
    }

    fn item(&mut self, expr: &ast::Expr, name: CompactString) -> Result<Item> {
        self.ended_with = Collation::Default;
        let bound = self.expr(expr)?;
        let collation = self.take_collation();
        // A query is named like its first column, which its text does not always tell.
        let name = match &bound.expr {
            Expr::Subquery(subquery) if name == UNNAMED => subquery.column_name().unwrap_or(name),
            _ => name,
        };
        let origin = match bound.expr {
            Expr::Column(place) => {
                let scope = self.scope();
                scope.tables.iter().find_map(|table| table.columns.get(place.checked_sub(table.base)?)?.origin)
            }
            _ => None,
        };
        Ok(Item { bound, name, origin, collation, span: expr.span() })
    }

    /// Binds a clause in which aggregates and window functions are an error.
    fn without_calls<T>(&mut self, clause: &'static str, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let calls = self.scope().calls.take();
        let extras = self.scope().extras.take();
        self.scope().no_calls = clause;
        let bound = bind(self);
        self.scope().calls = calls;
        self.scope().extras = extras;
        bound
    }

    fn group_keys(&mut self, group_by: &ast::GroupByExpr, items: &[Item]) -> Result<Option<GroupBy>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(Error::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported("GROUP BY with a modifier"));
        }
        if exprs.is_empty() {
            return Ok(None);
        }
        // Functions that give rows may stand here: their rows are grouped.
        let calls = self.scope().calls.take();
        self.scope().no_calls = "GROUP BY";
        let keys = self.grouping_sets(exprs, items);
        self.scope().calls = calls;
        keys.map(Some)
    }

    /// The place of a key of GROUP BY among those that were met: it is added if it is new.
    pub(super) fn group_key(&mut self, expr: &ast::Expr, items: &[Item], keys: &mut Vec<Expr>) -> Result<usize> {
        let span = expr.span();
        if is_useless_key(expr) {
            let error = Error::new(SqlState::SYNTAX_ERROR, "non-integer constant in GROUP BY");
            return Err(self.place(span, error));
        }
        let chosen = if let Some(number) = ordinal(expr) {
            Some(self.at(span, at_ordinal(number, items.len(), "GROUP BY"))?)
        } else if let ast::Expr::Identifier(ident) = expr {
            // A column of the input goes before a name of the output.
            let name = fold(ident);
            let is_column = self.scope().has_column(&name);
            if is_column { None } else { items.iter().position(|item| item.name == name) }
        } else {
            None
        };
        let key = match chosen {
            Some(item) => {
                let key = items[item].bound.clone();
                if rewrite::has_aggregates(&key.expr) {
                    let error = Error::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY");
                    return Err(self.place(items[item].span, error));
                }
                self.at(span, items[item].collation.expect_one())?;
                (key, items[item].collation.clone())
            }
            None => {
                self.ended_with = Collation::Default;
                let key = self.expr(expr)?;
                let collation = self.take_collation();
                self.at(span, collation.expect_one())?;
                (key, collation)
            }
        };
        let (key, collation) = key;
        self.check_extras_of_key(&key.expr, span)?;
        let ty = known(key.ty.ty);
        self.at(span, expect_comparable(ty, false))?;
        let mut key = self.coerce(key, ty.into(), CastContext::Implicit, span)?;
        if let Some(folded) = self.folded_key(&key, ty, &collation) {
            key = folded.key.clone();
            if !self.scope().folded_keys.iter().any(|known| rewrite::same(&known.key, &key)) {
                self.scope().folded_keys.push(folded);
            }
        }
        if let Some(known) = keys.iter().position(|other| rewrite::same(other, &key)) {
            return Ok(known);
        }
        keys.push(key);
        Ok(keys.len() - 1)
    }

    /// Rows are grouped before there are windows and aggregates.
    fn check_extras_of_key(&mut self, key: &Expr, span: Span) -> Result<()> {
        let mut inside = rewrite::extras_in(key);
        while let Some(at) = inside.pop() {
            let extras = self.scope().extras.as_deref().unwrap_or_default();
            let Some(extra) = extras.get(at) else { continue };
            if matches!(extra, Extra::Window(_)) {
                let error = Error::new(SqlState("42P20"), "window functions are not allowed in GROUP BY");
                return Err(self.place(span, error));
            }
            if extra.exprs().into_iter().any(rewrite::has_aggregates) {
                let error = Error::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY");
                return Err(self.place(span, error));
            }
            inside.extend(extra.exprs().into_iter().flat_map(rewrite::extras_in));
        }
        Ok(())
    }

    fn distinct_on(&mut self, exprs: &[ast::Expr], items: &mut Vec<Item>, width: usize) -> Result<Vec<usize>> {
        let mut places = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let place = self.item_for(expr, items, width, "SELECT DISTINCT ON")?;
            self.compared(&mut items[place])?;
            self.at(expr.span(), items[place].collation.expect_one())?;
            self.at(expr.span(), expect_comparable(items[place].bound.ty.ty, false))?;
            places.push(self.key_item(items, place));
        }
        Ok(places)
    }

    fn order(
        &mut self,
        order: &[ast::OrderByExpr],
        items: &mut Vec<Item>,
        width: usize,
        all_distinct: bool,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        let mut flat: Vec<(Cow<'_, ast::Expr>, &ast::OrderByOptions)> = Vec::with_capacity(order.len());
        for key in order {
            // A row orders by its parts, NULLs being the greatest values in it.
            match as_tuple(&key.expr) {
                Some(parts) if key.options.nulls_first.is_none() => {
                    flat.extend(parts.iter().map(|part| (Cow::Owned(part.clone()), &key.options)));
                }
                _ => flat.push((Cow::Borrowed(&key.expr), &key.options)),
            }
        }
        for (expr, options) in flat {
            let (descending, nulls_first) = self.at(expr.span(), sort_key_options(options))?;
            let place = self.item_for(&expr, items, width, "ORDER BY")?;
            self.compared(&mut items[place])?;
            self.at(expr.span(), items[place].collation.expect_one())?;
            self.at(expr.span(), expect_comparable(items[place].bound.ty.ty, true))?;
            if all_distinct && place >= width {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(self.place(expr.span(), Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
            }
            let expr = match all_distinct {
                // Over the rows that are left.
                true => self.sort_key(Expr::Column(place), items[place].bound.ty.ty, &items[place].collation),
                false => Expr::Column(self.key_item(items, place)),
            };
            keys.push(SortKey { expr, descending, nulls_first });
        }
        Ok(keys)
    }

    /// The item that rows are compared by in the place of another one: that itself, or its sort key.
    fn key_item(&self, items: &mut Vec<Item>, place: usize) -> usize {
        let (item, ty) = (&items[place], items[place].bound.ty.ty);
        let Some(order) = self.order_by(&item.collation).filter(|_| collation::has_order(ty)) else { return place };
        let expr = collation::keyed(&order, item.bound.expr.clone(), ty);
        if let Some(known) = items.iter().position(|item| rewrite::same(&item.bound.expr, &expr)) {
            return known;
        }
        let ty = if ty.is_array() { Type::Bytea.array_of() } else { Type::Bytea };
        let (name, collation, span) = (CompactString::default(), Collation::Default, item.span);
        items.push(Item { bound: Bound::new(expr, ty), name, origin: None, collation, span });
        items.len() - 1
    }

    /// The item that a key of ORDER BY means: one of the list by name, number or expression, or one
    /// added for it.
    fn item_for(&mut self, expr: &ast::Expr, items: &mut Vec<Item>, width: usize, clause: &str) -> Result<usize> {
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let mut named = (0..width).filter(|&index| items[index].name == name);
            if let Some(first) = named.next() {
                if named.any(|other| !rewrite::same(&items[other].bound.expr, &items[first].bound.expr)) {
                    let message = format!("{clause} \"{name}\" is ambiguous");
                    return Err(self.place(ident.span, Error::new(SqlState::AMBIGUOUS_COLUMN, message)));
                }
                return Ok(first);
            }
        }
        if let Some(number) = ordinal(expr) {
            return self.at(expr.span(), at_ordinal(number, width, clause));
        }
        if is_useless_key(expr) {
            let error = Error::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}"));
            return Err(self.place(expr.span(), error));
        }
        self.ended_with = Collation::Default;
        let bound = self.expr(expr)?;
        let collation = self.take_collation();
        let order = self.order_by(&collation);
        let is_it = |item: &Item| {
            rewrite::same(&item.bound.expr, &bound.expr)
                && (!collation::has_order(bound.ty.ty) || self.order_by(&item.collation) == order)
        };
        if let Some(same) = items.iter().position(is_it) {
            return Ok(same);
        }
        let ty = known(bound.ty.ty);
        let expr_bound = self.coerce(bound, ty.into(), CastContext::Implicit, expr.span())?;
        let bound = Bound::new(expr_bound, ty);
        items.push(Item { bound, name: CompactString::default(), origin: None, collation, span: expr.span() });
        Ok(items.len() - 1)
    }

    /// A literal that rows are compared by is a text from here on, whatever reads them.
    fn compared(&mut self, item: &mut Item) -> Result<()> {
        if item.bound.ty.ty == Type::Unknown {
            let literal = std::mem::replace(&mut item.bound, Bound::null());
            let text = self.coerce(literal, Type::Text.into(), CastContext::Implicit, item.span)?;
            item.bound = Bound::new(text, Type::Text);
        }
        Ok(())
    }

    /// RETURNING: items over the scope at hand.
    pub(in crate::bind) fn returning(&mut self, projection: &[ast::SelectItem]) -> Result<(Vec<Expr>, Vec<Column>)> {
        self.scope().no_calls = "RETURNING";
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for item in self.items(projection)? {
            let ty = if item.bound.ty.ty == Type::Unknown { Type::Text.into() } else { item.bound.ty };
            exprs.push(self.coerce(item.bound, ty, CastContext::Implicit, item.span)?);
            columns.push(Column { name: item.name, ty, origin: item.origin, collation: item.collation });
        }
        Ok((exprs, columns))
    }
}

impl Scope {
    fn has_column(&self, name: &str) -> bool {
        self.merged.iter().any(|merged| merged.name == name)
            || self.tables.iter().filter(|table| table.visible).any(|table| {
                table.columns.iter().zip(&table.hidden).any(|(column, hidden)| !hidden && column.name == name)
            })
    }
}

fn from_column((column, expr): (Column, Expr), span: Span) -> Item {
    Item {
        bound: Bound::new(expr, column.ty),
        name: column.name,
        origin: column.origin,
        collation: column.collation,
        span,
    }
}

/// DISTINCT ON's columns come first in the order, in whichever order ORDER BY names them.
fn order_for_distinct_on(order: Vec<SortKey>, on: &[usize]) -> Result<Vec<SortKey>> {
    let is_on = |key: &SortKey| matches!(key.expr, Expr::Column(place) if on.contains(&place));
    let leading = order.iter().take_while(|key| is_on(key)).count();
    let named = on
        .iter()
        .filter(|&&place| order[..leading].iter().any(|key| matches!(key.expr, Expr::Column(other) if other == place)));
    if named.count() < on.len() && leading < order.len() {
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return Err(Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
    }
    let mut keys = order;
    for &place in on.iter().rev() {
        if !keys.iter().any(|key| matches!(key.expr, Expr::Column(other) if other == place)) {
            keys.insert(0, SortKey { expr: Expr::Column(place), descending: false, nulls_first: false });
        }
    }
    Ok(keys)
}

/// The functions whose rows are grouped, since keys hold them: these are run before, the others
/// behind. A key's call that stands in the list outside of the key as well is run there once more.
fn take_grouped_rows(extras: &mut Vec<Extra>, output: &mut [Expr], keys: &[Expr]) -> Vec<(usize, Extra)> {
    let mut grouped: Vec<usize> = keys.iter().flat_map(rewrite::extras_in).collect();
    // With what they are called on.
    let mut next = 0;
    while let Some(&at) = grouped.get(next) {
        next += 1;
        grouped.extend(extras[at].exprs().into_iter().flat_map(rewrite::extras_in));
    }
    grouped.sort_unstable();
    grouped.dedup();
    if grouped.is_empty() {
        return Vec::new();
    }
    fn move_behind(expr: &mut Expr, keys: &[Expr], moved: &dyn Fn(usize) -> Option<usize>) {
        if keys.iter().any(|key| rewrite::same(key, expr)) {
            return;
        }
        if let Expr::Extra(at) = expr
            && let Some(place) = moved(*at)
        {
            *at = place;
        }
        rewrite::for_each_child_mut(expr, &mut |child| move_behind(child, keys, moved));
    }
    let taken: Vec<(usize, Extra)> = grouped.iter().map(|&at| (at, extras[at].clone())).collect();
    let first = extras.len();
    let moved = |at: usize| grouped.iter().position(|&other| other == at).map(|place| first + place);
    extras.extend(taken.iter().map(|(_, extra)| extra.clone()));
    for expr in output.iter_mut().chain(extras.iter_mut().flat_map(Extra::exprs_mut)) {
        move_behind(expr, keys, &moved);
    }
    // Those that nothing asks for behind are left out.
    let mut used: Vec<usize> = output.iter().flat_map(rewrite::extras_in).collect();
    let mut next = 0;
    while let Some(&at) = used.get(next) {
        next += 1;
        let inside: Vec<usize> = extras[at].exprs().into_iter().flat_map(rewrite::extras_in).collect();
        used.extend(inside.into_iter().filter(|at| !used.contains(at)).collect::<Vec<_>>());
    }
    let kept: Vec<usize> = (0..extras.len()).filter(|at| used.contains(at) && !grouped.contains(at)).collect();
    let closed_up = |at: usize| kept.iter().position(|&other| other == at);
    for expr in output.iter_mut().chain(extras.iter_mut().flat_map(Extra::exprs_mut)) {
        move_behind(expr, keys, &closed_up);
    }
    *extras = kept.iter().map(|&at| extras[at].clone()).collect();
    taken
}

/// DISTINCT ON with ORDER BY chooses among the rows that there are before functions of the list
/// multiply them.
fn rows_behind_distinct_on(query: Query) -> Query {
    let Body::Select(select) = &query.body else { return query };
    let Distinct::On(on) = &select.distinct else { return query };
    let gives_rows =
        |expr: &Expr| rewrite::extras_in(expr).iter().any(|&at| matches!(select.extras[at], Extra::Rows(..)));
    let keys = query.order.iter().filter_map(|key| if let Expr::Column(at) = key.expr { Some(at) } else { None });
    let has_windows = select.extras.iter().any(|extra| matches!(extra, Extra::Window(_)));
    if has_windows
        || !select.output.iter().any(gives_rows)
        || on.iter().copied().chain(keys).any(|at| gives_rows(&select.output[at]))
    {
        return query;
    }
    let Query { body, columns, order, limit, with_ties, offset, locks, is_marked, view, barrier } = query;
    let Body::Select(mut inner) = body else {
        return Query { body, columns, order, limit, with_ties, offset, locks, is_marked, view, barrier };
    };
    let width = inner.output.len();
    let mut extras = std::mem::take(&mut inner.extras);
    // Behind its own columns the inner query gives those that the functions and what is around them
    // look at.
    let mut looked_at = Vec::new();
    let mut output: Vec<Expr> = Vec::with_capacity(columns.len());
    for (at, expr) in inner.output.iter_mut().enumerate() {
        let is_shown = at < columns.len();
        if rewrite::extras_in(expr).is_empty() {
            if is_shown {
                output.push(Expr::Column(at));
            }
            continue;
        }
        let mut outer = std::mem::replace(expr, Expr::Const(colibri_types::Datum::Null));
        look_behind(&mut outer, width, &mut looked_at);
        output.push(outer);
    }
    for expr in extras.iter_mut().flat_map(Extra::exprs_mut) {
        look_behind(expr, width, &mut looked_at);
    }
    inner.output.extend(looked_at);
    let inner_width = inner.output.len();
    let mut inner = Query::plain(Body::Select(inner), columns.clone());
    inner.order = order;
    let relation = Relation::new(0, inner_width, Source::Query(Box::new(inner)), "rows".into());
    let outer = Select {
        relations: vec![relation],
        from: Some(crate::bind::logical::From::Relation(0)),
        filter: Vec::new(),
        group: None,
        grouped_rows: Vec::new(),
        extras,
        output,
        distinct: Distinct::No,
    };
    Query { limit, offset, locks, view, ..Query::plain(Body::Select(Box::new(outer)), columns) }
}

/// Puts columns behind the first `width` ones in the place of those, and of aggregates, that an
/// expression looks at.
fn look_behind(expr: &mut Expr, width: usize, looked_at: &mut Vec<Expr>) {
    if let Expr::Column(_) | Expr::Aggregate(_) = expr {
        let place = looked_at.iter().position(|other| rewrite::same(other, expr)).unwrap_or_else(|| {
            looked_at.push(expr.clone());
            looked_at.len() - 1
        });
        *expr = Expr::Column(width + place);
    }
    rewrite::for_each_child_mut(expr, &mut |child| look_behind(child, width, looked_at));
}

/// Whether a key of ORDER BY or GROUP BY is a constant that is no number of a column.
fn is_useless_key(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if !matches!(value.value, ast::Value::Placeholder(_)))
        && ordinal(expr).is_none()
}

/// The names in front of `.*`.
fn parts_of_star(kind: &ast::SelectItemQualifiedWildcardKind) -> Option<Vec<CompactString>> {
    match kind {
        ast::SelectItemQualifiedWildcardKind::ObjectName(name) => {
            Some(super::super::name_parts(name).ok()?.into_iter().map(super::super::fold).collect())
        }
        ast::SelectItemQualifiedWildcardKind::Expr(expr) => {
            let mut expr = expr;
            while let ast::Expr::Nested(inner) = expr {
                expr = inner;
            }
            match expr {
                ast::Expr::Identifier(ident) => Some(vec![super::super::fold(ident)]),
                _ => None,
            }
        }
    }
}
