//! Planning INSERT, UPDATE and DELETE.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_types::{Category, Datum, Env, Error, Result, Type};

use super::access::Wanted;
use super::joins::{Tables, add_needed};
use super::order::Order;
use super::pull_up::pull_up;
use super::{Asked, Planner, Rewrites, Sizes, trees_of};
use crate::bind::{
    BoundAction, BoundChange, BoundDelete, BoundInsert, BoundMerge, BoundUpdate, BoundValue, BoundWhat, Part, rewrite,
};
use crate::expr::Expr;
use crate::expr::walk::for_each_subquery;
use crate::logical::{self, Distinct, Query, Relation, Select};
use crate::plan::{
    Access, AssignedValue, Assignment, ConflictAction, Delete, Fragment, Insert, Merge, MergeAction, MergeWhat, Node,
    OnConflict, TableRules, Update,
};

/// What RETURNING gives; nothing without it.
type Returned = Option<Vec<logical::Column>>;

/// The main part of a statement.
#[expect(clippy::large_enum_variant, reason = "there is one for a statement, which is soon taken apart")]
pub enum Main {
    Query(Query),
    Change(BoundChange, Arc<TableRules>),
}

/// Plans a statement with the parts of it that stand in WITH and write, each with what it has to
/// obey.
pub fn plan_statement(
    main: Main,
    parts: Vec<(Part, Arc<TableRules>)>,
    sizes: &dyn Sizes,
    env: &Env,
) -> Result<Fragment> {
    let mut planner = Planner::new(sizes, env, 0);
    let mut planned = Vec::with_capacity(parts.len());
    for (Part { id, change }, rules) in parts {
        let input = Arc::new(planner.change(change, rules)?.0);
        planner.shared.insert(id, Arc::clone(&input));
        planned.push(Node::Shared { id, input });
    }
    let (main, columns) = match main {
        Main::Query(query) => (planner.query(&query)?, Some(query.columns)),
        Main::Change(change, rules) => planner.change(change, rules)?,
    };
    // What a statement looks at while it writes is not to see its own changes either.
    let root = match planned.is_empty() && !reads_while_it_writes(&main) {
        true => main,
        false => Node::Parts { main: Box::new(main), parts: planned },
    };
    Ok(planner.fragment(root, super::output_columns(&columns.unwrap_or_default())))
}

impl Planner<'_> {
    fn change(&mut self, change: BoundChange, rules: Arc<TableRules>) -> Result<(Node, Returned)> {
        match change {
            BoundChange::Insert(insert) => self.insert(insert, rules),
            BoundChange::Update(update) => self.update(update, rules),
            BoundChange::Delete(delete) => self.delete(delete, rules),
            BoundChange::Merge(merge) => Ok((self.merge_rows(merge, rules)?, None)),
        }
    }

    /// Has the passes go over a statement that changes rows, as over a SELECT of its expressions.
    /// Gives the width of the wide row, as far as the statement reads it.
    fn rewrite_changes(
        &mut self,
        relations: &mut Vec<Relation>,
        from: &mut logical::From,
        filter: &mut Vec<Expr>,
        exprs: Vec<&mut Expr>,
    ) -> Result<usize> {
        let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::Const(Datum::Null));
        let mut exprs = exprs;
        // The table whose rows are changed comes first.
        let target: Vec<usize> = relations.first().map_or_else(Vec::new, |first| (0..first.width).collect());
        let mut select = Select {
            relations: std::mem::take(relations),
            from: Some(from.clone()),
            filter: std::mem::take(filter),
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output: exprs.iter_mut().map(|expr| taken(expr)).collect(),
            distinct: Distinct::No,
        };
        // What stands in FROM from here on only helps to find rows.
        if self.sizes.rewrites() != Rewrites::None {
            pull_up(&mut select, &target);
        }
        let width = width(&select.relations);
        self.rewrite(&mut select, &Asked { columns: &target, query: None })?;
        (*relations, *filter) = (select.relations, select.filter);
        *from = select.from.ok_or_else(|| Error::internal("a change of rows has lost its table"))?;
        exprs.into_iter().zip(select.output).for_each(|(expr, rewritten)| *expr = rewritten);
        Ok(width)
    }
}

