//! The functions and operators of the extension `hstore`. What a value is made of is in
//! `crate::hstore`.

use std::sync::Arc;

use super::{Function, bytes, f, text};
use crate::array::{Array, Dimension};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::hstore::{self, Hstore, Pair};
use crate::operators;
use crate::pulse;
use crate::text_io;
use crate::types::Type;
use crate::types::Type::{Bool, Hstore as H, Int4, Json, Jsonb, Record, Text};
use crate::value::Datum;

const TEXTS: Type = Text.array_of();

fn store(value: &Datum) -> Result<Hstore<'_>> {
    bytes(value).map(Hstore::new)
}

fn made(pairs: Vec<Pair<'_>>) -> Result<Datum> {
    hstore::of_pairs(pairs).map(Datum::Bytes)
}

fn shown(value: Option<&str>) -> Datum {
    value.map_or(Datum::Null, Datum::text)
}

fn values_of(array: &Datum) -> Result<&[Datum]> {
    match array {
        Datum::Array(array) => Ok(array.values()),
        _ => Err(Error::internal("an array was expected")),
    }
}

/// The texts of an array, without NULLs.
fn texts_of(array: &Datum) -> Result<Vec<&str>> {
    values_of(array)?.iter().filter(|value| !value.is_null()).map(text).collect()
}

fn texts(values: Vec<Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(Text, values)))
}

fn fetch(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(shown(store(a[0])?.get(text(a[1])?).flatten()))
}

fn fetch_all(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (store, Datum::Array(keys)) = (store(a[0])?, a[1]) else { return Ok(Datum::Null) };
    let found = keys.map(|key| match key {
        Datum::Null => Ok(Datum::Null),
        key => Ok(shown(store.get(text(key)?).flatten())),
    })?;
    Ok(Datum::Array(Arc::new(found)))
}

fn slice(a: &[&Datum], _: &Env) -> Result<Datum> {
    let store = store(a[0])?;
    made(texts_of(a[1])?.into_iter().filter_map(|key| store.get(key).map(|value| (key, value))).collect())
}

fn has(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(store(a[0])?.get(text(a[1])?).is_some()))
}

fn is_defined(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Bool(store(a[0])?.get(text(a[1])?).flatten().is_some()))
}

fn has_any(a: &[&Datum], _: &Env) -> Result<Datum> {
    let store = store(a[0])?;
    Ok(Datum::Bool(texts_of(a[1])?.into_iter().any(|key| store.get(key).is_some())))
}

fn has_all(a: &[&Datum], _: &Env) -> Result<Datum> {
    let store = store(a[0])?;
    Ok(Datum::Bool(texts_of(a[1])?.into_iter().all(|key| store.get(key).is_some())))
}

fn contains(a: &[&Datum], _: &Env) -> Result<Datum> {
    store(a[0])?.contains(store(a[1])?).map(Datum::Bool)
}

fn is_contained(a: &[&Datum], _: &Env) -> Result<Datum> {
    store(a[1])?.contains(store(a[0])?).map(Datum::Bool)
}

fn concat(a: &[&Datum], _: &Env) -> Result<Datum> {
    // Of pairs with the same key the first one stays.
    made(store(a[1])?.pairs().chain(store(a[0])?.pairs()).collect())
}

fn without_key(a: &[&Datum], _: &Env) -> Result<Datum> {
    let key = text(a[1])?;
    made(store(a[0])?.pairs().filter(|pair| pair.0 != key).collect())
}

fn without_keys(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut keys = texts_of(a[1])?;
    keys.sort_unstable();
    made(store(a[0])?.pairs().filter(|pair| keys.binary_search(&pair.0).is_err()).collect())
}

fn without_pairs(a: &[&Datum], _: &Env) -> Result<Datum> {
    let taken = store(a[1])?;
    made(store(a[0])?.pairs().filter(|pair| taken.get(pair.0) != Some(pair.1)).collect())
}

fn of_pair(a: &[&Datum], _: &Env) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let value = if a[1].is_null() { None } else { Some(text(a[1])?) };
    made(vec![(text(a[0])?, value)])
}

fn of_row(a: &[&Datum], env: &Env) -> Result<Datum> {
    let Datum::Row(row) = a[0] else { return Ok(Datum::Null) };
    let mut fields = Vec::new();
    for (name, ty, value) in row.fields() {
        pulse::work(1)?;
        let value = if value.is_null() { None } else { Some(text_io::written(ty.ty, value, env)?) };
        fields.push((name, value));
    }
    made(fields.iter().map(|(name, value)| (&**name, value.as_deref())).collect())
}

fn keys(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(texts(store(a[0])?.pairs().map(|pair| Datum::text(pair.0)).collect()))
}

fn values(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(texts(store(a[0])?.pairs().map(|pair| shown(pair.1)).collect()))
}

fn in_turn(store: Hstore<'_>) -> Vec<Datum> {
    store.pairs().flat_map(|(key, value)| [Datum::text(key), shown(value)]).collect()
}

fn to_array(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(texts(in_turn(store(a[0])?)))
}

