//! Which groupings run on column vectors, and how: the expressions as a list of steps.
//!
//! ```text
//! sum(price * (1 - discount)) … WHERE shipped <= $1
//!
//! filter   0: column shipped    1: fixed $1    2: 0 <= 1
//! rest     0: column price      1: fixed 1     2: column discount   3: 1 - 2   4: 0 * 3
//! ```
//! A step's operands are steps before it, by their places. What is written twice is computed once.
//! The steps of the filter are run over all rows that were read, the rest over those that are kept.
//!
//! A grouping is here if all of it has kernels: the scan of a table by its key, the conditions, the
//! projections between, the keys, and the arguments and conditions of the calls. If anything has
//! none, the whole grouping works on rows.
//!
//! Invariant: a step gives for each row what evaluating its expression on the row gives, or gives
//! up (see `exec::columns`). So an expression may be computed for rows that evaluation would leave
//! out (behind AND, OR and CASE): what fails there only gives up.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_types::aggregates::State;
use colibri_types::functions::Function;
use colibri_types::{Modifier, Type, cast};

use super::{Access, AggregateCall, Node, Scan};
use crate::expr::walk::{is_fixed, same, substitute};
use crate::expr::{CompareOp, Expr};

/// Longer lists of IN are looked up in a table, row by row.
const LIST_MAX: usize = 32;
/// More steps than that are not worth the memory of their vectors.
const STEPS_MAX: usize = 256;

/// The place of a step, and of what it has computed.
pub type Register = usize;

/// What vectors of a kind hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Date,
    Time,
    Timestamp,
    Numeric,
    Float,
    Bool,
    Text,
    /// Known when the rows are.
    Any,
}

impl Kind {
    fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => Self::Int,
            Type::Date => Self::Date,
            Type::Time => Self::Time,
            Type::Timestamp | Type::TimestampTz => Self::Timestamp,
            Type::Numeric => Self::Numeric,
            Type::Float4 | Type::Float8 => Self::Float,
            Type::Bool => Self::Bool,
            Type::Text | Type::Varchar | Type::Char | Type::Name => Self::Text,
            _ => return None,
        })
    }
}

/// Arithmetic of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Of integers.
    Divide,
    /// Of integers.
    Remainder,
}

/// A step of a program.
#[derive(Debug)]
pub enum Step {
    /// A vector that was read, by its place among [`Columns::read`].
    Column(usize),
    /// Something that is the same for all rows of a run.
    Fixed(Expr),
    /// Of integers within the bounds of this type, or of numerics.
    Arithmetic {
        op: Arithmetic,
        ty: Type,
        left: Register,
        right: Register,
    },
    /// An integer as a numeric.
    ToNumeric(Register),
    /// A date as the timestamp of its midnight.
    ToTimestamp(Register),
    Compare {
        op: CompareOp,
        left: Register,
        right: Register,
    },
    And(Vec<Register>),
    Or(Vec<Register>),
    Not(Register),
    IsNull {
        input: Register,
        negated: bool,
    },
    /// `IS [NOT] TRUE`, `FALSE`, `UNKNOWN` (`None`)
    IsBool {
        input: Register,
        value: Option<bool>,
        negated: bool,
    },
    /// Of a list of what is fixed.
    InList {
        input: Register,
        list: Vec<Register>,
        negated: bool,
    },
    /// `[NOT] LIKE`, of a pattern that is fixed.
    Like {
        input: Register,
        pattern: Register,
        negated: bool,
    },
    /// The first arm whose condition is true, or what is otherwise.
    Case {
        arms: Vec<(Register, Register)>,
        otherwise: Register,
    },
}

/// A list of steps.
#[derive(Debug, Default)]
pub struct Program {
    pub steps: Vec<Step>,
}

/// What a call of an aggregate takes in.
#[derive(Debug)]
pub struct Call {
    /// Rows for which it is not true are left out.
    pub filter: Option<Register>,
    /// Its argument; `None`: it counts rows.
    pub input: Option<Register>,
}

/// A grouping on column vectors.
#[derive(Debug)]
pub struct Columns {
    pub scan: Arc<Scan>,
    /// The columns of the table that are read.
    pub read: Vec<usize>,
    /// Over all rows, and the conditions among its steps, of which all are to be true.
    pub filter: Program,
    pub conditions: Vec<Register>,
    /// Over the rows that are kept, and the keys and calls among its steps.
    pub rest: Program,
    pub keys: Vec<Register>,
    pub calls: Vec<Call>,
    /// How many operators are between the grouping and the scan.
    pub between: usize,
}

