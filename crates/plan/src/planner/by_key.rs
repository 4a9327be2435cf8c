//! Queries that are run for each row of another: their rows are found by keys.
//!
//! ```text
//! SELECT sum(v) FROM n JOIN m ON … WHERE n.k = <outer> AND m.open AND m.at > <outer>
//!
//! SELECT sum(v) FROM rows WHERE at > <outer>
//!   rows, by k: SELECT k, v, at FROM n JOIN m ON … WHERE m.open         computed once, kept by k
//! ```
//! Everything that depends on no row outside is computed once, and its rows are kept by what they
//! have to be equal to: this is what decorrelating by a join with the grouped query comes to, with
//! each outer row's group computed when, and only if, somebody asks for it. So aggregates of no
//! rows, a second row where one is allowed, LIMIT, and conditions other than equalities mean what
//! they mean in the query as it was written, wherever the query stands, and what is not evaluated
//! raises no error.
//!
//! That pays if the query is run often enough, which only the run can tell: the plan has both ways,
//! and changes over once the written one has looked at as many rows as the other one costs (see
//! [`Node::Switch`]). So what is asked for a few rows, by a key or an index, stays as it is.

use colibri_types::{ColumnType, Result, Type};

use super::{Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::walk::{uses_slots, varies};
use crate::logical::{Body, Collation, Column, Distinct, From, Join, Query, Relation, Select, Source};
use crate::plan::Node;

/// A run that looks at no more rows than this is as quick as it gets.
const QUICK_ROWS: f64 = 16.0;
/// Computing the rows is given up when it has looked at this many times as many rows as expected.
const SLACK: f64 = 8.0;
/// Rows that it may look at in any case.
const ROWS_MIN: f64 = 1_000.0;

impl Planner<'_> {
    /// Plans a query that is run for each row of another.
    // Not inlined, as those that it calls are not: queries may stand deep inside each other.
    #[inline(never)]
    pub(super) fn repeated(&mut self, query: &Query) -> Result<Node> {
        if !self.may_have_two_ways() {
            return self.query(query);
        }
        let plain = self.in_two_ways(|planner| planner.query(query))?;
        let (_, each) = self.work(&plain);
        let rewrites = self.sizes.rewrites();
        if rewrites == Rewrites::None || (rewrites == Rewrites::Paying && each <= QUICK_ROWS) {
            return Ok(plain);
        }
        let Some(by_key) = by_key(query) else { return Ok(plain) };
        let mut by_key = self.in_two_ways(|planner| planner.query(&by_key))?;
        let Some(kept) = keyed_input(&mut by_key) else { return Ok(plain) };
        let (input, looked_at_max) = kept;
        let (_, once) = self.work(input);
        let (after, most) = match rewrites {
            Rewrites::All => (0, u64::MAX),
            _ => (once.ceil() as u64, (once * SLACK).max(ROWS_MIN) as u64),
        };
        *looked_at_max = most;
        Ok(Node::Switch { after, plain: Box::new(plain), by_key: Box::new(by_key) })
    }
}

/// What a plan keeps by keys, and when it gives that up.
fn keyed_input(node: &mut Node) -> Option<(&Node, &mut u64)> {
    match node {
        Node::Keyed { input, looked_at_max, .. } => Some((input, looked_at_max)),
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Aggregate { input, .. }
        | Node::Distinct { input, .. }
        | Node::Sort { input, .. }
        | Node::Expand { input, .. }
        | Node::RowNumber { input, .. }
        | Node::Limit { input, .. } => keyed_input(input),
        _ => None,
    }
}

/// The query over rows that are found by keys, if it can be one.
#[inline(never)]
fn by_key(query: &Query) -> Option<Query> {
    if query.is_marked || query.has_effects() || query.reads_working() {
        return None;
    }
    let Body::Select(select) = &query.body else { return None };
    let mut from = select.from.clone()?;
    let mut conditions = select.filter.clone();
    lift_conditions(&mut from, &mut conditions);
    let mut depends = select.relations.iter().any(depends_on_slots);
    from.for_each_condition(&mut |condition| depends |= uses_slots(condition));
    if depends {
        return None;
    }
    let parts = Parts::of(conditions);
    if parts.keys.is_empty() && parts.own.is_empty() && select.relations.len() == 1 {
        return None;
    }
    if !is_connected(&from, &select.relations, &parts.own) {
        return None;
    }
    Some(over_rows(query, select, from, parts))
}

fn depends_on_slots(relation: &Relation) -> bool {
    relation.source.taken().any(uses_slots)
        || matches!(relation.source, Source::Keyed { .. } | Source::Shared { uses_args: true, .. })
        || match &relation.source {
            Source::Query(query) => rewrite::query_uses_args(query),
            _ => false,
        }
}

