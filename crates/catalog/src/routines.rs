//! Functions and procedures that users define.
//!
//! A body is kept as it was written, as PostgreSQL keeps it, and is read when it is first called.
//! What a function depends on follows from what its definition names: types, and relations whose
//! rows it takes or gives.

use colibri_types::{ColumnType, Type};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::{Acl, BOOTSTRAP_ROLE, RoleId};
use crate::objects::{ObjectId, column_type};

/// A function or procedure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routine {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may call it; `None` is everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// Whether it is a procedure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_procedure: bool,
    /// The language of its body.
    pub language: RoutineLanguage,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<Argument>,
    /// What it returns.
    pub result: RoutineType,
    /// It returns rows of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set: bool,
    /// Its body; of a body in SQL's own form, the statements with semicolons between them.
    pub body: String,
    /// How a body in SQL's own form was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard: Option<StandardBody>,
    /// Without a call, NULL comes of an argument that is NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// How far what it gives depends on more than its arguments.
    #[serde(default)]
    pub volatility: RoutineVolatility,
    /// It runs with the rights of its owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub security_definer: bool,
    /// LEAKPROOF, which is only shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leakproof: bool,
    /// COST, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// ROWS, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
    /// PARALLEL, which is only shown: `u`, `r` or `s`.
    #[serde(default = "unsafe_in_parallel")]
    pub parallel: char,
    /// Settings while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(CompactString, String)>,
    /// It is an aggregate: what it is made of. It has no body then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Box<AggregateParts>>,
}

/// What an aggregate is made of. Functions are written as calls are: with their schemas, quoted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregateParts {
    /// SFUNC
    pub transition: String,
    /// STYPE
    pub state: RoutineType,
    /// FINALFUNC
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// FINALFUNC_EXTRA
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finish_extra: bool,
    /// INITCOND
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
    /// What else was said, by name, which is only shown: COMBINEFUNC, SORTOP, MSFUNC, ….
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<(CompactString, String)>,
}

/// A cast that a user has defined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserCast {
    /// Its number.
    pub id: ObjectId,
    /// The number of the type that it casts from.
    pub from: ObjectId,
    /// The number of the type that it casts to.
    pub to: ObjectId,
    /// Where it is used: `e`, where it is written; `a`, in assignments as well; `i`, anywhere.
    pub context: char,
    /// How it is done.
    pub method: CastMethod,
}

/// How a cast of a user's is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CastMethod {
    /// By a function of a user's.
    Routine(ObjectId),
    /// By one of the system's, by its name.
    Builtin(String),
    /// By the text of the value: WITH INOUT.
    Text,
    /// The value is the same: WITHOUT FUNCTION.
    Same,
}

/// The language of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoutineLanguage {
    /// SQL
    Sql,
    /// PL/pgSQL
    PlPgSql,
    /// None: it came with an extension, and its body names the function that is compiled in.
    C,
}

/// How a body in SQL's own form was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StandardBody {
    /// RETURN
    Return,
    /// BEGIN ATOMIC
    Atomic,
}

/// How far what a function gives depends on more than its arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoutineVolatility {
    /// On nothing else.
    Immutable,
    /// On the database, as the statement sees it.
    Stable,
    /// On anything, and it may change something.
    #[default]
    Volatile,
}

/// How an argument is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentMode {
    /// It is given.
    In,
    /// It is part of the result.
    Out,
    /// Both.
    InOut,
    /// The values that are left, as an array.
    Variadic,
    /// A column of the result.
    Table,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name; empty if it has none.
    #[serde(default)]
    pub name: CompactString,
    /// How it is passed.
    pub mode: ArgumentMode,
    /// Its type.
    pub ty: RoutineType,
    /// Its default, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// What an argument or a result is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum RoutineType {
    /// A value.
    Value(#[serde(with = "column_type")] ColumnType),
    /// A row of a relation.
    RowOf(ObjectId),
    /// What a trigger's function returns.
    Trigger,
    /// Nothing: what a procedure returns that has no arguments of OUT.
    Nothing,
}

impl Argument {
    /// Whether a call gives it.
    #[must_use]
    pub fn is_given(&self) -> bool {
        matches!(self.mode, ArgumentMode::In | ArgumentMode::InOut | ArgumentMode::Variadic)
    }

    /// Whether it is part of the result.
    #[must_use]
    pub fn is_result(&self) -> bool {
        matches!(self.mode, ArgumentMode::Out | ArgumentMode::InOut | ArgumentMode::Table)
    }
}

impl Routine {
    /// The arguments that a call gives, by which it is told from others of its name.
    pub fn given(&self) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(|arg| arg.is_given())
    }

    /// The arguments that are parts of the result.
    pub fn results(&self) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(|arg| arg.is_result())
    }

    /// Whether the last argument takes the values that are left.
    #[must_use]
    pub fn is_variadic(&self) -> bool {
        self.args.iter().any(|arg| arg.mode == ArgumentMode::Variadic)
    }

    /// Whether it refers to a type, or to rows of a relation, by the number.
    #[must_use]
    pub fn uses_type(&self, number: ObjectId) -> bool {
        let uses = |ty: &RoutineType| match ty {
            RoutineType::Value(ty) => {
                ty.ty.oid() == number
                    || ty.domain.is_some_and(|domain| domain.oid() == number)
                    || ty.ty.element().is_some_and(|element| element.oid() == number)
                    || ty.domain.is_some_and(|domain| domain.element().oid() == number)
            }
            RoutineType::RowOf(relation) => *relation == number,
            _ => false,
        };
        self.args.iter().any(|arg| uses(&arg.ty)) || uses(&self.result)
    }

    /// What it is called in messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match (self.is_procedure, &self.aggregate) {
            (true, _) => "procedure",
            (false, Some(_)) => "aggregate",
            (false, None) => "function",
        }
    }
}

impl RoutineType {
    /// The type of values; `None` of what is no value.
    #[must_use]
    pub fn value(&self) -> Option<ColumnType> {
        match self {
            Self::Value(ty) => Some(*ty),
            Self::RowOf(_) => Some(Type::Record.into()),
            _ => None,
        }
    }

    /// Its number in the catalogue.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        /// PostgreSQL's number of `trigger`.
        const TRIGGER: ObjectId = 2279;
        match self {
            Self::Value(ty) => ty.domain.map_or(ty.ty.oid(), |domain| domain.oid()),
            Self::RowOf(relation) => colibri_types::row::row_type(*relation),
            Self::Trigger => TRIGGER,
            Self::Nothing => Type::Void.oid(),
        }
    }
}

fn bootstrap() -> RoleId {
    BOOTSTRAP_ROLE
}

fn unsafe_in_parallel() -> char {
    'u'
}
