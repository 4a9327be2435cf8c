//! GROUP BY with GROUPING SETS, ROLLUP and CUBE, and GROUPING.
//!
//! ```text
//! SELECT a, count(b) FROM t GROUP BY ROLLUP (a)
//!
//! group by a', s:  count(b')
//!   each row for each set:  a' = a or NULL, b' = b, s = the set's number
//!     SELECT a, b FROM t
//! ```
//! The rows of FROM and WHERE become a query of their own, which gives the keys and what the
//! aggregates look at. Each of its rows comes once for each set, and these are grouped by the keys
//! and by the set's number.

use colibri_types::aggregates::ordered;
use colibri_types::functions::GROUPING;
use colibri_types::{Datum, Error, Result, SqlState, Type};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::select::Item;
use crate::bind::expr::Bound;
use crate::bind::logical::{Body, Collation, Column, From, Group, GroupingSets, Query, Relation, Select, Source};
use crate::bind::{Binder, rewrite};
use crate::expr::Expr;
use crate::plan::AggregateCall;

/// The most sets, as in PostgreSQL.
const SETS_MAX: usize = 4096;
/// The most elements of a CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// The places of the arguments of an aggregate with WITHIN GROUP that are no values of rows.
fn direct_args(call: &AggregateCall) -> std::ops::Range<usize> {
    let (name, args) = (call.aggregate.name, call.args.len());
    if ordered::is_hypothetical(name) {
        // As many as values of rows, which stand before them; behind them stands how these are ordered.
        args / 2..args - 1
    } else if ordered::is_ordered_set(name) {
        1..args
    } else {
        args..args
    }
}
/// The most arguments of GROUPING: a bit for each.
const GROUPING_ARGS_MAX: usize = 31;

/// What GROUP BY says.
pub(super) struct GroupBy {
    pub(super) keys: Vec<Expr>,
    /// The sets of keys, by their places, if there are several.
    pub(super) sets: Option<Vec<Vec<usize>>>,
}

