//! `information_schema`, as the standard defines it: objects on which the user has some privilege.

use std::sync::Arc;

use colibri_catalog::CheckOption;
use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{
    Column, Domain, Identity, ReferenceAction, Table, Trigger, TriggerTime, UserType, View,
    cluster::{Acl, Authority, ObjectKind, PUBLIC_ROLE, Privileges, RoleId},
};
use colibri_types::{Category, ColumnType, Datum, Env, Result, Type, pulse};
use compact_str::CompactString;

use super::relations::{
    AnyIndex, all_schemas, referenced_index, sorted_sequences, sorted_tables, sorted_views, table_indexes,
    wanted_system_tables, wanted_tables, wanted_views,
};
use super::{Fill, NULL, Rows, describe, int, text, text_or_null, yes_or_no};
use crate::bind::Writing;
use crate::bind::stored::is_of_identity;
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

pub(super) const FILLS: &[(&str, Fill)] = &[
    ("information_schema_catalog_name", catalog_name),
    ("schemata", schemata),
    ("tables", tables),
    ("columns", columns),
    ("views", views),
    ("triggers", triggers),
    ("sequences", sequences),
    ("table_constraints", table_constraints),
    ("key_column_usage", key_columns),
    ("referential_constraints", references),
    ("constraint_column_usage", constraint_columns),
    ("constraint_table_usage", constraint_tables),
    ("check_constraints", checks),
    ("domains", domains),
    ("domain_constraints", domain_constraints),
    ("domain_udt_usage", domain_types),
    ("column_domain_usage", domain_columns),
    ("table_privileges", table_privileges),
    ("role_table_grants", table_privileges),
    ("view_table_usage", view_tables),
    ("enabled_roles", enabled_roles),
    ("applicable_roles", applicable_roles),
];

fn database(env: &Env) -> Datum {
    Datum::Text(env.database.clone())
}

fn authority(names: &Surroundings) -> Arc<Authority> {
    names.authority.clone().unwrap_or_else(|| Arc::new(Authority::superuser()))
}

/// Whether the user owns something or was granted anything on it.
fn sees(names: &Surroundings, owner: RoleId, acl: Option<&Acl>) -> bool {
    let authority = authority(names);
    authority.has_role(owner) || !authority.privileges(ObjectKind::Table, owner, acl).is_empty()
}

fn seen_tables(names: &Surroundings, rows: &Rows) -> Vec<Arc<Table>> {
    let mut tables = wanted_tables(names, rows);
    // The standard knows no materialized views.
    tables.retain(|table| table.materialized.is_none() && sees(names, table.owner, table.acl.as_ref()));
    tables
}

fn seen_views(names: &Surroundings, rows: &Rows) -> Vec<Arc<View>> {
    let mut views = wanted_views(names, rows);
    views.retain(|view| sees(names, view.owner, view.acl.as_ref()));
    views
}

fn catalog_name(env: &Env, rows: &mut Rows) -> Result<()> {
    rows.push([database(env)])?;
    Ok(())
}

fn schemata(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let authority = authority(names);
    for schema in all_schemas(names) {
        let privileges = authority.privileges(ObjectKind::Schema, schema.owner, schema.acl.as_ref());
        if authority.has_role(schema.owner) || !privileges.is_empty() {
            let owner = text(&names.roles().name_of(schema.owner));
            rows.push([database(env), text(&schema.name), owner, NULL, NULL, NULL, NULL])?;
        }
    }
    Ok(())
}

fn tables(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let of_system = wanted_system_tables(rows);
    let (tables, views) = (seen_tables(names, rows), seen_views(names, rows));
    let mut push = |schema: &str, name: &str, kind: &str, writable: bool| {
        rows.push([
            database(env),
            text(schema),
            text(name),
            text(kind),
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            yes_or_no(writable),
            text("NO"),
            NULL,
        ])
    };
    for table in of_system {
        push(table.schema, table.name, if table.is_view { "VIEW" } else { "BASE TABLE" }, false)?;
    }
    for table in tables {
        let kind = if is_temporary(table.id) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        push(&table.schema, &table.name, kind, true)?;
    }
    for view in views {
        let writable = describe::view_target(env, &view, Writing::Insert).is_some();
        push(&view.schema, &view.name, "VIEW", writable)?;
    }
    Ok(())
}

