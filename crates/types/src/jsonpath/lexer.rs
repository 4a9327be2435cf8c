//! The tokens of a path.

use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    End,
    /// A word without quotes.
    Word(String),
    String(String),
    Variable(String),
    Integer,
    Decimal,
    /// `&&`, `==` and others, or one character.
    Symbol(&'static str),
    Other(char),
}

/// A text, token by token.
pub(super) struct Lexer<'t> {
    text: &'t str,
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Symbols, longer ones first.
const SYMBOLS: [&str; 29] = [
    "&&", "||", "**", "<=", "<>", "<", "==", "!=", "!", ">=", ">", "?", "%", "$", ".", "[", "]", "{", "}", "(", ")",
    "@", "#", ",", "*", ":", "-", "+", "/",
];

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// Whether a character may be in a word.
fn is_of_word(c: char) -> bool {
    !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c) && !is_blank(c)
}

#[cold]
pub(super) fn syntax_error(message: &str, near: &str) -> Error {
    let message = match near {
        "" => format!("{message} at end of jsonpath input"),
        near => format!("{message} at or near \"{near}\" of jsonpath input"),
    };
    Error::new(SqlState::SYNTAX_ERROR, message)
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self> {
        let mut lexer = Self { text, token: Token::End, start: 0, end: 0 };
        lexer.advance()?;
        Ok(lexer)
    }

    /// The token at hand as it is written.
    pub(super) fn written(&self) -> &'t str {
        &self.text[self.start..self.end]
    }

    fn rest(&self, at: usize) -> &'t str {
        self.text.get(at..).unwrap_or_default()
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.rest(at).chars().next()
    }

    pub(super) fn unexpected(&self) -> Error {
        syntax_error("syntax error", self.written())
    }

    /// Goes on to the next token.
    pub(super) fn advance(&mut self) -> Result<()> {
        pulse::work(4)?;
        let mut at = self.end;
        loop {
            let rest = self.rest(at);
            let blanks = rest.len() - rest.trim_start_matches(is_blank).len();
            at += blanks;
            if !self.rest(at).starts_with("/*") {
                break;
            }
            match self.rest(at + 2).find("*/") {
                Some(length) => at += length + 4,
                None => return Err(syntax_error("unexpected end of comment", "")),
            }
        }
        self.start = at;
        self.end = at;
        let Some(first) = self.char_at(at) else {
            self.token = Token::End;
            return Ok(());
        };
        let second = self.char_at(at + first.len_utf8());
        match first {
            '"' => self.token = Token::String(self.quoted(at + 1)?),
            '$' if second == Some('"') => self.token = Token::Variable(self.quoted(at + 2)?),
            '$' if second.is_some_and(|c| is_of_word(c) || c == '\\') => {
                self.token = Token::Variable(self.word(at + 1)?);
            }
            '0'..='9' => self.number(at)?,
            '.' if second.is_some_and(|c| c.is_ascii_digit()) => self.number(at)?,
            c if is_of_word(c) || c == '\\' => self.token = Token::Word(self.word(at)?),
            c => match SYMBOLS.iter().find(|symbol| self.rest(at).starts_with(**symbol)) {
                Some(symbol) => {
                    self.end = at + symbol.len();
                    self.token = Token::Symbol(symbol);
                }
                None => {
                    self.end = at + c.len_utf8();
                    self.token = Token::Other(c);
                }
            },
        }
        Ok(())
    }

    fn number(&mut self, from: usize) -> Result<()> {
        let text = self.text;
        let rest = |at: usize| text.get(at..).unwrap_or_default();
        let digits = |at: usize| at + rest(at).bytes().take_while(u8::is_ascii_digit).count();
        let mut end = if self.rest(from).starts_with('0') { from + 1 } else { digits(from) };
        self.token = Token::Integer;
        if self.rest(end).starts_with('.') {
            self.token = Token::Decimal;
            end = digits(end + 1);
        }
        if self.rest(end).starts_with(['e', 'E']) {
            let sign = usize::from(self.rest(end + 1).starts_with(['+', '-']));
            let behind = digits(end + 1 + sign);
            if behind > end + 1 + sign {
                self.token = Token::Decimal;
                end = behind;
            } else if sign == 1 {
                return Err(syntax_error("invalid numeric literal", &self.text[from..end + 2]));
            }
        }
        if let Some(c) = self.char_at(end).filter(|&c| is_of_word(c)) {
            let near = &self.text[from..end + c.len_utf8()];
            return Err(syntax_error("trailing junk after numeric literal", near));
        }
        self.end = end;
        Ok(())
    }

    fn word(&mut self, from: usize) -> Result<String> {
        let mut out = String::new();
        self.end = from;
        while let Some(c) = self.char_at(self.end) {
            match c {
                '\\' => self.escape(&mut out)?,
                c if is_of_word(c) => {
                    out.push(c);
                    self.end += c.len_utf8();
                }
                _ => break,
            }
        }
        Ok(out)
    }

    fn quoted(&mut self, from: usize) -> Result<String> {
        let mut out = String::new();
        self.end = from;
        loop {
            match self.char_at(self.end) {
                Some('"') => {
                    self.end += 1;
                    return Ok(out);
                }
                Some('\\') => self.escape(&mut out)?,
                Some(c) => {
                    out.push(c);
                    self.end += c.len_utf8();
                }
                None => return Err(syntax_error("unexpected end of quoted string", "")),
            }
        }
    }

    /// Takes an escape sequence.
    fn escape(&mut self, out: &mut String) -> Result<()> {
        let at = self.end + 1;
        let Some(c) = self.char_at(at) else { return Err(syntax_error("unexpected end after backslash", "")) };
        self.end = at + c.len_utf8();
        out.push(match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => {
                let code = self.digits(2).ok_or_else(|| self.bad_escape("invalid hexadecimal character sequence"))?;
                self.char_of(code)?
            }
            'u' => {
                let bad = "invalid Unicode escape sequence";
                let code = self.unit().ok_or_else(|| self.bad_escape(bad))?;
                match code {
                    0xD800..=0xDBFF => {
                        let low = if self.rest(self.end).starts_with("\\u") {
                            self.end += 2;
                            self.unit().ok_or_else(|| self.bad_escape(bad))?
                        } else {
                            0
                        };
                        if !(0xDC00..=0xDFFF).contains(&low) {
                            return Err(surrogate("Unicode low surrogate must follow a high surrogate."));
                        }
                        self.char_of(0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff))?
                    }
                    0xDC00..=0xDFFF => return Err(surrogate("Unicode low surrogate must follow a high surrogate.")),
                    code => self.char_of(code)?,
                }
            }
            c => c,
        });
        Ok(())
    }

    fn bad_escape(&self, message: &str) -> Error {
        syntax_error(message, &self.text[self.start..self.end])
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let digits = self.text.get(self.end..self.end + count)?;
        let code =
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())??;
        self.end += count;
        Some(code)
    }

    /// The number behind `\u`: four digits, or up to six in braces.
    fn unit(&mut self) -> Option<u32> {
        let Some(inner) = self.rest(self.end).strip_prefix('{') else { return self.digits(4) };
        let length = inner.find('}').filter(|length| (1..=6).contains(length))?;
        self.end += 1;
        let code = self.digits(length)?;
        self.end += 1;
        Some(code)
    }

    fn char_of(&self, code: u32) -> Result<char> {
        match char::from_u32(code) {
            Some('\0') => Err(Error::new(SqlState("22P05"), "unsupported Unicode escape sequence")
                .detail("\\u0000 cannot be converted to text.")),
            Some(c) => Ok(c),
            None => Err(self.bad_escape("invalid Unicode escape sequence")),
        }
    }
}

#[cold]
fn surrogate(detail: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, "invalid input syntax for type jsonpath").detail(detail)
}
