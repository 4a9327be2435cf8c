//! What is known of expressions before anything runs.
//!
//! As PostgreSQL does when it plans, expressions of constants are computed once; a strict function
//! with a NULL is NULL, whatever its other arguments are; AND, OR, CASE and COALESCE lose what
//! cannot matter. So what is never evaluated there is not evaluated here, and fails as little.
//!
//! What fails while it is computed makes the plan fail when it is run, before its first row is
//! looked at: the statement can be prepared, as there. Parameters are not known here. What depends
//! on them alone is looked at before what depends on the row as well, which comes to the same.
//!
//! Functions whose results may be long, or take long, are left to the run, which can be stopped.

use colibri_types::{
    Datum,
    cast::{self, CastContext},
    functions::{Function, Volatility},
};

use super::{Planner, Rewrites, Sizes};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, ListId};
use crate::logical::{From, Join, Query, Select, Source};
use crate::plan::SortKey;

/// Bytes of a text that is computed with, or kept in a plan.
const TEXT_BYTES_MAX: usize = 4096;

/// Bytes of texts that patterns are looked for in beforehand, and of the patterns.
const PATTERN_BYTES_MAX: usize = 256;

/// Whether a function is quick with these short constants.
fn is_quick(function: &Function, args: &[Expr]) -> bool {
    let is_float = |arg: &Expr| matches!(arg, Expr::Const(Datum::Float(_)));
    // As long as asked for, or refused at once.
    let gives_so_much = |arg: &Expr| match arg {
        Expr::Const(Datum::Int(count)) => *count <= TEXT_BYTES_MAX as i64 || *count >= i64::from(i32::MAX) / 2,
        _ => false,
    };
    let is_pattern_or_text = |arg: &Expr| match arg {
        Expr::Const(Datum::Text(text) | Datum::Citext(text)) => text.len() <= PATTERN_BYTES_MAX,
        _ => true,
    };
    match function.name {
        "repeat" | "lpad" | "rpad" => args.get(1).is_some_and(gives_so_much),
        "^" | "power" | "exp" => args.iter().all(is_float),
        "~" | "~*" | "!~" | "!~*" => args.iter().all(is_pattern_or_text),
        name if name.starts_with("regexp_") || name.starts_with("substring") => args.iter().all(is_pattern_or_text),
        _ => true,
    }
}

/// Whether a NULL among the arguments makes a call NULL, whatever the others are. An array is
/// looked at before what is asked of it.
fn is_null_call(function: &Function, args: &[Expr]) -> bool {
    match function.name {
        "[]" | "[:]" => args.first().is_some_and(is_null),
        _ => function.strict && args.iter().any(is_null),
    }
}

/// Parts of an expression that may be computed several times.
const REPEATED_PARTS_MAX: usize = 8;

/// Whether it may as well be computed several times: it is short, and gives the same each time.
fn is_repeatable(expr: &Expr) -> bool {
    let parts = std::cell::Cell::new(0);
    let is_long = rewrite::any(expr, &|_| {
        parts.set(parts.get() + 1);
        parts.get() > REPEATED_PARTS_MAX
    });
    !is_long && rewrite::is_pure(expr) && !rewrite::is_volatile(expr)
}

/// A list of `IN` as PostgreSQL takes it where it has one value, or where values depend on the row:
/// a comparison with each of those, behind the others. So a comparison with NULL among them is
/// known to be NULL, and one that holds decides.
///
/// Bug: whatever is looked for was copied for each value. Consequence: sixty such lists inside each
/// other took all memory there is. Fix: only what is short is computed several times.
fn compare_with_each(expr: &mut Expr) {
    let of_row = |value: &Expr| rewrite::uses_row(value);
    let Expr::InList { input, list, negated, .. } = expr else { return };
    let is_single = list.len() == 1;
    if !(is_single || (list.iter().any(of_row) && is_repeatable(input))) {
        return;
    }
    let (mut others, mut values) = (Vec::new(), std::mem::take(list));
    if values.iter().filter(|value| !of_row(value)).count() > 1 {
        (values, others) = values.into_iter().partition(of_row);
    }
    let op = if *negated { CompareOp::Ne } else { CompareOp::Eq };
    let mut parts = Vec::with_capacity(values.len() + 1);
    if !others.is_empty() {
        parts.push(Expr::InList { input: input.clone(), list: others, negated: *negated, id: ListId::new() });
    }
    parts.extend(values.into_iter().map(|value| Expr::Compare { op, left: input.clone(), right: Box::new(value) }));
    *expr = match (parts.len(), *negated) {
        (1, _) => parts.swap_remove(0),
        (_, true) => Expr::And(parts),
        (_, false) => Expr::Or(parts),
    };
}

