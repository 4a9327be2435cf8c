//! What a SELECT is after each pass that has changed it, for tests: those of the facade hold
//! queries with their SELECTs as the planner came to them, first as they were bound.

use std::cell::RefCell;
use std::fmt::Write as _;

use super::PASSES;
use crate::explain::expr_text_over;
use crate::expr::Expr;
use crate::logical::{Distinct, Extra, From, Join, Relation, Select, Source};
use crate::plan::{KeyColumn, SortKey};

thread_local! {
    /// What was seen since somebody has asked.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    /// The SELECT at hand, as it was seen last; one for each that is being rewritten.
    static LAST: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Begins to note what this thread plans.
pub fn watch() {
    SEEN.set(Some(Vec::new()));
}

/// What was noted since [`watch`], which ends with it.
pub fn watched() -> String {
    SEEN.take().unwrap_or_default().concat()
}

/// Notes a SELECT as it is after a pass, or before all of them.
pub(super) fn note(pass: Option<&str>, select: &Select) {
    if SEEN.with_borrow(Option::is_none) {
        return;
    }
    let text = text_of(select);
    let has_changed = LAST.with_borrow_mut(|last| match pass {
        None => {
            last.push(text.clone());
            true
        }
        Some(_) => last.last_mut().is_some_and(|last| std::mem::replace(last, text.clone()) != text),
    });
    if has_changed {
        let line = format!("    {}\n{text}", pass.unwrap_or("bound"));
        SEEN.with_borrow_mut(|seen| seen.iter_mut().for_each(|seen| seen.push(line.clone())));
    }
    if pass == PASSES.last().map(|(name, _)| *name) {
        LAST.with_borrow_mut(Vec::pop);
    }
}

fn names(relations: &[Relation]) -> Vec<String> {
    let mut names = Vec::new();
    for relation in relations {
        for place in 0..relation.width {
            let name = match &relation.source {
                Source::Table(table) => table.columns.get(place).map(|column| column.name.to_string()),
                Source::Tree(tree) => tree.root.columns.get(place).map(|column| column.name.to_string()),
                source => source.query().and_then(|query| query.columns.get(place)).map(|one| one.name.to_string()),
            };
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{}", place + 1));
            let at = relation.base + place;
            names.resize(names.len().max(at + 1), String::new());
            names[at] = format!("{}.{name}", relation.name);
        }
    }
    names
}

fn text_of(select: &Select) -> String {
    let names = names(&select.relations);
    let list = |exprs: &[Expr], names: &[String]| {
        exprs.iter().map(|expr| expr_text_over(expr, names)).collect::<Vec<_>>().join(", ")
    };
    let keys = |keys: &[SortKey], names: &[String]| {
        let key = |key: &SortKey| {
            let direction = if key.descending { " DESC" } else { "" };
            format!("{}{direction}", expr_text_over(&key.expr, names))
        };
        (!keys.is_empty()).then(|| keys.iter().map(key).collect::<Vec<_>>().join(", "))
    };
    let extra = |extra: &Extra, names: &[String]| match extra {
        Extra::Rows(series, args) => format!("rows of {series:?}({})", list(args, names)),
        Extra::Window(window) => {
            let (name, args) = (window.call.function.name(), list(&window.call.args, names));
            let order = keys(&window.order, names).unwrap_or_default();
            format!("{name}({args}) by ({}) in order ({order})", list(&window.partition, names))
        }
    };
    let mut text = String::new();
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "      {name}: {what}");
    };
    let over = match &select.group {
        Some(group) => (1..=group.keys.len() + group.calls.len()).map(|place| format!("group.{place}")).collect(),
        None => names.clone(),
    };
    line("output", list(&select.output, &over));
    match &select.distinct {
        Distinct::No => {}
        Distinct::All(columns) => line("distinct", format!("{columns} columns")),
        Distinct::On(places) => line("distinct", format!("on {places:?}")),
    }
    select.extras.iter().for_each(|one| line("extra", extra(one, &over)));
    select.grouped_rows.iter().for_each(|(_, one)| line("grouped extra", extra(one, &names)));
    if let Some(from) = &select.from {
        line("from", from_text(from, select, &names));
    }
    if !select.filter.is_empty() {
        line("where", list(&select.filter, &names));
    }
    if let Some(group) = &select.group {
        let call = |call: &crate::plan::AggregateCall| {
            let distinct = if call.distinct { "DISTINCT " } else { "" };
            let order = keys(&call.order, &names).map_or_else(String::new, |order| format!(" ORDER BY {order}"));
            let filter = call.filter.iter().map(|filter| format!(" FILTER {}", expr_text_over(filter, &names)));
            let filter: String = filter.collect();
            format!("{}({distinct}{}{order}){filter}", call.aggregate.name, list(&call.args, &names))
        };
        let all = group.keys.iter().map(|key| expr_text_over(key, &names)).chain(group.calls.iter().map(call));
        line("group", all.collect::<Vec<_>>().join(", "));
        if let Some(having) = &group.having {
            line("having", expr_text_over(having, &over));
        }
    }
    text
}

fn from_text(from: &From, select: &Select, names: &[String]) -> String {
    match from {
        From::Relation(index) => {
            let relation = &select.relations[*index];
            let filter = match &relation.filter[..] {
                [] => String::new(),
                all => {
                    let all: Vec<String> = all.iter().map(|condition| expr_text_over(condition, names)).collect();
                    format!(" where [{}]", all.join(", "))
                }
            };
            let what = match &relation.source {
                Source::Table(table) if table.name == relation.name => return format!("{}{filter}", table.name),
                Source::Table(table) => table.name.to_string(),
                Source::Tree(tree) => tree.root.name.to_string(),
                Source::Query(_) => "(query)".to_owned(),
                Source::Lateral { .. } => "lateral (query)".to_owned(),
                Source::Keyed { keys, .. } => {
                    let key = |key: &KeyColumn| {
                        let equals = if key.with_nulls { "IS NOT DISTINCT FROM" } else { "=" };
                        let value = expr_text_over(&key.value, names);
                        format!("{} {equals} {value}", names[relation.base + key.column])
                    };
                    format!("(query) by ({})", keys.iter().map(key).collect::<Vec<_>>().join(", "))
                }
                Source::Shared { .. } => "(with)".to_owned(),
                Source::Functions { .. } => "functions".to_owned(),
                Source::Working { .. } => "last round".to_owned(),
                Source::Part { id } => format!("part {id}"),
                Source::System { table, .. } => table.name.to_owned(),
            };
            format!("{what} AS {}{filter}", relation.name)
        }
        From::Join { kind, left, right, on } => {
            let kind = match kind {
                Join::Inner => "join",
                Join::InnerInOrder => "then join",
                Join::Left => "left join",
                Join::Right => "right join",
                Join::Full => "full join",
                Join::Semi => "semi join",
                Join::Anti => "anti join",
            };
            let on: Vec<String> = on.iter().map(|condition| expr_text_over(condition, names)).collect();
            let (left, right) = (from_text(left, select, names), from_text(right, select, names));
            format!("({left} {kind} {right} on [{}])", on.join(", "))
        }
    }
}
