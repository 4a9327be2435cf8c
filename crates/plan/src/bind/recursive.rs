//! WITH RECURSIVE: which queries refer to which, and what PostgreSQL refuses of those that refer to
//! themselves.
//!
//! A query that refers to itself is `first term UNION [ALL] term that refers to it`. The first term
//! tells names and types of the columns; while the other one is bound, the query's name stands for
//! the rows that the last round gave.
//!
//! Invariants: a query is bound after those that it refers to, wherever they are written; a
//! reference to a query that is being bound stands once, and only where rows that come later could
//! not have changed what came before.

use std::borrow::Cow;
use std::ops::ControlFlow;

use colibri_types::{ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned, Visit, Visitor};
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::from::rename;
use super::logical::{Body, Column, Query, Recursive, Source};
use super::query::joined;
use super::{Binder, Levels, With, WithSource, fold, whole};

/// A place in a query from which it may not refer to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Barrier {
    /// Of the recursive query with this number; others may be referred to there.
    FirstTerm(usize),
    Subquery,
    OuterJoin,
    Intersect,
    Except,
}

impl Barrier {
    /// As messages say it.
    fn place(self) -> &'static str {
        match self {
            Self::FirstTerm(_) => "its non-recursive term",
            Self::Subquery => "a subquery",
            Self::OuterJoin => "an outer join",
            Self::Intersect => "INTERSECT",
            Self::Except => "EXCEPT",
        }
    }

    /// What refuses a reference to a recursive query behind these, from the outermost inwards: a
    /// query inside an expression stands for itself, otherwise the outermost counts.
    fn that_counts(barriers: &[Self], query: usize) -> Option<Self> {
        if barriers.contains(&Self::Subquery) {
            return Some(Self::Subquery);
        }
        let of_others = |barrier: &Self| matches!(barrier, Self::FirstTerm(of) if *of != query);
        barriers.iter().find(|barrier| !of_others(barrier)).copied()
    }
}

