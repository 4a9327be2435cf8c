//! `pg_describe_object`: what an object is called in messages; and `makeaclitem`.

use colibri_catalog::cluster::{PUBLIC_ROLE, Privileges, quoted_role};
use colibri_catalog::{ObjectId, Relation, Table};
use colibri_types::functions::{Function, f, int, text};
use colibri_types::tokens::CLASSES;
use colibri_types::{
    Datum, Env, Error, Result, SqlState, Type,
    Type::{AclItem, Bool, Int4, Oid, RegOperator, RegProcedure, RegType, Text},
    text_io,
};

use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;
use crate::system::names::{Found, quoted};
use crate::system::{relations, types};

/// The numbers of system tables, as PostgreSQL has them.
const PG_AUTHID: u32 = 1260;
const PG_DATABASE: u32 = 1262;
const PG_CAST: u32 = 2605;
const PG_LANGUAGE: u32 = 2612;
const PG_OPCLASS: u32 = 2616;
const PG_REWRITE: u32 = 2618;
const PG_OPFAMILY: u32 = 2753;
const PG_POLICY: u32 = 3256;
const PG_COLLATION: u32 = 3456;

fn named(what: &str, ty: Type, id: ObjectId, env: &Env) -> Option<String> {
    let text = text_io::written(ty, &Datum::Int(id.into()), env).ok()?;
    // What has no name is written as its number.
    let has_name = !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    has_name.then(|| format!("{what} {text}"))
}

fn relation(names: &Surroundings, id: ObjectId) -> Option<String> {
    if let Some(composite) = names.catalog.composite_of_relation(id) {
        return Some(format!("composite type {}", quoted(&composite.name)));
    }
    let kind = match names.relation(id)? {
        Found::System(_) => "table",
        Found::User { relation, .. } => match relation {
            Relation::Table(table) if table.materialized.is_some() => "materialized view",
            Relation::Table(_) => "table",
            Relation::Index(..) | Relation::PrimaryKey(_) => "index",
            Relation::Sequence(_) => "sequence",
            Relation::View(_) => "view",
        },
    };
    Some(format!("{kind} {}", names.relation_name(id)?))
}

fn column(names: &Surroundings, id: ObjectId, part: i64) -> Option<String> {
    let name = usize::try_from(part - 1).ok().and_then(|at| names.columns_of(id)?.into_iter().nth(at))??;
    Some(format!("column {} of {}", quoted(&name), relation(names, id)?))
}

/// The table with a part that is meant.
fn of_table<T>(names: &Surroundings, id: ObjectId, part: impl Fn(&Table) -> Option<T>) -> Option<(ObjectId, T)> {
    let table = names.catalog.table_with_part(id)?;
    Some((table.id, part(table)?))
}

fn constraint(names: &Surroundings, id: ObjectId) -> Option<String> {
    let (table, name) = of_table(names, id, |table| {
        let indexes = relations::table_indexes(table).into_iter().filter(|index| index.constraint);
        let of_indexes = indexes.map(|index| (index.id, index.name.clone()));
        let checks = table.checks.iter().map(|check| (check.id, check.name.clone()));
        let keys = table.foreign_keys.iter().map(|key| (key.id, key.name.clone()));
        of_indexes.chain(checks).chain(keys).find(|(number, _)| *number == id).map(|(_, name)| name)
    })?;
    Some(format!("constraint {} on {}", quoted(&name), relation(names, table)?))
}

fn trigger(names: &Surroundings, id: ObjectId) -> Option<String> {
    let (on, triggers) = match names.catalog.table_with_part(id) {
        Some(table) => (table.id, &table.triggers),
        None => names.catalog.view_with_trigger(id).map(|view| (view.id, &view.triggers))?,
    };
    let trigger = triggers.iter().find(|trigger| trigger.id == id)?;
    Some(format!("trigger {} on {}", quoted(&trigger.name), relation(names, on)?))
}

fn default_value(names: &Surroundings, id: ObjectId) -> Option<String> {
    let (table, at) = names.catalog.tables().find_map(|table| {
        let mut with_default =
            table.live_columns().filter(|(_, column)| column.default.is_some() || column.generated.is_some());
        let (at, _) = with_default.find(|(at, _)| relations::default_number(table.id, *at) == id)?;
        Some((table.id, at))
    })?;
    Some(format!("default value for {}", column(names, table, at as i64 + 1)?))
}

