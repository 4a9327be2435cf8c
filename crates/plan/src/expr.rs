//! Expressions with names and types resolved, ready to be evaluated on a row.
//!
//! Invariants: operands have the types that the operation wants, casts included; a column is a
//! place in the row that the operator holding the expression works on; an argument is a slot that
//! an operator further up fills (see [`crate::plan::Fragment`]).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use colibri_catalog::{Routine, RoutineVolatility, Sequence};
use colibri_types::{
    ColumnType, Datum, DomainType, Error, Result, RowType, Type, cast::CastContext, functions::Function,
};
use compact_str::CompactString;

use crate::logical::Query;
use crate::plan::Fragment;

pub mod implied;
pub mod walk;

/// `WHEN value THEN result`
#[derive(Debug, Clone)]
pub struct CaseArm {
    /// Casts the operand to what it is compared in.
    pub operand_as: Option<(Type, ColumnType)>,
    pub value: Expr,
    pub result: Expr,
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Const(Datum),
    /// A column of the row at hand.
    Column(usize),
    /// What a call of an aggregate gives, by its place among the calls of the SELECT. Only until
    /// operators are chosen: these find it in a column of the group's row.
    Aggregate(usize),
    /// What a window function, or a function that gives rows, stands for in a SELECT list: by its
    /// place among the [`crate::logical::Extra`] of the SELECT. Only until operators are chosen.
    Extra(usize),
    /// A parameter of the statement, counted from 0.
    Param(usize),
    /// A slot filled by an operator outside: a value of the outer query's row, or of a nested
    /// loop's outer side.
    Arg(usize),
    /// A pure function.
    Call { function: &'static Function, args: Vec<Expr> },
    /// Functions of two arguments in a row, as in `a + b + c + …`: each takes what the one before
    /// gave. Long rows are this, so that what walks through expressions does not go as deep as the
    /// row is long.
    Chain { first: Box<Expr>, links: Vec<(&'static Function, Expr)> },
    /// `=`, `<`, …: NULL if a side is.
    Compare { op: CompareOp, left: Box<Expr>, right: Box<Expr> },
    /// `IS [NOT] DISTINCT FROM`
    Distinct { left: Box<Expr>, right: Box<Expr>, negated: bool },
    /// `(a, b) < (c, d)`
    CompareRows { op: CompareOp, left: Vec<Expr>, right: Vec<Expr> },
    /// All of them, by three-valued logic; stops at the first false.
    And(Vec<Expr>),
    /// One of them; stops at the first true.
    Or(Vec<Expr>),
    /// `NOT`
    Not(Box<Expr>),
    /// `IS [NOT] NULL`
    IsNull { input: Box<Expr>, negated: bool },
    /// `IS [NOT] TRUE`, `FALSE`, `UNKNOWN` (`None`)
    IsBool { input: Box<Expr>, value: Option<bool>, negated: bool },
    /// To another type, or to another modifier of the same type.
    Cast { input: Box<Expr>, from: Type, to: ColumnType, context: CastContext },
    /// The first arm whose condition is true. Later arms are not evaluated.
    Case { arms: Vec<(Expr, Expr)>, otherwise: Box<Expr> },
    /// `CASE operand WHEN …` of an operand that gives another value each time: it is evaluated
    /// once.
    CaseOf { operand: Box<Expr>, arms: Vec<CaseArm>, otherwise: Box<Expr> },
    /// The first that is not NULL. Later ones are not evaluated.
    Coalesce(Vec<Expr>),
    /// NULL if both are equal, the first otherwise. The first is evaluated once, `left_as` casts it
    /// for comparing.
    NullIf { left: Box<Expr>, left_as: Option<(Type, ColumnType)>, right: Box<Expr> },
    /// The largest (smallest) that is not NULL.
    Extreme { greatest: bool, args: Vec<Expr> },
    /// A value as one of a domain: it has to obey what the domain demands.
    Domain { input: Box<Expr>, rules: Arc<DomainRules> },
    /// `[NOT] IN (…)`
    InList { input: Box<Expr>, list: Vec<Expr>, negated: bool, id: ListId },
    /// `ARRAY[…]`: values of the element type, or arrays of it.
    Array { element: Type, values: Vec<Expr> },
    /// `left op ANY (array)`, `left op ALL (array)`
    AnyOf { test: Test, left: Box<Expr>, array: Box<Expr>, all: bool },
    /// A query inside the expression.
    Subquery(Box<Subquery>),
    /// Something that only the session can do or knows.
    Session { function: SessionFunction, args: Vec<Expr> },
}

impl Expr {
    /// `left = right`
    pub(crate) fn equals(left: Self, right: Self) -> Self {
        Self::Compare { op: CompareOp::Eq, left: Box::new(left), right: Box::new(right) }
    }
}

/// What a domain demands of values, or what the domains of its fields demand of a row.
///
/// Rules of domains that conditions mention are shared, not copied: a walk into conditions can take
/// time that is exponential in their number, so nothing but an evaluation walks there.
pub struct DomainRules {
    /// The domain; of arrays of one, each value in the array has to obey. `None` for rows.
    pub domain: Option<DomainType>,
    /// The schema that the domain is in.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// Its conditions, in the order in which they are looked at.
    pub checks: Vec<DomainCheck>,
    /// Of a domain over arrays of another one, and of arrays of rows: what the values in the array
    /// obey, before the rest.
    pub elements: Option<Arc<DomainRules>>,
    /// Of rows: places of fields, and what their domains demand.
    pub fields: Vec<(usize, Arc<DomainRules>)>,
    /// Expressions inside each other that evaluating the conditions takes at the most, those of
    /// the domains that they mention included.
    pub depth: usize,
    /// What a look at a value costs, in the units of the planner, once that was asked for.
    pub cost: OnceLock<f64>,
    /// Whether a condition may give something else each time.
    pub is_volatile: bool,
    /// Whether a condition asks the session for something.
    pub asks_session: bool,
}

/// A condition of a domain.
#[derive(Debug)]
pub struct DomainCheck {
    /// The constraint's name.
    pub name: CompactString,
    /// Over a row that has the value as its only column. False is a violation, NULL is not.
    pub condition: Expr,
}

impl DomainRules {
    /// Those of a domain that takes every value.
    pub fn without_conditions(domain: Option<DomainType>) -> Self {
        Self {
            domain,
            schema: "".into(),
            name: "".into(),
            not_null: false,
            checks: Vec::new(),
            elements: None,
            fields: Vec::new(),
            depth: 0,
            cost: OnceLock::new(),
            is_volatile: false,
            asks_session: false,
        }
    }

    /// Those of rows with fields of domains, by the fields' places.
    pub fn of_fields(fields: Vec<(usize, Arc<Self>)>) -> Self {
        let mut rules = Self::without_conditions(None);
        for (_, field) in &fields {
            rules.takes_in(field);
        }
        Self { fields, ..rules }
    }

    /// Those of arrays of rows.
    pub fn of_elements(rows: Arc<Self>) -> Self {
        let mut rules = Self::without_conditions(None);
        rules.takes_in(&rows);
        Self { elements: Some(rows), ..rules }
    }

    /// Counts what evaluating the rules of another domain takes as part of evaluating these.
    pub fn takes_in(&mut self, part: &Self) {
        self.depth = self.depth.max(part.depth + 1);
        self.is_volatile |= part.is_volatile;
        self.asks_session |= part.asks_session;
    }

    /// Whether they are those of the same domain, or of rows with the same domains.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let mut fields = self.fields.iter().zip(&other.fields);
        let elements = match (&self.elements, &other.elements) {
            (Some(elements), Some(other)) if self.domain.is_none() => elements.is_of_same(other),
            (elements, other) => self.domain.is_some() || elements.is_none() && other.is_none(),
        };
        self.domain == other.domain
            && elements
            && self.fields.len() == other.fields.len()
            && fields.all(|((place, rules), (other_place, other))| place == other_place && rules.is_of_same(other))
    }

    /// Whether every value obeys.
    pub fn is_empty(&self) -> bool {
        !self.not_null && self.checks.is_empty() && self.elements.is_none() && self.fields.is_empty()
    }
}

/// The domain alone: what it demands is the same wherever it is met.
impl fmt::Debug for DomainRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DomainRules").field(&self.domain).field(&self.fields).finish()
    }
}

