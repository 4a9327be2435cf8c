//! Which parts of a SELECT's FROM are computed once, to be found by keys.
//!
//! FROM is taken apart into *clusters*: what inner joins put together. Relations of a cluster that
//! look at nothing outside are a *group* if conditions join them that look at nothing outside. The
//! rows of a group are computed once. Equalities with values from outside are its keys.
//!
//! | condition | of | counts for |
//! | --- | --- | --- |
//! | on one side alone | WHERE, over an outer join | the side whose rows the join keeps |
//! | on one side alone | ON of an outer join | the other side |
//! | any other | WHERE or ON | the join that it stands at, as it was written |
//!
//! `EXISTS (SELECT … FROM m WHERE m.b = n.b AND m.k = <outer>)`, as `IN` of the same kind, gives a
//! group a key that has none: `n` is joined with the distinct `b` and `k` of `m`. One of these at
//! most is a partner for given values of both, so the join gives no row twice.
//!
//! Invariant: each SELECT gives the rows that it gave, for each row outside.

use super::decorrelate::asks_outside;
use super::distinct_values::{Key, Values, joined, looks_outside, query_of, unnamed};
use super::joins::{Columns, columns_of};
use super::pull_up::pull_up;
use super::push_filters::{having_to_where, push_into};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::walk::uses_slots;
use crate::logical::{Body, Distinct, From, Join, Query, Relation, Select, Source};
use crate::plan::KeyColumn;

/// A WITH query that is read more than once is only rewritten if it stands no deeper than this:
/// each reader has a copy then.
const COPIES_DEPTH_MAX: usize = 2;

/// A query whose SELECTs find rows by keys, as far as they can; `None` if none of them can.
/// `depth`: in how many queries that are rewritten it stands.
#[inline(never)]
pub(super) fn query_by_key(query: &Query, depth: usize) -> Option<Query> {
    if query.is_marked {
        return None;
    }
    let body = match &query.body {
        Body::Select(select) => Body::Select(Box::new(select_by_key(select, depth)?)),
        Body::Set { op, all, left, right } => {
            let sides = (query_by_key(left, depth + 1), query_by_key(right, depth + 1));
            if sides.0.is_none() && sides.1.is_none() {
                return None;
            }
            let left = sides.0.map_or_else(|| left.clone(), Box::new);
            let right = sides.1.map_or_else(|| right.clone(), Box::new);
            Body::Set { op: *op, all: *all, left, right }
        }
        Body::Values(_) | Body::Recursive(_) | Body::GroupingSets(_) => return None,
    };
    Some(Query { body, ..query.clone() })
}

/// Has a query in FROM find its rows by keys. `false` if it looks at nothing outside, or cannot.
fn source_by_key(source: &mut Source, depth: usize) -> bool {
    let is_read_once = source.is_read_once();
    let by_key = match source {
        Source::Query(query) if rewrite::query_uses_args(query) => query_by_key(query, depth + 1),
        Source::Shared { query, uses_args: true, .. } if is_read_once || depth <= COPIES_DEPTH_MAX => {
            query_by_key(query, depth + 1)
        }
        _ => None,
    };
    let Some(by_key) = by_key else { return false };
    *source = Source::Query(Box::new(by_key));
    true
}

/// A SELECT whose FROM, or a query in it, finds rows by keys. `None` if nothing of it can; a query
/// in a condition that looks outside is something that can. `depth`: see [`query_by_key`].
#[inline(never)]
fn select_by_key(select: &Select, depth: usize) -> Option<Select> {
    let mut select = select.clone();
    pull_up(&mut select, &[]);
    having_to_where(&mut select);
    let mut has_changed = ask_queries(&mut select);
    for relation in &mut select.relations {
        has_changed |= source_by_key(&mut relation.source, depth);
    }
    let Some(from) = select.from.take() else { return has_changed.then_some(select) };
    let mut parts = Parts::new(std::mem::take(&mut select.relations));
    let (from, filter) = parts.take(from, conjuncts(std::mem::take(&mut select.filter)));
    has_changed |= !parts.kept.is_empty() || filter.iter().any(asks_outside);
    (select.from, select.filter) = (Some(from), filter);
    has_changed.then(|| parts.put_into(select))
}