/// The schema of a type that a user has defined.
fn schema_of_type(env: &Env, ty: Type) -> Option<CompactString> {
    let found = env.names().catalog.user_type(ty.of_user()?.oid())?;
    Some(found.schema.clone())
}

fn type_schema(env: &Env, ty: Type) -> CompactString {
    schema_of_type(env, ty).unwrap_or_else(|| "pg_catalog".into())
}

/// Schema and name of the type of arrays of a domain.
fn of_arrays_of_domain(env: &Env, ty: ColumnType) -> Option<(CompactString, CompactString)> {
    let found = env.names().catalog.domain_of(ty).filter(|found| found.array == ty.oid())?;
    Some((found.schema.clone(), found.array_name()))
}

/// What the standard calls a type that a user has defined.
const USER_DEFINED: &str = "USER-DEFINED";

/// The name of a type in the standard's words.
fn data_type(ty: Type) -> &'static str {
    match ty {
        Type::Array(_) | Type::Int2Vector | Type::OidVector => "ARRAY",
        Type::Enum(_) | Type::Composite(_) => USER_DEFINED,
        other => other.sql_name(),
    }
}

/// A column as `information_schema.columns` has it.
struct Described<'a> {
    schema: &'a str,
    relation: &'a str,
    name: &'a str,
    number: usize,
    ty: ColumnType,
    default: Option<String>,
    not_null: bool,
    identity: Option<(Identity, [Datum; 5])>,
    /// What it is computed of.
    generated: Option<String>,
    writable: bool,
}

/// Digits, their base, and digits of the fraction.
fn numeric_shape(ty: ColumnType) -> [Datum; 3] {
    match ty.ty {
        Type::Int2 => [int(16), int(2), int(0)],
        Type::Int4 => [int(32), int(2), int(0)],
        Type::Int8 => [int(64), int(2), int(0)],
        Type::Float4 => [int(24), int(2), NULL],
        Type::Float8 => [int(53), int(2), NULL],
        Type::Numeric => match ty.modifier.precision_scale() {
            // As PostgreSQL 15 has it, the scale without its sign.
            Some((precision, scale)) => [int(precision), int(10), int(scale & 0x7ff)],
            None => [NULL, int(10), NULL],
        },
        _ => [NULL, NULL, NULL],
    }
}

/// What the views say of a type's size.
struct Shape {
    /// Characters or bits, at most.
    length: Datum,
    octets: Datum,
    /// As [`numeric_shape`] gives them.
    numeric: [Datum; 3],
    /// Digits of a second's fraction.
    fraction: Datum,
    /// The fields of an interval.
    interval: Datum,
}

impl Shape {
    fn of(ty: ColumnType) -> Self {
        let is_text = matches!(ty.ty, Type::Char | Type::Varchar | Type::Text);
        let length = match ty.ty {
            Type::Char | Type::Varchar => ty.modifier.chars_max(),
            Type::Bit | Type::VarBit => usize::try_from(ty.modifier.0).ok(),
            _ => None,
        };
        let octets = match length {
            Some(_) if !is_text => NULL,
            Some(length) => int(length as i64 * 4),
            None if is_text => int(1 << 30),
            None => NULL,
        };
        let fraction = match ty.ty {
            Type::Date => int(0),
            Type::Interval => int(ty.modifier.interval_parts().1.unwrap_or(6)),
            _ if matches!(ty.ty.category(), Category::DateTime | Category::TimeSpan) => {
                int(ty.modifier.fraction_digits().unwrap_or(6))
            }
            _ => NULL,
        };
        // What its type says behind `interval`, but for digits alone.
        let shown = ty.to_string().to_ascii_uppercase();
        let interval = match shown.strip_prefix("INTERVAL ").filter(|_| ty.ty == Type::Interval) {
            Some(fields) => text(fields),
            None => NULL,
        };
        let length = length.map_or(NULL, |length| int(length as i64));
        Self { length, octets, numeric: numeric_shape(ty), fraction, interval }
    }