impl Columns {
    /// The grouping of a plan on column vectors; `None` if it works on rows.
    pub fn new(grouping: &Node, scan: &Arc<Scan>) -> Option<Self> {
        let Node::Aggregate { input, keys, calls, presorted, always } = grouping else { return None };
        let is_read_in_order = matches!(scan.access, Access::Key { .. });
        if !presorted.is_empty() || !always.is_empty() || !is_read_in_order {
            return None;
        }
        let mut compiler = Compiler { table: &scan.table, columns: &scan.columns, read: Vec::new() };
        let mut filter = Compiled::default();
        let conditions = match &scan.filter {
            Some(Expr::And(all)) => &all[..],
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let conditions =
            conditions.iter().map(|one| compiler.condition(one, &mut filter)).collect::<Option<Vec<_>>>()?;
        // Expressions of the projections between, from the scan upwards, over the scan's row.
        let mut projections = Vec::new();
        let mut at = &**input;
        while let Node::Project { input, exprs } = at {
            projections.push(exprs);
            at = input;
        }
        if !matches!(at, Node::Scan(found) if Arc::ptr_eq(found, scan)) {
            return None;
        }
        let mut rest = Compiled::default();
        let mut under: Option<Vec<Expr>> = None;
        for exprs in projections.iter().rev() {
            let exprs: Vec<Expr> = exprs.iter().map(|expr| over(expr, under.as_deref())).collect();
            // Each is computed, also what nobody reads: it may fail.
            for expr in &exprs {
                compiler.expr(expr, &mut rest)?;
            }
            under = Some(exprs);
        }
        let under = under.as_deref();
        let keys = keys.iter().map(|key| compiler.key(&over(key, under), &mut rest)).collect::<Option<Vec<_>>>()?;
        let calls = calls.iter().map(|call| compiler.call(call, under, &mut rest)).collect::<Option<Vec<_>>>()?;
        if filter.program.steps.len() + rest.program.steps.len() > STEPS_MAX {
            return None;
        }
        Some(Self {
            scan: Arc::clone(scan),
            read: compiler.read,
            filter: filter.program,
            conditions,
            rest: rest.program,
            keys,
            calls,
            between: projections.len(),
        })
    }
}

/// An expression over the row of what is below a projection.
fn over(expr: &Expr, under: Option<&[Expr]>) -> Expr {
    let mut expr = expr.clone();
    if let Some(under) = under {
        substitute(&mut expr, &|column| under[column].clone());
    }
    expr
}

/// A program in the making.
#[derive(Default)]
struct Compiled {
    program: Program,
    /// The expression of each step, and what it gives; `None` of what is fixed.
    known: Vec<(Expr, Option<Kind>)>,
}

struct Compiler<'a> {
    table: &'a Table,
    columns: &'a [usize],
    read: Vec<usize>,
}