/// Has queries in FROM that look outside look at conditions on them as well, which may be keys
/// inside.
fn ask_queries(select: &mut Select) -> bool {
    let Some(from) = &select.from else { return false };
    let mut has_asked = false;
    for condition in conjuncts(std::mem::take(&mut select.filter)) {
        let asked = select.relations.iter_mut().enumerate().find(|(at, relation)| {
            let columns = Columns::of(relation);
            columns.has_any(&condition) && columns.has_all(&condition) && from.keeps(*at)
        });
        let is_pushed = match asked {
            Some((_, relation)) => match &relation.source {
                Source::Query(query) if rewrite::query_uses_args(query) => {
                    push_into(&mut relation.source, relation.base, &condition)
                }
                _ => false,
            },
            None => false,
        };
        has_asked |= is_pushed;
        if !is_pushed {
            select.filter.push(condition);
        }
    }
    has_asked
}

fn conjuncts(conditions: Vec<Expr>) -> Vec<Expr> {
    conditions.into_iter().flat_map(rewrite::conjuncts).collect()
}

/// What inner joins put together: a relation, or an outer join.
struct Leaf {
    from: From,
    columns: Columns,
    /// It looks at nothing outside.
    is_free: bool,
    /// The same number for those that are joined.
    group: usize,
}

/// Leaves that are joined, whose rows can be computed once.
struct Group {
    number: usize,
    from: From,
    columns: Columns,
    /// Conditions on it alone.
    own: Vec<Expr>,
    /// What of it is equal to what outside.
    keys: Vec<Key>,
    /// Its place among the relations, once its rows are kept.
    place: Option<usize>,
}

/// FROM while it is taken apart.
struct Parts {
    relations: Vec<Relation>,
    /// Where the next relation's columns begin.
    end: usize,
    /// What is kept: the relation, and the columns of the wide row that it gives behind its keys.
    kept: Vec<(usize, Vec<usize>)>,
}

impl Parts {
    fn new(relations: Vec<Relation>) -> Self {
        let end = relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
        Self { relations, end, kept: Vec::new() }
    }

    /// Takes a piece of FROM apart, with conditions that are asked of its rows: gives what it has
    /// become, and the conditions that are left.
    #[inline(never)]
    fn take(&mut self, from: From, above: Vec<Expr>) -> (From, Vec<Expr>) {
        let From::Join { kind: kind @ (Join::Left | Join::Right | Join::Full), left, right, on } = from else {
            return self.take_cluster(from, above);
        };
        let sides = [columns_of(&left, &self.relations), columns_of(&right, &self.relations)];
        let split = |conditions: Vec<Expr>, side: usize| -> (Vec<Expr>, Vec<Expr>) {
            let is_of_side = |condition: &Expr| sides[side].has_any(condition) && sides[side].has_all(condition);
            conditions.into_iter().partition(is_of_side)
        };
        let (mut above, mut on) = (above, conjuncts(on));
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        match kind {
            Join::Left => {
                (of_left, above) = split(above, 0);
                (of_right, on) = split(on, 1);
            }
            Join::Right => {
                (of_left, on) = split(on, 0);
                (of_right, above) = split(above, 1);
            }
            _ => {}
        }
        let (left, left_over) = self.take(*left, of_left);
        let (right, right_over) = self.take(*right, of_right);
        let (kept, other) = if kind == Join::Right { (right_over, left_over) } else { (left_over, right_over) };
        above.extend(kept);
        on.extend(other);
        (From::Join { kind, left: Box::new(left), right: Box::new(right), on }, above)
    }