    /// Of a column or a domain; nothing of what is a domain over another one.
    fn unless_over_domain(ty: ColumnType, is_over_domain: bool) -> Self {
        Self::of(if is_over_domain { Type::Bool.into() } else { ty })
    }
}

impl Described<'_> {
    fn push(self, env: &Env, rows: &mut Rows) -> Result<()> {
        let ty = self.ty.ty;
        let domain = env.names().catalog.domain_of(self.ty).filter(|ty| ty.id == self.ty.oid());
        // Of a domain over another one the latter is told, and nothing of what that is over.
        let over = domain.and_then(|ty| env.names().catalog.domain_of(ty.domain()?.base));
        let Shape { length, octets, numeric: [precision, radix, scale], fraction, interval } =
            Shape::unless_over_domain(self.ty.base(), over.is_some());
        let (is_identity, generation, [start, increment, maximum, minimum, cycle]) = match self.identity {
            None => ("NO", NULL, [NULL, NULL, NULL, NULL, text("NO")]),
            Some((Identity::Always, options)) => ("YES", text("ALWAYS"), options),
            Some((Identity::ByDefault, options)) => ("YES", text("BY DEFAULT"), options),
        };
        let number = self.number.to_string();
        let of_domain = over.map(|over| (over.schema.clone(), over.name.clone()));
        let of_type = of_domain.or_else(|| of_arrays_of_domain(env, self.ty));
        let no_null = self.not_null || domain.and_then(|ty| ty.domain()).is_some_and(|domain| domain.not_null);
        rows.push([
            database(env),
            text(self.schema),
            text(self.relation),
            text(self.name),
            int(self.number as i64),
            text_or_null(self.default.as_deref()),
            yes_or_no(!no_null),
            text(if over.is_some() { USER_DEFINED } else { data_type(ty) }),
            length,
            octets,
            precision,
            radix,
            scale,
            fraction,
            interval,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            domain.as_ref().map_or(NULL, |_| database(env)),
            domain.as_ref().map_or(NULL, |ty| text(&ty.schema)),
            domain.as_ref().map_or(NULL, |ty| text(&ty.name)),
            database(env),
            text(of_type.as_ref().map_or_else(|| type_schema(env, ty), |of| of.0.clone()).as_str()),
            text(of_type.as_ref().map_or_else(|| ty.inner_name().into(), |of| of.1.clone()).as_str()),
            NULL,
            NULL,
            NULL,
            NULL,
            text(&number),
            text("NO"),
            text(is_identity),
            generation,
            start,
            increment,
            maximum,
            minimum,
            cycle,
            text(if self.generated.is_some() { "ALWAYS" } else { "NEVER" }),
            text_or_null(self.generated.as_deref()),
            yes_or_no(self.writable),
        ])
    }
}

fn identity_of(names: &Surroundings, table: &Table, place: usize, column: &Column) -> Option<(Identity, [Datum; 5])> {
    let identity = column.identity?;
    let sequence = names
        .catalog
        .sequences()
        .inspect(|_| pulse::look())
        .find(|sequence| sequence.owned_by == Some((table.id, place)) && is_of_identity(table, sequence))?;
    let number = |value: i64| text(&value.to_string());
    let options = [
        number(sequence.start),
        number(sequence.increment),
        number(sequence.max),
        number(sequence.min),
        yes_or_no(sequence.cycle),
    ];
    Some((identity, options))
}