impl Planner<'_> {
    /// Plans INSERT.
    fn insert(&mut self, mut bound: BoundInsert, rules: Arc<TableRules>) -> Result<(Node, Returned)> {
        bound.values.iter_mut().try_for_each(|value| self.prepare(value))?;
        if let Some((returning, _)) = &mut bound.returning {
            returning.iter_mut().try_for_each(|expr| self.prepare(expr))?;
        }
        bound.security.exprs_mut().try_for_each(|expr| self.prepare(expr))?;
        bound.on_conflict.iter_mut().try_for_each(|conflict| lower_conflict(self, conflict))?;
        if let Some(OnConflict { action: ConflictAction::Update { assignments, .. }, .. }) = &mut bound.on_conflict {
            let changed: Vec<usize> = assignments.iter().map(|assignment| assignment.column).collect();
            assignments.extend(generated(&rules, &changed));
        }
        let input = match &bound.source {
            Some(query) => self.query(query)?,
            None => Node::Values { rows: [Vec::new()].into() },
        };
        let source = Node::Project { input: Box::new(input), exprs: bound.values.into() };
        let (returning, columns) = bound.returning.unzip();
        let security = bound.security;
        let tree = bound
            .tree
            .map(|written| trees_of::inserts(written, bound.on_conflict.as_ref(), (returning.as_deref(), &security)));
        let tree = tree.transpose()?;
        let on_conflict = bound.on_conflict;
        let insert = Insert { table: bound.table, source, on_conflict, returning, rules, security, tree };
        Ok((Node::Insert(Arc::new(insert)), columns))
    }
}

/// Whether queries of a statement beside its source, which run while it writes, may read what it
/// writes: those of MERGE may, and so may queries in RETURNING and in ON CONFLICT.
fn reads_while_it_writes(node: &Node) -> bool {
    let (table, mut exprs): (_, Vec<&Expr>) = match node {
        Node::Merge(_) => return true,
        Node::Insert(insert) => {
            (&insert.table, insert.returning.iter().flatten().chain(insert.security.exprs()).collect())
        }
        Node::Update(update) => {
            (&update.table, update.returning.iter().flatten().chain(update.security.exprs()).collect())
        }
        Node::Delete(delete) => (&delete.table, delete.returning.iter().flatten().collect()),
        _ => return false,
    };
    if let Node::Insert(insert) = node
        && let Some(OnConflict { action: ConflictAction::Update { assignments, condition }, .. }) = &insert.on_conflict
    {
        exprs.extend(condition);
        exprs.extend(assignments.iter().map(|assignment| match &assignment.value {
            AssignedValue::Expr(expr) | AssignedValue::Generated(expr) | AssignedValue::Add { amount: expr, .. } => {
                expr
            }
        }));
    }
    let tree = match node {
        Node::Insert(insert) => insert.tree.as_ref().map(|change| &change.tree),
        Node::Update(update) => update.tree.as_ref().map(|change| &change.tree),
        Node::Delete(delete) => delete.tree.as_ref().map(|change| &change.tree),
        _ => None,
    };
    let mut reads = false;
    for expr in exprs {
        for_each_subquery(expr, &mut |query| {
            let Ok(fragment) = query.fragment() else { return };
            fragment.root.for_each_operator(&mut |node| {
                let read = match node {
                    Node::Scan(scan) => scan.table.id,
                    Node::CountRange { table, .. } => table.id,
                    Node::GroupScan(scan) => scan.table.id,
                    _ => return,
                };
                let is_leaf = |leaf: &crate::plan::partitions::Leaf| leaf.table.id == read;
                reads |= read == table.id || tree.is_some_and(|tree| tree.leaves.iter().any(is_leaf));
            });
        });
    }
    reads
}

/// What columns become that are computed of some others.
fn generated(rules: &TableRules, changed: &[usize]) -> Vec<Assignment> {
    let assigned =
        |(column, expr): &(usize, Expr)| Assignment { column: *column, value: AssignedValue::Generated(expr.clone()) };
    rules.generated_of(changed).map(assigned).collect()
}

