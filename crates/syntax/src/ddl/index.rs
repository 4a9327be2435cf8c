//! CREATE INDEX, and the columns of an index.

use colibri_types::Result;
use sqlparser::ast::{self, Expr, IndexType, Statement};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    pub(super) fn create_index(&mut self) -> Result<Statement> {
        let unique = self.eat(K::Unique);
        self.expect(K::Index)?;
        let concurrently = self.eat(K::Concurrently);
        let if_not_exists = self.if_not_exists()?;
        let name = match self.kind() {
            Kind::Key(K::On) if !if_not_exists => None,
            _ => Some(self.object_name()?),
        };
        self.expect(K::On)?;
        let only = self.is_next(K::Only);
        let table_name = self.relation_name()?;
        let using = if self.eat(K::Using) { Some(self.index_type()?) } else { None };
        let columns = self.in_parens(Self::index_column)?;
        let include = if self.eat(K::Include) { self.included()? } else { Vec::new() };
        let nulls_distinct = self.nulls_distinct()?;
        let with = if self.eat(K::With) { self.index_options()? } else { Vec::new() };
        if self.eat(K::Tablespace) {
            self.tablespace()?;
        }
        let predicate = if self.eat(K::Where) { Some(self.expr()?) } else { None };
        Ok(Statement::CreateIndex(ast::CreateIndex {
            name,
            table_name,
            using,
            columns,
            unique,
            concurrently,
            // The tree has no place for ONLY.
            r#async: only,
            if_not_exists,
            include,
            nulls_distinct,
            with,
            predicate,
            index_options: Vec::new(),
            alter_options: Vec::new(),
        }))
    }

    /// `(columns)` behind INCLUDE.
    pub(super) fn included(&mut self) -> Result<Vec<ast::Ident>> {
        self.column_names()
    }

    pub(super) fn index_options(&mut self) -> Result<Vec<Expr>> {
        let parameters = self.storage_parameters()?;
        let equals = |(key, value)| Expr::BinaryOp {
            left: Box::new(Expr::Identifier(key)),
            op: ast::BinaryOperator::Eq,
            right: Box::new(value),
        };
        Ok(parameters.into_iter().map(equals).collect())
    }

    /// `NULLS [NOT] DISTINCT`, if it comes next.
    pub(super) fn nulls_distinct(&mut self) -> Result<Option<bool>> {
        if !self.eat(K::Nulls) {
            return Ok(None);
        }
        let distinct = !self.eat(K::Not);
        self.expect(K::Distinct)?;
        Ok(Some(distinct))
    }

    pub(super) fn index_type(&mut self) -> Result<IndexType> {
        let name = self.name()?;
        Ok(match name.value.to_ascii_lowercase().as_str() {
            "btree" => IndexType::BTree,
            "hash" => IndexType::Hash,
            "gin" => IndexType::GIN,
            "gist" => IndexType::GiST,
            "spgist" => IndexType::SPGiST,
            "brin" => IndexType::BRIN,
            "bloom" => IndexType::Bloom,
            _ => IndexType::Custom(name),
        })
    }

    /// A column, a call, a CAST or an expression in parentheses, with its operator class and its order.
    pub(crate) fn index_column(&mut self) -> Result<ast::IndexColumn> {
        let expr = if self.kind() == Kind::LeftParen {
            self.next();
            let inner = self.expr()?;
            self.expect_kind(Kind::RightParen)?;
            Expr::Nested(Box::new(inner))
        } else {
            match self.primary_expr()? {
                expr @ (Expr::Identifier(_)
                | Expr::Function(_)
                | Expr::Ceil { .. }
                | Expr::Floor { .. }
                | Expr::Substring { .. }
                | Expr::Trim { .. }
                | Expr::Extract { .. }
                | Expr::Position { .. }
                | Expr::Overlay { .. }
                | Expr::Cast { kind: ast::CastKind::Cast, .. }) => expr,
                _ => return Err(self.wrong_at(self.last())),
            }
        };
        let expr = match self.eat(K::Collate) {
            true => Expr::Collate { expr: Box::new(expr), collation: self.object_name()? },
            false => expr,
        };
        let operator_class = match Self::is_column_name(self.kind()) && !self.is_next(K::Nulls) {
            true => Some(self.object_name()?),
            false => None,
        };
        if operator_class.is_some() && self.kind() == Kind::LeftParen {
            let token = self.peek();
            self.storage_parameters()?;
            self.not_supported(token, "parameters of an operator class");
        }
        let sort = self.direction();
        let options = self.order_options(sort)?;
        Ok(ast::IndexColumn { column: ast::OrderByExpr { expr, options, with_fill: None }, operator_class })
    }
}
