//! JSON as text: its tokens, its mistakes in PostgreSQL's words, and the parts of a text in place.
//!
//! Invariants: positions are those of whole characters. The text is gone through once, without
//! recursion; work is counted.

use std::borrow::Cow;

use crate::error::{Error, Result, SqlState};
use crate::pulse;

mod fault;
mod lexer;

pub(crate) use lexer::{Lexer, Token};

/// What a grammar expects, which a message then tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    End,
    Value,
    String,
    ArrayNext,
    ObjectFirst,
    ObjectNext,
    Colon,
}

/// Takes a value: its first token is at hand, and the token behind it comes.
fn skip_value(lexer: &mut Lexer<'_>) -> Result<()> {
    // Whether what is open is an object, from the outermost on.
    let mut open: Vec<bool> = Vec::new();
    loop {
        // A value begins here.
        match lexer.token() {
            Token::ObjectStart => {
                lexer.advance()?;
                match lexer.token() {
                    Token::String => {
                        open.push(true);
                        skip_key(lexer)?;
                        continue;
                    }
                    Token::ObjectEnd => lexer.advance()?,
                    _ => return Err(lexer.unexpected(Expected::ObjectFirst)),
                }
            }
            Token::ArrayStart => {
                lexer.advance()?;
                if lexer.token() != Token::ArrayEnd {
                    open.push(false);
                    continue;
                }
                lexer.advance()?;
            }
            Token::String | Token::Number | Token::True | Token::False | Token::Null => lexer.advance()?,
            _ => return Err(lexer.unexpected(Expected::Value)),
        }
        // A value has ended here.
        loop {
            let Some(&is_object) = open.last() else { return Ok(()) };
            match (lexer.token(), is_object) {
                (Token::Comma, true) => {
                    lexer.advance()?;
                    skip_key(lexer)?;
                    break;
                }
                (Token::Comma, false) => {
                    lexer.advance()?;
                    break;
                }
                (Token::ObjectEnd, true) | (Token::ArrayEnd, false) => {
                    open.pop();
                    lexer.advance()?;
                }
                (_, true) => return Err(lexer.unexpected(Expected::ObjectNext)),
                (_, false) => return Err(lexer.unexpected(Expected::ArrayNext)),
            }
        }
    }
}

fn skip_key(lexer: &mut Lexer<'_>) -> Result<()> {
    if lexer.token() != Token::String {
        return Err(lexer.unexpected(Expected::String));
    }
    lexer.advance()?;
    if lexer.token() != Token::Colon {
        return Err(lexer.unexpected(Expected::Colon));
    }
    lexer.advance()
}

/// That a text is JSON.
///
/// # Errors
/// 22P02, and what is wrong where.
pub(crate) fn validate(text: &str) -> Result<()> {
    let mut lexer = Lexer::new(text, false);
    lexer.advance()?;
    skip_value(&mut lexer)?;
    if lexer.token() != Token::End {
        return Err(lexer.unexpected(Expected::End));
    }
    Ok(())
}

/// What a value is, told by its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// What a text of JSON is.
pub(crate) fn kind(json: &str) -> Kind {
    match json.bytes().find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The elements of an array, as they are written; nothing, if the text is none. `decodes` says
/// whether strings in it must be such as a text can be.
pub(crate) fn elements(json: &str, decodes: bool) -> Result<Vec<&str>> {
    let mut lexer = Lexer::new(json, decodes);
    lexer.advance()?;
    let mut list = Vec::new();
    if lexer.token() != Token::ArrayStart {
        return Ok(list);
    }
    lexer.advance()?;
    while lexer.token() != Token::ArrayEnd {
        let start = lexer.start();
        skip_value(&mut lexer)?;
        list.push(&json[start..lexer.end_before()]);
        if lexer.token() == Token::Comma {
            lexer.advance()?;
        }
    }
    Ok(list)
}

/// The members of an object with the values as they are written; nothing, if the text is none.
pub(crate) fn members(json: &str) -> Result<Vec<(Cow<'_, str>, &str)>> {
    let mut list = Vec::new();
    each_member(json, |key, value| {
        list.push((string_of(key)?, value));
        Ok(())
    })?;
    Ok(list)
}

/// Calls `each` with a key and a value of an object, both as they are written.
fn each_member<'t>(json: &'t str, mut each: impl FnMut(&'t str, &'t str) -> Result<()>) -> Result<()> {
    let mut lexer = Lexer::new(json, true);
    lexer.advance()?;
    if lexer.token() != Token::ObjectStart {
        return Ok(());
    }
    lexer.advance()?;
    while lexer.token() != Token::ObjectEnd {
        let key = lexer.text();
        skip_key(&mut lexer)?;
        let start = lexer.start();
        skip_value(&mut lexer)?;
        each(key, &json[start..lexer.end_before()])?;
        if lexer.token() == Token::Comma {
            lexer.advance()?;
        }
    }
    Ok(())
}

