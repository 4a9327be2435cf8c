//! `jsonb` that differs in a part from another: `||`, `-`, `#-`, `jsonb_set` and their kin. What
//! does not change is copied as it is.

use std::borrow::Cow;
use std::collections::HashSet;

use super::json::array_of;
use super::json_access::place;
use super::{Function, document, f, int, text};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::json_text;
use crate::jsonb::{self, Item, JsonbRef, List, Map, Node};
use crate::pulse;
use crate::types::Type::{self, Bool, Int4, Json, Jsonb, Text};
use crate::value::Datum;

const TEXTS: Type = Text.array_of();

fn wrong(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// The members of an object, as they are.
fn members<'a>(map: Map<'a>) -> Vec<(Cow<'a, str>, Item<'a>)> {
    map.iter().map(|(key, value)| (Cow::Borrowed(key), Item::Part(value))).collect()
}

/// The elements of an array, as they are.
fn elements<'a>(list: List<'a>) -> Vec<Item<'a>> {
    list.iter().map(Item::Part).collect()
}

/// `||`
fn concat(args: &[&Datum], _: &Env) -> Result<Datum> {
    let (left, right) = (document(args[0])?, document(args[1])?);
    let (left_node, right_node) = (left.node()?, right.node()?);
    if let (Node::Object(a), Node::Object(b)) = (&left_node, &right_node) {
        let mut all = members(*a);
        all.append(&mut members(*b));
        return Item::Object(all).datum();
    }
    // What is no array counts as one of itself.
    let parts = |value, node| if let Node::Array(list) = node { elements(list) } else { vec![Item::Part(value)] };
    let mut all = parts(left, left_node);
    all.append(&mut parts(right, right_node));
    Item::Array(all).datum()
}

/// `jsonb - keys`
fn without_keys(value: &Datum, keys: &[&str]) -> Result<Datum> {
    let keys: HashSet<&str> = keys.iter().copied().collect();
    let is_named = |key: &str| keys.contains(key);
    match document(value)?.node()? {
        Node::Object(map) => {
            let mut kept = members(map);
            kept.retain(|(key, _)| {
                pulse::note(1);
                !is_named(key)
            });
            Item::Object(kept).datum()
        }
        Node::Array(list) => {
            let mut kept = Vec::with_capacity(list.len());
            for element in list.iter() {
                pulse::work(1)?;
                if !matches!(element.node()?, Node::String(text) if is_named(text)) {
                    kept.push(Item::Part(element));
                }
            }
            Item::Array(kept).datum()
        }
        _ => Err(wrong("cannot delete from scalar")),
    }
}

fn without_listed(args: &[&Datum], _: &Env) -> Result<Datum> {
    let keys = array_of(args[1])?.values().iter().filter(|key| !key.is_null());
    without_keys(args[0], &keys.map(text).collect::<Result<Vec<_>>>()?)
}

/// `jsonb - integer`
fn without_element(args: &[&Datum], _: &Env) -> Result<Datum> {
    let at = int(args[1])?;
    match document(args[0])?.node()? {
        Node::Array(list) => {
            let count = list.len() as i64;
            let at = if at < 0 { at + count } else { at };
            let mut all = elements(list);
            if (0..count).contains(&at) {
                all.remove(at as usize);
            }
            Item::Array(all).datum()
        }
        Node::Object(_) => Err(wrong("cannot delete from object using integer index")),
        _ => Err(wrong("cannot delete from scalar")),
    }
}

/// What is done where a path ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The value goes there; `bool` says whether it may where nothing is.
    Set(bool),
    /// It goes in front of what is there, or behind it.
    Insert {
        after: bool,
    },
    Delete,
    /// As a subscript does it: what is missing on the way is made.
    Assign,
}

/// A change of a part.
struct Edit<'e> {
    change: Change,
    path: Vec<&'e str>,
    value: Item<'e>,
}

