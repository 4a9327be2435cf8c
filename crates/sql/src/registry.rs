//! All functions, operators and system tables there are: those on values, and those of the
//! catalogue.

use std::sync::LazyLock;

use colibri_catalog::builtin::Builtin;
use colibri_types::{functions, functions::Registry};

use crate::system;

/// The functions and operators of SQL.
pub(crate) static FUNCTIONS: LazyLock<Registry> = LazyLock::new(|| {
    let tables: Vec<_> = functions::TABLES.iter().chain(system::functions::TABLES).copied().collect();
    Registry::new(&tables)
});

/// What every database has.
pub(crate) fn builtin() -> Builtin {
    Builtin { functions: &FUNCTIONS, tables: &system::TABLES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colibri_types::Datum;
    use colibri_types::Env;
    use colibri_types::Type;
    use colibri_types::error::{Error, Result};
    use colibri_types::value::random::random_datum;

    #[test]
    fn no_two_functions_have_the_same_name_and_arguments() {
        for pair in FUNCTIONS.all().windows(2) {
            assert!(
                pair[0].name != pair[1].name || pair[0].args != pair[1].args || pair[0].variadic != pair[1].variadic,
                "{}({:?})",
                pair[0].name,
                pair[0].args
            );
        }
        for function in FUNCTIONS.all() {
            assert!(FUNCTIONS.named(function.name).iter().any(|other| other.args == function.args));
        }
    }

    #[test]
    fn no_function_panics_or_gives_another_type() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let env = Env::default();
        for function in FUNCTIONS.all() {
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
                    (&result, function.result.base()),
                    (Datum::Null, _)
                        | (Datum::Bool(_), Type::Bool)
                        | (Datum::Int(_), Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid)
                        | (Datum::Float(_), Type::Float4 | Type::Float8)
                        | (Datum::Numeric(_), Type::Numeric)
                        | (Datum::Text(_), Type::Text | Type::Name | Type::Varchar | Type::Char)
                        | (Datum::Text(_), Type::Void)
                        | (
                            Datum::Bytes(_),
                            Type::Bytea
                                | Type::Bit
                                | Type::VarBit
                                | Type::TsVector
                                | Type::Inet
                                | Type::Cidr
                                | Type::MacAddr
                                | Type::MacAddr8
                        )
                        | (
                            Datum::Bytes(_),
                            Type::Point
                                | Type::Lseg
                                | Type::Path
                                | Type::Box
                                | Type::Polygon
                                | Type::Line
                                | Type::Circle
                        )
                        | (Datum::Int(_), Type::Money | Type::Xid8 | Type::PgLsn | Type::Tid)
                        | (Datum::TimeTz(_), Type::TimeTz)
                        | (Datum::Date(_), Type::Date)
                        | (Datum::Time(_), Type::Time)
                        | (Datum::Timestamp(_), Type::Timestamp | Type::TimestampTz)
                        | (Datum::Interval(_), Type::Interval)
                        | (Datum::Jsonb(_), Type::Jsonb)
                        | (Datum::Uuid(_), Type::Uuid)
                        | (Datum::Array(_), Type::Array(_) | Type::AnyArray)
                        | (Datum::Row(_), Type::Record)
                        | (Datum::Query(_), Type::TsQuery)
                        | (Datum::Range(_), _)
                        | (Datum::Citext(_), Type::Citext)
                        | (Datum::Bytes(_), Type::Hstore | Type::Vector)
                        | (_, Type::AnyElement)
                        | (
                            Datum::Int(_),
                            Type::RegClass
                                | Type::RegType
                                | Type::RegProc
                                | Type::RegOper
                                | Type::RegOperator
                                | Type::RegNamespace
                                | Type::RegRole
                                | Type::RegConfig
                                | Type::RegDictionary
                        )
                );
                assert!(fits, "{}({values:?}) = {result:?}", function.name);
            }
        }
    }

    /// Evaluates a line of the file of expectations: what to do, a name, typed arguments.
    fn evaluate(fields: &[&str], env: &Env) -> Result<String> {
        use colibri_types::Modifier;
        use colibri_types::cast::{CastContext, cast, cast_context};
        use colibri_types::resolve::{comparison_type, no_operator, resolve_aggregate};
        use colibri_types::text_io;

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
                    return Err(Error::new(colibri_types::SqlState::CANNOT_COERCE, ""));
                }
                let modifier = Modifier(fields[3].parse().unwrap());
                Ok(show(to, cast(&value, from, to, modifier, CastContext::Explicit, env)?))
            }
            "cmp" => {
                let ((left_ty, left), (right_ty, right)) = (arg(fields[1])?, arg(fields[2])?);
                let common = comparison_type(left_ty, right_ty).ok_or_else(|| no_operator("", false))?;
                let (left, right) = (convert(&left, left_ty, common)?, convert(&right, right_ty, common)?);
                Ok((colibri_types::operators::compare(&left, &right) as i32).to_string())
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
                    ("f", _) => FUNCTIONS.function(fields[1], &types)?,
                    (_, [right]) => FUNCTIONS.operator(fields[1], None, *right)?,
                    (_, types) => FUNCTIONS.operator(fields[1], Some(types[0]), types[1])?,
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

    /// The file has what PostgreSQL 15 answered (collation C, UTC) to thousands of expressions of
    /// all types.
    #[test]
    fn results_are_those_of_postgresql() {
        let env = Env::default();
        let mut differences = Vec::new();
        for line in include_str!("../tests/values/postgresql_15.tsv").lines() {
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
