//! JOIN: its sides, its condition, and the columns that USING and NATURAL merge.

use colibri_types::{Error, Result, SqlState, cast::CastContext};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::{From, Join, Relation};
use super::recursive::Barrier;
use super::{Binder, Merged, ScopeTable, fold, name_parts, rewrite};
use crate::expr::{CompareOp, Expr};

/// Where in the scope the two sides of a join are.
struct Sides {
    first: usize,
    first_merged: usize,
    middle: usize,
    middle_merged: usize,
}

impl Binder<'_> {
    pub(super) fn joins(&mut self, table: &ast::TableWithJoins, relations: &mut Vec<Relation>) -> Result<From> {
        let first = self.scope().tables.len();
        let first_merged = self.scope().merged.len();
        // A RIGHT or FULL join further on makes NULLs of all that stands before it.
        let barrier = |from: usize, kinds: &[Join]| {
            let kind_of = |join: &ast::Join| self::kind(&join.join_operator).ok().map(|(kind, _)| kind);
            let is_own = from > 0 && kind_of(&table.joins[from - 1]).is_some_and(|kind| kinds.contains(&kind));
            let later = table.joins[from..].iter().filter_map(kind_of);
            let is_nullable = is_own || later.into_iter().any(|kind| matches!(kind, Join::Right | Join::Full));
            is_nullable.then_some(Barrier::OuterJoin)
        };
        let mut left = self.behind(barrier(0, &[]), |binder| binder.factor(&table.relation, relations))?;
        for (number, join) in (1..).zip(&table.joins) {
            let middle = self.scope().tables.len();
            let middle_merged = self.scope().merged.len();
            let nullable = barrier(number, &[Join::Left, Join::Full]);
            let right = self.behind(nullable, |binder| binder.factor(&join.relation, relations))?;
            let (kind, constraint) = self::kind(&join.join_operator)?;
            // Rows of these may be missing beside the others'.
            let tables = &mut self.scope().tables;
            if matches!(kind, Join::Right | Join::Full) {
                tables[first..middle].iter_mut().for_each(|table| table.is_nullable = true);
            }
            if matches!(kind, Join::Left | Join::Full) {
                tables[middle..].iter_mut().for_each(|table| table.is_nullable = true);
            }
            if matches!(kind, Join::Right | Join::Full) {
                self.refuse_lateral(&left, &right, relations, join.relation.span())?;
            }
            let sides = Sides { first, first_merged, middle, middle_merged };
            let on = self.constraint(kind, constraint, &sides, join.relation.span())?;
            left = From::Join { kind, left: Box::new(left), right: Box::new(right), on };
        }
        Ok(left)
    }

    /// The side of an outer join whose rows all stay may not depend on the other side's.
    fn refuse_lateral(&self, left: &From, right: &From, relations: &[Relation], span: Span) -> Result<()> {
        let mut taken = Vec::new();
        right.for_each_relation(&mut |index| {
            for expr in relations[index].source.taken() {
                rewrite::for_each_column(expr, &mut |column| taken.push(column));
            }
        });
        let mut result = Ok(());
        left.for_each_relation(&mut |index| {
            let relation = &relations[index];
            if result.is_ok()
                && taken.iter().any(|column| (relation.base..relation.base + relation.width).contains(column))
            {
                let message = format!("invalid reference to FROM-clause entry for table \"{}\"", relation.name);
                let detail = "The combining JOIN type must be INNER or LEFT for a LATERAL reference.";
                let error = Error::new(SqlState::BAD_COLUMN_REFERENCE, message).detail(detail.to_owned());
                result = Err(self.place(span, error));
            }
        });
        result
    }

    fn constraint(
        &mut self,
        kind: Join,
        constraint: Option<&ast::JoinConstraint>,
        sides: &Sides,
        span: Span,
    ) -> Result<Vec<Expr>> {
        match constraint {
            None => Ok(Vec::new()),
            Some(ast::JoinConstraint::None) => {
                Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "a join needs ON, USING or NATURAL")))
            }
            Some(ast::JoinConstraint::On(condition)) => {
                // Only the two sides are in sight.
                let tables = self.scope().tables.drain(..sides.first).collect::<Vec<_>>();
                let merged = self.scope().merged.drain(..sides.first_merged).collect::<Vec<_>>();
                let no_calls = std::mem::replace(&mut self.scope().no_calls, "JOIN conditions");
                let bound = self.condition(condition, "JOIN/ON");
                let scope = self.scope();
                scope.no_calls = no_calls;
                scope.tables.splice(..0, tables);
                scope.merged.splice(..0, merged);
                Ok(super::rewrite::conjuncts(bound?))
            }
            Some(ast::JoinConstraint::Using(names)) => {
                let mut columns = Vec::with_capacity(names.len());
                let mut alias = None;
                for name in names {
                    let ident = *name_parts(name)?.last().expect("a name has parts");
                    match ident.value.strip_prefix(colibri_syntax::USING_ALIAS_MARK) {
                        Some(name) => alias = Some((CompactString::from(name), ident.span)),
                        None => columns.push((fold(ident), ident.span)),
                    }
                }
                let conditions = self.merge(kind, &columns, sides)?;
                if let Some((alias, span)) = alias {
                    self.add_using_alias(&alias, &columns, span)?;
                }
                Ok(conditions)
            }
            Some(ast::JoinConstraint::Natural) => {
                let names = self.common_columns(sides);
                self.note_common(span, &names);
                let columns: Vec<_> = names.into_iter().map(|name| (name, span)).collect();
                self.merge(kind, &columns, sides)
            }
        }
    }

    fn common_columns(&mut self, sides: &Sides) -> Vec<CompactString> {
        let scope = self.scope();
        let names = |tables: &[ScopeTable], merged: &[Merged]| {
            let mut names: Vec<CompactString> = merged.iter().map(|merged| merged.name.clone()).collect();
            for table in tables.iter().filter(|table| table.visible) {
                for (column, hidden) in table.columns.iter().zip(&table.hidden) {
                    if !hidden && !names.contains(&column.name) {
                        names.push(column.name.clone());
                    }
                }
            }
            names
        };
        let left =
            names(&scope.tables[sides.first..sides.middle], &scope.merged[sides.first_merged..sides.middle_merged]);
        let right = names(&scope.tables[sides.middle..], &scope.merged[sides.middle_merged..]);
        left.into_iter().filter(|name| right.contains(name)).collect()
    }

    /// Joins columns of the same name, which become one.
    fn merge(&mut self, kind: Join, columns: &[(CompactString, Span)], sides: &Sides) -> Result<Vec<Expr>> {
        let mut conditions = Vec::with_capacity(columns.len());
        let mut new = Vec::with_capacity(columns.len());
        for (index, (name, span)) in columns.iter().enumerate() {
            if columns[..index].iter().any(|(other, _)| other == name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(self.place(*span, Error::new(SqlState::DUPLICATE_COLUMN, message)));
            }
            let left = self.side_column(name, sides.first..sides.middle, sides.first_merged..sides.middle_merged);
            let left = self.at(*span, left.and_then(|found| found.ok_or_else(|| not_in_side(name, "left"))))?;
            let (tables, merged) = (self.scope().tables.len(), self.scope().merged.len());
            let right = self.side_column(name, sides.middle..tables, sides.middle_merged..merged);
            let right = self.at(*span, right.and_then(|found| found.ok_or_else(|| not_in_side(name, "right"))))?;
            let (left_bound, right_bound) =
                (Bound::new(left.expr.clone(), left.ty), Bound::new(right.expr.clone(), right.ty));
            if colibri_types::resolve::common_type(&[left.ty, right.ty]).is_none() {
                let message = format!("JOIN/USING types {} and {} cannot be matched", left.ty, right.ty);
                return Err(self.place(*span, Error::new(SqlState::TYPE_MISMATCH, message)));
            }
            let both = self.collation_of_both(&left.expr, &right.expr)?;
            self.collation = Some(both.clone());
            let compared = self.comparable("=", left_bound.clone(), *span, right_bound.clone(), *span);
            self.collation = None;
            let (left_expr, right_expr) = compared?;
            conditions.push(Expr::Compare {
                op: CompareOp::Eq,
                left: Box::new(left_expr),
                right: Box::new(right_expr),
            });
            let ty = self.common_type("JOIN/USING", &[left.ty, right.ty], *span)?;
            let left_expr = self.coerce(left_bound, ty.into(), CastContext::Implicit, *span)?;
            let right_expr = self.coerce(right_bound, ty.into(), CastContext::Implicit, *span)?;
            let expr = match kind {
                Join::Inner | Join::InnerInOrder | Join::Left | Join::Semi | Join::Anti => left_expr,
                Join::Right => right_expr,
                Join::Full => Expr::Coalesce(vec![left_expr, right_expr]),
            };
            let parts = left.parts.iter().chain(&right.parts).copied().collect();
            new.push(Merged { name: name.clone(), expr, ty, parts });
        }
        let scope = self.scope();
        scope.merged.retain(|old| !new.iter().any(|new| old.parts.iter().all(|part| new.parts.contains(part))));
        scope.merged.extend(new);
        Ok(conditions)
    }

    /// A name of the columns that USING has just merged. The tables keep theirs, and the columns
    /// are found without any as well.
    fn add_using_alias(&mut self, alias: &CompactString, columns: &[(CompactString, Span)], span: Span) -> Result<()> {
        let scope = self.scope();
        if scope.tables.iter().any(|table| table.visible && table.name == *alias) {
            let message = format!("table name \"{alias}\" specified more than once");
            return Err(self.place(span, Error::new(SqlState::DUPLICATE_ALIAS, message)));
        }
        let merged = scope.merged[scope.merged.len() - columns.len()..].to_vec();
        for Merged { name, expr, ty, parts } in merged {
            let collation = super::scope::scope_collation(self.frame(), &expr);
            let column = super::logical::Column { name, ty: ty.into(), origin: None, collation };
            let computed = (!matches!(&expr, Expr::Column(place) if *place == parts[0])).then_some(expr);
            self.scope().tables.push(ScopeTable {
                name: alias.clone(),
                schema: None,
                base: parts[0],
                columns: vec![column],
                hidden: vec![false],
                visible: true,
                oid: None,
                marker: None,
                row_name: CompactString::default(),
                is_scalar: false,
                is_nullable: false,
                computed,
                read: None,
            });
        }
        Ok(())
    }

    fn side_column(
        &mut self,
        name: &str,
        tables: std::ops::Range<usize>,
        merged: std::ops::Range<usize>,
    ) -> Result<Option<Merged>> {
        let scope = self.scope();
        let mut found: Option<Merged> = scope.merged[merged].iter().find(|merged| merged.name == name).cloned();
        let covered: Vec<usize> = found.iter().flat_map(|found| found.parts.clone()).collect();
        for table in scope.tables[tables].iter().filter(|table| table.visible) {
            for (index, column) in table.columns.iter().enumerate() {
                let place = table.base + index;
                if table.hidden[index] || column.name != name || covered.contains(&place) {
                    continue;
                }
                if found.is_some() {
                    let message = format!("common column name \"{name}\" appears more than once in one side");
                    return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                table.reads(index);
                found =
                    Some(Merged { name: name.into(), expr: Expr::Column(place), ty: column.ty.ty, parts: vec![place] });
            }
        }
        Ok(found)
    }
}

fn not_in_side(name: &str, side: &str) -> Error {
    let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
    Error::new(SqlState::NO_SUCH_COLUMN, message)
}

/// How a join joins, and by what.
fn kind(operator: &ast::JoinOperator) -> Result<(Join, Option<&ast::JoinConstraint>)> {
    use ast::JoinOperator as J;
    Ok(match operator {
        J::Join(on) | J::Inner(on) => (Join::Inner, Some(on)),
        J::CrossJoin(_) => (Join::Inner, None),
        J::Left(on) | J::LeftOuter(on) => (Join::Left, Some(on)),
        J::Right(on) | J::RightOuter(on) => (Join::Right, Some(on)),
        J::FullOuter(on) => (Join::Full, Some(on)),
        _ => return Err(Error::unsupported("this kind of join")),
    })
}
