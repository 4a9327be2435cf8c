//! Partitioned tables: PARTITION BY, PARTITION OF, ATTACH and DETACH PARTITION.

use colibri_types::Result;
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{self, ForValues, PartitionBoundValue};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::PartitionChange;

impl Parser<'_> {
    /// Behind PARTITION BY: a tuple of the strategy and the columns or expressions of the key.
    pub(super) fn partition_key(&mut self) -> Result<ast::Expr> {
        let mut parts = vec![ast::Expr::Identifier(self.label()?)];
        parts.extend(self.in_parens(Self::index_column)?.into_iter().map(|column| column.column.expr));
        Ok(ast::Expr::Tuple(parts))
    }

    /// What a partition says of its columns, in parentheses: constraints, and columns without types.
    pub(super) fn partition_elements(&mut self, table: &mut CreateTableBuilder) -> Result<()> {
        self.expect_kind(Kind::LeftParen)?;
        loop {
            if self.is_constraint_next() {
                let (constraint, _) = self.table_constraint()?;
                table.constraints.push(constraint);
            } else {
                let mut column = Self::untyped_column(self.name()?);
                self.eat_all(&[K::With, K::Options]);
                column.options = self.column_options()?;
                table.columns.push(column);
            }
            if !self.eat_kind(Kind::Comma) {
                break;
            }
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(())
    }

    /// `FOR VALUES …` or `DEFAULT`
    pub(super) fn partition_bound(&mut self) -> Result<ForValues> {
        if self.eat(K::Default) {
            return Ok(ForValues::Default);
        }
        self.expect_all(&[K::For, K::Values])?;
        if self.eat(K::In) {
            return Ok(ForValues::In(self.in_parens(Self::expr)?));
        }
        if self.eat(K::From) {
            let from = self.in_parens(Self::range_value)?;
            self.expect(K::To)?;
            return Ok(ForValues::From { from, to: self.in_parens(Self::range_value)? });
        }
        self.expect(K::With)?;
        let (mut modulus, mut remainder) = (None, None);
        self.expect_kind(Kind::LeftParen)?;
        loop {
            let which = if self.eat_name("modulus") {
                &mut modulus
            } else if self.eat_name("remainder") {
                &mut remainder
            } else {
                return Err(self.wrong());
            };
            let number = self.unsigned()?;
            if which.replace(number).is_some() {
                return Err(self.wrong_at(self.last()));
            }
            if !self.eat_kind(Kind::Comma) {
                break;
            }
        }
        self.expect_kind(Kind::RightParen)?;
        match (modulus, remainder) {
            (Some(modulus), Some(remainder)) => Ok(ForValues::With { modulus, remainder }),
            _ => Err(self.wrong_at(self.last())),
        }
    }

    /// A value at the end of a range.
    fn range_value(&mut self) -> Result<PartitionBoundValue> {
        let is_alone = matches!(self.kind_behind(1), Kind::Comma | Kind::RightParen);
        if is_alone && self.eat(K::Minvalue) {
            return Ok(PartitionBoundValue::MinValue);
        }
        if is_alone && self.eat(K::Maxvalue) {
            return Ok(PartitionBoundValue::MaxValue);
        }
        self.expr().map(PartitionBoundValue::Expr)
    }

    /// `ATTACH PARTITION …`, `DETACH PARTITION …`, `INHERIT …` and `NO INHERIT …`, if one of them comes
    /// next.
    pub(super) fn partition_change(&mut self) -> Result<Option<PartitionChange>> {
        if self.eat_all(&[K::Attach, K::Partition]) {
            let partition = self.qualified()?;
            return Ok(Some(PartitionChange::Attach { partition, bound: self.partition_bound()? }));
        }
        if self.eat_all(&[K::Detach, K::Partition]) {
            let partition = self.qualified()?;
            let concurrently = self.eat(K::Concurrently);
            let finalize = !concurrently && self.eat(K::Finalize);
            return Ok(Some(PartitionChange::Detach { partition, concurrently, finalize }));
        }
        if self.eat(K::Inherit) {
            return Ok(Some(PartitionChange::Inherit { parent: self.qualified()? }));
        }
        if self.eat_all(&[K::No, K::Inherit]) {
            return Ok(Some(PartitionChange::NoInherit { parent: self.qualified()? }));
        }
        Ok(None)
    }
}
