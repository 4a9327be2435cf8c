//! Text to tokens, by PostgreSQL's lexical rules.
//!
//! - Comments are `-- …` to the end of the line and `/* … */`, the latter nested.
//! - Strings go on in the next line: `'a'` and `'b'` with a line's end between them are one token.
//! - An operator is as many characters of operators as come, but a comment begins wherever `--` or
//!   `/*` stands in it; and it ends in `+` or `-` only if it has one of `~ ! @ # % ^ & | ?` or a
//!   backquote: `1>-1` has the operators `>` and `-`, and `2^-1` the one operator `^-`.
//!
//! A mistake is the token [`Kind::Bad`], behind which there is none: what is wrong with the grammar
//! in front of it comes first.
//!
//! Invariants: tokens do not overlap and are in the order of the text; the last is `End` or `Bad`.

use colibri_types::{Error, Result, SqlState, pulse};

use crate::errors::error_near;
use crate::keyword::Keyword;
use crate::strings::{self, continued, is_blank, line_end};
use crate::token::{Kind, Place, Token};

/// Bytes of a text of statements at most.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// What making a token takes, in units of work.
const UNITS_PER_TOKEN: usize = 4;
/// Bytes whose reading is a unit of work.
const BYTES_PER_UNIT: usize = 16;

/// The tokens of a text.
pub(crate) struct Tokens<'t> {
    pub(crate) text: &'t str,
    pub(crate) list: Vec<Token>,
    /// What is wrong where the last token is bad.
    pub(crate) error: Option<Error>,
}

/// Finds the tokens of a text.
///
/// # Errors
/// If the text is too long, or has a character that no text may have. The statement was cancelled.
pub(crate) fn tokens(text: &str) -> Result<Tokens<'_>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::new(SqlState::PROGRAM_LIMIT, format!("a statement of {} bytes is too long", text.len())));
    }
    if text.contains('\0') {
        return Err(Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    let start = Place { line: 1, column: 1 };
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, place: start, placed: 0 };
    let mut list = Vec::with_capacity(text.len() / 6 + 2);
    loop {
        let from = lexer.at;
        match lexer.token() {
            Ok(token) => {
                list.push(token);
                if token.kind == Kind::End {
                    return Ok(Tokens { text, list, error: None });
                }
            }
            Err(error) => {
                let from = lexer.place_of(lexer.at.max(from));
                let (start, end) = (lexer.at as u32, text.len() as u32);
                list.push(Token { kind: Kind::Bad, start, end, from, to: from });
                return Ok(Tokens { text, list, error: Some(error) });
            }
        }
        pulse::work(UNITS_PER_TOKEN + (lexer.at - from) / BYTES_PER_UNIT)?;
    }
}

/// The first token of a text, if it is one.
pub(crate) fn first(text: &str) -> Option<Token> {
    let place = Place { line: 1, column: 1 };
    Lexer { text, bytes: text.as_bytes(), at: 0, place, placed: 0 }.token().ok()
}

struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    /// The place of the byte `placed`.
    place: Place,
    placed: usize,
}

fn is_of_operator(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
}