/// Plans the queries inside the expressions of ON CONFLICT.
fn lower_conflict(planner: &mut Planner<'_>, conflict: &mut OnConflict) -> Result<()> {
    let ConflictAction::Update { assignments, condition } = &mut conflict.action else { return Ok(()) };
    for Assignment { value, .. } in assignments {
        let (AssignedValue::Expr(expr) | AssignedValue::Generated(expr) | AssignedValue::Add { amount: expr, .. }) =
            value;
        planner.lower(expr)?;
    }
    condition.iter_mut().try_for_each(|condition| planner.lower(condition))
}

/// Columns of a table that the checks, indexes and foreign keys touched by changes of some columns
/// look at.
fn touched_by(table: &Table, rules: &TableRules, changed: &[usize]) -> Vec<usize> {
    let mut columns = table.key_columns().to_vec();
    for index in &table.indexes {
        let of_index = rules.columns_of(index);
        if of_index.iter().any(|column| changed.contains(column)) {
            columns.extend(of_index);
        }
    }
    for (name, check) in &rules.checks {
        let mut of_check = Vec::new();
        rewrite::for_each_column(check, &mut |column| of_check.push(column));
        if of_check.iter().any(|column| changed.contains(column)) || table.is_not_valid(name) {
            columns.extend(of_check);
        }
    }
    let keys = rules.foreign_keys.iter().map(|key| &key.columns);
    for of_key in keys.chain(rules.referenced_by.iter().map(|rule| &rule.columns)) {
        if of_key.iter().any(|column| changed.contains(column)) {
            columns.extend(of_key);
        }
    }
    // A row whose key changes moves: all of it is written anew.
    if table.key_columns().iter().any(|column| changed.contains(column)) {
        columns.extend(table.live_columns().map(|(column, _)| column));
    }
    columns
}

/// Whether an assignment adds to its own column: the amount, and the function that adds.
fn addition(table: &Table, column: usize, expr: &Expr) -> Option<(Expr, &'static colibri_types::functions::Function)> {
    let inner = match expr {
        // To the column's own type: the scale of numeric(p, s).
        Expr::Cast { input, from, to, .. } if *from == to.ty && *to == table.columns[column].ty => input,
        other => other,
    };
    let Expr::Call { function, args } = inner else { return None };
    let ty = table.columns[column].ty.ty;
    if ty.category() != Category::Number || ty == Type::Oid || function.result != ty || function.args != [ty, ty] {
        return None;
    }
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(other) if *other == column);
    let amount = match (function.name, &args[..]) {
        ("+" | "-", [target, amount]) if is_column(target) => amount,
        ("+", [amount, target]) if is_column(target) => amount,
        _ => return None,
    };
    let mut own = false;
    rewrite::for_each_column(amount, &mut |other| own = own || other == column);
    (!own && !rewrite::is_volatile(amount)).then(|| (amount.clone(), *function))
}

