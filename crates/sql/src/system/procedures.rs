//! `pg_proc`: the functions that can be called, numbered here, and those that types, operators and
//! casts name, with PostgreSQL's numbers, since drivers look them up by number to know what a
//! type's values look like.
//!
//! `functions.txt` has the latter, and which of them each type has. A function that is in both has
//! the number of that file:
//! ```text
//! type oid input output receive send modin modout analyze subscript element alignment storage
//! function oid name volatility result arguments
//! ```

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use colibri_catalog::cluster::BOOTSTRAP_ROLE;
use colibri_types::{
    Datum, Env, Error, Result, SqlState, Type, aggregates,
    functions::{Function, Volatility},
};

use super::{NULL, PG_CATALOG, Rows, flag, int, oid, text, vector};
use crate::bind::COMPATIBLE_FUNCTIONS;
use crate::registry::FUNCTIONS;
use crate::surroundings::{Names as _, Surroundings};

pub(super) const LANGUAGE_INTERNAL: u32 = 12;

/// The number of the first function here: PostgreSQL's own functions have other numbers, on which
/// clients should not rely.
const FIRST_FUNCTION: u32 = 8_200;

/// `"any"`: a value of any type.
const ANY: u32 = 2276;

/// Types that only functions have, by number and name.
const PSEUDO_TYPES: [(u32, &str); 17] = [
    (ANY, "\"any\""),
    (2275, "cstring"),
    (2281, "internal"),
    (COMPATIBLE, "anycompatible"),
    (COMPATIBLE_ARRAY, "anycompatiblearray"),
    // No function here has these types: clients ask which functions do.
    (269, "table_am_handler"),
    (325, "index_am_handler"),
    (2279, "trigger"),
    (2280, "language_handler"),
    (2776, "anynonarray"),
    (3115, "fdw_handler"),
    (3310, "tsm_handler"),
    (3500, "anyenum"),
    (ANY_RANGE, "anyrange"),
    (3838, "event_trigger"),
    (ANY_MULTIRANGE, "anymultirange"),
    (5079, "anycompatiblenonarray"),
];

/// Any range, and any multirange.
pub(super) const ANY_RANGE: u32 = 3831;
pub(super) const ANY_MULTIRANGE: u32 = 4537;

/// A type that the values and the array of a call agree on.
const COMPATIBLE: u32 = 5077;
const COMPATIBLE_ARRAY: u32 = 5078;

/// A row of `pg_proc`.
struct Procedure {
    number: u32,
    name: &'static str,
    kind: &'static str,
    args: Vec<u32>,
    result: u32,
    strict: bool,
    volatility: &'static str,
    /// The last argument comes any number of times, each of this type.
    variadic: Option<u32>,
    /// The extension that it belongs to.
    extension: Option<&'static str>,
}

/// The extension of a type among some.
fn extension_of(types: impl IntoIterator<Item = u32>) -> Option<&'static str> {
    let of_type = |number: u32| (number >= FIRST_OF_EXTENSIONS).then(|| Type::from_oid(number)?.extension()).flatten();
    types.into_iter().find_map(of_type)
}

/// Types of extensions are numbered from here.
const FIRST_OF_EXTENSIONS: u32 = 15_501;

struct Procedures {
    all: Vec<Procedure>,
    by_number: HashMap<u32, usize>,
    by_name: HashMap<&'static str, Vec<usize>>,
}

/// The functions that read and write the values of a type, and how PostgreSQL stores them.
pub(super) struct TypeFunctions {
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) receive: u32,
    pub(super) send: u32,
    pub(super) modifier_in: u32,
    pub(super) modifier_out: u32,
    pub(super) analyze: u32,
    pub(super) subscript: u32,
    pub(super) element: u32,
    pub(super) alignment: &'static str,
    pub(super) storage: &'static str,
}

