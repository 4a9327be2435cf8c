//! The tree of a statement: one enum, a variant for each kind.
//!
//! What is in it is data: nothing here reads a text, and nothing runs. Names are as the catalogue
//! has them, in lower case unless they were quoted, and no longer than a name may be.
//!
//! | file | holds |
//! | --- | --- |
//! | `control` | transactions, prepared statements, EXPLAIN, DISCARD |
//! | `settings` | SET, RESET, SHOW |
//! | `cursors` | DECLARE, FETCH, MOVE |
//! | `copy` | COPY |
//! | `admin` | roles, databases, privileges, owners, comments, upkeep |
//! | `collations` | collations |
//! | `statistics` | extended statistics |
//! | `policies` | policies of row-level security |
//! | `routines` | functions, procedures, triggers, DO, CALL |
//! | `sequences` | what a sequence or an identity column is told to be |
//! | `user_types` | what is changed of types and extensions |
//!
//! Invariant: the spans in a tree, and the bytes of an [`Inner`], are those of the whole text.

use std::ops::Range;

use colibri_types::types::NAME_BYTES_MAX;
use compact_str::CompactString;
use sqlparser::ast;

mod admin;
mod collations;
mod control;
mod copy;
mod cursors;
mod operators;
mod policies;
mod routines;
mod rules;
mod sequences;
mod settings;
mod statistics;
mod text_search;
mod user_types;

pub use admin::{
    Admin, AsOf, DatabaseOption, Granting, Object, ObjectKind, On, PartitionChange, Reindex, RoleName, RoleOption,
    SettingChange, SettingsOf, TableLock, Upkeep, UpkeepTable,
};
pub use collations::{CollationOption, Collations};
pub use control::{Discard, Execute, Explain, ExplainOption, Level, Mode, Prepare, Transaction};
pub use copy::{Copy, CopyColumns, CopyFormat, CopyHeader, CopyOptions, CopySource};
pub use cursors::{Declare, Fetch, Goal};
pub use operators::{OnOperators, OperatorChange, OperatorNamed, OperatorValue};
pub use policies::{CreatePolicy, Policies};
pub use routines::{
    AggregateValue, ArgMode, Call, CastTypes, CreateAggregate, CreateCast, CreateRoutine, CreateTrigger, OnRoutines,
    Returned, RoutineArg, RoutineBody, RoutineChange, RoutineKind, RoutineNamed, RoutineOption, Routines, TriggerEvent,
    TriggerTiming, TriggersMeant, TypeGiven,
};
pub use rules::OnRules;
pub use sequences::{IdentityChange, IdentityKind, SequenceNumber, SequenceOption};
pub use settings::{Given, Setting, To};
pub use statistics::OnStatistics;
pub use text_search::{MappingChange, OnTextSearch, SearchKind, SearchOption};
pub use user_types::{
    AttributeChange, DomainChange, ExtensionChange, LabelPlace, RangeOption, RangeOptions, TypeChange, TypeField,
    ViewChange,
};

/// A name as the catalogue has it.
pub type Name = CompactString;
/// A name with what is in front of its points.
pub type QualifiedName = Vec<Name>;

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Reads or changes rows, or makes, changes or drops relations.
    Relational(Box<ast::Statement>),
    /// SET, RESET and SHOW.
    Setting(Box<Setting>),
    /// Begins or ends a transaction or a part of one.
    Transaction(Transaction),
    /// `PREPARE name AS …`
    Prepare(Box<Prepare>),
    /// `EXECUTE name (…)`
    Execute(Execute),
    /// `DEALLOCATE name`; without a name `DEALLOCATE ALL`.
    Deallocate(Option<Name>),
    /// `DISCARD …`
    Discard(Discard),
    /// `EXPLAIN …`
    Explain(Box<Explain>),
    /// `DECLARE name CURSOR FOR …`
    Declare(Box<Declare>),
    /// FETCH and MOVE.
    Fetch(Fetch),
    /// `CLOSE name`; without a name `CLOSE ALL`.
    Close(Option<Name>),
    /// `COPY …`
    Copy(Box<Copy>),
    /// `CALL name (…)`
    Call(Box<Call>),
    /// About roles, databases, privileges, owners, comments, sequences and upkeep.
    Admin(Box<Admin>),
}

/// A statement inside of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    /// What it is.
    pub statement: ast::Statement,
    /// Its bytes in the text.
    pub bytes: Range<usize>,
}

/// A name as the catalogue has it.
#[must_use]
pub fn fold(ident: &ast::Ident) -> Name {
    let mut name = match ident.quote_style {
        Some(_) => Name::new(&ident.value),
        None => Name::new(ident.value.to_ascii_lowercase()),
    };
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}
