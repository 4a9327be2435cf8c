//! Expressions as text.
//!
//! Invariants: operators are in parentheses, so that nothing depends on their precedence; what has
//! no name is shown by its place.

use colibri_types::collation::{INITCAP, KEY, KEY_AND_TEXT, KEYS_OF_ARRAY, LOWER, Spec, TEXT_OF_KEY, UPPER};
use std::fmt::Write;

use colibri_types::functions::{Function, ROW, ROW_IF_THERE, ROW_IS_NOT_NULL, ROW_IS_NULL, ROW_UNLESS_EMPTY};
use colibri_types::{Datum, Env, Type, text_io, text_search};

use crate::expr::{Expr, SessionFunction, Subquery, SubqueryKind, Test};

/// What columns and slots are called.
#[derive(Clone, Copy)]
pub(super) struct Names<'n> {
    pub(super) columns: &'n [String],
    pub(super) slots: &'n [String],
}

/// An expression.
pub(super) fn expr_text(expr: &Expr, names: Names<'_>) -> String {
    let text = |expr: &Expr| expr_text(expr, names);
    let joined = |exprs: &[Expr], by: &str| exprs.iter().map(text).collect::<Vec<_>>().join(by);
    // A constant that a function takes is of the function's type.
    let taken = |function: &Function, at: usize, arg: &Expr| match arg {
        // Bug: a function that declares no arguments was asked for their types. Consequence: EXPLAIN of a
        // sample of a table with heirs ended the session. Fix: its constants are shown as they are.
        Expr::Const(value @ (Datum::Bytes(_) | Datum::Int(_))) if !function.args.is_empty() => {
            constant_of(function.arg_type(at), value)
        }
        arg => text(arg),
    };
    match expr {
        Expr::Const(value) => constant(value),
        Expr::Column(column) => match names.columns.get(*column) {
            Some(name) => name.clone(),
            None => format!("column {}", column + 1),
        },
        Expr::Aggregate(call) => format!("aggregate {}", call + 1),
        Expr::Extra(place) => format!("extra {}", place + 1),
        Expr::Param(param) => format!("${}", param + 1),
        Expr::Arg(slot) => match names.slots.get(*slot) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("slot {slot}"),
        },
        Expr::Call { function, args } => {
            let is = |known: &'static Function, function: &Function| std::ptr::eq(known, function);
            let is_operator = !function.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            match args.as_slice() {
                // In front of a row's values stand its type, and what tells that it is missing.
                [_, values @ ..] if is(&ROW, function) || is(&ROW_UNLESS_EMPTY, function) => {
                    format!("ROW({})", joined(values, ", "))
                }
                [_, _, values @ ..] if is(&ROW_IF_THERE, function) => format!("ROW({})", joined(values, ", ")),
                [row] if is(&ROW_IS_NULL, function) => format!("({} IS NULL)", text(row)),
                [row] if is(&ROW_IS_NOT_NULL, function) => format!("({} IS NOT NULL)", text(row)),
                [left, right] if is_operator => {
                    format!("({} {} {})", taken(function, 0, left), function.name, taken(function, 1, right))
                }
                [order, input] if is(&KEY, function) || is(&KEYS_OF_ARRAY, function) || is(&KEY_AND_TEXT, function) => {
                    let name = if let Expr::Const(order) = order { Spec::name_in(order) } else { None };
                    format!("({} COLLATE {})", text(input), name.unwrap_or_default())
                }
                [key] if is(&TEXT_OF_KEY, function) => text(key),
                [_, input] if is(&LOWER, function) || is(&UPPER, function) || is(&INITCAP, function) => {
                    format!("{}({})", function.name, text(input))
                }
                [arg] if is_operator => format!("({} {})", function.name, taken(function, 0, arg)),
                args => {
                    let args = args.iter().enumerate().map(|(at, arg)| taken(function, at, arg));
                    format!("{}({})", function.name, args.collect::<Vec<_>>().join(", "))
                }
            }
        }
        Expr::Chain { first, links } => links
            .iter()
            .fold(text(first), |left, (function, operand)| format!("({left} {} {})", function.name, text(operand))),
        Expr::Compare { op, left, right } => format!("({} {} {})", text(left), op.symbol(), text(right)),
        Expr::Distinct { left, right, negated } => {
            format!("({} IS {}DISTINCT FROM {})", text(left), not(*negated), text(right))
        }
        Expr::CompareRows { op, left, right } => {
            format!("(ROW({}) {} ROW({}))", joined(left, ", "), op.symbol(), joined(right, ", "))
        }
        Expr::And(conditions) => format!("({})", joined(conditions, " AND ")),
        Expr::Or(conditions) => format!("({})", joined(conditions, " OR ")),
        Expr::Not(condition) => format!("(NOT {})", text(condition)),
        Expr::IsNull { input, negated } => format!("({} IS {}NULL)", text(input), not(*negated)),
        Expr::IsBool { input, value, negated } => {
            let value = match value {
                Some(true) => "TRUE",
                Some(false) => "FALSE",
                None => "UNKNOWN",
            };
            format!("({} IS {}{value})", text(input), not(*negated))
        }
        Expr::Cast { input, to, .. } => format!("({})::{to}", text(input)),
        Expr::Domain { input, rules } => match rules.domain {
            Some(domain) => format!("({})::{}", text(input), domain.sql_name()),
            // Fields of a row obey their domains; a call says so by its types.
            None => text(input),
        },
        Expr::Case { arms, otherwise } => {
            let mut case = String::from("CASE");
            for (condition, value) in arms {
                let _ = write!(case, " WHEN {} THEN {}", text(condition), text(value));
            }
            format!("{case} ELSE {} END", text(otherwise))
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            let mut case = format!("CASE {}", text(operand));
            for arm in arms {
                let _ = write!(case, " WHEN {} THEN {}", text(&arm.value), text(&arm.result));
            }
            format!("{case} ELSE {} END", text(otherwise))
        }
        Expr::Coalesce(args) => format!("COALESCE({})", joined(args, ", ")),
        Expr::NullIf { left, right, .. } => format!("NULLIF({}, {})", text(left), text(right)),
        Expr::Extreme { greatest, args } => {
            format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, joined(args, ", "))
        }
        Expr::InList { input, list, negated, .. } => {
            format!("({} {}IN ({}))", text(input), not(*negated), joined(list, ", "))
        }
        Expr::Array { values, .. } => format!("ARRAY[{}]", joined(values, ", ")),
        Expr::AnyOf { test, left, array, all } => {
            let symbol = match test {
                Test::Compare(op) => op.symbol(),
                Test::Call(function) => function.name,
            };
            format!("({} {symbol} {} ({}))", text(left), if *all { "ALL" } else { "ANY" }, text(array))
        }
        Expr::Subquery(subquery) => subquery_text(subquery, names),
        Expr::Session { function, args } => match function {
            SessionFunction::NextVal(sequence) => format!("nextval('{}'::regclass)", sequence.name),
            SessionFunction::Routine(call) => format!("{}({})", call.routine.name, joined(args, ", ")),
            SessionFunction::Fold(fold) => format!("{}({})", fold.name, joined(args, ", ")),
            SessionFunction::Named(name) => format!("{name}({})", joined(args, ", ")),
        },
    }
}