/// The value of an object's key, as it is written: of several the last one.
pub(crate) fn member<'t>(json: &'t str, name: &str) -> Result<Option<&'t str>> {
    let mut found = None;
    each_member(json, |key, value| {
        if string_of(key)? == name {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// What a string is that is written so.
///
/// # Errors
/// 22P05 for what no text can have in it.
pub(crate) fn string_of(token: &str) -> Result<Cow<'_, str>> {
    let token = trimmed(token);
    let inner = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(inner) = inner.filter(|inner| !inner.contains('\\')) {
        pulse::work(inner.len() / 32)?;
        return Ok(Cow::Borrowed(inner));
    }
    let mut lexer = Lexer::new(token, true);
    lexer.advance()?;
    Ok(Cow::Owned(lexer.take_string()))
}

/// A value's text as `->>` gives it: of a string what it is, nothing of null.
pub(crate) fn text_of(json: &str) -> Result<Option<Cow<'_, str>>> {
    Ok(match kind(json) {
        Kind::Null => None,
        Kind::String => Some(string_of(json)?),
        _ => Some(Cow::Borrowed(json)),
    })
}

/// A text without the blanks of JSON around it.
pub(crate) fn trimmed(json: &str) -> &str {
    json.trim_matches([' ', '\t', '\n', '\r'])
}

/// A text without blanks between tokens, and, if asked for, without the members of objects that are
/// null.
pub(crate) fn stripped(json: &str) -> Result<String> {
    let mut lexer = Lexer::new(json, true);
    let mut out = String::with_capacity(json.len());
    // Of what is open: whether it is an object, and whether something stands in it.
    let mut open: Vec<(bool, bool)> = Vec::new();
    lexer.advance()?;
    loop {
        pulse::work(1)?;
        let begin = |open: &mut Vec<(bool, bool)>, out: &mut String| {
            if let Some((_, any)) = open.last_mut() {
                if *any {
                    out.push(',');
                }
                *any = true;
            }
        };
        match lexer.token() {
            Token::End => return Ok(out),
            Token::Comma => lexer.advance()?,
            Token::ObjectEnd | Token::ArrayEnd => {
                open.pop();
                out.push_str(lexer.text());
                lexer.advance()?;
            }
            Token::String if open.last().is_some_and(|(is_object, _)| *is_object) => {
                let key = lexer.take_string();
                lexer.advance()?;
                lexer.advance()?;
                if lexer.token() == Token::Null {
                    lexer.advance()?;
                    continue;
                }
                begin(&mut open, &mut out);
                write_quoted(&key, &mut out)?;
                out.push(':');
                // The value goes without a comma of its own.
                match lexer.token() {
                    Token::ObjectStart => open.push((true, false)),
                    Token::ArrayStart => open.push((false, false)),
                    _ => {}
                }
                put_token(&mut lexer, &mut out)?;
            }
            token => {
                begin(&mut open, &mut out);
                match token {
                    Token::ObjectStart => open.push((true, false)),
                    Token::ArrayStart => open.push((false, false)),
                    _ => {}
                }
                put_token(&mut lexer, &mut out)?;
            }
        }
    }
}

fn put_token(lexer: &mut Lexer<'_>, out: &mut String) -> Result<()> {
    if lexer.token() == Token::String {
        let text = lexer.take_string();
        write_quoted(&text, out)?;
    } else {
        out.push_str(lexer.text());
    }
    lexer.advance()
}

/// Bytes of a string that are written in one go.
const PIECE_BYTES: usize = 16 << 10;

/// Appends a string in quotes.
///
/// # Errors
/// The statement was cancelled.
pub(crate) fn write_quoted(text: &str, out: &mut String) -> Result<()> {
    out.push('"');
    let mut after = text;
    while !after.is_empty() {
        let (piece, behind) = after.split_at(after.floor_char_boundary(PIECE_BYTES));
        after = behind;
        pulse::work(piece.len() / 2)?;
        let mut rest = piece;
        while let Some(at) = rest.bytes().position(|byte| byte < 32 || byte == b'"' || byte == b'\\') {
            out.push_str(&rest[..at]);
            match rest.as_bytes()[at] {
                b'"' => out.push_str("\\\""),
                b'\\' => out.push_str("\\\\"),
                b'\n' => out.push_str("\\n"),
                b'\r' => out.push_str("\\r"),
                b'\t' => out.push_str("\\t"),
                8 => out.push_str("\\b"),
                12 => out.push_str("\\f"),
                byte => out.push_str(&format!("\\u{byte:04x}")),
            }
            rest = &rest[at + 1..];
        }
        out.push_str(rest);
    }
    out.push('"');
    Ok(())
}

/// What no text can have in it.
#[cold]
fn untranslatable(detail: &str) -> Error {
    Error::new(SqlState("22P05"), "unsupported Unicode escape sequence").detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> (String, String) {
        let error = validate(text).unwrap_err();
        let report = error.report();
        (report.detail.clone().unwrap_or_default(), report.context.clone().unwrap_or_default())
    }

    #[test]
    fn mistakes_are_told_as_postgresql_tells_them() {
        let check = |text: &str, detail: &str, context: &str| {
            assert_eq!(fault(text), (detail.to_owned(), format!("JSON data, line {context}")), "{text}");
        };
        check("", "The input string ended unexpectedly.", "1: ");
        check("{a}", "Token \"a\" is invalid.", "1: {a...");
        check("[1,]", "Expected JSON value, but found \"]\".", "1: [1,]");
        check("[1 2]", "Expected \",\" or \"]\", but found \"2\".", "1: [1 2...");
        check("{\"a\" 1}", "Expected \":\", but found \"1\".", "1: {\"a\" 1...");
        check("{1:1}", "Expected string or \"}\", but found \"1\".", "1: {1...");
        check("1 2", "Expected end of input, but found \"2\".", "1: 1 2");
        check("\"\\x\"", "Escape sequence \"\\x\" is invalid.", "1: \"\\x...");
        check("{\"a\":\n 01}", "Token \"01\" is invalid.", "2:  01...");
    }

    #[test]
    fn parts_are_as_they_are_written() {
        assert_eq!(elements(" [1 , [2,3],\"a\" ] ", true).unwrap(), ["1", "[2,3]", "\"a\""]);
        assert_eq!(elements("{}", true).unwrap(), [""; 0]);
        assert_eq!(member("{\"a\":1, \"b\": { \"c\" : 2 } , \"a\":3}", "a").unwrap(), Some("3"));
        assert_eq!(member("{\"a\":1, \"b\": { \"c\" : 2 } }", "b").unwrap(), Some("{ \"c\" : 2 }"));
        assert_eq!(string_of("\"a\\u00e9\\ud83d\\ude00\\n\"").unwrap(), "a\u{e9}\u{1f600}\n");
        assert_eq!(
            stripped(r#"{"a": null, "b": [1, null, {"c": null}], "d": {}}"#).unwrap(),
            r#"{"b":[1,null,{}],"d":{}}"#
        );
    }
}