/// The rows of composite types.
pub(super) const RECORD: TypeFunctions = TypeFunctions {
    input: 2290,
    output: 2291,
    receive: 2402,
    send: 2403,
    modifier_in: 0,
    modifier_out: 0,
    analyze: 0,
    subscript: 0,
    element: 0,
    alignment: "d",
    storage: "x",
};

/// Enums.
pub(super) const ENUM: TypeFunctions = TypeFunctions {
    input: 3506,
    output: 3507,
    receive: 3532,
    send: 3533,
    modifier_in: 0,
    modifier_out: 0,
    analyze: 0,
    subscript: 0,
    element: 0,
    alignment: "i",
    storage: "p",
};

static OF_TYPES: LazyLock<HashMap<u32, TypeFunctions>> = LazyLock::new(|| {
    let lines = include_str!("functions.txt").lines();
    lines.filter_map(type_functions).collect()
});

fn type_functions(line: &'static str) -> Option<(u32, TypeFunctions)> {
    let words: Vec<&str> = line.strip_prefix("type ")?.split(' ').collect();
    let (numbers, [alignment, storage]) = words.split_last_chunk()?;
    let numbers: Vec<u32> = numbers.iter().map_while(|word| word.parse().ok()).collect();
    let [ty, input, output, receive, send, modifier_in, modifier_out, analyze, subscript, element] = numbers[..] else {
        return None;
    };
    let functions = TypeFunctions {
        input,
        output,
        receive,
        send,
        modifier_in,
        modifier_out,
        analyze,
        subscript,
        element,
        alignment,
        storage,
    };
    Some((ty, functions))
}

/// What a type has; arrays have what all arrays have, and their elements' modifiers and alignment.
pub(super) fn of_type(ty: Type) -> Option<TypeFunctions> {
    let known = |ty: Type| OF_TYPES.get(&ty.oid());
    match ty {
        Type::Array(element) => known(element.ty()).map(|element_has| array_of(element_has, element.ty().oid())),
        _ => known(ty).map(|has| TypeFunctions { ..*has }),
    }
}

/// What a domain over a type has.
pub(super) fn of_domain(base: &TypeFunctions) -> TypeFunctions {
    TypeFunctions { input: 2597, receive: 2598, modifier_in: 0, modifier_out: 0, subscript: 0, element: 0, ..*base }
}

/// What an array of such elements has.
pub(super) fn array_of(has: &TypeFunctions, element: u32) -> TypeFunctions {
    TypeFunctions {
        input: 750,
        output: 751,
        receive: 2400,
        send: 2401,
        modifier_in: has.modifier_in,
        modifier_out: has.modifier_out,
        analyze: 3816,
        subscript: 6179,
        element,
        alignment: if has.alignment == "d" { "d" } else { "i" },
        storage: "x",
    }
}

fn named_only(line: &'static str) -> Option<Procedure> {
    let mut words = line.strip_prefix("function ")?.split(' ');
    let (number, name, volatility) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let result = words.next()?.parse().ok()?;
    let args = words.next().unwrap_or_default().split(',').filter_map(|word| word.parse().ok()).collect();
    let args: Vec<u32> = args;
    let extension = extension_of(args.iter().copied().chain([result]));
    Some(Procedure { number, name, kind: "f", args, result, strict: true, volatility, variadic: None, extension })
}

/// Whether a function is one of those that all range types have: such a function is listed once,
/// over any range. `None` if it is listed for another range type already.
fn is_of_any_range(name: &str, args: &[Type], result: Type) -> Option<bool> {
    let is_maker = result.inner_name() == name;
    let mut of_ranges = args.iter().filter(|ty| ty.bounds().is_some()).peekable();
    if is_maker || of_ranges.peek().is_none() {
        return Some(false);
    }
    of_ranges.all(|ty| matches!(ty, Type::Int4Range | Type::Int4Multirange)).then_some(true)
}