impl Binder<'_> {
    /// The sets that the items of GROUP BY say, each with the keys of every item.
    pub(super) fn grouping_sets(&mut self, exprs: &[ast::Expr], items: &[Item]) -> Result<GroupBy> {
        let mut keys = Vec::new();
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for expr in exprs {
            let sets = self.sets_of(expr, items, &mut keys)?;
            self.check_count(all.len() * sets.len(), expr.span())?;
            let with = |before: &Vec<usize>| {
                let before = before.clone();
                sets.iter().map(move |set| joined(before.iter().chain(set)))
            };
            all = all.iter().flat_map(with).collect();
        }
        match &mut all[..] {
            // All keys are in the only set.
            [_] => Ok(GroupBy { keys, sets: None }),
            _ => Ok(GroupBy { keys, sets: Some(all) }),
        }
    }

    fn check_count(&self, sets: usize, span: Span) -> Result<()> {
        if sets <= SETS_MAX {
            return Ok(());
        }
        let message = format!("too many grouping sets present (maximum {SETS_MAX})");
        Err(self.place(span, Error::new(SqlState::TOO_COMPLEX, message)))
    }

    fn sets_of(&mut self, expr: &ast::Expr, items: &[Item], keys: &mut Vec<Expr>) -> Result<Vec<Vec<usize>>> {
        let mut parts = |binder: &mut Self, parts: &[Vec<ast::Expr>]| {
            parts.iter().map(|part| binder.set_of(part, items, keys)).collect::<Result<Vec<Vec<usize>>>>()
        };
        match expr {
            ast::Expr::Rollup(of) => {
                let of = parts(self, of)?;
                Ok((0..=of.len()).rev().map(|end| joined(of[..end].iter().flatten())).collect())
            }
            ast::Expr::Cube(of) if of.len() > CUBE_MAX => {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                Err(self.place(expr.span(), Error::new(SqlState::TOO_MANY_COLUMNS, message)))
            }
            ast::Expr::Cube(of) => {
                let of = parts(self, of)?;
                let has = |set: usize, at: usize| set >> (of.len() - 1 - at) & 1 == 1;
                let of_set = |set| joined((0..of.len()).filter(|&at| has(set, at)).flat_map(|at| &of[at]));
                Ok((0..1 << of.len()).rev().map(of_set).collect())
            }
            // Sets inside of sets have been written out. What is left is a CUBE of too many elements.
            ast::Expr::GroupingSets(of) => match of.iter().flatten().find(|part| matches!(part, ast::Expr::Cube(_))) {
                Some(cube) => self.sets_of(cube, items, keys),
                None => parts(self, of),
            },
            expr => Ok(vec![self.set_of(std::slice::from_ref(expr), items, keys)?]),
        }
    }

    fn set_of(&mut self, exprs: &[ast::Expr], items: &[Item], keys: &mut Vec<Expr>) -> Result<Vec<usize>> {
        let mut set = Vec::new();
        for expr in exprs {
            match expr {
                ast::Expr::Tuple(inner) => set.extend(self.set_of(inner, items, keys)?),
                expr => set.push(self.group_key(expr, items, keys)?),
            }
        }
        Ok(set)
    }

    /// A call of GROUPING.
    pub(in crate::bind) fn grouping(&mut self, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        if args.len() > GROUPING_ARGS_MAX {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(self.place(span, Error::new(SqlState("54023"), message)));
        }
        let scope = self.frames.last_mut().and_then(|frame| frame.scopes.last_mut());
        let (place, groups) = scope.map_or(("here", false), |scope| match scope.in_call {
            true => ("aggregate functions", false),
            false => (scope.no_calls, scope.calls.is_some()),
        });
        if !groups {
            let message = format!("grouping operations are not allowed in {place}");
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        }
        let mut exprs = Vec::with_capacity(args.len());
        for arg in args {
            exprs.push(self.expr(arg)?.expr);
        }
        self.scope().has_groupings = true;
        Ok(Bound::new(Expr::Call { function: &GROUPING, args: exprs }, Type::Int4))
    }

    /// Rows of FROM and WHERE for each set of keys, and the groups of these. `calls` are over the wide
    /// row.
    pub(super) fn grouped_by_sets(
        &mut self,
        (relations, from, filter): (Vec<Relation>, Option<From>, Vec<Expr>),
        (keys, sets): (Vec<Expr>, &[Vec<usize>]),
        mut calls: Vec<AggregateCall>,
        having: Option<Expr>,
    ) -> Result<Select> {
        if keys.iter().any(|key| !rewrite::extras_in(key).is_empty()) {
            return Err(Error::unsupported("set-returning functions in GROUPING SETS, ROLLUP or CUBE"));
        }
        let mut looked_at: Vec<usize> = Vec::new();
        let exprs_of = |call: &mut AggregateCall, visit: &mut dyn FnMut(&mut Expr)| {
            call.args.iter_mut().chain(&mut call.filter).for_each(&mut *visit);
            call.order.iter_mut().for_each(|key| visit(&mut key.expr));
        };
        for call in &mut calls {
            exprs_of(call, &mut |expr| rewrite::for_each_column(expr, &mut |column| looked_at.push(column)));
        }
        looked_at.sort_unstable();
        looked_at.dedup();
        let number = keys.len() + looked_at.len();
        let place = |column: usize| keys.len() + looked_at.binary_search(&column).unwrap_or_default();
        for call in &mut calls {
            let places = direct_args(call);
            let mut direct = call.args[places.clone()].to_vec();
            exprs_of(call, &mut |expr| rewrite::map_columns(expr, &place));
            // Bug: direct arguments were those of the rows. Consequence: rank(a) of a set without a was
            // that of any row's a. Fix: like all else beside an aggregate they see the keys of the set.
            for arg in &mut direct {
                rewrite::Grouping { keys: &keys, binder: self }.rewrite(arg)?;
            }
            call.args.splice(places, direct);
        }
        let column = |ty: colibri_types::ColumnType| Column {
            name: super::names::UNNAMED.into(),
            ty,
            origin: None,
            collation: Collation::Default,
        };
        let types: Vec<_> = looked_at.iter().map(|&column| self.type_of_column(column)).collect();
        // Nothing asks for the types of keys behind here: what looks at them was bound before.
        let columns = keys.iter().map(|_| Type::Unknown.into()).chain(types).map(column);
        let mut output = keys.clone();
        output.extend(looked_at.iter().map(|&column| Expr::Column(column)));
        let select = Select {
            relations,
            from,
            filter,
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output,
            distinct: crate::bind::logical::Distinct::No,
        };
        let columns: Vec<Column> = columns.collect();
        let input = Query::plain(Body::Select(Box::new(select)), columns.clone());
        let masks = sets.iter().map(|set| (0..keys.len()).map(|key| set.contains(&key)).collect()).collect();
        let columns = columns.into_iter().chain([column(Type::Int8.into())]).collect();
        let rows = Query::plain(Body::GroupingSets(Box::new(GroupingSets { input, sets: masks })), columns);
        let relation = Relation::new(0, number + 1, Source::Query(Box::new(rows)), "grouping sets".into());
        let always = sets.iter().enumerate().filter(|(_, set)| set.is_empty());
        let always = always.map(|(number, _)| {
            let nulls = keys.iter().map(|_| Datum::Null);
            nulls.chain([Datum::Int(number as i64)]).collect()
        });
        let group = Group {
            keys: (0..keys.len()).chain([number]).map(Expr::Column).collect(),
            calls,
            always: always.collect(),
            having,
        };
        Ok(Select {
            relations: vec![relation],
            from: Some(From::Relation(0)),
            filter: Vec::new(),
            group: Some(group),
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output: Vec::new(),
            distinct: crate::bind::logical::Distinct::No,
        })
    }

    /// The type of a column of the wide row.
    fn type_of_column(&mut self, place: usize) -> colibri_types::ColumnType {
        let of_table =
            |table: &crate::bind::ScopeTable| table.columns.get(place.checked_sub(table.base)?).map(|one| one.ty);
        self.scope().tables.iter().find_map(of_table).unwrap_or_else(|| Type::Unknown.into())
    }
}

