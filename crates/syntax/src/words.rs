//! The tokens of a text for readers of statements that are read word by word elsewhere.

use colibri_types::{Error, Result};

use crate::strings;
use crate::token::{Kind, Token as Found};
use crate::{errors, lexer};

/// A word: a name, or a word of the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it is written, without quotes.
    pub value: String,
    /// The quotes around it.
    pub quote_style: Option<char>,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Behind the last one.
    End,
    /// A name, or a word of the grammar.
    Word(Word),
    /// Digits, with a point or an exponent or without.
    Number(String),
    /// What a string says, of any kind but the next.
    String(String),
    /// What `N'…'` says.
    NationalString(String),
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `.`
    Period,
    /// `=`
    Equal,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// Anything else.
    Other,
}

/// A token, and where it stands.
#[derive(Clone, Debug)]
pub struct Placed {
    /// What it is.
    pub token: Token,
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
}

/// The tokens of a text; the last is [`Token::End`].
///
/// # Errors
/// 42601 and 22021 for what is no token.
pub fn words(text: &str) -> Result<Vec<Placed>> {
    let tokens = lexer::tokens(text)?;
    if let Some(error) = tokens.error {
        return Err(error);
    }
    tokens.list.iter().map(|found| placed(text, found)).collect()
}

fn placed(text: &str, found: &Found) -> Result<Placed> {
    let (start, end) = (found.start as usize, found.end as usize);
    let said = || strings::text_of(text, found);
    let unicode = || strings::unicode(text, start, &said(), '\\');
    let token = match found.kind {
        Kind::End | Kind::Bad => Token::End,
        Kind::Name | Kind::Key(_) => Token::Word(Word { value: text[start..end].to_owned(), quote_style: None }),
        Kind::QuotedName => Token::Word(Word { value: said(), quote_style: Some('"') }),
        Kind::UnicodeName => Token::Word(Word { value: unicode()?, quote_style: Some('"') }),
        Kind::Integer | Kind::Decimal => Token::Number(text[start..end].to_owned()),
        Kind::String | Kind::EscapeString | Kind::DollarString => Token::String(said()),
        Kind::UnicodeString => Token::String(unicode()?),
        Kind::NationalString => Token::NationalString(said()),
        Kind::Comma => Token::Comma,
        Kind::Semicolon => Token::Semicolon,
        Kind::LeftParen => Token::LeftParen,
        Kind::RightParen => Token::RightParen,
        Kind::Period => Token::Period,
        Kind::Equal => Token::Equal,
        Kind::Plus => Token::Plus,
        Kind::Minus => Token::Minus,
        Kind::Star => Token::Star,
        _ => Token::Other,
    };
    Ok(Placed { token, start, end })
}

/// The error that a token of a text cannot stand where it does.
#[must_use]
pub fn wrong_word(text: &str, placed: &Placed) -> Error {
    match placed.token {
        Token::End => errors::at_end(text, placed.start),
        _ => errors::error_near(text, placed.start, placed.end, "syntax error"),
    }
}