/// Takes conditions on slots out of inner joins, where they mean what they mean in WHERE.
fn lift_conditions(from: &mut From, conditions: &mut Vec<Expr>) {
    if let From::Join { kind: Join::Inner, left, right, on } = from {
        let all = std::mem::take(on).into_iter().flat_map(rewrite::conjuncts);
        let (lifted, kept): (Vec<Expr>, Vec<Expr>) = all.partition(uses_slots);
        conditions.extend(lifted);
        *on = kept;
        lift_conditions(left, conditions);
        lift_conditions(right, conditions);
    }
}

/// The conditions of a query.
#[derive(Default)]
struct Parts {
    /// Equalities between what is of the query and what is outside of it.
    keys: Vec<(Expr, Expr)>,
    /// Those on the query alone.
    own: Vec<Expr>,
    /// All others.
    rest: Vec<Expr>,
}

impl Parts {
    fn of(conditions: Vec<Expr>) -> Self {
        let mut parts = Self::default();
        for condition in conditions.into_iter().flat_map(rewrite::conjuncts) {
            if !uses_slots(&condition) {
                parts.own.push(condition);
            } else if let Some(key) = key_of(&condition) {
                parts.keys.push(key);
            } else {
                parts.rest.push(condition);
            }
        }
        parts
    }
}

/// What of the query is to be equal to what outside.
fn key_of(condition: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { return None };
    if !rewrite::is_pure(condition) || varies(condition) {
        return None;
    }
    let has_columns = |expr: &Expr| rewrite::any(expr, &|part| matches!(part, Expr::Column(_)));
    match (has_columns(left), has_columns(right)) {
        (true, false) if !uses_slots(left) => Some(((**left).clone(), (**right).clone())),
        (false, true) if !uses_slots(right) => Some(((**right).clone(), (**left).clone())),
        _ => None,
    }
}

/// Whether conditions join all parts of FROM: the rows of parts that nothing joins would be all
/// pairs of these.
fn is_connected(from: &From, relations: &[Relation], own: &[Expr]) -> bool {
    let mut groups: Vec<usize> = (0..relations.len()).collect();
    fn join(groups: &mut [usize], members: &[usize]) {
        let Some(&first) = members.first() else { return };
        let to = groups[first];
        for &member in members {
            let old = groups[member];
            groups.iter_mut().filter(|group| **group == old).for_each(|group| *group = to);
        }
    }
    let of_expr = |expr: &Expr| {
        let mut members = Vec::new();
        rewrite::for_each_column(expr, &mut |column| {
            members.extend(relations.iter().position(|one| (one.base..one.base + one.width).contains(&column)));
        });
        members
    };
    own.iter().for_each(|condition| join(&mut groups, &of_expr(condition)));
    from.for_each_condition(&mut |condition| join(&mut groups, &of_expr(condition)));
    for (place, relation) in relations.iter().enumerate() {
        for expr in relation.source.taken() {
            let mut members = of_expr(expr);
            members.push(place);
            join(&mut groups, &members);
        }
    }
    groups.iter().all(|group| *group == groups[0])
}

/// The query over the rows of its FROM and its own conditions, of which it sees what it needs.
fn over_rows(query: &Query, select: &Select, from: From, parts: Parts) -> Query {
    let mut needed: Vec<usize> = Vec::new();
    let mut need = |expr: &Expr| {
        rewrite::for_each_column(expr, &mut |column| {
            if !needed.contains(&column) {
                needed.push(column);
            }
        });
    };
    let mut over = Select {
        relations: Vec::new(),
        from: Some(From::Relation(0)),
        filter: parts.rest,
        group: select.group.clone(),
        grouped_rows: select.grouped_rows.clone(),
        extras: select.extras.clone(),
        output: select.output.clone(),
        distinct: select.distinct.clone(),
    };
    over.for_each_over_rows(&mut need);
    let keys = parts.keys.len();
    over.for_each_over_rows_mut(&mut |expr| {
        rewrite::map_columns(expr, &|column| {
            needed.iter().position(|&other| other == column).map_or(column, |place| keys + place)
        });
    });
    let (of_rows, values): (Vec<Expr>, Vec<Expr>) = parts.keys.into_iter().unzip();
    let rows = Select {
        relations: select.relations.clone(),
        from: Some(from),
        filter: parts.own,
        group: None,
        grouped_rows: Vec::new(),
        extras: Vec::new(),
        output: of_rows.into_iter().chain(needed.into_iter().map(Expr::Column)).collect(),
        distinct: Distinct::No,
    };
    let width = rows.output.len();
    // Nobody asks for their names and types.
    let column = Column {
        name: Default::default(),
        ty: ColumnType::from(Type::Unknown),
        origin: None,
        collation: Collation::Default,
    };
    let rows = Query::plain(Body::Select(Box::new(rows)), vec![column; width]);
    let source = Source::Keyed { query: Box::new(rows), keys: values.into_iter().enumerate().collect() };
    over.relations.push(Relation::new(0, width, source, "rows".into()));
    Query { body: Body::Select(Box::new(over)), ..query.clone() }
}
