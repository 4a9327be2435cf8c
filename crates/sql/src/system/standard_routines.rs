//! `information_schema.routines` and `parameters`: the functions and procedures that users have
//! defined, as the standard describes them. What is built in is not listed, as `pg_proc` has that.

use std::sync::Arc;

use colibri_catalog::cluster::{Authority, ObjectKind, Privileges};
use colibri_catalog::{ArgumentMode, Routine, RoutineLanguage, RoutineType, RoutineVolatility};
use colibri_types::{Datum, Env, Result, Type};

use super::{Fill, NULL, Rows, int, routines, text, yes_or_no};
use crate::surroundings::{Names as _, Surroundings};

pub(super) const FILLS: &[(&str, Fill)] = &[("routines", all_routines), ("parameters", parameters)];

/// The columns of `routines` and of `parameters`.
const ROUTINE_COLUMNS: usize = 82;
const PARAMETER_COLUMNS: usize = 32;

fn database(env: &Env) -> Datum {
    Datum::Text(env.database.clone())
}

/// Those that the user may call, in the order of their numbers.
fn seen(names: &Surroundings) -> Vec<Arc<Routine>> {
    let authority = names.authority.clone().unwrap_or_else(|| Arc::new(Authority::superuser()));
    let may = |routine: &&Arc<Routine>| {
        authority.may(Privileges::EXECUTE, ObjectKind::Function, routine.owner, routine.acl.as_ref())
    };
    let mut found: Vec<Arc<Routine>> = names.catalog.routines().filter(may).cloned().collect();
    found.sort_by_key(|routine| routine.id);
    found
}

/// The standard's name of a type, and its schema and name in the catalogue.
fn described(names: &Surroundings, ty: &RoutineType) -> [Datum; 3] {
    let of_user = |schema: &str, name: &str| [text("USER-DEFINED"), text(schema), text(name)];
    match ty {
        RoutineType::Trigger => [text("trigger"), text("pg_catalog"), text("trigger")],
        RoutineType::Nothing => [text("void"), text("pg_catalog"), text("void")],
        RoutineType::RowOf(relation) => {
            let catalog = &names.catalog;
            if let Some(table) = catalog.table(*relation) {
                return of_user(&table.schema, &table.name);
            }
            if let Some(view) = catalog.view(*relation) {
                return of_user(&view.schema, &view.name);
            }
            match catalog.composite_of_relation(*relation) {
                Some(ty) => of_user(&ty.schema, &ty.name),
                None => [text("record"), text("pg_catalog"), text("record")],
            }
        }
        RoutineType::Value(ty) => match names.catalog.user_type_of(ty.oid()) {
            Some((found, true)) => [text("ARRAY"), text(&found.schema), text(&found.array_name())],
            Some((found, false)) => of_user(&found.schema, &found.name),
            None if matches!(ty.ty, Type::Array(_)) => [text("ARRAY"), text("pg_catalog"), text(ty.ty.inner_name())],
            None => [text(ty.ty.sql_name()), text("pg_catalog"), text(ty.ty.inner_name())],
        },
    }
}

fn specific_name(routine: &Routine) -> Datum {
    text(&format!("{}_{}", routine.name, routine.id))
}

fn all_routines(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for routine in seen(names) {
        let mut row = [const { Datum::Null }; ROUTINE_COLUMNS];
        let is_function = !routine.is_procedure;
        for (place, value) in [(0, database(env)), (1, text(&routine.schema)), (2, specific_name(&routine))] {
            row[place] = value.clone();
            row[place + 3] = if place == 2 { text(&routine.name) } else { value };
        }
        row[6] = match (routine.aggregate.is_some(), is_function) {
            (true, _) => NULL,
            (false, true) => text("FUNCTION"),
            (false, false) => text("PROCEDURE"),
        };
        if is_function {
            let [name, schema, inner] = described(names, &routine.result);
            row[13] = name;
            (row[28], row[29], row[30]) = (database(env), schema, inner);
            row[35] = text("0");
            row[43] = yes_or_no(routine.strict);
            row[53] = text("NO");
        }
        let is_sql = routine.language == RoutineLanguage::Sql && routine.aggregate.is_none();
        row[36] = text(if is_sql { "SQL" } else { "EXTERNAL" });
        row[37] = if routine.standard.is_some() { NULL } else { text(&routine.body) };
        row[39] = text(match routine.language {
            _ if routine.aggregate.is_some() => "INTERNAL",
            RoutineLanguage::Sql => "SQL",
            RoutineLanguage::PlPgSql => "PLPGSQL",
            RoutineLanguage::C => "C",
        });
        row[40] = text("GENERAL");
        row[41] = yes_or_no(routine.volatility == RoutineVolatility::Immutable);
        row[42] = text("MODIFIES");
        row[45] = text("YES");
        row[46] = int(0);
        row[49] = text(if routine.security_definer { "DEFINER" } else { "INVOKER" });
        row[57] = text("NO");
        rows.push(row)?;
    }
    Ok(())
}

fn parameters(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for routine in seen(names) {
        for (at, arg) in routine.args.iter().enumerate() {
            let mut row = [const { Datum::Null }; PARAMETER_COLUMNS];
            (row[0], row[1], row[2]) = (database(env), text(&routine.schema), specific_name(&routine));
            row[3] = int((at + 1) as i64);
            row[4] = text(match arg.mode {
                ArgumentMode::In | ArgumentMode::Variadic => "IN",
                ArgumentMode::Out | ArgumentMode::Table => "OUT",
                ArgumentMode::InOut => "INOUT",
            });
            (row[5], row[6]) = (text("NO"), text("NO"));
            row[7] = if arg.name.is_empty() { NULL } else { text(&arg.name) };
            let [name, schema, inner] = described(names, &arg.ty);
            row[8] = name;
            (row[23], row[24], row[25]) = (database(env), schema, inner);
            row[30] = text(&(at + 1).to_string());
            row[31] = routines::default_shown(arg).map_or(NULL, text);
            rows.push(row)?;
        }
    }
    Ok(())
}
