//! Storage parameters: `(fillfactor = 70, toast.autovacuum_enabled)`.

use colibri_types::Result;
use sqlparser::ast::{self, Expr, Ident, SqlOption, Value};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// Parameters in parentheses, as options.
    pub(super) fn storage_options(&mut self) -> Result<Vec<SqlOption>> {
        let parameters = self.storage_parameters()?;
        Ok(parameters.into_iter().map(|(key, value)| SqlOption::KeyValue { key, value }).collect())
    }

    /// Parameters in parentheses; one without a value is true.
    pub(super) fn storage_parameters(&mut self) -> Result<Vec<(Ident, Expr)>> {
        self.in_parens(|parser| {
            let mut key = parser.label()?;
            if parser.eat_kind(Kind::Period) {
                let part = parser.label()?;
                let value = format!("{}.{}", key.value.to_ascii_lowercase(), part.value.to_ascii_lowercase());
                key = Ident { value, quote_style: Some('"'), span: key.span };
            }
            let value = match parser.eat_kind(Kind::Equal) {
                true => parser.storage_value()?,
                false => Expr::Value(ast::ValueWithSpan { value: Value::Boolean(true), span: key.span }),
            };
            Ok((key, value))
        })
    }

    fn storage_value(&mut self) -> Result<Expr> {
        let token = self.peek();
        match token.kind {
            Kind::Plus | Kind::Minus => {
                self.next();
                let op = if token.kind == Kind::Minus { ast::UnaryOperator::Minus } else { ast::UnaryOperator::Plus };
                if !matches!(self.kind(), Kind::Integer | Kind::Decimal) {
                    return Err(self.wrong());
                }
                Ok(Expr::UnaryOp { op, expr: Box::new(self.primary_expr()?) })
            }
            Kind::Integer | Kind::Decimal | Kind::String | Kind::EscapeString | Kind::DollarString => {
                self.primary_expr()
            }
            Kind::Key(K::True | K::False) => self.primary_expr(),
            _ => Ok(Expr::Identifier(self.label()?)),
        }
    }
}
