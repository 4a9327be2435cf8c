//! SELECT: the list, GROUP BY, HAVING, WINDOW.

use std::collections::HashSet;

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, Expr, GroupByExpr, Select, SelectItem};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select> {
        let token = self.expect(K::Select)?;
        let mut select = Self::select_of(self.attached(token));
        if self.eat(K::Distinct) {
            select.distinct = Some(if self.eat(K::On) {
                ast::Distinct::On(self.in_parens(Self::expr)?)
            } else {
                ast::Distinct::Distinct
            });
        } else if self.eat(K::All) {
            select.distinct = Some(ast::Distinct::All);
        }
        let is_empty = self.ends_list();
        if !is_empty || matches!(select.distinct, Some(ast::Distinct::Distinct | ast::Distinct::On(_))) {
            select.projection = self.list(Self::select_item)?;
        }
        if self.is_next(K::Into) {
            select.into = Some(self.target_of_select()?);
        }
        if self.eat(K::From) {
            select.from = self.list(Self::table_with_joins)?;
        }
        if self.eat(K::Where) {
            select.selection = Some(self.expr()?);
        }
        if self.is_next(K::Group) {
            select.group_by = self.group_by()?;
        }
        if self.eat(K::Having) {
            select.having = Some(self.expr()?);
        }
        if self.eat(K::Window) {
            select.named_window = self.list(Self::named_window)?;
            select.window_before_qualify = true;
        }
        Ok(select)
    }

    /// Whether the list of SELECT is empty.
    fn ends_list(&self) -> bool {
        matches!(
            self.kind(),
            Kind::RightParen
                | Kind::Semicolon
                | Kind::End
                | Kind::Key(
                    K::From
                        | K::Into
                        | K::Where
                        | K::Group
                        | K::Having
                        | K::Window
                        | K::Union
                        | K::Intersect
                        | K::Except
                        | K::Order
                        | K::Limit
                        | K::Offset
                        | K::Fetch
                        | K::For
                )
        )
    }

    /// A value of a list, with its name or without; `*`.
    pub(crate) fn select_item(&mut self) -> Result<SelectItem> {
        let token = self.peek();
        if token.kind == Kind::Star {
            self.next();
            return Ok(SelectItem::Wildcard(self.wildcard(token)));
        }
        let mut expr = self.expr()?;
        // Parentheses around `t.*` and `(row).*` mean nothing here.
        while let Expr::Nested(inner) = &mut expr
            && is_star(inner)
        {
            expr = std::mem::replace(&mut **inner, Expr::Value(ast::Value::Null.with_empty_span()));
        }
        // As PostgreSQL does, a name behind all columns is read and means nothing.
        if is_star(&expr) && self.eat(K::As) {
            self.label()?;
        }
        if let Expr::QualifiedWildcard(name, star) = expr {
            let kind = ast::SelectItemQualifiedWildcardKind::ObjectName(name);
            let options = ast::WildcardAdditionalOptions { wildcard_token: star, ..Default::default() };
            return Ok(SelectItem::QualifiedWildcard(kind, options));
        }
        if is_star(&expr) {
            let kind = ast::SelectItemQualifiedWildcardKind::Expr(row_of_star(expr));
            return Ok(SelectItem::QualifiedWildcard(kind, self.wildcard(token)));
        }
        if self.eat(K::As) {
            return Ok(SelectItem::ExprWithAlias { expr, alias: self.label()? });
        }
        let is_label = match self.kind() {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
            Kind::Key(word) => word.is_bare_label(),
            _ => false,
        };
        if is_label {
            Ok(SelectItem::ExprWithAlias { expr, alias: self.label()? })
        } else {
            Ok(SelectItem::UnnamedExpr(expr))
        }
    }

    fn wildcard(&self, token: crate::token::Token) -> ast::WildcardAdditionalOptions {
        ast::WildcardAdditionalOptions { wildcard_token: self.attached(token), ..Default::default() }
    }

    /// `INTO [TEMP] [TABLE] t`
    fn target_of_select(&mut self) -> Result<ast::SelectInto> {
        self.expect(K::Into)?;
        let local = self.eat(K::Local) || self.eat(K::Global);
        let temporary = self.eat(K::Temporary) || self.eat(K::Temp);
        if local && !temporary {
            return Err(self.wrong());
        }
        let unlogged = !temporary && self.eat(K::Unlogged);
        let table = self.eat(K::Table);
        let name = self.object_name()?;
        let idents = name.0.into_iter().filter_map(|part| part.as_ident().cloned()).collect();
        Ok(ast::SelectInto { temporary, unlogged, table, targets: vec![Expr::CompoundIdentifier(idents)] })
    }

    fn group_by(&mut self) -> Result<GroupByExpr> {
        self.expect_all(&[K::Group, K::By])?;
        let token = self.peek();
        let distinct = self.eat(K::Distinct);
        if !distinct {
            self.eat(K::All);
        }
        let items = self.list(Self::group_item)?;
        let items = if distinct { self.distinct_sets(token, items)? } else { items };
        Ok(GroupByExpr::Expressions(items, Vec::new()))
    }

    /// The items of GROUP BY DISTINCT, whose sets of keys are written out if there are several: each
    /// comes once.
    fn distinct_sets(&mut self, token: Token, items: Vec<Expr>) -> Result<Vec<Expr>> {
        let is_plain = |item: &Expr| !matches!(item, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_));
        // One of too many elements is refused later.
        let is_large = |item: &Expr| matches!(item, Expr::Cube(parts) if parts.len() > CUBE_MAX);
        if items.iter().all(is_plain) || items.iter().any(is_large) {
            return Ok(items);
        }
        let mut all: Vec<Vec<Expr>> = vec![Vec::new()];
        for item in items {
            let sets = sets_of(item);
            if all.len() * sets.len() > SETS_MAX {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(self.error_at(token, Error::new(SqlState::TOO_COMPLEX, message)));
            }
            let with = |before: &Vec<Expr>| {
                let before = before.clone();
                sets.iter().map(move |set| before.iter().chain(set).cloned().collect()).collect::<Vec<Vec<Expr>>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        let mut known = HashSet::new();
        all.retain(|set| {
            let mut texts: Vec<String> = set.iter().map(Expr::to_string).collect();
            texts.sort_unstable();
            texts.dedup();
            known.insert(texts)
        });
        Ok(vec![Expr::GroupingSets(all)])
    }

    fn group_item(&mut self) -> Result<Expr> {
        let behind = self.kind_behind(1);
        match self.kind() {
            Kind::LeftParen if behind == Kind::RightParen => {
                self.next();
                self.next();
                Ok(Expr::Tuple(Vec::new()))
            }
            Kind::Key(K::Cube) if behind == Kind::LeftParen => {
                self.next();
                Ok(Expr::Cube(self.in_parens(Self::grouped)?))
            }
            Kind::Key(K::Rollup) if behind == Kind::LeftParen => {
                self.next();
                Ok(Expr::Rollup(self.in_parens(Self::grouped)?))
            }
            Kind::Key(K::Grouping) if behind == Kind::Key(K::Sets) => {
                self.next();
                self.next();
                let token = self.peek();
                let parts = self.in_parens(|parser| parser.nested(Self::group_item))?;
                let mut sets = Vec::new();
                for part in parts {
                    sets.extend(sets_of(part));
                    if sets.len() > SETS_MAX {
                        let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                        return Err(self.error_at(token, Error::new(SqlState::TOO_COMPLEX, message)));
                    }
                }
                Ok(Expr::GroupingSets(sets))
            }
            _ => self.expr(),
        }
    }

    /// An element of CUBE or ROLLUP.
    fn grouped(&mut self) -> Result<Vec<Expr>> {
        match self.kind() {
            Kind::Key(K::Grouping) if self.kind_behind(1) == Kind::Key(K::Sets) => Err(self.wrong()),
            // Here these are names of functions.
            Kind::Key(K::Cube | K::Rollup) => Ok(vec![self.expr()?]),
            _ => Ok(plain_set(self.nested(Self::group_item)?)),
        }
    }
}

