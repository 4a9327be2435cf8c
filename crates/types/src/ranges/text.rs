//! Ranges and multiranges as text: `[1,5)`, `empty`, `{[1,5),[7,9)}`.

use super::{Bound, Span, normalized, span, spans, value};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::letters::is_blank_char;
use crate::pulse;
use crate::quoted::Reader;
use crate::text_io;
use crate::types::{Modifier, Type};
use crate::value::Datum;

#[cold]
fn malformed(kind: &str, text: &str, detail: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("malformed {kind} literal: \"{text}\"")).detail(detail)
}

/// A bound's text; `None` if there is nothing.
fn bound_text(reader: &mut Reader<'_>, whole: &str) -> Result<Option<String>> {
    reader.item(b",)]")?.ok_or_else(|| malformed("range", whole, "Unexpected end of input."))
}

fn parse_span(subtype: Type, text: &str, env: &Env) -> Result<Option<Span>> {
    let wrong = |detail| malformed("range", text, detail);
    let mut reader = Reader::new(text);
    reader.skip_blanks();
    if reader.eat_word("empty") {
        reader.skip_blanks();
        return match reader.peek() {
            None => Ok(None),
            Some(_) => Err(wrong("Junk after \"empty\" key word.")),
        };
    }
    let from_inclusive = reader.eat(b'[');
    if !from_inclusive && !reader.eat(b'(') {
        return Err(wrong("Missing left parenthesis or bracket."));
    }
    let from = bound_text(&mut reader, text)?;
    if !reader.eat(b',') {
        return Err(wrong("Missing comma after lower bound."));
    }
    let to = bound_text(&mut reader, text)?;
    let to_inclusive = reader.eat(b']');
    if !to_inclusive && !reader.eat(b')') {
        return Err(wrong("Too many commas."));
    }
    reader.skip_blanks();
    if reader.peek().is_some() {
        return Err(wrong("Junk after right parenthesis or bracket."));
    }
    let read = |text: Option<String>| text.map(|text| text_io::parse(subtype, Modifier::NONE, &text, env)).transpose();
    let lower = Bound { value: read(from)?, inclusive: from_inclusive };
    let upper = Bound { value: read(to)?, inclusive: to_inclusive };
    span(subtype, lower, upper)
}

fn parse_spans(subtype: Type, text: &str, env: &Env) -> Result<Vec<Span>> {
    let wrong = |detail| malformed("multirange", text, detail);
    let mut reader = Reader::new(text);
    reader.skip_blanks();
    if !reader.eat(b'{') {
        return Err(wrong("Missing left brace."));
    }
    let mut found = Vec::new();
    let mut is_first = true;
    loop {
        reader.skip_blanks();
        if is_first && reader.eat(b'}') {
            break;
        }
        is_first = false;
        match reader.peek() {
            Some(b'[' | b'(') => {
                let from = reader.at();
                reader.skip_item(b")]").ok_or_else(|| wrong("Unexpected end of input."))?;
                found.extend(parse_span(subtype, &text[from..reader.at()], env)?);
            }
            Some(_) if reader.eat_word("empty") => {}
            Some(_) => return Err(wrong("Expected range start.")),
            None => return Err(wrong("Unexpected end of input.")),
        }
        reader.skip_blanks();
        match reader.peek() {
            Some(b',') => _ = reader.eat(b','),
            Some(b'}') => {
                reader.eat(b'}');
                break;
            }
            Some(_) => return Err(wrong("Expected comma or end of multirange.")),
            None => return Err(wrong("Unexpected end of input.")),
        }
    }
    reader.skip_blanks();
    match reader.peek() {
        None => Ok(found),
        Some(_) => Err(wrong("Junk after closing right brace.")),
    }
}

/// Reads a value.
///
/// # Errors
/// 22P02 if the text is no range, 22000 if its bounds are in the wrong order, and the errors of the
/// bounds' type.
pub(crate) fn parse(ty: Type, text: &str, env: &Env) -> Result<Datum> {
    text_io::check_text(text)?;
    let subtype = ty.bounds().ok_or_else(|| Error::internal("a range without bounds"))?;
    Ok(match ty.is_range() {
        true => value(ty, parse_span(subtype, text, env)?.as_slice()),
        false => value(ty, &normalized(parse_spans(subtype, text, env)?)),
    })
}

/// Appends a value's text; of what is malformed, nothing.
pub(crate) fn write(ty: Type, bytes: &[u8], env: &Env, out: &mut String) {
    let (Some(subtype), Ok(spans)) = (ty.bounds(), spans(ty, bytes)) else { return };
    if ty.is_range() {
        return match spans.first() {
            Some(span) => write_span(subtype, span, env, out),
            None => out.push_str("empty"),
        };
    }
    out.push('{');
    for (at, span) in spans.iter().enumerate() {
        if pulse::note(8) {
            return;
        }
        if at > 0 {
            out.push(',');
        }
        write_span(subtype, span, env, out);
    }
    out.push('}');
}

fn write_span(subtype: Type, span: &Span, env: &Env, out: &mut String) {
    let put = |value: &Option<Datum>, out: &mut String| {
        let Some(value) = value else { return };
        let mut text = String::new();
        text_io::write(subtype, value, env, &mut text);
        let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | '[' | ']' | ',') || is_blank_char(c);
        if !text.is_empty() && !text.contains(is_special) {
            out.push_str(&text);
            return;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push(c);
            }
            out.push(c);
        }
        out.push('"');
    };
    out.push(if span.lower.inclusive { '[' } else { '(' });
    put(&span.lower.value, out);
    out.push(',');
    put(&span.upper.value, out);
    out.push(if span.upper.inclusive { ']' } else { ')' });
}