/// Numbers lists of `IN`, by which an execution finds what it has made of them. No two lists of a
/// process have the same number: a copy has one of its own.
#[derive(PartialEq, Eq, Hash)]
pub struct ListId(u64);

/// Without the number, so that expressions that mean the same read the same.
impl fmt::Debug for ListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListId")
    }
}

impl ListId {
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number itself.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0
    }
}

impl Clone for ListId {
    fn clone(&self) -> Self {
        Self::new()
    }
}

/// What a value is tried for with each value of an array.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    Compare(CompareOp),
    /// A function that gives a boolean: `LIKE ANY`.
    Call(&'static Function),
}

/// Comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CompareOp {
    /// With sides exchanged.
    pub fn flipped(self) -> Self {
        match self {
            Self::Eq => Self::Eq,
            Self::Ne => Self::Ne,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
        }
    }

    /// Whether an ordering satisfies it.
    #[inline]
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
        }
    }

    /// Its symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "<>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// A query inside an expression.
#[derive(Clone)]
pub struct Subquery {
    /// Numbers the subqueries of a statement: where the execution keeps what this one gave, if it
    /// does not depend on the outer row.
    pub id: usize,
    /// The query.
    pub query: Inner,
    /// What it takes from the outer row: these go to its slots 0, 1, …. Empty: it is run once.
    pub args: Vec<Expr>,
    /// What is done with its rows.
    pub kind: SubqueryKind,
    /// How it was written: two queries at one place that were written alike are the same.
    pub text: Box<str>,
}

