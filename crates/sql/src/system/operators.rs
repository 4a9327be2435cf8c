//! Operators, casts, and which operators the indexes of a type go by, with PostgreSQL's numbers.
//!
//! `operators.txt` has them:
//! ```text
//! operator oid name kind merges hashes left right result commutator negator function restrict join
//! cast oid source target function context method
//! amop oid family left right strategy operator
//! amproc oid family left right number function
//! ```
//! Of these, an operator is listed only if there is one of its name here that takes values of such
//! types.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use colibri_catalog::cluster::BOOTSTRAP_ROLE;
use colibri_catalog::{CastMethod, OperatorFunction};
use colibri_types::{Category, Env, Result, Type};
use compact_str::CompactString;

use super::{Fill, PG_CATALOG, Rows, flag, int, oid, procedures, text};
use crate::registry::FUNCTIONS;
use crate::surroundings::Names as _;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_operator", operators),
    ("pg_cast", casts),
    ("pg_amop", index_operators),
    ("pg_amproc", index_functions),
    ("pg_conversion", |_, _| Ok(())),
];

const BTREE: u32 = 403;
const GIN: u32 = 2742;
const GIST: u32 = 783;
/// Families of operators that inverted indexes answer.
const GIN_FAMILIES: [&str; 4] = ["2745", "3659", "4036", "4037"];
/// The same for indexes that PostgreSQL would make as GiST.
const GIST_FAMILIES: [&str; 1] = ["3655"];

/// The words of the lines of a kind, after it.
fn lines(kind: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let of_kind = move |line: &'static str| line.strip_prefix(kind)?.strip_prefix(' ');
    include_str!("operators.txt").lines().filter_map(of_kind).map(|line| line.split(' ').collect())
}

fn number(word: &str) -> u32 {
    word.parse().unwrap_or_default()
}

/// Any two values of a type compare; other operators are functions that are called so.
fn is_there(name: &str, left: u32, right: u32) -> bool {
    let is_array = |ty: u32| ty == Type::AnyArray.oid();
    if matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=") {
        return true;
    }
    // Ranges of all types have the same operators.
    let stands_for = |ty: u32| match ty {
        procedures::ANY_RANGE => Type::Int4Range.oid(),
        procedures::ANY_MULTIRANGE => Type::Int4Multirange.oid(),
        ty if ty == Type::AnyElement.oid() => Type::Int4.oid(),
        ty => ty,
    };
    let is_of_ranges = [left, right].iter().any(|ty| matches!(*ty, procedures::ANY_RANGE | procedures::ANY_MULTIRANGE));
    let (left, right) = if is_of_ranges { (stands_for(left), stands_for(right)) } else { (left, right) };
    let wanted: Vec<u32> = [left, right].into_iter().filter(|&ty| ty != 0).collect();
    let category = |ty: u32| Type::from_oid(ty).map_or(Category::Pseudo, Type::category);
    let takes = |args: &[Type]| {
        args.len() == wanted.len()
            && args.iter().zip(&wanted).all(|(arg, &ty)| {
                arg.oid() == ty
                    || (!is_array(ty) && arg.category() == Category::String && category(ty) == Category::String)
            })
    };
    FUNCTIONS.named(name).iter().any(|function| takes(function.args))
}

/// The numbers of the operators that are listed.
static LISTED: LazyLock<HashSet<u32>> = LazyLock::new(|| {
    let listed = lines("operator").filter(|words| is_there(words[1], number(words[5]), number(words[6])));
    listed.map(|words| number(words[0])).collect()
});

/// An operator by which others are found: its number, and the types of its operands, 0 for one that
/// it has not.
pub(super) struct Operator {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) operands: [u32; 2],
}

static BY_NUMBER: LazyLock<HashMap<u32, Operator>> = LazyLock::new(|| {
    let listed = lines("operator").filter(|words| LISTED.contains(&number(words[0])));
    let operator = |words: Vec<&'static str>| Operator {
        number: number(words[0]),
        name: words[1],
        operands: [number(words[5]), number(words[6])],
    };
    listed.map(operator).map(|operator| (operator.number, operator)).collect()
});

/// The operators of a name.
pub(super) fn named(name: &str) -> impl Iterator<Item = &'static Operator> {
    BY_NUMBER.values().filter(move |operator| operator.name == name)
}

