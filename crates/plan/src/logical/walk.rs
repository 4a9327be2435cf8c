//! Walking through the expressions of queries.

use super::{Body, Distinct, Extra, From, Join, Query, Select, Source};
use crate::expr::{CompareOp, Expr, Inner, Subquery, SubqueryKind, walk};

impl Query {
    /// The SELECT that it is, if each row of its FROM under its conditions gives one of its rows,
    /// equal ones perhaps once.
    pub(crate) fn select_of_all_rows(&self) -> Option<&Select> {
        let Body::Select(select) = &self.body else { return None };
        let has_all_rows = self.limit.is_none()
            && self.offset.is_none()
            && select.group.is_none()
            && select.extras.is_empty()
            && !matches!(select.distinct, Distinct::On(_));
        has_all_rows.then_some(select)
    }

    /// Calls something for each expression of a query and of the queries in its FROM, but for WITH
    /// queries; those inside of these expressions apart.
    pub fn for_each_expr(&self, visit: &mut dyn FnMut(&Expr)) {
        self.order.iter().map(|key| &key.expr).chain(&self.limit).chain(&self.offset).for_each(&mut *visit);
        match &self.body {
            Body::Values(rows) => rows.iter().flatten().for_each(visit),
            Body::Set { left, right, .. } => {
                left.for_each_expr(visit);
                right.for_each_expr(visit);
            }
            Body::Recursive(terms) => {
                terms.first.for_each_expr(visit);
                terms.again.for_each_expr(visit);
            }
            Body::GroupingSets(grouping) => grouping.input.for_each_expr(visit),
            Body::Select(select) => {
                select.for_each_expr(visit);
                select.relations.iter().for_each(|relation| relation.source.for_each_expr_inside(visit));
            }
        }
    }

    /// Whether it may give something else when it is run again, or does more than give rows: it
    /// calls volatile functions, asks the session, or locks rows, wherever inside of it. WITH
    /// queries are run once wherever they are read, unless they look outside themselves.
    pub fn has_effects(&self) -> bool {
        self.has_effects_besides(&mut Vec::new())
    }

    /// The same, but for WITH queries that were looked at; notes those that it looks at.
    fn has_effects_besides(&self, seen: &mut Vec<usize>) -> bool {
        let mut has_effects = self.has_locks(seen);
        self.for_each_expr(&mut |expr| has_effects = has_effects || varies_besides(expr, seen));
        has_effects
    }

    /// Whether it locks rows, or a WITH query that looks outside itself has effects.
    fn has_locks(&self, seen: &mut Vec<usize>) -> bool {
        !self.locks.is_empty()
            || match &self.body {
                Body::Values(_) => false,
                Body::Set { left, right, .. } => left.has_locks(seen) || right.has_locks(seen),
                Body::Recursive(terms) => terms.first.has_locks(seen) || terms.again.has_locks(seen),
                Body::GroupingSets(grouping) => grouping.input.has_locks(seen),
                Body::Select(select) => select.relations.iter().any(|relation| match &relation.source {
                    Source::Shared { uses_args: false, .. } => false,
                    Source::Shared { id, query, .. } => {
                        let is_new = !seen.contains(id);
                        if is_new {
                            seen.push(*id);
                        }
                        is_new && query.has_effects_besides(seen)
                    }
                    source => source.query().is_some_and(|query| query.has_locks(seen)),
                }),
            }
    }

    /// Whether it reads the last round of a query that refers to itself.
    pub fn reads_working(&self) -> bool {
        match &self.body {
            Body::Values(_) => false,
            Body::Set { left, right, .. } => left.reads_working() || right.reads_working(),
            Body::Recursive(terms) => terms.first.reads_working() || terms.again.reads_working(),
            Body::GroupingSets(grouping) => grouping.input.reads_working(),
            Body::Select(select) => select.relations.iter().any(|relation| {
                matches!(relation.source, Source::Working { .. })
                    || relation.source.own_query().is_some_and(Self::reads_working)
            }),
        }
    }
}

/// Whether an expression may have another value when it is computed again, queries inside of it
/// included.
pub fn varies(expr: &Expr) -> bool {
    varies_besides(expr, &mut Vec::new())
}

/// The same, but for WITH queries that were looked at.
fn varies_besides(expr: &Expr, seen: &mut Vec<usize>) -> bool {
    let mut varies = walk::is_volatile(expr);
    walk::for_each_subquery(expr, &mut |subquery| {
        varies = varies
            || match &subquery.query {
                Inner::Logical(query) => query.has_effects_besides(seen),
                Inner::Planned(_) => true,
            };
    });
    varies
}

