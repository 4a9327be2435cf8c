//! The tokens of JSON.

use super::Expected;
use super::fault::Fault;
use crate::error::{Error, Result};
use crate::pulse;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    End,
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
}

/// A text, token by token.
pub(crate) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) end: usize,
    end_before: usize,
    pub(super) line: usize,
    pub(super) line_start: usize,
    /// Whether strings are told what they are.
    decodes: bool,
    string: String,
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'t> Lexer<'t> {
    /// A lexer in front of the first token.
    pub(crate) fn new(text: &'t str, decodes: bool) -> Self {
        Self {
            text,
            token: Token::End,
            start: 0,
            end: 0,
            end_before: 0,
            line: 1,
            line_start: 0,
            decodes,
            string: String::new(),
        }
    }

    /// The token at hand.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The token at hand as it is written.
    pub(crate) fn text(&self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the token at hand begins.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Where the token before the one at hand ended.
    pub(crate) fn end_before(&self) -> usize {
        self.end_before
    }

    /// What the string at hand is.
    pub(crate) fn take_string(&mut self) -> String {
        std::mem::take(&mut self.string)
    }

    /// That the token at hand is none of those that the grammar has there.
    pub(crate) fn unexpected(&self, expected: Expected) -> Error {
        if self.token == Token::End {
            return self.error(Fault::EndsEarly);
        }
        self.error(Fault::Unexpected(expected))
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Behind the character that begins at a byte.
    fn behind(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8())
    }

    fn take(&mut self, token: Token, end: usize) {
        (self.token, self.end_before, self.end) = (token, self.end, end);
    }

    /// Goes on to the next token.
    pub(crate) fn advance(&mut self) -> Result<()> {
        let from = self.end;
        let mut at = from;
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte(at) {
            at += 1;
            if byte == b'\n' {
                (self.line, self.line_start) = (self.line + 1, at);
            }
        }
        self.start = at;
        let one = at + 1;
        match self.byte(at) {
            None => self.take(Token::End, at),
            Some(b'{') => self.take(Token::ObjectStart, one),
            Some(b'}') => self.take(Token::ObjectEnd, one),
            Some(b'[') => self.take(Token::ArrayStart, one),
            Some(b']') => self.take(Token::ArrayEnd, one),
            Some(b',') => self.take(Token::Comma, one),
            Some(b':') => self.take(Token::Colon, one),
            Some(b'"') => self.string(at)?,
            Some(b'-') => self.number(one)?,
            Some(b'0'..=b'9') => self.number(at)?,
            Some(_) => self.word(at)?,
        }
        pulse::work(2 + (self.end - from) / 8)
    }

    fn word(&mut self, at: usize) -> Result<()> {
        let length = self.text.as_bytes()[at..].iter().take_while(|&&byte| is_of_word(byte)).count();
        let end = if length == 0 { self.behind(at) } else { at + length };
        let token = match &self.text[at..end] {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => {
                self.take(Token::Null, end);
                return Err(self.error(Fault::BadToken));
            }
        };
        self.take(token, end);
        Ok(())
    }

    fn number(&mut self, from: usize) -> Result<()> {
        let digits = |at: usize| {
            let rest = self.text.as_bytes().get(at..).unwrap_or_default();
            at + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut is_bad = false;
        let mut at = match self.byte(from) {
            Some(b'0') => from + 1,
            Some(b'1'..=b'9') => digits(from),
            _ => {
                is_bad = true;
                from
            }
        };
        if self.byte(at) == Some(b'.') {
            let end = digits(at + 1);
            is_bad |= end == at + 1;
            at = end;
        }
        if matches!(self.byte(at), Some(b'e' | b'E')) {
            let first = at + 1 + usize::from(matches!(self.byte(at + 1), Some(b'+' | b'-')));
            let end = digits(first);
            is_bad |= end == first;
            at = end;
        }
        while self.byte(at).is_some_and(is_of_word) {
            is_bad = true;
            at += 1;
        }
        self.take(Token::Number, at);
        if is_bad { Err(self.error(Fault::BadToken)) } else { Ok(()) }
    }

    /// Takes a string; its mistakes are told where they are.
    fn string(&mut self, from: usize) -> Result<()> {
        self.token = Token::String;
        let mut out = std::mem::take(&mut self.string);
        out.clear();
        let mut high: Option<u32> = None;
        let mut at = from + 1;
        loop {
            // What needs no care goes in one piece.
            let rest = self.text.as_bytes().get(at..).unwrap_or_default();
            let plain = rest.iter().take_while(|&&byte| byte >= 32 && byte != b'"' && byte != b'\\').count();
            if plain > 0 {
                if high.is_some() {
                    return Err(self.error(Fault::LoneLowSurrogate));
                }
                if self.decodes {
                    out.push_str(&self.text[at..at + plain]);
                }
                at += plain;
            }
            match self.byte(at) {
                None => {
                    self.end = at;
                    return Err(self.error(Fault::BadToken));
                }
                Some(b'"') => break,
                Some(b'\\') => {}
                Some(byte) => {
                    self.end = at;
                    return Err(self.error(Fault::Unescaped(byte)));
                }
            }
            at += 1;
            let Some(escape) = self.byte(at) else {
                self.end = at;
                return Err(self.error(Fault::BadToken));
            };
            if escape == b'u' {
                let unit = self.unit(at)?;
                at += 5;
                if self.decodes {
                    high = self.put_unit(unit, high, &mut out)?;
                }
                continue;
            }
            let meant = match escape {
                b'"' | b'\\' | b'/' => char::from(escape),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                _ => {
                    (self.start, self.end) = (at, self.behind(at));
                    return Err(self.error(Fault::BadEscape));
                }
            };
            if high.is_some() {
                return Err(self.error(Fault::LoneLowSurrogate));
            }
            if self.decodes {
                out.push(meant);
            }
            at += 1;
        }
        if high.is_some() {
            return Err(self.error(Fault::LoneLowSurrogate));
        }
        self.string = out;
        self.take(Token::String, at + 1);
        Ok(())
    }

    /// The number of four hexadecimal digits behind a `u`.
    fn unit(&mut self, at: usize) -> Result<u32> {
        let mut unit = 0;
        for place in at + 1..at + 5 {
            let Some(byte) = self.byte(place) else {
                self.end = place;
                return Err(self.error(Fault::BadToken));
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                self.end = self.behind(place);
                return Err(self.error(Fault::BadUnicode));
            };
            unit = unit << 4 | digit;
        }
        Ok(unit)
    }

    /// Appends what a `\u` stands for; gives it, if it is the first half of a pair.
    fn put_unit(&self, unit: u32, high: Option<u32>, out: &mut String) -> Result<Option<u32>> {
        let code = match (unit, high) {
            (0xD800..=0xDBFF, Some(_)) => return Err(self.error(Fault::TwoHighSurrogates)),
            (0xD800..=0xDBFF, None) => return Ok(Some(unit)),
            (0xDC00..=0xDFFF, Some(high)) => 0x10000 + ((high & 0x3ff) << 10) + (unit & 0x3ff),
            (0xDC00..=0xDFFF, None) | (_, Some(_)) => return Err(self.error(Fault::LoneLowSurrogate)),
            (0, None) => return Err(self.error(Fault::Zero)),
            (code, None) => code,
        };
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(None)
    }
}
