//! Definitions as SQL: `pg_get_indexdef`, `pg_get_constraintdef`, `pg_get_viewdef`, `pg_get_expr`.
//!
//! Expressions are shown as the catalogue keeps them: as they were written. PostgreSQL shows casts
//! and parentheses that it has added; what is shown here means the same.

use std::sync::Arc;

use colibri_catalog::{Excluded, ForeignKey, Index, ReferenceAction, Table, Timing, View};
use colibri_types::{Category, ColumnType, Env, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::names::quoted;
use super::relations::{AnyIndex, table_indexes};
use crate::bind::{Binder, ViewTarget, Writing, fold};
use crate::expr::Expr;
use crate::plan::{KeyRanges, TokenCondition};
use crate::planner::{Alike, Sampled, Sizes};
use crate::registry::builtin;
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

/// A name with its schema.
pub(crate) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

/// A column of an index: its name, and how it is ordered.
pub(crate) fn index_column(
    names: Option<&Surroundings>,
    table: &Table,
    index: &AnyIndex,
    at: usize,
    ordered: bool,
) -> Option<String> {
    let Some(part) = index.columns.get(at) else {
        let included = *index.include.get(at - index.columns.len())?;
        return Some(quoted(&table.columns[included].name));
    };
    let column = &table.columns[part.column];
    let shown = shown_part(table, part.column);
    let mut out = match (shown.column, &column.expression) {
        (Some(column), _) => quoted(&table.columns[column].name),
        (None, Some(expression)) => in_index(expression),
        (None, None) => quoted(&column.name),
    };
    if let Some(collation) = shown.collation.as_deref().filter(|_| ordered) {
        out += " COLLATE ";
        out += &shown_collation(collation);
    }
    if ordered {
        let class = index.tokens.get(at).map(|class| class.0);
        if let Some(class) = class.filter(|class| !class.is_default) {
            out.push(' ');
            if let Some(schema) = class.extension.and_then(|extension| schema_to_name(names?, extension)) {
                out.push_str(&quoted(&schema));
                out.push('.');
            }
            out.push_str(class.name);
        }
        if part.descending {
            out.push_str(" DESC");
        }
        if part.nulls_first != part.descending {
            out.push_str(if part.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
    }
    Some(out)
}

/// The schema that what an extension brings has to be named with, unless the search path has it.
fn schema_to_name(names: &Surroundings, extension: &str) -> Option<CompactString> {
    let schema = &names.catalog.extensions().find(|known| known.name == extension)?.schema;
    (!names.search_path.contains(schema)).then(|| schema.clone())
}

/// `CREATE INDEX …`, the table being called `on`.
pub(crate) fn index_definition(names: &Surroundings, table: &Table, index: &AnyIndex, on: &str) -> String {
    definition(Some(names), table, index, on, false)
}

/// The same for another table, which need not be partitioned.
pub(crate) fn index_like(table: &Table, index: &AnyIndex, on: &str) -> String {
    definition(None, table, index, on, true)
}

fn definition(names: Option<&Surroundings>, table: &Table, index: &AnyIndex, on: &str, is_like: bool) -> String {
    let columns: Vec<String> =
        (0..index.columns.len()).filter_map(|at| index_column(names, table, index, at, true)).collect();
    format!(
        "CREATE {}INDEX {} ON {}{on} USING {} ({}){}{}{}",
        if index.unique { "UNIQUE " } else { "" },
        quoted(&index.name),
        // The partitions' parts have definitions of their own.
        if table.partitioned.is_some() && !is_like { "ONLY " } else { "" },
        index.method.as_deref().unwrap_or("btree"),
        columns.join(", "),
        including(table, index),
        if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" },
        index.predicate.as_ref().map(|condition| format!(" WHERE {}", condition_shown(condition))).unwrap_or_default(),
    )
}

/// ` INCLUDE (…)`, if an index has it.
fn including(table: &Table, index: &AnyIndex) -> String {
    if index.include.is_empty() { String::new() } else { format!(" INCLUDE ({})", column_list(table, &index.include)) }
}

/// What a part of an index is to those who look at it.
pub(super) struct ShownPart {
    /// The table's column, if it is that, and not an expression.
    pub(super) column: Option<usize>,
    /// The collation that the index has of its own.
    pub(super) collation: Option<CompactString>,
    /// The type of the column, or of the expression.
    pub(super) ty: ColumnType,
}

/// What the column of a table is that an index is on. One that stands for the sort key of a text is
/// shown as the text.
pub(super) fn shown_part(table: &Table, place: usize) -> ShownPart {
    let column = &table.columns[place];
    let plain = |ty| ShownPart { column: None, collation: None, ty };
    let Some(expression) = &column.expression else {
        return ShownPart { column: Some(place), ..plain(column.ty) };
    };
    let named = |expr: &ast::Expr| match expr {
        ast::Expr::Identifier(ident) => table.column(&crate::bind::fold(ident)),
        _ => None,
    };
    match crate::statement::parse_expr(expression) {
        Ok(ast::Expr::Collate { expr, collation }) if let Some(found) = named(&expr) => {
            let collation = match crate::bind::name_parts(&collation).unwrap_or_default()[..] {
                [schema, name] => match crate::bind::fold(schema) {
                    schema if schema == "pg_catalog" => crate::bind::fold(name),
                    schema => colibri_catalog::Collation::identity_of(&schema, &crate::bind::fold(name)),
                },
                [name] => crate::bind::fold(name),
                _ => return plain(column.ty),
            };
            let own = table.columns[found].collation.as_deref().unwrap_or("default");
            let collation = Some(collation).filter(|name| name != own);
            ShownPart { column: Some(found), collation, ty: table.columns[found].ty }
        }
        Ok(expr) if let Some(found) = named(&expr) => {
            ShownPart { column: Some(found), ..plain(table.columns[found].ty) }
        }
        // Bytes that are made of what is no bytes are sort keys.
        _ if column.ty.ty == Type::Bytea => plain(Type::Text.into()),
        _ => plain(column.ty),
    }
}

/// A collation's name as SQL has it, by its identity.
pub(crate) fn shown_collation(identity: &str) -> String {
    if identity.starts_with('"') { identity.to_owned() } else { quoted(identity) }
}

/// An expression as a part of an index: in parentheses unless it is a call. PostgreSQL's own are
/// around operators, too.
pub(super) fn in_index(expression: &str) -> String {
    match crate::statement::parse_expr(expression) {
        Ok(ast::Expr::Function(_)) => expression.to_owned(),
        Ok(ast::Expr::Identifier(_)) => format!("({expression})"),
        _ => format!("(({expression}))"),
    }
}

/// The condition of an index: in parentheses unless it is a column or a call.
pub(super) fn condition_shown(condition: &str) -> String {
    match crate::statement::parse_expr(condition) {
        Ok(ast::Expr::Function(_) | ast::Expr::Identifier(_)) => condition.to_owned(),
        _ => format!("({condition})"),
    }
}

/// `pg_get_indexdef`: the whole index, or one of its columns.
pub(crate) fn index_by_number(names: &Surroundings, id: u32, column: i64, pretty: bool) -> Option<String> {
    let table = names.catalog.table_with_part(id)?;
    let index = table_indexes(table).into_iter().find(|index| index.id == id)?;
    match column {
        0 => {
            // The pretty form leaves out a schema of the search path.
            let short = pretty.then(|| names.relation_name(table.id)).flatten();
            Some(index_definition(
                names,
                table,
                &index,
                &short.unwrap_or_else(|| qualified(&table.schema, &table.name)),
            ))
        }
        column => {
            Some(index_column(Some(names), table, &index, usize::try_from(column - 1).ok()?, false).unwrap_or_default())
        }
    }
}

fn column_list(table: &Table, columns: &[usize]) -> String {
    let names: Vec<String> = columns.iter().map(|&column| quoted(&table.columns[column].name)).collect();
    names.join(", ")
}

fn action(word: &str, action: ReferenceAction) -> String {
    let name = match action {
        ReferenceAction::NoAction => return String::new(),
        ReferenceAction::Restrict => "RESTRICT",
        ReferenceAction::Cascade => "CASCADE",
        ReferenceAction::SetNull => "SET NULL",
        ReferenceAction::SetDefault => "SET DEFAULT",
    };
    format!(" ON {word} {name}")
}

fn foreign_key(names: &Surroundings, table: &Table, key: &ForeignKey) -> Option<String> {
    let target = names.table(key.target)?;
    let target_name = names.relation_name(key.target)?;
    let set = match &key.delete_columns[..] {
        [] => String::new(),
        columns => format!(" ({})", column_list(table, columns)),
    };
    Some(format!(
        "FOREIGN KEY ({}) REFERENCES {target_name}({}){}{}{}{set}{}{}",
        column_list(table, &key.columns),
        column_list(target, &key.target_columns),
        if key.match_full { " MATCH FULL" } else { "" },
        action("UPDATE", key.on_update),
        action("DELETE", key.on_delete),
        deferrable(key.timing),
        if key.not_valid { " NOT VALID" } else { "" },
    ))
}

/// What is said of a constraint that may be put off.
pub(crate) fn deferrable(timing: Timing) -> &'static str {
    match timing {
        Timing::Fixed => "",
        Timing::Immediate => " DEFERRABLE",
        Timing::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// `EXCLUDE USING gist (room WITH =, during WITH &&)`
pub(crate) fn exclusion(table: &Table, index: &AnyIndex) -> String {
    let part = |part: &Excluded| {
        let column = &table.columns[part.column];
        let shown = column.expression.as_deref().map_or_else(|| quoted(&column.name), in_index);
        format!("{shown} WITH {}", part.operator)
    };
    let parts: Vec<String> = index.exclusion.iter().map(part).collect();
    let condition = index
        .predicate
        .as_ref()
        .map(|condition| format!(" WHERE ({})", condition_shown(condition)))
        .unwrap_or_default();
    let method = index.method.as_deref().unwrap_or("btree");
    format!("EXCLUDE USING {method} ({}){condition}", parts.join(", "))
}

/// `pg_get_constraintdef`. `pretty` leaves out parentheses.
pub(crate) fn constraint_by_number(names: &Surroundings, id: u32, pretty: bool) -> Option<String> {
    if let Some(table) = names.catalog.table_with_part(id) {
        return constraint_of_table(names, table, id, pretty);
    }
    let mut of_domains = names.catalog.types().filter_map(|ty| ty.domain()).flat_map(|domain| &domain.checks);
    let check = of_domains.find(|check| check.id == id)?;
    let valid = if check.not_valid { " NOT VALID" } else { "" };
    Some(format!("{}{valid}", check_shown(&check.condition, pretty)))
}

/// `CHECK (…)`. `pretty` leaves out parentheses.
fn check_shown(condition: &str, pretty: bool) -> String {
    let condition = bare(condition);
    if pretty { format!("CHECK ({condition})") } else { format!("CHECK (({condition}))") }
}

fn constraint_of_table(names: &Surroundings, table: &Table, id: u32, pretty: bool) -> Option<String> {
    let of_index = |index: &AnyIndex| {
        if !index.exclusion.is_empty() {
            return exclusion(table, index);
        }
        let columns: Vec<usize> = index.columns.iter().map(|part| part.column).collect();
        let kind = match (index.primary, index.nulls_not_distinct) {
            (true, _) => "PRIMARY KEY",
            (false, false) => "UNIQUE",
            (false, true) => "UNIQUE NULLS NOT DISTINCT",
        };
        format!("{kind} ({}){}{}", column_list(table, &columns), including(table, index), deferrable(index.timing))
    };
    if let Some(key) = table.foreign_keys.iter().find(|key| key.id == id) {
        return foreign_key(names, table, key);
    }
    if let Some(check) = table.checks.iter().find(|check| check.id == id) {
        let inherits = if check.no_inherit { " NO INHERIT" } else { "" };
        let valid = if check.not_valid { " NOT VALID" } else { "" };
        return Some(format!("{}{inherits}{valid}", check_shown(&check.condition, pretty)));
    }
    table_indexes(table).iter().find(|index| index.id == id && index.constraint).map(of_index)
}

/// A condition without the parentheses that are around all of it: the answer has its own, and what
/// is made from it, as a dump is, must not gain more of them each time.
pub(crate) fn bare(condition: &str) -> String {
    let Ok(ast::Expr::Nested(mut expr)) = crate::statement::parse_expr(condition) else { return condition.to_owned() };
    while let ast::Expr::Nested(inner) = *expr {
        expr = inner;
    }
    expr.to_string()
}

/// A view's query.
pub(crate) fn view_definition(view: &View) -> String {
    format!(" {};", colibri_syntax::shown_query(&view.query))
}

fn is_string(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)))
}

/// A default as PostgreSQL shows it: a literal has a cast to its type.
pub(crate) fn default_expression(env: &Env, default: &str, ty: ColumnType) -> String {
    let Ok(parsed) = crate::statement::parse_expr(default) else { return default.to_owned() };
    // The column has the length.
    let plain = match ty.ty {
        Type::Char => CompactString::const_new("bpchar"),
        other => match env.names().type_name(other.oid()) {
            Some(name) if other.of_user().is_some() || other.extension().is_some() => name.into(),
            _ => other.sql_name().into(),
        },
    };
    // A default that is shown in this form, dumped and loaded is shown in the same form again.
    let parsed = match parsed {
        ast::Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type, .. }
            if data_type.to_string().eq_ignore_ascii_case(&plain) && is_string(&expr) =>
        {
            *expr
        }
        other => other,
    };
    match &parsed {
        literal if is_string(literal) => match ty.ty.category() {
            Category::Number | Category::Boolean => default.to_owned(),
            _ => format!("{literal}::{plain}"),
        },
        ast::Expr::Function(function) if function.name.to_string() == "nextval" => {
            let sequence = default.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\''));
            let number = sequence.and_then(|(name, _)| env.names().find_number(Type::RegClass, name));
            match number.and_then(|number| env.names().relation_name(number)) {
                Some(name) => format!("nextval('{}'::regclass)", name.replace('\'', "''")),
                None => default.to_owned(),
            }
        }
        _ => default.to_owned(),
    }
}