/// The operator of a number.
pub(super) fn numbered(number: u32) -> Option<&'static Operator> {
    BY_NUMBER.get(&number)
}

/// Whether the system has a function of a name.
pub(crate) fn is_function_listed(name: &str) -> bool {
    procedures::number_named(name) != 0
}

/// The operators that users have defined.
fn user_operators(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for one in names.catalog.operators() {
        let function = match &one.function {
            OperatorFunction::Routine(id) => *id,
            OperatorFunction::Builtin(name) => procedures::number_named(name),
        };
        let other = |named: &Option<(CompactString, CompactString)>, left: Option<u32>, right: u32| {
            let (schema, symbol) = named.as_ref()?;
            names.catalog.operator(schema, symbol, left, right).map(|other| other.id)
        };
        let commutator = one.left.and_then(|left| other(&one.commutator, Some(one.right), left));
        let negator = other(&one.negator, one.left, one.right);
        let estimator = |name: &Option<CompactString>| name.as_ref().map_or(0, |name| procedures::number_named(name));
        rows.push([
            oid(one.id),
            text(&one.symbol),
            oid(names.schema_number(&one.schema).unwrap_or(0)),
            oid(one.owner),
            text(if one.left.is_some() { "b" } else { "l" }),
            flag(one.merges),
            flag(one.hashes),
            oid(one.left.unwrap_or(0)),
            oid(one.right),
            oid(one.result),
            oid(commutator.unwrap_or(0)),
            oid(negator.unwrap_or(0)),
            oid(function),
            oid(estimator(&one.restrict)),
            oid(estimator(&one.join)),
        ])?;
    }
    Ok(())
}

fn operators(env: &Env, rows: &mut Rows) -> Result<()> {
    user_operators(env, rows)?;
    let known = |word: &str| if LISTED.contains(&number(word)) { number(word) } else { 0 };
    for words in lines("operator").filter(|words| LISTED.contains(&number(words[0]))) {
        rows.push([
            oid(number(words[0])),
            text(words[1]),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            text(words[2]),
            flag(words[3] == "1"),
            flag(words[4] == "1"),
            oid(number(words[5])),
            oid(number(words[6])),
            oid(number(words[7])),
            oid(known(words[8])),
            oid(known(words[9])),
            oid(number(words[10])),
            oid(number(words[11])),
            oid(number(words[12])),
        ])?;
    }
    Ok(())
}

/// Whether the system has a cast of its own from one type to another, by their numbers.
pub(crate) fn is_cast_listed(from: u32, to: u32) -> bool {
    lines("cast").any(|words| number(words[1]) == from && number(words[2]) == to)
}

fn casts(env: &Env, rows: &mut Rows) -> Result<()> {
    for cast in env.names().catalog.casts() {
        let (function, method) = match &cast.method {
            CastMethod::Routine(id) => (*id, "f"),
            CastMethod::Builtin(name) => (super::procedures::number_named(name), "f"),
            CastMethod::Text => (0, "i"),
            CastMethod::Same => (0, "b"),
        };
        let context = cast.context.to_string();
        rows.push([oid(cast.id), oid(cast.from), oid(cast.to), oid(function), text(&context), text(method)])?;
    }
    for words in lines("cast") {
        let [cast, source, target, function] = [0, 1, 2, 3].map(|at| oid(number(words[at])));
        rows.push([cast, source, target, function, text(words[4]), text(words[5])])?;
    }
    Ok(())
}

fn index_operators(_: &Env, rows: &mut Rows) -> Result<()> {
    for words in lines("amop").filter(|words| LISTED.contains(&number(words[5]))) {
        let [entry, family, left, right] = [0, 1, 2, 3].map(|at| oid(number(words[at])));
        let method = match words[1] {
            family if GIN_FAMILIES.contains(&family) => GIN,
            family if GIST_FAMILIES.contains(&family) => GIST,
            _ => BTREE,
        };
        let (strategy, operator) = (int(number(words[4])), oid(number(words[5])));
        rows.push([entry, family, left, right, strategy, text("s"), operator, oid(method), oid(0)])?;
    }
    Ok(())
}

fn index_functions(_: &Env, rows: &mut Rows) -> Result<()> {
    for words in lines("amproc") {
        let [entry, family, left, right] = [0, 1, 2, 3].map(|at| oid(number(words[at])));
        rows.push([entry, family, left, right, int(number(words[4])), oid(number(words[5]))])?;
    }
    Ok(())
}
