//! The functions and operators of the extension `citext`: those of texts, without case.

use super::regular::{self, Options};
use super::strings::{self, lower, upper};
use super::{Function, f, int, text};
use crate::env::Env;
use crate::error::Result;
use crate::like;
use crate::operators;
use crate::types::Type::{Bool, Citext, Int4, Text};
use crate::value::Datum;

/// The options of a pattern, without case unless they say otherwise.
fn letters(given: &str) -> String {
    if given.contains('c') { given.to_owned() } else { format!("{given}i") }
}

/// A pattern that matches a text and nothing else.
fn pattern_of(part: &str) -> String {
    let mut pattern = String::with_capacity(part.len());
    for c in part.chars() {
        if !c.is_ascii_alphanumeric() && c != '_' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn matches(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(regular::is_match(text(a[0])?, text(a[1])?, regular::insensitive())?))
}

fn matches_not(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(!regular::is_match(text(a[0])?, text(a[1])?, regular::insensitive())?))
}

fn is_like(a: &[&Datum]) -> Result<bool> {
    like::like(&lower(text(a[0])?)?, &lower(text(a[1])?)?, Some('\\'))
}

fn likes(a: &[&Datum], _: &Env) -> Result<Datum> {
    is_like(a).map(Datum::Bool)
}

fn likes_not(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(!is_like(a)?))
}

fn flags(a: &[&Datum], at: usize) -> Result<String> {
    Ok(letters(a.get(at).map_or(Ok(""), |flags| text(flags))?))
}

fn first_match(a: &[&Datum], _: &Env) -> Result<Datum> {
    regular::first_match(text(a[0])?, text(a[1])?, &flags(a, 2)?)
}

fn replace_match(a: &[&Datum], _: &Env) -> Result<Datum> {
    let options = Options::parse(&flags(a, 3)?)?;
    regular::replace(text(a[0])?, 0, text(a[1])?, text(a[2])?, usize::from(!options.global), options.flags)
}

fn split_by_matches(a: &[&Datum], _: &Env) -> Result<Datum> {
    regular::split_to_array(text(a[0])?, text(a[1])?, &flags(a, 2)?)
}

fn place(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Int(strings::position(&lower(text(a[0])?)?, &lower(text(a[1])?)?)? as i64))
}

fn replace(a: &[&Datum], _: &Env) -> Result<Datum> {
    let options = regular::insensitive();
    regular::replace(text(a[0])?, 0, &pattern_of(text(a[1])?), text(a[2])?, 0, options.flags)
}

fn split_part(a: &[&Datum], _: &Env) -> Result<Datum> {
    let parts = regular::split_to_array(text(a[0])?, &pattern_of(text(a[1])?), "i")?;
    let Datum::Array(parts) = parts else { return Ok(Datum::Null) };
    Ok(parts.get(&[int(a[2])?]).cloned().unwrap_or(Datum::Null))
}

fn translate(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (value, from, to) = (text(a[0])?, text(a[1])?, text(a[2])?);
    let lowered = strings::translate(value, &lower(from)?, to)?;
    strings::translate(&lowered, &upper(from)?, to).map(Datum::Text)
}

macro_rules! compared {
    ($test:ident) => {
        |a, _| Ok(Datum::Bool(operators::compare(a[0], a[1]).$test()))
    };
}

fn order(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Int(operators::compare(a[0], a[1]) as i64))
}

const TWO: &[crate::types::Type] = &[Citext, Citext];
const WITH_TEXT: &[crate::types::Type] = &[Citext, Text];

pub(super) const TABLE: &[Function] = &[
    f("~", TWO, Bool, matches),
    f("~", WITH_TEXT, Bool, matches),
    f("~*", TWO, Bool, matches),
    f("~*", WITH_TEXT, Bool, matches),
    f("!~", TWO, Bool, matches_not),
    f("!~", WITH_TEXT, Bool, matches_not),
    f("!~*", TWO, Bool, matches_not),
    f("!~*", WITH_TEXT, Bool, matches_not),
    f("~~", TWO, Bool, likes),
    f("~~", WITH_TEXT, Bool, likes),
    f("~~*", TWO, Bool, likes),
    f("~~*", WITH_TEXT, Bool, likes),
    f("!~~", TWO, Bool, likes_not),
    f("!~~", WITH_TEXT, Bool, likes_not),
    f("!~~*", TWO, Bool, likes_not),
    f("!~~*", WITH_TEXT, Bool, likes_not),
    f("~<~", TWO, Bool, compared!(is_lt)),
    f("~<=~", TWO, Bool, compared!(is_le)),
    f("~>=~", TWO, Bool, compared!(is_ge)),
    f("~>~", TWO, Bool, compared!(is_gt)),
    f("texticregexeq", TWO, Bool, matches),
    f("texticregexeq", WITH_TEXT, Bool, matches),
    f("texticregexne", TWO, Bool, matches_not),
    f("texticregexne", WITH_TEXT, Bool, matches_not),
    f("texticlike", TWO, Bool, likes),
    f("texticlike", WITH_TEXT, Bool, likes),
    f("texticnlike", TWO, Bool, likes_not),
    f("texticnlike", WITH_TEXT, Bool, likes_not),
    f("citext_eq", TWO, Bool, compared!(is_eq)),
    f("citext_ne", TWO, Bool, compared!(is_ne)),
    f("citext_lt", TWO, Bool, compared!(is_lt)),
    f("citext_le", TWO, Bool, compared!(is_le)),
    f("citext_ge", TWO, Bool, compared!(is_ge)),
    f("citext_gt", TWO, Bool, compared!(is_gt)),
    f("citext_cmp", TWO, Int4, order),
    f("citext_pattern_lt", TWO, Bool, compared!(is_lt)),
    f("citext_pattern_le", TWO, Bool, compared!(is_le)),
    f("citext_pattern_ge", TWO, Bool, compared!(is_ge)),
    f("citext_pattern_gt", TWO, Bool, compared!(is_gt)),
    f("citext_pattern_cmp", TWO, Int4, order),
    f("citext_smaller", TWO, Citext, |a, _| Ok(a[usize::from(operators::compare(a[0], a[1]).is_ge())].clone())),
    f("citext_larger", TWO, Citext, |a, _| Ok(a[usize::from(operators::compare(a[0], a[1]).is_le())].clone())),
    f("regexp_match", TWO, Text.array_of(), first_match),
    f("regexp_match", &[Citext, Citext, Text], Text.array_of(), first_match),
    f("regexp_replace", &[Citext, Citext, Text], Text, replace_match),
    f("regexp_replace", &[Citext, Citext, Text, Text], Text, replace_match),
    f("regexp_split_to_array", TWO, Text.array_of(), split_by_matches),
    f("regexp_split_to_array", &[Citext, Citext, Text], Text.array_of(), split_by_matches),
    f(".citext_flags", &[Text], Text, |a, _| Ok(Datum::Text(letters(text(a[0])?).into()))),
    f("strpos", TWO, Int4, place),
    f("replace", &[Citext, Citext, Citext], Text, replace),
    f("split_part", &[Citext, Citext, Int4], Text, split_part),
    f("translate", &[Citext, Citext, Text], Text, translate),
];
