//! Lowering: the operators of a plan, made once.
//!
//! Invariant: operators are made in the plan's order ([`Node::for_each_operator`]), which is what
//! their numbers are.

use std::sync::Arc;

use super::Statement;
use super::aggregate::Aggregate;
use super::choice::ChoiceRun;
use super::constraints::has_query;
use super::delete::DeleteRun;
use super::hash_join::{HashJoin, HashJoinRun};
use super::insert::InsertRun;
use super::join::{NestedLoop, NestedLoopRun};
use super::keyed::KeyedRun;
use super::lock_rows::LockRowsRun;
use super::needs::Needs;
use super::operator::Run;
use super::pass_through::{AppendRun, FilterRun, LimitRun, ProjectRun};
use super::recursive::{RecursiveRun, WorkingRun};
use super::scan::{CountRun, ScanOperator};
use super::series::{ExpandRun, RowNumberRun, SeriesRun, SystemRun, ValuesRun};
use super::set_op::{DistinctRun, SetOpRun};
use super::sort::Sort;
use super::subquery::Memo;
use super::switch::SwitchRun;
use super::update::UpdateRun;
use super::with_queries::SharedRun;
use super::{datum_bytes, keyed, with_queries};
use crate::expr::{Expr, Subquery, walk};
use crate::plan::{AggregateCall, KeyedId, Node};

/// A plan's operators in the making.
#[derive(Default)]
pub(super) struct Lowering {
    /// How many there are.
    pub(super) operators: usize,
    /// About how much memory the plan's expressions take.
    pub(super) plan_bytes: usize,
    /// What they share.
    pub(super) statement: Statement,
    /// Rows that are kept by keys, in their places.
    keyed: Vec<KeyedId>,
    /// See [`super::Execution::may_fetch_anew`].
    pub(super) may_fetch_anew: bool,
}

/// Whether an operator reads a table in the middle of what it cannot stop: with a query in the keys
/// or the arguments of a grouping, the keys of a sort, a hash join or a numbering.
fn reads_unstoppably(node: &Node) -> bool {
    match node {
        Node::Aggregate { keys, calls, .. } => {
            let of_call = |call: &AggregateCall| {
                let order = call.order.iter().map(|key| &key.expr);
                call.args.iter().chain(&call.filter).chain(order).any(has_query)
            };
            keys.iter().any(has_query) || calls.iter().any(of_call)
        }
        Node::Sort { keys, .. } => keys.iter().any(|key| has_query(&key.expr)),
        Node::HashJoin { left_keys, right_keys, .. } => left_keys.iter().chain(right_keys.iter()).any(has_query),
        Node::RowNumber { partition, .. } => partition.iter().any(has_query),
        _ => false,
    }
}

/// A place for what has a number; `None` if it is taken.
fn place<T>(all: &mut Vec<Option<T>>, number: usize) -> Option<&mut Option<T>> {
    if all.len() <= number {
        all.resize_with(number + 1, || None);
    }
    all.get_mut(number).filter(|place| place.is_none())
}

