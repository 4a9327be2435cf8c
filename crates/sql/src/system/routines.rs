//! Functions and triggers of users as the catalogue shows them.

use colibri_catalog::{
    Argument, ArgumentMode, Catalog, Routine, RoutineLanguage, RoutineType, RoutineVolatility, StandardBody, Trigger,
    TriggerTime,
};
use colibri_types::functions::quote_identifier;
use colibri_types::{Datum, Env, Result, Type};

use super::relations::acl;
use super::{NULL, Rows, array, flag, int, oid, text, vector};
use crate::surroundings::{Names as _, Surroundings};
use colibri_catalog::system_tables::Fill;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_trigger", triggers)];

/// PostgreSQL's number of the language SQL.
pub(super) const LANGUAGE_SQL: u32 = 14;
/// PostgreSQL's number of the language of what extensions bring.
pub(super) const LANGUAGE_C: u32 = 13;
/// The number of PL/pgSQL in a new database of PostgreSQL 15.
pub(super) const LANGUAGE_PLPGSQL: u32 = 13_563;

/// How a type of a function is written.
pub(crate) fn type_text(catalog: &Catalog, ty: &RoutineType) -> String {
    match ty {
        RoutineType::Value(ty) => ty.sql_name().to_string(),
        RoutineType::RowOf(relation) => {
            let name = catalog
                .table(*relation)
                .map(|table| table.name.clone())
                .or_else(|| catalog.view(*relation).map(|view| view.name.clone()))
                .or_else(|| catalog.composite_of_relation(*relation).map(|ty| ty.name.clone()));
            name.map_or_else(|| "record".to_owned(), |name| quote_identifier(&name))
        }
        RoutineType::Trigger => "trigger".to_owned(),
        RoutineType::Nothing => "void".to_owned(),
    }
}

/// The number of a type of a function.
fn number_of(catalog: &Catalog, ty: &RoutineType) -> u32 {
    let composite = if let RoutineType::RowOf(relation) = ty { catalog.composite_of_relation(*relation) } else { None };
    composite.map_or_else(|| ty.oid(), |ty| ty.id)
}

/// The same, with the schema where the name alone would not find the type.
fn shown_type(names: &Surroundings, ty: &RoutineType) -> String {
    match ty {
        RoutineType::Trigger | RoutineType::Nothing => type_text(&names.catalog, ty),
        _ => super::names::format_type(names, number_of(&names.catalog, ty), None).to_string(),
    }
}

/// The library that PostgreSQL has a function of an extension in.
fn library(names: &Surroundings, routine: &Routine) -> Option<String> {
    if routine.language != RoutineLanguage::C {
        return None;
    }
    let extension = names.catalog.extension_of(routine.id)?;
    Some(format!("$libdir/{}", extension.name))
}

/// What a function costs that says nothing of it.
fn usual_cost(routine: &Routine) -> f64 {
    if routine.language == RoutineLanguage::C { 1.0 } else { 100.0 }
}

fn language(routine: &Routine) -> (u32, &'static str) {
    /// PostgreSQL's number of the language of what is built in.
    const INTERNAL: u32 = 12;
    if routine.aggregate.is_some() {
        return (INTERNAL, "internal");
    }
    match routine.language {
        RoutineLanguage::Sql => (LANGUAGE_SQL, "sql"),
        RoutineLanguage::PlPgSql => (LANGUAGE_PLPGSQL, "plpgsql"),
        RoutineLanguage::C => (LANGUAGE_C, "c"),
    }
}

/// The default of an argument, as it is kept.
pub(super) fn default_shown(arg: &Argument) -> Option<&str> {
    arg.default.as_deref()
}

/// An argument as a list of arguments shows it.
fn argument(names: &Surroundings, routine: &Routine, arg: &Argument, with_default: bool) -> String {
    let mode = match arg.mode {
        ArgumentMode::In if routine.is_procedure => "IN ",
        ArgumentMode::In | ArgumentMode::Table => "",
        ArgumentMode::Out => "OUT ",
        ArgumentMode::InOut => "INOUT ",
        ArgumentMode::Variadic => "VARIADIC ",
    };
    let name = match arg.name.as_str() {
        "" => String::new(),
        name => format!("{} ", quote_identifier(name)),
    };
    let default = match &arg.default {
        Some(default) if with_default => format!(" DEFAULT {default}"),
        _ => String::new(),
    };
    format!("{mode}{name}{}{default}", shown_type(names, &arg.ty))
}

/// The arguments of a function, with commas between.
pub(crate) fn arguments(names: &Surroundings, number: u32, with_defaults: bool) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    let args = routine.args.iter().filter(|arg| arg.mode != ArgumentMode::Table);
    Some(args.map(|arg| argument(names, routine, arg, with_defaults)).collect::<Vec<_>>().join(", "))
}