    /// As [`Parts::take`], of what inner joins put together.
    fn take_cluster(&mut self, from: From, above: Vec<Expr>) -> (From, Vec<Expr>) {
        let (mut leaves, mut conditions) = (Vec::new(), above);
        self.flatten(from, &mut leaves, &mut conditions);
        let mut conditions = conjuncts(conditions);
        self.mark_free(&mut leaves);
        for leaf in &mut leaves {
            if !leaf.is_free && matches!(leaf.from, From::Join { .. }) {
                let (of_leaf, rest): (Vec<Expr>, Vec<Expr>) = conditions
                    .into_iter()
                    .partition(|condition| leaf.columns.has_any(condition) && leaf.columns.has_all(condition));
                let (from, left_over) = self.take(leaf.from.clone(), of_leaf);
                (leaf.from, conditions) = (from, rest);
                conditions.extend(left_over);
            }
        }
        self.group(&mut leaves, &conditions);
        while let Some(leaf) = self.next_values(&leaves, &mut conditions) {
            leaves.push(leaf);
            self.group(&mut leaves, &conditions);
        }
        self.keep(leaves, conditions)
    }

    fn flatten(&self, from: From, leaves: &mut Vec<Leaf>, conditions: &mut Vec<Expr>) {
        match from {
            From::Join { kind: Join::Inner | Join::InnerInOrder, left, right, on } => {
                self.flatten(*left, leaves, conditions);
                self.flatten(*right, leaves, conditions);
                conditions.extend(on);
            }
            other => {
                let columns = columns_of(&other, &self.relations);
                leaves.push(Leaf { from: other, columns, is_free: true, group: 0 });
            }
        }
    }

    /// Finds the leaves that look at nothing outside, directly or through others.
    fn mark_free(&self, leaves: &mut [Leaf]) {
        for leaf in leaves.iter_mut() {
            leaf.is_free = !self.looks_outside(&leaf.from);
        }
        loop {
            let takes_of_bound = |leaf: &Leaf| {
                let mut takes = false;
                self.for_each_taken(&leaf.from, &mut |expr| {
                    takes |= leaves.iter().any(|other| !other.is_free && other.columns.has_any(expr));
                });
                leaf.is_free && takes
            };
            let Some(at) = leaves.iter().position(takes_of_bound) else { return };
            leaves[at].is_free = false;
        }
    }

    fn looks_outside(&self, from: &From) -> bool {
        looks_outside(from, &self.relations)
    }

    /// Calls something for each expression over the wide row that functions and LATERAL queries in
    /// a piece of FROM take.
    fn for_each_taken(&self, from: &From, visit: &mut dyn FnMut(&Expr)) {
        from.for_each_relation(&mut |at| self.relations[at].source.taken().for_each(&mut *visit));
    }

    /// Numbers the groups: free leaves are in one if a condition joins them that looks at nothing
    /// outside, or if one takes values of another.
    fn group(&self, leaves: &mut [Leaf], conditions: &[Expr]) {
        leaves.iter_mut().enumerate().for_each(|(place, leaf)| leaf.group = place);
        for condition in conditions.iter().filter(|condition| !uses_slots(condition)) {
            let members = members_of(leaves, condition);
            join_groups(leaves, &members);
        }
        for place in 0..leaves.len() {
            let mut members = vec![place];
            self.for_each_taken(&leaves[place].from, &mut |expr| members.extend(members_of(leaves, expr)));
            join_groups(leaves, &members);
        }
    }