/// Whether an operator with this character may end in a sign.
fn allows_sign(byte: u8) -> bool {
    b"~!@#%^&|`?".contains(&byte)
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl Lexer<'_> {
    fn byte(&self, behind: usize) -> u8 {
        self.bytes.get(self.at + behind).copied().unwrap_or(0)
    }

    /// The place of a byte that is not in front of one that was asked for.
    fn place_of(&mut self, byte: usize) -> Place {
        self.place = self.place.behind(&self.text[self.placed..byte]);
        self.placed = byte;
        self.place
    }

    fn token(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        let start = self.at;
        let from = self.place_of(start);
        let (kind, end) = self.kind()?;
        self.at = end;
        let to = self.place_of(end);
        Ok(Token { kind, start: start as u32, end: end as u32, from, to })
    }

    fn error(&self, end: usize, what: &str) -> Error {
        error_near(self.text, self.at, end, what)
    }

    fn unended(&self, what: &str) -> Error {
        self.error(self.text.len(), &format!("unterminated {what}"))
    }

    /// Takes blanks and comments.
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (byte, _) if is_blank(byte) => self.at += 1,
                (b'-', b'-') => self.at = line_end(self.bytes, self.at),
                (b'/', b'*') => self.at = self.comment_end()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment_end(&self) -> Result<usize> {
        let (mut depth, mut at) = (0usize, self.at);
        loop {
            match self.bytes.get(at..at + 2) {
                Some(b"/*") => (depth, at) = (depth + 1, at + 2),
                Some(b"*/") if depth == 1 => return Ok(at + 2),
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                Some(_) => at += 1,
                None => return Err(self.unended("/* comment")),
            }
        }
    }

    /// What the next token is, and where it ends.
    fn kind(&self) -> Result<(Kind, usize)> {
        let one = |kind| Ok((kind, self.at + 1));
        let two = |kind| Ok((kind, self.at + 2));
        let Some(&byte) = self.bytes.get(self.at) else { return Ok((Kind::End, self.at)) };
        match (byte, self.byte(1)) {
            (b'e' | b'E', b'\'') => self.escape_string(),
            (b'b' | b'B', b'\'') => Ok((Kind::BitString, self.string_end(self.at + 1, "bit string literal")?)),
            (b'x' | b'X', b'\'') => Ok((Kind::HexString, self.string_end(self.at + 1, "hexadecimal string literal")?)),
            (b'n' | b'N', b'\'') => Ok((Kind::NationalString, self.string_end(self.at + 1, "quoted string")?)),
            (b'u' | b'U', b'&') if self.byte(2) == b'\'' => {
                Ok((Kind::UnicodeString, self.string_end(self.at + 2, "quoted string")?))
            }
            (b'u' | b'U', b'&') if self.byte(2) == b'"' => Ok((Kind::UnicodeName, self.quoted_name_end(self.at + 2)?)),
            _ if begins_name(byte) => Ok(self.word()),
            (b'\'', _) => Ok((Kind::String, self.string_end(self.at, "quoted string")?)),
            (b'"', _) => Ok((Kind::QuotedName, self.quoted_name_end(self.at)?)),
            (b'0'..=b'9', _) => self.number(),
            (b'.', b'0'..=b'9') => self.number(),
            (b'$', b'0'..=b'9') => self.parameter(),
            (b'$', _) => self.dollar_string(),
            (b'.', b'.') => two(Kind::TwoPeriods),
            (b'.', _) => one(Kind::Period),
            (b',', _) => one(Kind::Comma),
            (b';', _) => one(Kind::Semicolon),
            (b'(', _) => one(Kind::LeftParen),
            (b')', _) => one(Kind::RightParen),
            (b'[', _) => one(Kind::LeftBracket),
            (b']', _) => one(Kind::RightBracket),
            (b':', b':') => two(Kind::Cast),
            (b':', b'=') => two(Kind::Assign),
            (b':', _) => one(Kind::Colon),
            _ if is_of_operator(byte) => Ok(self.operator()),
            _ => Ok((Kind::Other, self.at + 1)),
        }
    }

    fn word(&self) -> (Kind, usize) {
        let end = self.word_end(self.at);
        (Keyword::of(&self.text[self.at..end]).map_or(Kind::Name, Kind::Key), end)
    }

    fn operator(&self) -> (Kind, usize) {
        let rest = &self.bytes[self.at..];
        let run = rest.iter().take_while(|&&byte| is_of_operator(byte)).count();
        let is_comment = |pair: &[u8]| pair == b"--" || pair == b"/*";
        let mut len = rest[..run].windows(2).position(is_comment).unwrap_or(run);
        if !rest[..len].iter().any(|&byte| allows_sign(byte)) {
            while len > 1 && matches!(rest[len - 1], b'+' | b'-') {
                len -= 1;
            }
        }
        let kind = match &rest[..len] {
            b"+" => Kind::Plus,
            b"-" => Kind::Minus,
            b"*" => Kind::Star,
            b"/" => Kind::Slash,
            b"%" => Kind::Percent,
            b"^" => Kind::Caret,
            b"<" => Kind::Less,
            b">" => Kind::Greater,
            b"=" => Kind::Equal,
            b"<=" => Kind::LessEqual,
            b">=" => Kind::GreaterEqual,
            b"<>" | b"!=" => Kind::NotEqual,
            b"=>" => Kind::Arrow,
            _ => Kind::Operator,
        };
        (kind, self.at + len)
    }

    fn digits_end(&self, from: usize) -> usize {
        from + self.bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn number(&self) -> Result<(Kind, usize)> {
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0);
        let mut end = self.digits_end(self.at);
        let mut kind = Kind::Integer;
        // `1..2` has no decimal point in it.
        if byte(end) == b'.' && byte(end + 1) != b'.' {
            (kind, end) = (Kind::Decimal, self.digits_end(end + 1));
        }
        if matches!(byte(end), b'e' | b'E') {
            let digits = end + 1 + usize::from(matches!(byte(end + 1), b'+' | b'-'));
            if byte(digits).is_ascii_digit() {
                (kind, end) = (Kind::Decimal, self.digits_end(digits));
            } else if digits > end + 1 {
                return Err(self.error(digits, "trailing junk after numeric literal"));
            }
        }
        if begins_name(byte(end)) {
            return Err(self.error(self.word_end(end), "trailing junk after numeric literal"));
        }
        Ok((kind, end))
    }

    /// The end of a word that goes on at a byte.
    fn word_end(&self, at: usize) -> usize {
        at + self.bytes[at..].iter().take_while(|&&byte| continues_name(byte)).count()
    }

    fn parameter(&self) -> Result<(Kind, usize)> {
        let end = self.digits_end(self.at + 1);
        match self.bytes.get(end) {
            Some(&byte) if begins_name(byte) => Err(self.error(self.word_end(end), "trailing junk after parameter")),
            _ => Ok((Kind::Parameter, end)),
        }
    }

    fn dollar_string(&self) -> Result<(Kind, usize)> {
        let tag = self.bytes[self.at + 1..].iter().take_while(|&&byte| byte != b'$' && continues_name(byte)).count();
        let open = self.at + tag + 2;
        if self.bytes.get(open - 1) != Some(&b'$') {
            return Ok((Kind::Other, self.at + 1));
        }
        let delimiter = &self.text[self.at..open];
        match self.text[open..].find(delimiter) {
            Some(len) => Ok((Kind::DollarString, open + len + delimiter.len())),
            None => Err(self.unended("dollar-quoted string")),
        }
    }

    fn escape_string(&self) -> Result<(Kind, usize)> {
        let mut open = self.at + 1;
        loop {
            let end = quote_end(self.bytes, open, b'\'', true).ok_or_else(|| self.unended("quoted string"))?;
            match continued(self.bytes, end) {
                Some(next) => open = next,
                None => {
                    strings::check_escapes(self.text, self.at, end)?;
                    return Ok((Kind::EscapeString, end));
                }
            }
        }
    }

    /// The end of a string, and of what goes on in the next lines.
    fn string_end(&self, mut open: usize, what: &str) -> Result<usize> {
        loop {
            let end = quote_end(self.bytes, open, b'\'', false).ok_or_else(|| self.unended(what))?;
            match continued(self.bytes, end) {
                Some(next) => open = next,
                None => return Ok(end),
            }
        }
    }

    fn quoted_name_end(&self, open: usize) -> Result<usize> {
        let end = quote_end(self.bytes, open, b'"', false).ok_or_else(|| self.unended("quoted identifier"))?;
        if end == open + 2 {
            return Err(self.error(end, "zero-length delimited identifier"));
        }
        Ok(end)
    }
}

/// Behind the quote that ends what a quote begins; two in a row are one of the text.
fn quote_end(bytes: &[u8], open: usize, quote: u8, has_escapes: bool) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match bytes.get(at)? {
            b'\\' if has_escapes => at += 2,
            byte if *byte != quote => at += 1,
            _ if bytes.get(at + 1) == Some(&quote) => at += 2,
            _ => return Some(at + 1),
        }
    }
}
