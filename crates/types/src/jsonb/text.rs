//! `jsonb` from and to text, in PostgreSQL's form: `{"a": 1, "b": [true, null]}`.

use std::borrow::Cow;

use super::{DEPTH_MAX, Item, JsonbRef, Node, too_deep};
use crate::error::{Error, Result, SqlState};
use crate::json_text::{Expected, Lexer, Token, write_quoted};
use crate::numeric::Numeric;
use crate::pulse;

/// Bytes of a string, at most.
const STRING_BYTES_MAX: usize = (1 << 28) - 1;

/// Reads a text.
///
/// # Errors
/// 22P02, and what is wrong where; 22P05 for `\u0000`; 22003 for numbers that `numeric` does not
/// have; 54000 and 54001 for what is too large or too deep.
pub fn parse(text: &str) -> Result<Item<'static>> {
    let mut lexer = Lexer::new(text, true);
    lexer.advance()?;
    let item = value(&mut lexer, 0)?;
    if lexer.token() != Token::End {
        return Err(lexer.unexpected(Expected::End));
    }
    Ok(item)
}

fn string(lexer: &mut Lexer<'_>) -> Result<Cow<'static, str>> {
    let text = lexer.take_string();
    if text.len() > STRING_BYTES_MAX {
        let error = Error::new(SqlState::PROGRAM_LIMIT, "string too long to represent as jsonb string");
        return Err(error.detail(format!(
            "Due to an implementation restriction, jsonb strings cannot exceed {STRING_BYTES_MAX} bytes."
        )));
    }
    Ok(Cow::Owned(text))
}

fn value(lexer: &mut Lexer<'_>, depth: usize) -> Result<Item<'static>> {
    let item = match lexer.token() {
        Token::ObjectStart => return object(lexer, depth + 1),
        Token::ArrayStart => return array(lexer, depth + 1),
        Token::String => Item::String(string(lexer)?),
        Token::Number => Item::Number(Numeric::parse(lexer.text())?),
        Token::True => Item::Bool(true),
        Token::False => Item::Bool(false),
        Token::Null => Item::Null,
        _ => return Err(lexer.unexpected(Expected::Value)),
    };
    lexer.advance()?;
    Ok(item)
}

fn array(lexer: &mut Lexer<'_>, depth: usize) -> Result<Item<'static>> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    lexer.advance()?;
    let mut items = Vec::new();
    if lexer.token() != Token::ArrayEnd {
        items.push(value(lexer, depth)?);
        while lexer.token() == Token::Comma {
            lexer.advance()?;
            items.push(value(lexer, depth)?);
        }
    }
    if lexer.token() != Token::ArrayEnd {
        return Err(lexer.unexpected(Expected::ArrayNext));
    }
    lexer.advance()?;
    Ok(Item::Array(items))
}

fn object(lexer: &mut Lexer<'_>, depth: usize) -> Result<Item<'static>> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    lexer.advance()?;
    let mut members = Vec::new();
    match lexer.token() {
        Token::String => {
            members.push(member(lexer, depth)?);
            while lexer.token() == Token::Comma {
                lexer.advance()?;
                members.push(member(lexer, depth)?);
            }
        }
        Token::ObjectEnd => {}
        _ => return Err(lexer.unexpected(Expected::ObjectFirst)),
    }
    if lexer.token() != Token::ObjectEnd {
        return Err(lexer.unexpected(Expected::ObjectNext));
    }
    lexer.advance()?;
    Ok(Item::Object(members))
}

fn member(lexer: &mut Lexer<'_>, depth: usize) -> Result<(Cow<'static, str>, Item<'static>)> {
    if lexer.token() != Token::String {
        return Err(lexer.unexpected(Expected::String));
    }
    let key = string(lexer)?;
    lexer.advance()?;
    if lexer.token() != Token::Colon {
        return Err(lexer.unexpected(Expected::Colon));
    }
    lexer.advance()?;
    Ok((key, value(lexer, depth)?))
}

fn write_scalar(node: Node<'_>, out: &mut String) -> Result<()> {
    match node {
        Node::Bool(true) => out.push_str("true"),
        Node::Bool(false) => out.push_str("false"),
        Node::Number(value) => value.write(out),
        Node::String(text) => write_quoted(text, out)?,
        _ => out.push_str("null"),
    }
    Ok(())
}

/// Appends a value's text.
///
/// # Errors
/// Its bytes are malformed, or the statement was cancelled: then only a part is there.
pub fn write(value: JsonbRef<'_>, out: &mut String) -> Result<()> {
    pulse::work(4)?;
    match value.node()? {
        Node::Array(list) => {
            out.push('[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write(element, out)?;
            }
            out.push(']');
        }
        Node::Object(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_quoted(key, out)?;
                out.push_str(": ");
                write(value, out)?;
            }
            out.push('}');
        }
        scalar => write_scalar(scalar, out)?,
    }
    Ok(())
}

/// Appends a value's text with a line for each part, four blanks for each level.
///
/// # Errors
/// As [`write()`].
pub fn write_pretty(value: JsonbRef<'_>, level: usize, out: &mut String) -> Result<()> {
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 4 * level));
    };
    pulse::work(4)?;
    match value.node()? {
        Node::Array(list) => {
            out.push('[');
            for (at, element) in list.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(level + 1, out);
                write_pretty(element, level + 1, out)?;
            }
            line(level, out);
            out.push(']');
        }
        Node::Object(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(level + 1, out);
                write_quoted(key, out)?;
                out.push_str(": ");
                write_pretty(value, level + 1, out)?;
            }
            line(level, out);
            out.push('}');
        }
        scalar => write_scalar(scalar, out)?,
    }
    Ok(())
}