/// What a function returns.
pub(crate) fn result(names: &Surroundings, number: u32) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    if routine.is_procedure {
        return None;
    }
    let columns: Vec<String> = routine
        .args
        .iter()
        .filter(|arg| arg.mode == ArgumentMode::Table)
        .map(|arg| argument(names, routine, arg, false))
        .collect();
    if !columns.is_empty() {
        return Some(format!("TABLE({})", columns.join(", ")));
    }
    let set = if routine.set { "SETOF " } else { "" };
    Some(format!("{set}{}", shown_type(names, &routine.result)))
}

/// A body between dollars that it does not have.
fn between_dollars(body: &str, word: &str) -> String {
    let mut tag = word.to_owned();
    while body.contains(&format!("${tag}")) {
        tag.push('x');
    }
    format!("${tag}${body}${tag}$")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statement that makes a function.
pub(crate) fn definition(names: &Surroundings, number: u32) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    let word = if routine.is_procedure { "PROCEDURE" } else { "FUNCTION" };
    let mut out = format!(
        "CREATE OR REPLACE {word} {}.{}({})\n",
        quote_identifier(&routine.schema),
        quote_identifier(&routine.name),
        arguments(names, number, true)?
    );
    if let Some(result) = result(names, number) {
        out.push_str(&format!(" RETURNS {result}\n"));
    }
    out.push_str(&format!(" LANGUAGE {}\n", language(routine).1));
    let mut options = String::new();
    options.push_str(match routine.volatility {
        RoutineVolatility::Immutable => " IMMUTABLE",
        RoutineVolatility::Stable => " STABLE",
        RoutineVolatility::Volatile => "",
    });
    options.push_str(match routine.parallel {
        's' => " PARALLEL SAFE",
        'r' => " PARALLEL RESTRICTED",
        _ => "",
    });
    for (is_so, option) in [
        (routine.strict, " STRICT"),
        (routine.security_definer, " SECURITY DEFINER"),
        (routine.leakproof, " LEAKPROOF"),
    ] {
        if is_so {
            options.push_str(option);
        }
    }
    if let Some(cost) = routine.cost.filter(|cost| *cost != usual_cost(routine)) {
        options.push_str(&format!(" COST {cost}"));
    }
    if let Some(rows) = routine.rows.filter(|rows| *rows != 1000.0) {
        options.push_str(&format!(" ROWS {rows}"));
    }
    if !options.is_empty() {
        out.push_str(&options);
        out.push('\n');
    }
    for (name, value) in &routine.settings {
        let value = match name.as_str() {
            "search_path" => value
                .split(',')
                .map(|part| literal(part.trim_matches(|c: char| c == ' ' || c == '"')))
                .collect::<Vec<_>>()
                .join(", "),
            _ => literal(value),
        };
        out.push_str(&format!(" SET {} TO {value}\n", quote_identifier(name)));
    }
    match routine.standard {
        Some(StandardBody::Return) => {
            out.push_str(&format!("RETURN {}", routine.body.strip_prefix("SELECT ").unwrap_or(&routine.body)));
        }
        Some(StandardBody::Atomic) => {
            let statements: String = routine.body.split(";\n").map(|statement| format!(" {statement};\n")).collect();
            out.push_str(&format!("BEGIN ATOMIC\n{statements}END"));
        }
        None => {
            let tag = if routine.is_procedure { "procedure" } else { "function" };
            let library = library(names, routine).map(|library| format!("{}, ", literal(&library)));
            let library = library.unwrap_or_default();
            out.push_str(&format!("AS {library}{}", between_dollars(&routine.body, tag)));
        }
    }
    out.push('\n');
    Some(out)
}

/// The body of a function in SQL's own form.
pub(crate) fn standard_body(names: &Surroundings, number: u32) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    match routine.standard? {
        StandardBody::Return => {
            Some(format!("RETURN {}", routine.body.strip_prefix("SELECT ").unwrap_or(&routine.body)))
        }
        StandardBody::Atomic => {
            let statements: String = routine.body.split(";\n").map(|statement| format!(" {statement};\n")).collect();
            Some(format!("BEGIN ATOMIC\n{statements}END"))
        }
    }
}

/// A function's name, with its schema where the name alone would not find it.
pub(super) fn name(names: &Surroundings, number: u32) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    let is_first = names
        .search_path
        .iter()
        .find(|path| names.catalog.routines_named(&routine.name).any(|known| known.schema == **path))
        .is_some_and(|path| *path == routine.schema);
    let name = quote_identifier(&routine.name);
    Some(match is_first {
        true => name,
        false => format!("{}.{name}", quote_identifier(&routine.schema)),
    })
}