impl<'e> Edit<'e> {
    fn new(change: Change, path: &'e Datum, value: Item<'e>) -> Result<Self> {
        let path = array_of(path)?;
        if path.dimensions().len() > 1 {
            return Err(Error::new(SqlState("2202E"), "wrong number of array subscripts"));
        }
        let step = |(at, step): (usize, &'e Datum)| match step {
            Datum::Null => {
                Err(Error::new(SqlState::NULL_NOT_ALLOWED, format!("path element at position {} is null", at + 1)))
            }
            step => text(step),
        };
        let path = path.values().iter().enumerate().map(step).collect::<Result<_>>()?;
        Ok(Self { change, path, value })
    }

    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.path.len()
    }

    /// A value with the change in it, at a level of the path.
    fn apply<'a>(&'a self, value: JsonbRef<'a>, level: usize) -> Result<Item<'a>> {
        pulse::work(1)?;
        match value.node()? {
            Node::Object(map) => self.apply_to_object(map, level),
            Node::Array(list) => self.apply_to_array(list, level),
            _ if self.change == Change::Assign => Err(self.replaces_scalar()),
            _ => Ok(Item::Part(value)),
        }
    }

    fn apply_to_object<'a>(&'a self, map: Map<'a>, level: usize) -> Result<Item<'a>> {
        let step = self.path[level];
        let mut all = members(map);
        match map.find(step) {
            Some(at) if !self.is_last(level) => all[at].1 = self.apply(map.value(at), level + 1)?,
            Some(at) => match self.change {
                Change::Set(_) | Change::Assign => all[at].1 = self.value.clone(),
                Change::Delete => drop(all.remove(at)),
                Change::Insert { .. } => {
                    return Err(wrong("cannot replace existing key")
                        .hint("Try using the function jsonb_set to replace key value."));
                }
            },
            None if self.is_last(level) && !matches!(self.change, Change::Delete | Change::Set(false)) => {
                all.push((Cow::Borrowed(step), self.value.clone()));
            }
            None if self.change == Change::Assign => all.push((Cow::Borrowed(step), self.made(level + 1)?)),
            None => {}
        }
        Ok(Item::Object(all))
    }

    fn apply_to_array<'a>(&'a self, list: List<'a>, level: usize) -> Result<Item<'a>> {
        let count = list.len() as i64;
        let step = self.path[level];
        let Some(place) = place(step) else {
            let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
            return Err(Error::new(SqlState::BAD_TEXT, message));
        };
        let is_assigned = self.change == Change::Assign;
        let at = if place < 0 { place + count } else { place };
        if at < 0 && is_assigned {
            let message = format!("path element at position {} is out of range: {place}", level + 1);
            return Err(wrong(message));
        }
        let mut all = elements(list);
        if (0..count).contains(&at) {
            let at = at as usize;
            if !self.is_last(level) {
                if let Some(inner) = list.get(at) {
                    all[at] = self.apply(inner, level + 1)?;
                }
                return Ok(Item::Array(all));
            }
            match self.change {
                Change::Set(_) | Change::Assign => all[at] = self.value.clone(),
                Change::Delete => drop(all.remove(at)),
                Change::Insert { after } => all.insert(at + usize::from(after), self.value.clone()),
            }
            return Ok(Item::Array(all));
        }
        let new = if self.is_last(level) {
            if matches!(self.change, Change::Delete | Change::Set(false)) {
                return Ok(Item::Array(all));
            }
            self.value.clone()
        } else if is_assigned {
            self.made(level + 1)?
        } else {
            return Ok(Item::Array(all));
        };
        if at < 0 {
            all.insert(0, new);
            return Ok(Item::Array(all));
        }
        if is_assigned {
            push_nulls(&mut all, at - count)?;
        }
        all.push(new);
        Ok(Item::Array(all))
    }

    /// What an assignment makes where nothing is: an array for a number, else an object.
    fn made(&self, level: usize) -> Result<Item<'_>> {
        if level == self.path.len() {
            return Ok(self.value.clone());
        }
        let step = self.path[level];
        let inner = self.made(level + 1)?;
        Ok(match place(step) {
            Some(at) => {
                let mut all = Vec::new();
                push_nulls(&mut all, at)?;
                all.push(inner);
                Item::Array(all)
            }
            None => Item::Object(vec![(Cow::Borrowed(step), inner)]),
        })
    }

    fn replaces_scalar(&self) -> Error {
        wrong("cannot replace existing key")
            .detail("The path assumes key is a composite object, but it is a scalar value.")
    }
}

