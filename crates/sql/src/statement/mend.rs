//! Tokens mended between tokenizer and parser, where the parser does not know PostgreSQL's grammar.
//!
//! What is put in or taken out leaves the places of all other tokens alone, so that errors point to the text as it was
//! written. Some marks are spelled in ways that PostgreSQL does not know and that are refused when a user writes them:
//!
//! | written | mended |
//! | --- | --- |
//! | `BETWEEN SYMMETRIC a AND b` | `BETWEEN !! a AND b` |
//! | `INSERT INTO t OVERRIDING SYSTEM VALUE` | `INSERT INTO TABLE t` |
//! | `INSERT INTO t OVERRIDING USER VALUE` | `INSERT OVERWRITE INTO t` |
//! | `CREATE TABLE t (a, b) AS` | `CREATE TABLE t (a mark, b mark) AS` |
//! | `FOR UPDATE OF a, b` | `FOR UPDATE OF mark.a.b` |
//! | `WHERE CURRENT OF c` | `WHERE mark.c` |
//! | `AS IDENTITY (START 5)` | `AS IDENTITY (START mark (START 5))` |
//! | `ALTER a SET GENERATED ALWAYS` | `ALTER a ADD GENERATED AS IDENTITY (START mark SET …)` |
//! | `CREATE RECURSIVE VIEW` | `CREATE SECURE VIEW` |
//! | `FOR NO KEY UPDATE`, `FOR KEY SHARE OF a` | `FOR UPDATE OF mark`, `FOR SHARE OF mark.a` |

use colibri_types::{Error, Result, SqlState, keywords::is_reserved};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

use super::{Walker, position};

mod definitions;

enum Edit {
    Remove,
    Replace(Token),
    InsertBefore(Vec<Token>),
}

struct Mender<'t> {
    text: &'t str,
    tokens: &'t [TokenWithSpan],
    /// Places of the tokens that are not blanks or comments.
    solid: Vec<usize>,
    edits: Vec<(usize, Edit)>,
}

/// Mends a list of tokens.
///
/// # Errors
/// 42601 for what the parser lets through and PostgreSQL does not.
pub(super) fn mend(text: &str, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let solid =
        tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_))).map(|(at, _)| at);
    let mut mender = Mender { text, tokens: &tokens, solid: solid.collect(), edits: Vec::new() };
    mender.scan()?;
    let mut edits = mender.edits;
    if edits.is_empty() {
        return Ok(tokens);
    }
    edits.sort_by_key(|(at, _)| *at);
    let mut edits = edits.into_iter().peekable();
    let mut mended = Vec::with_capacity(tokens.len() + 8);
    for (at, token) in tokens.into_iter().enumerate() {
        let mut kept = Some(token);
        while let Some((_, edit)) = edits.next_if(|(place, _)| *place == at) {
            let Some(token) = &mut kept else { continue };
            match edit {
                Edit::Remove => kept = None,
                Edit::Replace(by) => token.token = by,
                Edit::InsertBefore(new) => {
                    let span = token.span;
                    mended.extend(new.into_iter().map(|token| TokenWithSpan { token, span }));
                }
            }
        }
        mended.extend(kept);
    }
    Ok(mended)
}

fn word(keyword: Keyword, value: &str) -> Token {
    Token::Word(Word { value: value.to_owned(), quote_style: None, keyword })
}