impl Lowering {
    /// An operator with all below it.
    pub(super) fn run(&mut self, node: &Node) -> Run {
        let number = self.operators;
        self.operators += 1;
        self.may_fetch_anew |= reads_unstoppably(node);
        node.for_each_expr(&mut |expr| self.queries(expr));
        match node {
            Node::Values { rows } => Run::new(number, ValuesRun::new(rows)),
            Node::Series { series, args, numbered } => Run::new(number, SeriesRun::new(*series, args, *numbered)),
            Node::System { table } => Run::new(number, SystemRun::new(table)),
            Node::Expand { input, calls } => Run::new(number, ExpandRun::new(self.run(input), calls)),
            Node::RowNumber { input, partition } => Run::new(number, RowNumberRun::new(self.run(input), partition)),
            Node::Scan(scan) => Run::new(number, ScanOperator::new(scan)),
            Node::CountRange { table, access } => Run::new(number, CountRun::new(table, access)),
            Node::Filter { input, condition } => Run::new(number, FilterRun::new(self.run(input), condition)),
            Node::Project { input, exprs } => Run::new(number, ProjectRun::new(self.run(input), exprs)),
            Node::NestedLoop { .. } | Node::HashJoin { .. } => self.join(number, node),
            Node::Aggregate { input, keys, calls } => Run::new(number, Aggregate::new(self.run(input), keys, calls)),
            Node::Distinct { input, columns, sorted } => {
                Run::new(number, DistinctRun::new(self.run(input), *columns, *sorted))
            }
            Node::Sort { input, keys, top } => Run::new(number, Sort::new(self.run(input), keys, top.as_ref())),
            Node::Limit { input, limit, offset } => {
                Run::new(number, LimitRun::new(self.run(input), limit.as_ref(), offset.as_ref()))
            }
            Node::Append { inputs } => {
                Run::new(number, AppendRun::new(inputs.iter().map(|input| self.run(input)).collect()))
            }
            Node::SetOp { op, all, left, right } => {
                let (left, right) = (self.run(left), self.run(right));
                Run::new(number, SetOpRun::new(left, right, *op, *all))
            }
            Node::Shared { id, input } => {
                self.shared(*id, input);
                Run::new(number, SharedRun::new(*id))
            }
            Node::Recursive { id, name: _, all, columns, first, again } => {
                let terms = (self.run(first), self.run(again));
                Run::new(number, RecursiveRun::new(terms, *id, *all, *columns))
            }
            Node::Working { id, .. } => Run::new(number, WorkingRun::new(*id)),
            Node::Keyed { id, input, width, keys, looked_at_max } => {
                let place = self.keyed(*id, input, keys, *width);
                Run::new(number, KeyedRun::new(place, *width, keys, *looked_at_max))
            }
            Node::Switch { after, plain, by_key } => {
                let (plain, by_key) = (self.run(plain), self.run(by_key));
                Run::new(number, SwitchRun::new(*after, plain, by_key))
            }
            Node::Choice { few_max, kept, few, many } => {
                let (kept, few, many) = (self.run(kept), self.run(few), self.run(many));
                Run::new(number, ChoiceRun::new(*few_max, kept, few, many))
            }
            Node::LockRows { input, targets, mode, if_locked } => {
                Run::new(number, LockRowsRun::new(self.run(input), targets, *mode, *if_locked))
            }
            Node::Insert(insert) => Run::new(number, InsertRun::new(insert, self.run(&insert.source))),
            Node::Update(update) => Run::new(number, UpdateRun::new(update, self.run(&update.source))),
            Node::Delete(delete) => Run::new(number, DeleteRun::new(delete, self.run(&delete.source))),
        }
    }

    fn join(&mut self, number: usize, node: &Node) -> Run {
        match node {
            Node::NestedLoop { kind, outer, inner, first_slot, args, on, inner_width } => {
                let (outer, inner) = (self.run(outer), self.run(inner));
                let join = NestedLoop {
                    kind: *kind,
                    first_slot: *first_slot,
                    args: Arc::clone(args),
                    on: on.clone(),
                    inner_width: *inner_width,
                    run: NestedLoopRun::new(outer, inner),
                };
                Run::new(number, join)
            }
            Node::HashJoin { kind, left, right, left_keys, right_keys, on, left_width, right_width } => {
                let needs = [Needs::of_exprs(right_keys), Needs::of(right)];
                let (left, right) = (self.run(left), self.run(right));
                let join = HashJoin {
                    kind: *kind,
                    left_keys: Arc::clone(left_keys),
                    right_keys: Arc::clone(right_keys),
                    on: on.clone(),
                    left_width: *left_width,
                    right_width: *right_width,
                    keeps_table: !needs.iter().any(|needs| needs.slots || needs.working || needs.volatile),
                    run: HashJoinRun::new(left, right),
                };
                Run::new(number, join)
            }
            other => self.run(other),
        }
    }

    /// The queries inside an expression, of which each is run in one place, however many copies of
    /// the expression there are.
    fn queries(&mut self, expr: &Expr) {
        self.plan_bytes += size_of::<Expr>();
        match expr {
            Expr::Const(value) => self.plan_bytes += datum_bytes(value),
            Expr::Subquery(subquery) => self.query(subquery),
            _ => {}
        }
        walk::for_each_child(expr, &mut |child| self.queries(child));
    }

    fn query(&mut self, subquery: &Subquery) {
        if place(&mut self.statement.subqueries, subquery.id).is_none() {
            return;
        }
        let Ok(fragment) = subquery.fragment() else { return };
        let run = self.run(&fragment.root);
        self.statement.subqueries[subquery.id] = Some(Box::new(Memo::new(subquery, fragment, run)));
    }

    /// A query that several read.
    fn shared(&mut self, id: usize, input: &Node) {
        if place(&mut self.statement.shared, id).is_some() {
            let run = self.run(input);
            self.statement.shared[id] = Some(Box::new(with_queries::Kept::new(input, run)));
        }
    }

    /// The place of rows that are kept by keys.
    fn keyed(&mut self, id: KeyedId, input: &Node, keys: &[(usize, Expr)], width: usize) -> usize {
        if let Some(place) = self.keyed.iter().position(|known| *known == id) {
            return place;
        }
        self.keyed.push(id);
        let place = self.statement.keyed.len();
        self.statement.keyed.push(None);
        let run = self.run(input);
        self.statement.keyed[place] = Some(Box::new(keyed::Kept::new(run, keys, width)));
        place
    }
}
