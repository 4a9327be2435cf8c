//! The order in which conditions are looked at.
//!
//! Conditions that all have to be true are looked at from the cheapest to the dearest, and those
//! that cost the same in the order in which they were written: so an error shows where it does in
//! PostgreSQL, whose measure this is. It counts calls: of an operator, a function, a cast that
//! computes something. A query that depends on no row costs nothing, since it is run once; one that
//! does costs more than anything else.

use colibri_types::{Category, Datum, Type, cast::CastContext, functions::Function};

use crate::bind::rewrite;
use crate::expr::{CompareOp, DomainRules, Expr, SessionFunction, Subquery, SubqueryKind, Test};

/// For a query that is run for each row.
const QUERY_COST: f64 = 1e6;
/// For one that PostgreSQL makes a join of: it comes behind whatever is looked at on the way to the
/// join.
const JOIN_COST: f64 = 2e6;
/// How many values an array is guessed to have that is not known yet.
const ARRAY_VALUES: f64 = 10.0;
/// The number of constants from which on a list is searched by hashes.
const HASHED_LIST_MIN: usize = 9;

/// One condition for many, the cheapest first.
pub(super) fn ordered(conditions: Vec<Expr>) -> Option<Expr> {
    let mut all: Vec<Expr> = conditions.into_iter().flat_map(rewrite::conjuncts).collect();
    if all.len() > 1 {
        // Equalities come behind others that cost the same: PostgreSQL finds out first what else
        // they say.
        let key = |condition: &Expr| (of_condition(condition), is_equality(condition));
        let mut keyed: Vec<((f64, bool), Expr)> =
            all.into_iter().map(|condition| (key(&condition), condition)).collect();
        keyed.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all = keyed.into_iter().map(|(_, condition)| condition).collect();
    }
    rewrite::conjunction(all)
}

fn is_equality(condition: &Expr) -> bool {
    match condition {
        Expr::Compare { op, .. } => *op == CompareOp::Eq,
        // Parameters are asked first whether they are NULL.
        Expr::Case { arms, otherwise } => {
            arms.iter().all(|(_, result)| matches!(result, Expr::Const(Datum::Null))) && is_equality(otherwise)
        }
        _ => false,
    }
}

/// What looking at a condition costs.
pub(super) fn of_condition(condition: &Expr) -> f64 {
    let inner = if let Expr::Not(inner) = condition { inner } else { condition };
    match inner {
        Expr::Subquery(subquery) => match &subquery.kind {
            SubqueryKind::Exists if !subquery.args.is_empty() => JOIN_COST,
            SubqueryKind::Quantified { op: CompareOp::Eq, all: false, .. } => JOIN_COST,
            _ => of(condition),
        },
        _ => of(condition),
    }
}

/// Whether a query is run for each row that a condition is looked at for.
pub(super) fn is_query_per_row(condition: &Expr) -> bool {
    rewrite::any(condition, &|part| matches!(part, Expr::Subquery(subquery) if !subquery.args.is_empty()))
}

/// What is computed for no row that a LIMIT leaves out costs more than this.
const DEAR_MIN: f64 = 10.0;

/// Whether a value is worth waiting for a LIMIT to be computed: it calls functions of users, or much
/// else.
pub(super) fn is_dear(expr: &Expr) -> bool {
    let calls_user = |part: &Expr| matches!(part, Expr::Session { function: SessionFunction::Routine(_), .. });
    of(expr) > DEAR_MIN || rewrite::any(expr, &calls_user)
}

/// The most that a look at a value of a domain is taken to cost.
const DOMAIN_COST_MAX: f64 = 1e9;

/// What evaluating an expression costs.
fn of(expr: &Expr) -> f64 {
    let own = match expr {
        Expr::Call { function, .. } => of_function(function),
        Expr::Chain { links, .. } => links.iter().map(|(function, _)| of_function(function)).sum(),
        Expr::CaseOf { arms, .. } => arms.len() as f64,
        Expr::Compare { .. } | Expr::Distinct { .. } | Expr::NullIf { .. } | Expr::Extreme { .. } => 1.0,
        Expr::Session { .. } => 1.0,
        Expr::CompareRows { left, .. } => left.len() as f64,
        Expr::Cast { from, to, context, .. } => of_cast(*from, to.ty, *context),
        Expr::InList { list, .. } => of_list(list.len(), list.iter().all(|item| matches!(item, Expr::Const(_)))),
        Expr::AnyOf { test, array, .. } => {
            let each = if let Test::Call(function) = test { of_function(function) } else { 1.0 };
            each * match &**array {
                Expr::Const(Datum::Array(array)) => of_list(array.values().len(), true),
                Expr::Array { values, .. } => of_list(values.len(), false),
                _ => ARRAY_VALUES / 2.0,
            }
        }
        Expr::Domain { rules, .. } => of_domain(rules),
        Expr::Subquery(subquery) => of_query(subquery),
        Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Arg(_) | Expr::And(_) | Expr::Or(_) => 0.0,
        Expr::Not(_) | Expr::IsNull { .. } | Expr::IsBool { .. } | Expr::Case { .. } | Expr::Coalesce(_) => 0.0,
        Expr::Array { .. } | Expr::Aggregate(_) | Expr::Extra(_) => 0.0,
    };
    let mut inside = 0.0;
    rewrite::for_each_child(expr, &mut |child| inside += of(child));
    own + inside
}

