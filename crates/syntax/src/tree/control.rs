//! Transactions, prepared statements, EXPLAIN and DISCARD.

use sqlparser::ast;

use super::{Inner, Name, Statement};

/// The beginning or the end of a transaction or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// BEGIN and START TRANSACTION.
    Begin {
        /// What the transaction is to be like.
        modes: Vec<Mode>,
        /// It was written START TRANSACTION.
        is_start: bool,
    },
    /// COMMIT and END.
    Commit {
        /// Another transaction follows.
        chain: bool,
    },
    /// ROLLBACK and ABORT.
    Rollback {
        /// Another transaction follows.
        chain: bool,
    },
    /// `ROLLBACK TO name`
    RollbackTo(Name),
    /// `SAVEPOINT name`
    Savepoint(Name),
    /// `RELEASE name`
    Release(Name),
    /// `PREPARE TRANSACTION 'name'`
    Prepare(String),
    /// `COMMIT PREPARED 'name'`
    CommitPrepared(String),
    /// `ROLLBACK PREPARED 'name'`
    RollbackPrepared(String),
}

/// What a transaction is told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `ISOLATION LEVEL …`
    Level(Level),
    /// READ ONLY, or READ WRITE.
    ReadOnly(bool),
    /// DEFERRABLE, or NOT DEFERRABLE.
    Deferrable(bool),
}

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// SERIALIZABLE
    Serializable,
    /// REPEATABLE READ
    RepeatableRead,
    /// READ COMMITTED
    ReadCommitted,
    /// READ UNCOMMITTED
    ReadUncommitted,
}

/// `PREPARE name (types) AS statement`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// The statement's name.
    pub name: Name,
    /// Types of its parameters, as many as are given.
    pub types: Vec<ast::DataType>,
    /// What is prepared.
    pub inner: Inner,
}

/// `EXECUTE name (parameters)`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// The prepared statement's name.
    pub name: Name,
    /// Values of its parameters.
    pub parameters: Vec<ast::Expr>,
}

/// `EXPLAIN [ANALYZE] [VERBOSE] statement`, or with options in parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    /// ANALYZE without parentheses.
    pub analyze: bool,
    /// VERBOSE without parentheses.
    pub verbose: bool,
    /// Those in parentheses.
    pub options: Vec<ExplainOption>,
    /// What is explained: a relational statement or EXECUTE.
    pub statement: Statement,
}

/// An option of EXPLAIN in parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainOption {
    /// Its name.
    pub name: Name,
    /// A word, a string or a number; without one the option is on.
    pub value: Option<String>,
}

/// What DISCARD throws away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// Everything.
    All,
    /// Plans.
    Plans,
    /// What sequences have given.
    Sequences,
    /// Temporary tables.
    Temp,
}

impl Transaction {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Begin { is_start: false, .. } => "BEGIN",
            Self::Begin { is_start: true, .. } => "START TRANSACTION",
            Self::Commit { .. } => "COMMIT",
            Self::Rollback { .. } | Self::RollbackTo(_) => "ROLLBACK",
            Self::Savepoint(_) => "SAVEPOINT",
            Self::Release(_) => "RELEASE",
            Self::Prepare(_) => "PREPARE TRANSACTION",
            Self::CommitPrepared(_) => "COMMIT PREPARED",
            Self::RollbackPrepared(_) => "ROLLBACK PREPARED",
        }
    }
}

impl Level {
    /// As settings have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Serializable => "serializable",
            Self::RepeatableRead => "repeatable read",
            Self::ReadCommitted => "read committed",
            Self::ReadUncommitted => "read uncommitted",
        }
    }
}

impl Discard {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::All => "DISCARD ALL",
            Self::Plans => "DISCARD PLANS",
            Self::Sequences => "DISCARD SEQUENCES",
            Self::Temp => "DISCARD TEMP",
        }
    }
}

impl ExplainOption {
    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let is_off = |value: &String| ["off", "false", "0"].iter().any(|off| value.eq_ignore_ascii_case(off));
        !self.value.as_ref().is_some_and(is_off)
    }
}
