//! Walking, changing and comparing expressions.

use colibri_types::functions::{Function, Volatility};

use super::{Expr, SessionFunction, Subquery, SubqueryKind};

/// Calls something for each expression directly inside.
pub fn for_each_child<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Arg(_) => {}
        Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_) => {}
        Expr::Call { args, .. } | Expr::Session { args, .. } | Expr::Extreme { args, .. } => {
            args.iter().for_each(visit);
        }
        Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) | Expr::Array { values: all, .. } => {
            all.iter().for_each(visit)
        }
        Expr::Chain { first, links } => {
            visit(first);
            links.iter().for_each(|(_, operand)| visit(operand));
        }
        Expr::Compare { left, right, .. }
        | Expr::Distinct { left, right, .. }
        | Expr::NullIf { left, right, .. }
        | Expr::AnyOf { left, array: right, .. } => {
            visit(left);
            visit(right);
        }
        Expr::CompareRows { left, right, .. } => left.iter().chain(right).for_each(visit),
        Expr::Not(input) | Expr::IsNull { input, .. } | Expr::IsBool { input, .. } | Expr::Cast { input, .. } => {
            visit(input)
        }
        // The conditions are over a row of their own.
        Expr::Domain { input, .. } => visit(input),
        Expr::Case { arms, otherwise } => {
            for (condition, result) in arms {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            visit(operand);
            for arm in arms {
                visit(&arm.value);
                visit(&arm.result);
            }
            visit(otherwise);
        }
        Expr::InList { input, list, .. } => {
            visit(input);
            list.iter().for_each(visit);
        }
        Expr::Subquery(subquery) => {
            subquery.args.iter().for_each(&mut *visit);
            if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                left.iter().for_each(visit);
            }
        }
    }
}

/// Calls something for each query inside an expression, those inside of what these take from
/// outside included.
pub fn for_each_subquery<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Subquery)) {
    if let Expr::Subquery(subquery) = expr {
        visit(subquery);
    }
    for_each_child(expr, &mut |child| for_each_subquery(child, visit));
}

/// As [`for_each_child`], to change them.
pub fn for_each_child_mut(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Arg(_) => {}
        Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_) => {}
        Expr::Call { args, .. } | Expr::Session { args, .. } | Expr::Extreme { args, .. } => {
            args.iter_mut().for_each(visit);
        }
        Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) | Expr::Array { values: all, .. } => {
            all.iter_mut().for_each(visit);
        }
        Expr::Chain { first, links } => {
            visit(first);
            links.iter_mut().for_each(|(_, operand)| visit(operand));
        }
        Expr::Compare { left, right, .. }
        | Expr::Distinct { left, right, .. }
        | Expr::NullIf { left, right, .. }
        | Expr::AnyOf { left, array: right, .. } => {
            visit(left);
            visit(right);
        }
        Expr::CompareRows { left, right, .. } => left.iter_mut().chain(right).for_each(visit),
        Expr::Not(input) | Expr::IsNull { input, .. } | Expr::IsBool { input, .. } | Expr::Cast { input, .. } => {
            visit(input)
        }
        // The conditions are over a row of their own.
        Expr::Domain { input, .. } => visit(input),
        Expr::Case { arms, otherwise } => {
            for (condition, result) in arms {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            visit(operand);
            for arm in arms {
                visit(&mut arm.value);
                visit(&mut arm.result);
            }
            visit(otherwise);
        }
        Expr::InList { input, list, .. } => {
            visit(input);
            list.iter_mut().for_each(visit);
        }
        Expr::Subquery(subquery) => {
            subquery.args.iter_mut().for_each(&mut *visit);
            if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(visit);
            }
        }
    }
}

/// Whether something holds for an expression or one inside it.
pub fn any(expr: &Expr, holds: &dyn Fn(&Expr) -> bool) -> bool {
    if holds(expr) {
        return true;
    }
    let mut found = false;
    for_each_child(expr, &mut |child| found = found || any(child, holds));
    found
}

/// Calls something for each column that an expression takes from its row.
pub fn for_each_column(expr: &Expr, visit: &mut dyn FnMut(usize)) {
    if let Expr::Column(column) = expr {
        visit(*column);
    }
    for_each_child(expr, &mut |child| for_each_column(child, visit));
}

/// Puts other columns in the place of those that an expression takes from its row.
pub fn map_columns(expr: &mut Expr, map: &dyn Fn(usize) -> usize) {
    if let Expr::Column(column) = expr {
        *column = map(*column);
    }
    for_each_child_mut(expr, &mut |child| map_columns(child, map));
}

