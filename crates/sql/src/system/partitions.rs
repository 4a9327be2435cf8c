//! Partitioned tables in the catalogue: `pg_partitioned_table`, `pg_inherits`, and what keys and
//! bounds are as SQL.

use colibri_catalog::{PartitionBound, RangeBound, Relation, Table};
use colibri_types::{ColumnType, Datum, Env, Result, Type, text_io};

use super::names::quoted;
use super::relations::{collation_of, sorted_tables, table_indexes};
use super::{Fill, NULL, Rows, describe, flag, int, oid, text, text_or_null, vector};
use crate::bind::partitions::bound_of;
use crate::plan::partitions::{Bound, Edge};
use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_partitioned_table", partitioned_tables), ("pg_inherits", inheritance)];

/// The columns of a table's key.
fn keys(table: &Table) -> &[usize] {
    table.partitioned.as_ref().map_or(&[], |partitioned| &partitioned.keys)
}

fn partitioned_tables(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for table in sorted_tables(names) {
        let Some(partitioned) = &table.partitioned else { continue };
        let is_default = |id: &&u32| {
            let of = names.catalog.table(**id).and_then(|table| table.partition_of.as_ref());
            of.is_some_and(|of| of.bound == PartitionBound::Default)
        };
        let default = partitioned.partitions.iter().find(is_default).copied().unwrap_or_default();
        let types: Vec<Type> = partitioned.keys.iter().map(|&key| table.columns[key].ty.ty).collect();
        let number = |&key: &usize| int(if table.columns[key].expression.is_some() { 0 } else { key as i64 + 1 });
        let expressions = partitioned.keys.iter().filter_map(|&key| table.columns[key].expression.as_deref());
        let expressions = expressions.map(describe::in_index).collect::<Vec<_>>().join(", ");
        rows.push([
            oid(table.id),
            text(partitioned.strategy.letter()),
            int(partitioned.keys.len() as i64),
            oid(default),
            vector(Type::Int2, partitioned.keys.iter().map(number)),
            vector(Type::Oid, types.iter().map(|&ty| oid(super::types::operator_class(ty)))),
            vector(Type::Oid, types.iter().map(|&ty| oid(collation_of(ty)))),
            text_or_null(Some(expressions.as_str()).filter(|all| !all.is_empty())),
        ])?;
    }
    Ok(())
}

fn inheritance(env: &Env, rows: &mut Rows) -> Result<()> {
    for table in sorted_tables(env.names()) {
        if let Some(of) = &table.partition_of {
            rows.push([oid(table.id), oid(of.parent), int(1), flag(false)])?;
        }
        for (at, parent) in table.inherits.iter().enumerate() {
            rows.push([oid(table.id), oid(*parent), int(at as i64 + 1), flag(false)])?;
        }
        for index in table_indexes(&table) {
            if let Some(parent) = index.parent {
                rows.push([oid(index.id), oid(parent), int(1), flag(false)])?;
            }
        }
    }
    Ok(())
}

/// A value of a bound as SQL.
fn shown(value: &Datum, ty: ColumnType, env: &Env) -> String {
    let mut out = String::new();
    text_io::write(ty.ty, value, env, &mut out);
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_)
            if ty.ty.enum_within().is_none()
                && out.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+')) =>
        {
            out
        }
        _ => format!("'{}'", out.replace('\'', "''")),
    }
}

/// What a partition takes, as SQL; `None` of what is no partition.
pub(super) fn bound_text(names: &Surroundings, table: &Table, env: &Env) -> Option<String> {
    let of = table.partition_of.as_ref()?;
    let parent = names.catalog.table(of.parent)?;
    let types: Vec<ColumnType> = keys(parent).iter().map(|&key| parent.columns[key].ty).collect();
    // The texts that are kept are those of values, which a session may see in another form.
    let value = |text: &str, at: usize| {
        let list = PartitionBound::List(vec![Some(text.to_owned())]);
        match bound_of(&list, types.get(at..)?).ok()? {
            Bound::List(values) => Some(shown(values.first()?, *types.get(at)?, env)),
            _ => None,
        }
    };
    let edges = |edges: &[RangeBound]| {
        let edge = |(at, edge): (usize, &RangeBound)| match edge {
            RangeBound::Min => Some("MINVALUE".to_owned()),
            RangeBound::Max => Some("MAXVALUE".to_owned()),
            RangeBound::Value(text) => value(text, at),
        };
        Some(edges.iter().enumerate().map(edge).collect::<Option<Vec<String>>>()?.join(", "))
    };
    Some(match &of.bound {
        PartitionBound::Default => "DEFAULT".to_owned(),
        PartitionBound::Hash(modulus, remainder) => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
        PartitionBound::Range(from, to) => format!("FOR VALUES FROM ({}) TO ({})", edges(from)?, edges(to)?),
        PartitionBound::List(values) => {
            let all = values.iter().map(|text| text.as_ref().map_or(Some("NULL".to_owned()), |text| value(text, 0)));
            format!("FOR VALUES IN ({})", all.collect::<Option<Vec<String>>>()?.join(", "))
        }
    })
}