/// What stands for a type in the declaration of a function of any range.
fn of_any_range(ty: Type) -> u32 {
    match ty {
        Type::Int4Range => ANY_RANGE,
        Type::Int4Multirange => ANY_MULTIRANGE,
        Type::Int4 => Type::AnyElement.oid(),
        other => argument(other),
    }
}

/// The type of an argument. A type that no column can have stands for `"any"`.
fn argument(ty: Type) -> u32 {
    if ty == Type::Void { ANY } else { ty.oid() }
}

fn callable(function: &Function) -> Option<Procedure> {
    let is_of_any_range = is_of_any_range(function.name, function.args, function.result)?;
    let is_compatible = COMPATIBLE_FUNCTIONS.contains(&function.name);
    let declared = |ty: Type| match ty {
        ty if is_of_any_range => of_any_range(ty),
        Type::AnyArray if is_compatible => COMPATIBLE_ARRAY,
        Type::AnyElement if is_compatible => COMPATIBLE,
        other => argument(other),
    };
    let mut args: Vec<u32> = function.args.iter().map(|&ty| declared(ty)).collect();
    let mut variadic = None;
    if let (true, Some(last)) = (function.variadic, function.args.last()) {
        let (each, all) =
            if function.takes_any_as_text() { (ANY, ANY) } else { (last.oid(), last.array().map_or(ANY, Type::oid)) };
        variadic = Some(each);
        args.pop();
        // The first of them has a place of its own where it is what the others are put into.
        if function.name == "format" {
            args.push(last.oid());
        }
        args.push(all);
    }
    Some(Procedure {
        number: 0,
        name: function.name,
        kind: "f",
        args,
        result: declared(function.result),
        strict: function.strict,
        volatility: match function.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        },
        variadic,
        extension: function.extension(),
    })
}

static PROCEDURES: LazyLock<Procedures> = LazyLock::new(|| {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let functions = FUNCTIONS.all().iter().filter(|function| is_name(function.name)).filter_map(callable);
    let aggregates = aggregates::NAMES.iter().flat_map(|name| aggregates::named(name)).filter_map(|aggregate| {
        let is_of_any_range = is_of_any_range(aggregate.name, aggregate.args, aggregate.result)?;
        let declared = |ty: Type| if is_of_any_range { of_any_range(ty) } else { argument(ty) };
        Some(Procedure {
            number: 0,
            name: aggregate.name,
            kind: "a",
            args: aggregate.args.iter().map(|&ty| declared(ty)).collect(),
            result: if is_of_any_range { declared(aggregate.result) } else { aggregate.result.oid() },
            strict: false,
            volatility: "i",
            variadic: None,
            extension: extension_of(aggregate.args.iter().map(|ty| ty.oid())),
        })
    });
    let mut all: Vec<Procedure> = functions.chain(aggregates).collect();
    let mut named: Vec<Procedure> = include_str!("functions.txt").lines().filter_map(named_only).collect();
    for (at, procedure) in all.iter_mut().enumerate() {
        let same = named.iter().position(|known| known.name == procedure.name && known.args == procedure.args);
        procedure.number = match same {
            Some(same) => named.swap_remove(same).number,
            None => FIRST_FUNCTION + at as u32,
        };
    }
    named.sort_by_key(|procedure| procedure.number);
    all.append(&mut named);
    let by_number = all.iter().enumerate().map(|(at, procedure)| (procedure.number, at)).collect();
    let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::new();
    for (at, procedure) in all.iter().enumerate() {
        by_name.entry(procedure.name).or_default().push(at);
    }
    Procedures { all, by_number, by_name }
});

fn procedure(number: u32) -> Option<&'static Procedure> {
    PROCEDURES.by_number.get(&number).map(|&at| &PROCEDURES.all[at])
}

/// The functions of a name: their numbers and the numbers of their arguments' types.
pub(super) fn named(name: &str) -> impl Iterator<Item = (u32, &'static [u32])> {
    let places = PROCEDURES.by_name.get(name).map_or(&[][..], |places| places);
    places.iter().map(|&at| (PROCEDURES.all[at].number, &PROCEDURES.all[at].args[..]))
}

