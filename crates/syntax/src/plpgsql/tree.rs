//! The tree of a body in PL/pgSQL.
//!
//! Expressions and statements of SQL are kept as texts: what their names mean follows from the
//! variables in sight, when they are run.

use sqlparser::ast;

use crate::tree::{Name, TypeGiven};

/// A body.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its outermost block.
    pub block: Block,
    /// What `#variable_conflict` says.
    pub conflict: Option<Conflict>,
}

/// What a name means that is both a variable's and a column's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// Neither.
    Error,
    /// The variable.
    Variable,
    /// The column.
    Column,
}

/// `DECLARE … BEGIN … EXCEPTION … END`
#[derive(Debug, Clone)]
pub struct Block {
    /// Its label.
    pub label: Option<Name>,
    /// What it declares.
    pub declared: Vec<Declared>,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// What it does about errors; `None` without EXCEPTION.
    pub handlers: Option<Vec<Handler>>,
}

/// `WHEN condition OR … THEN …`
#[derive(Debug, Clone)]
pub struct Handler {
    /// Which errors are meant.
    pub conditions: Vec<Condition>,
    /// What is done.
    pub body: Vec<Stmt>,
}

/// Which errors are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// By the name of a condition.
    Named(Name),
    /// By its code.
    State(String),
}

/// Something declared.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Its name.
    pub name: Name,
    /// The line of it.
    pub line: u32,
    /// What it is.
    pub what: DeclaredAs,
}

/// What is declared.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "fields have the names that they have in the language")]
pub enum DeclaredAs {
    /// A variable.
    Variable { constant: bool, ty: TypeGiven, not_null: bool, default: Option<Expr> },
    /// Another name of something.
    Alias(Vec<Name>),
    /// A cursor of a query.
    Cursor { scroll: Option<bool>, args: Vec<(Name, TypeGiven)>, query: Expr },
}

/// A text of SQL with the line where it begins.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The text.
    pub text: String,
    /// Its first line.
    pub line: u32,
}

/// What is assigned to: a variable, a field of one, or a part of an array.
#[derive(Debug, Clone)]
pub struct Target {
    /// The name, with fields.
    pub parts: Vec<Name>,
    /// What stands in brackets: `(low, high)`, or an index alone. Empty for the whole.
    pub subscripts: Vec<(Expr, Option<Expr>)>,
}

/// `INTO [STRICT] target, …`
#[derive(Debug, Clone)]
pub struct Into {
    /// There has to be exactly one row.
    pub strict: bool,
    /// What the columns are assigned to.
    pub targets: Vec<Target>,
}

/// A statement.
#[derive(Debug, Clone)]
pub struct Stmt {
    /// Its first line.
    pub line: u32,
    /// What it is.
    pub kind: StmtKind,
}