/// Puts expressions in the place of columns.
pub fn substitute(expr: &mut Expr, with: &dyn Fn(usize) -> Expr) {
    if let Expr::Column(column) = expr {
        *expr = with(*column);
        return;
    }
    for_each_child_mut(expr, &mut |child| substitute(child, with));
}

/// Puts expressions in the place of slots.
pub fn substitute_slots(expr: &mut Expr, with: &dyn Fn(usize) -> Expr) {
    if let Expr::Arg(slot) = expr {
        *expr = with(*slot);
        return;
    }
    for_each_child_mut(expr, &mut |child| substitute_slots(child, with));
}

/// The conditions that all have to be true.
pub fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::And(all) => all.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// One condition for many.
pub fn conjunction(mut all: Vec<Expr>) -> Option<Expr> {
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(Expr::And(all)),
    }
}

/// Whether nothing but the row, parameters and slots matter: no query, nothing that the session has
/// to do.
pub fn is_pure(expr: &Expr) -> bool {
    !any(expr, &|expr| match expr {
        Expr::Subquery(_) | Expr::Session { .. } => true,
        Expr::Domain { rules, .. } => rules.asks_session,
        _ => false,
    })
}

/// Whether it gives another value each time.
pub fn is_volatile(expr: &Expr) -> bool {
    any(expr, &|expr| match expr {
        Expr::Call { function, .. } => function.volatility == Volatility::Volatile,
        Expr::Chain { links, .. } => links.iter().any(|(function, _)| function.volatility == Volatility::Volatile),
        Expr::Session { function, .. } => function.is_volatile(),
        Expr::Domain { rules, .. } => rules.is_volatile,
        _ => false,
    })
}

/// Whether it looks at the row: at its columns, or at what aggregates and the like give for it.
pub fn uses_row(expr: &Expr) -> bool {
    any(expr, &|part| matches!(part, Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_)))
}

/// Whether what it asks queries for is the same for all rows of a run: none of them takes a value
/// from the row.
pub fn queries_depend_on_no_row(expr: &Expr) -> bool {
    let takes_columns = |subquery: &Subquery| subquery.args.iter().any(uses_row);
    !any(expr, &|part| matches!(part, Expr::Subquery(subquery) if takes_columns(subquery)))
}

/// Whether it is the same for all rows of a run: it does not look at the row and gives the same
/// each time.
pub fn depends_on_no_row(expr: &Expr) -> bool {
    !uses_row(expr) && !is_volatile(expr)
}

/// Functions that may take long, or give much, for few arguments.
fn is_slow(function: &Function) -> bool {
    let name = function.name;
    matches!(name, "repeat" | "lpad" | "rpad" | "^" | "power" | "exp" | "~" | "~*" | "!~" | "!~*")
        || name.starts_with("regexp_")
        || name.starts_with("substring")
}

/// Whether it is computed, quickly, of nothing but constants, parameters and what the session has
/// settled before the statement runs. So it has one value throughout a run, or fails each time.
pub fn is_fixed(expr: &Expr) -> bool {
    let is_computed = !matches!(expr, Expr::Const(_) | Expr::Param(_));
    let differs = |part: &Expr| match part {
        Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_) | Expr::Arg(_) => true,
        Expr::Subquery(_) | Expr::Session { .. } | Expr::Domain { .. } => true,
        Expr::Call { function, .. } => is_slow(function),
        Expr::Chain { links, .. } => links.iter().any(|(function, _)| is_slow(function)),
        _ => false,
    };
    is_computed && !any(expr, &differs) && !is_volatile(expr)
}

/// Calls something for each part that [`is_fixed`] and is in no other one.
pub fn for_each_fixed<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    if is_fixed(expr) { visit(expr) } else { for_each_child(expr, &mut |child| for_each_fixed(child, visit)) }
}

