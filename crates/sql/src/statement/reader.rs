//! Reading word by word what the syntax tree has no place for: the grammar of `admin`, of COPY, of
//! settings and of
//! cursors are methods of [`Reader`], each beside what it reads.
//!
//! Invariant: what is asked for and does not come next takes nothing.

use colibri_syntax::{Placed, words, wrong_word};
pub(crate) use colibri_syntax::{Token, Word};
use colibri_types::{Error, Result, letters, types::NAME_BYTES_MAX};
use compact_str::CompactString;

/// A text's tokens without blanks and comments, and how far they are read.
pub(crate) struct Reader {
    text: String,
    /// The last one is the end.
    tokens: Vec<Placed>,
    pub(crate) at: usize,
}

/// Whether a text may begin with one of these words: one with a comment in front may.
pub(crate) fn may_begin_with(text: &str, words: &[&str]) -> bool {
    let first = letters::trim_start(text).split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    first.is_empty() || words.iter().any(|word| word.eq_ignore_ascii_case(first))
}

/// A name as the catalogue has it.
pub(crate) fn folded(word: &Word) -> CompactString {
    let mut name = match word.quote_style {
        Some(_) => CompactString::new(&word.value),
        None => CompactString::new(word.value.to_ascii_lowercase()),
    };
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

impl Reader {
    /// # Errors
    /// If the text does not consist of tokens.
    pub(crate) fn new(text: &str) -> Result<Self> {
        Ok(Self { tokens: words(text)?, at: 0, text: text.to_owned() })
    }

    /// The token that comes next; the end behind the last.
    pub(crate) fn peek(&self) -> &Token {
        self.peek_behind(0)
    }

    fn placed(&self, at: usize) -> &Placed {
        &self.tokens[at.min(self.tokens.len() - 1)]
    }

    /// The one `count` tokens behind that.
    pub(crate) fn peek_behind(&self, count: usize) -> &Token {
        &self.placed(self.at + count).token
    }

    /// The token that comes next, as it is written.
    pub(crate) fn written(&self) -> &str {
        let next = self.placed(self.at);
        &self.text[next.start..next.end]
    }

    /// Where in the text it begins.
    pub(crate) fn byte(&self) -> usize {
        self.placed(self.at).start
    }

    /// The tokens from one on that have been read, as they are written.
    pub(crate) fn written_since(&self, from: usize) -> String {
        let tokens: Vec<&str> =
            self.tokens[from..self.at].iter().map(|token| &self.text[token.start..token.end]).collect();
        tokens.join(" ")
    }

    /// The error that says that something else should come next.
    pub(crate) fn syntax(&self) -> Error {
        wrong_word(&self.text, self.placed(self.at))
    }

    /// Expects the text to end here.
    pub(crate) fn end(&mut self) -> Result<()> {
        while self.eat_token(&Token::Semicolon) {}
        if *self.peek() == Token::End { Ok(()) } else { Err(self.syntax()) }
    }

    pub(crate) fn is_at(&self, at: usize, word: &str) -> bool {
        matches!(&self.placed(at).token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    pub(crate) fn is_token(&self, at: usize, token: &Token) -> bool {
        self.placed(at).token == *token
    }

    /// Takes these words if they come next.
    pub(crate) fn eat(&mut self, words: &[&str]) -> bool {
        let fits = words.iter().enumerate().all(|(offset, word)| self.is_at(self.at + offset, word));
        if fits {
            self.at += words.len();
        }
        fits
    }

    pub(crate) fn eat_any(&mut self, words: &[&str]) -> Option<usize> {
        words.iter().position(|word| self.eat(&[word]))
    }

    pub(crate) fn eat_token(&mut self, token: &Token) -> bool {
        let fits = self.peek() == token;
        self.at += usize::from(fits);
        fits
    }

    pub(crate) fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.eat(words) { Ok(()) } else { Err(self.syntax()) }
    }

    pub(crate) fn name(&mut self) -> Result<CompactString> {
        let Token::Word(word) = self.peek() else { return Err(self.syntax()) };
        let name = folded(word);
        self.at += 1;
        Ok(name)
    }

    pub(crate) fn qualified(&mut self) -> Result<Vec<CompactString>> {
        let mut parts = vec![self.name()?];
        while self.eat_token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    /// One item, or several with commas between them.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let Token::String(text) = self.peek() else { return Err(self.syntax()) };
        let text = text.clone();
        self.at += 1;
        Ok(text)
    }

    /// A number of 32 bits.
    pub(crate) fn integer(&mut self) -> Result<i32> {
        let negative = self.eat_token(&Token::Minus);
        let value = match self.peek() {
            Token::Number(digits) => digits.parse::<i32>().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.syntax())?;
        self.at += 1;
        Ok(if negative { -value } else { value })
    }
}
