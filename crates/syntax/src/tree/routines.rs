//! Functions, procedures and triggers.

use sqlparser::ast;

use super::{Granting, Name, OnOperators, OnRules, QualifiedName, RoleName, SettingChange};

/// `CREATE [OR REPLACE] {FUNCTION | PROCEDURE} …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRoutine {
    /// One of the same name and arguments is replaced.
    pub or_replace: bool,
    /// It is a procedure.
    pub is_procedure: bool,
    /// Its name.
    pub name: QualifiedName,
    /// Its arguments in their order, columns of RETURNS TABLE last.
    pub args: Vec<RoutineArg>,
    /// What it returns, as far as that is said.
    pub returns: Option<Returned>,
    /// What else it is told to be.
    pub options: Vec<RoutineOption>,
    /// A body in SQL's own form.
    pub body: Option<RoutineBody>,
}

/// `CREATE [OR REPLACE] AGGREGATE …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateAggregate {
    /// One of the same name and arguments is replaced.
    pub or_replace: bool,
    /// Its name.
    pub name: QualifiedName,
    /// What it is called on.
    pub args: Vec<RoutineArg>,
    /// What it is made of: names in lower case with their values.
    pub options: Vec<(Name, AggregateValue)>,
}

/// The types of a cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastTypes {
    /// The type that it casts from.
    pub from: TypeGiven,
    /// The type that it casts to.
    pub to: TypeGiven,
}

/// `CREATE CAST …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateCast {
    /// From which type to which.
    pub types: CastTypes,
    /// Its function.
    pub function: Option<RoutineNamed>,
    /// WITH INOUT
    pub by_text: bool,
    /// Where it is used: `e`, `a` for assignments, `i` anywhere.
    pub context: char,
}

/// What an option of an aggregate is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregateValue {
    /// Nothing: it is a flag.
    None,
    /// A name.
    Name(QualifiedName),
    /// A type.
    Type(TypeGiven),
    /// A text, a number or an operator.
    Text(String),
}

/// An argument of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutineArg {
    /// How it is passed.
    pub mode: ArgMode,
    /// Its name.
    pub name: Option<Name>,
    /// Its type.
    pub ty: TypeGiven,
    /// The text of its default.
    pub default: Option<String>,
}

/// How an argument is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub enum ArgMode {
    In,
    Out,
    InOut,
    Variadic,
    Table,
}

/// A type, by its name or as that of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeGiven {
    /// By name.
    Named(ast::DataType),
    /// `name%TYPE`
    Of(QualifiedName),
    /// `name%ROWTYPE`
    RowOf(QualifiedName),
}

/// What a function returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Rows of it.
    pub set: bool,
    /// The type; `None` for RETURNS TABLE, whose columns are arguments.
    pub ty: Option<TypeGiven>,
}

/// What a function may be told to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutineOption {
    /// LANGUAGE
    Language(Name),
    /// AS: one text, or two.
    As(Vec<String>),
    /// IMMUTABLE (`i`), STABLE (`s`) or VOLATILE (`v`).
    Volatility(char),
    /// STRICT, or CALLED ON NULL INPUT.
    Strict(bool),
    /// SECURITY DEFINER, or INVOKER.
    SecurityDefiner(bool),
    /// LEAKPROOF, or NOT.
    Leakproof(bool),
    /// WINDOW
    Window,
    /// COST, as it is written.
    Cost(String),
    /// ROWS, as it is written.
    Rows(String),
    /// SUPPORT
    Support(QualifiedName),
    /// PARALLEL
    Parallel(Name),
    /// SET and RESET.
    Setting(SettingChange),
}

/// A body in SQL's own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutineBody {
    /// `RETURN expression`, with the expression's text.
    Return(String),
    /// `BEGIN ATOMIC … END`, with the texts of the statements.
    Atomic(Vec<String>),
}

/// What kind of function is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub enum RoutineKind {
    Function,
    Procedure,
    Routine,
    Aggregate,
}

impl RoutineKind {
    /// The word for it, in small letters.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Procedure => "procedure",
            Self::Routine => "routine",
            Self::Aggregate => "aggregate",
        }
    }
}

/// A function by its name, and its arguments if they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutineNamed {
    /// Its name.
    pub name: QualifiedName,
    /// Modes and types of the arguments.
    pub args: Option<Vec<(ArgMode, ast::DataType)>>,
}

/// What ALTER FUNCTION does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutineChange {
    /// `RENAME TO name`
    Rename(Name),
    /// `OWNER TO role`
    Owner(RoleName),
    /// `SET SCHEMA name`
    SetSchema(Name),
    /// Options.
    Options(Vec<RoutineOption>),
    /// `[NO] DEPENDS ON EXTENSION name`
    DependsOn,
}

/// Functions whose privileges are granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnRoutines {
    /// By name.
    Named(Vec<RoutineNamed>),
    /// All of schemas.
    AllIn(Vec<Name>),
}