/// The number of a type that only functions have, by its name.
pub(super) fn pseudo_type_named(name: &str) -> Option<u32> {
    PSEUDO_TYPES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

/// A type that only functions have, by its number.
pub(super) fn pseudo_type_numbered(number: u32) -> Option<&'static str> {
    PSEUDO_TYPES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// A function's name.
pub(crate) fn name_of(number: u32) -> Option<&'static str> {
    procedure(number).map(|procedure| procedure.name)
}

fn type_name(number: u32) -> &'static str {
    pseudo_type_numbered(number).or_else(|| Type::from_oid(number).map(Type::sql_name)).unwrap_or("???")
}

/// A function's arguments, with commas between.
pub(crate) fn arguments(number: u32) -> Option<String> {
    let procedure = procedure(number)?;
    let names = procedure.args.iter().map(|&ty| type_name(ty)).enumerate().map(|(at, name)| {
        let is_last = at + 1 == procedure.args.len();
        if is_last && procedure.variadic.is_some() { format!("VARIADIC {name}") } else { name.to_owned() }
    });
    Some(names.collect::<Vec<_>>().join(", "))
}

/// The result type of a function.
pub(crate) fn result(number: u32) -> Option<&'static str> {
    procedure(number).map(|procedure| type_name(procedure.result))
}

/// A function as CREATE FUNCTION would make it.
///
/// # Errors
/// 42809 for aggregates.
pub(crate) fn definition(number: u32) -> Result<Option<String>> {
    let Some(procedure) = procedure(number) else { return Ok(None) };
    let Procedure { name, volatility, strict, .. } = procedure;
    if procedure.kind == "a" {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is an aggregate function")));
    }
    let (arguments, result) = (arguments(number).unwrap_or_default(), type_name(procedure.result));
    let volatility = match *volatility {
        "i" => " IMMUTABLE",
        "s" => " STABLE",
        _ => "",
    };
    let strict = if *strict { " STRICT" } else { "" };
    Ok(Some(format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.{}({arguments})\n RETURNS {result}\n LANGUAGE internal\n\
         {volatility} PARALLEL SAFE{strict}\nAS $function${name}$function$\n",
        super::names::quoted(name)
    )))
}

/// A function's name with its arguments.
pub(super) fn signature(number: u32) -> Option<String> {
    let procedure = procedure(number)?;
    let arguments = procedure.args.iter().map(|&ty| type_name(ty)).collect::<Vec<_>>();
    Some(format!("{}({})", super::names::quoted(procedure.name), arguments.join(",")))
}

/// The number of the system's first function of a name.
pub(super) fn number_named(name: &str) -> u32 {
    PROCEDURES.all.iter().find(|procedure| procedure.name == name).map_or(0, |procedure| procedure.number)
}

/// The number of a function that an aggregate is made of.
fn function_number(names: &Surroundings, written: &str) -> u32 {
    let quote = colibri_types::functions::quote_identifier;
    let is_meant = |routine: &&Arc<colibri_catalog::Routine>| {
        format!("{}.{}", quote(&routine.schema), quote(&routine.name)) == written
    };
    if let Some(routine) = names.catalog.routines().find(is_meant) {
        return routine.id;
    }
    let name = written.rsplit('.').next().unwrap_or_default().trim_matches('"');
    PROCEDURES.all.iter().find(|procedure| procedure.name == name).map_or(0, |procedure| procedure.number)
}

