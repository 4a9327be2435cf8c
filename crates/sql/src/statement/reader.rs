//! Reading word by word what the parser does not know: the grammar of `admin` and that of cursors are methods of [`Reader`],
//! each beside what it reads.
//!
//! Invariant: what is asked for and does not come next takes nothing.

use colibri_types::{Error, Result, SqlState, letters, types::NAME_BYTES_MAX};
use compact_str::CompactString;
use sqlparser::tokenizer::{Token, Word};

/// A text's tokens without blanks and comments, and how far they are read.
pub(crate) struct Reader {
    /// Each with the byte where it begins.
    tokens: Vec<(Token, usize)>,
    pub(crate) at: usize,
    text_bytes: usize,
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
        let tokens = super::placed_tokens(text)?;
        for (token, byte) in &tokens {
            if matches!(token, Token::Word(word) if word.quote_style.is_some() && word.value.is_empty()) {
                let message = "zero-length delimited identifier at or near \"\"\"\"";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).at(text[..*byte].chars().count() as u32 + 1));
            }
        }
        Ok(Self { tokens, at: 0, text_bytes: text.len() })
    }

    /// The token that comes next; EOF behind the last.
    pub(crate) fn peek(&self) -> &Token {
        self.peek_behind(0)
    }

    /// The one `count` tokens behind that.
    pub(crate) fn peek_behind(&self, count: usize) -> &Token {
        self.tokens.get(self.at + count).map_or(&Token::EOF, |(token, _)| token)
    }

    /// Where in the text it begins.
    pub(crate) fn byte(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text_bytes, |&(_, byte)| byte)
    }

    /// The tokens from one on that have been read, with blanks between them.
    pub(crate) fn written_since(&self, from: usize) -> String {
        let tokens: Vec<String> = self.tokens[from..self.at].iter().map(|(token, _)| token.to_string()).collect();
        tokens.join(" ")
    }

    /// The error that says that something else should come next.
    pub(crate) fn syntax(&self) -> Error {
        let message = match self.peek() {
            Token::EOF => "syntax error at end of input".to_owned(),
            token => format!("syntax error at or near \"{token}\""),
        };
        Error::new(SqlState::SYNTAX_ERROR, message)
    }

    /// Expects the text to end here.
    pub(crate) fn end(&mut self) -> Result<()> {
        while self.eat_token(&Token::SemiColon) {}
        if *self.peek() == Token::EOF { Ok(()) } else { Err(self.syntax()) }
    }

    pub(crate) fn is_at(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some((Token::Word(found), _)) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    pub(crate) fn is_token(&self, at: usize, token: &Token) -> bool {
        self.tokens.get(at).is_some_and(|(found, _)| found == token)
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
        let text = match self.peek() {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        Ok(text)
    }

    /// A number of 32 bits.
    pub(crate) fn integer(&mut self) -> Result<i32> {
        let negative = self.eat_token(&Token::Minus);
        let value = match self.peek() {
            Token::Number(digits, _) => digits.parse::<i32>().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.syntax())?;
        self.at += 1;
        Ok(if negative { -value } else { value })
    }
}