/// Adds the elements that an assignment makes in front of its own; none for a negative number.
fn push_nulls(all: &mut Vec<Item<'_>>, count: i64) -> Result<()> {
    /// Elements that one assignment makes, at most.
    const MADE_MAX: i64 = 1 << 24;
    if count > MADE_MAX {
        return Err(Error::new(SqlState::PROGRAM_LIMIT, "number of jsonb array elements exceeds the maximum"));
    }
    for _ in 0..count {
        pulse::work(1)?;
        all.push(Item::Null);
    }
    Ok(())
}

/// A document with a change in it; `verb` says what a scalar does not take.
fn changed(value: &Datum, edit: &Edit<'_>, verb: &str) -> Result<Datum> {
    let document = document(value)?;
    let count = match document.node()? {
        Node::Object(map) => map.len(),
        Node::Array(list) => list.len(),
        _ => return Err(wrong(format!("cannot {verb} scalar"))),
    };
    let adds = matches!(edit.change, Change::Set(true) | Change::Insert { .. });
    if edit.path.is_empty() || (count == 0 && !adds) {
        return Ok(value.clone());
    }
    edit.apply(document, 0)?.datum()
}

/// `jsonb_set(jsonb, path, value, create)`
fn set(args: &[&Datum], _: &Env) -> Result<Datum> {
    let creates = args.get(3).is_none_or(|creates| creates.is_true());
    let edit = Edit::new(Change::Set(creates), args[1], Item::Part(document(args[2])?))?;
    changed(args[0], &edit, "set path in")
}

/// `jsonb_set_lax(jsonb, path, value, create, what NULL does)`
fn set_lax(args: &[&Datum], env: &Env) -> Result<Datum> {
    let creates = args.get(3).copied().unwrap_or(&Datum::Bool(true));
    if args[0].is_null() || args[1].is_null() || creates.is_null() {
        return Ok(Datum::Null);
    }
    let treatment = match args.get(4) {
        None => "use_json_null",
        Some(Datum::Null) => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
                           \"raise_exception\"";
            return Err(wrong(message));
        }
        Some(treatment) => text(treatment)?,
    };
    if !args[2].is_null() {
        return set(&[args[0], args[1], args[2], creates], env);
    }
    match treatment {
        "raise_exception" => Err(Error::new(SqlState::NULL_NOT_ALLOWED, "JSON value must not be null")
            .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        "use_json_null" => set(&[args[0], args[1], &Item::Null.datum()?, creates], env),
        "delete_key" => delete_path(&[args[0], args[1]], env),
        "return_target" => Ok(args[0].clone()),
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
                           \"raise_exception\"";
            Err(wrong(message))
        }
    }
}

/// `jsonb_insert(jsonb, path, value, after)`
fn insert(args: &[&Datum], _: &Env) -> Result<Datum> {
    let after = args.get(3).is_some_and(|after| after.is_true());
    let edit = Edit::new(Change::Insert { after }, args[1], Item::Part(document(args[2])?))?;
    changed(args[0], &edit, "set path in")
}

/// `#-`
fn delete_path(args: &[&Datum], _: &Env) -> Result<Datum> {
    let edit = Edit::new(Change::Delete, args[1], Item::Null)?;
    changed(args[0], &edit, "delete path in")
}