/// Functions that fail for no arguments at all.
fn never_fails(function: &Function) -> bool {
    matches!(
        function.name,
        "lower"
            | "upper"
            | "length"
            | "char_length"
            | "octet_length"
            | "btrim"
            | "ltrim"
            | "rtrim"
            | "||"
            | "concat"
            | "md5"
    )
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(Datum::Null))
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(_))
}

fn null() -> Expr {
    Expr::Const(Datum::Null)
}

fn truth(value: bool) -> Expr {
    Expr::Const(Datum::Bool(value))
}

/// Whether the statement's parameters decide it, before any row is looked at.
fn is_of_params(expr: &Expr) -> bool {
    let outside = |part: &Expr| {
        matches!(part, Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_))
            || matches!(part, Expr::Arg(_) | Expr::Subquery(_) | Expr::Session { .. })
            || matches!(part, Expr::Call { function, .. } if function.volatility == Volatility::Volatile)
            || matches!(part, Expr::Chain { .. } | Expr::Domain { .. })
    };
    rewrite::any(expr, &|part| matches!(part, Expr::Param(_))) && !rewrite::any(expr, &outside)
}

/// Whether more than parameters and constants has a say in it.
fn is_of_more(expr: &Expr) -> bool {
    !is_constant(expr) && !is_of_params(expr)
}

/// Whether evaluating it may fail.
pub(super) fn may_fail(expr: &Expr) -> bool {
    rewrite::any(expr, &|part| match part {
        Expr::Call { function, .. } => !never_fails(function),
        Expr::Cast { from, to, .. } => !(from.is_text() && to.ty.is_text() || from.is_integer() && to.ty.is_integer()),
        Expr::Chain { .. } | Expr::Subquery(_) | Expr::Session { .. } | Expr::Domain { .. } => true,
        _ => false,
    })
}

/// Simplifies an expression by itself as those of queries are.
pub(super) fn simplified(expr: &mut Expr, sizes: &dyn Sizes, env: &colibri_types::Env) {
    Planner::new(sizes, env, 0).simplify(expr);
}

/// Which constant decides a list of conditions, and which one says nothing in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Junction {
    And,
    Or,
}

