//! The functions and operators of the extension `ltree`. What paths and patterns are is in
//! `crate::ltree`.

use super::{Function, f, int, text};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::ltree::{self, Condition, Pattern};
use crate::operators;
use crate::types::Type;
use crate::types::Type::{Bool, Int4, Lquery, Ltree, Ltxtquery, Text};
use crate::value::Datum;

const PATHS: Type = Ltree.array_of();
const PATTERNS: Type = Lquery.array_of();

/// Whether something holds of a path.
type Test<'a> = &'a dyn Fn(&str) -> Result<bool>;

/// The texts of an array, without NULLs.
fn texts(array: &Datum) -> Result<Vec<&str>> {
    match array {
        Datum::Array(array) => array.values().iter().filter(|value| !value.is_null()).map(text).collect(),
        _ => Err(Error::internal("an array was expected")),
    }
}

/// The first path of an array of which something holds.
fn first<'a>(array: &'a Datum, test: Test<'_>) -> Result<Option<&'a str>> {
    for path in texts(array)? {
        if test(path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Of a path, or of any path of an array.
fn any(paths: &Datum, test: Test<'_>) -> Result<Datum> {
    let holds = match paths {
        Datum::Array(_) => first(paths, test)?.is_some(),
        path => test(text(path)?)?,
    };
    Ok(Datum::Bool(holds))
}

fn extracted(paths: &Datum, test: Test<'_>) -> Result<Datum> {
    Ok(first(paths, test)?.map_or(Datum::Null, Datum::text))
}

fn is_above(a: &[&Datum], _: &Env) -> Result<Datum> {
    match a[1] {
        Datum::Array(_) => any(a[1], &|path| Ok(ltree::is_ancestor(text(a[0])?, path))),
        path => any(a[0], &|ancestor| Ok(ltree::is_ancestor(ancestor, text(path)?))),
    }
}

fn is_below(a: &[&Datum], env: &Env) -> Result<Datum> {
    is_above(&[a[1], a[0]], env)
}

/// The first path that is above one.
fn first_above(a: &[&Datum], _: &Env) -> Result<Datum> {
    let path = text(a[1])?;
    extracted(a[0], &|ancestor| Ok(ltree::is_ancestor(ancestor, path)))
}

fn first_below(a: &[&Datum], _: &Env) -> Result<Datum> {
    let ancestor = text(a[1])?;
    extracted(a[0], &|path| Ok(ltree::is_ancestor(ancestor, path)))
}

fn matches(a: &[&Datum], _: &Env) -> Result<Datum> {
    let pattern = Pattern::parse(text(a[1])?)?;
    any(a[0], &|path| pattern.matches(path))
}

fn first_matching(a: &[&Datum], _: &Env) -> Result<Datum> {
    let pattern = Pattern::parse(text(a[1])?)?;
    extracted(a[0], &|path| pattern.matches(path))
}

fn matches_any(a: &[&Datum], _: &Env) -> Result<Datum> {
    for pattern in texts(a[1])? {
        let pattern = Pattern::parse(pattern)?;
        let found = any(a[0], &|path| pattern.matches(path))?;
        if found.is_true() {
            return Ok(found);
        }
    }
    Ok(Datum::Bool(false))
}

fn holds(a: &[&Datum], _: &Env) -> Result<Datum> {
    let condition = Condition::parse(text(a[1])?)?;
    any(a[0], &|path| Ok(condition.holds(path)))
}

fn first_holding(a: &[&Datum], _: &Env) -> Result<Datum> {
    let condition = Condition::parse(text(a[1])?)?;
    extracted(a[0], &|path| Ok(condition.holds(path)))
}

macro_rules! exchanged {
    ($function:ident) => {
        |a, env| $function(&[a[1], a[0]], env)
    };
}

fn join(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (one, other) = (text(a[0])?, text(a[1])?);
    ltree::check_path(one)?;
    ltree::check_path(other)?;
    ltree::joined(one, other).map(|path| Datum::text(&path))
}

fn common(a: &[&Datum], _: &Env) -> Result<Datum> {
    let paths = match a {
        [array @ Datum::Array(_)] => texts(array)?,
        paths => paths.iter().map(|path| text(path)).collect::<Result<_>>()?,
    };
    Ok(ltree::common_ancestor(paths.into_iter()).map_or(Datum::Null, |path| Datum::text(&path)))
}

fn subpath(a: &[&Datum], _: &Env) -> Result<Datum> {
    let length = a.get(2).map(|length| int(length)).transpose()?;
    ltree::subpath(text(a[0])?, int(a[1])?, length).map(|path| Datum::text(&path))
}

fn index(a: &[&Datum], _: &Env) -> Result<Datum> {
    let start = a.get(2).map_or(Ok(0), |start| int(start))?;
    Ok(Datum::Int(ltree::index_of(text(a[0])?, text(a[1])?, start)))
}

fn of_text(a: &[&Datum], _: &Env) -> Result<Datum> {
    ltree::check_path(text(a[0])?)?;
    Ok(a[0].clone())
}

macro_rules! compared {
    ($test:ident) => {
        |a, _| Ok(Datum::Bool(operators::compare(a[0], a[1]).$test()))
    };
}

const P: Type = Ltree;
const TWO: &[Type] = &[P, P];
const LISTED: &[Type] = &[PATHS, P];
const IN_LIST: &[Type] = &[P, PATHS];

pub(super) const TABLE: &[Function] = &[
    f("@>", TWO, Bool, is_above),
    f("@>", LISTED, Bool, is_above),
    f("@>", IN_LIST, Bool, is_above),
    f("<@", TWO, Bool, is_below),
    f("<@", LISTED, Bool, is_below),
    f("<@", IN_LIST, Bool, is_below),
    f("^@>", TWO, Bool, is_above),
    f("^@>", LISTED, Bool, is_above),
    f("^@>", IN_LIST, Bool, is_above),
    f("^<@", TWO, Bool, is_below),
    f("^<@", LISTED, Bool, is_below),
    f("^<@", IN_LIST, Bool, is_below),
    f("~", &[P, Lquery], Bool, matches),
    f("~", &[Lquery, P], Bool, exchanged!(matches)),
    f("~", &[PATHS, Lquery], Bool, matches),
    f("~", &[Lquery, PATHS], Bool, exchanged!(matches)),
    f("^~", &[P, Lquery], Bool, matches),
    f("^~", &[Lquery, P], Bool, exchanged!(matches)),
    f("^~", &[PATHS, Lquery], Bool, matches),
    f("^~", &[Lquery, PATHS], Bool, exchanged!(matches)),
    f("?", &[P, PATTERNS], Bool, matches_any),
    f("?", &[PATTERNS, P], Bool, exchanged!(matches_any)),
    f("?", &[PATHS, PATTERNS], Bool, matches_any),
    f("?", &[PATTERNS, PATHS], Bool, exchanged!(matches_any)),
    f("^?", &[P, PATTERNS], Bool, matches_any),
    f("^?", &[PATTERNS, P], Bool, exchanged!(matches_any)),
    f("^?", &[PATHS, PATTERNS], Bool, matches_any),
    f("^?", &[PATTERNS, PATHS], Bool, exchanged!(matches_any)),
    f("@", &[P, Ltxtquery], Bool, holds),
    f("@", &[Ltxtquery, P], Bool, exchanged!(holds)),
    f("@", &[PATHS, Ltxtquery], Bool, holds),
    f("@", &[Ltxtquery, PATHS], Bool, exchanged!(holds)),
    f("^@", &[P, Ltxtquery], Bool, holds),
    f("^@", &[Ltxtquery, P], Bool, exchanged!(holds)),
    f("^@", &[PATHS, Ltxtquery], Bool, holds),
    f("^@", &[Ltxtquery, PATHS], Bool, exchanged!(holds)),
    f("?@>", LISTED, P, first_above),
    f("?<@", LISTED, P, first_below),
    f("?~", &[PATHS, Lquery], P, first_matching),
    f("?@", &[PATHS, Ltxtquery], P, first_holding),
    f("||", TWO, P, join),
    f("||", &[P, Text], P, join),
    f("||", &[Text, P], P, join),
    f("ltree_addltree", TWO, P, join),
    f("ltree_addtext", &[P, Text], P, join),
    f("ltree_textadd", &[Text, P], P, join),
    f("ltree_isparent", TWO, Bool, is_above),
    f("ltree_risparent", TWO, Bool, is_below),
    f("ltree_eq", TWO, Bool, compared!(is_eq)),
    f("ltree_ne", TWO, Bool, compared!(is_ne)),
    f("ltree_lt", TWO, Bool, compared!(is_lt)),
    f("ltree_le", TWO, Bool, compared!(is_le)),
    f("ltree_ge", TWO, Bool, compared!(is_ge)),
    f("ltree_gt", TWO, Bool, compared!(is_gt)),
    f("ltree_cmp", TWO, Int4, |a, _| Ok(Datum::Int(operators::compare(a[0], a[1]) as i64))),
    f("ltq_regex", &[P, Lquery], Bool, matches),
    f("ltq_rregex", &[Lquery, P], Bool, exchanged!(matches)),
    f("lt_q_regex", &[P, PATTERNS], Bool, matches_any),
    f("lt_q_rregex", &[PATTERNS, P], Bool, exchanged!(matches_any)),
    f("ltxtq_exec", &[P, Ltxtquery], Bool, holds),
    f("ltxtq_rexec", &[Ltxtquery, P], Bool, exchanged!(holds)),
    f("lca", &[PATHS], P, common),
    f("lca", TWO, P, common),
    f("lca", &[P, P, P], P, common),
    f("lca", &[P, P, P, P], P, common),
    f("lca", &[P, P, P, P, P], P, common),
    f("lca", &[P, P, P, P, P, P], P, common),
    f("lca", &[P, P, P, P, P, P, P], P, common),
    f("lca", &[P, P, P, P, P, P, P, P], P, common),
    f("nlevel", &[P], Int4, |a, _| Ok(Datum::Int(ltree::level(text(a[0])?) as i64))),
    f("subltree", &[P, Int4, Int4], P, |a, _| {
        ltree::part(text(a[0])?, int(a[1])?, int(a[2])?).map(|path| Datum::text(&path))
    }),
    f("subpath", &[P, Int4], P, subpath),
    f("subpath", &[P, Int4, Int4], P, subpath),
    f("index", TWO, Int4, index),
    f("index", &[P, P, Int4], Int4, index),
    f("text2ltree", &[Text], P, of_text),
    f("ltree2text", &[P], Text, |a, _| Ok(a[0].clone())),
];