fn columns(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in wanted_system_tables(rows) {
        for (at, (name, ty)) in table.columns.iter().enumerate() {
            let described = Described {
                schema: table.schema,
                relation: table.name,
                name,
                number: at + 1,
                ty: (*ty).into(),
                default: None,
                not_null: false,
                identity: None,
                generated: None,
                writable: false,
            };
            described.push(env, rows)?;
        }
    }
    for table in seen_tables(names, rows) {
        for (at, column) in table.live_columns() {
            let default = column.default.as_ref().filter(|_| column.identity.is_none());
            let described = Described {
                schema: &table.schema,
                relation: &table.name,
                name: &column.name,
                number: at + 1,
                ty: column.ty,
                default: default.map(|default| describe::default_expression(env, default, column.ty)),
                not_null: column.not_null,
                identity: identity_of(names, &table, at, column),
                generated: column.generated.as_ref().map(|generated| format!("({})", describe::bare(generated))),
                writable: true,
            };
            described.push(env, rows)?;
        }
    }
    for view in seen_views(names, rows) {
        let types = describe::view_types(env, &view);
        let target = describe::view_target(env, &view, Writing::Update);
        for (at, (name, ty)) in view.columns.iter().zip(types).enumerate() {
            let described = Described {
                schema: &view.schema,
                relation: &view.name,
                name,
                number: at + 1,
                ty,
                default: view.defaults.get(&at).map(|default| describe::default_expression(env, default, ty)),
                not_null: false,
                identity: None,
                generated: None,
                writable: target.as_ref().is_some_and(|target| target.place(at).is_some()),
            };
            described.push(env, rows)?;
        }
    }
    Ok(())
}

fn views(env: &Env, rows: &mut Rows) -> Result<()> {
    for view in seen_views(env.names(), rows) {
        let writable = |writing| describe::view_target(env, &view, writing).is_some();
        let check_option = match view.check_option {
            None => "NONE",
            Some(CheckOption::Local) => "LOCAL",
            Some(CheckOption::Cascaded) => "CASCADED",
        };
        rows.push([
            database(env),
            text(&view.schema),
            text(&view.name),
            text(&describe::view_definition(&view)),
            text(check_option),
            yes_or_no(writable(Writing::Update)),
            yes_or_no(writable(Writing::Insert)),
            yes_or_no(has_instead(&view, Trigger::UPDATE)),
            yes_or_no(has_instead(&view, Trigger::DELETE)),
            yes_or_no(has_instead(&view, Trigger::INSERT)),
        ])?;
    }
    Ok(())
}

fn has_instead(view: &View, event: u8) -> bool {
    view.triggers.iter().any(|trigger| trigger.timing == TriggerTime::InsteadOf && trigger.events & event != 0)
}

fn triggers(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let mut owners: Vec<(CompactString, CompactString, Vec<Arc<Trigger>>)> = Vec::new();
    for table in sorted_tables(names).iter().filter(|table| sees(names, table.owner, table.acl.as_ref())) {
        owners.push((table.schema.clone(), table.name.clone(), table.triggers.clone()));
    }
    for view in seen_views(names, rows) {
        owners.push((view.schema.clone(), view.name.clone(), view.triggers.clone()));
    }
    for (schema, relation, triggers) in &owners {
        pulse::look();
        for (event, word) in [(Trigger::INSERT, "INSERT"), (Trigger::DELETE, "DELETE"), (Trigger::UPDATE, "UPDATE")] {
            for trigger in triggers.iter().filter(|trigger| trigger.events & event != 0) {
                let is_beside = |other: &&Arc<Trigger>| {
                    other.events & event != 0
                        && (other.row, other.timing) == (trigger.row, trigger.timing)
                        && other.name < trigger.name
                };
                let definition = super::routines::trigger_definition(names, trigger.id).unwrap_or_default();
                let statement = definition.rfind("EXECUTE FUNCTION ").map_or("", |at| &definition[at..]);
                rows.push([
                    database(env),
                    text(schema),
                    text(&trigger.name),
                    text(word),
                    database(env),
                    text(schema),
                    text(relation),
                    int(1 + triggers.iter().filter(is_beside).count() as i64),
                    trigger.when.as_deref().map_or(NULL, |when| text(&format!("({when})"))),
                    text(statement),
                    text(if trigger.row { "ROW" } else { "STATEMENT" }),
                    text(match trigger.timing {
                        TriggerTime::Before => "BEFORE",
                        TriggerTime::After => "AFTER",
                        TriggerTime::InsteadOf => "INSTEAD OF",
                    }),
                    trigger.old_table.as_deref().map_or(NULL, text),
                    trigger.new_table.as_deref().map_or(NULL, text),
                    NULL,
                    NULL,
                    NULL,
                ])?;
            }
        }
    }
    Ok(())
}