fn to_matrix(a: &[&Datum], _: &Env) -> Result<Datum> {
    let store = store(a[0])?;
    if store.is_empty() {
        return Ok(texts(Vec::new()));
    }
    let dimensions = [store.len(), 2].map(|length| Dimension { lower: 1, length });
    let matrix = Array::of_parts(Text, &dimensions, in_turn(store));
    matrix.map(|matrix| Datum::Array(Arc::new(matrix))).ok_or_else(|| Error::internal("a matrix of another size"))
}

fn order(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Int(operators::compare(a[0], a[1]) as i64))
}

macro_rules! compared {
    ($test:ident) => {
        |a, _| Ok(Datum::Bool(operators::compare(a[0], a[1]).$test()))
    };
}

/// What a subscript of an `hstore` is assigned: the value, the key, the new text.
fn with_key(a: &[&Datum], _: &Env) -> Result<Datum> {
    if a[1].is_null() {
        return Err(Error::new(SqlState("22004"), "hstore subscript in assignment must not be null"));
    }
    let value = if a[2].is_null() { None } else { Some(text(a[2])?) };
    let before = if a[0].is_null() { Vec::new() } else { store(a[0])?.pairs().collect() };
    made(std::iter::once((text(a[1])?, value)).chain(before).collect())
}

/// What assigning to a subscript of an `hstore` is called.
pub static WITH_KEY: Function = f(".hstore_assign", &[H, Text, Text], H, with_key).called_on_null();

pub(super) const TABLE: &[Function] = &[
    f("->", &[H, Text], Text, fetch),
    f("->", &[H, TEXTS], TEXTS, fetch_all),
    f("?", &[H, Text], Bool, has),
    f("?|", &[H, TEXTS], Bool, has_any),
    f("?&", &[H, TEXTS], Bool, has_all),
    f("||", &[H, H], H, concat),
    f("-", &[H, Text], H, without_key),
    f("-", &[H, TEXTS], H, without_keys),
    f("-", &[H, H], H, without_pairs),
    f("@>", &[H, H], Bool, contains),
    f("<@", &[H, H], Bool, is_contained),
    f("#<#", &[H, H], Bool, compared!(is_lt)),
    f("#<=#", &[H, H], Bool, compared!(is_le)),
    f("#>=#", &[H, H], Bool, compared!(is_ge)),
    f("#>#", &[H, H], Bool, compared!(is_gt)),
    f("%%", &[H], TEXTS, to_array),
    f("%#", &[H], TEXTS, to_matrix),
    f("fetchval", &[H, Text], Text, fetch),
    f("slice_array", &[H, TEXTS], TEXTS, fetch_all),
    f("slice", &[H, TEXTS], H, slice),
    f("exist", &[H, Text], Bool, has),
    f("isexists", &[H, Text], Bool, has),
    f("exists_any", &[H, TEXTS], Bool, has_any),
    f("exists_all", &[H, TEXTS], Bool, has_all),
    f("defined", &[H, Text], Bool, is_defined),
    f("isdefined", &[H, Text], Bool, is_defined),
    f("hs_concat", &[H, H], H, concat),
    f("hs_contains", &[H, H], Bool, contains),
    f("hs_contained", &[H, H], Bool, is_contained),
    f("delete", &[H, Text], H, without_key),
    f("delete", &[H, TEXTS], H, without_keys),
    f("delete", &[H, H], H, without_pairs),
    f("hstore", &[Text, Text], H, of_pair).called_on_null(),
    f("hstore", &[TEXTS, TEXTS], H, |a, _| hstore::of_arrays(a[0], a[1])).called_on_null(),
    f("hstore", &[TEXTS], H, |a, _| hstore::of_array(a[0])),
    f("hstore", &[Record], H, of_row).called_on_null(),
    f("tconvert", &[Text, Text], H, of_pair).called_on_null(),
    f("akeys", &[H], TEXTS, keys),
    f("avals", &[H], TEXTS, values),
    f("hstore_to_array", &[H], TEXTS, to_array),
    f("hstore_to_matrix", &[H], TEXTS, to_matrix),
    f("hstore_to_json", &[H], Json, |a, _| Ok(Datum::Text(store(a[0])?.to_json(false)?.into()))),
    f("hstore_to_json_loose", &[H], Json, |a, _| Ok(Datum::Text(store(a[0])?.to_json(true)?.into()))),
    f("hstore_to_jsonb", &[H], Jsonb, |a, _| store(a[0])?.to_jsonb(false)),
    f("hstore_to_jsonb_loose", &[H], Jsonb, |a, _| store(a[0])?.to_jsonb(true)),
    f("hstore_version_diag", &[H], Int4, |_, _| Ok(Datum::Int(2))),
    f("hstore_eq", &[H, H], Bool, compared!(is_eq)),
    f("hstore_ne", &[H, H], Bool, compared!(is_ne)),
    f("hstore_lt", &[H, H], Bool, compared!(is_lt)),
    f("hstore_le", &[H, H], Bool, compared!(is_le)),
    f("hstore_ge", &[H, H], Bool, compared!(is_ge)),
    f("hstore_gt", &[H, H], Bool, compared!(is_gt)),
    f("hstore_cmp", &[H, H], Int4, order),
];