impl Binder<'_> {
    /// Binds something from where the queries around it may not refer to themselves.
    pub(super) fn behind<T>(
        &mut self,
        barrier: impl Into<Option<Barrier>>,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.barriers.len();
        self.barriers.extend(barrier.into());
        let bound = bind(self);
        self.barriers.truncate(before);
        bound
    }

    /// Binds WITH RECURSIVE: each query sees all of them.
    pub(super) fn with_recursive(&mut self, with: &ast::With) -> Result<()> {
        let ctes = &with.cte_tables;
        let refers = references(ctes);
        for number in self.in_order(ctes, &refers)? {
            let cte = &ctes[number];
            if !refers[number].contains(&number) && self.part(cte)? {
                continue;
            }
            let copies_before = self.copies;
            let outermost = std::mem::replace(&mut self.is_outermost, false);
            let bound = self.measured(|binder| {
                if refers[number].contains(&number) { binder.recursive(cte) } else { binder.derived(&cte.query) }
            });
            self.is_outermost = outermost;
            let (query, levels) = bound?;
            self.add_with(cte, query, levels, self.copies - copies_before)?;
        }
        Ok(())
    }

    /// The order in which queries are bound: of those that refer to none that is left, the first
    /// one is next.
    fn in_order(&self, ctes: &[ast::Cte], refers: &[Vec<usize>]) -> Result<Vec<usize>> {
        let mut order: Vec<usize> = (0..ctes.len()).collect();
        for at in 0..order.len() {
            let left = &order[at..];
            let is_next =
                |&number: &usize| !left.iter().any(|other| *other != number && refers[number].contains(other));
            let Some(next) = left.iter().position(is_next) else {
                let error = not_implemented("mutual recursion between WITH items");
                return Err(self.place(ctes[order[at]].alias.name.span, error));
            };
            order.swap(at, at + next);
        }
        Ok(order)
    }

    /// Binds a query that refers to itself. It does not see the names beside it.
    fn recursive(&mut self, cte: &ast::Cte) -> Result<Query> {
        let beside = std::mem::take(&mut self.frame().scopes);
        let with = self.with.len();
        let bound = self.deeper(|binder| binder.recursive_query(cte));
        self.with.truncate(with);
        self.frame().scopes = beside;
        bound
    }

    fn recursive_query(&mut self, cte: &ast::Cte) -> Result<Query> {
        let name = fold(&cte.alias.name);
        let query = stripped(&cte.query)?;
        whole::query(&query)?;
        let (id, place) = (self.new_id(), self.with.len());
        let (barriers, frame) = (self.barriers.len(), self.frames.len());
        let source = WithSource::Working { id, barriers, references: 0 };
        let (columns, levels) = (Vec::new(), Levels::default());
        self.with.push(With { name: name.clone(), columns, source, levels, copies: 0, frame });
        let (all, first, again) = self.at(cte.alias.name.span, terms(&name, &query))?;
        if let Some(clause) = &query.with {
            self.behind(Barrier::Subquery, |binder| binder.with(clause))?;
        }
        self.at(query.body.span(), check_clauses(&query))?;

        let mut first_query =
            self.behind(Barrier::FirstTerm(id), |binder| binder.deeper(|binder| binder.set_expr(first)))?;
        let types: Vec<Type> = first_query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut first_query, &types)?;
        let mut columns = first_query.columns.clone();
        self.at(cte.alias.name.span, rename(&mut columns, cte))?;
        for column in &mut columns {
            column.origin = None;
        }
        self.with[place].columns.clone_from(&columns);
        let mut again_query = self.deeper(|binder| binder.set_expr(again))?;
        self.check_columns(&name, &first_query.columns, &again_query.columns, again.span())?;
        self.retype(&mut again_query, &types)?;
        let terms = Recursive { id, name, all, first: first_query, again: again_query };
        Ok(Query::plain(Body::Recursive(Box::new(terms)), columns))
    }

    /// The term that refers to the query has to give what the first one gives.
    fn check_columns(&mut self, name: &str, first: &[Column], again: &[Column], span: Span) -> Result<()> {
        if first.len() != again.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        for (number, (left, right)) in (1..).zip(first.iter().zip(again)) {
            let ty = self.common_type("UNION", &[left.ty.ty, right.ty.ty], span)?;
            let ty = if left.ty == right.ty && left.ty.ty == ty { left.ty } else { ColumnType::from(ty) };
            if ty != left.ty {
                let message = format!(
                    "recursive query \"{name}\" column {number} has type {} in non-recursive term but type {ty} overall",
                    left.ty
                );
                let error = Error::new(SqlState::TYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type.");
                return Err(self.place(span, error));
            }
            let collation = self.both_collations(left.collation.clone(), right.collation.clone(), span)?;
            let named = |collation: &Collation| collation.name().unwrap_or_else(|| "default".into());
            let (before, after) = (named(&left.collation), named(&collation));
            if before != after {
                let message = format!(
                    "recursive query \"{name}\" column {number} has collation \"{before}\" in non-recursive term but \
                     collation \"{after}\" overall"
                );
                let error = Error::new(SqlState("42P21"), message)
                    .hint("Use the COLLATE clause to set the collation of the non-recursive term.");
                return Err(self.place(span, error));
            }
            self.expect_deterministic(left.ty.ty, &collation, "recursive queries")?;
        }
        Ok(())
    }

    /// What a query that is being bound stands for in FROM: the rows of its last round.
    pub(super) fn working(&mut self, place: usize, span: Span) -> Result<(Vec<Column>, Source)> {
        let with = &mut self.with[place];
        let WithSource::Working { id, barriers, references } = &mut with.source else {
            return Err(Error::internal("a WITH query that is bound has no working rows"));
        };
        let refused = Barrier::that_counts(&self.barriers[*barriers..], *id);
        *references += 1;
        let where_not = match refused {
            Some(barrier) => format!("within {}", barrier.place()),
            None if *references > 1 => "more than once".to_owned(),
            None => {
                let names = with.columns.iter().map(|column| column.name.clone()).collect();
                let source = Source::Working { id: *id, name: with.name.clone(), columns: names };
                return Ok((with.columns.clone(), source));
            }
        };
        let message = format!("recursive reference to query \"{}\" must not appear {where_not}", with.name);
        Err(self.place(span, Error::new(SqlState::BAD_RECURSION, message)))
    }
}

/// A query without parentheses around it; clauses behind them are its own.
fn stripped(query: &ast::Query) -> Result<Cow<'_, ast::Query>> {
    let mut query = Cow::Borrowed(query);
    loop {
        let inner = match &query {
            Cow::Borrowed(outer) => match &*outer.body {
                ast::SetExpr::Query(inner) if outer.with.is_none() => {
                    let is_bare = outer.order_by.is_none() && outer.limit_clause.is_none() && outer.fetch.is_none();
                    if is_bare && outer.locks.is_empty() {
                        Cow::Borrowed(&**inner)
                    } else {
                        Cow::Owned(joined(inner, outer)?)
                    }
                }
                _ => return Ok(query),
            },
            Cow::Owned(outer) => match &*outer.body {
                ast::SetExpr::Query(inner) if outer.with.is_none() => Cow::Owned(joined(inner, outer)?),
                _ => return Ok(query),
            },
        };
        query = inner;
    }
}

