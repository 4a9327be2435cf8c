//! Arguments by name, `make_interval(hours => 1)`, in calls of functions that come with the system.
//!
//! They are put into the places that they have, and defaults between them are written out. So
//! nothing behind the parser knows of names. Calls of other functions keep theirs.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{FunctionArg, FunctionArgExpr, Ident, ObjectName};

use crate::tree::fold;

/// A function's parameters in their order: each with its default as SQL, if it has one.
type Parameters = &'static [(&'static str, Option<&'static str>)];

const FROM_JSON: Parameters = &[("from_json", None)];
const OF_PATH: Parameters =
    &[("target", None), ("path", None), ("vars", Some("'{}'::pg_catalog.jsonb")), ("silent", Some("false"))];
const OF_CLOCK: Parameters = &[
    ("year", None),
    ("month", None),
    ("mday", None),
    ("hour", None),
    ("min", None),
    ("sec", None),
    ("timezone", None),
];

/// The functions of PostgreSQL 15 whose parameters have names and that are here.
const FUNCTIONS: &[(&str, Parameters)] = &[
    ("json_array_element", &[("from_json", None), ("element_index", None)]),
    ("json_array_elements", FROM_JSON),
    ("json_array_elements_text", FROM_JSON),
    ("json_each", FROM_JSON),
    ("json_each_text", FROM_JSON),
    ("json_populate_record", &[("base", None), ("from_json", None), ("use_json_as_text", Some("false"))]),
    ("json_populate_recordset", &[("base", None), ("from_json", None), ("use_json_as_text", Some("false"))]),
    ("jsonb_array_elements", FROM_JSON),
    ("jsonb_array_elements_text", FROM_JSON),
    ("jsonb_each", FROM_JSON),
    ("jsonb_each_text", FROM_JSON),
    ("jsonb_insert", &[("jsonb_in", None), ("path", None), ("replacement", None), ("insert_after", Some("false"))]),
    ("jsonb_path_exists", OF_PATH),
    ("jsonb_path_exists_tz", OF_PATH),
    ("jsonb_path_match", OF_PATH),
    ("jsonb_path_match_tz", OF_PATH),
    ("jsonb_path_query", OF_PATH),
    ("jsonb_path_query_array", OF_PATH),
    ("jsonb_path_query_array_tz", OF_PATH),
    ("jsonb_path_query_first", OF_PATH),
    ("jsonb_path_query_first_tz", OF_PATH),
    ("jsonb_path_query_tz", OF_PATH),
    ("jsonb_set", &[("jsonb_in", None), ("path", None), ("replacement", None), ("create_if_missing", Some("true"))]),
    (
        "jsonb_set_lax",
        &[
            ("jsonb_in", None),
            ("path", None),
            ("replacement", None),
            ("create_if_missing", Some("true")),
            ("null_value_treatment", Some("'use_json_null'")),
        ],
    ),
    ("make_date", &[("year", None), ("month", None), ("day", None)]),
    (
        "make_interval",
        &[
            ("years", Some("0")),
            ("months", Some("0")),
            ("weeks", Some("0")),
            ("days", Some("0")),
            ("hours", Some("0")),
            ("mins", Some("0")),
            ("secs", Some("0.0")),
        ],
    ),
    ("make_time", &[("hour", None), ("min", None), ("sec", None)]),
    ("make_timestamp", OF_CLOCK),
    ("make_timestamptz", OF_CLOCK),
    ("parse_ident", &[("str", None), ("strict", Some("true"))]),
];

/// The parameters of a function, by its name.
fn parameters_of(name: &ObjectName) -> Option<Parameters> {
    let parts: Vec<&Ident> = name.0.iter().map(|part| part.as_ident()).collect::<Option<_>>()?;
    let name = match parts[..] {
        [name] => fold(name),
        [schema, name] if fold(schema) == "pg_catalog" => fold(name),
        _ => return None,
    };
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, parameters)| *parameters)
}

/// Puts the arguments of a call into the places of its function's parameters, if some have names.
///
/// # Errors
/// 42601 if an argument without a name follows one that has one, or a name comes twice; 42883 if
/// the function has no such parameter, or needs one that is not given.
pub(super) fn in_their_places(name: &ObjectName, args: Vec<FunctionArg>) -> Result<Vec<FunctionArg>> {
    let is_named = |arg: &FunctionArg| matches!(arg, FunctionArg::Named { .. });
    let Some(first) = args.iter().position(is_named) else { return Ok(args) };
    if !args[first..].iter().all(is_named) {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "positional argument cannot follow named argument"));
    }
    let mut known = Vec::new();
    for arg in &args[first..] {
        if let FunctionArg::Named { name, .. } = arg {
            let name = fold(name);
            if known.contains(&name) {
                let message = format!("argument name \"{name}\" used more than once");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            known.push(name);
        }
    }
    let Some(parameters) = parameters_of(name) else { return Ok(args) };
    let missing = || {
        let message = format!("function {name} with these names of arguments does not exist");
        Error::new(SqlState::NO_SUCH_FUNCTION, message)
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
    };
    let mut places: Vec<Option<FunctionArg>> = vec![None; parameters.len()];
    for (at, arg) in args.into_iter().enumerate() {
        let (place, arg) = match arg {
            FunctionArg::Named { name, arg, .. } => {
                let name = fold(&name);
                let place = parameters.iter().position(|(parameter, _)| name == *parameter).ok_or_else(missing)?;
                (place, FunctionArg::Unnamed(arg))
            }
            arg => (at, arg),
        };
        match places.get_mut(place) {
            Some(free @ None) => *free = Some(arg),
            _ => return Err(missing()),
        }
    }
    let count = places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut placed = Vec::with_capacity(count);
    for (place, (_, default)) in places.into_iter().zip(parameters).take(count) {
        placed.push(match (place, default) {
            (Some(arg), _) => arg,
            (None, Some(default)) => FunctionArg::Unnamed(FunctionArgExpr::Expr(crate::parse_expr(default)?)),
            (None, None) => return Err(missing()),
        });
    }
    Ok(placed)
}