impl Planner<'_> {
    /// Plans UPDATE.
    fn update(&mut self, mut bound: BoundUpdate, rules: Arc<TableRules>) -> Result<(Node, Returned)> {
        let values = bound.assignments.iter_mut().map(|(_, value)| &mut value.expr);
        let exprs = values.chain(bound.returning.iter_mut().flat_map(|(exprs, _)| exprs)).collect();
        let width = self.rewrite_changes(&mut bound.relations, &mut bound.from, &mut bound.filter, exprs)?;
        let table = bound.table;
        let mut security = bound.security;
        security.exprs_mut().try_for_each(|expr| self.prepare(expr))?;
        let (mut returning, columns) = bound.returning.unzip();
        let mut changed: Vec<usize> = bound.assignments.iter().map(|(column, _)| *column).collect();
        let generated = generated(&rules, &changed);
        changed.extend(generated.iter().map(|assignment| assignment.column));
        let mut touched = touched_by(&table, &rules, &changed);
        if rules.triggers.is_some() {
            touched.extend(table.live_columns().map(|(column, _)| column));
        }
        for Assignment { value, .. } in &generated {
            if let AssignedValue::Generated(expr) = value {
                rewrite::for_each_column(expr, &mut |column| touched.push(column));
            }
        }
        security.exprs().for_each(|expr| rewrite::for_each_column(expr, &mut |column| touched.push(column)));
        // How often each column is looked at, aside from an addition to itself.
        let reads = |column: usize, except: Option<usize>| {
            let mut found = touched.contains(&column);
            let mut look = |expr: &Expr| rewrite::for_each_column(expr, &mut |other| found = found || other == column);
            bound.filter.iter().chain(bound.relations.iter().flat_map(|one| &one.filter)).for_each(&mut look);
            returning.iter().flatten().for_each(&mut look);
            for (index, (_, value)) in bound.assignments.iter().enumerate() {
                if Some(index) != except {
                    look(&value.expr);
                }
            }
            found || from_reads(&bound.from, column)
        };
        let mut assignments = Vec::with_capacity(bound.assignments.len());
        for (index, (column, value)) in bound.assignments.iter().enumerate() {
            let value = match addition(&table, *column, &value.expr) {
                // What a partition has of its own may look at the column.
                Some((amount, function)) if bound.tree.is_none() && !reads(*column, Some(index)) => {
                    AssignedValue::Add { amount, function }
                }
                _ => AssignedValue::Expr(value.expr.clone()),
            };
            assignments.push(Assignment { column: *column, value });
        }
        assignments.extend(generated);
        let mut needed = vec![Vec::new(); bound.relations.len()];
        {
            let mut need = |expr: &Expr| {
                rewrite::for_each_column(expr, &mut |place| add_needed(&bound.relations, &mut needed, place));
            };
            touched.iter().for_each(|&column| need(&Expr::Column(column)));
            if let Some(written) = &bound.tree {
                trees_of::for_each_column(&written.tree, &mut |column| need(&Expr::Column(column)));
            } else if table.primary_key.is_none() {
                need(&Expr::Column(table.columns.len()));
            }
            for assignment in &assignments {
                match &assignment.value {
                    AssignedValue::Expr(expr)
                    | AssignedValue::Generated(expr)
                    | AssignedValue::Add { amount: expr, .. } => {
                        need(expr);
                    }
                }
            }
            returning.iter().flatten().for_each(&mut need);
        }
        let source = source(self, (&bound.relations, width), &bound.from, bound.filter, &needed)?;
        let source = ahead_of_update(source, width, &mut assignments, returning.as_mut());
        let tree =
            bound.tree.map(|written| trees_of::updates(written, &assignments, (returning.as_deref(), &security)));
        let update = Update { table, source, assignments, returning, rules, security, tree };
        Ok((Node::Update(Arc::new(update)), columns))
    }
}

fn width(relations: &[Relation]) -> usize {
    relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0)
}

fn has_query(expr: &Expr) -> bool {
    rewrite::any(expr, &|part| matches!(part, Expr::Subquery(_)))
}

/// Evaluates expressions over a source's row with the source, behind its `width` columns, and puts
/// those columns in their place.
fn ahead<'e>(source: Node, width: usize, exprs: impl Iterator<Item = &'e mut Expr>) -> Node {
    let mut columns: Vec<Expr> = (0..width).map(Expr::Column).collect();
    for expr in exprs {
        let place = Expr::Column(columns.len());
        columns.push(std::mem::replace(expr, place));
    }
    if columns.len() == width { source } else { Node::Project { input: Box::new(source), exprs: columns.into() } }
}

/// Queries in assignments and in RETURNING see the tables as they were before the statement. So
/// they are evaluated with the rows of the source, all of which are there before the first one is
/// changed.
fn ahead_of_update(
    source: Node,
    width: usize,
    assignments: &mut [Assignment],
    returning: Option<&mut Vec<Expr>>,
) -> Node {
    let mut asking: Vec<&mut Expr> = returning.into_iter().flatten().filter(|expr| has_query(expr)).collect();
    let has_asking = !asking.is_empty();
    let mut values: Vec<(usize, &mut Expr)> = Vec::new();
    for Assignment { column, value } in assignments {
        let (AssignedValue::Expr(expr) | AssignedValue::Add { amount: expr, .. }) = value else { continue };
        // RETURNING looks at the new row, which its queries need to know then.
        if has_asking || has_query(expr) {
            values.push((*column, expr));
        }
    }
    let assigned: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
    let source = ahead(source, width, values.into_iter().map(|(_, expr)| expr));
    for expr in &mut asking {
        let new = |column| match assigned.iter().position(|&other| other == column) {
            Some(place) => Expr::Column(width + place),
            None => Expr::Column(column),
        };
        rewrite::substitute(expr, &new);
    }
    ahead(source, width + assigned.len(), asking.into_iter())
}