/// The two terms of a query that refers to itself, and whether they are joined by UNION ALL.
fn terms<'q>(name: &str, query: &'q ast::Query) -> Result<(bool, &'q ast::SetExpr, &'q ast::SetExpr)> {
    use ast::SetExpr as S;
    let refuse = |what: &str| Err(Error::new(SqlState::BAD_RECURSION, format!("recursive query \"{name}\" {what}")));
    match &*query.body {
        S::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } => {
            let all = match set_quantifier {
                ast::SetQuantifier::All => true,
                ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                _ => return Err(Error::unsupported("set operations BY NAME")),
            };
            Ok((all, left, right))
        }
        S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_) => {
            refuse("must not contain data-modifying statements")
        }
        _ => refuse("does not have the form non-recursive-term UNION [ALL] recursive-term"),
    }
}

/// Clauses behind the two terms, which PostgreSQL does not have.
fn check_clauses(query: &ast::Query) -> Result<()> {
    let (limit, offset) = match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        Some(ast::LimitClause::OffsetCommaLimit { .. }) => (true, true),
        None => (false, false),
    };
    let clauses = [
        (query.order_by.is_some(), "ORDER BY"),
        (offset, "OFFSET"),
        (limit || query.fetch.is_some(), "LIMIT"),
        (!query.locks.is_empty(), "FOR UPDATE/SHARE"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, clause)) => Err(not_implemented(&format!("{clause} in a recursive query"))),
    }
}

/// What PostgreSQL has not either.
fn not_implemented(what: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not implemented"))
}

/// For each query of a WITH, which ones of the same it refers to.
fn references(ctes: &[ast::Cte]) -> Vec<Vec<usize>> {
    let names: Vec<CompactString> = ctes.iter().map(|cte| fold(&cte.alias.name)).collect();
    let of_one = |cte: &ast::Cte| {
        let mut search = Search { names: &names, hidden: Vec::new(), found: Vec::new() };
        let _ = cte.query.visit(&mut search);
        search.found
    };
    ctes.iter().map(of_one).collect()
}

/// A walk through a query for names of WITH queries.
struct Search<'n> {
    names: &'n [CompactString],
    /// For each query around the place at hand, the names that its own WITH has there, and those
    /// that it will have once the query at an address has been walked through.
    hidden: Vec<(Vec<CompactString>, Vec<Later>)>,
    found: Vec<usize>,
}

/// A name that is there once the query at an address has been walked through.
type Later = (usize, CompactString);

fn address(query: &ast::Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Search<'_> {
    fn meet(&mut self, name: &CompactString) {
        if self.hidden.iter().any(|(names, _)| names.contains(name)) {
            return;
        }
        if let Some(number) = self.names.iter().position(|known| known == name)
            && !self.found.contains(&number)
        {
            self.found.push(number);
        }
    }

    /// `TABLE name` in a row of set operations.
    fn tables(&mut self, body: &ast::SetExpr) {
        match body {
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.tables(left);
                self.tables(right);
            }
            ast::SetExpr::Table(table) if table.schema_name.is_none() => {
                if let Some(name) = &table.table_name {
                    self.meet(&fold(&ast::Ident::new(name.as_str())));
                }
            }
            _ => {}
        }
    }
}

impl Visitor for Search<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let (mut names, mut later) = (Vec::new(), Vec::new());
        if let Some(with) = &query.with {
            let named = with.cte_tables.iter().map(|cte| (address(&cte.query), fold(&cte.alias.name)));
            if with.recursive {
                names.extend(named.map(|(_, name)| name));
            } else {
                later.extend(named);
            }
        }
        self.hidden.push((names, later));
        self.tables(&query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.hidden.pop();
        if let Some((names, later)) = self.hidden.last_mut() {
            let walked = address(query);
            names.extend(later.iter().filter(|(at, _)| *at == walked).map(|(_, name)| name.clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
        if let [ast::ObjectNamePart::Identifier(ident)] = &relation.0[..] {
            let name = fold(ident);
            self.meet(&name);
        }
        ControlFlow::Continue(())
    }
}