/// Without its text, so that expressions that mean the same read the same.
impl fmt::Debug for Subquery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, query, args, kind, text: _ } = self;
        f.debug_struct("Subquery")
            .field("id", id)
            .field("query", query)
            .field("args", args)
            .field("kind", kind)
            .finish()
    }
}

/// The query that an expression holds.
#[derive(Clone, Debug)]
pub enum Inner {
    /// As it was bound.
    Logical(Arc<Query>),
    /// As it is run.
    Planned(Arc<Fragment>),
}

impl Subquery {
    /// The name of the only column of a query that stands for a value.
    pub(crate) fn column_name(&self) -> Option<CompactString> {
        match (&self.kind, &self.query) {
            (SubqueryKind::Scalar, Inner::Logical(query)) => query.columns.first().map(|column| column.name.clone()),
            _ => None,
        }
    }

    /// The query as it is run. The planner has made it of the bound one.
    pub fn fragment(&self) -> Result<&Arc<Fragment>> {
        match &self.query {
            Inner::Planned(fragment) => Ok(fragment),
            Inner::Logical(_) => Err(Error::internal("a query inside an expression was not planned")),
        }
    }
}

/// What is done with the rows of a query inside an expression.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// Whether there is a row.
    Exists,
    /// The only column of the only row; NULL without a row, an error (21000) with two.
    Scalar,
    /// `left op ANY (…)`, `left op ALL (…)` by three-valued logic; `IN` is `= ANY`, `NOT IN` is `<>
    /// ALL`. With more than one expression on the left, `op` is `Eq` or `Ne` on the whole row.
    Quantified { left: Vec<Expr>, op: CompareOp, all: bool },
    /// `ARRAY(…)`: the values of the only column.
    Array(Type),
}

/// A function that a user has defined, as a call means it.
#[derive(Debug, Clone)]
pub struct RoutineCall {
    /// The function.
    pub routine: Arc<Routine>,
    /// The types of what it is given.
    pub arg_types: Vec<ColumnType>,
    /// The type of what it gives; of several rows, of each.
    pub result: ColumnType,
    /// What its rows are made of, if it gives rows of columns that are known.
    pub row: Option<Arc<RowType>>,
    /// What it gives, over a row of what it is given, if its body is nothing but an expression.
    pub body: Option<Expr>,
}

/// An aggregate of a user's: how a value is made of all that was gathered of a group. Expressions are
/// over a row of the state, and behind it the aggregate's arguments.
#[derive(Debug)]
pub struct Fold {
    /// What it is called.
    pub name: compact_str::CompactString,
    /// The state at the beginning, if there is one.
    pub initial: Option<Datum>,
    /// The state behind the next values.
    pub transition: Expr,
    /// It is not called with a NULL.
    pub is_strict: bool,
    /// How many values there are; several come as rows.
    pub values: usize,
    /// What the state gives, and whether that is NULL for a state that is.
    pub finish: Option<(Expr, bool)>,
}

/// What only the session can do or knows.
#[derive(Clone, Debug)]
pub enum SessionFunction {
    /// `nextval` of a sequence known when the statement was bound.
    NextVal(Arc<Sequence>),
    /// A function that a user has defined.
    Routine(Arc<RoutineCall>),
    /// The value of an aggregate that a user has defined, of an array of what it is called on.
    Fold(Arc<Fold>),
    /// Any other, by name, with the evaluated arguments: `nextval(text)`, `currval`, `lastval`,
    /// `setval`, `current_setting`, `set_config`, `pg_backend_pid`, …
    Named(&'static str),
}

impl SessionFunction {
    /// Whether it may give another value each time, or do something.
    pub fn is_volatile(&self) -> bool {
        match self {
            Self::NextVal(_) => true,
            Self::Routine(call) => call.routine.volatility == RoutineVolatility::Volatile,
            Self::Fold(_) => false,
            Self::Named(name) => !matches!(*name, "current_setting" | "pg_backend_pid"),
        }
    }
}
