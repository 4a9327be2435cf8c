//! What a SELECT is after each pass that has changed it: `tests/passes/queries.txt` holds queries,
//! each with its SELECTs below it as the planner came to them, first as they were bound.
//! `COLIBRI_REWRITE=1 cargo test -p colibri-sql --lib passes` writes them anew; look at what has
//! changed.

use std::cell::RefCell;
use std::fmt::Write as _;

use colibri_storage::{Database, Durability, Options};

use super::PASSES;
use crate::explain::expr_text_over;
use crate::expr::Expr;
use crate::logical::{From, Join, Relation, Select, Source};
use crate::{Engine, Session};

thread_local! {
    /// What was seen since somebody has asked.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    /// The SELECT at hand, as it was seen last; one for each that is being rewritten.
    static LAST: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
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
    let mut text = String::new();
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "      {name}: {what}");
    };
    let over = match &select.group {
        Some(group) => (1..=group.keys.len() + group.calls.len()).map(|place| format!("group.{place}")).collect(),
        None => names.clone(),
    };
    line("output", list(&select.output, &over));
    if let Some(from) = &select.from {
        line("from", from_text(from, select, &names));
    }
    if !select.filter.is_empty() {
        line("where", list(&select.filter, &names));
    }
    if let Some(group) = &select.group {
        let call = |call: &crate::plan::AggregateCall| format!("{}({})", call.aggregate.name, list(&call.args, &names));
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
            let what = match &relation.source {
                Source::Table(table) if table.name == relation.name => return table.name.to_string(),
                Source::Table(table) => table.name.to_string(),
                Source::Query(_) => "(query)".to_owned(),
                Source::Lateral { .. } => "lateral (query)".to_owned(),
                Source::Keyed { keys, .. } => {
                    let key = |(column, value): &(usize, Expr)| {
                        format!("{} = {}", names[relation.base + column], expr_text_over(value, names))
                    };
                    format!("(query) by ({})", keys.iter().map(key).collect::<Vec<_>>().join(", "))
                }
                Source::Shared { .. } => "(with)".to_owned(),
                Source::Functions { .. } => "functions".to_owned(),
                Source::Working { .. } => "last round".to_owned(),
                Source::System { table, .. } => table.name.to_owned(),
            };
            format!("{what} AS {}", relation.name)
        }
        From::Join { kind, left, right, on } => {
            let kind = match kind {
                Join::Inner => "join",
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

#[test]
fn passes_turn_queries_into_joins() {
    const SETUP: &str = "CREATE TABLE u (id int PRIMARY KEY, org int, name text);
        CREATE TABLE o (id int PRIMARY KEY, uid int, st text, v int); CREATE INDEX ON o (uid);
        CREATE TABLE n (k int, v int); INSERT INTO n SELECT g, g FROM generate_series(1, 1000) g";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/passes/queries.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "postgres");
    session.run(SETUP).unwrap();
    let mut found = Vec::new();
    for block in golden.trim_end_matches('\n').split("\n\n") {
        let query = block.lines().next().unwrap();
        SEEN.set(Some(Vec::new()));
        session.run(&format!("EXPLAIN {query}")).unwrap();
        let seen = SEEN.take().unwrap_or_default();
        found.push(format!("{query}\n{}", colibri_types::letters::trim_end(&seen.concat())));
    }
    if std::env::var_os("COLIBRI_REWRITE").is_some() {
        std::fs::write(path, found.join("\n\n") + "\n").unwrap();
        return;
    }
    for (found, block) in found.iter().zip(golden.trim_end_matches('\n').split("\n\n")) {
        assert_eq!(found, block, "a pass makes something else of a query");
    }
}