fn from_reads(from: &logical::From, column: usize) -> bool {
    match from {
        logical::From::Relation(_) => false,
        logical::From::Join { left, right, on, .. } => {
            let mut found = false;
            for condition in on {
                rewrite::for_each_column(condition, &mut |other| found = found || other == column);
            }
            found || from_reads(left, column) || from_reads(right, column)
        }
    }
}

/// Rows of the first `width` columns of the wide row, NULL where nothing is needed.
fn source(
    planner: &mut Planner<'_>,
    (relations, width): (&[Relation], usize),
    from: &logical::From,
    filter: Vec<Expr>,
    needed: &[Vec<usize>],
) -> Result<Node> {
    let (order, limit, top) = (Order::ANY, None, None);
    let tables = Tables { relations, needed, order, limit, top, chooses: true, ends_early: false };
    let planned = planner.from(from, filter, &tables)?;
    let exprs: Vec<Expr> =
        (0..width).map(|place| planned.layout.place(place).map_or(Expr::Const(Datum::Null), Expr::Column)).collect();
    let same = exprs.iter().enumerate().all(|(index, expr)| matches!(expr, Expr::Column(column) if *column == index));
    if same && planned.layout.0.len() == width {
        return Ok(planned.node);
    }
    Ok(Node::Project { input: Box::new(planned.node), exprs: exprs.into() })
}

impl Planner<'_> {
    /// Plans DELETE.
    fn delete(&mut self, mut bound: BoundDelete, rules: Arc<TableRules>) -> Result<(Node, Returned)> {
        let exprs = bound.returning.iter_mut().flat_map(|(exprs, _)| exprs).collect();
        let width = self.rewrite_changes(&mut bound.relations, &mut bound.from, &mut bound.filter, exprs)?;
        let table = bound.table;
        let (mut returning, columns) = bound.returning.unzip();
        let mut needed = vec![Vec::new(); bound.relations.len()];
        {
            let mut need = |expr: &Expr| {
                rewrite::for_each_column(expr, &mut |place| add_needed(&bound.relations, &mut needed, place));
            };
            table.key_columns().iter().for_each(|&column| need(&Expr::Column(column)));
            if let Some(written) = &bound.tree {
                trees_of::for_each_column(&written.tree, &mut |column| need(&Expr::Column(column)));
            } else if table.primary_key.is_none() {
                need(&Expr::Column(table.columns.len()));
            }
            for index in &table.indexes {
                rules.columns_of(index).into_iter().for_each(|column| need(&Expr::Column(column)));
            }
            for rule in &rules.referenced_by {
                rule.columns.iter().for_each(|&column| need(&Expr::Column(column)));
            }
            if rules.triggers.is_some() {
                table.live_columns().for_each(|(column, _)| need(&Expr::Column(column)));
            }
            returning.iter().flatten().for_each(&mut need);
        }
        let source = source(self, (&bound.relations, width), &bound.from, bound.filter, &needed)?;
        let source = match &mut returning {
            Some(returning) => ahead(source, width, returning.iter_mut().filter(|expr| has_query(expr))),
            None => source,
        };
        let tree = bound.tree.map(|written| trees_of::deletes(written, returning.as_deref()));
        let delete = Delete { table, source, returning, rules, tree };
        Ok((Node::Delete(Arc::new(delete)), columns))
    }
}

/// The best way to rows whose columns equal slots 0, 1, …, and a condition for what it leaves open.
pub(super) fn reference_access(
    table: &Arc<Table>,
    columns: &[usize],
    sizes: &dyn Sizes,
    env: &Env,
) -> (Access, Option<Expr>) {
    let conditions: Vec<Expr> = columns
        .iter()
        .enumerate()
        .map(|(slot, &column)| Expr::Compare {
            op: crate::expr::CompareOp::Eq,
            left: Box::new(Expr::Column(column)),
            right: Box::new(Expr::Arg(slot)),
        })
        .collect();
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let wanted = Wanted::alone((table, 0), &all, &conditions, sizes);
    let planner = Planner::new(sizes, env, columns.len());
    // The first of them may be enough.
    let path = planner.cheapest(&wanted, &Order::ANY, Some(1.0)).path;
    let left = conditions.iter().enumerate().filter(|(index, _)| !path.taken.contains(index));
    let filter = rewrite::conjunction(left.map(|(_, condition)| condition.clone()).collect());
    (path.access(false), filter)
}

