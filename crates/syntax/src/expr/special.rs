//! Operands that the grammar has rules of their own for: CAST, EXTRACT, TRIM, `CURRENT_DATE` and
//! their like.

use colibri_types::Result;
use sqlparser::ast::{self, DateTimeField as Field, Expr, FunctionArguments, Value};

use super::calls::function_of;
use super::names::{as_substring, object_name};
use super::primary::{Parenthesized, value};
use crate::keyword::{Class, Keyword as K};
use crate::parser::Parser;
use crate::token::{Kind, Token};

impl Parser<'_> {
    /// What begins with a word that the grammar has a rule for; `None`, and nothing is taken, if it
    /// is only a name here.
    pub(super) fn special(&mut self, word: K, token: Token) -> Result<Option<Expr>> {
        if word.class() == Class::Unreserved && word != K::Double {
            return Ok(None);
        }
        let has_parens = self.kind_behind(1) == Kind::LeftParen;
        Ok(Some(match word {
            K::True | K::False => {
                self.next();
                value(token, Value::Boolean(word == K::True))
            }
            K::Null => {
                self.next();
                value(token, Value::Null)
            }
            K::Case => self.case()?,
            K::Array => self.array_or_query(token)?,
            K::Exists if has_parens => {
                self.next();
                match self.parenthesized()? {
                    Parenthesized::Query(subquery, levels) => {
                        let wrap = |query, _| Box::new(Self::query_of(ast::SetExpr::Query(query)));
                        Expr::Exists { subquery: (0..levels).fold(subquery, wrap), negated: false }
                    }
                    Parenthesized::Exprs(_) => return Err(self.wrong_at(self.last())),
                }
            }
            K::Cast => self.cast()?,
            K::Row if has_parens => {
                let row = self.plain_call(token)?;
                self.maybe_overlaps(row)?
            }
            K::Grouping | K::Coalesce | K::Greatest | K::Least | K::Nullif if has_parens => self.plain_call(token)?,
            K::Extract if has_parens => self.extract()?,
            K::Position if has_parens => self.position()?,
            K::Substring if has_parens => self.substring(token)?,
            K::Overlay if has_parens => self.overlay(token)?,
            K::Trim if has_parens => self.trim()?,
            K::Normalize if has_parens => self.normalize(token)?,
            K::Treat if has_parens => self.left_out(token, "TREAT")?,
            K::Collation if self.kind_behind(1) == Kind::Key(K::For) => {
                self.next();
                self.next();
                let args = FunctionArguments::List(self.arguments()?);
                let name = object_name(vec![ast::Ident::new("pg_collation_for")]);
                Expr::Function(function_of(name, args))
            }
            K::CurrentDate | K::CurrentCatalog | K::CurrentRole | K::CurrentUser | K::SessionUser | K::User => {
                self.next();
                self.bare_call(token, FunctionArguments::None)?
            }
            K::CurrentTime | K::CurrentTimestamp | K::Localtime | K::Localtimestamp => {
                self.next();
                let args = match has_parens {
                    true => FunctionArguments::List(self.arguments()?),
                    false => FunctionArguments::None,
                };
                self.bare_call(token, args)?
            }
            K::CurrentSchema if !has_parens => {
                self.next();
                Expr::Identifier(self.ident_of(token)?)
            }
            K::Xmlconcat
            | K::Xmlelement
            | K::Xmlexists
            | K::Xmlforest
            | K::Xmlparse
            | K::Xmlpi
            | K::Xmlroot
            | K::Xmlserialize
                if has_parens =>
            {
                self.xml(word, token)?
            }
            K::Interval if self.is_interval_string() => self.interval()?,
            _ if self.is_type_with_string(word) => {
                let data_type = self.constant_type()?;
                self.typed_string(data_type)?
            }
            _ => return Ok(None),
        }))
    }

    /// A call of a function that nothing may stand behind.
    fn plain_call(&mut self, token: Token) -> Result<Expr> {
        self.next();
        let may_be_empty = token.kind == Kind::Key(K::Row);
        if !may_be_empty && self.kind_behind(1) == Kind::RightParen {
            self.next();
            return Err(self.wrong());
        }
        let args = self.nested(Self::arguments)?;
        self.bare_call(token, FunctionArguments::List(args))
    }

    fn bare_call(&mut self, token: Token, args: FunctionArguments) -> Result<Expr> {
        let name = object_name(vec![self.ident_of(token)?]);
        Ok(Expr::Function(function_of(name, args)))
    }

    /// Something in parentheses that is not supported, whatever is in it.
    pub(super) fn left_out(&mut self, token: Token, what: &str) -> Result<Expr> {
        self.next();
        self.not_supported(token, what);
        self.skip_parens()?;
        Ok(value(token, Value::Null))
    }

    /// Takes all up to the parenthesis that closes the one that comes next.
    pub(crate) fn skip_parens(&mut self) -> Result<()> {
        let mut depth = 0usize;
        loop {
            match self.kind() {
                Kind::LeftParen => depth += 1,
                Kind::RightParen if depth <= 1 => {
                    self.next();
                    return Ok(());
                }
                Kind::RightParen => depth -= 1,
                Kind::End | Kind::Bad | Kind::Semicolon => return Err(self.wrong()),
                _ => {}
            }
            self.next();
        }
    }

    fn array_or_query(&mut self, token: Token) -> Result<Expr> {
        self.next();
        match self.kind() {
            Kind::LeftBracket => self.array(true),
            Kind::LeftParen => match self.parenthesized()? {
                Parenthesized::Query(query, levels) => {
                    let wrap = |query, _| Box::new(Self::query_of(ast::SetExpr::Query(query)));
                    let query = (0..levels).fold(query, wrap);
                    self.bare_call(token, FunctionArguments::Subquery(query))
                }
                Parenthesized::Exprs(_) => Err(self.wrong_at(self.last())),
            },
            _ => Err(self.wrong()),
        }
    }

    fn cast(&mut self) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let expr = Box::new(self.expr()?);
        self.expect(K::As)?;
        let data_type = self.data_type()?;
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, format: None })
    }

    fn extract(&mut self) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let token = self.peek();
        let field = match token.kind {
            Kind::String | Kind::EscapeString | Kind::UnicodeString | Kind::DollarString => {
                let value = self.string()?;
                Field::Custom(ast::Ident { value, quote_style: Some('\''), span: token.span() })
            }
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => {
                self.next();
                let ident = self.ident_of(token)?;
                named_field(&ident).unwrap_or(Field::Custom(ident))
            }
            Kind::Key(K::Year | K::Month | K::Day | K::Hour | K::Minute | K::Second) => {
                self.next();
                let ident = self.ident_of(token)?;
                named_field(&ident).unwrap_or(Field::Custom(ident))
            }
            _ => return Err(self.wrong()),
        };
        self.expect(K::From)?;
        let expr = Box::new(self.expr()?);
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Extract { field, syntax: ast::ExtractSyntax::From, expr })
    }

    fn position(&mut self) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let expr = Box::new(self.simple_expr()?);
        self.expect(K::In)?;
        let whole = Box::new(self.simple_expr()?);
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Position { expr, r#in: whole })
    }

    /// `SUBSTRING(a FROM b FOR c)`, `SUBSTRING(a SIMILAR b ESCAPE c)`, `SUBSTRING(a, b, c)`
    fn substring(&mut self, token: Token) -> Result<Expr> {
        self.next();
        if self.kind_behind(1) == Kind::RightParen {
            let args = FunctionArguments::List(self.arguments()?);
            return self.bare_call(token, args);
        }
        self.expect_kind(Kind::LeftParen)?;
        let expr = self.expr()?;
        let (mut from, mut length, mut special) = (None, None, false);
        match self.kind() {
            Kind::Key(K::From) => {
                self.next();
                from = Some(self.expr()?);
                length = if self.eat(K::For) { Some(self.expr()?) } else { None };
            }
            Kind::Key(K::For) => {
                self.next();
                length = Some(self.expr()?);
                from = if self.eat(K::From) { Some(self.expr()?) } else { None };
            }
            Kind::Key(K::Similar) => {
                self.next();
                from = Some(self.expr()?);
                self.expect(K::Escape)?;
                (length, special) = (Some(self.expr()?), true);
            }
            Kind::Comma | Kind::Assign | Kind::Arrow => {
                let rest = self.rest_of_arguments(expr)?;
                let name = object_name(vec![self.ident_of(token)?]);
                return Ok(as_substring(function_of(name, FunctionArguments::List(rest)), false));
            }
            _ => {}
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Substring {
            expr: Box::new(expr),
            substring_from: from.map(Box::new),
            substring_for: length.map(Box::new),
            special,
            shorthand: false,
        })
    }

    /// Plain arguments of which the first is read.
    fn rest_of_arguments(&mut self, first: Expr) -> Result<ast::FunctionArgumentList> {
        let mut args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first))];
        while self.eat_kind(Kind::Comma) {
            args.push(self.argument()?);
        }
        self.expect_kind(Kind::RightParen)?;
        Ok(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() })
    }

    fn overlay(&mut self, token: Token) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let expr = self.expr()?;
        if self.kind() == Kind::Comma {
            let rest = self.rest_of_arguments(expr)?;
            return self.bare_call(token, FunctionArguments::List(rest));
        }
        self.expect(K::Placing)?;
        let overlay_what = Box::new(self.expr()?);
        self.expect(K::From)?;
        let overlay_from = Box::new(self.expr()?);
        let overlay_for = if self.eat(K::For) { Some(Box::new(self.expr()?)) } else { None };
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Overlay { expr: Box::new(expr), overlay_what, overlay_from, overlay_for })
    }

    /// `TRIM([BOTH | LEADING | TRAILING] [a] FROM b)`, `TRIM(b, a)`
    fn trim(&mut self) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let trim_where = match self.kind() {
            Kind::Key(K::Both) => Some(ast::TrimWhereField::Both),
            Kind::Key(K::Leading) => Some(ast::TrimWhereField::Leading),
            Kind::Key(K::Trailing) => Some(ast::TrimWhereField::Trailing),
            _ => None,
        };
        if trim_where.is_some() {
            self.next();
        }
        let from = self.peek();
        let what = if self.is_next(K::From) {
            // Blanks are what is trimmed.
            Some(value(from, Value::SingleQuotedString(" ".to_owned())))
        } else {
            None
        };
        let first = match what {
            Some(blank) => blank,
            None => self.expr()?,
        };
        let (expr, trim_what, trim_characters) = if self.eat(K::From) {
            let expr = self.expr()?;
            if self.kind() == Kind::Comma {
                let token = self.peek();
                self.not_supported(token, "TRIM with more than one string");
                self.next();
                self.list(Self::expr)?;
            }
            (expr, Some(Box::new(first)), None)
        } else if self.eat_kind(Kind::Comma) {
            (first, None, Some(self.list(Self::expr)?))
        } else {
            (first, None, None)
        };
        self.expect_kind(Kind::RightParen)?;
        Ok(Expr::Trim { trim_where, trim_what, expr: Box::new(expr), trim_characters })
    }

    fn normalize(&mut self, token: Token) -> Result<Expr> {
        self.next();
        self.expect_kind(Kind::LeftParen)?;
        let mut args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(self.expr()?))];
        if self.eat_kind(Kind::Comma) {
            let form = self.peek();
            if !matches!(form.kind, Kind::Key(K::Nfc | K::Nfd | K::Nfkc | K::Nfkd)) {
                return Err(self.wrong());
            }
            self.next();
            let text = Value::SingleQuotedString(self.token_text(form).to_ascii_uppercase());
            args.push(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value(form, text))));
        }
        self.expect_kind(Kind::RightParen)?;
        let list = ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
        // Written in quotes, it takes the form as a text: so it is read again.
        let name = ast::Ident { span: token.span(), ..ast::Ident::with_quote('"', "normalize") };
        Ok(Expr::Function(function_of(object_name(vec![name]), FunctionArguments::List(list))))
    }

    /// Whether INTERVAL comes next, with a string behind it.
    fn is_interval_string(&self) -> bool {
        let behind = if self.kind_behind(1) == Kind::LeftParen {
            match (self.kind_behind(2), self.kind_behind(3)) {
                (Kind::Integer, Kind::RightParen) => 4,
                _ => return false,
            }
        } else {
            1
        };
        Self::is_string(self.kind_behind(behind))
    }

    fn interval(&mut self) -> Result<Expr> {
        self.next();
        if self.eat_kind(Kind::LeftParen) {
            let precision = Some(self.unsigned()?);
            self.expect_kind(Kind::RightParen)?;
            let expr = Box::new(Expr::Value(self.string_value()?));
            let data_type = ast::DataType::Interval { fields: None, precision };
            return Ok(Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, format: None });
        }
        let text = Box::new(Expr::Value(self.string_value()?));
        let mut interval = ast::Interval {
            value: text,
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        };
        let Some((first, last)) = self.interval_fields()? else { return Ok(Expr::Interval(interval)) };
        let digits = self.seconds_digits(last.unwrap_or(first))?;
        interval.leading_field = field_of(first);
        interval.last_field = last.and_then(field_of);
        match last {
            None => interval.leading_precision = digits,
            Some(_) => interval.fractional_seconds_precision = digits,
        }
        Ok(Expr::Interval(interval))
    }
}