fn sequences(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for sequence in sorted_sequences(names) {
        let table = sequence.owned_by.and_then(|(table, _)| names.table(table));
        let identity = table.is_some_and(|table| is_of_identity(table, &sequence));
        if identity || !sees(names, sequence.owner, sequence.acl.as_ref()) {
            continue;
        }
        let [precision, radix, scale] = numeric_shape(sequence.ty().into());
        let number = |value: i64| text(&value.to_string());
        rows.push([
            database(env),
            text(&sequence.schema),
            text(&sequence.name),
            text(sequence.ty().sql_name()),
            precision,
            radix,
            scale,
            number(sequence.start),
            number(sequence.min),
            number(sequence.max),
            number(sequence.increment),
            yes_or_no(sequence.cycle),
        ])?;
    }
    Ok(())
}

// ---- constraints ----

fn constraint_indexes(table: &Table) -> impl Iterator<Item = AnyIndex> {
    table_indexes(table).into_iter().filter(|index| index.constraint && index.exclusion.is_empty())
}

fn table_constraints(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in seen_tables(env.names(), rows) {
        let mut push = |name: &str, kind: &str| {
            rows.push([
                database(env),
                text(&table.schema),
                text(name),
                database(env),
                text(&table.schema),
                text(&table.name),
                text(kind),
                text("NO"),
                text("NO"),
                text("YES"),
                if kind == "UNIQUE" { text("YES") } else { NULL },
            ])
        };
        for index in constraint_indexes(&table) {
            push(&index.name, if index.primary { "PRIMARY KEY" } else { "UNIQUE" })?;
        }
        table.checks.iter().try_for_each(|check| push(&check.name, "CHECK"))?;
        table.foreign_keys.iter().try_for_each(|key| push(&key.name, "FOREIGN KEY"))?;
        // As PostgreSQL does, NOT NULL counts as a check with a name made of numbers.
        for (at, _) in table.live_columns().filter(|(_, column)| column.not_null) {
            push(&not_null_name(&table, at), "CHECK")?;
        }
    }
    Ok(())
}

fn not_null_name(table: &Table, column: usize) -> CompactString {
    compact_str::format_compact!("{}_{}_{}_not_null", colibri_catalog::PUBLIC_SCHEMA, table.id, column + 1)
}

fn key_columns(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in seen_tables(names, rows) {
        let mut push = |name: &str, column: usize, number: usize, of_target: Option<usize>| {
            rows.push([
                database(env),
                text(&table.schema),
                text(name),
                database(env),
                text(&table.schema),
                text(&table.name),
                text(&table.columns[column].name),
                int(number as i64 + 1),
                of_target.map_or(NULL, |place| int(place as i64 + 1)),
            ])
        };
        for index in constraint_indexes(&table) {
            for (number, part) in index.columns.iter().enumerate() {
                push(&index.name, part.column, number, None)?;
            }
        }
        for key in &table.foreign_keys {
            let target = referenced_index(names, key);
            for (number, (&column, target_column)) in key.columns.iter().zip(&key.target_columns).enumerate() {
                let place = |index: &AnyIndex| index.columns.iter().position(|part| part.column == *target_column);
                push(&key.name, column, number, target.as_ref().and_then(place))?;
            }
        }
    }
    Ok(())
}

fn rule(action: ReferenceAction) -> Datum {
    text(match action {
        ReferenceAction::NoAction => "NO ACTION",
        ReferenceAction::Restrict => "RESTRICT",
        ReferenceAction::Cascade => "CASCADE",
        ReferenceAction::SetNull => "SET NULL",
        ReferenceAction::SetDefault => "SET DEFAULT",
    })
}

fn references(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in seen_tables(names, rows) {
        for key in &table.foreign_keys {
            let Some(target) = names.table(key.target) else { continue };
            let unique = referenced_index(names, key).filter(|index| index.constraint);
            let of_unique = |value: Datum| if unique.is_some() { value } else { NULL };
            rows.push([
                database(env),
                text(&table.schema),
                text(&key.name),
                of_unique(database(env)),
                of_unique(text(&target.schema)),
                text_or_null(unique.as_ref().map(|index| index.name.as_str())),
                text(if key.match_full { "FULL" } else { "NONE" }),
                rule(key.on_update),
                rule(key.on_delete),
            ])?;
        }
    }
    Ok(())
}

