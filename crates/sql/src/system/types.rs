//! Types, functions, collations, access methods, operator classes: what does not depend on the database.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::relations::{collation_of, layout_of};
use super::{Fill, NULL, PG_CATALOG, Rows, flag, int, oid, text, vector};
use crate::aggregates;
use crate::cluster::BOOTSTRAP_ROLE;
use crate::env::Env;
use crate::error::Result;
use crate::functions::{self, Volatility};
use crate::types::{Category, Type};
use crate::value::Datum;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("pg_type", types),
    ("pg_proc", procedures),
    ("pg_collation", collations),
    ("pg_am", access_methods),
    ("pg_opclass", operator_classes),
    ("pg_opfamily", operator_families),
    ("pg_language", languages),
    ("pg_get_keywords", keywords),
];

const BTREE: u32 = 403;
const LANGUAGE_INTERNAL: u32 = 12;

fn category_letter(ty: Type) -> &'static str {
    match ty.category() {
        Category::Unknown => "X",
        Category::Boolean => "B",
        Category::Number => "N",
        Category::String if matches!(ty, Type::InternalChar | Type::NodeTree) => "Z",
        Category::String => "S",
        Category::DateTime => "D",
        Category::TimeSpan => "T",
        Category::Array => "A",
        Category::User => "U",
        Category::Pseudo => "P",
    }
}

/// The number that PostgreSQL gives the input function of arrays: clients tell arrays from other types by it.
pub(super) const ARRAY_IN: u32 = 750;

fn input_function(ty: Type) -> Datum {
    oid(if matches!(ty, Type::Array(_)) { ARRAY_IN } else { 0 })
}

fn types(_: &Env, rows: &mut Rows) -> Result<()> {
    let mut all: Vec<Type> = Type::all().collect();
    all.sort_by_key(|ty| ty.oid());
    for ty in all {
        let (align, storage, by_value) = layout_of(ty);
        let pseudo = matches!(category_letter(ty), "P" | "X");
        let none = oid(0);
        rows.push([
            oid(ty.oid()),
            text(ty.inner_name()),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            int(ty.length()),
            flag(by_value),
            text(if pseudo { "p" } else { "b" }),
            text(category_letter(ty)),
            flag(ty.is_preferred()),
            flag(true),
            text(","),
            none.clone(),
            none.clone(),
            oid(ty.element().map_or(0, |element| element.oid())),
            oid(ty.array().map_or(0, |array| array.oid())),
            input_function(ty),
            none.clone(),
            none.clone(),
            none.clone(),
            none.clone(),
            none.clone(),
            none.clone(),
            text(align),
            text(storage),
            flag(false),
            none,
            int(-1),
            int(0),
            oid(collation_of(ty)),
            NULL,
            NULL,
            NULL,
        ])?;
    }
    Ok(())
}

// ---- functions ----

/// A function as `pg_proc` has it.
struct Procedure {
    name: &'static str,
    kind: &'static str,
    args: Vec<Type>,
    result: Type,
    strict: bool,
    volatility: &'static str,
    variadic: bool,
}

/// The number of the first function here: PostgreSQL's own functions have other numbers, which nobody should rely on.
const FIRST_FUNCTION: u32 = 8_200;

struct Procedures {
    all: Vec<Procedure>,
    by_name: HashMap<&'static str, u32>,
}

static PROCEDURES: LazyLock<Procedures> = LazyLock::new(|| {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let functions = functions::all().iter().filter(|function| is_name(function.name)).map(|function| Procedure {
        name: function.name,
        kind: "f",
        args: function.args.to_vec(),
        result: function.result,
        strict: function.strict,
        volatility: match function.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        },
        variadic: function.variadic,
    });
    let aggregates = aggregates::NAMES.iter().flat_map(|name| aggregates::named(name)).map(|aggregate| Procedure {
        name: aggregate.name,
        kind: "a",
        args: aggregate.args.to_vec(),
        result: aggregate.result,
        strict: false,
        volatility: "i",
        variadic: false,
    });
    let all: Vec<Procedure> = functions.chain(aggregates).collect();
    let mut by_name = HashMap::new();
    for (at, procedure) in all.iter().enumerate() {
        by_name.entry(procedure.name).or_insert(FIRST_FUNCTION + at as u32);
    }
    Procedures { all, by_name }
});

fn procedure(number: u32) -> Option<&'static Procedure> {
    PROCEDURES.all.get(number.checked_sub(FIRST_FUNCTION)? as usize)
}

/// The number of the first function of a name.
pub(super) fn function_number(name: &str) -> Option<u32> {
    if name == "array_in" {
        return Some(ARRAY_IN);
    }
    PROCEDURES.by_name.get(name).copied()
}

/// A function's name.
pub(super) fn function_name(number: u32) -> Option<&'static str> {
    if number == ARRAY_IN {
        return Some("array_in");
    }
    procedure(number).map(|procedure| procedure.name)
}

/// A type as an argument: what takes any says so.
fn argument_name(ty: Type) -> &'static str {
    if ty == Type::Void { "\"any\"" } else { ty.sql_name() }
}

/// A function's arguments, with commas between.
pub(crate) fn function_arguments(number: u32) -> Option<String> {
    let procedure = procedure(number)?;
    let mut names: Vec<&str> = procedure.args.iter().map(|&ty| argument_name(ty)).collect();
    let variadic = names.last().map(|last| format!("VARIADIC {last}[]")).filter(|_| procedure.variadic);
    if let (Some(variadic), Some(last)) = (&variadic, names.last_mut()) {
        *last = variadic;
    }
    Some(names.join(", "))
}