/// The most sets of GROUPING SETS, as in PostgreSQL.
const SETS_MAX: usize = 4096;
/// The most elements of a CUBE whose sets are written out.
const CUBE_MAX: usize = 12;

/// The sets that an element of GROUPING SETS stands for: those of ROLLUP and CUBE are written out.
fn sets_of(part: Expr) -> Vec<Vec<Expr>> {
    let of = |parts: &[&Vec<Expr>]| parts.iter().copied().flatten().cloned().collect::<Vec<Expr>>();
    match part {
        Expr::GroupingSets(sets) => sets,
        Expr::Rollup(parts) => {
            let parts: Vec<&Vec<Expr>> = parts.iter().collect();
            (0..=parts.len()).rev().map(|end| of(&parts[..end])).collect()
        }
        Expr::Cube(parts) if parts.len() <= CUBE_MAX => {
            let has = |set: usize, at: usize| set >> (parts.len() - 1 - at) & 1 == 1;
            let in_set = |set| parts.iter().enumerate().filter(move |(at, _)| has(set, *at)).map(|(_, part)| part);
            (0..1 << parts.len()).rev().map(|set| of(&in_set(set).collect::<Vec<_>>())).collect()
        }
        part => vec![plain_set(part)],
    }
}

/// A set that is written as one.
fn plain_set(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::Tuple(exprs) => exprs,
        Expr::Nested(inner) => vec![*inner],
        other => vec![other],
    }
}

/// Whether an expression, in parentheses or not, is `t.*` or `(row).*`.
fn is_star(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_star(inner),
        Expr::QualifiedWildcard(..) => true,
        Expr::CompoundFieldAccess { access_chain, .. } => {
            matches!(access_chain.last(), Some(ast::AccessExpr::Dot(Expr::Wildcard(_))))
        }
        _ => false,
    }
}

/// The row of `(row).*`.
fn row_of_star(expr: Expr) -> Expr {
    match expr {
        Expr::CompoundFieldAccess { root, mut access_chain } => {
            access_chain.pop();
            match access_chain.is_empty() {
                true => *root,
                false => Expr::CompoundFieldAccess { root, access_chain },
            }
        }
        other => other,
    }
}