/// A value as an operand: with its type, unless a number says it by itself.
fn operand(value: &Datum, ty: ColumnType, env: &Env) -> String {
    let text = shown(value, ty, env);
    if text.starts_with('\'') { format!("{text}::{}", ty.sql_name()) } else { text }
}

/// That a key is not below (`above`) or is below an edge, from a column on; `None` if all are.
fn beyond(edges: &[Edge], keys: &[(String, ColumnType)], above: bool, env: &Env) -> Option<String> {
    let ((edge, rest), ((key, ty), others)) = (edges.split_first()?, keys.split_first()?);
    let Edge::Value(value) = edge else { return None };
    let value = operand(value, *ty, env);
    let (strict, last) = if above { (">", ">=") } else { ("<", "<") };
    if rest.is_empty() {
        return Some(format!("({key} {last} {value})"));
    }
    Some(match (rest.first(), beyond(rest, others, above, env)) {
        (_, Some(further)) => format!("(({key} {strict} {value}) OR (({key} = {value}) AND {further}))"),
        (Some(Edge::Min), None) if above => format!("({key} >= {value})"),
        (Some(Edge::Max), None) if !above => format!("({key} <= {value})"),
        (_, None) => format!("({key} {strict} {value})"),
    })
}

/// What a bound says of a row with some keys; `None` if it says nothing.
fn condition(bound: &Bound, parent: &Table, keys: &[(String, ColumnType)], env: &Env) -> Option<String> {
    let is_value = |key: &String| format!("({key} IS NOT NULL)");
    match bound {
        Bound::Range(low, high) => {
            let mut all: Vec<String> = keys.iter().map(|(key, _)| is_value(key)).collect();
            all.extend(beyond(low, keys, true, env));
            all.extend(beyond(high, keys, false, env));
            Some(format!("({})", all.join(" AND ")))
        }
        Bound::List(values) => {
            let (key, ty) = keys.first()?;
            let known: Vec<String> =
                values.iter().filter(|value| !value.is_null()).map(|value| operand(value, *ty, env)).collect();
            let any = match &known[..] {
                [] => None,
                [one] => Some(format!("({key} = {one})")),
                several => Some(format!("({key} = ANY (ARRAY[{}]))", several.join(", "))),
            };
            Some(match (any, values.iter().any(Datum::is_null)) {
                (Some(any), true) => format!("(({key} IS NULL) OR {any})"),
                (Some(any), false) => format!("({} AND {any})", is_value(key)),
                (None, _) => format!("({key} IS NULL)"),
            })
        }
        Bound::Hash(modulus, remainder) => {
            let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
            let (id, names) = (parent.id, names.join(", "));
            Some(format!("satisfies_hash_partition('{id}'::oid, {modulus}, {remainder}, {names})"))
        }
        Bound::Default => None,
    }
}

/// `pg_get_partition_constraintdef`: what a partition's rows have in common.
pub(super) fn constraint_text(names: &Surroundings, id: u32, env: &Env) -> Option<String> {
    let table = names.table(id)?;
    let mut all = Vec::new();
    let mut child = table;
    while let Some(of) = &child.partition_of {
        let parent = names.catalog.table(of.parent)?;
        let types: Vec<ColumnType> = keys(parent).iter().map(|&key| parent.columns[key].ty).collect();
        let key = |&key: &usize| match &parent.columns[key].expression {
            Some(expression) => describe::in_index(expression),
            None => quoted(&parent.columns[key].name),
        };
        let named: Vec<(String, ColumnType)> = keys(parent).iter().map(key).zip(types.iter().copied()).collect();
        let of_bound = |bound: &PartitionBound| condition(&bound_of(bound, &types).ok()?, parent, &named, env);
        match &of.bound {
            PartitionBound::Default => {
                let others = parent.partitioned.iter().flat_map(|partitioned| &partitioned.partitions);
                let others = others.filter_map(|&id| names.catalog.table(id)?.partition_of.as_ref());
                let others: Vec<String> = others.filter_map(|of| of_bound(&of.bound)).collect();
                match &others[..] {
                    [] => {}
                    [one] => all.push(format!("(NOT {one})")),
                    several => all.push(format!("(NOT ({}))", several.join(" OR "))),
                }
            }
            bound => all.extend(of_bound(bound)),
        }
        child = parent;
    }
    // Those of the tables above come first.
    all.reverse();
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(format!("({})", all.join(" AND "))),
    }
}