/// What a function gives.
pub(crate) fn function_result(number: u32) -> Option<&'static str> {
    procedure(number).map(|procedure| procedure.result.sql_name())
}

/// A function's name with its arguments.
pub(super) fn function_signature(number: u32) -> Option<String> {
    let arguments = procedure(number)?.args.iter().map(|&ty| argument_name(ty)).collect::<Vec<_>>();
    Some(format!("{}({})", function_name(number)?, arguments.join(",")))
}

fn procedures(_: &Env, rows: &mut Rows) -> Result<()> {
    for (at, procedure) in PROCEDURES.all.iter().enumerate() {
        let any = |ty: &Type| oid(if *ty == Type::Void { 2276 } else { ty.oid() });
        rows.push([
            oid(FIRST_FUNCTION + at as u32),
            text(procedure.name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            oid(LANGUAGE_INTERNAL),
            Datum::Float(1.0),
            Datum::Float(0.0),
            oid(procedure.args.last().filter(|_| procedure.variadic).map_or(0, |ty| ty.oid())),
            oid(0),
            text(procedure.kind),
            flag(false),
            flag(false),
            flag(procedure.strict),
            flag(false),
            text(procedure.volatility),
            text("s"),
            int(procedure.args.len() as i64),
            int(0),
            oid(procedure.result.oid()),
            vector(Type::Oid, procedure.args.iter().map(any)),
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            text(procedure.name),
            NULL,
            NULL,
            NULL,
            NULL,
        ])?;
    }
    Ok(())
}

// ---- the rest ----

fn collations(_: &Env, rows: &mut Rows) -> Result<()> {
    for (number, name, provider, encoding, locale) in
        [(100, "default", "d", -1, None), (950, "C", "c", -1, Some("C")), (951, "POSIX", "c", -1, Some("POSIX"))]
    {
        let locale = super::text_or_null(locale);
        rows.push([
            oid(number),
            text(name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            text(provider),
            flag(true),
            int(encoding),
            locale.clone(),
            locale,
            NULL,
            NULL,
        ])?;
    }
    Ok(())
}

fn access_methods(_: &Env, rows: &mut Rows) -> Result<()> {
    rows.push([oid(2), text("heap"), oid(0), text("t")])?;
    rows.push([oid(BTREE), text("btree"), oid(0), text("i")])?;
    Ok(())
}

/// Operator classes of B-trees: number, name, family, type.
const OPERATOR_CLASSES: &[(u32, &str, u32, Type)] = &[
    (10_003, "bool_ops", 424, Type::Bool),
    (10_006, "bytea_ops", 428, Type::Bytea),
    (10_007, "char_ops", 429, Type::InternalChar),
    (10_028, "name_ops", 1994, Type::Name),
    (3124, "int8_ops", 1976, Type::Int8),
    (1979, "int2_ops", 1976, Type::Int2),
    (1978, "int4_ops", 1976, Type::Int4),
    (3126, "text_ops", 1994, Type::Text),
    (1981, "oid_ops", 1989, Type::Oid),
    (10_012, "float4_ops", 1970, Type::Float4),
    (3123, "float8_ops", 1970, Type::Float8),
    (10_004, "bpchar_ops", 426, Type::Char),
    (3122, "date_ops", 434, Type::Date),
    (10_038, "time_ops", 1996, Type::Time),
    (3128, "timestamp_ops", 434, Type::Timestamp),
    (3127, "timestamptz_ops", 434, Type::TimestampTz),
    (10_022, "interval_ops", 1982, Type::Interval),
    (3125, "numeric_ops", 1988, Type::Numeric),
    (10_065, "uuid_ops", 2968, Type::Uuid),
];

/// The operator class that indexes order a type by.
pub(super) fn operator_class(ty: Type) -> u32 {
    let ty = if ty == Type::Varchar { Type::Text } else { ty.base() };
    OPERATOR_CLASSES.iter().find(|class| class.3 == ty).map_or(0, |class| class.0)
}

fn operator_classes(_: &Env, rows: &mut Rows) -> Result<()> {
    for &(number, name, family, ty) in OPERATOR_CLASSES {
        rows.push([
            oid(number),
            oid(BTREE),
            text(name),
            oid(PG_CATALOG),
            oid(BOOTSTRAP_ROLE),
            oid(family),
            oid(ty.oid()),
            flag(true),
            oid(0),
        ])?;
    }
    Ok(())
}

fn operator_families(_: &Env, rows: &mut Rows) -> Result<()> {
    let mut seen = Vec::new();
    for &(_, class, family, _) in OPERATOR_CLASSES {
        if !seen.contains(&family) {
            seen.push(family);
            // Families of several types are called after one of them.
            let name = match family {
                1976 => "integer_ops",
                1970 => "float_ops",
                434 => "datetime_ops",
                1994 => "text_ops",
                _ => class,
            };
            rows.push([oid(family), oid(BTREE), text(name), oid(PG_CATALOG), oid(BOOTSTRAP_ROLE)])?;
        }
    }
    Ok(())
}

fn languages(_: &Env, rows: &mut Rows) -> Result<()> {
    for (number, name, trusted) in [(LANGUAGE_INTERNAL, "internal", false), (14, "sql", true)] {
        let none = oid(0);
        rows.push([
            oid(number),
            text(name),
            oid(BOOTSTRAP_ROLE),
            flag(false),
            flag(trusted),
            none.clone(),
            none.clone(),
            none,
            NULL,
        ])?;
    }
    Ok(())
}

/// Words that are names only in quotes.
fn keywords(_: &Env, rows: &mut Rows) -> Result<()> {
    for word in crate::bind::RESERVED {
        rows.push([text(word), text("R"), flag(false), text("reserved"), text("requires AS")])?;
    }
    Ok(())
}
