//! Conditions that ask whether a value outside has a group, as the values of all groups.
//!
//! ```text
//! EXISTS (SELECT 1 FROM m WHERE m.k = <outer> AND m.open GROUP BY m.k HAVING count(*) > 3)
//!
//! own: m.k   outside: <outer>   groups: SELECT m.k FROM m WHERE m.open GROUP BY m.k HAVING count(*) > 3
//! ```
//! All groups are computed, also those that nobody asks for. So nothing in them may fail: other
//! queries stay as they were written.
//!
//! Invariant: for each value outside, the groups with this value are those that the query has for it.
//! A query without GROUP BY has a group for every value, also for one that has no rows; its condition
//! has to refuse that one.

use colibri_types::{Datum, Type};

use super::Planner;
use super::constants::may_fail;
use super::distinct_values::{Key, looks_outside, query_of};
use crate::bind::rewrite;
use crate::expr::{Expr, Inner, Subquery};
use crate::logical::walk::uses_slots;
use crate::logical::{Body, Distinct, Group, Query, Select};
use crate::plan::AggregateCall;

/// A query of all groups that fulfil a condition.
pub(super) struct GroupedValues {
    /// Its columns are the values that are compared.
    pub(super) groups: Query,
    /// What each column is to be equal to, over the row outside.
    pub(super) outside: Vec<Expr>,
}

impl Planner<'_> {
    /// Of a query that is asked whether it has a row; `None` if it asks for more than groups of
    /// values outside.
    pub(super) fn grouped_values(&mut self, subquery: &Subquery) -> Option<GroupedValues> {
        let Inner::Logical(query) = &subquery.query else { return None };
        let Body::Select(select) = &query.body else { return None };
        let is_plain = query.limit.is_none()
            && query.offset.is_none()
            && query.barrier.is_none()
            && select.extras.is_empty()
            && select.grouped_rows.is_empty()
            && !query.is_marked
            && !query.has_effects()
            && !query.reads_working();
        let group = select.group.as_ref().filter(|group| is_plain && group.always.is_empty())?;
        let mut having: Vec<Expr> = group.having.iter().cloned().collect();
        self.simplify_conditions(&mut having);
        if !having.iter().all(|condition| rewrite::is_pure(condition) && !uses_slots(condition) && !may_fail(condition))
            || !group.keys.iter().all(|key| rewrite::is_pure(key) && !uses_slots(key) && !may_fail(key))
            || !group.calls.iter().all(never_fails)
            || group.keys.is_empty() && !self.refuses_no_rows(group, &having)
        {
            return None;
        }
        let (mut from, mut conditions) = (select.from.clone()?, select.filter.clone());
        from.lift_of_inner(&uses_slots, &mut conditions);
        if looks_outside(&from, &select.relations) {
            return None;
        }
        let (mut keys, mut outside, mut filter) = (group.keys.clone(), Vec::new(), Vec::new());
        let mut output = Vec::new();
        for condition in conditions.into_iter().flat_map(rewrite::conjuncts) {
            if !uses_slots(&condition) {
                if may_fail(&condition) || !rewrite::is_pure(&condition) {
                    return None;
                }
                filter.push(condition);
                continue;
            }
            let key = Key::of(&condition).filter(|key| !key.with_nulls && !may_fail(&condition))?;
            let place = keys.iter().position(|known| rewrite::same(known, &key.of_rows)).unwrap_or(keys.len());
            if place == keys.len() {
                keys.push(key.of_rows);
            }
            output.push(Expr::Column(place));
            let mut value = key.value;
            rewrite::substitute_slots(&mut value, &|slot| subquery.args[slot].clone());
            outside.push(value);
        }
        if outside.is_empty() {
            return None;
        }
        let group = Group { keys, having: rewrite::conjunction(having), ..group.clone() };
        let (from, group, distinct) = (Some(from), Some(group), Distinct::No);
        let groups = query_of(Select { from, filter, group, output, distinct, ..(**select).clone() });
        Some(GroupedValues { groups, outside })
    }

    /// Whether the group of no rows does not fulfil the conditions.
    fn refuses_no_rows(&self, group: &Group, having: &[Expr]) -> bool {
        let of_no_rows = |call: &AggregateCall| match call.aggregate.name {
            "count" => Datum::Int(0),
            _ => Datum::Null,
        };
        let values: Vec<Datum> = group.calls.iter().map(of_no_rows).collect();
        having.iter().any(|condition| {
            let mut condition = condition.clone();
            put_values(&mut condition, &values);
            let depends =
                rewrite::uses_row(&condition) || rewrite::any(&condition, &|part| matches!(part, Expr::Param(_)));
            !depends && !matches!(self.sizes.value_of(&condition, self.env), Err(_) | Ok(Datum::Bool(true)))
        })
    }
}

/// Puts values in the place of what aggregates give.
fn put_values(expr: &mut Expr, values: &[Datum]) {
    match expr {
        Expr::Aggregate(call) => *expr = Expr::Const(values[*call].clone()),
        other => rewrite::for_each_child_mut(other, &mut |child| put_values(child, values)),
    }
}

/// Whether an aggregate fails for no rows that there may be.
fn never_fails(call: &AggregateCall) -> bool {
    let exact = |ty: &Type| ty.is_integer() || *ty == Type::Numeric;
    let is_safe = match call.aggregate.name {
        "count" | "min" | "max" | "bool_and" | "bool_or" | "every" => true,
        "sum" | "avg" => call.aggregate.args.iter().all(exact),
        _ => false,
    };
    let parts = || call.args.iter().chain(&call.filter);
    is_safe
        && call.order.is_empty()
        && parts().all(|part| rewrite::is_pure(part) && !may_fail(part) && !uses_slots(part))
}