/// Whether two expressions are the same. May say no of some that are.
pub fn same(a: &Expr, b: &Expr) -> bool {
    fn all(a: &[Expr], b: &[Expr]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
    }
    match (a, b) {
        (Expr::Const(a), Expr::Const(b)) => a.is_identical(b),
        (Expr::Column(a), Expr::Column(b)) | (Expr::Param(a), Expr::Param(b)) | (Expr::Arg(a), Expr::Arg(b)) => a == b,
        (Expr::Aggregate(a), Expr::Aggregate(b)) | (Expr::Extra(a), Expr::Extra(b)) => a == b,
        (Expr::Call { function: a, args: a_args }, Expr::Call { function: b, args: b_args }) => {
            std::ptr::eq(*a, *b) && a.volatility != Volatility::Volatile && all(a_args, b_args)
        }
        (Expr::Chain { first: a, links: a_links }, Expr::Chain { first: b, links: b_links }) => {
            type Link = (&'static Function, Expr);
            let same_link = |(a, b): (&Link, &Link)| std::ptr::eq(a.0, b.0) && same(&a.1, &b.1);
            a_links.len() == b_links.len() && same(a, b) && a_links.iter().zip(b_links).all(same_link)
        }
        (
            Expr::Compare { op: a, left: a_left, right: a_right },
            Expr::Compare { op: b, left: b_left, right: b_right },
        ) => a == b && same(a_left, b_left) && same(a_right, b_right),
        (
            Expr::CompareRows { op: a, left: a_left, right: a_right },
            Expr::CompareRows { op: b, left: b_left, right: b_right },
        ) => a == b && all(a_left, b_left) && all(a_right, b_right),
        (
            Expr::Distinct { left: a_left, right: a_right, negated: a },
            Expr::Distinct { left: b_left, right: b_right, negated: b },
        ) => a == b && same(a_left, b_left) && same(a_right, b_right),
        (Expr::And(a), Expr::And(b)) | (Expr::Or(a), Expr::Or(b)) | (Expr::Coalesce(a), Expr::Coalesce(b)) => all(a, b),
        (Expr::Array { element: a, values: a_values }, Expr::Array { element: b, values: b_values }) => {
            a == b && all(a_values, b_values)
        }
        (Expr::Not(a), Expr::Not(b)) => same(a, b),
        (Expr::IsNull { input: a, negated: a_not }, Expr::IsNull { input: b, negated: b_not }) => {
            a_not == b_not && same(a, b)
        }
        (
            Expr::IsBool { input: a, value: a_value, negated: a_not },
            Expr::IsBool { input: b, value: b_value, negated: b_not },
        ) => a_value == b_value && a_not == b_not && same(a, b),
        (Expr::Cast { input: a, from: a_from, to: a_to, .. }, Expr::Cast { input: b, from: b_from, to: b_to, .. }) => {
            a_from == b_from && a_to == b_to && same(a, b)
        }
        (Expr::Domain { input: a, rules: a_rules }, Expr::Domain { input: b, rules: b_rules }) => {
            a_rules.is_of_same(b_rules) && same(a, b)
        }
        (Expr::Case { arms: a, otherwise: a_else }, Expr::Case { arms: b, otherwise: b_else }) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| same(&a.0, &b.0) && same(&a.1, &b.1))
                && same(a_else, b_else)
        }
        (Expr::NullIf { left: a_left, right: a_right, .. }, Expr::NullIf { left: b_left, right: b_right, .. }) => {
            same(a_left, b_left) && same(a_right, b_right)
        }
        (Expr::Extreme { greatest: a, args: a_args }, Expr::Extreme { greatest: b, args: b_args }) => {
            a == b && all(a_args, b_args)
        }
        (
            Expr::InList { input: a, list: a_list, negated: a_not, .. },
            Expr::InList { input: b, list: b_list, negated: b_not, .. },
        ) => a_not == b_not && same(a, b) && all(a_list, b_list),
        (Expr::Subquery(a), Expr::Subquery(b)) => {
            a.id == b.id || (a.text == b.text && all(&a.args, &b.args) && same_kind(&a.kind, &b.kind))
        }
        (
            Expr::Session { function: SessionFunction::Named(a), args: a_args },
            Expr::Session { function: SessionFunction::Named(b), args: b_args },
        ) => a == b && a_args.is_empty() && b_args.is_empty(),
        (
            Expr::Session { function: SessionFunction::Routine(a), args: a_args },
            Expr::Session { function: SessionFunction::Routine(b), args: b_args },
        ) => a.routine.id == b.routine.id && a.arg_types == b.arg_types && all(a_args, b_args),
        _ => false,
    }
}

fn same_kind(a: &SubqueryKind, b: &SubqueryKind) -> bool {
    match (a, b) {
        (SubqueryKind::Exists, SubqueryKind::Exists) | (SubqueryKind::Scalar, SubqueryKind::Scalar) => true,
        (SubqueryKind::Array(a), SubqueryKind::Array(b)) => a == b,
        (
            SubqueryKind::Quantified { left: a_left, op: a, all: a_all },
            SubqueryKind::Quantified { left: b_left, op: b, all: b_all },
        ) => {
            a == b
                && a_all == b_all
                && a_left.len() == b_left.len()
                && a_left.iter().zip(b_left).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}
