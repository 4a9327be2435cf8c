//! The parser's place in a text, and what every part of the grammar is made of: words, names,
//! lists.
//!
//! The grammar is read from left to right by one function for each thing that has a name in it, and
//! nothing is read twice. What a text means is decided by the next token, or by the two or three
//! behind it.
//!
//! Invariants: a function that takes something `if it comes next` takes nothing otherwise. An error
//! names the first token that no statement can have there.

use std::ops::Range;

use colibri_types::{Error, Result, pulse};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Span, Token as AttachedKind, TokenWithSpan};

use crate::errors;
use crate::keyword::{Class, Keyword as K};
use crate::lexer::Tokens;
use crate::strings;
use crate::token::{Kind, Token};
use crate::too_deep;
use crate::tree::{self, Name, QualifiedName};

/// What looking at a token takes, in units of work.
const UNITS_PER_TOKEN: usize = 8;

/// How far a text is read.
pub(crate) struct Parser<'t> {
    pub(crate) text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    lexical: Option<Error>,
    /// Calls of this parser inside each other that there may be yet.
    levels_left: usize,
    /// Whether the text is one that the catalogue keeps: it may have marks that no user may write.
    pub(crate) is_kept: bool,
    /// Whether a call comes next that OVER and the like cannot follow.
    pub(crate) is_windowless: bool,
    /// The first thing in the statement that PostgreSQL has and the tree has no room for.
    missing: Option<Error>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(tokens: Tokens<'t>, levels_max: usize) -> Self {
        let Tokens { text, list, error } = tokens;
        Self {
            text,
            tokens: list,
            at: 0,
            lexical: error,
            levels_left: levels_max,
            is_kept: false,
            is_windowless: false,
            missing: None,
        }
    }

    /// The token that comes next.
    pub(crate) fn peek(&self) -> Token {
        self.tokens[self.at]
    }

    pub(crate) fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    /// The kind of the token `count` places behind the next one.
    pub(crate) fn kind_behind(&self, count: usize) -> Kind {
        self.tokens.get(self.at + count).map_or(Kind::End, |token| token.kind)
    }

    /// The token `count` places behind the next one.
    pub(crate) fn behind(&self, count: usize) -> Token {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    /// Takes the next token; the last one is never taken.
    pub(crate) fn next(&mut self) -> Token {
        let token = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        // Whether it was cancelled is found out where something may fail.
        pulse::note(UNITS_PER_TOKEN);
        token
    }

    /// The token that was taken last.
    pub(crate) fn last(&self) -> Token {
        self.tokens[self.at.saturating_sub(1)]
    }

    /// How many tokens are taken.
    pub(crate) fn taken(&self) -> usize {
        self.at
    }

    pub(crate) fn token_text(&self, token: Token) -> &'t str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// The text from a token that is taken up to the last one.
    pub(crate) fn text_since(&self, taken: usize) -> &'t str {
        &self.text[self.bytes_since(taken)]
    }

    pub(crate) fn is_next(&self, word: K) -> bool {
        self.kind() == Kind::Key(word)
    }

    /// Whether these words come next.
    pub(crate) fn are_next(&self, words: &[K]) -> bool {
        words.iter().enumerate().all(|(index, &word)| self.kind_behind(index) == Kind::Key(word))
    }

    /// Whether a word comes next that PostgreSQL's grammar has no keyword for.
    pub(crate) fn is_name_next(&self, name: &str) -> bool {
        self.kind() == Kind::Name && self.token_text(self.peek()).eq_ignore_ascii_case(name)
    }

    /// Takes a word if it comes next.
    pub(crate) fn eat(&mut self, word: K) -> bool {
        let fits = self.is_next(word);
        if fits {
            self.next();
        }
        fits
    }

    /// Takes the first of some words that comes next; gives its place among them.
    pub(crate) fn eat_any(&mut self, words: &[K]) -> Option<usize> {
        words.iter().position(|&word| self.eat(word))
    }

    /// Takes a word that PostgreSQL's grammar has no keyword for, if it comes next.
    pub(crate) fn eat_name(&mut self, name: &str) -> bool {
        let fits = self.is_name_next(name);
        if fits {
            self.next();
        }
        fits
    }

    /// Takes words if all of them come next.
    pub(crate) fn eat_all(&mut self, words: &[K]) -> bool {
        let fits = self.are_next(words);
        if fits {
            words.iter().for_each(|_| _ = self.next());
        }
        fits
    }

    pub(crate) fn eat_kind(&mut self, kind: Kind) -> bool {
        let fits = self.kind() == kind;
        if fits {
            self.next();
        }
        fits
    }

    pub(crate) fn expect(&mut self, word: K) -> Result<Token> {
        if self.is_next(word) { Ok(self.next()) } else { Err(self.wrong()) }
    }

    pub(crate) fn expect_all(&mut self, words: &[K]) -> Result<()> {
        words.iter().try_for_each(|&word| self.expect(word).map(drop))
    }

    pub(crate) fn expect_kind(&mut self, kind: Kind) -> Result<Token> {
        if self.kind() == kind { Ok(self.next()) } else { Err(self.wrong()) }
    }

    /// The error that the next token cannot stand where it does.
    #[cold]
    pub(crate) fn wrong(&self) -> Error {
        self.wrong_at(self.peek())
    }

    #[cold]
    pub(crate) fn wrong_at(&self, token: Token) -> Error {
        let (start, end) = (token.start as usize, token.end as usize);
        match (token.kind, &self.lexical) {
            (Kind::Bad, Some(error)) => error.clone(),
            (Kind::End, _) => errors::at_end(self.text, start),
            _ => errors::error_near(self.text, start, end, "syntax error"),
        }
    }

    /// An error at a token.
    #[cold]
    pub(crate) fn error_at(&self, token: Token, error: Error) -> Error {
        error.at(errors::position(self.text, token.start as usize))
    }

    /// Where a token stands in the text, in characters from 1.
    pub(crate) fn place_of(&self, token: Token) -> u32 {
        errors::position(self.text, token.start as usize)
    }

    /// Notes that the statement has something that is not supported. Reading goes on: a mistake
    /// further down is told instead.
    #[cold]
    pub(crate) fn not_supported(&mut self, token: Token, what: &str) {
        if self.missing.is_none() {
            self.missing = Some(self.error_at(token, Error::unsupported(what)));
        }
    }

    /// Notes an error that is told unless there is a mistake further down.
    #[cold]
    pub(crate) fn note_error(&mut self, error: Error) {
        self.missing.get_or_insert(error);
    }

    /// What was noted since the last call.
    pub(crate) fn take_noted(&mut self) -> Option<Error> {
        self.missing.take()
    }

    /// Reads something inside of something else, unless that is too deep.
    pub(crate) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or_else(too_deep)?;
        pulse::work(UNITS_PER_TOKEN)?;
        let got = read(self);
        self.levels_left += 1;
        got
    }

    /// One item, or several with commas between them.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_kind(Kind::Comma) {
            pulse::work(UNITS_PER_TOKEN)?;
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A list in parentheses.
    pub(crate) fn in_parens<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_kind(Kind::LeftParen)?;
        let items = self.list(item)?;
        self.expect_kind(Kind::RightParen)?;
        Ok(items)
    }

    /// A list in parentheses if one comes next.
    pub(crate) fn maybe_in_parens<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.kind() == Kind::LeftParen { self.in_parens(item) } else { Ok(Vec::new()) }
    }

    pub(crate) fn attached(&self, token: Token) -> AttachedToken {
        AttachedToken(TokenWithSpan { token: AttachedKind::EOF, span: token.span() })
    }

    /// The name that a token is.
    pub(crate) fn ident_of(&mut self, token: Token) -> Result<Ident> {
        let (value, quote_style) = match token.kind {
            Kind::QuotedName => (strings::text_of(self.text, &token), Some('"')),
            Kind::UnicodeName => (self.unicode_text(token)?, Some('"')),
            _ => (self.token_text(token).to_owned(), None),
        };
        Ok(Ident { value, quote_style, span: token.span() })
    }

    /// The text of `U&'…'` or `U&"…"`, with the UESCAPE behind it.
    pub(crate) fn unicode_text(&mut self, token: Token) -> Result<String> {
        let text = strings::text_of(self.text, &token);
        let escape = if self.eat(K::Uescape) { self.escape_character()? } else { '\\' };
        strings::unicode(self.text, token.start as usize, &text, escape)
    }

    fn escape_character(&mut self) -> Result<char> {
        let token = self.peek();
        let near = |what: &str| errors::error_near(self.text, token.start as usize, token.end as usize, what);
        if token.kind != Kind::String {
            return Err(near("UESCAPE must be followed by a simple string literal"));
        }
        let escape = strings::may_escape(&strings::text_of(self.text, &token));
        let escape = escape.ok_or_else(|| near("invalid Unicode escape character"))?;
        self.next();
        Ok(escape)
    }

    /// Whether a token may be the name of a table, a column, or of most other things.
    pub(crate) fn is_column_name(kind: Kind) -> bool {
        match kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
            Kind::Key(word) => matches!(word.class(), Class::Unreserved | Class::ColumnName),
            _ => false,
        }
    }

    /// Whether a token may be the name of a function or a type.
    pub(crate) fn is_type_name(kind: Kind) -> bool {
        match kind {
            Kind::Name | Kind::QuotedName | Kind::UnicodeName => true,
            Kind::Key(word) => matches!(word.class(), Class::Unreserved | Class::TypeOrFunction),
            _ => false,
        }
    }

    pub(crate) fn is_label(kind: Kind) -> bool {
        matches!(kind, Kind::Name | Kind::QuotedName | Kind::UnicodeName | Kind::Key(_))
    }

    /// The name of a table, a column, or of most other things.
    pub(crate) fn name(&mut self) -> Result<Ident> {
        if !Self::is_column_name(self.kind()) {
            return Err(self.wrong());
        }
        let token = self.next();
        self.ident_of(token)
    }

    /// A name that may be any word.
    pub(crate) fn label(&mut self) -> Result<Ident> {
        if !Self::is_label(self.kind()) {
            return Err(self.wrong());
        }
        let token = self.next();
        self.ident_of(token)
    }

    /// The name of an object, with the schema's in front of it or without.
    pub(crate) fn object_name(&mut self) -> Result<ObjectName> {
        let first = self.name()?;
        self.rest_of_name(first)
    }

    /// What follows the first part of a name.
    pub(crate) fn rest_of_name(&mut self, first: Ident) -> Result<ObjectName> {
        let mut parts = vec![ObjectNamePart::Identifier(first)];
        while self.eat_kind(Kind::Period) {
            parts.push(ObjectNamePart::Identifier(self.label()?));
        }
        Ok(ObjectName(parts))
    }

    /// The name of most things, as the catalogue has it.
    pub(crate) fn folded(&mut self) -> Result<Name> {
        self.name().map(|name| tree::fold(&name))
    }

    /// A name that may be any word, as the catalogue has it.
    pub(crate) fn folded_label(&mut self) -> Result<Name> {
        self.label().map(|name| tree::fold(&name))
    }

    /// A word that is not reserved, or a name in quotes.
    pub(crate) fn is_unreserved(kind: Kind) -> bool {
        Self::is_column_name(kind) || Self::is_type_name(kind)
    }

    /// The same, with names in front of its points.
    pub(crate) fn qualified(&mut self) -> Result<QualifiedName> {
        let mut parts = vec![self.folded()?];
        while self.eat_kind(Kind::Period) {
            parts.push(self.folded_label()?);
        }
        Ok(parts)
    }

    /// Names of columns in parentheses.
    pub(crate) fn column_names(&mut self) -> Result<Vec<Ident>> {
        self.in_parens(Self::name)
    }

    /// A name that stands for something that only the binder knows.
    pub(crate) fn mark(text: &str, span: Span) -> Ident {
        Ident { value: text.to_owned(), quote_style: Some('"'), span }
    }

    /// Whether a token is a string of the kinds that may stand anywhere.
    pub(crate) fn is_string(kind: Kind) -> bool {
        matches!(kind, Kind::String | Kind::EscapeString | Kind::UnicodeString | Kind::DollarString)
    }

    /// A string.
    pub(crate) fn string(&mut self) -> Result<String> {
        if !Self::is_string(self.kind()) {
            return Err(self.wrong());
        }
        let token = self.next();
        match token.kind {
            Kind::UnicodeString => self.unicode_text(token),
            _ => Ok(strings::text_of(self.text, &token)),
        }
    }

    /// A number of 32 bits.
    pub(crate) fn integer(&mut self) -> Result<i32> {
        let is_negative = self.eat_kind(Kind::Minus);
        if self.kind() != Kind::Integer {
            return Err(self.wrong());
        }
        let number: i32 = self.token_text(self.peek()).parse().map_err(|_| self.wrong())?;
        self.next();
        Ok(if is_negative { -number } else { number })
    }

    /// A number with a sign or without, as it is written but for a plus.
    pub(crate) fn signed_text(&mut self) -> Result<String> {
        let sign = if self.eat_kind(Kind::Minus) { "-" } else { "" };
        if sign.is_empty() {
            self.eat_kind(Kind::Plus);
        }
        if !matches!(self.kind(), Kind::Integer | Kind::Decimal) {
            return Err(self.wrong());
        }
        let token = self.next();
        Ok(format!("{sign}{}", self.token_text(token)))
    }

    /// Whether the statement is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.kind(), Kind::Semicolon | Kind::End)
    }

    /// The bytes from a token that is taken up to the last one.
    pub(crate) fn bytes_since(&self, taken: usize) -> Range<usize> {
        let start = self.tokens[taken].start as usize;
        start..(self.last().end as usize).max(start)
    }

    /// A number without a sign.
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        let token = self.peek();
        let number = match token.kind {
            Kind::Integer => self.token_text(token).parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.wrong())?;
        self.next();
        Ok(number)
    }
}