/// The aggregates that users have defined.
fn of_users(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for routine in names.catalog.routines() {
        let Some(parts) = &routine.aggregate else { continue };
        let other = |name: &str| parts.others.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let function = |name: &str| oid(other(name).map_or(0, |written| function_number(names, written)));
        let letter = |name: &str| match other(name) {
            Some("shareable") => text("s"),
            Some("read_write") => text("w"),
            _ => text("r"),
        };
        let number = |name: &str| int(other(name).and_then(|value| value.parse::<i64>().ok()).unwrap_or_default());
        rows.push([
            oid(routine.id),
            text("n"),
            int(0),
            oid(function_number(names, &parts.transition)),
            oid(parts.finish.as_deref().map_or(0, |written| function_number(names, written))),
            function("combinefunc"),
            function("serialfunc"),
            function("deserialfunc"),
            function("msfunc"),
            function("minvfunc"),
            function("mfinalfunc"),
            flag(parts.finish_extra),
            flag(other("mfinalfunc_extra").is_some()),
            letter("finalfunc_modify"),
            letter("mfinalfunc_modify"),
            oid(0),
            oid(parts.state.oid()),
            number("sspace"),
            oid(0),
            number("msspace"),
            parts.initial.as_deref().map_or(NULL, text),
            other("minitcond").map_or(NULL, text),
        ])?;
    }
    Ok(())
}

/// Aggregates: they have no functions for their steps.
pub(super) fn aggregates(env: &Env, rows: &mut Rows) -> Result<()> {
    of_users(env, rows)?;
    for procedure in PROCEDURES.all.iter().filter(|procedure| procedure.kind == "a") {
        if place_of(env, procedure).is_none() {
            continue;
        }
        rows.push([
            oid(procedure.number),
            text("n"),
            int(0),
            oid(0),
            oid(0),
            oid(0),
            oid(0),
            oid(0),
            oid(0),
            oid(0),
            oid(0),
            flag(false),
            flag(false),
            text("r"),
            text("r"),
            oid(0),
            oid(procedure.result),
            int(0),
            oid(0),
            int(0),
            NULL,
            NULL,
        ])?;
    }
    Ok(())
}

/// The schema of a function and its owner; `None` if its extension is not there.
fn place_of(env: &Env, procedure: &Procedure) -> Option<(u32, u32)> {
    match procedure.extension {
        Some(extension) => super::types::place_of_extension(env, extension),
        None => Some((PG_CATALOG, BOOTSTRAP_ROLE)),
    }
}

/// The numbers of the functions that come with an extension.
pub(super) fn of_extension(extension: &str) -> impl Iterator<Item = u32> {
    let is_of_it = move |procedure: &&Procedure| procedure.extension == Some(extension);
    PROCEDURES.all.iter().filter(is_of_it).map(|procedure| procedure.number)
}

pub(super) fn procedures(env: &Env, rows: &mut Rows) -> Result<()> {
    super::routines::procedures(env, rows)?;
    for procedure in &PROCEDURES.all {
        let Some((schema, owner)) = place_of(env, procedure) else { continue };
        rows.push([
            oid(procedure.number),
            text(procedure.name),
            oid(schema),
            oid(owner),
            oid(LANGUAGE_INTERNAL),
            Datum::Float(1.0),
            Datum::Float(0.0),
            oid(procedure.variadic.unwrap_or_default()),
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
            oid(procedure.result),
            vector(Type::Oid, procedure.args.iter().map(|&ty| oid(ty))),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_type_has_functions_that_there_are_and_no_two_functions_have_a_number() {
        assert_eq!(PROCEDURES.by_number.len(), PROCEDURES.all.len());
        for ty in Type::all() {
            let has = of_type(ty).unwrap_or_else(|| panic!("{ty} has no functions"));
            let all = [has.input, has.output, has.receive, has.send, has.modifier_in, has.modifier_out, has.analyze];
            for number in all.into_iter().chain([has.subscript]).filter(|&number| number != 0) {
                assert!(name_of(number).is_some(), "{ty}: there is no function {number}");
            }
            assert_eq!(has.element, ty.element().map_or(has.element, |element| element.oid()), "{ty}");
        }
    }
}
