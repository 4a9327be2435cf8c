//! The registry of functions and operators. An operator is a function named by its symbol, with one argument or two;
//! comparisons are none of these, as any two values of a type compare alike: see `operators`.
//!
//! Each file of this module is a theme with a table. A function computes on values of exactly the types it declares:
//! resolution chooses it and the planner converts its arguments. Whatever the values, it returns or fails, and does not
//! panic; whatever it needs to know of the session is in [`Env`].

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::interval::Interval;
use crate::numeric::Numeric;
use crate::types::Type;
use crate::value::Datum;

mod arithmetic;
mod arrays;
mod bytes;
mod catalog;
mod datetime;
mod format;
mod json;
#[cfg(test)]
mod long_values;
mod math;
mod number_picture;
mod privileges;
mod regular;
mod session;
mod spellings;
mod strings;

pub(crate) use format::quote_identifier;
pub(crate) use regular::{all_matches, split};

/// How a function's result depends on more than its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// On nothing else: may be computed when planning.
    Immutable,
    /// On the session and the statement's time too: one result for one statement.
    Stable,
    /// Each call may give another result.
    Volatile,
}

/// A function or an operator.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name, or the operator's symbol.
    pub name: &'static str,
    /// What it takes.
    pub args: &'static [Type],
    /// Whether the last argument may come any number of times, at least once.
    pub variadic: bool,
    /// What it gives.
    pub result: Type,
    /// Whether NULL among the arguments makes NULL of the result; it is then not called.
    pub strict: bool,
    /// What the result depends on.
    pub volatility: Volatility,
    /// The computation, on values of the types of `args`.
    pub eval: Eval,
}

/// A computation.
pub type Eval = fn(&[&Datum], &Env) -> Result<Datum>;

/// A strict, immutable function.
const fn f(name: &'static str, args: &'static [Type], result: Type, eval: Eval) -> Function {
    Function { name, args, variadic: false, result, strict: true, volatility: Volatility::Immutable, eval }
}

impl Function {
    const fn stable(mut self) -> Self {
        self.volatility = Volatility::Stable;
        self
    }

    const fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    const fn called_on_null(mut self) -> Self {
        self.strict = false;
        self
    }

    const fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    /// The type of an argument; the last one's repeats if the function is variadic.
    #[must_use]
    pub fn arg_type(&self, index: usize) -> Type {
        self.args[index.min(self.args.len() - 1)]
    }

    /// Whether its arguments of type text take values of any type, converted to text.
    #[must_use]
    pub fn takes_any_as_text(&self) -> bool {
        matches!(self.name, "concat" | "concat_ws" | "format" | "quote_literal" | "quote_nullable")
    }

    /// Calls it, or not, if it is strict and an argument is NULL.
    #[inline]
    pub fn call(&self, args: &[&Datum], env: &Env) -> Result<Datum> {
        if self.strict && args.iter().any(|arg| arg.is_null()) {
            return Ok(Datum::Null);
        }
        (self.eval)(args, env)
    }
}

struct Registry {
    /// By name.
    functions: Vec<Function>,
    /// Where each name's functions begin and end.
    ranges: HashMap<&'static str, (usize, usize)>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let tables: [&[Function]; 15] = [
        arithmetic::TABLE,
        arrays::TABLE,
        bytes::TABLE,
        catalog::TABLE,
        datetime::TABLE,
        format::TABLE,
        json::TABLE,
        math::TABLE,
        privileges::COLUMNS,
        privileges::LISTS,
        privileges::TABLE,
        regular::TABLE,
        session::TABLE,
        spellings::TABLE,
        strings::TABLE,
    ];
    let mut functions = tables.concat();
    functions.sort_by_key(|function| function.name);
    let mut ranges: HashMap<&'static str, (usize, usize)> = HashMap::with_capacity(functions.len());
    for (index, function) in functions.iter().enumerate() {
        ranges.entry(function.name).or_insert((index, index)).1 = index + 1;
    }
    Registry { functions, ranges }
});

/// All functions of a name, which is in lower case, or all operators of a symbol.
#[must_use]
pub fn named(name: &str) -> &'static [Function] {
    match REGISTRY.ranges.get(name) {
        Some(&(start, end)) => &REGISTRY.functions[start..end],
        None => &[],
    }
}