/// Expressions, separated by commas.
pub(super) fn list_text(exprs: &[Expr], names: Names<'_>) -> String {
    exprs.iter().map(|expr| expr_text(expr, names)).collect::<Vec<_>>().join(", ")
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn subquery_text(subquery: &Subquery, names: Names<'_>) -> String {
    let kind = if subquery.args.is_empty() { "InitPlan" } else { "SubPlan" };
    let plan = format!("{kind} {}", subquery.id + 1);
    match &subquery.kind {
        SubqueryKind::Exists => format!("EXISTS({plan})"),
        SubqueryKind::Scalar => format!("({plan})"),
        SubqueryKind::Array(_) => format!("ARRAY({plan})"),
        SubqueryKind::Quantified { left, op, all } => {
            let left = match left.as_slice() {
                [single] => expr_text(single, names),
                left => format!("ROW({})", list_text(left, names)),
            };
            format!("({left} {} {} ({plan}))", op.symbol(), if *all { "ALL" } else { "ANY" })
        }
    }
}

/// A constant of a type whose values do not tell it.
fn constant_of(ty: Type, value: &Datum) -> String {
    let is_told = match value {
        Datum::Bytes(_) => ty == Type::Bytea || ty.base() != Type::Bytea,
        Datum::Range(_) => ty.bounds().is_none(),
        _ => !matches!(ty, Type::RegConfig | Type::RegDictionary),
    };
    if is_told {
        return constant(value);
    }
    let mut text = String::new();
    match (value, ty) {
        // Names that every database has.
        (Datum::Int(number), Type::RegConfig) => match text_search::configuration_numbered(*number as u32) {
            Some(found) => text.push_str(found.name),
            None => return constant(value),
        },
        (Datum::Int(number), _) => match text_search::dictionary_numbered(*number as u32) {
            Some(found) => text.push_str(found.name),
            None => return constant(value),
        },
        _ => text_io::write(ty, value, &Env::default(), &mut text),
    }
    format!("'{}'::{ty}", text.replace('\'', "''"))
}

fn constant(value: &Datum) -> String {
    let ty = match value {
        Datum::Null => return "NULL".to_owned(),
        Datum::Bool(value) => return value.to_string(),
        Datum::Int(value) => return value.to_string(),
        Datum::Numeric(value) if value.is_finite() => return value.to_string(),
        Datum::Numeric(_) => Type::Numeric,
        Datum::Float(_) => Type::Float8,
        Datum::Text(_) => Type::Text,
        Datum::Bytes(_) => Type::Bytea,
        Datum::Date(_) => Type::Date,
        Datum::Time(_) => Type::Time,
        Datum::TimeTz(_) => Type::TimeTz,
        Datum::Timestamp(_) => Type::Timestamp,
        Datum::Interval(_) => Type::Interval,
        Datum::Uuid(_) => Type::Uuid,
        Datum::Array(array) => array.element().array().unwrap_or(Type::Record),
        Datum::Row(_) => Type::Record,
        Datum::Jsonb(_) => Type::Jsonb,
        Datum::Query(_) => Type::TsQuery,
        Datum::Range(_) => Type::Record,
        Datum::Citext(_) => Type::Citext,
    };
    let mut text = String::new();
    text_io::write(ty, value, &Env::default(), &mut text);
    format!("'{}'::{ty}", text.replace('\'', "''"))
}