impl Mender<'_> {
    /// The token that is so many solid ones from the start of the text.
    fn token(&self, nth: usize) -> &Token {
        self.solid.get(nth).map_or(&Token::EOF, |&at| &self.tokens[at].token)
    }

    fn is(&self, nth: usize, name: &str) -> bool {
        matches!(self.token(nth), Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
    }

    fn are(&self, nth: usize, names: &[&str]) -> bool {
        names.iter().enumerate().all(|(index, name)| self.is(nth + index, name))
    }

    fn edit(&mut self, nth: usize, edit: Edit) {
        if let Some(&at) = self.solid.get(nth) {
            self.edits.push((at, edit));
        }
    }

    fn refuse(&self, nth: usize) -> Error {
        let error = Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{}\"", self.token(nth)));
        match self.solid.get(nth) {
            Some(&at) => error.at(position(self.text, self.tokens[at].span.start)),
            None => error,
        }
    }

    fn scan(&mut self) -> Result<()> {
        let mut start = 0;
        let mut walker = Walker { text: self.text, line: 1, column: 1, byte: 0 };
        for nth in 0..self.solid.len() {
            match self.token(nth) {
                Token::SemiColon => start = nth + 1,
                Token::Number(..) | Token::Placeholder(_) => {
                    let (this, next) = (self.solid[nth], self.solid[nth] + 1);
                    // `1x`, `1e`: PostgreSQL wants a blank between.
                    if let Some(after) = self.tokens.get(next)
                        && matches!(&after.token, Token::Word(word) if word.quote_style.is_none())
                        && self.tokens[this].span.end == after.span.start
                    {
                        return Err(self.junk(nth));
                    }
                }
                Token::HexStringLiteral(_) => {
                    let at = walker.byte_of(self.tokens[self.solid[nth]].span.start);
                    if self.text[at..].starts_with('0') {
                        return Err(self.junk(nth));
                    }
                }
                Token::DollarQuotedString(text)
                    if text.tag.as_ref().is_some_and(|tag| tag.starts_with(|c: char| c.is_ascii_digit())) =>
                {
                    return Err(self.junk(nth));
                }
                Token::Word(word) if word.quote_style.is_some() && word.value.is_empty() => {
                    let error =
                        Error::new(SqlState::SYNTAX_ERROR, "zero-length delimited identifier at or near \"\"\"\"");
                    return Err(error.at(position(self.text, self.tokens[self.solid[nth]].span.start)));
                }
                Token::LParen if nth == start || *self.token(nth - 1) != Token::LParen => {
                    self.query_operand(nth, start)
                }
                Token::SingleQuotedString(_) => self.string(nth, start)?,
                // A view's text, as it is kept, has the mark already.
                Token::DoubleExclamationMark if nth == 0 || !self.is(nth - 1, "BETWEEN") => {
                    let error = colibri_types::resolve::no_operator("!!", true);
                    return Err(error.at(position(self.text, self.tokens[self.solid[nth]].span.start)));
                }
                // The parser takes `==` for `=`.
                Token::DoubleEq => {
                    self.edit(nth, Edit::Replace(Token::CustomBinaryOperator("==".to_owned())));
                    if *self.token(nth + 1) == Token::Eq {
                        self.edit(nth + 1, Edit::Remove);
                    }
                }
                Token::Word(word) if word.quote_style.is_none() => self.word(nth, start, word.keyword)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn junk(&self, nth: usize) -> Error {
        let message = format!("trailing junk after numeric literal at or near \"{}\"", self.token(nth));
        Error::new(SqlState::SYNTAX_ERROR, message).at(position(self.text, self.tokens[self.solid[nth]].span.start))
    }

    /// Strings one after the other are one if a line ends between them, and an error if not.
    fn string(&mut self, nth: usize, start: usize) -> Result<()> {
        let is_query =
            ["SELECT", "VALUES", "WITH", "INSERT", "UPDATE", "DELETE", "TABLE"].iter().any(|name| self.is(start, name));
        if nth == start {
            return Ok(());
        }
        if is_query && self.is(nth - 1, "AS") {
            return Err(self.refuse(nth));
        }
        let mut text = match self.token(nth - 1) {
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_) => {
                String::new()
            }
            _ => return Ok(()),
        };
        let between = &self.tokens[self.solid[nth - 1] + 1..self.solid[nth]];
        let continues = between.iter().any(|token| {
            matches!(&token.token, Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }))
        });
        if !continues {
            return if is_query { Err(self.refuse(nth)) } else { Ok(()) };
        }
        // The first of them takes all texts; the others go.
        let mut first = nth - 1;
        while first > start
            && matches!(self.token(first), Token::SingleQuotedString(_))
            && matches!(self.token(first - 1), Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_))
        {
            first -= 1;
        }
        for part in first..=nth {
            if let Token::SingleQuotedString(part)
            | Token::EscapedStringLiteral(part)
            | Token::UnicodeStringLiteral(part) = self.token(part)
            {
                text.push_str(part);
            }
        }
        let at = self.solid[first];
        self.edits.retain(|(place, _)| *place != at);
        self.edit(first, Edit::Replace(Token::SingleQuotedString(text)));
        self.edit(nth, Edit::Remove);
        Ok(())
    }

    fn word(&mut self, nth: usize, start: usize, keyword: Keyword) -> Result<()> {
        if self.would_be_lost(nth, start) {
            return Err(self.refuse(nth));
        }
        match keyword {
            Keyword::BETWEEN if self.is(nth + 1, "SYMMETRIC") => {
                self.edit(nth + 1, Edit::Replace(Token::DoubleExclamationMark));
            }
            Keyword::BETWEEN if self.is(nth + 1, "ASYMMETRIC") => self.edit(nth + 1, Edit::Remove),
            Keyword::ANY | Keyword::ALL | Keyword::SOME | Keyword::IN
                if *self.token(nth + 1) == Token::LParen && self.is(nth + 2, "VALUES") =>
            {
                self.as_derived(nth + 1);
            }
            Keyword::IN if *self.token(nth + 1) == Token::LParen && *self.token(nth + 2) == Token::LParen => {
                self.query_first_in_list(nth + 2);
            }
            Keyword::TRIM if *self.token(nth + 1) == Token::LParen => {
                let sided = ["BOTH", "LEADING", "TRAILING"].iter().any(|side| self.is(nth + 2, side));
                let from = nth + 2 + usize::from(sided);
                if self.is(from, "FROM") {
                    self.edit(from, Edit::InsertBefore(vec![Token::SingleQuotedString(" ".to_owned())]));
                }
            }
            Keyword::SUBSTRING if *self.token(nth + 1) == Token::LParen => self.substring_similar(nth + 1),
            Keyword::INTERVAL if *self.token(nth + 1) == Token::LParen => self.interval_with_digits(nth),
            // No table has others that inherit from it.
            Keyword::ONLY
                if matches!(self.token(nth + 1), Token::Word(_))
                    && (nth == start + 1 && self.is(start, "UPDATE")
                        || nth == start + 2 && self.are(start, &["DELETE", "FROM"])) =>
            {
                self.edit(nth, Edit::Remove);
            }
            Keyword::RECURSIVE if self.is(nth + 1, "VIEW") && self.is(start, "CREATE") => {
                self.edit(nth, Edit::Replace(word(Keyword::SECURE, "SECURE")));
            }
            Keyword::SECURE if self.is(nth + 1, "VIEW") && self.is(start, "CREATE") => return Err(self.refuse(nth)),
            Keyword::SEARCH | Keyword::CYCLE if nth > start && *self.token(nth - 1) == Token::RParen => {
                self.search_or_cycle(nth)?;
            }
            Keyword::RESET if nth == start && self.are(nth + 1, &["TIME", "ZONE"]) => {
                self.edit(nth + 1, Edit::Replace(word(Keyword::NoKeyword, "timezone")));
                self.edit(nth + 2, Edit::Remove);
            }
            // The parser knows truth by these words only.
            Keyword::FREEZE | Keyword::HEADER if self.is(start, "COPY") && self.is(nth + 1, "ON") => {
                self.edit(nth + 1, Edit::Replace(word(Keyword::TRUE, "TRUE")));
            }
            Keyword::FREEZE | Keyword::HEADER if self.is(start, "COPY") && self.is(nth + 1, "OFF") => {
                self.edit(nth + 1, Edit::Replace(word(Keyword::FALSE, "FALSE")));
            }
            Keyword::FOR => self.lock_clause(nth, start)?,
            Keyword::CURRENT if self.is(nth + 1, "OF") && nth > start && self.is(nth - 1, "WHERE") => {
                self.current_of(nth, start)?;
            }
            Keyword::INSERT if !self.is(nth + 1, "INTO") && self.follows_statement(nth, start) => {
                return Err(self.refuse(nth + 1));
            }
            Keyword::INSERT if self.is(nth + 2, "TABLE") && self.follows_statement(nth, start) => {
                return Err(self.refuse(nth + 2));
            }
            Keyword::INSERT => {
                self.overriding(nth);
                self.enclose_source(nth);
            }
            Keyword::REINDEX if nth == start => self.reindex(nth),
            Keyword::TABLE if self.starts_query(nth, start) => {
                // TABLE t is SELECT * FROM t.
                self.edit(nth, Edit::Replace(word(Keyword::SELECT, "SELECT")));
                self.edit(nth + 1, Edit::InsertBefore(vec![Token::Mul, word(Keyword::FROM, "FROM")]));
            }
            // The parser takes a plain number here, and any expression behind LIMIT.
            Keyword::FETCH
                if (self.is(nth + 1, "FIRST") || self.is(nth + 1, "NEXT")) && *self.token(nth + 2) == Token::LParen =>
            {
                let close = self.close_of(nth + 2);
                let rows = self.is(close + 1, "ROW") || self.is(close + 1, "ROWS");
                if rows && self.is(close + 2, "ONLY") {
                    self.edit(nth, Edit::Replace(word(Keyword::LIMIT, "LIMIT")));
                    self.edit(nth + 1, Edit::Remove);
                    self.edit(close + 1, Edit::Remove);
                    self.edit(close + 2, Edit::Remove);
                }
            }
            // `ROWS FROM (f(), g())` is a function of functions to the parser.
            Keyword::ROWS if self.is(nth + 1, "FROM") && *self.token(nth + 2) == Token::LParen => {
                let name =
                    Word { value: super::ROWS_FROM.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
                self.edit(nth, Edit::Replace(Token::Word(name)));
                self.edit(nth + 1, Edit::Remove);
            }
            Keyword::NOTNULL => self.null_test(nth, start, true),
            Keyword::NoKeyword if self.is(nth, "ISNULL") => self.null_test(nth, start, false),
            Keyword::AS
                if self.is(start, "CREATE")
                    && !self.is(start + 1, "VIEW")
                    && (start..start + 4).any(|at| self.is(at, "TABLE"))
                    && *self.token(nth - 1) == Token::RParen
                    // It is the first one, and not that of a WITH query.
                    && !(start..nth.min(start + 14)).any(|at| self.is(at, "AS")) =>
            {
                self.column_names(nth - 1)
            }
            Keyword::INTO if self.is(start, "SELECT") => self.select_into(nth, start),
            Keyword::WITH if self.is(start, "CREATE") && *self.token(nth + 1) == Token::LParen => {
                self.storage_parameters(nth + 2);
            }
            Keyword::SET if self.is(start, "ALTER") && *self.token(nth + 1) == Token::LParen => {
                self.storage_parameters(nth + 2);
            }
            // ON DELETE SET NULL (column): the parser does not know it.
            Keyword::NULL | Keyword::DEFAULT
                if nth >= start + 3
                    && *self.token(nth + 1) == Token::LParen
                    && self.is(nth - 1, "SET")
                    && (self.are(nth - 3, &["ON", "DELETE"]) || self.are(nth - 3, &["ON", "UPDATE"])) =>
            {
                return Err(Error::unsupported("a column list of SET NULL or SET DEFAULT"));
            }
            Keyword::IDENTITY if *self.token(nth + 1) == Token::LParen && self.is(nth - 1, "AS") => {
                let close = self.close_of(nth + 1);
                if *self.token(close) != Token::RParen || close == nth + 2 {
                    return Err(self.refuse(close));
                }
                self.identity(nth + 1, close + 1, vec![Token::LParen], vec![Token::RParen]);
            }
            Keyword::ALTER if nth > start && self.are(start, &["ALTER", "TABLE"]) => self.identity_change(nth),
            _ => {}
        }
        Ok(())
    }

    /// `substring(a SIMILAR b ESCAPE c)` is `substring(a, b, c)`.
    fn substring_similar(&mut self, open: usize) {
        self.substring_for_from(open);
        let mut depth = 0;
        for at in open..self.close_of(open) {
            match self.token(at) {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ if depth == 1 && self.is(at, "SIMILAR") && !self.is(at + 1, "TO") => {
                    self.edit(at, Edit::Replace(Token::Comma));
                }
                _ if depth == 1 && self.is(at, "ESCAPE") => {
                    let is_similar = (open + 1..at).any(|at| self.is(at, "SIMILAR") && !self.is(at + 1, "TO"));
                    if is_similar {
                        self.edit(at, Edit::Replace(Token::Comma));
                    }
                }
                _ => {}
            }
        }
    }

    /// `substring(a FOR b FROM c)` is `substring(a FROM c FOR b)`.
    fn substring_for_from(&mut self, open: usize) {
        let close = self.close_of(open);
        let mut depth = 0;
        let (mut length, mut start) = (None, None);
        for at in open..close {
            match self.token(at) {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ if depth == 1 && self.is(at, "FOR") => length = length.or(Some(at)),
                _ if depth == 1 && self.is(at, "FROM") => start = start.or(Some(at)),
                _ => {}
            }
        }
        let (Some(length), Some(start)) = (length, start) else { return };
        // An operand is a tree of its own, in which FROM stands behind DISTINCT alone.
        if length < start && !self.is(start - 1, "DISTINCT") {
            let turned: Vec<Token> = (start..close).chain(length..start).map(|at| self.token(at).clone()).collect();
            for (at, token) in (length..close).zip(turned) {
                self.edit(at, Edit::Replace(token));
            }
        }
    }

    /// `interval(2) '1.5'` is `CAST('1.5' AS interval(2))`.
    fn interval_with_digits(&mut self, nth: usize) {
        let (digits, text) = (self.token(nth + 2).clone(), self.token(nth + 4).clone());
        let is_literal = matches!(digits, Token::Number(..))
            && *self.token(nth + 3) == Token::RParen
            && matches!(text, Token::SingleQuotedString(_));
        if !is_literal {
            return;
        }
        self.edit(nth, Edit::Replace(word(Keyword::CAST, "CAST")));
        self.edit(nth + 2, Edit::Replace(text));
        self.edit(nth + 3, Edit::Replace(word(Keyword::AS, "AS")));
        let interval = word(Keyword::INTERVAL, "INTERVAL");
        self.edit(nth + 4, Edit::InsertBefore(vec![interval, Token::LParen, digits, Token::RParen]));
        self.edit(nth + 4, Edit::Replace(Token::RParen));
    }

    /// Whether a word is an option of a column in other dialects: the parser takes it away before it looks at the dialect, and
    /// goes on as if nothing had been there.
    fn would_be_lost(&self, nth: usize, start: usize) -> bool {
        const WORDS: [&str; 7] = ["AUTO_INCREMENT", "AUTOINCREMENT", "ASC", "DESC", "SRID", "IDENTITY", "AS"];
        let creates = self.is(start, "CREATE") && (start..start + 4).any(|at| self.is(at, "TABLE"));
        let alters = self.are(start, &["ALTER", "TABLE"]);
        let is_option = WORDS.iter().any(|word| self.is(nth, word)) || self.are(nth, &["ON", "UPDATE"]);
        if !(creates || alters) || !is_option || nth == start {
            return false;
        }
        let ends = |at: usize| matches!(self.token(at), Token::Comma | Token::RParen | Token::EOF | Token::SemiColon);
        let is_alone = match () {
            () if self.is(nth, "AS") => ends(nth + 1),
            () if self.is(nth, "ON") => ends(nth + 2),
            () if self.is(nth, "IDENTITY") => !["AS", "DROP"].iter().any(|before| self.is(nth - 1, before)),
            () => true,
        };
        let is_name = matches!(self.token(nth - 1), Token::LParen | Token::Comma | Token::Period)
            || ["COLUMN", "ADD", "DROP", "TO"].iter().any(|before| self.is(nth - 1, before));
        is_alone && !is_name && self.is_in_columns(nth, start, creates)
    }

    /// Whether a word stands in a list of columns, and not in parentheses inside that, nor in a query.
    fn is_in_columns(&self, nth: usize, start: usize, creates: bool) -> bool {
        let mut depth = 0usize;
        for at in (start..nth).rev() {
            match self.token(at) {
                Token::RParen => depth += 1,
                Token::LParen if depth == 0 => {
                    return creates
                        && !self.is(at - 1, "AS")
                        && !self.is(at + 1, "SELECT")
                        && !self.has_open(at, start);
                }
                Token::LParen => depth -= 1,
                _ => {}
            }
        }
        !creates
    }

    fn has_open(&self, nth: usize, start: usize) -> bool {
        let depth = (start..nth).fold(0i32, |depth, at| match self.token(at) {
            Token::LParen => depth + 1,
            Token::RParen => depth - 1,
            _ => depth,
        });
        depth > 0
    }

    /// Whether a keyword begins a statement that writes, rather than being a privilege, an event or a name.
    fn follows_statement(&self, nth: usize, start: usize) -> bool {
        nth == start || (self.is(start, "WITH") && matches!(self.token(nth - 1), Token::RParen | Token::LParen))
    }

    fn starts_query(&self, nth: usize, start: usize) -> bool {
        let named = matches!(self.token(nth + 1), Token::Word(_));
        named
            && (nth == start
                || ["UNION", "INTERSECT", "EXCEPT", "ALL"].iter().any(|name| self.is(nth - 1, name))
                || (*self.token(nth - 1) == Token::LParen && !self.is(start, "ALTER") && !self.is(start, "CREATE")))
    }

    /// `a ISNULL` is `a IS NULL`.
    fn null_test(&mut self, nth: usize, start: usize, negated: bool) {
        let is_name = nth == start || self.is(nth - 1, "AS") || *self.token(nth - 1) == Token::Period;
        if is_name {
            return;
        }
        let mut before = vec![word(Keyword::IS, "IS")];
        if negated {
            before.push(word(Keyword::NOT, "NOT"));
        }
        self.edit(nth, Edit::InsertBefore(before));
        self.edit(nth, Edit::Replace(word(Keyword::NULL, "NULL")));
    }

    /// The parenthesis that closes one.
    fn close_of(&self, open: usize) -> usize {
        let mut depth = 0usize;
        let mut at = open;
        loop {
            match self.token(at) {
                Token::LParen => depth += 1,
                Token::RParen if depth <= 1 => return at,
                Token::RParen => depth -= 1,
                Token::EOF | Token::SemiColon => return at,
                _ => {}
            }
            at += 1;
        }
    }

    /// `(VALUES …)` is `(SELECT * FROM (VALUES …) AS v)`, and so is any other query in parentheses.
    fn as_derived(&mut self, open: usize) {
        let close = self.close_of(open);
        let before = vec![word(Keyword::SELECT, "SELECT"), Token::Mul, word(Keyword::FROM, "FROM"), Token::LParen];
        self.edit(open + 1, Edit::InsertBefore(before));
        let behind = vec![Token::RParen, word(Keyword::AS, "AS"), word(Keyword::NoKeyword, "v")];
        self.edit(close, Edit::InsertBefore(behind));
    }

    /// A query in parentheses at the front of a list of IN is taken for all there is, unless something stands around it.
    fn query_first_in_list(&mut self, open: usize) {
        let mut first = open;
        while *self.token(first) == Token::LParen {
            first += 1;
        }
        let close = self.close_of(open);
        let is_query = ["SELECT", "VALUES", "WITH"].iter().any(|name| self.is(first, name));
        if is_query && !matches!(self.token(close + 1), Token::RParen) && !self.continues_query(close + 1) {
            self.edit(open, Edit::InsertBefore(vec![word(Keyword::NoKeyword, "coalesce"), Token::LParen]));
            self.edit(close + 1, Edit::InsertBefore(vec![Token::RParen]));
        }
    }

    /// Whether what follows a query in parentheses makes a larger query of it.
    fn continues_query(&self, nth: usize) -> bool {
        ["UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"]
            .iter()
            .any(|name| self.is(nth, name))
    }

    /// A query in parentheses as an operand that does not begin with SELECT, such as `((SELECT 1) UNION (SELECT 2)) IS NULL`
    /// or `1 + (VALUES (2))`, is said by one that does. The parser knows such queries elsewhere: where a statement or a side
    /// of a set operation begins, in FROM, behind EXISTS and the like.
    fn query_operand(&mut self, open: usize, start: usize) {
        let elsewhere = [
            "FROM",
            "JOIN",
            "LATERAL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "DISTINCT",
            "AS",
            "EXISTS",
            "IN",
            "ARRAY",
            "EXPLAIN",
            "ANALYZE",
            "VERBOSE",
            "COPY",
            "USING",
            "MATERIALIZED",
        ];
        if open == start || elsewhere.iter().any(|word| self.is(open - 1, word)) {
            return;
        }
        let follows_set = self.is(open - 1, "ALL")
            && open > start + 1
            && ["UNION", "INTERSECT", "EXCEPT"].iter().any(|word| self.is(open - 2, word));
        if follows_set {
            return;
        }
        let is_quantified = ["ANY", "SOME", "ALL"].iter().any(|word| self.is(open - 1, word));
        let mut first = open;
        while *self.token(first) == Token::LParen {
            first += 1;
        }
        if !["SELECT", "VALUES", "WITH", "TABLE"].iter().any(|word| self.is(first, word))
            || self.is_in_from(open, start)
        {
            return;
        }
        // Behind a name, the first one is a call's, a list's of columns, or an INSERT's query.
        let follows_name = matches!(self.token(open - 1), Token::RParen)
            || matches!(self.token(open - 1), Token::Word(word) if word.quote_style.is_some() || !is_reserved(&word.value));
        let from = open + usize::from(follows_name);
        let outermost = (from..first).find(|&at| {
            at + 1 < first && *self.token(self.close_of(at + 1)) == Token::RParen && {
                let behind = self.close_of(at + 1) + 1;
                self.continues_query(behind)
            }
        });
        if let Some(open) = outermost {
            self.as_derived(open);
        } else if from < first && self.is(first, "VALUES") && !self.is(start, "INSERT") && !is_quantified {
            self.as_derived(first - 1);
        }
    }

    /// Whether something behind a comma is a member of FROM.
    fn is_in_from(&self, nth: usize, start: usize) -> bool {
        let mut depth = 0usize;
        let mut at = nth;
        while at > start && (at < nth || *self.token(at - 1) == Token::Comma) {
            at -= 1;
            match self.token(at) {
                Token::RParen => depth += 1,
                Token::LParen if depth == 0 => return false,
                Token::LParen => depth -= 1,
                Token::Word(word) if depth == 0 => match word.keyword {
                    Keyword::FROM | Keyword::USING => return true,
                    Keyword::SELECT | Keyword::WHERE | Keyword::BY | Keyword::SET | Keyword::VALUES => return false,
                    Keyword::RETURNING | Keyword::HAVING | Keyword::LIMIT => return false,
                    _ => {}
                },
                _ => {}
            }
        }
        false
    }

    fn overriding(&mut self, insert: usize) {
        let mut at = insert;
        while !matches!(self.token(at), Token::EOF | Token::SemiColon)
            && !self.is(at, "VALUES")
            && !self.is(at, "SELECT")
        {
            if self.is(at, "OVERRIDING") && self.is(at + 2, "VALUE") {
                if self.is(at + 1, "SYSTEM") {
                    self.edit(insert + 2, Edit::InsertBefore(vec![word(Keyword::TABLE, "TABLE")]));
                } else if self.is(at + 1, "USER") {
                    self.edit(insert + 1, Edit::InsertBefore(vec![word(Keyword::OVERWRITE, "OVERWRITE")]));
                } else {
                    return;
                }
                for place in at..at + 3 {
                    self.edit(place, Edit::Remove);
                }
                return;
            }
            at += 1;
        }
    }

    /// `FOR UPDATE` and its like.
    /// `WHERE CURRENT OF cursor` stands alone, and only where rows are changed.
    fn current_of(&mut self, nth: usize, start: usize) -> Result<()> {
        let may_change = ["UPDATE", "DELETE", "WITH", "EXPLAIN", "PREPARE"].iter().any(|verb| self.is(start, verb));
        if !may_change {
            return Err(self.refuse(nth + 1));
        }
        let is_name = matches!(self.token(nth + 2), Token::Word(word)
            if word.quote_style == Some('"') || word.quote_style.is_none() && !is_reserved(&word.value));
        if !is_name {
            return Err(self.refuse(nth + 2));
        }
        let is_end = matches!(self.token(nth + 3), Token::EOF | Token::SemiColon | Token::RParen);
        if !is_end && !self.is(nth + 3, "RETURNING") {
            return Err(self.refuse(nth + 3));
        }
        let mark =
            Word { value: super::CURRENT_OF_MARK.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
        self.edit(nth, Edit::Replace(Token::Word(mark)));
        self.edit(nth + 1, Edit::Replace(Token::Period));
        Ok(())
    }

    fn lock_clause(&mut self, nth: usize, start: usize) -> Result<()> {
        let mark = |text: &str| {
            Token::Word(Word { value: text.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
        };
        let of = || word(Keyword::OF, "OF");
        let (after, of_keys) = if self.are(nth + 1, &["NO", "KEY", "UPDATE"]) {
            (nth + 4, true)
        } else if self.are(nth + 1, &["KEY", "SHARE"]) {
            (nth + 3, true)
        } else if self.is(nth + 1, "UPDATE") || self.is(nth + 1, "SHARE") {
            (nth + 2, false)
        } else {
            return Ok(());
        };
        if self.is_in_list(nth, start) {
            // The parser would take FOR for the name of the last column.
            self.edit(nth, Edit::InsertBefore(vec![word(Keyword::WHERE, "WHERE"), word(Keyword::TRUE, "TRUE")]));
        }
        let mut commas = Vec::new();
        if self.is(after, "OF") {
            let mut at = after + 2;
            while *self.token(at) == Token::Comma {
                commas.push(at);
                at += 2;
            }
            if *self.token(at) == Token::Period && (of_keys || !commas.is_empty()) {
                return Err(self.refuse(at));
            }
        }
        match (of_keys, after - nth) {
            (false, _) if commas.is_empty() => return Ok(()),
            (false, _) => {
                self.edit(after + 1, Edit::InsertBefore(vec![mark(super::LOCK_MARK), Token::Period]));
            }
            (true, 4) => {
                self.edit(nth + 1, Edit::Replace(word(Keyword::UPDATE, "UPDATE")));
                self.edit(nth + 2, Edit::Replace(of()));
                self.edit(nth + 3, Edit::Replace(mark(super::KEY_LOCK_MARK)));
            }
            (true, _) => {
                self.edit(nth + 1, Edit::Replace(word(Keyword::SHARE, "SHARE")));
                self.edit(nth + 2, Edit::InsertBefore(vec![of()]));
                self.edit(nth + 2, Edit::Replace(mark(super::KEY_LOCK_MARK)));
            }
        }
        if of_keys && self.is(after, "OF") {
            self.edit(after, Edit::Replace(Token::Period));
        }
        for comma in commas {
            self.edit(comma, Edit::Replace(Token::Period));
        }
        Ok(())
    }

    /// Whether what comes before a word is the list of a SELECT that has no FROM.
    fn is_in_list(&self, nth: usize, start: usize) -> bool {
        const ENDS: [&str; 13] = [
            "FROM",
            "WHERE",
            "GROUP",
            "HAVING",
            "WINDOW",
            "ORDER",
            "LIMIT",
            "OFFSET",
            "FETCH",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "VALUES",
        ];
        let mut depth = 0usize;
        for at in (start..nth).rev() {
            match self.token(at) {
                Token::RParen => depth += 1,
                Token::LParen if depth == 0 => return false,
                Token::LParen => depth -= 1,
                _ if depth > 0 => {}
                _ if self.is(at, "SELECT") => return true,
                // IS DISTINCT FROM is no FROM.
                _ if self.is(at, "FROM") && at > start && self.is(at - 1, "DISTINCT") => {}
                _ if ENDS.iter().any(|end| self.is(at, end)) => return false,
                _ => {}
            }
        }
        false
    }

    /// `INSERT INTO t SELECT 1 ON CONFLICT …` is `INSERT INTO t (SELECT 1) ON CONFLICT …`: the parser would take ON for the
    /// name of a column, or for the condition of a join.
    fn enclose_source(&mut self, insert: usize) {
        let (mut depth, mut source) = (0usize, None);
        let mut at = insert + 3;
        loop {
            match self.token(at) {
                Token::EOF | Token::SemiColon => return,
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => return,
                Token::RParen => depth -= 1,
                _ if depth > 0 => {}
                _ if source.is_none() && (self.is(at, "VALUES") || self.is(at, "DEFAULT")) => return,
                // Behind a WITH the parser takes a query in parentheses, before it none.
                _ if source.is_none() && ["SELECT", "TABLE"].iter().any(|begin| self.is(at, begin)) => {
                    source = Some(at);
                }
                _ if self.are(at, &["ON", "CONFLICT"]) || self.is(at, "RETURNING") => {
                    if let Some(source) = source {
                        self.edit(source, Edit::InsertBefore(vec![Token::LParen]));
                        if self.is(source, "TABLE") {
                            self.edit(source, Edit::Replace(word(Keyword::SELECT, "SELECT")));
                            self.edit(source + 1, Edit::InsertBefore(vec![Token::Mul, word(Keyword::FROM, "FROM")]));
                        }
                        self.edit(at, Edit::InsertBefore(vec![Token::RParen]));
                    }
                    return;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// `WITH RECURSIVE … ) SEARCH DEPTH FIRST BY a SET b`, `CYCLE a SET b USING c`.
    fn search_or_cycle(&self, nth: usize) -> Result<()> {
        let mut names = nth + 1;
        let is_search = self.is(nth, "SEARCH") && self.is(nth + 2, "FIRST");
        while matches!(self.token(names), Token::Word(_) | Token::Comma) && !self.is(names, "SET") {
            names += 1;
        }
        if is_search || (self.is(nth, "CYCLE") && names > nth + 1 && self.is(names, "SET")) {
            let clause = if is_search { "SEARCH" } else { "CYCLE" };
            let error = Error::unsupported(format_args!("the {clause} clause of WITH RECURSIVE"));
            return Err(error.at(position(self.text, self.tokens[self.solid[nth]].span.start)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    fn mended(text: &str) -> String {
        let statements = crate::statement::parse(text).unwrap();
        statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn what_the_parser_does_not_know_is_said_in_words_that_it_knows() {
        assert_eq!(mended("SELECT a BETWEEN SYMMETRIC b AND c"), "SELECT a BETWEEN !!b AND c");
        assert_eq!(mended("SELECT trim(leading from x)"), "SELECT TRIM(LEADING ' ' FROM x)");
        assert_eq!(mended("SELECT 'a'\n'b' -- c\n 'd'"), "SELECT 'abd'");
        assert_eq!(mended("SELECT 1 < ANY (VALUES (1), (2))"), "SELECT 1 < ANY(SELECT * FROM (VALUES (1), (2)) AS v)");
        assert_eq!(mended("SELECT 1 IN ((SELECT 1), 2)"), "SELECT 1 IN (coalesce((SELECT 1)), 2)");
        assert_eq!(mended("SELECT 1 IN ((SELECT 1) UNION SELECT 2)"), "SELECT 1 IN ((SELECT 1) UNION SELECT 2)");
        assert_eq!(mended("TABLE a UNION TABLE b"), "SELECT * FROM a UNION SELECT * FROM b");
        assert_eq!(
            mended("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING"),
            "INSERT INTO t (SELECT 1) ON CONFLICT DO NOTHING"
        );
        assert_eq!(mended("INSERT INTO t TABLE s RETURNING a"), "INSERT INTO t (SELECT * FROM s) RETURNING a");
        assert_eq!(mended("SELECT 1 FOR UPDATE"), "SELECT 1 WHERE true FOR UPDATE");
        assert_eq!(mended("SELECT a FROM t FOR SHARE OF t"), "SELECT a FROM t FOR SHARE OF t");
        assert_eq!(
            mended("ALTER TABLE t ALTER a SET INCREMENT 2 RESTART, DROP b"),
            "ALTER TABLE t ALTER COLUMN a ADD GENERATED AS IDENTITY ( START \u{1}identity SET INCREMENT 2 RESTART ), DROP b"
        );
    }

    /// Views keep such texts: what they mean must not change when they are read again.
    #[test]
    fn locks_mean_the_same_when_they_are_read_again() {
        for text in [
            "SELECT a FROM t FOR NO KEY UPDATE",
            "SELECT a FROM t FOR KEY SHARE NOWAIT",
            "SELECT a FROM t, u FOR UPDATE OF t, u SKIP LOCKED",
            "SELECT a FROM t, u FOR KEY SHARE OF t, u",
            "SELECT a FROM t FOR NO KEY UPDATE OF t",
        ] {
            let once = mended(text);
            assert!(once.contains('\u{1}'), "{once}");
            assert_eq!(mended(&once), once);
        }
    }

    #[test]
    fn what_only_the_parser_takes_is_refused() {
        for text in [
            "SELECT !! 1",
            "SELECT 'a' 'b'",
            "SELECT 1x",
            "INSERT OVERWRITE INTO t VALUES (1)",
            "SELECT \"\"",
            "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (",
            "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START 5; SELECT 1",
            "ALTER TABLE t ALTER a",
            "ALTER TABLE t ALTER a SET",
        ] {
            assert!(crate::statement::parse(text).is_err(), "{text}");
        }
    }
}