/// A statement about functions, procedures and triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routines {
    /// `CREATE {FUNCTION | PROCEDURE} …`
    Create(CreateRoutine),
    /// `DROP {FUNCTION | PROCEDURE | ROUTINE} …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Drop { kind: RoutineKind, names: Vec<RoutineNamed>, if_exists: bool, cascade: bool },
    /// `ALTER {FUNCTION | PROCEDURE | ROUTINE} …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Alter { kind: RoutineKind, routine: RoutineNamed, change: RoutineChange },
    /// `COMMENT ON {FUNCTION | PROCEDURE | ROUTINE} … IS …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Comment { kind: RoutineKind, routine: RoutineNamed, text: Option<String> },
    /// `GRANT … ON {FUNCTION | PROCEDURE | ROUTINE} … TO …`, and REVOKE.
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Grant { granting: Granting, kind: RoutineKind, on: OnRoutines, to: Vec<Option<RoleName>> },
    /// `DO …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    Do { language: Option<Name>, body: String },
    /// `CREATE TRIGGER …`
    CreateTrigger(CreateTrigger),
    /// `CREATE AGGREGATE …`
    CreateAggregate(CreateAggregate),
    /// `CREATE CAST …`
    CreateCast(CreateCast),
    /// `CREATE OPERATOR …`, and what else there is about operators.
    Operators(OnOperators),
    /// `CREATE RULE …`, and what else there is about rules.
    Rules(OnRules),
    /// `DROP CAST …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    DropCast { types: CastTypes, if_exists: bool, cascade: bool },
    /// `COMMENT ON CAST …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    CommentCast { types: CastTypes, text: Option<String> },
    /// `DROP TRIGGER …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    DropTrigger { name: Name, table: QualifiedName, if_exists: bool, cascade: bool },
    /// `ALTER TRIGGER … RENAME TO …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    RenameTrigger { name: Name, table: QualifiedName, to: Name },
    /// `COMMENT ON TRIGGER … ON … IS …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    CommentTrigger { name: Name, table: QualifiedName, text: Option<String> },
    /// `ALTER TABLE … {ENABLE | DISABLE} TRIGGER …`
    #[expect(missing_docs, reason = "fields have the names that they have in the statement")]
    EnableTrigger { table: QualifiedName, if_exists: bool, only: bool, which: TriggersMeant, state: char },
}

/// Which triggers of a table are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggersMeant {
    /// One.
    Named(Name),
    /// ALL
    All,
    /// USER: but for those of foreign keys.
    User,
}

/// `CREATE [OR REPLACE] [CONSTRAINT] TRIGGER …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTrigger {
    /// One of the same name is replaced.
    pub or_replace: bool,
    /// It is a constraint trigger.
    pub is_constraint: bool,
    /// Its name.
    pub name: Name,
    /// When it fires.
    pub timing: TriggerTiming,
    /// What it fires for.
    pub events: Vec<TriggerEvent>,
    /// Its table or view.
    pub table: QualifiedName,
    /// FROM: another table that the constraint is about.
    pub from: Option<QualifiedName>,
    /// DEFERRABLE
    pub deferrable: bool,
    /// INITIALLY DEFERRED
    pub initially_deferred: bool,
    /// REFERENCING OLD TABLE AS
    pub old_table: Option<Name>,
    /// REFERENCING NEW TABLE AS
    pub new_table: Option<Name>,
    /// FOR EACH ROW
    pub for_each_row: bool,
    /// The text of the condition of WHEN.
    pub when: Option<String>,
    /// The function.
    pub function: QualifiedName,
    /// Its arguments.
    pub args: Vec<String>,
}

/// When a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub enum TriggerTiming {
    Before,
    After,
    InsteadOf,
}

/// What a trigger fires for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub enum TriggerEvent {
    Insert,
    Delete,
    /// With the columns of OF, if there are any.
    Update(Vec<Name>),
    Truncate,
}

impl Routines {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create(create) if create.is_procedure => "CREATE PROCEDURE",
            Self::Create(_) => "CREATE FUNCTION",
            Self::Drop { kind: RoutineKind::Function, .. } => "DROP FUNCTION",
            Self::Drop { kind: RoutineKind::Procedure, .. } => "DROP PROCEDURE",
            Self::Drop { kind: RoutineKind::Aggregate, .. } => "DROP AGGREGATE",
            Self::Drop { .. } => "DROP ROUTINE",
            Self::Alter { kind: RoutineKind::Function, .. } => "ALTER FUNCTION",
            Self::Alter { kind: RoutineKind::Procedure, .. } => "ALTER PROCEDURE",
            Self::Alter { kind: RoutineKind::Aggregate, .. } => "ALTER AGGREGATE",
            Self::Alter { .. } => "ALTER ROUTINE",
            Self::Comment { .. } | Self::CommentTrigger { .. } => "COMMENT",
            Self::Grant { granting, .. } if granting.revoke => "REVOKE",
            Self::Grant { .. } => "GRANT",
            Self::Do { .. } => "DO",
            Self::CreateAggregate(_) => "CREATE AGGREGATE",
            Self::CreateCast(_) => "CREATE CAST",
            Self::Operators(statement) => statement.tag(),
            Self::Rules(statement) => statement.tag(),
            Self::DropCast { .. } => "DROP CAST",
            Self::CommentCast { .. } => "COMMENT",
            Self::CreateTrigger(_) => "CREATE TRIGGER",
            Self::DropTrigger { .. } => "DROP TRIGGER",
            Self::RenameTrigger { .. } => "ALTER TRIGGER",
            Self::EnableTrigger { .. } => "ALTER TABLE",
        }
    }
}

/// `CALL name (…)`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The procedure's name and what it is called with.
    pub function: ast::Function,
}
