//! Tokens: what the grammar sees of a text. A token is its kind and its place; its text stays where
//! it is.

use sqlparser::tokenizer::{Location, Span};

use crate::keyword::Keyword;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Behind the last token.
    End,
    /// What is no token: the text's error is that the lexer has found there.
    Bad,
    /// An identifier without quotes that is no keyword.
    Name,
    /// A word of the grammar, which may be a name as well.
    Key(Keyword),
    /// `"…"`
    QuotedName,
    /// `U&"…"`
    UnicodeName,
    /// Digits only.
    Integer,
    /// With a point or an exponent.
    Decimal,
    /// `'…'`
    String,
    /// `E'…'`
    EscapeString,
    /// `U&'…'`
    UnicodeString,
    /// `N'…'`
    NationalString,
    /// `$tag$…$tag$`
    DollarString,
    /// `B'…'`
    BitString,
    /// `X'…'`
    HexString,
    /// `$1`
    Parameter,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Caret,
    Less,
    Greater,
    Equal,
    LessEqual,
    GreaterEqual,
    NotEqual,
    /// Any other operator.
    Operator,
    Comma,
    Semicolon,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    Period,
    TwoPeriods,
    Colon,
    /// `::`
    Cast,
    /// `:=`
    Assign,
    /// `=>`
    Arrow,
    /// Another character, which the grammar has no use for.
    Other,
}

/// A line and a column, both from 1 on; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Place {
    /// The place behind a text that begins here.
    pub(crate) fn behind(self, text: &str) -> Self {
        let (mut line, mut column) = (self.line, self.column);
        for byte in text.bytes() {
            match byte {
                b'\n' => (line, column) = (line + 1, 1),
                // The middle of a character.
                0x80..=0xbf => {}
                _ => column += 1,
            }
        }
        Self { line, column }
    }

    fn location(self) -> Location {
        Location { line: u64::from(self.line), column: u64::from(self.column) }
    }
}

/// A token of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Its bytes.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) from: Place,
    pub(crate) to: Place,
}

impl Token {
    pub(crate) fn span(&self) -> Span {
        Span { start: self.from.location(), end: self.to.location() }
    }
}
