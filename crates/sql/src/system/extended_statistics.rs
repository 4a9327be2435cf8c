//! Extended statistics as the catalogue shows them.

use colibri_catalog::Statistics;
use colibri_types::functions::quote_identifier;
use colibri_types::{Env, Result, Type};

use super::{Fill, NULL, Rows, array, int, oid, text, vector};
use crate::surroundings::{Names as _, Surroundings};

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_statistic_ext", statistics)];

fn statistics(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for one in names.catalog.statistics() {
        let keys = one.columns.iter().map(|&place| int(place as i64 + 1));
        let kinds = one.kinds.chars().map(|kind| text(kind.encode_utf8(&mut [0; 4])));
        rows.push([
            oid(one.id),
            oid(one.table),
            text(&one.name),
            oid(names.schema_number(&one.schema).unwrap_or_default()),
            oid(one.owner),
            int(one.target),
            vector(Type::Int2, keys),
            array(Type::InternalChar, kinds),
            if one.expressions.is_empty() { NULL } else { text(&one.expressions.join(", ")) },
        ])?;
    }
    Ok(())
}

/// The columns and expressions of statistics, as SQL.
pub(crate) fn columns(names: &Surroundings, number: u32) -> Option<String> {
    let one = names.catalog.statistics().find(|one| one.id == number)?;
    columns_of(names, one)
}

fn columns_of(names: &Surroundings, one: &Statistics) -> Option<String> {
    let table = names.catalog.table(one.table)?;
    let columns = one.columns.iter().filter_map(|&place| table.columns.get(place));
    let mut all: Vec<String> = columns.map(|column| quote_identifier(&column.name).to_string()).collect();
    all.extend(one.expressions.iter().map(|text| match colibri_syntax::parse_expr(text) {
        Ok(sqlparser::ast::Expr::Function(_)) => text.clone(),
        _ => format!("({text})"),
    }));
    Some(all.join(", "))
}

/// CREATE STATISTICS for statistics that are there.
pub(crate) fn definition(names: &Surroundings, number: u32) -> Option<String> {
    let one = names.catalog.statistics().find(|one| one.id == number)?;
    let table = names.catalog.table(one.table)?;
    let asked: Vec<&str> = one
        .kinds
        .chars()
        .filter_map(|kind| match kind {
            'd' => Some("ndistinct"),
            'f' => Some("dependencies"),
            'm' => Some("mcv"),
            _ => None,
        })
        .collect();
    // Those that are there if none is asked for are left out.
    let is_all = asked.len() == 3 || asked.is_empty();
    let kinds = if is_all { String::new() } else { format!(" ({})", asked.join(", ")) };
    Some(format!(
        "CREATE STATISTICS {}.{}{kinds} ON {} FROM {}",
        quote_identifier(&one.schema),
        quote_identifier(&one.name),
        columns_of(names, one)?,
        names.relation_name(table.id)?,
    ))
}