/// What a look at a value of a domain costs.
///
/// Bug: conditions of the domains inside conditions were walked again at each mention. Consequence:
/// forty domains whose conditions mention the one before twice took 2^40 steps to plan. Fix: what
/// a domain costs is kept with its rules, which the mentions share.
fn of_domain(rules: &DomainRules) -> f64 {
    *rules.cost.get_or_init(|| {
        let own: f64 = rules.checks.iter().map(|check| 1.0 + of(&check.condition)).sum();
        let fields = rules.fields.iter().map(|(_, rules)| &**rules);
        let parts: f64 = rules.elements.as_deref().into_iter().chain(fields).map(of_domain).sum();
        // No more than makes sense, however often domains mention each other.
        (own + parts).min(DOMAIN_COST_MAX)
    })
}

fn of_list(values: usize, constant: bool) -> f64 {
    match values {
        0 | 1 => 1.0,
        // One hash and one comparison.
        values if constant && values >= HASHED_LIST_MIN => 2.0,
        values => values as f64 / 2.0,
    }
}

fn of_function(function: &Function) -> f64 {
    match function.name {
        "col_description" | "obj_description" | "shobj_description" => 100.0,
        "ts_headline" | "to_tsvector" | "jsonb_to_tsvector" | "json_to_tsvector" => 100.0,
        "to_tsquery" | "plainto_tsquery" | "phraseto_tsquery" | "websearch_to_tsquery" => 100.0,
        "has_any_column_privilege" => 10.0,
        name if name.ends_with("_is_visible") => 10.0,
        _ => 1.0,
    }
}

fn of_cast(from: Type, to: Type, context: CastContext) -> f64 {
    // What PostgreSQL compares and computes with across types takes no cast there.
    let is_float = |ty: Type| matches!(ty, Type::Float4 | Type::Float8);
    let across = (from.is_integer() && to.is_integer())
        || (is_float(from) && is_float(to))
        || (from.category() == Category::DateTime && to.category() == Category::DateTime);
    if (from.is_text() && to.is_text() && from != Type::Char) || (across && context == CastContext::Implicit) {
        return 0.0;
    }
    // Through a text: one function writes, the other one reads.
    let is_text = |ty: Type| ty.category() == Category::String;
    if is_text(from) != is_text(to) && from != Type::Bool { 2.0 } else { 1.0 }
}

fn of_query(subquery: &Subquery) -> f64 {
    match &subquery.kind {
        _ if !subquery.args.is_empty() => QUERY_COST,
        // Looked up in what the query gave.
        SubqueryKind::Quantified { op: CompareOp::Eq, all: false, left }
        | SubqueryKind::Quantified { op: CompareOp::Ne, all: true, left } => left.len() as f64,
        SubqueryKind::Quantified { .. } => QUERY_COST,
        SubqueryKind::Exists | SubqueryKind::Scalar | SubqueryKind::Array(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colibri_types::functions::ON_VALUES;

    fn call(symbol: &str, args: Vec<Expr>) -> Expr {
        let function = ON_VALUES.operator(symbol, Some(Type::Int4), Type::Int4).expect("an operator");
        Expr::Call { function, args }
    }

    fn compare(op: CompareOp, left: Expr) -> Expr {
        Expr::Compare { op, left: Box::new(left), right: Box::new(Expr::Const(Datum::Int(0))) }
    }

    #[test]
    fn the_cheapest_condition_comes_first_and_the_order_stays_where_costs_are_equal() {
        let divided =
            |column| compare(CompareOp::Gt, call("/", vec![Expr::Const(Datum::Int(1)), Expr::Column(column)]));
        let plain = |column| compare(CompareOp::Gt, Expr::Column(column));
        let Some(Expr::And(all)) = ordered(vec![divided(0), divided(1), plain(2), plain(3)]) else {
            panic!("four conditions are one of AND")
        };
        let mut columns = Vec::new();
        all.iter().for_each(|condition| rewrite::for_each_column(condition, &mut |column| columns.push(column)));
        assert_eq!(columns, [2, 3, 0, 1]);
    }
}
