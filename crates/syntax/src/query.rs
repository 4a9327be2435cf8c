//! Queries: WITH, set operations, ORDER BY, LIMIT and locks.
//!
//! `TABLE t` is `SELECT * FROM t` in the tree. What the tree has no place for is kept in marks that
//! only the binder knows:
//!
//! | written | in the tree |
//! | --- | --- |
//! | `FOR UPDATE OF a, b` | `OF mark.a.b` |
//! | `FOR NO KEY UPDATE`, `FOR KEY SHARE OF a` | FOR UPDATE `OF mark`, FOR SHARE `OF mark.a` |

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, LimitClause, ObjectName, ObjectNamePart, Query, Select, SelectFlavor, SetExpr,
    SetOperator, SetQuantifier, TableFactor, TableWithJoins,
};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::{KEY_LOCK_MARK, LOCK_MARK};

mod from;
mod search;
mod select;

/// UNION and EXCEPT bind less closely than INTERSECT.
const UNION: u8 = 1;
const INTERSECT: u8 = 2;

impl Parser<'_> {
    /// A query that is nothing but this.
    pub(crate) fn query_of(body: SetExpr) -> Query {
        Query {
            with: None,
            body: Box::new(body),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        }
    }

    /// A query, without parentheses around it or with.
    pub(crate) fn query(&mut self) -> Result<Box<Query>> {
        self.nested(|parser| {
            let with = parser.with()?;
            let body = parser.set_expr(0)?;
            parser.tail(with, body)
        })
    }

    /// A query that begins with one in parentheses, which is read.
    pub(crate) fn rest_of_query(&mut self, first: Box<Query>, levels: usize) -> Result<Box<Query>> {
        let wrap = |query, _| Box::new(Self::query_of(SetExpr::Query(query)));
        let first = SetExpr::Query((0..levels).fold(first, wrap));
        let body = self.set_operations(first, 0)?;
        self.tail(None, body)
    }

    /// Whether what comes next makes a larger query of one in parentheses.
    pub(crate) fn continues_query(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Key(K::Union | K::Intersect | K::Except | K::Order | K::Limit | K::Offset | K::Fetch | K::For)
        )
    }

    /// ORDER BY, LIMIT and locks behind a query.
    fn tail(&mut self, with: Option<ast::With>, body: SetExpr) -> Result<Box<Query>> {
        let mut query = Self::query_of(body);
        query.with = with;
        if self.is_next(K::Order) {
            let kind = ast::OrderByKind::Expressions(self.order_by_list()?);
            query.order_by = Some(ast::OrderBy { kind, interpolate: None });
        }
        self.limits(&mut query)?;
        if self.is_lock_next() {
            while self.is_lock_next() {
                query.locks.push(self.lock()?);
            }
            if query.limit_clause.is_none() && query.fetch.is_none() {
                self.limits(&mut query)?;
            }
        } else if self.eat_all(&[K::For, K::Read, K::Only]) {
            // It says that the query does not lock.
        }
        Ok(Box::new(query))
    }

    /// A list of WITH, if it comes next.
    pub(crate) fn with(&mut self) -> Result<Option<ast::With>> {
        if !self.is_next(K::With) {
            return Ok(None);
        }
        let token = self.next();
        let recursive = self.eat(K::Recursive);
        let cte_tables = self.list(|parser| parser.with_query(recursive))?;
        Ok(Some(ast::With { with_token: self.attached(token), recursive, cte_tables }))
    }

    fn with_query(&mut self, recursive: bool) -> Result<ast::Cte> {
        let name = self.name()?;
        let names = self.maybe_in_parens(Self::name)?;
        let columns = names.into_iter().map(|name| ast::TableAliasColumnDef { name, data_type: None }).collect();
        self.expect(K::As)?;
        let materialized = match self.kind() {
            Kind::Key(K::Materialized) => Some(ast::CteAsMaterialized::Materialized),
            Kind::Key(K::Not) => Some(ast::CteAsMaterialized::NotMaterialized),
            _ => None,
        };
        if materialized == Some(ast::CteAsMaterialized::NotMaterialized) {
            self.next();
        }
        if materialized.is_some() {
            self.expect(K::Materialized)?;
        }
        self.expect_kind(Kind::LeftParen)?;
        let query = self.nested(Self::query_or_change)?;
        let close = self.expect_kind(Kind::RightParen)?;
        let mut cte = ast::Cte {
            alias: ast::TableAlias { explicit: false, name, columns, at: None },
            query,
            from: None,
            materialized,
            closing_paren_token: self.attached(close),
        };
        self.search_and_cycle(&mut cte, recursive)?;
        Ok(cte)
    }

    /// A query, or a statement that changes rows.
    pub(crate) fn query_or_change(&mut self) -> Result<Box<Query>> {
        let with = self.with()?;
        let body = match self.kind() {
            Kind::Key(K::Insert) => SetExpr::Insert(self.insert()?),
            Kind::Key(K::Update) => SetExpr::Update(self.update()?),
            Kind::Key(K::Delete) => SetExpr::Delete(self.delete()?),
            Kind::Key(K::Merge) => SetExpr::Merge(self.merge()?),
            _ => {
                let body = self.set_expr(0)?;
                return self.tail(with, body);
            }
        };
        let mut query = Self::query_of(body);
        query.with = with;
        Ok(Box::new(query))
    }

    fn set_expr(&mut self, least: u8) -> Result<SetExpr> {
        let first = match self.kind() {
            Kind::Key(K::Select) => SetExpr::Select(Box::new(self.select()?)),
            Kind::Key(K::Values) => self.values()?,
            Kind::Key(K::Table) => self.table_query()?,
            Kind::LeftParen => {
                self.next();
                let query = self.query()?;
                self.expect_kind(Kind::RightParen)?;
                SetExpr::Query(query)
            }
            _ => return Err(self.wrong()),
        };
        self.set_operations(first, least)
    }

    fn set_operations(&mut self, mut left: SetExpr, least: u8) -> Result<SetExpr> {
        loop {
            let (op, level) = match self.kind() {
                Kind::Key(K::Union) => (SetOperator::Union, UNION),
                Kind::Key(K::Except) => (SetOperator::Except, UNION),
                Kind::Key(K::Intersect) => (SetOperator::Intersect, INTERSECT),
                _ => return Ok(left),
            };
            if level < least {
                return Ok(left);
            }
            self.next();
            let set_quantifier = match self.kind() {
                Kind::Key(K::All) => SetQuantifier::All,
                Kind::Key(K::Distinct) => SetQuantifier::Distinct,
                _ => SetQuantifier::None,
            };
            if set_quantifier != SetQuantifier::None {
                self.next();
            }
            let right = Box::new(self.nested(|parser| parser.set_expr(level + 1))?);
            left = SetExpr::SetOperation { left: Box::new(left), op, set_quantifier, right };
        }
    }

    pub(crate) fn values(&mut self) -> Result<SetExpr> {
        self.expect(K::Values)?;
        let rows = self.list(|parser| {
            let opening = parser.expect_kind(Kind::LeftParen)?;
            let content = parser.list(Self::expr)?;
            let closing = parser.expect_kind(Kind::RightParen)?;
            let (opening_token, closing_token) = (parser.attached(opening), parser.attached(closing));
            Ok(ast::Parens { opening_token, content, closing_token })
        })?;
        Ok(SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows }))
    }

    /// `TABLE t`
    fn table_query(&mut self) -> Result<SetExpr> {
        let token = self.expect(K::Table)?;
        let only = self.is_next(K::Only);
        let relation = Self::with_only(Self::table_of(self.relation_name()?, None), only);
        let mut select = Self::select_of(self.attached(token));
        let wildcard = ast::WildcardAdditionalOptions { wildcard_token: self.attached(token), ..Default::default() };
        select.projection.push(ast::SelectItem::Wildcard(wildcard));
        select.from.push(TableWithJoins { relation, joins: Vec::new() });
        Ok(SetExpr::Select(Box::new(select)))
    }

    /// A SELECT of nothing.
    pub(crate) fn select_of(select_token: ast::helpers::attached_token::AttachedToken) -> Select {
        Select {
            select_token,
            optimizer_hints: Vec::new(),
            distinct: None,
            select_modifiers: None,
            top: None,
            top_before_distinct: false,
            projection: Vec::new(),
            exclude: None,
            into: None,
            from: Vec::new(),
            lateral_views: Vec::new(),
            prewhere: None,
            selection: None,
            connect_by: Vec::new(),
            group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
            cluster_by: Vec::new(),
            distribute_by: Vec::new(),
            sort_by: Vec::new(),
            having: None,
            named_window: Vec::new(),
            qualify: None,
            window_before_qualify: false,
            value_table_mode: None,
            flavor: SelectFlavor::Standard,
        }
    }

    /// `ORDER BY …`
    pub(crate) fn order_by_list(&mut self) -> Result<Vec<ast::OrderByExpr>> {
        self.expect_all(&[K::Order, K::By])?;
        self.list(Self::order_by)
    }

    fn order_by(&mut self) -> Result<ast::OrderByExpr> {
        let expr = self.expr()?;
        let token = self.peek();
        let sort = if self.eat(K::Using) {
            let name = if self.eat(K::Operator) {
                self.expect_kind(Kind::LeftParen)?;
                while Self::is_column_name(self.kind()) {
                    self.name()?;
                    self.expect_kind(Kind::Period)?;
                }
                let name = self.operator_symbol()?;
                self.expect_kind(Kind::RightParen)?;
                name
            } else {
                self.operator_symbol()?
            };
            let span = token.span();
            let name = Ident { value: name, quote_style: None, span };
            Some(ast::OrderBySort::Using(ObjectName(vec![ObjectNamePart::Identifier(name)])))
        } else {
            self.direction()
        };
        Ok(ast::OrderByExpr { expr, options: self.order_options(sort)?, with_fill: None })
    }

    pub(crate) fn direction(&mut self) -> Option<ast::OrderBySort> {
        if self.eat(K::Asc) {
            Some(ast::OrderBySort::Asc)
        } else if self.eat(K::Desc) {
            Some(ast::OrderBySort::Desc)
        } else {
            None
        }
    }

    pub(crate) fn order_options(&mut self, sort: Option<ast::OrderBySort>) -> Result<ast::OrderByOptions> {
        let nulls_first = if self.is_next(K::Nulls) && matches!(self.kind_behind(1), Kind::Key(K::First | K::Last)) {
            self.next();
            Some(self.next().kind == Kind::Key(K::First))
        } else {
            None
        };
        Ok(ast::OrderByOptions { sort, nulls_first })
    }

    /// LIMIT, OFFSET and FETCH, in any order, each once.
    fn limits(&mut self, query: &mut Query) -> Result<()> {
        let (mut limit, mut offset, mut has_limit) = (None, None, false);
        loop {
            let token = self.peek();
            match token.kind {
                Kind::Key(K::Limit) if !has_limit => {
                    self.next();
                    has_limit = true;
                    limit = if self.eat(K::All) { None } else { Some(self.expr()?) };
                    if self.kind() == Kind::Comma {
                        let error = Error::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported");
                        return Err(self.error_at(token, error.hint("Use separate LIMIT and OFFSET clauses.")));
                    }
                }
                Kind::Key(K::Fetch) if !has_limit => {
                    self.next();
                    has_limit = true;
                    limit = self.fetch(query)?;
                }
                Kind::Key(K::Offset) if offset.is_none() => {
                    self.next();
                    let value = self.expr()?;
                    let rows = match self.kind() {
                        Kind::Key(K::Row) => ast::OffsetRows::Row,
                        Kind::Key(K::Rows) => ast::OffsetRows::Rows,
                        _ => ast::OffsetRows::None,
                    };
                    if rows != ast::OffsetRows::None {
                        self.next();
                    }
                    offset = Some(ast::Offset { value, rows });
                }
                Kind::Key(K::Limit | K::Fetch | K::Offset) => return Err(self.wrong()),
                _ => break,
            }
        }
        if limit.is_some() || offset.is_some() {
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
        }
        Ok(())
    }

    /// What follows FETCH; gives the expression if it is what LIMIT would take.
    fn fetch(&mut self, query: &mut Query) -> Result<Option<Expr>> {
        if !self.eat(K::First) {
            self.expect(K::Next)?;
        }
        let quantity = match self.kind() {
            Kind::Key(K::Row | K::Rows) => None,
            Kind::Plus | Kind::Minus => {
                let op =
                    if self.next().kind == Kind::Minus { ast::UnaryOperator::Minus } else { ast::UnaryOperator::Plus };
                let number = matches!(self.kind(), Kind::Integer | Kind::Decimal);
                if !number {
                    return Err(self.wrong());
                }
                Some(Expr::UnaryOp { op, expr: Box::new(self.primary_expr()?) })
            }
            _ => Some(self.primary_expr()?),
        };
        if !self.eat(K::Row) {
            self.expect(K::Rows)?;
        }
        let with_ties = self.eat_all(&[K::With, K::Ties]);
        if !with_ties {
            self.expect(K::Only)?;
        }
        match quantity {
            Some(quantity) if !with_ties && !matches!(quantity, Expr::Value(_)) => Ok(Some(quantity)),
            quantity => {
                query.fetch = Some(ast::Fetch { with_ties, percent: false, quantity });
                Ok(None)
            }
        }
    }

    fn is_lock_next(&self) -> bool {
        self.is_next(K::For) && matches!(self.kind_behind(1), Kind::Key(K::Update | K::Share | K::No | K::Key))
    }

    /// FOR UPDATE and its like.
    fn lock(&mut self) -> Result<ast::LockClause> {
        let token = self.expect(K::For)?;
        let of_keys = self.eat_all(&[K::No, K::Key]) || self.eat(K::Key);
        let lock_type = if self.eat(K::Update) { ast::LockType::Update } else { ast::LockType::Share };
        if lock_type == ast::LockType::Share {
            self.expect(K::Share)?;
        }
        let written = token.start as usize..self.last().end as usize;
        let names = if self.eat(K::Of) { self.list(|parser| parser.lock_name(written.clone()))? } else { Vec::new() };
        let of = Self::locked(token, of_keys, names);
        let nonblock = if self.eat(K::Nowait) {
            Some(ast::NonBlock::Nowait)
        } else if self.eat_all(&[K::Skip, K::Locked]) {
            Some(ast::NonBlock::SkipLocked)
        } else {
            None
        };
        Ok(ast::LockClause { lock_type, of, nonblock })
    }

    /// The name of a table to be locked, behind what is written so.
    fn lock_name(&mut self, written: std::ops::Range<usize>) -> Result<ObjectName> {
        let token = self.peek();
        let name = self.object_name()?;
        if name.0.len() > 1 && !self.is_kept {
            let words: Vec<&str> = self.text[written].split_ascii_whitespace().collect();
            let message = format!("{} must specify unqualified relation names", words.join(" ").to_ascii_uppercase());
            let error = self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message));
            self.note_error(error);
        }
        Ok(name)
    }

    fn locked(token: Token, of_keys: bool, mut names: Vec<ObjectName>) -> Option<ObjectName> {
        if !of_keys && names.len() <= 1 {
            return names.pop();
        }
        let mark = if of_keys { KEY_LOCK_MARK } else { LOCK_MARK };
        let mut parts = vec![ObjectNamePart::Identifier(Self::mark(mark, token.span()))];
        parts.extend(names.into_iter().flat_map(|name| name.0));
        Some(ObjectName(parts))
    }

    /// A table by its name, as a member of FROM.
    pub(crate) fn table_of(name: ObjectName, alias: Option<ast::TableAlias>) -> TableFactor {
        TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        }
    }
}