fn field_of(word: K) -> Option<Field> {
    Some(match word {
        K::Year => Field::Year,
        K::Month => Field::Month,
        K::Day => Field::Day,
        K::Hour => Field::Hour,
        K::Minute => Field::Minute,
        K::Second => Field::Second,
        _ => return None,
    })
}

/// The field of EXTRACT that has a node of its own.
fn named_field(ident: &ast::Ident) -> Option<Field> {
    const FIELDS: [(&str, Field); 33] = [
        ("year", Field::Year),
        ("years", Field::Years),
        ("month", Field::Month),
        ("months", Field::Months),
        ("week", Field::Week(None)),
        ("weeks", Field::Weeks),
        ("day", Field::Day),
        ("days", Field::Days),
        ("hour", Field::Hour),
        ("hours", Field::Hours),
        ("minute", Field::Minute),
        ("minutes", Field::Minutes),
        ("second", Field::Second),
        ("seconds", Field::Seconds),
        ("century", Field::Century),
        ("decade", Field::Decade),
        ("dow", Field::Dow),
        ("doy", Field::Doy),
        ("epoch", Field::Epoch),
        ("isodow", Field::Isodow),
        ("isoyear", Field::Isoyear),
        ("julian", Field::Julian),
        ("microsecond", Field::Microsecond),
        ("microseconds", Field::Microseconds),
        ("millenium", Field::Millenium),
        ("millennium", Field::Millennium),
        ("millisecond", Field::Millisecond),
        ("milliseconds", Field::Milliseconds),
        ("quarter", Field::Quarter),
        ("timezone", Field::Timezone),
        ("timezone_hour", Field::TimezoneHour),
        ("timezone_minute", Field::TimezoneMinute),
        ("timezone_abbr", Field::TimezoneAbbr),
    ];
    if ident.quote_style.is_some() {
        return None;
    }
    FIELDS.into_iter().find(|(name, _)| ident.value.eq_ignore_ascii_case(name)).map(|(_, field)| field)
}