/// `jsonb[step]… := value`: the document or NULL, the value, and the steps as texts.
fn assign(args: &[&Datum], _: &Env) -> Result<Datum> {
    let [target, value, steps @ ..] = args else { return Err(Error::internal("an assignment without a value")) };
    let step = |step: &&Datum| match step {
        Datum::Null => Err(Error::new(SqlState::NULL_NOT_ALLOWED, "jsonb subscript in assignment must not be null")),
        step => text(step).map(str::to_owned),
    };
    let steps: Vec<String> = steps.iter().map(step).collect::<Result<_>>()?;
    let path = steps.iter().map(String::as_str).collect();
    let value = if value.is_null() { Item::Null } else { Item::Part(document(value)?) };
    let edit = Edit { change: Change::Assign, path, value };
    if target.is_null() {
        return edit.made(0)?.datum();
    }
    let target = document(target)?;
    if !matches!(target.node()?, Node::Array(_) | Node::Object(_)) {
        return Err(edit.replaces_scalar());
    }
    edit.apply(target, 0)?.datum()
}

fn without_nulls(value: JsonbRef<'_>) -> Result<Item<'_>> {
    pulse::work(1)?;
    Ok(match value.node()? {
        Node::Object(map) => {
            let mut kept = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                if !matches!(value.node()?, Node::Null) {
                    kept.push((Cow::Borrowed(key), without_nulls(value)?));
                }
            }
            Item::Object(kept)
        }
        Node::Array(list) => Item::Array(list.iter().map(without_nulls).collect::<Result<_>>()?),
        _ => Item::Part(value),
    })
}

fn pretty(args: &[&Datum], _: &Env) -> Result<Datum> {
    let mut out = String::new();
    jsonb::write_pretty(document(args[0])?, 0, &mut out)?;
    Ok(Datum::Text(out.into()))
}

const CONCAT: Function = f("||", &[Jsonb, Jsonb], Jsonb, concat);
const DELETE_KEY: Function = f("-", &[Jsonb, Text], Jsonb, |a, _| without_keys(a[0], &[text(a[1])?]));
const DELETE_KEYS: Function = f("-", &[Jsonb, TEXTS], Jsonb, without_listed);
const DELETE_ELEMENT: Function = f("-", &[Jsonb, Int4], Jsonb, without_element);
const DELETE_PATH: Function = f("#-", &[Jsonb, TEXTS], Jsonb, delete_path);

const fn named(name: &'static str, of: &Function) -> Function {
    Function { name, ..*of }
}

pub(super) const TABLE: &[Function] = &[
    CONCAT,
    DELETE_KEY,
    DELETE_KEYS,
    DELETE_ELEMENT,
    DELETE_PATH,
    named("jsonb_concat", &CONCAT),
    named("jsonb_delete", &DELETE_KEY),
    named("jsonb_delete", &DELETE_KEYS),
    named("jsonb_delete", &DELETE_ELEMENT),
    named("jsonb_delete_path", &DELETE_PATH),
    f("jsonb_set", &[Jsonb, TEXTS, Jsonb], Jsonb, set),
    f("jsonb_set", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, set),
    f("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb], Jsonb, set_lax).called_on_null(),
    f("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, set_lax).called_on_null(),
    f("jsonb_set_lax", &[Jsonb, TEXTS, Jsonb, Bool, Text], Jsonb, set_lax).called_on_null(),
    f("jsonb_insert", &[Jsonb, TEXTS, Jsonb], Jsonb, insert),
    f("jsonb_insert", &[Jsonb, TEXTS, Jsonb, Bool], Jsonb, insert),
    f(".jsonb_assign", &[Jsonb, Jsonb, Text], Jsonb, assign).variadic().called_on_null(),
    f("json_strip_nulls", &[Json], Json, |a, _| Ok(Datum::Text(json_text::stripped(text(a[0])?)?.into()))),
    f("jsonb_strip_nulls", &[Jsonb], Jsonb, |a, _| without_nulls(document(a[0])?)?.datum()),
    f("jsonb_pretty", &[Jsonb], Text, pretty),
];
