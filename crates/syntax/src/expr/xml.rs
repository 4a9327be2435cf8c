//! Expressions of XML, which the grammar has rules of their own for. They become calls of functions
//! whose names begin with a dot.

use colibri_types::Result;
use sqlparser::ast::{self, Expr, FunctionArguments, Ident, Value};

use super::calls::function_of;
use super::names::object_name;
use super::primary::value;
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};

impl Parser<'_> {
    /// What begins with one of the words `xmlconcat`, `xmlelement` and so on, with a parenthesis
    /// behind it.
    ///
    /// Apart from other operands, which are in each other: what is needed here would be on the stack for
    /// each of them.
    #[inline(never)]
    pub(super) fn xml(&mut self, word: K, token: Token) -> Result<Expr> {
        if word == K::Xmlexists {
            return self.left_out(token, "XMLEXISTS");
        }
        self.next();
        self.nested(|parser| parser.xml_in_parens(word, token))
    }

    fn xml_in_parens(&mut self, word: K, token: Token) -> Result<Expr> {
        self.expect_kind(Kind::LeftParen)?;
        let text = |text: String| value(token, Value::SingleQuotedString(text));
        let number = |number: usize| value(token, Value::Number(number.to_string(), false));
        let made = match word {
            K::Xmlconcat => call(".xmlconcat", self.list(Self::expr)?),
            K::Xmlelement => {
                let name = text(self.xml_name()?);
                let (mut attributes, mut content) = (Vec::new(), Vec::new());
                if self.eat_kind(Kind::Comma) {
                    let has_attributes = self.is_next(K::Xmlattributes) && self.kind_behind(1) == Kind::LeftParen;
                    if has_attributes {
                        self.next();
                        self.next();
                        attributes = self.xml_values(token)?;
                        self.expect_kind(Kind::RightParen)?;
                    }
                    if !has_attributes || self.eat_kind(Kind::Comma) {
                        content = self.list(Self::expr)?;
                    }
                }
                let count = number(attributes.len() / 2);
                call(".xmlelement", [vec![name, count], attributes, content].concat())
            }
            K::Xmlforest => call(".xmlforest", self.xml_values(token)?),
            K::Xmlparse => {
                let kind = self.xml_kind(token)?;
                let parsed = self.expr()?;
                // The text stays as it is either way.
                if self.eat(K::Preserve) || self.eat(K::Strip) {
                    self.expect(K::Whitespace)?;
                }
                call(".xmlparse", vec![kind, parsed])
            }
            K::Xmlpi => {
                let mut args = vec![text(self.xml_name()?)];
                if self.eat_kind(Kind::Comma) {
                    args.push(self.expr()?);
                }
                call(".xmlpi", args)
            }
            K::Xmlroot => {
                let root = self.expr()?;
                self.expect_kind(Kind::Comma)?;
                self.expect(K::Version)?;
                let version = match self.eat_all(&[K::No, K::Value]) {
                    true => value(token, Value::Null),
                    false => self.expr()?,
                };
                let standalone = match self.eat_kind(Kind::Comma) {
                    false => 4,
                    true => {
                        self.expect(K::Standalone)?;
                        if self.eat(K::Yes) {
                            1
                        } else if self.eat_all(&[K::No, K::Value]) {
                            3
                        } else {
                            self.expect(K::No)?;
                            2
                        }
                    }
                };
                call(".xmlroot", vec![root, version, number(standalone)])
            }
            K::Xmlserialize => {
                let kind = self.xml_kind(token)?;
                let serialized = self.expr()?;
                self.expect(K::As)?;
                let data_type = self.data_type()?;
                let expr = Box::new(call(".xmlserialize", vec![kind, serialized]));
                Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, format: None }
            }
            _ => return Err(self.wrong_at(token)),
        };
        self.expect_kind(Kind::RightParen)?;
        Ok(made)
    }

    /// `a IS DOCUMENT`, or not.
    #[inline(never)]
    pub(super) fn is_document(operand: Expr, negated: bool) -> Expr {
        let is_one = call(".xml_is_document", vec![operand]);
        match negated {
            true => Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(is_one) },
            false => is_one,
        }
    }

    /// DOCUMENT or CONTENT.
    fn xml_kind(&mut self, token: Token) -> Result<Expr> {
        let is_document = self.eat(K::Document);
        if !is_document {
            self.expect(K::Content)?;
        }
        Ok(value(token, Value::Boolean(is_document)))
    }

    /// `NAME a`
    fn xml_name(&mut self) -> Result<String> {
        self.expect(K::Name)?;
        Ok(self.folded_label()?.to_string())
    }

    /// Values with their names in front of them, which are NULL where none is said.
    fn xml_values(&mut self, token: Token) -> Result<Vec<Expr>> {
        let pairs = self.list(|parser| {
            let given = parser.expr()?;
            let name = match parser.eat(K::As) {
                true => Value::SingleQuotedString(parser.folded_label()?.to_string()),
                false => Value::Null,
            };
            Ok([value(token, name), given])
        })?;
        Ok(pairs.into_iter().flatten().collect())
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let unnamed = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
    let args = args.into_iter().map(unnamed).collect();
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    let name = object_name(vec![Ident::with_quote('"', name)]);
    Expr::Function(function_of(name, FunctionArguments::List(list)))
}
