//! FROM: tables, functions, queries in parentheses, joins.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{
    self, Expr, Ident, Join, JoinConstraint, JoinOperator, Query, TableAlias, TableFactor, TableWithJoins,
};
use sqlparser::tokenizer::Span;

use crate::ROWS_FROM;
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};

/// What stands in parentheses in FROM.
enum InParens {
    Query(Box<Query>, usize),
    Joined(Box<TableWithJoins>),
}

impl Parser<'_> {
    /// A member of FROM, with all that is joined to it.
    pub(crate) fn table_with_joins(&mut self) -> Result<TableWithJoins> {
        let relation = self.nested(Self::factor)?;
        let joins = self.joins()?;
        Ok(TableWithJoins { relation, joins })
    }

    fn joins(&mut self) -> Result<Vec<Join>> {
        let mut joins = Vec::new();
        while let Some(join) = self.join()? {
            joins.push(join);
        }
        Ok(joins)
    }

    fn join(&mut self) -> Result<Option<Join>> {
        let natural = self.eat(K::Natural);
        let word = match self.kind() {
            Kind::Key(word @ (K::Join | K::Inner | K::Left | K::Right | K::Full)) => word,
            Kind::Key(K::Cross) if !natural => K::Cross,
            _ if natural => return Err(self.wrong()),
            _ => return Ok(None),
        };
        self.next();
        let has_outer = matches!(word, K::Left | K::Right | K::Full) && self.eat(K::Outer);
        if word != K::Join {
            self.expect(K::Join)?;
        }
        let mut relation = self.nested(Self::factor)?;
        let constraint = if word == K::Cross {
            JoinConstraint::None
        } else if natural {
            JoinConstraint::Natural
        } else {
            // Joins may come first whose conditions come first: `a JOIN b JOIN c ON … ON …`.
            if !self.is_next(K::On) && !self.is_next(K::Using) {
                let joins = self.nested(Self::joins)?;
                if !joins.is_empty() {
                    let table_with_joins = Box::new(TableWithJoins { relation, joins });
                    relation = TableFactor::NestedJoin { table_with_joins, alias: None };
                }
            }
            self.join_condition()?
        };
        let join_operator = match word {
            K::Cross => JoinOperator::CrossJoin(constraint),
            K::Inner => JoinOperator::Inner(constraint),
            K::Left if has_outer => JoinOperator::LeftOuter(constraint),
            K::Left => JoinOperator::Left(constraint),
            K::Right if has_outer => JoinOperator::RightOuter(constraint),
            K::Right => JoinOperator::Right(constraint),
            K::Full => JoinOperator::FullOuter(constraint),
            _ => JoinOperator::Join(constraint),
        };
        Ok(Some(Join { relation, global: false, join_operator }))
    }

    fn join_condition(&mut self) -> Result<JoinConstraint> {
        if self.eat(K::On) {
            return Ok(JoinConstraint::On(self.expr()?));
        }
        self.expect(K::Using)?;
        let mut columns = self.column_names()?;
        if self.eat(K::As) {
            let alias = self.name()?;
            columns.push(Self::mark(&format!("{}{}", crate::USING_ALIAS_MARK, crate::tree::fold(&alias)), alias.span));
        }
        Ok(JoinConstraint::Using(columns.into_iter().map(|column| ast::ObjectName::from(vec![column])).collect()))
    }

    fn factor(&mut self) -> Result<TableFactor> {
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Lateral) => {
                self.next();
                if self.kind() == Kind::LeftParen {
                    self.next();
                    let query = self.query()?;
                    self.expect_kind(Kind::RightParen)?;
                    return self.derived(true, query);
                }
                self.function_factor(true)
            }
            Kind::LeftParen => match self.parens_of_from()? {
                InParens::Query(query, levels) => self.derived_at(query, levels),
                InParens::Joined(table) => {
                    let alias = self.table_alias(false)?;
                    Ok(TableFactor::NestedJoin { table_with_joins: table, alias })
                }
            },
            Kind::Key(K::Rows) if self.kind_behind(1) == Kind::Key(K::From) => self.function_factor(false),
            Kind::Key(K::Xmltable) => {
                self.next();
                self.not_supported(token, "XMLTABLE");
                self.skip_parens()?;
                let alias = self.table_alias(true)?;
                Ok(Self::table_of(ast::ObjectName::from(vec![Ident::new("xmltable")]), alias))
            }
            Kind::Key(K::Only) => {
                let relation = self.relation()?;
                self.sampled(relation)
            }
            kind if Self::is_column_name(kind) || Self::is_type_name(kind) || Self::is_value_function(kind) => {
                if self.is_call_next() { self.function_factor(false) } else { self.table_factor() }
            }
            _ => Err(self.wrong()),
        }
    }

    /// Functions that need no parentheses, such as `CURRENT_DATE`.
    fn is_value_function(kind: Kind) -> bool {
        matches!(
            kind,
            Kind::Key(
                K::CurrentDate
                    | K::CurrentTime
                    | K::CurrentTimestamp
                    | K::CurrentUser
                    | K::CurrentRole
                    | K::CurrentCatalog
                    | K::SessionUser
                    | K::User
                    | K::Localtime
                    | K::Localtimestamp
                    | K::Cast
                    | K::Collation
            )
        )
    }

    /// Whether a name with a parenthesis behind it comes next.
    fn is_call_next(&self) -> bool {
        let mut behind = 1;
        while self.kind_behind(behind) == Kind::Period {
            behind += 2;
        }
        self.kind_behind(behind) == Kind::LeftParen
    }

    /// A table with its alias.
    fn table_factor(&mut self) -> Result<TableFactor> {
        if Self::is_value_function(self.kind()) || self.is_next(K::CurrentSchema) {
            let token = self.next();
            let name = ast::ObjectName::from(vec![self.ident_of(token)?]);
            let alias = self.table_alias(true)?;
            return Ok(Self::table_of(name, alias));
        }
        let relation = self.relation()?;
        self.sampled(relation)
    }

    /// `[ONLY] t [*]`, with an alias or without.
    pub(crate) fn relation(&mut self) -> Result<TableFactor> {
        let only = self.is_next(K::Only);
        let name = self.relation_name()?;
        // As the tree writes it.
        let only = only || self.is_kept && self.eat(K::Partition) && !self.in_parens(Self::name)?.is_empty();
        let alias = self.table_alias(false)?;
        Ok(Self::with_only(Self::table_of(name, alias), only))
    }

    /// A table of which partitions do not count, if it is written so.
    pub(crate) fn with_only(mut table: TableFactor, only: bool) -> TableFactor {
        if let (TableFactor::Table { partitions, .. }, true) = (&mut table, only) {
            partitions.push(Self::mark(crate::ONLY_MARK, Span::empty()));
        }
        table
    }

    /// `[ONLY] t [*]`
    pub(crate) fn relation_name(&mut self) -> Result<ast::ObjectName> {
        if self.eat(K::Only) {
            if self.eat_kind(Kind::LeftParen) {
                let name = self.object_name()?;
                self.expect_kind(Kind::RightParen)?;
                return Ok(name);
            }
            return self.object_name();
        }
        let name = self.object_name()?;
        self.eat_kind(Kind::Star);
        Ok(name)
    }

    fn sampled(&mut self, mut relation: TableFactor) -> Result<TableFactor> {
        if !self.eat(K::Tablesample) {
            return Ok(relation);
        }
        let token = self.peek();
        let method = self.object_name()?;
        let name = match method.0.last().and_then(|part| part.as_ident()).map(crate::tree::fold).as_deref() {
            Some("bernoulli") => ast::TableSampleMethod::Bernoulli,
            Some("system") => ast::TableSampleMethod::System,
            other => {
                let message = format!("tablesample method {} does not exist", other.unwrap_or_default());
                return Err(self.error_at(token, Error::new(SqlState::NO_SUCH_OBJECT, message)));
            }
        };
        let token = self.peek();
        let mut values = self.in_parens(Self::expr)?;
        let (1, Some(value)) = (values.len(), values.pop()) else {
            let message = format!("tablesample method {name} requires 1 argument, not {}", values.len() + 1);
            let message = message.replace("BERNOULLI", "bernoulli").replace("SYSTEM", "system");
            return Err(self.error_at(token, Error::new(SqlState("2202H"), message)));
        };
        let mut seed = None;
        if self.eat(K::Repeatable) {
            let token = self.peek();
            match self.in_parens(Self::expr)?.pop() {
                Some(Expr::Value(value)) => {
                    let modifier = ast::TableSampleSeedModifier::Repeatable;
                    seed = Some(ast::TableSampleSeed { modifier, value });
                }
                _ => self.not_supported(token, "REPEATABLE with an expression"),
            }
        }
        let quantity = Some(ast::TableSampleQuantity { parenthesized: true, value, unit: None });
        let made = ast::TableSample {
            modifier: ast::TableSampleModifier::TableSample,
            name: Some(name),
            quantity,
            seed,
            bucket: None,
            offset: None,
        };
        if let TableFactor::Table { sample, .. } = &mut relation {
            *sample = Some(ast::TableSampleKind::AfterTableAlias(Box::new(made)));
        }
        Ok(relation)
    }

    fn function_factor(&mut self, lateral: bool) -> Result<TableFactor> {
        let token = self.peek();
        let (name, args) = if self.eat_all(&[K::Rows, K::From]) {
            let name = ast::ObjectName::from(vec![Self::mark(ROWS_FROM, token.span())]);
            let args = self.in_parens(|parser| {
                let expr = parser.primary_expr()?;
                let token = parser.peek();
                if parser.eat(K::As) {
                    parser.skip_parens()?;
                    parser.not_supported(token, "a list of columns in ROWS FROM");
                }
                Ok(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)))
            })?;
            (name, args)
        } else {
            self.called(token)?
        };
        let with_ordinality = self.eat_all(&[K::With, K::Ordinality]);
        let alias = self.table_alias(true)?;
        if lateral {
            return Ok(TableFactor::Function { lateral, name, args, with_ordinality, alias });
        }
        let is_unnest = matches!(&name.0[..], [ast::ObjectNamePart::Identifier(name)]
            if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("unnest"));
        if is_unnest && args.iter().all(is_plain) {
            let array_exprs = args.into_iter().filter_map(plain).collect();
            return Ok(TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            });
        }
        let args = Some(ast::TableFunctionArgs { args, settings: None });
        let mut table = Self::table_of(name, alias);
        if let TableFactor::Table { args: place, with_ordinality: ordinality, .. } = &mut table {
            (*place, *ordinality) = (args, with_ordinality);
        }
        Ok(table)
    }

    /// The name and the arguments of a function.
    fn called(&mut self, token: Token) -> Result<(ast::ObjectName, Vec<ast::FunctionArg>)> {
        self.is_windowless = Self::is_type_name(token.kind);
        let called = self.primary_expr()?;
        self.is_windowless = false;
        match called {
            ast::Expr::Function(function) => {
                let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
                match function.args {
                    ast::FunctionArguments::List(list)
                        if is_plain && list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
                    {
                        Ok((function.name, list.args))
                    }
                    ast::FunctionArguments::None => Ok((function.name, Vec::new())),
                    _ => {
                        self.not_supported(token, "such a call in FROM");
                        Ok((function.name, Vec::new()))
                    }
                }
            }
            // Some functions have nodes of their own.
            other => self.called_by_node(token, other),
        }
    }

    fn called_by_node(&mut self, token: Token, expr: ast::Expr) -> Result<(ast::ObjectName, Vec<ast::FunctionArg>)> {
        let (name, args) = match expr {
            ast::Expr::Ceil { expr, .. } => ("ceil", vec![*expr]),
            ast::Expr::Floor { expr, .. } => ("floor", vec![*expr]),
            ast::Expr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let mut args = vec![*expr, *from];
                args.extend(substring_for.map(|length| *length));
                ("substring", args)
            }
            _ => {
                self.not_supported(token, "such an expression in FROM");
                ("", Vec::new())
            }
        };
        let arg = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
        Ok((ast::ObjectName::from(vec![Ident::new(name)]), args.into_iter().map(arg).collect()))
    }

    /// A query, or joined tables, in parentheses.
    fn parens_of_from(&mut self) -> Result<InParens> {
        self.nested(Self::parens_of_from_inner)
    }

    fn parens_of_from_inner(&mut self) -> Result<InParens> {
        self.expect_kind(Kind::LeftParen)?;
        if self.is_query_next() {
            let query = self.query()?;
            self.expect_kind(Kind::RightParen)?;
            return Ok(InParens::Query(query, 0));
        }
        let relation = if self.kind() == Kind::LeftParen {
            match self.parens_of_from()? {
                InParens::Query(query, levels) if self.kind() == Kind::RightParen => {
                    self.next();
                    return Ok(InParens::Query(query, levels + 1));
                }
                InParens::Query(query, levels) if self.continues_query() => {
                    let query = self.rest_of_query(query, levels)?;
                    self.expect_kind(Kind::RightParen)?;
                    return Ok(InParens::Query(query, 0));
                }
                InParens::Query(query, levels) => self.derived_at(query, levels)?,
                InParens::Joined(table) => {
                    let alias = self.table_alias(false)?;
                    TableFactor::NestedJoin { table_with_joins: table, alias }
                }
            }
        } else {
            self.factor()?
        };
        let is_joined = matches!(relation, TableFactor::NestedJoin { .. });
        let joins = self.joins()?;
        if joins.is_empty() && !is_joined {
            return Err(self.wrong());
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(InParens::Joined(Box::new(TableWithJoins { relation, joins })))
    }

    fn derived_at(&mut self, query: Box<Query>, levels: usize) -> Result<TableFactor> {
        let wrap = |query, _| Box::new(Self::query_of(ast::SetExpr::Query(query)));
        self.derived(false, (0..levels).fold(query, wrap))
    }

    fn derived(&mut self, lateral: bool, subquery: Box<Query>) -> Result<TableFactor> {
        let alias = self.table_alias(false)?;
        Ok(TableFactor::Derived { lateral, subquery, alias, sample: None })
    }

    /// `[AS] name [(columns)]`, if it comes next; the columns of a function may have types.
    pub(crate) fn table_alias(&mut self, may_have_types: bool) -> Result<Option<TableAlias>> {
        let explicit = self.eat(K::As);
        if may_have_types && explicit && self.kind() == Kind::LeftParen {
            // The binder calls it by the function, as its name is empty.
            let columns = self.maybe_in_parens(Self::typed_column)?;
            return Ok(Some(TableAlias { explicit, name: ast::Ident::new(""), columns, at: None }));
        }
        if !explicit && !Self::is_column_name(self.kind()) {
            return Ok(None);
        }
        let name = self.name()?;
        let columns = self.maybe_in_parens(|parser| {
            let is_plain = matches!(parser.kind_behind(1), Kind::Comma | Kind::RightParen);
            if may_have_types && !is_plain {
                return parser.typed_column();
            }
            Ok(ast::TableAliasColumnDef { name: parser.name()?, data_type: None })
        })?;
        Ok(Some(TableAlias { explicit, name, columns, at: None }))
    }

    /// A column of a function, with its type.
    fn typed_column(&mut self) -> Result<ast::TableAliasColumnDef> {
        let name = self.name()?;
        let data_type = Some(self.data_type()?);
        let token = self.peek();
        if self.eat(K::Collate) {
            self.object_name()?;
            self.not_supported(token, "COLLATE in a list of columns");
        }
        Ok(ast::TableAliasColumnDef { name, data_type })
    }
}

fn is_plain(arg: &ast::FunctionArg) -> bool {
    matches!(arg, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(_)))
}

fn plain(arg: ast::FunctionArg) -> Option<ast::Expr> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}