/// The query in a condition that asks whether one of its rows is a partner, and what it asks.
pub(crate) fn join_kind(condition: &Expr) -> Option<(Join, &Subquery)> {
    let (inner, exists) = match condition {
        Expr::Not(inner) => (&**inner, Join::Anti),
        other => (other, Join::Semi),
    };
    let Expr::Subquery(subquery) = inner else { return None };
    match (&subquery.kind, exists) {
        (SubqueryKind::Exists, kind) => Some((kind, subquery)),
        (SubqueryKind::Quantified { op: CompareOp::Eq, all: false, .. }, kind) => Some((kind, subquery)),
        (SubqueryKind::Quantified { op: CompareOp::Ne, all: true, .. }, Join::Semi) => Some((Join::Anti, subquery)),
        _ => None,
    }
}

/// Whether an expression takes values from slots.
pub fn uses_slots(expr: &Expr) -> bool {
    walk::any(expr, &|part| matches!(part, Expr::Arg(_)))
}

impl Source {
    /// The query that it is.
    pub fn query(&self) -> Option<&Query> {
        match self {
            Self::Query(query) | Self::Lateral { query, .. } | Self::Keyed { query, .. } => Some(query),
            Self::Shared { query, .. } => Some(query),
            Self::Table(_) | Self::Tree(_) | Self::Functions { .. } | Self::Working { .. } => None,
            Self::Part { .. } | Self::System { .. } => None,
        }
    }

    /// The query that it is, if it is read nowhere else. WITH queries may read each other more than
    /// once: walking into them from each place would take for ever.
    fn own_query(&self) -> Option<&Query> {
        if let Self::Shared { .. } = self { None } else { self.query() }
    }

    fn for_each_expr_inside(&self, visit: &mut dyn FnMut(&Expr)) {
        if let Some(query) = self.own_query() {
            query.for_each_expr(visit);
        }
    }
}

impl Select {
    /// Calls something for each expression of its clauses; queries in FROM apart, and what these
    /// take from before them included.
    pub fn for_each_expr(&self, visit: &mut dyn FnMut(&Expr)) {
        self.filter.iter().chain(&self.output).for_each(&mut *visit);
        if let Some(group) = &self.group {
            group.keys.iter().chain(&group.having).for_each(&mut *visit);
            for call in &group.calls {
                call.args.iter().chain(&call.filter).for_each(&mut *visit);
                call.order.iter().map(|key| &key.expr).for_each(&mut *visit);
            }
        }
        let grouped = self.grouped_rows.iter().map(|(_, extra)| extra);
        self.extras.iter().chain(grouped).flat_map(Extra::exprs).for_each(&mut *visit);
        if let Some(from) = &self.from {
            from.for_each_condition(visit);
        }
        for relation in &self.relations {
            relation.source.taken().chain(&relation.filter).for_each(&mut *visit);
            if let Source::Keyed { keys, .. } = &relation.source {
                keys.iter().map(|key| &key.value).for_each(&mut *visit);
            }
        }
    }

    /// As [`Select::for_each_expr`], to change them.
    pub fn for_each_expr_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.filter.iter_mut().chain(&mut self.output).for_each(&mut *visit);
        if let Some(group) = &mut self.group {
            group.keys.iter_mut().chain(&mut group.having).for_each(&mut *visit);
            for call in &mut group.calls {
                call.args.iter_mut().chain(&mut call.filter).for_each(&mut *visit);
                call.order.iter_mut().map(|key| &mut key.expr).for_each(&mut *visit);
            }
        }
        let grouped = self.grouped_rows.iter_mut().map(|(_, extra)| extra);
        self.extras.iter_mut().chain(grouped).flat_map(Extra::exprs_mut).for_each(&mut *visit);
        if let Some(from) = &mut self.from {
            from.for_each_condition_mut(visit);
        }
        for relation in &mut self.relations {
            relation.filter.iter_mut().for_each(&mut *visit);
            relation.source.taken_mut().for_each(&mut *visit);
            if let Source::Keyed { keys, .. } = &mut relation.source {
                keys.iter_mut().map(|key| &mut key.value).for_each(&mut *visit);
            }
        }
    }

    /// Conditions on relations that are true for each row of FROM: none of these relations is a
    /// side that an outer join adds NULLs to, or that partners are looked for in.
    pub(crate) fn kept_conditions(&self) -> impl Iterator<Item = &Expr> {
        let mut kept = Vec::new();
        if let Some(from) = &self.from {
            from.for_each_kept(&mut |relation| kept.push(relation));
        }
        kept.into_iter().flat_map(move |relation| &self.relations[relation].filter)
    }

    /// Calls something for each expression of its clauses above FROM that is over the rows of FROM.
    pub(crate) fn for_each_over_rows(&self, visit: &mut dyn FnMut(&Expr)) {
        self.filter.iter().for_each(&mut *visit);
        self.grouped_rows.iter().flat_map(|(_, extra)| extra.exprs()).for_each(&mut *visit);
        match &self.group {
            Some(group) => {
                group.keys.iter().for_each(&mut *visit);
                for call in &group.calls {
                    call.args.iter().chain(&call.filter).for_each(&mut *visit);
                    call.order.iter().map(|key| &key.expr).for_each(&mut *visit);
                }
            }
            None => {
                self.output.iter().for_each(&mut *visit);
                self.extras.iter().flat_map(Extra::exprs).for_each(&mut *visit);
            }
        }
    }

    /// As [`Select::for_each_over_rows`], to change them.
    pub(crate) fn for_each_over_rows_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.filter.iter_mut().for_each(&mut *visit);
        self.grouped_rows.iter_mut().flat_map(|(_, extra)| extra.exprs_mut()).for_each(&mut *visit);
        match &mut self.group {
            Some(group) => {
                group.keys.iter_mut().for_each(&mut *visit);
                for call in &mut group.calls {
                    call.args.iter_mut().chain(&mut call.filter).for_each(&mut *visit);
                    call.order.iter_mut().map(|key| &mut key.expr).for_each(&mut *visit);
                }
            }
            None => {
                self.output.iter_mut().for_each(&mut *visit);
                self.extras.iter_mut().flat_map(Extra::exprs_mut).for_each(&mut *visit);
            }
        }
    }
}