    /// Puts the distinct values of a query in the place of the next condition that asks for it,
    /// looks outside, and gives a key to a group without one.
    fn next_values(&mut self, leaves: &[Leaf], conditions: &mut Vec<Expr>) -> Option<Leaf> {
        let has_key = |group: usize| {
            let mut keys = conditions.iter().filter_map(|condition| key_of(leaves, condition));
            keys.any(|(of, _)| of == group)
        };
        let (at, values) = conditions.iter().enumerate().find_map(|(at, condition)| {
            let group = group_of(leaves, condition)?;
            if has_key(group) { None } else { Some((at, Values::of(condition)?)) }
        })?;
        conditions.remove(at);
        let (base, width) = (self.end, values.own.len());
        self.end += width;
        for (place, value) in values.outside.iter().enumerate() {
            conditions.push(Expr::equals(Expr::Column(base + place), value.clone()));
        }
        let from = From::Relation(self.relations.len());
        let source = Source::Query(Box::new(values.distinct()));
        self.relations.push(Relation::new(base, width, source, "any".into()));
        let columns = columns_of(&from, &self.relations);
        Some(Leaf { from, columns, is_free: true, group: leaves.len() })
    }

    /// Keeps the rows of groups that have keys, or conditions or joins of their own; and those of a
    /// table that stands alone, which are looked at sooner where they are kept.
    fn keep(&mut self, leaves: Vec<Leaf>, conditions: Vec<Expr>) -> (From, Vec<Expr>) {
        let mut groups = groups_of(&leaves);
        let mut rest = Vec::new();
        for condition in conditions {
            let key = key_of(&leaves, &condition);
            let own = group_of(&leaves, &condition).filter(|_| !uses_slots(&condition));
            let number = key.as_ref().map(|(number, _)| *number).or(own);
            match (groups.iter_mut().find(|group| Some(group.number) == number), key) {
                (Some(group), Some((_, key))) => group.keys.push(key),
                (Some(group), None) => group.own.push(condition),
                (None, _) => rest.push(condition),
            }
        }
        let mut all = Vec::new();
        for leaf in leaves {
            let is_worth = |group: &Group| {
                !group.keys.is_empty() || !group.own.is_empty() || self.is_table_alone_or_join(&group.from)
            };
            match groups.iter_mut().find(|group| leaf.is_free && group.number == leaf.group && is_worth(group)) {
                None => all.push(leaf.from),
                Some(group) if group.place.is_none() => {
                    let place = self.rows_of(group);
                    group.place = Some(place);
                    all.push(From::Relation(place));
                }
                Some(_) => {}
            }
        }
        (all.into_iter().reduce(joined).expect("what is taken apart has a leaf"), rest)
    }

    fn is_table_alone_or_join(&self, from: &From) -> bool {
        match from {
            From::Relation(_) => matches!(&self.relations[..], [Relation { source: Source::Table(_), .. }]),
            From::Join { .. } => true,
        }
    }

    /// Makes a relation of a group: its place.
    fn rows_of(&mut self, group: &mut Group) -> usize {
        let (relations, from) = those_of(&self.relations, group.from.clone());
        let (mut output, mut keys) = (Vec::new(), Vec::new());
        for (column, key) in std::mem::take(&mut group.keys).into_iter().enumerate() {
            output.push(key.of_rows);
            keys.push(KeyColumn { column, value: key.value, with_nulls: key.with_nulls });
        }
        let of_relation = |relation: &Relation| relation.base..relation.base + relation.width;
        let columns: Vec<usize> =
            relations.iter().flat_map(of_relation).filter(|&column| group.columns.has(column)).collect();
        output.extend(columns.iter().copied().map(Expr::Column));
        let select = Select {
            relations,
            from: Some(from),
            filter: std::mem::take(&mut group.own),
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output,
            distinct: Distinct::No,
        };
        let source = Source::Keyed { query: Box::new(query_of(select)), keys };
        let place = self.relations.len();
        self.kept.push((place, columns));
        self.relations.push(Relation::new(0, 0, source, "rows".into()));
        place
    }