/// The columns of a table that a condition uses, in order of their first use.
pub(super) fn columns_in(condition: &str, table: &Table) -> Vec<usize> {
    let Ok(parsed) = crate::statement::parse_expr(condition) else { return Vec::new() };
    let mut found = Vec::new();
    _ = ast::visit_expressions(&parsed, |expr| {
        let name = match expr {
            ast::Expr::Identifier(ident) => Some(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(column) = name.and_then(|name| table.column(&fold(name)))
            && !found.contains(&column)
        {
            found.push(column);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}

/// Sizes do not matter, as nothing is run.
struct NoSizes;

impl Sizes for NoSizes {
    fn value_of(&self, constant: &crate::expr::Expr, env: &Env) -> colibri_types::Result<colibri_types::Datum> {
        crate::exec::value_of(constant, env)
    }

    fn rows(&self, _: &Table) -> f64 {
        1.0
    }

    fn rows_alike(&self, _: &Table, _: Option<&Index>, _: usize) -> Option<Alike> {
        None
    }

    fn entries(&self, _: &Index) -> f64 {
        1.0
    }

    fn expressions(&self, _: &Arc<Table>) -> Arc<[(usize, Expr)]> {
        Arc::new([])
    }

    fn sampled(&self, _: &Arc<Table>, _: &Expr) -> Option<Sampled> {
        None
    }

    fn rows_of_tokens(&self, _: &Arc<Table>, _: &Arc<Index>, _: &[TokenCondition], guessed: f64) -> Option<f64> {
        Some(guessed)
    }

    fn rows_behind(&self, _: &Arc<Table>, _: Option<&Arc<Index>>, _: &KeyRanges) -> Option<f64> {
        None
    }

    fn rows_in(&self, _: &Arc<Table>, _: Option<&Arc<Index>>, _: &KeyRanges, guessed: f64) -> f64 {
        guessed
    }
}

/// What writing to a view means; `None` if it cannot be written to.
pub(super) fn view_target(env: &Env, view: &Arc<View>, writing: Writing) -> Option<ViewTarget> {
    let names = env.names();
    let mut binder = Binder::new(builtin(), &names.catalog, env, &NoSizes, "", &names.search_path, Vec::new());
    binder.view_target(view, writing).ok()
}

/// The types of a view's columns. They are text if a relation that it reads no longer exists.
pub(super) fn view_types(env: &Env, view: &View) -> Vec<ColumnType> {
    let names = env.names();
    let bound = Binder::new(builtin(), &names.catalog, env, &NoSizes, "", &names.search_path, Vec::new()).view(view);
    let known = |ty: ColumnType| if ty.ty == Type::Unknown { Type::Text.into() } else { ty };
    let mut types: Vec<ColumnType> =
        bound.map(|query| query.columns.iter().map(|column| known(column.ty)).collect()).unwrap_or_default();
    types.resize(view.columns.len(), Type::Text.into());
    types
}