impl From {
    /// Calls something for each relation whose rows it gives, none of them NULL for want of a
    /// partner.
    pub(crate) fn for_each_kept(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Self::Relation(relation) => visit(*relation),
            Self::Join { kind: Join::Inner | Join::InnerInOrder, left, right, .. } => {
                left.for_each_kept(visit);
                right.for_each_kept(visit);
            }
            Self::Join { kind: Join::Left | Join::Semi | Join::Anti, left, .. } => left.for_each_kept(visit),
            Self::Join { kind: Join::Right, right, .. } => right.for_each_kept(visit),
            Self::Join { kind: Join::Full, .. } => {}
        }
    }

    /// Whether a relation is one of those of [`From::for_each_kept`].
    pub(crate) fn keeps(&self, relation: usize) -> bool {
        let mut keeps = false;
        self.for_each_kept(&mut |kept| keeps |= kept == relation);
        keeps
    }

    /// Calls something for each condition of joins that is true for all rows it gives.
    pub(crate) fn for_each_kept_condition(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Relation(_) | Self::Join { kind: Join::Full, .. } => {}
            Self::Join { kind: Join::Inner | Join::InnerInOrder, left, right, on } => {
                on.iter().for_each(&mut *visit);
                left.for_each_kept_condition(visit);
                right.for_each_kept_condition(visit);
            }
            Self::Join { kind: Join::Left | Join::Semi | Join::Anti, left, .. } => left.for_each_kept_condition(visit),
            Self::Join { kind: Join::Right, right, .. } => right.for_each_kept_condition(visit),
        }
    }

    /// Takes conditions out of inner joins, where they mean what they mean in WHERE, down to the
    /// first joins that are no inner ones.
    pub(crate) fn lift_of_inner(&mut self, is_lifted: &dyn Fn(&Expr) -> bool, lifted: &mut Vec<Expr>) {
        let Self::Join { kind: Join::Inner, left, right, on } = self else { return };
        let all = std::mem::take(on).into_iter().flat_map(walk::conjuncts);
        let (taken, kept): (Vec<Expr>, Vec<Expr>) = all.partition(is_lifted);
        lifted.extend(taken);
        *on = kept;
        left.lift_of_inner(is_lifted, lifted);
        right.lift_of_inner(is_lifted, lifted);
    }

    /// Gives its relations other numbers.
    pub(crate) fn renumber(&mut self, number: &dyn Fn(usize) -> usize) {
        match self {
            Self::Relation(relation) => *relation = number(*relation),
            Self::Join { left, right, .. } => {
                left.renumber(number);
                right.renumber(number);
            }
        }
    }

    /// Calls something for each condition of its joins.
    pub fn for_each_condition(&self, visit: &mut dyn FnMut(&Expr)) {
        if let Self::Join { left, right, on, .. } = self {
            on.iter().for_each(&mut *visit);
            left.for_each_condition(visit);
            right.for_each_condition(visit);
        }
    }

    /// As [`From::for_each_condition`], to change them.
    pub fn for_each_condition_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        if let Self::Join { left, right, on, .. } = self {
            on.iter_mut().for_each(&mut *visit);
            left.for_each_condition_mut(visit);
            right.for_each_condition_mut(visit);
        }
    }
}