/// Puts what each GROUPING gives in its place, in an expression over the group's row of so many keys.
pub(super) fn resolve_groupings(keys: usize, sets: Option<&[Vec<usize>]>, expr: &mut Expr) -> Result<()> {
    let args = match expr {
        Expr::Call { function, args } if std::ptr::eq(*function, &GROUPING) => args,
        _ => {
            let mut result = Ok(());
            rewrite::for_each_child_mut(expr, &mut |child| {
                if result.is_ok() {
                    result = resolve_groupings(keys, sets, child);
                }
            });
            return result;
        }
    };
    let place = |arg: &Expr| if let Expr::Column(key) = arg { Some(*key) } else { None };
    let Some(places) = args.iter().map(place).collect::<Option<Vec<usize>>>() else {
        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
        return Err(Error::new(SqlState::GROUPING_ERROR, message));
    };
    let mask = |set: &[usize]| {
        let left_out = places.iter().map(|place| i64::from(!set.contains(place)));
        Expr::Const(Datum::Int(left_out.fold(0, |mask, bit| mask << 1 | bit)))
    };
    *expr = match sets {
        None => Expr::Const(Datum::Int(0)),
        Some(sets) => {
            let is_set = |number: usize| Expr::equals(Expr::Column(keys), Expr::Const(Datum::Int(number as i64)));
            let arms = sets.iter().enumerate().map(|(number, set)| (is_set(number), mask(set))).collect();
            Expr::Case { arms, otherwise: Box::new(Expr::Const(Datum::Null)) }
        }
    };
    Ok(())
}

/// Keys in order, each once.
fn joined<'k>(keys: impl Iterator<Item = &'k usize>) -> Vec<usize> {
    let mut set: Vec<usize> = Vec::new();
    for &key in keys {
        if !set.contains(&key) {
            set.push(key);
        }
    }
    set
}
