//! CREATE, ALTER and DROP STATISTICS.
//!
//! ```text
//! CREATE STATISTICS [IF NOT EXISTS] name [(kind, …)] ON {column | (expression)}, … FROM table
//! ALTER STATISTICS name {RENAME TO name | OWNER TO role | SET SCHEMA name}
//! ALTER STATISTICS [IF EXISTS] name SET STATISTICS number
//! DROP STATISTICS [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;
use sqlparser::ast::Expr;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, OnStatistics};

impl From<OnStatistics> for Admin {
    fn from(statement: OnStatistics) -> Self {
        Self::Statistics(Box::new(statement))
    }
}

impl Parser<'_> {
    /// Behind CREATE.
    pub(crate) fn create_statistics(&mut self) -> Result<Admin> {
        self.expect(K::Statistics)?;
        let if_not_exists = self.eat_all(&[K::If, K::Not, K::Exists]);
        let name = self.qualified()?;
        let mut kinds = Vec::new();
        if self.eat_kind(Kind::LeftParen) {
            kinds = self.list(Self::folded)?;
            self.expect_kind(Kind::RightParen)?;
        }
        self.expect(K::On)?;
        let of = self.list(Self::statistics_part)?;
        self.expect(K::From)?;
        let from = self.list(Self::qualified)?;
        Ok(OnStatistics::Create { name, if_not_exists, kinds, of, from }.into())
    }

    fn statistics_part(&mut self) -> Result<Expr> {
        if self.eat_kind(Kind::LeftParen) {
            let inner = self.expr()?;
            self.expect_kind(Kind::RightParen)?;
            return Ok(Expr::Nested(Box::new(inner)));
        }
        match self.primary_expr()? {
            expr @ (Expr::Identifier(_) | Expr::Function(_)) => Ok(expr),
            _ => Err(self.wrong_at(self.last())),
        }
    }

    /// Behind ALTER.
    pub(crate) fn alter_statistics(&mut self) -> Result<Admin> {
        self.expect(K::Statistics)?;
        let if_exists = self.if_exists()?;
        let name = self.qualified()?;
        if self.eat_all(&[K::Set, K::Statistics]) {
            let target = self.signed_text()?.parse().map_err(|_| self.wrong_at(self.last()))?;
            return Ok(OnStatistics::Target { name, if_exists, target }.into());
        }
        if if_exists {
            return Err(self.wrong());
        }
        if self.eat_all(&[K::Rename, K::To]) {
            return Ok(OnStatistics::Rename { name, to: self.folded()? }.into());
        }
        if self.eat_all(&[K::Owner, K::To]) {
            return Ok(OnStatistics::Owner { name, to: self.role_name()? }.into());
        }
        self.expect_all(&[K::Set, K::Schema])?;
        Ok(OnStatistics::SetSchema { name, schema: self.folded()? }.into())
    }

    /// Behind DROP.
    pub(crate) fn drop_statistics(&mut self) -> Result<Admin> {
        self.expect(K::Statistics)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::qualified)?;
        // Nothing depends on them.
        self.cascade();
        Ok(OnStatistics::Drop { names, if_exists }.into())
    }

    pub(crate) fn comment_on_statistics(&mut self) -> Result<Admin> {
        self.expect(K::Statistics)?;
        let name = self.qualified()?;
        let text = self.comment_text()?;
        Ok(OnStatistics::Comment { name, text }.into())
    }
}