impl Planner<'_> {
    /// Simplifies a query's expressions, those of queries in its FROM apart, whose turn comes when
    /// they are planned.
    pub(super) fn simplify_select(&mut self, select: &mut Select, query: Option<&Query>) {
        self.simplify_conditions(&mut select.filter);
        if let Some(group) = &mut select.group {
            group.keys.iter_mut().for_each(|key| self.simplify(key));
            for call in &mut group.calls {
                call.args.iter_mut().chain(&mut call.filter).for_each(|expr| self.simplify(expr));
                call.order.iter_mut().for_each(|key| self.simplify(&mut key.expr));
            }
            if let Some(having) = group.having.take() {
                let mut conditions = vec![having];
                self.simplify_conditions(&mut conditions);
                group.having = rewrite::conjunction(conditions);
            }
        }
        let is_order = |place: usize| {
            let is_it = |key: &SortKey| matches!(key.expr, Expr::Column(column) if column == place);
            query.is_some_and(|query| query.order.iter().any(is_it))
        };
        for (place, expr) in select.output.iter_mut().enumerate() {
            self.deciding(is_order(place), |planner| planner.simplify(expr));
        }
        let grouped = select.grouped_rows.iter_mut().map(|(_, extra)| extra);
        let extras = select.extras.iter_mut().chain(grouped);
        extras.flat_map(|extra| extra.exprs_mut()).for_each(|expr| self.simplify(expr));
        if let Some(from) = &mut select.from {
            self.simplify_from(from);
        }
        for relation in &mut select.relations {
            match &mut relation.source {
                Source::Functions { calls, .. } => {
                    calls.iter_mut().flat_map(|(_, args)| args).for_each(|expr| self.simplify(expr));
                }
                Source::Lateral { args, .. } => args.iter_mut().for_each(|expr| self.simplify(expr)),
                Source::Keyed { keys, .. } => keys.iter_mut().for_each(|key| self.simplify(&mut key.value)),
                Source::Table(_) | Source::Tree(_) | Source::Query(_) | Source::Shared { .. } => {}
                Source::Working { .. } | Source::Part { .. } | Source::System { .. } => {}
            }
        }
        // A call among the keys is the same as one in the list by its constants, which parameters
        // are not.
        let has_rows = !select.extras.is_empty() || !select.grouped_rows.is_empty();
        self.is_of_literals |= select.group.is_some() && has_rows;
        self.is_of_literals |= self.meets_index_literals(select);
    }

    /// Whether conditions have literals and are about what indexes' expressions with literals are
    /// about: `state = 'open'`, if an index is for rows in that state. With a parameter in its place
    /// nobody would know that the index is of use.
    fn meets_index_literals(&self, select: &Select) -> bool {
        let has_literal = |expr: &Expr| rewrite::any(expr, &|part| matches!(part, Expr::Const(_)));
        let mut columns = Vec::new();
        for relation in &select.relations {
            let Source::Table(table) = &relation.source else { continue };
            if table.expressions().next().is_none() {
                continue;
            }
            for (_, expression) in self.sizes.expressions(table).iter().filter(|(_, expr)| has_literal(expr)) {
                rewrite::for_each_column(expression, &mut |column| columns.push(relation.base + column));
            }
        }
        let is_about = |condition: &&Expr| {
            rewrite::any(condition, &|part| matches!(part, Expr::Column(column) if columns.contains(column)))
        };
        let mut meets = false;
        let mut look = |condition: &Expr| meets = meets || is_about(&condition) && has_literal(condition);
        if !columns.is_empty() {
            select.filter.iter().for_each(&mut look);
            if let Some(from) = &select.from {
                from.for_each_kept_condition(&mut look);
            }
        }
        meets
    }

    pub(super) fn simplify_from(&mut self, from: &mut From) {
        if let From::Join { kind, left, right, on } = from {
            // A full join is done by its equalities, even if it has no partners.
            let is_equality = |condition: &Expr| matches!(condition, Expr::Compare { op: CompareOp::Eq, .. });
            let equalities: Vec<Expr> = match kind {
                Join::Full => on.iter().cloned().flat_map(rewrite::conjuncts).filter(is_equality).collect(),
                _ => Vec::new(),
            };
            self.simplify_conditions(on);
            if *kind == Join::Full && !on.iter().any(is_equality) {
                on.extend(equalities);
            }
            self.simplify_from(left);
            self.simplify_from(right);
        }
    }

    /// Simplifies conditions that all have to be true: of WHERE, ON and HAVING, where NULL does
    /// what false does.
    pub(super) fn simplify_conditions(&mut self, conditions: &mut Vec<Expr>) {
        self.deciding(true, |planner| planner.simplify_all_of(conditions));
    }

    /// Does something while the expressions at hand decide which rows are read, or do not.
    fn deciding(&mut self, decides: bool, simplify: impl FnOnce(&mut Self)) {
        let decides = decides && self.sizes.rewrites() != Rewrites::None;
        let before = std::mem::replace(&mut self.decides, decides);
        simplify(self);
        self.decides = before;
    }

    fn simplify_all_of(&mut self, conditions: &mut Vec<Expr>) {
        let all = std::mem::take(conditions).into_iter().flat_map(rewrite::conjuncts);
        let mut never = false;
        for mut condition in all {
            self.simplify(&mut condition);
            // What follows FALSE is not looked at, what follows NULL is.
            let ends = matches!(condition, Expr::Const(Datum::Bool(false)));
            forget_null(&mut condition);
            compare_with_itself(&mut condition);
            match condition {
                Expr::Const(Datum::Bool(true)) => {}
                Expr::Const(_) => never = true,
                condition => conditions.extend(rewrite::conjuncts(condition)),
            }
            if ends {
                break;
            }
        }
        if never {
            *conditions = vec![truth(false)];
        }
    }

    /// Simplifies an expression.
    pub(super) fn simplify(&mut self, expr: &mut Expr) {
        compare_with_each(expr);
        match expr {
            Expr::Const(_) | Expr::Param(_) | Expr::Arg(_) => {}
            Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_) => {}
            Expr::And(all) => {
                let all = std::mem::take(all);
                *expr = self.junction(all, Junction::And);
            }
            Expr::Or(any) => {
                let any = std::mem::take(any);
                *expr = self.junction(any, Junction::Or);
            }
            Expr::Case { .. } => self.simplify_case(expr),
            Expr::Coalesce(_) => self.simplify_coalesce(expr),
            _ => {
                rewrite::for_each_child_mut(expr, &mut |child| self.simplify(child));
                self.simplify_itself(expr);
            }
        }
    }

    /// Simplifies an expression whose parts are simple.
    fn simplify_itself(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Call { function, args } => {
                if is_null_call(function, args) {
                    *expr = null();
                } else if args.iter().all(is_constant) {
                    if function.volatility == Volatility::Immutable
                        && is_quick(function, args)
                        && args.iter().all(is_short)
                    {
                        self.compute(expr);
                    }
                } else if function.strict {
                    ask_params_first(expr);
                }
            }
            Expr::Compare { left, right, .. } => {
                if is_null(left) || is_null(right) {
                    *expr = null();
                } else if is_constant(left) && is_constant(right) {
                    self.compute(expr);
                } else {
                    ask_params_first(expr);
                }
            }
            // NULL equals nothing.
            Expr::NullIf { left, right, .. } if is_null(left) || is_null(right) => {
                *expr = std::mem::replace(&mut **left, null());
            }
            Expr::InList { input, list, .. } => {
                if is_null(input) && !list.is_empty() {
                    *expr = null();
                } else if is_constant(input) && list.iter().all(is_constant) {
                    self.compute(expr);
                }
            }
            Expr::Cast { input, from, to, context } => {
                if is_null(input) {
                    *expr = null();
                } else if is_constant(input) && cast::is_immutable(*from, to.ty) && is_short(input) {
                    // A literal in the type that it stands beside is what it was before.
                    self.is_of_literals |= *context == CastContext::Explicit;
                    self.compute(expr);
                }
            }
            Expr::Subquery(_) | Expr::Chain { .. } | Expr::Session { .. } | Expr::CompareRows { .. } => {}
            // What a domain demands is asked of the values that there are when it is run. (Bug: of
            // constants it was asked here. Consequence: a NULL in a domain that is NOT NULL failed
            // although no row was to have it; conditions that ask the session could not. Fix: not.)
            Expr::Domain { .. } => {}
            _ => {
                let mut constant = true;
                rewrite::for_each_child(expr, &mut |child| constant &= is_constant(child));
                if constant {
                    self.compute(expr);
                }
            }
        }
    }

    /// Puts the value of an expression of constants in its place; or notes why it has none.
    fn compute(&mut self, expr: &mut Expr) {
        match self.sizes.value_of(expr, self.env) {
            Ok(value) => *expr = Expr::Const(value),
            Err(error) => {
                self.fails.get_or_insert(error);
            }
        }
    }

    fn junction(&mut self, parts: Vec<Expr>, junction: Junction) -> Expr {
        let deciding = junction == Junction::Or;
        let mut kept = Vec::with_capacity(parts.len());
        let mut unknown = false;
        let of_rows = self.decides && parts.iter().any(is_of_more);
        for mut part in parts {
            self.simplify(&mut part);
            if of_rows {
                self.decide(&mut part);
            }
            match (part, junction) {
                (Expr::Const(Datum::Bool(value)), _) if value == deciding => return truth(deciding),
                (Expr::Const(Datum::Bool(_)), _) => {}
                (Expr::Const(Datum::Null), _) => unknown = true,
                (Expr::And(inner), Junction::And) | (Expr::Or(inner), Junction::Or) => kept.extend(inner),
                (part, _) => kept.push(part),
            }
        }
        if kept.is_empty() {
            return if unknown { null() } else { truth(!deciding) };
        }
        if kept.len() > 1 && kept.iter().any(is_of_params) {
            let (first, rest): (Vec<Expr>, Vec<Expr>) = kept.into_iter().partition(is_of_params);
            kept = first.into_iter().chain(rest).collect();
        }
        if unknown {
            kept.push(null());
        }
        match (kept.len(), junction) {
            (1, _) => kept.swap_remove(0),
            (_, Junction::And) => Expr::And(kept),
            (_, Junction::Or) => Expr::Or(kept),
        }
    }

    /// Puts what it comes to in the place of a condition over nothing but parameters, if the plan is
    /// made for it.
    fn decide(&self, condition: &mut Expr) {
        if is_of_params(condition)
            && let Some(value) = self.sizes.decided(condition)
        {
            *condition = Expr::Const(value);
        }
    }

    fn simplify_case(&mut self, expr: &mut Expr) {
        let of_rows = self.decides && is_of_more(expr);
        let Expr::Case { arms, otherwise } = expr else { return };
        let mut kept = Vec::with_capacity(arms.len());
        let mut last = std::mem::replace(&mut **otherwise, null());
        for (mut condition, result) in std::mem::take(arms) {
            self.simplify(&mut condition);
            if of_rows {
                self.decide(&mut condition);
            }
            match condition {
                Expr::Const(Datum::Bool(true)) => {
                    last = result;
                    break;
                }
                // Never chosen, and never evaluated.
                Expr::Const(_) => {}
                condition => {
                    let mut result = result;
                    self.simplify(&mut result);
                    kept.push((condition, result));
                }
            }
        }
        self.simplify(&mut last);
        *expr = if kept.is_empty() { last } else { Expr::Case { arms: kept, otherwise: Box::new(last) } };
    }

    fn simplify_coalesce(&mut self, expr: &mut Expr) {
        let of_rows = self.decides && is_of_more(expr);
        let Expr::Coalesce(args) = expr else { return };
        let mut kept = Vec::with_capacity(args.len());
        for mut arg in std::mem::take(args) {
            self.simplify(&mut arg);
            let is_missing = match of_rows && is_of_params(&arg) {
                true => self.sizes.decided(&Expr::IsNull { input: Box::new(arg.clone()), negated: false }),
                false => None,
            };
            if is_null(&arg) || matches!(is_missing, Some(Datum::Bool(true))) {
                continue;
            }
            let is_last = is_constant(&arg) || matches!(is_missing, Some(Datum::Bool(false)));
            kept.push(arg);
            if is_last {
                break;
            }
        }
        *expr = match kept.len() {
            0 => null(),
            1 => kept.swap_remove(0),
            _ => Expr::Coalesce(kept),
        };
    }
}

