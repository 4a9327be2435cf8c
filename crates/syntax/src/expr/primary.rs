//! Operands: values, names, calls, CASE, arrays, and whatever stands in parentheses.

use colibri_types::Result;
use sqlparser::ast::{self, AccessExpr, Expr, Query, Subscript, Value};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::strings;
use crate::token::{Kind, Token};

/// What stands in parentheses.
pub(crate) enum Parenthesized {
    /// A query, and how many more parentheses are around it.
    Query(Box<Query>, usize),
    Exprs(Vec<Expr>),
}

impl Parser<'_> {
    /// An operand.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let token = self.peek();
        match token.kind {
            Kind::Integer | Kind::Decimal => {
                self.next();
                Ok(value(token, Value::Number(self.token_text(token).to_owned(), false)))
            }
            Kind::String
            | Kind::EscapeString
            | Kind::UnicodeString
            | Kind::NationalString
            | Kind::DollarString
            | Kind::BitString
            | Kind::HexString => Ok(Expr::Value(self.string_value()?)),
            Kind::Parameter => {
                self.next();
                let parameter = value(token, Value::Placeholder(self.token_text(token).to_owned()));
                self.accesses(parameter)
            }
            Kind::LeftParen => {
                let parenthesized = self.parenthesized()?;
                self.after_parens(parenthesized)
            }
            Kind::Key(word) => match self.special(word, token)? {
                Some(expr) => Ok(expr),
                None => self.named(),
            },
            _ => self.named(),
        }
    }

    /// A string of any kind, as a value.
    pub(crate) fn string_value(&mut self) -> Result<ast::ValueWithSpan> {
        let token = self.next();
        let text = match token.kind {
            Kind::UnicodeString => self.unicode_text(token)?,
            _ => strings::text_of(self.text, &token),
        };
        let value = match token.kind {
            Kind::EscapeString => Value::EscapedStringLiteral(text),
            Kind::UnicodeString => Value::UnicodeStringLiteral(text),
            Kind::NationalString => Value::NationalStringLiteral(text),
            Kind::BitString => Value::SingleQuotedByteStringLiteral(text),
            Kind::HexString => Value::HexStringLiteral(text),
            Kind::DollarString => {
                let tag = strings::dollar_tag(self.text, &token);
                Value::DollarQuotedString(ast::DollarQuotedString { value: text, tag })
            }
            _ => Value::SingleQuotedString(text),
        };
        let value = match value {
            Value::SingleQuotedString(text) | Value::NationalStringLiteral(text) if is_ambiguous(&text) => {
                Value::EscapedStringLiteral(text)
            }
            other => other,
        };
        Ok(ast::ValueWithSpan { value, span: token.span() })
    }

    /// Whether a query begins here, without parentheses around it.
    pub(crate) fn is_query_next(&self) -> bool {
        match self.kind() {
            Kind::Key(K::Select | K::With | K::Table) => true,
            Kind::Key(K::Values) => self.kind_behind(1) == Kind::LeftParen,
            _ => false,
        }
    }

    /// What stands in parentheses: a query, or expressions. Which of both it is may turn out late,
    /// as in `((SELECT 1) UNION (SELECT 2))` and `((SELECT 1) + 2)`.
    pub(crate) fn parenthesized(&mut self) -> Result<Parenthesized> {
        self.nested(Self::parenthesized_inner)
    }

    fn parenthesized_inner(&mut self) -> Result<Parenthesized> {
        self.expect_kind(Kind::LeftParen)?;
        if self.is_query_next() {
            let query = self.query()?;
            self.expect_kind(Kind::RightParen)?;
            return Ok(Parenthesized::Query(query, 0));
        }
        let mut exprs = if self.kind() == Kind::LeftParen {
            let first = match self.parenthesized()? {
                Parenthesized::Query(query, levels) if self.kind() == Kind::RightParen => {
                    self.next();
                    return Ok(Parenthesized::Query(query, levels + 1));
                }
                Parenthesized::Query(query, levels) if self.continues_query() => {
                    let query = self.rest_of_query(query, levels)?;
                    self.expect_kind(Kind::RightParen)?;
                    return Ok(Parenthesized::Query(query, 0));
                }
                inner => self.after_parens(inner)?,
            };
            vec![self.rest_of_expr(first)?]
        } else {
            vec![self.expr()?]
        };
        while self.eat_kind(Kind::Comma) {
            exprs.push(self.expr()?);
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(Parenthesized::Exprs(exprs))
    }

    /// A query in parentheses as an operand.
    pub(super) fn as_operand(query: Box<Query>, levels: usize) -> Expr {
        (0..levels).fold(Expr::Subquery(query), |inner, _| Expr::Nested(Box::new(inner)))
    }

    /// What is in parentheses as an operand, with the subscripts and fields behind it.
    fn after_parens(&mut self, parenthesized: Parenthesized) -> Result<Expr> {
        let expr = match parenthesized {
            Parenthesized::Query(query, levels) => Self::as_operand(query, levels),
            Parenthesized::Exprs(exprs) if exprs.len() > 1 => {
                return self.maybe_overlaps(Expr::Tuple(exprs));
            }
            Parenthesized::Exprs(mut exprs) => Expr::Nested(Box::new(exprs.remove(0))),
        };
        self.accesses(expr)
    }

    /// A row, and what OVERLAPS compares it with.
    pub(super) fn maybe_overlaps(&mut self, row: Expr) -> Result<Expr> {
        if !self.eat(K::Overlaps) {
            return Ok(row);
        }
        let token = self.peek();
        let right = match token.kind {
            Kind::Key(K::Row) => self.special(K::Row, token)?.ok_or_else(|| self.wrong())?,
            Kind::LeftParen => match self.parenthesized()? {
                Parenthesized::Exprs(exprs) if exprs.len() > 1 => Expr::Tuple(exprs),
                _ => return Err(self.wrong()),
            },
            _ => return Err(self.wrong()),
        };
        Ok(Expr::BinaryOp { left: Box::new(row), op: ast::BinaryOperator::Overlaps, right: Box::new(right) })
    }

    /// An operand with the subscripts and fields behind it.
    pub(super) fn accesses(&mut self, root: Expr) -> Result<Expr> {
        let mut chain = Vec::new();
        loop {
            match self.kind() {
                Kind::Period if self.kind_behind(1) == Kind::Star => {
                    let token = self.peek();
                    self.next();
                    self.next();
                    chain.push(AccessExpr::Dot(Expr::Wildcard(self.attached(token))));
                }
                Kind::Period => {
                    self.next();
                    chain.push(AccessExpr::Dot(Expr::Identifier(self.label()?)));
                }
                Kind::LeftBracket => chain.push(AccessExpr::Subscript(self.subscript()?)),
                _ if chain.is_empty() => return Ok(root),
                _ => return Ok(Expr::CompoundFieldAccess { root: Box::new(root), access_chain: chain }),
            }
        }
    }

    /// `[i]`, `[from:to]`
    pub(crate) fn subscript(&mut self) -> Result<Subscript> {
        self.expect_kind(Kind::LeftBracket)?;
        let lower_bound = if self.kind() == Kind::Colon { None } else { Some(self.expr()?) };
        match lower_bound {
            Some(index) if self.eat_kind(Kind::RightBracket) => Ok(Subscript::Index { index }),
            lower_bound => {
                self.expect_kind(Kind::Colon)?;
                let upper_bound = if self.kind() == Kind::RightBracket { None } else { Some(self.expr()?) };
                self.expect_kind(Kind::RightBracket)?;
                Ok(Subscript::Slice { lower_bound, upper_bound, stride: None })
            }
        }
    }

    pub(super) fn case(&mut self) -> Result<Expr> {
        let case = self.next();
        let operand = if self.is_next(K::When) { None } else { Some(Box::new(self.expr()?)) };
        let mut conditions = Vec::new();
        while self.eat(K::When) {
            let condition = self.expr()?;
            self.expect(K::Then)?;
            conditions.push(ast::CaseWhen { condition, result: self.expr()? });
        }
        if conditions.is_empty() {
            return Err(self.wrong());
        }
        let else_result = if self.eat(K::Else) { Some(Box::new(self.expr()?)) } else { None };
        let end = self.expect(K::End)?;
        let (case_token, end_token) = (self.attached(case), self.attached(end));
        Ok(Expr::Case { case_token, end_token, operand, conditions, else_result })
    }

    /// `[…]` of ARRAY, or of an array inside it.
    pub(super) fn array(&mut self, named: bool) -> Result<Expr> {
        self.nested(|parser| {
            parser.expect_kind(Kind::LeftBracket)?;
            let elem = match parser.kind() {
                Kind::RightBracket => Vec::new(),
                Kind::LeftBracket => parser.list(|parser| parser.array(false))?,
                _ => parser.list(Self::expr)?,
            };
            parser.expect_kind(Kind::RightBracket)?;
            Ok(Expr::Array(ast::Array { elem, named }))
        })
    }
}

/// Whether the tree would write another string than this one between plain quotes: it takes such
/// quotes for escaped ones.
///
/// Bug: `DEFAULT ''''''` was kept as `''''`. Consequence: another value. Fix: such strings are
/// written as `E'…'`.
fn is_ambiguous(text: &str) -> bool {
    text.contains("''") || text.contains("\\'")
}

pub(super) fn value(token: Token, value: Value) -> Expr {
    Expr::Value(ast::ValueWithSpan { value, span: token.span() })
}