fn operator_class(id: ObjectId, is_family: bool) -> Option<String> {
    let (name, method) = CLASSES
        .iter()
        .find(|class| class.numbers[usize::from(is_family)] == id)
        .map(|class| (class.name, class.method))
        .or_else(|| types::ordered_class(id, is_family).map(|name| (name, "btree")))?;
    let what = if is_family { "operator family" } else { "operator class" };
    Some(format!("{what} {name} for access method {method}"))
}

fn cast(names: &Surroundings, id: ObjectId, env: &Env) -> Option<String> {
    let cast = names.catalog.casts().find(|cast| cast.id == id)?;
    let shown = |number: ObjectId| text_io::written(RegType, &Datum::Int(number.into()), env).ok();
    Some(format!("cast from {} to {}", shown(cast.from)?, shown(cast.to)?))
}

fn described(class: u32, id: ObjectId, part: i64, env: &Env) -> Option<String> {
    let names = env.names();
    match class {
        relations::PG_CLASS if part != 0 => column(names, id, part),
        relations::PG_CLASS => relation(names, id),
        relations::PG_PROC => named("function", RegProcedure, id, env),
        relations::PG_TYPE => named("type", RegType, id, env),
        relations::PG_OPERATOR => named("operator", RegOperator, id, env),
        relations::PG_NAMESPACE => Some(format!("schema {}", quoted(&names.schema_name(id)?))),
        relations::PG_EXTENSION if id == crate::system::extensions::PLPGSQL_NUMBER => Some("extension plpgsql".into()),
        relations::PG_EXTENSION => {
            let found = names.catalog.extensions().find(|known| known.id == id)?;
            Some(format!("extension {}", quoted(&found.name)))
        }
        PG_LANGUAGE => {
            let (_, name, _) = types::LANGUAGES.iter().find(|(number, ..)| *number == id)?;
            Some(format!("language {name}"))
        }
        PG_OPCLASS | PG_OPFAMILY => operator_class(id, class == PG_OPFAMILY),
        PG_CAST => cast(names, id, env),
        relations::PG_CONSTRAINT => constraint(names, id),
        relations::PG_TRIGGER => trigger(names, id),
        relations::PG_ATTRDEF => default_value(names, id),
        PG_POLICY => {
            let (table, name) = of_table(names, id, |table| {
                table.security.policies.iter().find(|policy| policy.id == id).map(|policy| policy.name.clone())
            })?;
            Some(format!("policy {} on {}", quoted(&name), relation(names, table)?))
        }
        PG_COLLATION => {
            let found = names.catalog.collations().find(|collation| collation.id == id)?;
            Some(format!("collation {}", quoted(&found.name)))
        }
        PG_REWRITE => match names.catalog.rules().find(|rule| rule.id == id) {
            Some(rule) => Some(format!("rule {} on {}", quoted(&rule.name), relation(names, rule.relation)?)),
            None => Some(format!("rule _RETURN on {}", relation(names, names.catalog.view(id)?.id)?)),
        },
        PG_AUTHID => names.roles().get(id).map(|role| format!("role {}", quoted(&role.name))),
        PG_DATABASE => {
            let found = names.databases().into_iter().find(|database| database.oid == id)?;
            Some(format!("database {}", quoted(&found.name)))
        }
        _ => None,
    }
}

fn describe(args: &[&Datum], env: &Env) -> Result<Datum> {
    let described = described(int(args[0])? as u32, int(args[1])? as u32, int(args[2])?, env);
    Ok(described.map_or(Datum::Null, |text| Datum::text(&text)))
}

/// `makeaclitem(grantee, grantor, privileges, grantable)`
fn acl_item(args: &[&Datum], env: &Env) -> Result<Datum> {
    let roles = env.names().roles();
    let (grantee, grantor) = (int(args[0])? as u32, int(args[1])? as u32);
    let may_give = matches!(args[3], Datum::Bool(true));
    let name = text(args[2])?;
    let wanted = Privileges::named(name)
        .ok_or_else(|| Error::new(SqlState::BAD_PARAMETER, format!("unrecognized privilege type: \"{name}\"")))?;
    let mut item = if grantee == PUBLIC_ROLE { String::new() } else { quoted_role(&roles.name_of(grantee)) };
    item.push('=');
    for letter in wanted.letters() {
        item.push(letter);
        if may_give {
            item.push('*');
        }
    }
    item.push('/');
    item.push_str(&quoted_role(&roles.name_of(grantor)));
    Ok(Datum::text(&item))
}

pub(super) const TABLE: &[Function] = &[
    f("pg_describe_object", &[Oid, Oid, Int4], Text, describe).stable(),
    f("makeaclitem", &[Oid, Oid, Text, Bool], AclItem, acl_item).stable(),
];