/// A function's name with the types of its arguments.
pub(super) fn signature(names: &Surroundings, number: u32) -> Option<String> {
    let routine = names.catalog.routine(number)?;
    let types: Vec<String> = routine.given().map(|arg| shown_type(names, &arg.ty)).collect();
    Some(format!("{}({})", name(names, number)?, types.join(",")))
}

/// The functions that a name means: their numbers and the numbers of their arguments' types. Those of
/// schemas further in front come first.
pub(super) fn named(names: &Surroundings, schema: Option<&str>, name: &str) -> Vec<(u32, Vec<u32>)> {
    let place = |routine: &Routine| match schema {
        Some(schema) => (routine.schema == names.catalog.schema_name(schema)).then_some(0),
        None if colibri_catalog::temporary::is_temporary(routine.id) => None,
        None => names.search_path.iter().position(|path| *path == routine.schema),
    };
    let mut found: Vec<_> =
        names.catalog.routines_named(name).filter_map(|routine| Some((place(routine)?, routine))).collect();
    found.sort_by_key(|(place, routine)| (*place, routine.id));
    found
        .into_iter()
        .map(|(_, routine)| (routine.id, routine.given().map(|arg| number_of(&names.catalog, &arg.ty)).collect()))
        .collect()
}

/// Rows of `pg_proc`.
pub(super) fn procedures(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for routine in names.catalog.routines() {
        let letter = |mode: ArgumentMode| {
            text(match mode {
                ArgumentMode::In => "i",
                ArgumentMode::Out => "o",
                ArgumentMode::InOut => "b",
                ArgumentMode::Variadic => "v",
                ArgumentMode::Table => "t",
            })
        };
        let has_modes = routine.args.iter().any(|arg| arg.mode != ArgumentMode::In);
        let has_names = routine.args.iter().any(|arg| !arg.name.is_empty());

        let defaults: Vec<&str> = routine.args.iter().filter_map(|arg| arg.default.as_deref()).collect();
        let variadic = routine.args.iter().find(|arg| arg.mode == ArgumentMode::Variadic).and_then(|arg| {
            arg.ty.value().and_then(|ty| match ty.ty {
                Type::AnyArray => Some(Type::AnyElement),
                Type::AnyCompatibleArray => Some(Type::AnyCompatible),
                ty => ty.element(),
            })
        });
        let given: Vec<&Argument> = routine.given().collect();
        rows.push([
            oid(routine.id),
            text(&routine.name),
            names.schema_number(&routine.schema).map_or(NULL, oid),
            oid(routine.owner),
            oid(language(routine).0),
            Datum::Float(routine.cost.unwrap_or_else(|| usual_cost(routine))),
            Datum::Float(if routine.set { routine.rows.unwrap_or(1000.0) } else { 0.0 }),
            oid(variadic.map_or(0, |ty| ty.oid())),
            oid(0),
            text(match routine.kind() {
                "procedure" => "p",
                "aggregate" => "a",
                _ => "f",
            }),
            flag(routine.security_definer),
            flag(routine.leakproof),
            flag(routine.strict),
            flag(routine.set),
            text(match routine.volatility {
                RoutineVolatility::Immutable => "i",
                RoutineVolatility::Stable => "s",
                RoutineVolatility::Volatile => "v",
            }),
            text(&routine.parallel.to_string()),
            int(given.len() as i64),
            int(defaults.len() as i64),
            oid(number_of(&names.catalog, &routine.result)),
            vector(Type::Oid, given.iter().map(|arg| oid(number_of(&names.catalog, &arg.ty)))),
            if has_modes {
                array(Type::Oid, routine.args.iter().map(|arg| oid(number_of(&names.catalog, &arg.ty))))
            } else {
                NULL
            },
            if has_modes { array(Type::InternalChar, routine.args.iter().map(|arg| letter(arg.mode))) } else { NULL },
            if has_names { array(Type::Text, routine.args.iter().map(|arg| text(&arg.name))) } else { NULL },
            if defaults.is_empty() { NULL } else { text(&defaults.join(", ")) },
            NULL,
            text(match (&routine.aggregate, routine.standard) {
                (Some(_), _) => "aggregate_dummy",
                (None, Some(_)) => "",
                (None, None) => &routine.body,
            }),
            library(names, routine).map_or(NULL, |library| text(&library)),
            standard_body(names, routine.id).map_or(NULL, |body| text(&body)),
            if routine.settings.is_empty() {
                NULL
            } else {
                array(Type::Text, routine.settings.iter().map(|(name, value)| text(&format!("{name}={value}"))))
            },
            acl(routine.acl.as_ref(), names),
        ])?;
    }
    Ok(())
}

