//! PL/pgSQL: a body to its tree.
//!
//! The words of the language are told by their texts, since few of them are words of SQL. A text of
//! SQL goes as far as the word or the sign that ends it outside of parentheses; it is read for
//! mistakes, and kept as it is written.

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Name, TypeGiven, fold};

mod statements;
mod tree;

pub use tree::{
    Block, Body, Condition, Conflict, CursorArg, Declared, DeclaredAs, Expr, Goal, Handler, Into, Level, Open, Raise,
    Stmt, StmtKind, Target, named_type,
};

/// Calls inside each other that a body takes.
const LEVELS_MAX: usize = 400;

/// Reads a body.
///
/// # Errors
/// 42601 and what else may be wrong with it.
pub fn parse(text: &str) -> Result<Body> {
    let tokens = crate::lexer::tokens(text)?;
    let mut parser = Parser::new(tokens, LEVELS_MAX);
    let body = parser.plpgsql_body()?;
    match parser.take_noted() {
        Some(error) => Err(error),
        None => Ok(body),
    }
}

/// What ends a text of SQL.
#[derive(Clone, Copy, PartialEq)]
enum Ends<'w> {
    Word(&'w str),
    Kind(Kind),
}

impl Parser<'_> {
    fn plpgsql_body(&mut self) -> Result<Body> {
        let mut conflict = None;
        while self.kind() == Kind::Operator && self.token_text(self.peek()) == "#" {
            self.next();
            let option = self.folded_label()?;
            let value = self.folded_label()?;
            conflict = match (option.as_str(), value.as_str()) {
                ("variable_conflict", "error") => Some(Conflict::Error),
                ("variable_conflict", "use_variable") => Some(Conflict::Variable),
                ("variable_conflict", "use_column") => Some(Conflict::Column),
                ("option" | "print_strict_params", _) => conflict,
                _ => return Err(self.wrong_at(self.last())),
            };
        }
        let label = self.label_of_block()?;
        let block = self.block(label)?;
        self.eat_kind(Kind::Semicolon);
        if self.kind() != Kind::End {
            return Err(self.wrong());
        }
        Ok(Body { block, conflict })
    }

    /// Whether a word of the language comes next.
    fn is_word(&self, word: &str) -> bool {
        self.is_word_behind(0, word)
    }

    fn is_word_behind(&self, count: usize, word: &str) -> bool {
        let token = self.behind(count);
        matches!(token.kind, Kind::Name | Kind::Key(_)) && self.token_text(token).eq_ignore_ascii_case(word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let fits = self.is_word(word);
        if fits {
            self.next();
        }
        fits
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.wrong()) }
    }

    fn line(&self) -> u32 {
        self.peek().from.line
    }

    /// `<<label>>`, if it comes next.
    fn label_of_block(&mut self) -> Result<Option<Name>> {
        if self.kind() != Kind::Operator || self.token_text(self.peek()) != "<<" {
            return Ok(None);
        }
        self.next();
        let label = self.folded_label()?;
        if self.kind() != Kind::Operator || self.token_text(self.peek()) != ">>" {
            return Err(self.wrong());
        }
        self.next();
        Ok(Some(label))
    }

    /// What stands behind END: the label again, or nothing.
    fn end_label(&mut self, label: Option<&Name>) -> Result<()> {
        if matches!(self.kind(), Kind::Semicolon | Kind::End) {
            return Ok(());
        }
        let token = self.peek();
        let given = self.folded_label()?;
        match label {
            Some(label) if *label == given => Ok(()),
            Some(label) => {
                let message = format!("end label \"{given}\" differs from block's label \"{label}\"");
                Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)))
            }
            None => {
                let message = format!("end label \"{given}\" specified for unlabeled block");
                Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)))
            }
        }
    }

    fn block(&mut self, label: Option<Name>) -> Result<Block> {
        self.nested(|parser| parser.block_inner(label))
    }

    fn block_inner(&mut self, label: Option<Name>) -> Result<Block> {
        let mut declared = Vec::new();
        if self.eat_word("declare") {
            while !self.is_word("begin") {
                if self.eat_word("declare") {
                    continue;
                }
                if self.kind() == Kind::End {
                    return Err(self.wrong());
                }
                declared.push(self.declaration()?);
            }
        }
        self.expect_word("begin")?;
        let body = self.statements_until(&["end", "exception"])?;
        let mut handlers = None;
        if self.eat_word("exception") {
            let mut all = Vec::new();
            while self.eat_word("when") {
                let mut conditions = vec![self.condition()?];
                while self.eat_word("or") {
                    conditions.push(self.condition()?);
                }
                self.expect_word("then")?;
                let body = self.statements_until(&["end", "when"])?;
                all.push(Handler { conditions, body });
            }
            if all.is_empty() {
                return Err(self.wrong());
            }
            handlers = Some(all);
        }
        self.expect_word("end")?;
        self.end_label(label.as_ref())?;
        Ok(Block { label, declared, body, handlers })
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.is_word("sqlstate") && Self::is_string(self.kind_behind(1)) {
            self.next();
            let token = self.peek();
            let state = self.string()?;
            let is_state = state.len() == 5 && state.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
            if !is_state {
                return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code")));
            }
            return Ok(Condition::State(state));
        }
        Ok(Condition::Named(self.folded_label()?))
    }

    fn declaration(&mut self) -> Result<Declared> {
        let line = self.line();
        let name = self.folded_label()?;
        if self.is_word("alias") && self.is_word_behind(1, "for") {
            self.next();
            self.next();
            let of = if self.kind() == Kind::Parameter {
                let token = self.next();
                vec![Name::new(self.token_text(token))]
            } else {
                let mut parts = vec![self.folded_label()?];
                while self.eat_kind(Kind::Period) {
                    parts.push(self.folded_label()?);
                }
                parts
            };
            self.expect_kind(Kind::Semicolon)?;
            return Ok(Declared { name, line, what: DeclaredAs::Alias(of) });
        }
        let is_scroll = self.is_word("scroll") && self.is_word_behind(1, "cursor");
        let is_no_scroll = self.is_word("no") && self.is_word_behind(1, "scroll");
        let is_cursor = self.is_word("cursor")
            && (self.kind_behind(1) == Kind::LeftParen
                || self.is_word_behind(1, "for")
                || self.is_word_behind(1, "is"));
        if is_scroll || is_no_scroll || is_cursor {
            let scroll = self.scroll();
            self.expect_word("cursor")?;
            let mut args = Vec::new();
            if self.kind() == Kind::LeftParen {
                args = self.in_parens(|parser| {
                    let name = parser.folded_label()?;
                    Ok((name, parser.routine_type()?))
                })?;
            }
            if !self.eat_word("for") {
                self.expect_word("is")?;
            }
            let query = self.sql_until(&[Ends::Kind(Kind::Semicolon)], true)?;
            self.expect_kind(Kind::Semicolon)?;
            return Ok(Declared { name, line, what: DeclaredAs::Cursor { scroll, args, query } });
        }
        let constant = self.eat_word("constant");
        let ty = self.variable_type()?;
        if self.eat(K::Collate) {
            self.object_name()?;
        }
        let mut not_null = false;
        if self.eat_all(&[K::Not, K::Null]) {
            not_null = true;
        }
        let mut default = None;
        if self.eat(K::Default) || self.eat_kind(Kind::Assign) || self.eat_kind(Kind::Equal) {
            default = Some(self.expr_until(&[Ends::Kind(Kind::Semicolon)])?);
        }
        if not_null && default.is_none() {
            let message = format!("variable \"{name}\" must have a default value, since it's declared NOT NULL");
            return Err(Error::new(SqlState("22004"), message));
        }
        self.expect_kind(Kind::Semicolon)?;
        Ok(Declared { name, line, what: DeclaredAs::Variable { constant, ty, not_null, default } })
    }

    fn variable_type(&mut self) -> Result<TypeGiven> {
        if matches!(self.kind(), Kind::Semicolon | Kind::Assign | Kind::Equal) {
            let message = "missing data type declaration";
            let token = self.peek();
            return Err(self.near(token, message));
        }
        self.routine_type()
    }

    /// `[NO] SCROLL`, if it comes next.
    fn scroll(&mut self) -> Option<bool> {
        if self.is_word("no") && self.is_word_behind(1, "scroll") {
            self.next();
            self.next();
            return Some(false);
        }
        self.eat_word("scroll").then_some(true)
    }

    /// An error near a token.
    fn near(&self, token: Token, what: &str) -> Error {
        if token.kind == Kind::End {
            return self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, format!("{what} at end of input")));
        }
        let message = format!("{what} at or near \"{}\"", self.token_text(token));
        self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message))
    }

    fn ends_here(&self, ends: &[Ends<'_>]) -> bool {
        ends.iter().any(|end| match end {
            Ends::Word(word) => self.is_word(word),
            Ends::Kind(kind) => self.kind() == *kind,
        })
    }

    /// Takes tokens up to one of those that end it, outside of parentheses.
    fn skip_until(&mut self, ends: &[Ends<'_>]) -> Result<()> {
        let mut depth = 0usize;
        loop {
            if depth == 0 && self.ends_here(ends) {
                return Ok(());
            }
            match self.kind() {
                Kind::End | Kind::Semicolon => {
                    if depth > 0 {
                        return Err(Error::new(SqlState::SYNTAX_ERROR, "mismatched parentheses").at(0));
                    }
                    let missing = match ends.first() {
                        Some(Ends::Word(word)) => word.to_ascii_uppercase(),
                        Some(Ends::Kind(Kind::TwoPeriods)) => "..".to_owned(),
                        Some(Ends::Kind(Kind::RightParen)) => ")".to_owned(),
                        Some(Ends::Kind(Kind::RightBracket)) => "]".to_owned(),
                        _ => ";".to_owned(),
                    };
                    let token = self.peek();
                    let message = format!("missing \"{missing}\" at end of SQL expression");
                    return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                Kind::Bad => return Err(self.wrong()),
                Kind::LeftParen | Kind::LeftBracket => depth += 1,
                Kind::RightParen | Kind::RightBracket => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return Err(Error::new(SqlState::SYNTAX_ERROR, "mismatched parentheses")),
                },
                _ => {}
            }
            self.next();
        }
    }

    /// A text of SQL as it is written.
    fn raw_until(&mut self, ends: &[Ends<'_>]) -> Result<Expr> {
        let (line, first) = (self.line(), self.peek());
        let taken = self.taken();
        self.skip_until(ends)?;
        if self.taken() == taken {
            return Err(self.near(first, "missing expression"));
        }
        Ok(Expr { text: self.text_since(taken).to_owned(), line })
    }

    /// An expression.
    fn expr_until(&mut self, ends: &[Ends<'_>]) -> Result<Expr> {
        let expr = self.raw_until(ends)?;
        check_expr(&expr)?;
        Ok(expr)
    }

    /// A statement.
    fn sql_until(&mut self, ends: &[Ends<'_>], is_query: bool) -> Result<Expr> {
        let expr = self.raw_until(ends)?;
        check_sql(&expr.text, is_query)?;
        Ok(expr)
    }

    /// `target [, target …]` behind INTO and FOR.
    fn targets(&mut self) -> Result<Vec<Target>> {
        self.list(Self::variable_target)
    }

    /// A variable, a field, or a part of an array.
    fn variable_target(&mut self) -> Result<Target> {
        let first = if self.kind() == Kind::Parameter {
            let token = self.next();
            Name::new(self.token_text(token))
        } else {
            fold(&self.label()?)
        };
        let mut target = Target { parts: vec![first], subscripts: Vec::new() };
        loop {
            if self.kind() == Kind::Period && target.subscripts.is_empty() {
                self.next();
                target.parts.push(self.folded_label()?);
            } else if self.eat_kind(Kind::LeftBracket) {
                let ends = [Ends::Kind(Kind::RightBracket), Ends::Kind(Kind::Colon)];
                let low = if self.kind() == Kind::Colon {
                    Expr { text: "1".to_owned(), line: self.line() }
                } else {
                    self.expr_until(&ends)?
                };
                let high = if self.eat_kind(Kind::Colon) {
                    Some(self.expr_until(&[Ends::Kind(Kind::RightBracket)])?)
                } else {
                    None
                };
                self.expect_kind(Kind::RightBracket)?;
                target.subscripts.push((low, high));
            } else {
                return Ok(target);
            }
        }
    }

    /// `[STRICT] target, …`
    fn into(&mut self) -> Result<Into> {
        let strict = self.eat_word("strict");
        Ok(Into { strict, targets: self.targets()? })
    }
}

/// Reads an expression for mistakes.
fn check_expr(expr: &Expr) -> Result<()> {
    check_sql(&format!("SELECT {}", expr.text), true)
}

/// Reads a statement for mistakes.
fn check_sql(text: &str, is_query: bool) -> Result<()> {
    let mut statements = crate::scan(text)?.parse().map_err(Error::without_position)?;
    match statements.pop() {
        Some(_) if statements.is_empty() => Ok(()),
        _ if is_query => Err(Error::new(SqlState::SYNTAX_ERROR, "cannot open multi-query plan as cursor")),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "a statement was expected")),
    }
}
