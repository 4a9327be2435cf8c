//! Lowering: the operators of a plan, made once.
//!
//! Invariant: operators are made in the plan's order ([`Node::for_each_operator`]), which is what
//! their numbers are.

use std::sync::Arc;

use super::Statement;
use super::adaptive_join::{AdaptiveJoinRun, OuterRows, RestRun};
use super::aggregate::Aggregate;
use super::choice::ChoiceRun;
use super::columns::Columns;
use super::constraints::has_query;
use super::delete::DeleteRun;
use super::first_rows::FirstRowsRun;
use super::group_scan::GroupScanRun;
use super::grouping_sets::GroupingSetsRun;
use super::hash_join::{HashJoin, HashJoinRun};
use super::insert::InsertRun;
use super::join::{NestedLoop, NestedLoopRun};
use super::keyed::KeyedRun;
use super::lock_rows::LockRowsRun;
use super::merge::MergeRun;
use super::merge_join::MergeJoin;
use super::needs::Needs;
use super::operator::Run;
use super::parallel::{Divided, Dividing, GatherRun};
use super::parts::{PartsRun, takes_away};
use super::pass_through::{AppendRun, FilterRun, LimitRun, ProjectRun, only_moves_rows};
use super::recursive::{RecursiveRun, WorkingRun};
use super::scan::{CountRun, ScanOperator};
use super::series::{ExpandRun, SeriesRun, ValuesRun};
use super::set_op::{DistinctRun, SetOpRun};
use super::sort::Sort;
use super::subquery::Memo;
use super::switch::SwitchRun;
use super::system::SystemRun;
use super::trees::{TreeDeleteRun, TreeInsertRun, TreeUpdateRun};
use super::update::UpdateRun;
use super::window::Window;
use super::with_queries::SharedRun;
use super::{datum_bytes, keyed, with_queries};
use crate::expr::{Expr, Subquery, walk};
use crate::plan::parallel::divided_by;
use crate::plan::{self, AggregateCall, KeyColumn, KeyedId, Node, RestId, Scan};

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
    /// Outer sides of adaptive joins, in their places.
    rests: Vec<RestId>,
    /// See [`super::Execution::may_fetch_anew`].
    pub(super) may_fetch_anew: bool,
    /// Something reads by columns, or in parts at the same time.
    pub(super) reads_in_bulk: bool,
    /// What is at hand and may be divided.
    dividing: Option<Dividing>,
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
    ///
    /// Every level of a plan takes a frame of this function, so operators are made elsewhere, once
    /// their inputs are there: in a build without optimization each of them would have its place in
    /// this frame.
    pub(super) fn run(&mut self, node: &Node) -> Run {
        let number = self.operators;
        self.operators += 1;
        self.may_fetch_anew |= reads_unstoppably(node) || matches!(node, Node::Parts { .. });
        node.for_each_expr(&mut |expr| self.queries(expr));
        match node {
            Node::Values { .. }
            | Node::Series { .. }
            | Node::System { .. }
            | Node::Scan(_)
            | Node::CountRange { .. }
            | Node::GroupScan(_)
            | Node::Working { .. } => without_input(number, node, self.dividing.as_ref()),
            Node::Expand { input, .. }
            | Node::Window { input, .. }
            | Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::GroupingSets { input, .. }
            | Node::Aggregate { input, .. }
            | Node::Distinct { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. }
            | Node::LockRows { input, .. } => {
                let input = self.run(input);
                over_one(number, node, input)
            }
            Node::Parallel { input } => {
                let Some(scan) = divided_by(input) else { return self.run(input) };
                self.gathered(number, input, scan)
            }
            Node::NestedLoop { outer: first, inner: second, .. }
            | Node::HashJoin { left: first, right: second, .. }
            | Node::MergeJoin { left: first, right: second, .. }
            | Node::SetOp { left: first, right: second, .. }
            | Node::Recursive { first, again: second, .. }
            | Node::Switch { plain: first, by_key: second, .. }
            | Node::FirstRows { in_order: first, sorted: second, .. } => {
                let first = self.run(first);
                let second = self.run(second);
                over_two(number, node, first, second)
            }
            Node::Choice { few_max, kept, few, many } => {
                let kept = self.run(kept);
                let few = self.run(few);
                let many = self.run(many);
                choice(number, *few_max, kept, few, many)
            }
            Node::AdaptiveJoin { rest, after, outer, few, many, .. } => {
                let outer = self.run(outer);
                let place = self.rests.len();
                self.rests.push(*rest);
                self.statement.outer_rows.push(Some(Box::new(OuterRows::new(outer))));
                let keeps_table = keeps_table(many);
                let few = self.run(few);
                let many = self.run(many);
                adaptive_join(number, place, *after, few, many, keeps_table)
            }
            Node::Rest { id, .. } => rest(number, self.rests.iter().position(|known| known == id)),
            Node::Append { inputs } => {
                let mut runs = Vec::with_capacity(inputs.len());
                for input in inputs {
                    runs.push(self.run(input));
                }
                append(number, runs)
            }
            Node::Shared { id, input } => {
                self.shared(*id, input);
                shared(number, *id)
            }
            Node::Parts { main, parts } => {
                let takes = !parts.is_empty() && (takes_away(main) || parts.iter().any(takes_away));
                let main = self.run(main);
                let mut runs = Vec::with_capacity(parts.len());
                for part in parts {
                    runs.push(self.run(part));
                }
                with_parts(number, main, runs, takes)
            }
            Node::Keyed { id, input, width, keys, looked_at_max } => {
                let place = self.keyed(*id, input, keys, *width);
                keyed_rows(number, place, *width, keys, *looked_at_max)
            }
            Node::Insert(insert) => {
                let source = self.run(&insert.source);
                over_one(number, node, source)
            }
            Node::Update(update) => {
                let source = self.run(&update.source);
                over_one(number, node, source)
            }
            Node::Delete(delete) => {
                let source = self.run(&delete.source);
                over_one(number, node, source)
            }
            Node::Merge(merge) => {
                let source = self.run(&merge.source);
                over_one(number, node, source)
            }
        }
    }

    #[inline(never)]
    fn gathered(&mut self, number: usize, plan: &Arc<Node>, scan: &Arc<Scan>) -> Run {
        let divided = self.divided(plan, scan);
        Run::new(number, GatherRun::new(divided.into_run(number + 1)))
    }

    /// A grouping or a sort that may be divided.
    pub(super) fn divided(&mut self, plan: &Arc<Node>, scan: &Arc<Scan>) -> Divided {
        self.reads_in_bulk = true;
        self.operators += 1;
        let input_number = self.operators;
        plan.for_each_expr(&mut |expr| self.queries(expr));
        let (Node::Aggregate { input, .. } | Node::Sort { input, .. }) = &**plan else {
            unreachable!("only groupings and sorts are divided")
        };
        let around = self.dividing.replace(Dividing::new(plan, scan, divided_anew));
        let input = self.run(input);
        let dividing = std::mem::replace(&mut self.dividing, around);
        match &**plan {
            Node::Aggregate { keys, calls, presorted, always, .. } => {
                let columns = plan::columns::Columns::new(plan, scan).map(Arc::new);
                let columns = columns.and_then(|columns| Columns::new(&columns, calls, input_number));
                let grouping = Aggregate::new(input, keys, calls, presorted, always);
                Divided::Aggregate(grouping.dividing(dividing).on_columns(columns))
            }
            Node::Sort { keys, top, presorted, .. } => {
                Divided::Sort(Sort::new(input, keys, top.as_ref(), *presorted).dividing(dividing))
            }
            _ => unreachable!("only groupings and sorts are divided"),
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
    fn keyed(&mut self, id: KeyedId, input: &Node, keys: &Arc<[KeyColumn]>, width: usize) -> usize {
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

#[inline(never)]
fn without_input(number: usize, node: &Node, dividing: Option<&Dividing>) -> Run {
    match node {
        Node::Values { rows } => Run::new(number, ValuesRun::new(rows)),
        Node::Series { series, args, numbered } => Run::new(number, SeriesRun::new(*series, args, *numbered)),
        Node::System { table, columns, lookup } => Run::new(number, SystemRun::new(table, columns, lookup)),
        Node::Scan(scan) => {
            Run::new(number, ScanOperator::new(scan, dividing.and_then(|dividing| dividing.morsel_of(scan))))
        }
        Node::CountRange { table, access } => Run::new(number, CountRun::new(table, access)),
        Node::GroupScan(scan) => Run::new(number, GroupScanRun::new(scan)),
        Node::Working { id, .. } => Run::new(number, WorkingRun::new(*id)),
        _ => unreachable!("it has inputs"),
    }
}

/// What is divided, once more.
fn divided_anew(plan: &Arc<Node>, scan: &Arc<Scan>) -> (Divided, Statement) {
    let mut lowering = Lowering::default();
    let divided = lowering.divided(plan, scan);
    (divided, lowering.statement)
}

#[inline(never)]
fn over_one(number: usize, node: &Node, input: Run) -> Run {
    match node {
        Node::Expand { calls, .. } => Run::new(number, ExpandRun::new(input, calls)),
        Node::Window { partition, order, calls, .. } => Run::new(number, Window::new(input, partition, order, calls)),
        Node::Filter { condition, .. } => Run::new(number, FilterRun::new(input, condition)),
        Node::Project { exprs, .. } => Run::new(number, ProjectRun::new(input, exprs)),
        Node::GroupingSets { sets, .. } => Run::new(number, GroupingSetsRun::new(input, sets)),
        Node::Aggregate { keys, calls, presorted, always, .. } => {
            Run::new(number, Aggregate::new(input, keys, calls, presorted, always))
        }
        Node::Distinct { columns, sorted, .. } => Run::new(number, DistinctRun::new(input, *columns, *sorted)),
        Node::Sort { keys, top, presorted, .. } => Run::new(number, Sort::new(input, keys, top.as_ref(), *presorted)),
        Node::Limit { limit, offset, input: of, ties } => {
            Run::new(number, LimitRun::new(input, (limit.as_ref(), offset.as_ref()), ties, only_moves_rows(of)))
        }
        Node::LockRows { targets, mode, if_locked, .. } => {
            Run::new(number, LockRowsRun::new(input, targets, *mode, *if_locked))
        }
        Node::Insert(insert) if insert.tree.is_some() => Run::new(number, TreeInsertRun::of_tree(insert, input)),
        Node::Update(update) if update.tree.is_some() => Run::new(number, TreeUpdateRun::of_tree(update, input)),
        Node::Delete(delete) if delete.tree.is_some() => Run::new(number, TreeDeleteRun::of_tree(delete, input)),
        Node::Insert(insert) => Run::new(number, InsertRun::new(insert, input)),
        Node::Update(update) => Run::new(number, UpdateRun::new(update, input)),
        Node::Delete(delete) => Run::new(number, DeleteRun::new(delete, input)),
        Node::Merge(merge) => Run::new(number, MergeRun::new(merge, input)),
        _ => unreachable!("it has not one input"),
    }
}

#[inline(never)]
fn over_two(number: usize, node: &Node, first: Run, second: Run) -> Run {
    match node {
        Node::NestedLoop { kind, first_slot, args, on, inner_width, .. } => {
            let join = NestedLoop {
                kind: *kind,
                first_slot: *first_slot,
                args: Arc::clone(args),
                on: on.clone(),
                inner_width: *inner_width,
                run: NestedLoopRun::new(first, second),
            };
            Run::new(number, join)
        }
        Node::HashJoin { kind, right, left_keys, right_keys, on, left_width, right_width, .. } => {
            let needs = [Needs::of_exprs(right_keys), Needs::of(right)];
            let join = HashJoin {
                kind: *kind,
                left_keys: Arc::clone(left_keys),
                right_keys: Arc::clone(right_keys),
                on: on.clone(),
                left_width: *left_width,
                right_width: *right_width,
                keeps_table: !needs.iter().any(|needs| needs.slots || needs.working || needs.volatile),
                run: HashJoinRun::new(first, second),
            };
            Run::new(number, join)
        }
        Node::MergeJoin { kind, keys, on, right_width, .. } => {
            Run::new(number, MergeJoin::new(*kind, (first, second), keys, on.as_ref(), *right_width))
        }
        Node::SetOp { op, all, .. } => Run::new(number, SetOpRun::new(first, second, *op, *all)),
        Node::Recursive { id, all, columns, .. } => {
            Run::new(number, RecursiveRun::new((first, second), *id, *all, *columns))
        }
        Node::Switch { after, .. } => Run::new(number, SwitchRun::new(*after, first, second)),
        Node::FirstRows { after, top, .. } => Run::new(number, FirstRowsRun::new(*after, top, first, second)),
        _ => unreachable!("it has not two inputs"),
    }
}

fn choice(number: usize, few_max: usize, kept: Run, few: Run, many: Run) -> Run {
    Run::new(number, ChoiceRun::new(few_max, kept, few, many))
}

/// Whether what a hash join of the rest of outer rows builds stays right when it is run again.
fn keeps_table(many: &Node) -> bool {
    match many {
        Node::Project { input, .. } => keeps_table(input),
        Node::HashJoin { left, right, right_keys, .. } if matches!(**left, Node::Rest { .. }) => {
            let needs = [Needs::of_exprs(right_keys), Needs::of(right)];
            !needs.iter().any(|needs| needs.slots || needs.working || needs.volatile)
        }
        _ => false,
    }
}

fn adaptive_join(number: usize, place: usize, after: u64, few: Run, many: Run, keeps_table: bool) -> Run {
    Run::new(number, AdaptiveJoinRun::new(place, after, few, many, keeps_table))
}

fn rest(number: usize, place: Option<usize>) -> Run {
    Run::new(number, RestRun::new(place.unwrap_or(usize::MAX)))
}

fn append(number: usize, inputs: Vec<Run>) -> Run {
    Run::new(number, AppendRun::new(inputs))
}

fn with_parts(number: usize, main: Run, parts: Vec<Run>, takes_away: bool) -> Run {
    Run::new(number, PartsRun::new(main, parts, takes_away))
}

fn shared(number: usize, id: usize) -> Run {
    Run::new(number, SharedRun::new(id))
}

fn keyed_rows(number: usize, place: usize, width: usize, keys: &Arc<[KeyColumn]>, looked_at_max: u64) -> Run {
    Run::new(number, KeyedRun::new(place, width, keys, looked_at_max))
}