/// PostgreSQL's bits of a trigger.
fn bits(trigger: &Trigger) -> i64 {
    let mut bits = i64::from(trigger.row);
    bits |= match trigger.timing {
        TriggerTime::Before => 2,
        TriggerTime::After => 0,
        TriggerTime::InsteadOf => 64,
    };
    for (event, bit) in [(Trigger::INSERT, 4), (Trigger::DELETE, 8), (Trigger::UPDATE, 16), (Trigger::TRUNCATE, 32)] {
        if trigger.events & event != 0 {
            bits |= bit;
        }
    }
    bits
}

fn triggers(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let of_tables = names.catalog.tables().flat_map(|table| table.triggers.iter().map(|one| (table.id, one)));
    let of_views = names.catalog.views().flat_map(|view| view.triggers.iter().map(|one| (view.id, one)));
    for (relation, trigger) in of_tables.chain(of_views) {
        let args: Vec<u8> = trigger.args.iter().flat_map(|arg| arg.bytes().chain([0])).collect();
        rows.push([
            oid(trigger.id),
            oid(relation),
            oid(trigger.parent.unwrap_or(0)),
            text(&trigger.name),
            oid(trigger.function),
            int(bits(trigger)),
            text(&trigger.enabled.to_string()),
            flag(false),
            oid(trigger.from.unwrap_or(0)),
            oid(0),
            oid(0),
            flag(trigger.deferral != colibri_catalog::Timing::Fixed),
            flag(trigger.deferral == colibri_catalog::Timing::Deferred),
            int(trigger.args.len() as i64),
            vector(Type::Int2, trigger.columns.iter().map(|&column| int(column as i64 + 1))),
            Datum::Bytes(args.into()),
            trigger.when.as_deref().map_or(NULL, text),
            trigger.old_table.as_deref().map_or(NULL, text),
            trigger.new_table.as_deref().map_or(NULL, text),
        ])?;
    }
    Ok(())
}

/// The statement that makes a trigger.
pub(crate) fn trigger_definition(names: &Surroundings, number: u32) -> Option<String> {
    let (schema, relation, triggers, table) = match names.catalog.table_with_part(number) {
        Some(table) => (&table.schema, &table.name, &table.triggers, Some(table)),
        None => {
            let view = names.catalog.view_with_trigger(number)?;
            (&view.schema, &view.name, &view.triggers, None)
        }
    };
    let trigger = triggers.iter().find(|trigger| trigger.id == number)?;
    let word = if trigger.is_constraint { "CONSTRAINT TRIGGER" } else { "TRIGGER" };
    let time = match trigger.timing {
        TriggerTime::Before => "BEFORE",
        TriggerTime::After => "AFTER",
        TriggerTime::InsteadOf => "INSTEAD OF",
    };
    let mut events = Vec::new();
    for (event, word) in [
        (Trigger::INSERT, "INSERT"),
        (Trigger::DELETE, "DELETE"),
        (Trigger::UPDATE, "UPDATE"),
        (Trigger::TRUNCATE, "TRUNCATE"),
    ] {
        if trigger.events & event == 0 {
            continue;
        }
        let columns: Vec<String> = trigger
            .columns
            .iter()
            .filter_map(|&column| Some(quote_identifier(&table?.columns.get(column)?.name)))
            .collect();
        match event {
            Trigger::UPDATE if !columns.is_empty() => events.push(format!("UPDATE OF {}", columns.join(", "))),
            _ => events.push(word.to_owned()),
        }
    }
    let mut out = format!(
        "CREATE {word} {} {time} {} ON {}.{} ",
        quote_identifier(&trigger.name),
        events.join(" OR "),
        quote_identifier(schema),
        quote_identifier(relation)
    );
    if trigger.is_constraint {
        out.push_str(match trigger.deferral {
            colibri_catalog::Timing::Fixed => "NOT DEFERRABLE INITIALLY IMMEDIATE ",
            colibri_catalog::Timing::Immediate => "DEFERRABLE INITIALLY IMMEDIATE ",
            colibri_catalog::Timing::Deferred => "DEFERRABLE INITIALLY DEFERRED ",
        });
    }
    if trigger.old_table.is_some() || trigger.new_table.is_some() {
        out.push_str("REFERENCING ");
        for (word, name) in [("OLD", &trigger.old_table), ("NEW", &trigger.new_table)] {
            if let Some(name) = name {
                out.push_str(&format!("{word} TABLE AS {} ", quote_identifier(name)));
            }
        }
    }
    out.push_str(if trigger.row { "FOR EACH ROW " } else { "FOR EACH STATEMENT " });
    if let Some(when) = &trigger.when {
        out.push_str(&format!("WHEN (({when})) "));
    }
    let args: Vec<String> = trigger.args.iter().map(|arg| literal(arg)).collect();
    out.push_str(&format!("EXECUTE FUNCTION {}({})", name(names, trigger.function)?, args.join(", ")));
    Some(out)
}