/// All functions and operators, by name.
#[must_use]
pub fn all() -> &'static [Function] {
    &REGISTRY.functions
}

#[cold]
fn wrong(expected: &str, found: &Datum) -> Error {
    Error::internal(format!("a function for {expected} was called with {found:?}"))
}

macro_rules! accessors {
    ($($name:ident $variant:ident $ty:ty;)*) => {
        $(#[inline]
        fn $name(value: &Datum) -> Result<$ty> {
            match value {
                Datum::$variant(value) => Ok(*value),
                other => Err(wrong(stringify!($variant), other)),
            }
        })*
    };
}

accessors! {
    int Int i64;
    float Float f64;
    number Numeric Numeric;
    date Date i32;
    time Time i64;
    timestamp Timestamp i64;
    interval Interval Interval;
}

#[inline]
fn text(value: &Datum) -> Result<&str> {
    match value {
        Datum::Text(value) => Ok(value),
        other => Err(wrong("Text", other)),
    }
}

#[inline]
fn bytes(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Bytes(value) => Ok(value),
        other => Err(wrong("Bytes", other)),
    }
}

/// The longest text or byte string that a function makes.
const BYTES_MAX: usize = 1 << 28;

/// An error if a result would be too long.
fn check_length(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        return Err(Error::new(crate::error::SqlState("54000"), "requested length too large"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::random_datum;

    #[test]
    fn no_two_functions_have_the_same_name_and_arguments() {
        for pair in all().windows(2) {
            assert!(
                pair[0].name != pair[1].name || pair[0].args != pair[1].args || pair[0].variadic != pair[1].variadic,
                "{}({:?})",
                pair[0].name,
                pair[0].args
            );
        }
        for function in all() {
            assert!(named(function.name).iter().any(|other| other.args == function.args));
        }
    }

    #[test]
    fn no_function_panics_or_gives_another_type() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let env = Env::default();
        for function in all() {
            // Transcendental functions of numerics take long in a debug build.
            for _ in 0..100 {
                let count = function.args.len() + if function.variadic { random.usize(..3) } else { 0 };
                let values: Vec<Datum> = (0..count)
                    .map(|index| {
                        if !function.strict && random.u8(..) < 40 {
                            return Datum::Null;
                        }
                        match (function.arg_type(index), random.u8(..)) {
                            (Type::Text, ..128) => Datum::text(random.choice(WORDS).unwrap()),
                            (Type::Int4 | Type::Int8, ..128) => Datum::Int(random.i64(-3..=12)),
                            (ty, _) => random_datum(ty, &mut random),
                        }
                    })
                    .collect();
                let args: Vec<&Datum> = values.iter().collect();
                let Ok(result) = function.call(&args, &env) else { continue };
                let fits = matches!(
                    (&result, function.result),
                    (Datum::Null, _)
                        | (Datum::Bool(_), Type::Bool)
                        | (Datum::Int(_), Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid)
                        | (Datum::Float(_), Type::Float4 | Type::Float8)
                        | (Datum::Numeric(_), Type::Numeric)
                        | (Datum::Text(_), Type::Text | Type::Name | Type::Varchar | Type::Char | Type::Json)
                        | (Datum::Text(_), Type::Void)
                        | (Datum::Bytes(_), Type::Bytea)
                        | (Datum::Date(_), Type::Date)
                        | (Datum::Time(_), Type::Time)
                        | (Datum::Timestamp(_), Type::Timestamp | Type::TimestampTz)
                        | (Datum::Interval(_), Type::Interval)
                        | (Datum::Uuid(_), Type::Uuid)
                        | (Datum::Array(_), Type::Array(_) | Type::AnyArray)
                        | (_, Type::AnyElement)
                        | (
                            Datum::Int(_),
                            Type::RegClass | Type::RegType | Type::RegProc | Type::RegNamespace | Type::RegRole
                        )
                );
                assert!(fits, "{}({values:?}) = {result:?}", function.name);
            }
        }
    }

    /// Evaluates a line of the file of expectations: what to do, a name, typed arguments.
    fn evaluate(fields: &[&str], env: &Env) -> Result<String> {
        use crate::cast::{CastContext, cast, cast_context};
        use crate::resolve::{comparison_type, no_operator, resolve_aggregate, resolve_function, resolve_operator};
        use crate::text_io;
        use crate::types::Modifier;

        let named = |name: &str| Type::ALL.into_iter().find(|ty| ty.sql_name() == name).unwrap();
        let read = |ty: Type, text: &str| match text {
            "\\N" => Ok(Datum::Null),
            text => text_io::parse(ty, Modifier::NONE, text, env),
        };
        let arg = |field: &str| -> Result<(Type, Datum)> {
            let (ty, text) = field.split_once(':').unwrap();
            Ok((named(ty), read(named(ty), text)?))
        };
        let show = |ty: Type, value: Datum| {
            let mut shown = String::new();
            if value.is_null() {
                shown.push_str("NULL")
            } else {
                text_io::write(ty, &value, env, &mut shown)
            }
            shown
        };
        let convert =
            |value: &Datum, from: Type, to: Type| cast(value, from, to, Modifier::NONE, CastContext::Explicit, env);
        match fields[0] {
            "cast" => {
                let ((from, value), to) = (arg(fields[1])?, named(fields[2]));
                if cast_context(from, to).is_none() {
                    return Err(Error::new(crate::error::SqlState::CANNOT_COERCE, ""));
                }
                let modifier = Modifier(fields[3].parse().unwrap());
                Ok(show(to, cast(&value, from, to, modifier, CastContext::Explicit, env)?))
            }
            "cmp" => {
                let ((left_ty, left), (right_ty, right)) = (arg(fields[1])?, arg(fields[2])?);
                let common = comparison_type(left_ty, right_ty).ok_or_else(|| no_operator("", false))?;
                let (left, right) = (convert(&left, left_ty, common)?, convert(&right, right_ty, common)?);
                Ok((crate::operators::compare(&left, &right) as i32).to_string())
            }
            "agg" => {
                let ty = named(fields[2]);
                let aggregate = resolve_aggregate(fields[1], &[ty]).unwrap()?;
                let mut state = (aggregate.start)();
                for text in fields[3].split(';') {
                    state.update(&[&convert(&read(ty, text)?, ty, aggregate.args[0])?], env)?;
                }
                Ok(show(aggregate.result, state.finish()?))
            }
            kind => {
                let args = fields[2..].iter().map(|field| arg(field)).collect::<Result<Vec<_>>>()?;
                let types: Vec<Type> = args.iter().map(|arg| arg.0).collect();
                let function = match (kind, &types[..]) {
                    ("f", _) => resolve_function(fields[1], &types)?,
                    (_, [right]) => resolve_operator(fields[1], None, *right)?,
                    (_, types) => resolve_operator(fields[1], Some(types[0]), types[1])?,
                };
                let values = args
                    .iter()
                    .enumerate()
                    .map(|(index, (ty, value))| convert(value, *ty, function.arg_type(index)))
                    .collect::<Result<Vec<_>>>()?;
                Ok(show(function.result, function.call(&values.iter().collect::<Vec<_>>(), env)?))
            }
        }
    }

    /// The file has what PostgreSQL 15 answered (collation C, UTC) to thousands of expressions of all types.
    #[test]
    fn results_are_those_of_postgresql() {
        let env = Env::default();
        let mut differences = Vec::new();
        for line in include_str!("../../tests/values/postgresql_15.tsv").lines() {
            let (question, expected) = line.rsplit_once('\t').unwrap();
            let found = match evaluate(&question.split('\t').collect::<Vec<_>>(), &env) {
                Ok(text) => text.replace('\n', "\\n"),
                Err(error) => format!("ERR {}", error.state().0),
            };
            if found != expected {
                differences.push(format!("{question}: {found}, not {expected}"));
            }
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    const WORDS: &[&str] = &[
        "",
        "a",
        "hex",
        "base64",
        "escape",
        "year",
        "month",
        "epoch",
        "UTC",
        "Europe/Berlin",
        "YYYY-MM-DD HH24:MI:SS.US",
        "FM999,999.99",
        "%s %I %L",
        "a%b_",
        "(a|b)+",
        "\\",
        "i",
        "g",
        "\\1\\&",
        "\u{e9}\u{10000}",
        "9999",
        "2020-02-30",
        "SL0999D99PR",
        "IYYY-IW-ID TZ OF Day Mon RM AM J Q WW",
        "[a-",
        "deadbeef",
        "UTF8",
    ];
}