/// For each constraint of the tables that the user owns: what it is called, and the columns that it
/// is about.
fn uses(names: &Surroundings) -> Vec<(Arc<Table>, CompactString, CompactString, Vec<usize>)> {
    let mut uses = Vec::new();
    let authority = authority(names);
    for table in sorted_tables(names) {
        for index in constraint_indexes(&table) {
            let columns = index.columns.iter().map(|part| part.column).collect();
            uses.push((Arc::clone(&table), table.schema.clone(), index.name, columns));
        }
        for check in &table.checks {
            let columns = describe::columns_in(&check.condition, &table);
            uses.push((Arc::clone(&table), table.schema.clone(), check.name.clone(), columns));
        }
        for key in &table.foreign_keys {
            if let Some(target) = names.table(key.target) {
                uses.push((Arc::clone(target), table.schema.clone(), key.name.clone(), key.target_columns.clone()));
            }
        }
    }
    uses.retain(|(table, ..)| authority.has_role(table.owner));
    uses
}

fn constraint_columns(env: &Env, rows: &mut Rows) -> Result<()> {
    for (table, schema, name, columns) in uses(env.names()) {
        for column in columns {
            rows.push([
                database(env),
                text(&table.schema),
                text(&table.name),
                text(&table.columns[column].name),
                database(env),
                text(&schema),
                text(&name),
            ])?;
        }
    }
    Ok(())
}

fn constraint_tables(env: &Env, rows: &mut Rows) -> Result<()> {
    for (table, schema, name, _) in uses(env.names()) {
        let row = [database(env), text(&table.schema), text(&table.name), database(env), text(&schema), text(&name)];
        rows.push(row)?;
    }
    Ok(())
}

/// The domains that the user owns, or that everybody may use: all of them.
fn domains_of(names: &Surroundings) -> impl Iterator<Item = (&Arc<UserType>, &Domain)> {
    names.catalog.types().filter_map(|ty| Some((ty, ty.domain()?)))
}

fn domains(env: &Env, rows: &mut Rows) -> Result<()> {
    for (ty, domain) in domains_of(env.names()) {
        let base = domain.base.ty;
        let Shape { length, octets, numeric: [precision, radix, scale], fraction, interval } =
            Shape::unless_over_domain(domain.base, domain.base.domain.is_some());
        let default = domain.default.as_ref().map(|default| describe::default_expression(env, default, domain.base));
        let is_over_domain = domain.base.domain.is_some();
        let data_type = match base {
            _ if is_over_domain => USER_DEFINED,
            Type::Array(_) => base.sql_name(),
            other => data_type(other),
        };
        let collation = domain.collation.as_deref();
        let of_base = env.names().catalog.domain_of(domain.base);
        rows.push([
            database(env),
            text(&ty.schema),
            text(&ty.name),
            text(data_type),
            length,
            octets,
            NULL,
            NULL,
            NULL,
            collation.map_or(NULL, |_| database(env)),
            collation.map_or(NULL, |_| text("pg_catalog")),
            text_or_null(collation.map(colibri_plan::logical::bare_collation).as_deref()),
            precision,
            radix,
            scale,
            fraction,
            interval,
            NULL,
            text_or_null(default.as_deref()),
            database(env),
            text(of_base.map_or_else(|| type_schema(env, base), |of| of.schema.clone()).as_str()),
            text(domain.base.domain.map_or_else(|| base.inner_name(), |of| of.name())),
            NULL,
            NULL,
            NULL,
            NULL,
            text("1"),
        ])?;
    }
    Ok(())
}

fn domain_constraints(env: &Env, rows: &mut Rows) -> Result<()> {
    for (ty, domain) in domains_of(env.names()) {
        for check in &domain.checks {
            rows.push([
                database(env),
                text(&ty.schema),
                text(&check.name),
                database(env),
                text(&ty.schema),
                text(&ty.name),
                text("NO"),
                text("NO"),
            ])?;
        }
    }
    Ok(())
}