impl Compiler<'_> {
    fn condition(&mut self, expr: &Expr, out: &mut Compiled) -> Option<Register> {
        match self.expr(expr, out)? {
            (register, Some(Kind::Bool)) => Some(register),
            _ => None,
        }
    }

    /// What groups are equal in. Of floats, equal ones may look different.
    fn key(&mut self, expr: &Expr, out: &mut Compiled) -> Option<Register> {
        match self.expr(expr, out)? {
            (_, None | Some(Kind::Float | Kind::Any)) => None,
            (register, _) => Some(register),
        }
    }

    fn call(&mut self, call: &AggregateCall, under: Option<&[Expr]>, out: &mut Compiled) -> Option<Call> {
        let state = (call.aggregate.start)();
        if call.distinct || !call.order.is_empty() || !state.combines() {
            return None;
        }
        let filter = match &call.filter {
            Some(filter) => Some(self.condition(&over(filter, under), out)?),
            None => None,
        };
        let input = match (&state, &call.args[..]) {
            (State::CountRows(_), _) => None,
            (State::Count(_), [Expr::Const(value)]) if !value.is_null() => None,
            (_, [arg]) => match self.expr(&over(arg, under), out)? {
                (_, None) => return None,
                (register, Some(_)) => Some(register),
            },
            _ => return None,
        };
        Some(Call { filter, input })
    }

    /// The step of an expression, and the kind of its values; `None` for what is fixed.
    fn expr(&mut self, mut expr: &Expr, out: &mut Compiled) -> Option<(Register, Option<Kind>)> {
        while let Expr::Cast { input, from, to, .. } = expr
            && cast::keeps_values(*from, to.ty, to.modifier)
        {
            expr = input;
        }
        if let Some(found) = out.known.iter().position(|(known, _)| same(known, expr)) {
            return Some((found, out.known[found].1));
        }
        let (step, kind) = self.step(expr, out)?;
        out.program.steps.push(step);
        out.known.push((expr.clone(), kind));
        Some((out.program.steps.len() - 1, kind))
    }

    fn step(&mut self, expr: &Expr, out: &mut Compiled) -> Option<(Step, Option<Kind>)> {
        if matches!(expr, Expr::Const(_) | Expr::Param(_) | Expr::Arg(_)) || is_fixed(expr) {
            return Some((Step::Fixed(expr.clone()), None));
        }
        let bool = |step| Some((step, Some(Kind::Bool)));
        match expr {
            Expr::Column(place) => {
                let column = *self.columns.get(*place)?;
                let kind = Kind::of(self.table.columns.get(column)?.ty.ty)?;
                let place = self.read.iter().position(|&read| read == column).unwrap_or_else(|| {
                    self.read.push(column);
                    self.read.len() - 1
                });
                Some((Step::Column(place), Some(kind)))
            }
            Expr::Compare { op, left, right } => {
                let (left, right) = (self.expr(left, out)?, self.expr(right, out)?);
                alike(left.1, right.1)?;
                bool(Step::Compare { op: *op, left: left.0, right: right.0 })
            }
            Expr::And(all) => bool(Step::And(self.conditions(all, out)?)),
            Expr::Or(all) => bool(Step::Or(self.conditions(all, out)?)),
            Expr::Not(input) => bool(Step::Not(self.condition(input, out)?)),
            Expr::IsNull { input, negated } => {
                let (input, kind) = self.expr(input, out)?;
                kind?;
                bool(Step::IsNull { input, negated: *negated })
            }
            Expr::IsBool { input, value, negated } => {
                let input = self.condition(input, out)?;
                bool(Step::IsBool { input, value: *value, negated: *negated })
            }
            Expr::InList { input, list, negated, .. } if list.len() <= LIST_MAX => {
                let (input, kind) = self.expr(input, out)?;
                kind.filter(|kind| matches!(kind, Kind::Int | Kind::Date | Kind::Numeric | Kind::Text))?;
                let list = list.iter().map(|one| self.fixed(one, out)).collect::<Option<Vec<_>>>()?;
                bool(Step::InList { input, list, negated: *negated })
            }
            Expr::Call { function, args } => self.called(function, args, out),
            Expr::Cast { input, from, to, .. } => {
                if to.modifier != Modifier::NONE {
                    return None;
                }
                let (input, kind) = self.expr(input, out)?;
                match (from, to.ty, kind?) {
                    (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric, Kind::Int) => {
                        Some((Step::ToNumeric(input), Some(Kind::Numeric)))
                    }
                    (Type::Date, Type::Timestamp, Kind::Date) => {
                        Some((Step::ToTimestamp(input), Some(Kind::Timestamp)))
                    }
                    _ => None,
                }
            }
            Expr::Case { arms, otherwise } => {
                let (mut kind, mut made) = (None, Vec::with_capacity(arms.len()));
                for (condition, result) in arms {
                    let condition = self.condition(condition, out)?;
                    let (result, found) = self.expr(result, out)?;
                    kind = either(kind, found)?;
                    made.push((condition, result));
                }
                let (otherwise, found) = self.expr(otherwise, out)?;
                // What is fixed tells its kind when it is computed.
                let kind = either(kind, found)?.unwrap_or(Kind::Any);
                Some((Step::Case { arms: made, otherwise }, Some(kind)))
            }
            _ => None,
        }
    }

    fn conditions(&mut self, all: &[Expr], out: &mut Compiled) -> Option<Vec<Register>> {
        all.iter().map(|one| self.condition(one, out)).collect()
    }

    fn fixed(&mut self, expr: &Expr, out: &mut Compiled) -> Option<Register> {
        match self.expr(expr, out)? {
            (register, None) => Some(register),
            _ => None,
        }
    }

    fn called(&mut self, function: &Function, args: &[Expr], out: &mut Compiled) -> Option<(Step, Option<Kind>)> {
        let [left, right] = args else { return None };
        if matches!(function.args, [Type::Text, Type::Text]) {
            let negated = match function.name {
                "~~" | "like" => false,
                "!~~" | "notlike" => true,
                _ => return None,
            };
            let (input, kind) = self.expr(left, out)?;
            let pattern = self.fixed(right, out)?;
            return (kind? == Kind::Text).then_some((Step::Like { input, pattern, negated }, Some(Kind::Bool)));
        }
        let ty = function.result;
        let kind = match ty {
            Type::Int2 | Type::Int4 | Type::Int8 => Kind::Int,
            Type::Numeric => Kind::Numeric,
            _ => return None,
        };
        let op = match (function.name, kind) {
            ("+", _) => Arithmetic::Add,
            ("-", _) => Arithmetic::Subtract,
            ("*", _) => Arithmetic::Multiply,
            ("/", Kind::Int) => Arithmetic::Divide,
            ("%" | "mod", Kind::Int) => Arithmetic::Remainder,
            _ => return None,
        };
        if !function.strict || function.args != [ty, ty] {
            return None;
        }
        let (left, right) = (self.expr(left, out)?, self.expr(right, out)?);
        alike(left.1, right.1)?;
        let is_of_kind = |found: Option<Kind>| found.is_none_or(|found| found == kind || found == Kind::Any);
        let step = Step::Arithmetic { op, ty, left: left.0, right: right.0 };
        (is_of_kind(left.1) && is_of_kind(right.1)).then_some((step, Some(kind)))
    }
}

/// Whether two operands go together: they are of one kind, and one of them at least is not fixed.
fn alike(left: Option<Kind>, right: Option<Kind>) -> Option<()> {
    match (left, right) {
        (None, None) => None,
        (Some(left), Some(right)) if left != right && left != Kind::Any && right != Kind::Any => None,
        _ => Some(()),
    }
}

/// The kind of what is one or the other; none inside if both are fixed.
fn either(left: Option<Kind>, right: Option<Kind>) -> Option<Option<Kind>> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => None,
        (left, right) => Some(left.or(right)),
    }
}
