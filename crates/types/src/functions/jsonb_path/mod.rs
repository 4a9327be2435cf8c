//! Functions and operators of paths into `jsonb`: how they call the evaluation of a path.

mod evaluate;
mod moment;
mod value;

use evaluate::Options;

use super::{Function, document, f, text};
use crate::env::Env;
use crate::error::Result;
use crate::jsonb::Item;
use crate::jsonpath;
use crate::types::Type::{Bool, JsonPath, Jsonb};
use crate::value::Datum;

/// The options that the arguments behind a path are.
fn options<'a>(args: &[&'a Datum], with_zone: bool) -> Result<Options<'a>> {
    let vars = args.get(2).map(|vars| document(vars)).transpose()?;
    let silent = args.get(3).is_some_and(|silent| silent.is_true());
    Ok(Options { vars, silent, with_zone })
}

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Bool)
}

fn exists(args: &[&Datum], with_zone: bool, env: &Env) -> Result<Datum> {
    let program = jsonpath::compiled(text(args[1])?)?;
    evaluate::exists(&program, document(args[0])?, &options(args, with_zone)?, env).map(truth)
}

fn matches(args: &[&Datum], with_zone: bool, env: &Env) -> Result<Datum> {
    let program = jsonpath::compiled(text(args[1])?)?;
    evaluate::matches(&program, document(args[0])?, &options(args, with_zone)?, env).map(truth)
}

/// The values of a path.
pub(super) fn queried(args: &[&Datum], with_zone: bool, env: &Env) -> Result<Vec<Datum>> {
    let program = jsonpath::compiled(text(args[1])?)?;
    evaluate::query(&program, document(args[0])?, &options(args, with_zone)?, env)
}

fn array(args: &[&Datum], with_zone: bool, env: &Env) -> Result<Datum> {
    let values = queried(args, with_zone, env)?;
    Item::Array(values.iter().map(|value| document(value).map(Item::Part)).collect::<Result<_>>()?).datum()
}

fn first(args: &[&Datum], with_zone: bool, env: &Env) -> Result<Datum> {
    Ok(queried(args, with_zone, env)?.into_iter().next().unwrap_or_default())
}

/// As an operator: mistakes are nothing.
fn silently(
    args: &[&Datum],
    env: &Env,
    ask: fn(&jsonpath::Program, crate::jsonb::JsonbRef<'_>, &Options<'_>, &Env) -> Result<Option<bool>>,
) -> Result<Datum> {
    let program = jsonpath::compiled(text(args[1])?)?;
    let options = Options { vars: None, silent: true, with_zone: false };
    ask(&program, document(args[0])?, &options, env).map(truth)
}

macro_rules! with_options {
    ($($name:literal $with_zone:literal $result:ident $eval:ident $volatility:ident;)*) => {
        &[
            $(
                f($name, &[Jsonb, JsonPath], $result, |a, env| $eval(a, $with_zone, env)).$volatility(),
                f($name, &[Jsonb, JsonPath, Jsonb], $result, |a, env| $eval(a, $with_zone, env)).$volatility(),
                f($name, &[Jsonb, JsonPath, Jsonb, Bool], $result, |a, env| $eval(a, $with_zone, env)).$volatility(),
            )*
            f("@?", &[Jsonb, JsonPath], Bool, |a, env| silently(a, env, evaluate::exists)),
            f("@@", &[Jsonb, JsonPath], Bool, |a, env| silently(a, env, evaluate::matches)),
        ]
    };
}

pub(super) const TABLE: &[Function] = with_options! {
    "jsonb_path_exists" false Bool exists immutable;
    "jsonb_path_match" false Bool matches immutable;
    "jsonb_path_query_array" false Jsonb array immutable;
    "jsonb_path_query_first" false Jsonb first immutable;
    "jsonb_path_exists_tz" true Bool exists stable;
    "jsonb_path_match_tz" true Bool matches stable;
    "jsonb_path_query_array_tz" true Jsonb array stable;
    "jsonb_path_query_first_tz" true Jsonb first stable;
};