/// `pg_get_partkeydef`: `RANGE (a, b)`
pub(super) fn key_text(names: &Surroundings, table: u32) -> Option<String> {
    let table = names.table(table)?;
    let partitioned = table.partitioned.as_ref()?;
    let column = |&key: &usize| match &table.columns[key].expression {
        Some(expression) => describe::in_index(expression),
        None => quoted(&table.columns[key].name),
    };
    let columns: Vec<String> = partitioned.keys.iter().map(column).collect();
    Some(format!("{} ({})", partitioned.strategy.word(), columns.join(", ")))
}

/// What a table or an index is a partition of, the nearest first.
fn ancestors_of(names: &Surroundings, relation: u32) -> Vec<u32> {
    let Some((_, _, found)) = names.catalog.relation_numbered(relation) else { return Vec::new() };
    match found {
        Relation::Table(table) => names.catalog.partition_ancestors(&table),
        Relation::Index(..) | Relation::PrimaryKey(_) => {
            let parent = |id: u32| {
                let table = names.catalog.table_with_part(id)?;
                table_indexes(table).into_iter().find(|index| index.id == id)?.parent
            };
            std::iter::successors(parent(relation), |&id| parent(id)).collect()
        }
        _ => Vec::new(),
    }
}

/// The partitions of a table or an index.
fn children_of(names: &Surroundings, relation: u32) -> Vec<u32> {
    if let Some(table) = names.catalog.table(relation) {
        return table.partitioned.as_ref().map_or_else(Vec::new, |partitioned| partitioned.partitions.clone());
    }
    let mut found: Vec<u32> = names
        .catalog
        .tables()
        .flat_map(|table| table_indexes(table))
        .filter(|index| index.parent == Some(relation))
        .map(|index| index.id)
        .collect();
    found.sort_unstable();
    found
}

/// Whether a relation is partitioned, or a partition.
fn is_in_tree(names: &Surroundings, relation: u32) -> bool {
    let of_table = |table: &Table| table.partitioned.is_some() || table.partition_of.is_some();
    match names.catalog.relation_numbered(relation) {
        Some((_, _, Relation::Table(table))) => of_table(&table),
        Some((_, _, Relation::Index(table, index))) => {
            index.parent.is_some() || names.catalog.table(table).is_some_and(|table| table.partitioned.is_some())
        }
        Some((_, _, Relation::PrimaryKey(table))) => names.catalog.table(table).is_some_and(|table| {
            table.partitioned.is_some() || table.primary_key.as_ref().is_some_and(|key| key.parent.is_some())
        }),
        _ => false,
    }
}

/// `pg_partition_root`
pub(super) fn root_of(names: &Surroundings, relation: u32) -> Option<u32> {
    is_in_tree(names, relation).then(|| ancestors_of(names, relation).last().copied().unwrap_or(relation))
}

/// The relation and what it is a partition of, the nearest first.
pub(super) fn with_ancestors(names: &Surroundings, relation: u32) -> Vec<u32> {
    match is_in_tree(names, relation) {
        true => std::iter::once(relation).chain(ancestors_of(names, relation)).collect(),
        false => Vec::new(),
    }
}

/// All that is below a relation, and itself first: each with what it is a partition of, whether it has
/// no partitions, and its level.
pub(super) fn tree_of(names: &Surroundings, relation: u32) -> Vec<(u32, Option<u32>, bool, usize)> {
    if !is_in_tree(names, relation) {
        return Vec::new();
    }
    let is_leaf = |id: u32| match names.catalog.relation_numbered(id) {
        Some((_, _, Relation::Table(table))) => table.partitioned.is_none(),
        Some((_, _, Relation::Index(table, _) | Relation::PrimaryKey(table))) => {
            names.catalog.table(table).is_none_or(|table| table.partitioned.is_none())
        }
        _ => true,
    };
    let parent = ancestors_of(names, relation).first().copied();
    let mut found = vec![(relation, parent, is_leaf(relation), 0)];
    let mut next = 0;
    while let Some(&(id, _, _, level)) = found.get(next) {
        next += 1;
        found.extend(children_of(names, id).into_iter().map(|child| (child, Some(id), is_leaf(child), level + 1)));
    }
    found
}

/// The row of a partition's bound in `pg_class`.
pub(super) fn bound_value(names: &Surroundings, table: &Table, env: &Env) -> Datum {
    bound_text(names, table, env).map_or(NULL, |bound| text(&bound))
}