/// Whether a constant may be computed with beforehand.
fn is_short(expr: &Expr) -> bool {
    match expr {
        Expr::Const(Datum::Text(text)) => text.len() <= TEXT_BYTES_MAX,
        Expr::Const(Datum::Bytes(bytes) | Datum::Query(bytes) | Datum::Range(bytes)) => bytes.len() <= TEXT_BYTES_MAX,
        Expr::Const(Datum::Array(array)) => array.values().len() <= TEXT_BYTES_MAX,
        _ => true,
    }
}

/// `a = a` as a condition is true where there is a value.
fn compare_with_itself(condition: &mut Expr) {
    if let Expr::Compare { op: CompareOp::Eq, left, right } = condition
        && let (Expr::Column(one), Expr::Column(other)) = (&**left, &**right)
        && one == other
    {
        *condition = Expr::IsNull { input: std::mem::replace(left, Box::new(null())), negated: true };
    }
}

/// Where NULL does what false does, it is false.
fn forget_null(condition: &mut Expr) {
    match condition {
        Expr::Const(Datum::Null) => *condition = truth(false),
        Expr::And(all) if all.iter().any(is_null) => *condition = truth(false),
        Expr::Or(any) => {
            any.retain(|part| !is_null(part));
            if let [_] = &any[..]
                && let Some(one) = any.pop()
            {
                *condition = one;
            }
        }
        _ => {}
    }
}

/// A strict operation with a parameter that is NULL is NULL, whatever its other arguments are:
/// PostgreSQL knows a parameter's value when it plans.
fn ask_params_first(expr: &mut Expr) {
    let mut params = Vec::new();
    let mut fails = false;
    rewrite::for_each_child(expr, &mut |child| match child {
        child if is_of_params(child) => params.push(child.clone()),
        child => fails |= may_fail(child),
    });
    if params.is_empty() || !fails {
        return;
    }
    let is_null = |input: Expr| Expr::IsNull { input: Box::new(input), negated: false };
    let arms = params.into_iter().map(|param| (is_null(param), null())).collect();
    let itself = std::mem::replace(expr, null());
    *expr = Expr::Case { arms, otherwise: Box::new(itself) };
}