impl Planner<'_> {
    /// Plans MERGE.
    fn merge_rows(&mut self, bound: BoundMerge, rules: Arc<TableRules>) -> Result<Node> {
        let BoundMerge { table, mut relations, mut from, actions } = bound;
        let mut actions: Vec<MergeAction> = actions.into_iter().map(merge_action).collect();
        for action in &mut actions {
            action.security.exprs_mut().try_for_each(|expr| self.prepare(expr))?;
        }
        let mut exprs = Vec::new();
        for MergeAction { condition, what, .. } in &mut actions {
            exprs.extend(condition);
            match what {
                MergeWhat::Nothing | MergeWhat::Delete => {}
                MergeWhat::Update(assignments) => exprs.extend(assignments.iter_mut().filter_map(|assignment| {
                    if let AssignedValue::Expr(expr) = &mut assignment.value { Some(expr) } else { None }
                })),
                MergeWhat::Insert(values) => exprs.extend(values),
            }
        }
        let mut filter = Vec::new();
        let width = self.rewrite_changes(&mut relations, &mut from, &mut filter, exprs)?;
        // What is looked at of a row of the table, beside what expressions look at.
        let mut touched = table.key_columns().to_vec();
        if table.primary_key.is_none() {
            touched.push(table.columns.len());
        }
        if rules.triggers.is_some() {
            touched.extend(table.live_columns().map(|(column, _)| column));
        }
        for MergeAction { what, security, .. } in &mut actions {
            let of_row = security.existing.iter().chain(&security.update);
            of_row.for_each(|check| rewrite::for_each_column(&check.condition, &mut |column| touched.push(column)));
            match what {
                MergeWhat::Nothing | MergeWhat::Insert(_) => {}
                MergeWhat::Delete => {
                    touched.extend(table.indexes.iter().flat_map(|index| rules.columns_of(index)));
                    touched.extend(rules.referenced_by.iter().flat_map(|rule| &rule.columns));
                }
                MergeWhat::Update(assignments) => {
                    let mut changed: Vec<usize> = assignments.iter().map(|assignment| assignment.column).collect();
                    let generated = generated(&rules, &changed);
                    changed.extend(generated.iter().map(|assignment| assignment.column));
                    touched.extend(touched_by(&table, &rules, &changed));
                    for Assignment { value, .. } in &generated {
                        if let AssignedValue::Generated(expr) = value {
                            rewrite::for_each_column(expr, &mut |column| touched.push(column));
                        }
                    }
                    assignments.extend(generated);
                }
            }
        }
        let merge = Merge { table, source: Node::Values { rows: [].into() }, actions, rules };
        let mut needed = vec![Vec::new(); relations.len()];
        let mut need = |expr: &Expr| {
            rewrite::for_each_column(expr, &mut |place| add_needed(&relations, &mut needed, place));
        };
        touched.iter().for_each(|&column| need(&Expr::Column(column)));
        merge.for_each_expr(&mut need);
        let source = source(self, (&relations, width), &from, filter, &needed)?;
        Ok(Node::Merge(Arc::new(Merge { source, ..merge })))
    }
}

fn merge_action(action: BoundAction) -> MergeAction {
    let BoundAction { is_matched, condition, what, security } = action;
    let assignment =
        |(column, value): (usize, BoundValue)| Assignment { column, value: AssignedValue::Expr(value.expr) };
    let what = match what {
        BoundWhat::Nothing => MergeWhat::Nothing,
        BoundWhat::Delete => MergeWhat::Delete,
        BoundWhat::Update(assignments) => MergeWhat::Update(assignments.into_iter().map(assignment).collect()),
        BoundWhat::Insert { values, .. } => MergeWhat::Insert(values),
    };
    MergeAction { is_matched, condition, what, security }
}
