//! Expressions of XML that make it from values: `xmlelement`, `xmlforest`, `xmlconcat`, `xmlpi`.
//!
//! The parser makes calls of them: of `.xmlelement` with the element's name, the number of its attributes,
//! a name and a value for each of them, and what the element holds; of `.xmlforest` with names and
//! values by turns. A name is NULL where none was said: the column's is taken then.

use colibri_types::{Datum, Error, Result, SqlState, Type, cast::CastContext, xml::name_of};
use sqlparser::ast::{self, Spanned as _};
use sqlparser::tokenizer::Span;

use super::super::Binder;
use super::super::expr::{Bound, text_literal};
use crate::bind::fold;
use crate::expr::Expr;

/// Whether the parser has made such a call of an expression of XML that is bound here.
pub(super) fn is_made(name: &str) -> bool {
    matches!(name, ".xmlelement" | ".xmlforest" | ".xmlconcat" | ".xmlpi")
}

impl Binder<'_> {
    /// Apart from other calls, which are in each other: what is needed here would be on the stack for
    /// each of them.
    #[inline(never)]
    pub(super) fn xml_made(&mut self, name: &str, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        match name {
            ".xmlelement" => self.xml_element(args, span),
            ".xmlforest" => self.xml_forest(args, span),
            ".xmlpi" => self.xml_instruction(args, span),
            _ => self.xml_concat(args, span),
        }
    }

    fn xml_instruction(&mut self, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        let name = args.first().and_then(|name| text_of(name)).unwrap_or_default();
        let mut typed = vec![text_literal(&name_of(&name, false))];
        if let Some(text) = args.get(1) {
            typed.push(self.expr(text)?);
        }
        self.call(".xmlpi", typed, span)
    }

    fn xml_element(&mut self, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        let malformed = || Error::internal("an element of XML without its parts");
        let [name, count, rest @ ..] = args else { return Err(malformed()) };
        let (name, count) = (text_of(name).ok_or_else(malformed)?, number_of(count).ok_or_else(malformed)?);
        let (attributes, content) = rest.split_at_checked(2 * count).ok_or_else(malformed)?;
        let mut written: Vec<Bound> = Vec::with_capacity(count);
        let mut names = Vec::with_capacity(count);
        for pair in attributes.chunks_exact(2) {
            let name = self.xml_name(pair[0], pair[1], "attribute")?;
            if names.contains(&name) {
                let message = format!("XML attribute name \"{name}\" appears more than once");
                return Err(self.place(pair[1].span(), Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            let value = self.xml_value(pair[1], false)?;
            written.push(self.call(".xml_attribute", vec![text_literal(&name), value], span)?);
            names.push(name);
        }
        let mut values = Vec::with_capacity(content.len());
        for value in content {
            values.push(self.xml_value(value, true)?);
        }
        let null = || Bound::new(Expr::Const(Datum::Null), Type::Text);
        let attributes = if written.is_empty() { null() } else { self.call(".xml_content", written, span)? };
        let content = if values.is_empty() { null() } else { self.call(".xml_content", values, span)? };
        self.call(".xml_element", vec![text_literal(&name_of(&name, false)), attributes, content], span)
    }

    fn xml_concat(&mut self, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        let mut values = Vec::with_capacity(args.len());
        for expr in args {
            let bound = self.expr(expr)?;
            if !matches!(bound.ty.ty, Type::Xml | Type::Unknown) {
                let message = format!("argument of XMLCONCAT must be type xml, not type {}", bound.ty);
                return Err(self.place(expr.span(), Error::new(SqlState::TYPE_MISMATCH, message)));
            }
            values.push(bound);
        }
        self.call(".xmlconcat", values, span)
    }

    fn xml_forest(&mut self, args: &[&ast::Expr], span: Span) -> Result<Bound> {
        let mut elements = Vec::with_capacity(args.len() / 2);
        for pair in args.chunks_exact(2) {
            let name = self.xml_name(pair[0], pair[1], "element")?;
            let value = self.xml_value(pair[1], true)?;
            elements.push(self.call(".xml_wrapped", vec![text_literal(&name), value], span)?);
        }
        self.call(".xmlconcat", elements, span)
    }

    /// Takes the declarations from values that are put side by side: they stand at the beginning alone.
    #[inline(never)]
    pub(super) fn without_declarations(&mut self, values: &mut [Expr], span: Span) -> Result<()> {
        for expr in values {
            let bound = Bound::new(std::mem::replace(expr, Expr::Const(Datum::Null)), Type::Xml);
            *expr = self.call(".xml_body", vec![bound], span)?.expr;
        }
        Ok(())
    }

    /// The name that was said, or that of the column.
    fn xml_name(&self, said: &ast::Expr, value: &ast::Expr, what: &str) -> Result<String> {
        if let Some(name) = text_of(said) {
            return Ok(name_of(&name, false));
        }
        match value {
            ast::Expr::Identifier(column) => Ok(name_of(&fold(column), true)),
            ast::Expr::CompoundIdentifier(parts) if let Some(column) = parts.last() => Ok(name_of(&fold(column), true)),
            other => {
                let message = format!("unnamed XML {what} value must be a column reference");
                Err(self.place(other.span(), Error::new(SqlState::SYNTAX_ERROR, message)))
            }
        }
    }

    /// A value as XML writes it. What an element holds has entities for markup, unless it is XML
    /// itself; those of an attribute are made where it is written.
    fn xml_value(&mut self, expr: &ast::Expr, is_content: bool) -> Result<Bound> {
        let (bound, span) = (self.expr(expr)?, expr.span());
        let written = match bound.ty.ty {
            Type::Xml => {
                let inner = self.call(".xml_body", vec![bound], span)?;
                let text = self.coerce(inner, Type::Text.into(), CastContext::Explicit, span)?;
                return Ok(Bound::new(text, Type::Text));
            }
            Type::Date | Type::Timestamp | Type::TimestampTz => self.call(".xml_time", vec![bound], span)?,
            Type::Bytea => return self.call(".xml_bytes", vec![bound], span),
            Type::Array(_) => return Err(self.place(span, Error::unsupported("an array in XML"))),
            _ => {
                let text = self.coerce(super::with_blanks(bound), Type::Text.into(), CastContext::Explicit, span)?;
                Bound::new(text, Type::Text)
            }
        };
        if is_content { self.call(".xml_escape", vec![written], span) } else { Ok(written) }
    }
}

fn text_of(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn number_of(expr: &ast::Expr) -> Option<usize> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.to_string().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