    /// Gives a SELECT its relations, of which the kept ones have the columns that it reads.
    fn put_into(mut self, mut select: Select) -> Select {
        let mut is_read = vec![false; self.end];
        let mut read = |expr: &Expr| rewrite::for_each_column(expr, &mut |column| is_read[column] = true);
        select.for_each_over_rows(&mut read);
        if let Some(from) = &select.from {
            from.for_each_condition(&mut read);
            self.for_each_taken(from, &mut read);
        }
        let mut places: Vec<usize> = (0..self.end).collect();
        for (place, columns) in &self.kept {
            let relation = &mut self.relations[*place];
            let Source::Keyed { query, keys } = &mut relation.source else { continue };
            let Body::Select(rows) = &mut query.body else { continue };
            let is_needed = |column: usize| columns[column - keys.len()];
            let mut at = 0;
            rows.output.retain(|_| {
                at += 1;
                at <= keys.len() || is_read[is_needed(at - 1)]
            });
            relation.base = self.end;
            let needed = columns.iter().filter(|&&column| is_read[column]);
            needed.enumerate().for_each(|(at, &column)| places[column] = relation.base + keys.len() + at);
            relation.width = rows.output.len();
            query.columns = unnamed(relation.width);
            self.end += relation.width;
        }
        let from = select.from.take().expect("FROM was taken apart");
        (select.relations, select.from) = {
            let (relations, from) = those_of(&self.relations, from);
            (relations, Some(from))
        };
        let mut map = |expr: &mut Expr| rewrite::map_columns(expr, &|column| places[column]);
        select.for_each_over_rows_mut(&mut map);
        select.from.iter_mut().for_each(|from| from.for_each_condition_mut(&mut map));
        select.relations.iter_mut().flat_map(|relation| relation.source.taken_mut()).for_each(map);
        select
    }
}

/// The leaves that an expression looks at.
fn members_of(leaves: &[Leaf], expr: &Expr) -> Vec<usize> {
    (0..leaves.len()).filter(|&leaf| leaves[leaf].columns.has_any(expr)).collect()
}

/// Makes one group of those that leaves are in, if all of them are free.
fn join_groups(leaves: &mut [Leaf], members: &[usize]) {
    let Some(&first) = members.first() else { return };
    if !members.iter().all(|&member| leaves[member].is_free) {
        return;
    }
    let to = leaves[first].group;
    for &member in members {
        let old = leaves[member].group;
        leaves.iter_mut().filter(|leaf| leaf.group == old).for_each(|leaf| leaf.group = to);
    }
}

/// The group that an expression looks at, if it looks at one and at nothing else in FROM.
fn group_of(leaves: &[Leaf], expr: &Expr) -> Option<usize> {
    let members = members_of(leaves, expr);
    let group = leaves[*members.first()?].group;
    members.iter().all(|&member| leaves[member].is_free && leaves[member].group == group).then_some(group)
}

fn groups_of(leaves: &[Leaf]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for leaf in leaves.iter().filter(|leaf| leaf.is_free) {
        let (from, columns) = (leaf.from.clone(), leaf.columns.clone());
        match groups.iter_mut().find(|group| group.number == leaf.group) {
            Some(group) => {
                group.columns = group.columns.with(&columns);
                group.from = joined(group.from.clone(), from);
            }
            None => {
                let (own, keys) = (Vec::new(), Vec::new());
                groups.push(Group { number: leaf.group, from, columns, own, keys, place: None });
            }
        }
    }
    groups
}

/// The group that an equality gives a key, and the key.
fn key_of(leaves: &[Leaf], condition: &Expr) -> Option<(usize, Key)> {
    let key = Key::of(condition)?;
    Some((group_of(leaves, &key.of_rows)?, key))
}

/// Relations that a piece of FROM names, in their order, and FROM over these.
fn those_of(relations: &[Relation], mut from: From) -> (Vec<Relation>, From) {
    let mut named = Vec::new();
    from.for_each_relation(&mut |at| named.push(at));
    named.sort_unstable();
    from.renumber(&|at| named.partition_point(|&named| named < at));
    (named.iter().map(|&at| relations[at].clone()).collect(), from)
}