/// The types that domains are over.
fn domain_types(env: &Env, rows: &mut Rows) -> Result<()> {
    for (ty, domain) in domains_of(env.names()) {
        let of_base = env.names().catalog.domain_of(domain.base);
        let base = domain.base.ty;
        rows.push([
            database(env),
            text(of_base.map_or_else(|| type_schema(env, base), |of| of.schema.clone()).as_str()),
            text(domain.base.domain.map_or_else(|| base.inner_name(), |of| of.name())),
            database(env),
            text(&ty.schema),
            text(&ty.name),
        ])?;
    }
    Ok(())
}

/// The columns of domains, of those that the user owns.
fn domain_columns(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let authority = authority(names);
    for table in sorted_tables(names) {
        for (_, column) in table.live_columns() {
            let ty = names.catalog.domain_of(column.ty).filter(|ty| ty.id == column.ty.oid());
            let Some(ty) = ty.filter(|ty| authority.has_role(ty.owner)) else { continue };
            rows.push([
                database(env),
                text(&ty.schema),
                text(&ty.name),
                database(env),
                text(&table.schema),
                text(&table.name),
                text(&column.name),
            ])?;
        }
    }
    Ok(())
}

fn checks(env: &Env, rows: &mut Rows) -> Result<()> {
    for (ty, domain) in domains_of(env.names()) {
        for check in &domain.checks {
            let clause = format!("(({}))", describe::bare(&check.condition));
            rows.push([database(env), text(&ty.schema), text(&check.name), text(&clause)])?;
        }
    }
    for table in seen_tables(env.names(), rows) {
        for check in &table.checks {
            let clause = format!("(({}))", describe::bare(&check.condition));
            rows.push([database(env), text(&table.schema), text(&check.name), text(&clause)])?;
        }
        for (at, column) in table.live_columns().filter(|(_, column)| column.not_null) {
            let clause = format!("{} IS NOT NULL", super::names::quoted(&column.name));
            rows.push([database(env), text(&table.schema), text(&not_null_name(&table, at)), text(&clause)])?;
        }
    }
    Ok(())
}

// ---- privileges ----

fn table_privileges(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let (roles, authority) = (names.roles(), authority(names));
    let tables = sorted_tables(names)
        .into_iter()
        .map(|table| (table.schema.clone(), table.name.clone(), table.owner, table.acl.clone()));
    let views = sorted_views(names)
        .into_iter()
        .map(|view| (view.schema.clone(), view.name.clone(), view.owner, view.acl.clone()));
    for (schema, name, owner, acl) in tables.chain(views) {
        let acl = acl.unwrap_or_else(|| Acl::default_of(ObjectKind::Table, owner));
        for grant in &acl.0 {
            if !(grant.grantee == PUBLIC_ROLE || authority.has_role(grant.grantee) || authority.has_role(grant.grantor))
            {
                continue;
            }
            let grantee = if grant.grantee == PUBLIC_ROLE { "PUBLIC".into() } else { roles.name_of(grant.grantee) };
            for privilege in grant.privileges.names() {
                let grantable = Privileges::named(privilege).is_some_and(|one| one.without(grant.grantable).is_empty());
                rows.push([
                    text(&roles.name_of(grant.grantor)),
                    text(&grantee),
                    database(env),
                    text(&schema),
                    text(&name),
                    text(privilege),
                    yes_or_no(grantable || grant.grantee == owner),
                    yes_or_no(privilege == "SELECT"),
                ])?;
            }
        }
    }
    Ok(())
}

fn view_tables(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for view in seen_views(names, rows) {
        for table in view.reads.iter().filter_map(|&read| names.table(read)) {
            rows.push([
                database(env),
                text(&view.schema),
                text(&view.name),
                database(env),
                text(&table.schema),
                text(&table.name),
            ])?;
        }
    }
    Ok(())
}

fn enabled_roles(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let authority = authority(names);
    for role in names.roles().iter().filter(|role| authority.has_role(role.oid)) {
        rows.push([text(&role.name)])?;
    }
    Ok(())
}

fn applicable_roles(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let (roles, authority) = (names.roles(), authority(names));
    for role in roles.iter().filter(|role| authority.has_role(role.oid)) {
        for membership in &role.member_of {
            let row = [text(&role.name), text(&roles.name_of(membership.group)), yes_or_no(membership.admin)];
            rows.push(row)?;
        }
    }
    Ok(())
}