/// What a statement is.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "fields have the names that they have in the language")]
pub enum StmtKind {
    Block(Block),
    Assign {
        target: Target,
        value: Expr,
    },
    If {
        arms: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    Case {
        operand: Option<Expr>,
        arms: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Option<Vec<Stmt>>,
    },
    Loop {
        label: Option<Name>,
        body: Vec<Stmt>,
    },
    While {
        label: Option<Name>,
        condition: Expr,
        body: Vec<Stmt>,
    },
    ForInteger {
        label: Option<Name>,
        var: Name,
        low: Expr,
        high: Expr,
        step: Option<Expr>,
        reverse: bool,
        body: Vec<Stmt>,
    },
    ForQuery {
        label: Option<Name>,
        targets: Vec<Target>,
        query: Expr,
        body: Vec<Stmt>,
    },
    ForExecute {
        label: Option<Name>,
        targets: Vec<Target>,
        query: Expr,
        params: Vec<Expr>,
        body: Vec<Stmt>,
    },
    ForCursor {
        label: Option<Name>,
        var: Name,
        cursor: Name,
        args: Vec<CursorArg>,
        body: Vec<Stmt>,
    },
    Foreach {
        label: Option<Name>,
        targets: Vec<Target>,
        slice: usize,
        array: Expr,
        body: Vec<Stmt>,
    },
    Exit {
        is_continue: bool,
        label: Option<Name>,
        when: Option<Expr>,
    },
    Return(Option<Expr>),
    ReturnNext(Option<Expr>),
    ReturnQuery(Expr),
    ReturnExecute {
        query: Expr,
        params: Vec<Expr>,
    },
    Raise(Raise),
    Assert {
        condition: Expr,
        message: Option<Expr>,
    },
    Perform(Expr),
    /// A statement of SQL, without its INTO.
    Sql {
        text: Expr,
        into: Option<Into>,
    },
    Execute {
        query: Expr,
        into: Option<Into>,
        params: Vec<Expr>,
    },
    GetDiagnostics {
        stacked: bool,
        items: Vec<(Target, Name)>,
    },
    Open {
        cursor: Name,
        how: Open,
    },
    Fetch {
        cursor: Name,
        goal: Goal,
        into: Option<Into>,
    },
    Close(Name),
    Null,
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
}

/// An argument of a cursor.
#[derive(Debug, Clone)]
pub struct CursorArg {
    /// Its name, if it is given by name.
    pub name: Option<Name>,
    /// Its value.
    pub value: Expr,
}

/// How a cursor is opened.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "fields have the names that they have in the language")]
pub enum Open {
    /// The query that it was declared with.
    Declared(Vec<CursorArg>),
    Query {
        scroll: Option<bool>,
        query: Expr,
    },
    Execute {
        scroll: Option<bool>,
        query: Expr,
        params: Vec<Expr>,
    },
}

/// Which rows FETCH and MOVE are about.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each has the name that it has in the language")]
pub enum Goal {
    Next,
    Prior,
    First,
    Last,
    Absolute(Expr),
    Relative(Expr),
    /// FORWARD: so many rows, `None` for all.
    Forward(Option<Expr>),
    /// BACKWARD: so many rows, `None` for all.
    Backward(Option<Expr>),
}

/// RAISE.
#[derive(Debug, Clone)]
pub struct Raise {
    /// How severe it is.
    pub level: Level,
    /// The format of the message, and what is put into it.
    pub format: Option<(String, Vec<Expr>)>,
    /// The condition.
    pub condition: Option<Condition>,
    /// USING: the option's name, and its value.
    pub options: Vec<(Name, Expr)>,
    /// It has nothing at all: the error at hand goes on.
    pub is_bare: bool,
}

/// How severe something raised is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the language")]
pub enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

/// The type of a variable as a type of SQL, for types that a name tells.
#[must_use]
pub fn named_type(ty: &TypeGiven) -> Option<&ast::DataType> {
    match ty {
        TypeGiven::Named(ty) => Some(ty),
        _ => None,
    }
}

impl StmtKind {
    /// What CONTEXT calls it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Block(_) => "statement block",
            Self::Assign { .. } => "assignment",
            Self::If { .. } => "IF",
            Self::Case { .. } => "CASE",
            Self::Loop { .. } => "LOOP",
            Self::While { .. } => "WHILE",
            Self::ForInteger { .. } => "FOR with integer loop variable",
            Self::ForQuery { .. } => "FOR over SELECT rows",
            Self::ForExecute { .. } => "FOR over EXECUTE statement",
            Self::ForCursor { .. } => "FOR over cursor",
            Self::Foreach { .. } => "FOREACH over array",
            Self::Exit { is_continue: false, .. } => "EXIT",
            Self::Exit { .. } => "CONTINUE",
            Self::Return(_) => "RETURN",
            Self::ReturnNext(_) => "RETURN NEXT",
            Self::ReturnQuery(_) | Self::ReturnExecute { .. } => "RETURN QUERY",
            Self::Raise(_) => "RAISE",
            Self::Assert { .. } => "ASSERT",
            Self::Perform(_) => "PERFORM",
            Self::Sql { .. } => "SQL statement",
            Self::Execute { .. } => "EXECUTE",
            Self::GetDiagnostics { stacked: false, .. } => "GET DIAGNOSTICS",
            Self::GetDiagnostics { .. } => "GET STACKED DIAGNOSTICS",
            Self::Open { .. } => "OPEN",
            Self::Fetch { into: None, .. } => "MOVE",
            Self::Fetch { .. } => "FETCH",
            Self::Close(_) => "CLOSE",
            Self::Null => "NULL",
            Self::Commit { .. } => "COMMIT",
            Self::Rollback { .. } => "ROLLBACK",
        }
    }
}
