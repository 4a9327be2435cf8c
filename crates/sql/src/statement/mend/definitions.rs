//! Statements that define something: storage parameters, columns without types, identities, REINDEX.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Word};

use super::{Edit, Mender, word};
use crate::statement::{ANY_TYPE_MARK, IDENTITY_MARK, Walker};

impl Mender<'_> {
    /// `toast.name = value` and `name` alone: the parser wants one name, and a value.
    pub(super) fn storage_parameters(&mut self, first: usize) {
        let mut at = first;
        while let Token::Word(name) = self.token(at).clone() {
            let mut next = at + 1;
            if let (Token::Period, Token::Word(part)) = (self.token(next).clone(), self.token(next + 1).clone()) {
                let value = format!("{}.{}", name.value.to_ascii_lowercase(), part.value.to_ascii_lowercase());
                let whole = Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword };
                self.edit(at, Edit::Replace(Token::Word(whole)));
                self.edit(next, Edit::Remove);
                self.edit(next + 1, Edit::Remove);
                next += 2;
            }
            if matches!(self.token(next), Token::Comma | Token::RParen) {
                self.edit(next, Edit::InsertBefore(vec![Token::Eq, word(Keyword::TRUE, "TRUE")]));
            }
            while !matches!(self.token(next), Token::Comma | Token::RParen | Token::EOF | Token::SemiColon) {
                next += 1;
            }
            if *self.token(next) != Token::Comma {
                return;
            }
            at = next + 1;
        }
    }

    /// `CREATE TABLE t (a, b) AS`: the parser wants types, which nobody looks at.
    pub(super) fn column_names(&mut self, close: usize) {
        let mut at = close;
        let mut ends = vec![close];
        while at > 0 {
            at -= 1;
            match self.token(at) {
                Token::Comma => ends.push(at),
                Token::LParen => break,
                Token::Word(_) if matches!(self.token(at - 1), Token::Comma | Token::LParen) => {}
                _ => return,
            }
        }
        for end in ends {
            self.edit(
                end,
                Edit::InsertBefore(vec![Token::Word(Word {
                    value: ANY_TYPE_MARK.to_owned(),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                })]),
            );
        }
    }

    /// `SELECT … INTO t FROM …` is `CREATE TABLE t AS SELECT … FROM …`.
    pub(super) fn select_into(&mut self, nth: usize, start: usize) {
        let depth = (start..nth).fold(0i32, |depth, at| match self.token(at) {
            Token::LParen => depth + 1,
            Token::RParen => depth - 1,
            _ => depth,
        });
        if depth != 0 || self.are(nth + 1, &["TEMP"]) || self.are(nth + 1, &["TEMPORARY"]) {
            return;
        }
        let mut from = nth + 1;
        if self.is(from, "TABLE") {
            self.edit(from, Edit::Remove);
            from += 1;
        }
        let mut name = Vec::new();
        let mut at = from;
        while matches!(self.token(at), Token::Word(_)) {
            name.push(self.token(at).clone());
            self.edit(at, Edit::Remove);
            at += 1;
            if *self.token(at) != Token::Period {
                break;
            }
            name.push(Token::Period);
            self.edit(at, Edit::Remove);
            at += 1;
        }
        self.edit(nth, Edit::Remove);
        let mut before = vec![word(Keyword::CREATE, "CREATE"), word(Keyword::TABLE, "TABLE")];
        before.extend(name);
        before.push(word(Keyword::AS, "AS"));
        self.edit(start, Edit::InsertBefore(before));
    }

    /// `REINDEX TABLE t` is read as `VACUUM REINDEX t`.
    pub(super) fn reindex(&mut self, nth: usize) {
        self.edit(nth, Edit::InsertBefore(vec![word(Keyword::VACUUM, "VACUUM")]));
        let mut at = nth + 1;
        if *self.token(at) == Token::LParen {
            while !matches!(self.token(at), Token::EOF | Token::RParen) {
                self.edit(at, Edit::Remove);
                at += 1;
            }
            self.edit(at, Edit::Remove);
            at += 1;
        }
        if ["TABLE", "INDEX"].iter().any(|kind| self.is(at, kind)) {
            self.edit(at, Edit::Remove);
            at += 1;
        }
        if self.is(at, "CONCURRENTLY") {
            self.edit(at, Edit::Remove);
        }
    }

    /// `ALTER COLUMN a SET GENERATED …` and its like, which the parser does not know.
    pub(super) fn identity_change(&mut self, nth: usize) {
        const OPTIONS: [&str; 12] = [
            "GENERATED",
            "AS",
            "INCREMENT",
            "MINVALUE",
            "MAXVALUE",
            "NO",
            "START",
            "RESTART",
            "CACHE",
            "CYCLE",
            "OWNED",
            "SEQUENCE",
        ];
        let name = nth + 1 + usize::from(self.is(nth + 1, "COLUMN"));
        let from = name + 1;
        let is_change = matches!(self.token(name), Token::Word(_))
            && (self.are(from, &["ADD", "GENERATED"])
                || self.are(from, &["DROP", "IDENTITY"])
                || self.is(from, "RESTART")
                || self.is(from, "SET") && OPTIONS.iter().any(|option| self.is(from + 1, option)));
        if !is_change {
            return;
        }
        let (mut end, mut depth) = (from, 0usize);
        loop {
            match self.token(end) {
                Token::EOF | Token::SemiColon => break,
                Token::Comma if depth == 0 => break,
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            end += 1;
        }
        let before = [
            (Keyword::ADD, "ADD"),
            (Keyword::GENERATED, "GENERATED"),
            (Keyword::AS, "AS"),
            (Keyword::IDENTITY, "IDENTITY"),
        ];
        let mut before: Vec<Token> = before.into_iter().map(|(keyword, text)| word(keyword, text)).collect();
        before.push(Token::LParen);
        self.identity(from, end, before, vec![Token::RParen]);
    }

    /// Puts the text of some tokens in place of the number of START, for a reader of its own.
    pub(super) fn identity(&mut self, from: usize, end: usize, mut before: Vec<Token>, after: Vec<Token>) {
        let mut walker = Walker { text: self.text, line: 1, column: 1, byte: 0 };
        let (first, last) = (self.tokens[self.solid[from]].span.start, self.tokens[self.solid[end - 1]].span.end);
        let (first, last) = (walker.byte_of(first), walker.byte_of(last));
        let text = format!("{}{}", IDENTITY_MARK, &self.text[first..last]);
        before.extend([word(Keyword::START, "START"), Token::Placeholder(text)]);
        before.extend(after);
        self.edit(from, Edit::InsertBefore(before));
        (from..end).for_each(|at| self.edit(at, Edit::Remove));
    }
}
