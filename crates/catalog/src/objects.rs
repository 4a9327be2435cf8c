//! The objects of a catalogue: schemas, tables with their columns, indexes and constraints,
//! sequences, views, triggers.
//!
//! Each is JSON in its entry, field by field: a field that came later has a default for entries
//! that do not have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use colibri_txn::{ColumnSet, RowLayout, Space, SpaceId};
use colibri_types::composites::{CompositeContent, CompositeField, CompositeType};
use colibri_types::{ColumnType, Datum, Env, Error, Result, SqlState, Type, row, text_io};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::{Acl, BOOTSTRAP_ROLE, DATABASE_OWNER_ROLE, Grant, ObjectKind, PUBLIC_ROLE, Privileges, RoleId};
use crate::partition::{PartitionOf, Partitioned};
use crate::row::{Compression, RowFormat};
use crate::security::RowSecurity;
use crate::stored_columns::{ColumnStorage, Generations};

/// The number of an object.
pub type ObjectId = u32;

/// Privileges on columns, by their places from 0.
pub type ColumnAcls = BTreeMap<usize, Acl>;

/// The first number of a user's object, as in PostgreSQL.
pub const FIRST_USER_OBJECT: ObjectId = 16384;

/// The schema that names are looked up in when none is given.
pub const PUBLIC: &str = "public";

/// The number of the schema `public`.
pub const PUBLIC_SCHEMA: ObjectId = 2200;

/// A column of a table. Its number for clients is its place, from 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    /// Its name; of a dropped one, empty.
    pub name: CompactString,
    /// Its type.
    #[serde(with = "column_type")]
    pub ty: ColumnType,
    /// Whether NULL is refused.
    #[serde(default)]
    pub not_null: bool,
    /// The default, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The value in rows that were written before the column was added, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Values come from a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// It was dropped; its place stays.
    #[serde(default)]
    pub dropped: bool,
    /// The collation that it was declared with, if not the database's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<CompactString>,
    /// GENERATED ALWAYS AS … STORED: what its values are computed of, as SQL over the table's other
    /// columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
    /// It stands for an expression of an index, or for the condition of one, as SQL over the
    /// table's other columns. It is marked as `dropped`, so that no statement finds it. Rows do not
    /// hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// It is there only because a table that this one inherits from has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited_only: bool,
    /// How its values are kept: what COMPRESSION and STORAGE have said.
    #[serde(default, skip_serializing_if = "ColumnStorage::is_default")]
    pub storage: ColumnStorage,
}

impl Column {
    /// One that stands for an expression of an index. `name` is for listings.
    #[must_use]
    pub fn of_expression(name: &str, ty: ColumnType, expression: String) -> Self {
        Self {
            name: name.into(),
            ty,
            not_null: false,
            default: None,
            missing: None,
            identity: None,
            dropped: true,
            collation: None,
            generated: None,
            expression: Some(expression),
            inherited_only: false,
            storage: ColumnStorage::default(),
        }
    }
}

/// `GENERATED … AS IDENTITY`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// A value given is refused, unless it overrides.
    Always,
    /// A value given is taken.
    ByDefault,
}

/// A column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    /// The table's column.
    pub column: usize,
    /// Largest first.
    #[serde(default)]
    pub descending: bool,
    /// Where NULLs go.
    #[serde(default)]
    pub nulls_first: bool,
}

/// A secondary index. An entry's key is the indexed columns followed by the row's key; its value is
/// empty.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Index {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// Where its entries are.
    pub space: u32,
    /// What it is ordered by.
    pub columns: Vec<IndexColumn>,
    /// No two rows have the same values, NULLs aside.
    #[serde(default)]
    pub unique: bool,
    /// Whether it belongs to a UNIQUE constraint, which has the same name.
    #[serde(default)]
    pub constraint: bool,
    /// Only rows in which this column, which stands for a condition, is true have entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<usize>,
    /// Of a unique one: NULLs are equal to each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nulls_not_distinct: bool,
    /// The access method that was asked for, if it is not `btree`, which it is in fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<CompactString>,
    /// Of an inverted one: how the values of each column are taken apart. Its entries are those of
    /// [`crate::inverted`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Tokenized>,
    /// Of a partition: the index of the partitioned table that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ObjectId>,
    /// Of an exclusion constraint: how the values of two rows are compared, as it was declared. The
    /// index has columns that are compared as equal in front, and ranges that must not overlap behind
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusion: Vec<Excluded>,
    /// The columns that INCLUDE names. Rows are found by their keys, so the entries do not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<usize>,
    /// When its constraint is checked.
    #[serde(default, skip_serializing_if = "Timing::is_fixed")]
    pub timing: Timing,
    /// It is that of a UNIQUE constraint that is deferrable. Rows may have equal values until the
    /// check, so `unique` is false, and the constraint is kept as one of exclusion whose columns
    /// are all compared as equal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferrable_key: bool,
}

/// A column of an exclusion constraint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The table's column.
    pub column: usize,
    /// What compares its values: `=` or `&&`.
    pub operator: CompactString,
}

impl Index {
    /// An index of all rows, on columns.
    #[must_use]
    pub fn plain(id: ObjectId, name: CompactString, space: u32, columns: Vec<IndexColumn>, unique: bool) -> Self {
        Self {
            id,
            name,
            space,
            columns,
            unique,
            constraint: false,
            predicate: None,
            nulls_not_distinct: false,
            method: None,
            tokens: Vec::new(),
            parent: None,
            exclusion: Vec::new(),
            include: Vec::new(),
            timing: Timing::Fixed,
            deferrable_key: false,
        }
    }

    /// Whether rows have an entry for each token of their values, and not one by their values.
    #[must_use]
    pub fn is_inverted(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether it is that of an exclusion constraint.
    #[must_use]
    pub fn is_exclusion(&self) -> bool {
        !self.exclusion.is_empty()
    }

    /// Its space.
    #[must_use]
    pub fn space(&self) -> Space {
        Space::new(SpaceId(self.space))
    }
}

/// The primary key that a table is clustered on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrimaryKey {
    /// Its number, as an index.
    pub id: ObjectId,
    /// The constraint's name.
    pub name: CompactString,
    /// The table's columns.
    pub columns: Vec<usize>,
    /// Of a partition: the key of the partitioned table that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ObjectId>,
    /// The columns that INCLUDE names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<usize>,
}

/// A CHECK constraint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// The condition, as SQL.
    pub condition: String,
    /// NO INHERIT: tables that inherit from this one do not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_inherit: bool,
    /// NOT VALID: rows that were there before it have not been checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_valid: bool,
    /// A table that this one is a partition of, or inherits from, has it as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// Of an inherited one: the table has declared it itself, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared: bool,
}

/// What happens to referring rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReferenceAction {
    /// An error at the end of the statement.
    NoAction,
    /// An error.
    Restrict,
    /// They are deleted or changed, too.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

/// A FOREIGN KEY constraint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// The referring columns.
    pub columns: Vec<usize>,
    /// The table referred to.
    pub target: ObjectId,
    /// The columns referred to.
    pub target_columns: Vec<usize>,
    /// When a row referred to is deleted.
    pub on_delete: ReferenceAction,
    /// When its key changes.
    pub on_update: ReferenceAction,
    /// Which of the referring columns `on_delete` sets; none says all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_columns: Vec<usize>,
    /// NOT VALID: rows that were there before it have not been checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_valid: bool,
    /// When it is checked.
    #[serde(default, skip_serializing_if = "Timing::is_fixed")]
    pub timing: Timing,
    /// MATCH FULL: a row whose values are NULL in part is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub match_full: bool,
    /// Of a partition: the constraint of the partitioned table that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ObjectId>,
}

/// When a constraint is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// NOT DEFERRABLE: at the end of each statement.
    #[default]
    Fixed,
    /// DEFERRABLE INITIALLY IMMEDIATE: the same, unless SET CONSTRAINTS says otherwise.
    Immediate,
    /// DEFERRABLE INITIALLY DEFERRED: at the transaction's end, unless SET CONSTRAINTS says
    /// otherwise.
    Deferred,
}

impl Timing {
    /// Whether SET CONSTRAINTS changes nothing about it.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// A table.
///
/// A row's key is its primary key's columns, encoded in order; without a primary key, a hidden
/// number (8 bytes). A row's value holds, in the newest of `generations`, all columns that the key
/// does not give back exactly.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Where its rows are.
    pub space: u32,
    /// Its columns, dropped ones included.
    pub columns: Vec<Column>,
    /// What it is clustered on.
    #[serde(default)]
    pub primary_key: Option<PrimaryKey>,
    /// Secondary indexes.
    #[serde(default)]
    pub indexes: Vec<Arc<Index>>,
    /// Conditions on rows.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// References to other tables.
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    /// For each generation of rows, which columns their values hold. A row says its generation.
    pub generations: Generations,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may do what with it; `None` is the owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// Who may do what with single columns, by their places.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub column_acls: ColumnAcls,
    /// It is a materialized view: its rows are what a query gave, which the view of the same number
    /// has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub materialized: Option<Materialized>,
    /// A counter. ALTER DOMAIN raises it when it has checked the table's rows, so that the table's
    /// record changes. A transaction that planned a write with the old domain then conflicts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub domains_changed: u32,
    /// Of a temporary one: what becomes of it at the end of each transaction, if it is not just
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_commit: Option<OnCommit>,
    /// Its triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Arc<Trigger>>,
    /// Its foreign keys and those that refer to it are not looked at: DISABLE TRIGGER ALL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub references_off: bool,
    /// What row-level security says of it.
    #[serde(default, skip_serializing_if = "RowSecurity::is_empty")]
    pub security: RowSecurity,
    /// It is partitioned: it has no rows of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioned: Option<Partitioned>,
    /// It is a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_of: Option<PartitionOf>,
    /// The tables that it inherits from, in the order of `INHERITS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherits: Vec<ObjectId>,
    /// The tables that inherit from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ObjectId>,
    /// It is a topic: its rows are messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    /// What REPLICA IDENTITY has said, which is only shown.
    #[serde(default, skip_serializing_if = "ReplicaIdentity::is_default")]
    pub replica_identity: ReplicaIdentity,
    /// How the long values of columns are compressed that say nothing of it themselves; `None`: as
    /// usual, which is not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Made from `generations` when the table is read.
    #[serde(skip)]
    pub layout: Option<Arc<TableLayout>>,
}

/// What makes a table a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// How many partitions it has, which are numbered from 0.
    pub partitions: u32,
    /// Messages that are older go, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_us: Option<i64>,
    /// The oldest messages go when all take more bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_bytes: Option<u64>,
}

/// The most partitions of a topic.
pub const PARTITIONS_MAX: u32 = 1024;
/// What of a row's old state replication would tell: there is none that does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaIdentity {
    /// The primary key.
    #[default]
    Default,
    /// Nothing.
    Nothing,
    /// All columns.
    Full,
    /// The columns of an index, or of the primary key by its number.
    Index(ObjectId),
}

impl ReplicaIdentity {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// As `pg_class.relreplident` has it.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Default => "d",
            Self::Nothing => "n",
            Self::Full => "f",
            Self::Index(_) => "i",
        }
    }
}

/// What becomes of a temporary table when a transaction commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnCommit {
    /// All its rows are deleted.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// A trigger of a table or view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// Its function.
    pub function: ObjectId,
    /// When it fires.
    pub timing: TriggerTime,
    /// For each row, not once a statement.
    pub row: bool,
    /// What it fires for: see [`Trigger::INSERT`] and its neighbours.
    pub events: u8,
    /// The columns of UPDATE OF.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<usize>,
    /// The condition of WHEN, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The name of the rows before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_table: Option<CompactString>,
    /// The name of the rows after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_table: Option<CompactString>,
    /// What the function finds in `TG_ARGV`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// `O`: unless the session replicates; `D`: never; `R`: only then; `A`: always.
    #[serde(default = "enabled")]
    pub enabled: char,
    /// It is a constraint trigger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_constraint: bool,
    /// When a constraint trigger fires.
    #[serde(default, skip_serializing_if = "Timing::is_fixed")]
    pub deferral: Timing,
    /// Of a partition: the trigger of its table that this one is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ObjectId>,
    /// The other table that a constraint trigger is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ObjectId>,
}

/// When a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerTime {
    /// BEFORE
    Before,
    /// AFTER
    After,
    /// INSTEAD OF
    InsteadOf,
}

impl Trigger {
    // ON DISK: never renumber.
    /// The bit of INSERT.
    pub const INSERT: u8 = 1;
    /// The bit of DELETE.
    pub const DELETE: u8 = 2;
    /// The bit of UPDATE.
    pub const UPDATE: u8 = 4;
    /// The bit of TRUNCATE.
    pub const TRUNCATE: u8 = 8;
}

/// What a materialized view is besides a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Materialized {
    /// Whether it has rows: not from WITH NO DATA until it is refreshed.
    pub populated: bool,
}

/// The bytes of a table's rows.
#[derive(Debug)]
pub struct TableLayout {
    /// A format for each generation.
    pub formats: Vec<RowFormat>,
    /// For each generation, which of the table's columns the format's columns are.
    pub stored: Vec<Vec<usize>>,
    /// What each column has in rows that were written before it was added.
    /// An error for a value that cannot be read.
    pub missing: Vec<Result<Datum>>,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// `smallint`, `integer` or `bigint`, as a number of PostgreSQL's.
    pub type_oid: u32,
    /// The first value.
    pub start: i64,
    /// From one value to the next; not 0.
    pub increment: i64,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// Whether it starts again at its end.
    pub cycle: bool,
    /// Values that a session may take at once, as CACHE says: sessions share blocks here, so it is
    /// only shown.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cache: i64,
    /// The table and column that it belongs to, and is dropped with.
    pub owned_by: Option<(ObjectId, usize)>,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may do what with it; `None` is the owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
}

fn one() -> i64 {
    1
}

fn is_one(number: &i64) -> bool {
    *number == 1
}

/// A view.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Names of its columns.
    pub columns: Vec<CompactString>,
    /// Its query, as SQL.
    pub query: String,
    /// Tables and views that it reads.
    pub reads: Vec<ObjectId>,
    /// Its triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Arc<Trigger>>,
    /// It is the query of a materialized view, which is the table of the same number: nobody finds
    /// it by its name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub materialized: bool,
    /// WITH CHECK OPTION.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_option: Option<CheckOption>,
    /// The defaults of its columns, by their places from 0, as SQL: for rows that are inserted into
    /// it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<usize, String>,
    /// Its query runs with the privileges of the user, not of the view's owner (`security_invoker`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invoker: bool,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may do what with it; `None` is the owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// Who may do what with single columns, by their places.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub column_acls: ColumnAcls,
}

/// What rows that are written to a view have to fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckOption {
    /// The view's own conditions.
    Local,
    /// Those of the views that it reads, too.
    Cascaded,
}

/// A schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Its number.
    pub id: ObjectId,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may do what with it; `None` is the owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
}

/// A relation: an object with a name in a schema.
#[derive(Debug, Clone)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// An index, with its table's number.
    Index(ObjectId, Arc<Index>),
    /// A primary key's index, by its table's number.
    PrimaryKey(ObjectId),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// A view.
    View(Arc<View>),
}

impl Table {
    /// Whether a CHECK is NOT VALID, so that rows which do not change in its columns may violate
    /// it.
    #[must_use]
    pub fn is_not_valid(&self, check: &str) -> bool {
        self.checks.iter().any(|known| known.not_valid && known.name == check)
    }

    /// Its rows' space, with what tells its columns apart.
    #[must_use]
    pub fn space(&self) -> Space {
        match &self.layout {
            Some(layout) => Space::with_layout(SpaceId(self.space), Arc::clone(layout) as Arc<dyn RowLayout>),
            None => Space::new(SpaceId(self.space)),
        }
    }

    /// How its rows are laid out.
    pub fn layout(&self) -> &TableLayout {
        self.layout.as_ref().expect("a table of a catalogue has its layout")
    }

    /// The place of a column, by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name && !column.dropped)
    }

    /// Whether its rows are, or may be, rows of other tables: it is partitioned, or others inherit
    /// from it.
    #[must_use]
    pub fn is_tree(&self) -> bool {
        self.partitioned.is_some() || !self.children.is_empty()
    }

    /// The columns that stand for expressions, with these.
    pub fn expressions(&self) -> impl Iterator<Item = (usize, &str)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(place, column)| Some((place, column.expression.as_deref()?)))
    }

    /// The condition that rows fulfil which have an entry in an index, as SQL; `None`: all rows.
    #[must_use]
    pub fn predicate_of(&self, index: &Index) -> Option<&str> {
        self.columns[index.predicate?].expression.as_deref()
    }

    /// Removes an index, and what stands for its expressions and for no other index'.
    pub fn remove_index(&mut self, at: usize) -> Arc<Index> {
        let index = self.indexes.remove(at);
        for column in index.columns.iter().map(|part| part.column).chain(index.predicate) {
            let is_of = |other: &Arc<Index>| {
                other.predicate == Some(column) || other.columns.iter().any(|part| part.column == column)
            };
            let is_key = self.partitioned.as_ref().is_some_and(|partitioned| partitioned.keys.contains(&column));
            if !self.indexes.iter().any(is_of) && !is_key {
                self.columns[column].expression = None;
            }
        }
        index
    }

    /// Whether an index is on an expression.
    #[must_use]
    pub fn is_on_expression(&self, index: &Index) -> bool {
        index.columns.iter().any(|part| self.columns[part.column].expression.is_some())
    }

    /// The indexes that have one entry for each row, on columns.
    pub fn plain_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        let is_plain =
            |index: &&Arc<Index>| index.predicate.is_none() && !index.is_inverted() && !self.is_on_expression(index);
        self.indexes.iter().filter(is_plain)
    }

    /// The numbers of its indexes and constraints.
    pub fn part_numbers(&self) -> Vec<ObjectId> {
        let indexes = self.indexes.iter().map(|index| index.id);
        let checks = self.checks.iter().map(|check| check.id);
        let references = self.foreign_keys.iter().map(|key| key.id);
        let policies = self.security.policies.iter().map(|policy| policy.id);
        indexes
            .chain(checks)
            .chain(references)
            .chain(policies)
            .chain(self.primary_key.iter().map(|key| key.id))
            .collect()
    }

    /// Columns that were not dropped, with their places.
    pub fn live_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }

    /// The type of its rows.
    #[must_use]
    pub fn row_type(&self) -> CompositeType {
        let field = |(place, column): (usize, &Column)| CompositeField {
            number: place as u16 + 1,
            name: column.name.clone(),
            ty: column.ty,
        };
        CompositeType::of(CompositeContent {
            oid: row::row_type(self.id),
            array_oid: row::row_array(self.id),
            name: self.name.as_str().into(),
            fields: self.live_columns().map(field).collect(),
        })
    }

    /// The columns of the key; empty if rows have a hidden number instead.
    #[must_use]
    pub fn key_columns(&self) -> &[usize] {
        self.primary_key.as_ref().map_or(&[], |key| &key.columns)
    }

    /// Starts a new generation of rows if the columns that a row's value has to hold are not those
    /// of the newest one.
    pub fn renew_generation(&mut self) {
        let stored: Vec<usize> = self
            .live_columns()
            .filter(|(place, column)| {
                !(self.key_columns().contains(place) && colibri_types::key::is_exact(column.ty.ty))
            })
            .map(|(place, _)| place)
            .collect();
        if self.generations.last() != Some(&stored) {
            self.generations.push(stored);
        }
        self.renew_layout();
    }

    /// Whether the long values of a column are compressed when they are written.
    #[must_use]
    pub fn compresses(&self, column: usize) -> bool {
        let Column { ty, storage, .. } = &self.columns[column];
        storage.compression_of(ty.ty, self.compression) == Compression::Lz4
    }

    /// Makes the layout anew, after a change of its columns or of how their values are kept.
    pub fn renew_layout(&mut self) {
        let formats = self.generations.iter().enumerate().map(|(generation, stored)| {
            let types: Vec<Type> = stored.iter().map(|&place| self.columns[place].ty.ty).collect();
            let format = RowFormat::new(generation as u16, &types);
            format.compressing(|column| self.compresses(stored[column]))
        });
        let formats: Vec<RowFormat> = formats.collect();
        // Rows are written in the newest format only.
        if formats.last().is_some_and(RowFormat::compresses) {
            self.generations.note_compression();
        }
        // Texts that were written by this program for values of the column's type. One that cannot
        // be read is said when a row needs it.
        let env = Env::default();
        let missing = self.columns.iter().map(|column| match &column.missing {
            Some(text) if !column.dropped => {
                text_io::parse(column.ty.ty, column.ty.modifier, text, &env).map_err(|error| {
                    let (table, column) = (&self.name, &column.name);
                    let message = format!("the value that rows of {table} have in column {column} cannot be read");
                    Error::new(SqlState::DATA_CORRUPTED, message).detail(error.report().message.clone())
                })
            }
            _ => Ok(Datum::Null),
        });
        let missing = missing.collect();
        self.layout = Some(Arc::new(TableLayout { formats, stored: self.generations.to_vec(), missing }));
    }
}

impl TableLayout {
    /// The bytes that a row's values take when they are read: those of the row, and of its
    /// compressed values without compression. Those of the row alone if it is damaged.
    #[inline]
    #[must_use]
    pub fn expanded_bytes(&self, row: &[u8]) -> usize {
        if RowFormat::has_compressed(row) { self.expanded_bytes_of_compressed(row) } else { row.len() }
    }

    /// The bytes that a column of the table takes in a row if it is compressed there.
    ///
    /// # Errors
    /// The row is damaged.
    pub fn compressed_bytes(&self, row: &[u8], column: usize) -> Result<Option<usize>> {
        let generation = usize::from(RowFormat::generation_of(row)?);
        let (Some(format), Some(stored)) = (self.formats.get(generation), self.stored.get(generation)) else {
            return Ok(None);
        };
        match stored.iter().position(|&known| known == column) {
            Some(place) => format.compressed_bytes(row, place),
            None => Ok(None),
        }
    }

    #[cold]
    fn expanded_bytes_of_compressed(&self, row: &[u8]) -> usize {
        let format =
            RowFormat::generation_of(row).ok().and_then(|generation| self.formats.get(usize::from(generation)));
        format.and_then(|format| format.expanded_bytes(row).ok()).unwrap_or(row.len())
    }
}

impl RowLayout for TableLayout {
    fn changed(&self, old: &[u8], new: &[u8]) -> ColumnSet {
        let (Ok(generation), Ok(other)) = (RowFormat::generation_of(old), RowFormat::generation_of(new)) else {
            return ColumnSet::ALL;
        };
        let known = self.formats.get(usize::from(generation)).zip(self.stored.get(usize::from(generation)));
        match known {
            Some((format, stored)) if generation == other => {
                let mut changed = ColumnSet::NONE;
                let compared = format.for_each_changed(old, new, |place| changed.insert(stored[place]));
                if compared.is_ok() { changed } else { ColumnSet::ALL }
            }
            _ => ColumnSet::ALL,
        }
    }
}

impl Schema {
    /// A schema of a role.
    #[must_use]
    pub fn new(id: ObjectId, name: CompactString, owner: RoleId) -> Self {
        Self { id, name, owner, acl: None }
    }

    /// `public` as in a new database: the database's owner may create objects in it, all roles may
    /// use it.
    pub(super) fn public() -> Self {
        let owner = DATABASE_OWNER_ROLE;
        let mut acl = Acl::default_of(ObjectKind::Schema, owner);
        acl.add(Grant::plain(PUBLIC_ROLE, owner, Privileges::USAGE));
        Self { id: PUBLIC_SCHEMA, name: PUBLIC.into(), owner, acl: Some(acl) }
    }
}

impl Sequence {
    /// What its values are.
    #[must_use]
    pub fn ty(&self) -> Type {
        Type::from_oid(self.type_oid).unwrap_or(Type::Int8)
    }
}

impl Relation {
    /// The word for its kind in error messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Table(table) if table.materialized.is_some() => "materialized view",
            Self::Table(_) => "table",
            Self::Index(..) | Self::PrimaryKey(_) => "index",
            Self::Sequence(_) => "sequence",
            Self::View(_) => "view",
        }
    }
}

pub(crate) mod column_type {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use colibri_types::types::{ColumnType, Modifier, Type};

    use colibri_types::{DomainType, EnumType};

    use super::FIRST_USER_OBJECT;

    /// ON DISK: `[type, modifier]`, and of a domain `[type, modifier, domain]`.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Domain(u32, i32, u32),
        Plain(u32, i32),
    }

    pub(crate) fn serialize<S: Serializer>(ty: &ColumnType, serializer: S) -> Result<S::Ok, S::Error> {
        match ty.domain {
            None => (ty.ty.oid(), ty.modifier.0).serialize(serializer),
            Some(domain) => (ty.ty.oid(), ty.modifier.0, domain.oid()).serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ColumnType, D::Error> {
        let (oid, modifier, domain) = match Stored::deserialize(deserializer)? {
            Stored::Plain(oid, modifier) => (oid, modifier, None),
            Stored::Domain(oid, modifier, domain) => (oid, modifier, Some(domain)),
        };
        let ty = match Type::from_oid(oid) {
            Some(ty) => ty,
            // What it means is found among the catalogue's own types.
            None if oid >= FIRST_USER_OBJECT => Type::Enum(EnumType::unresolved(oid)),
            None => return Err(serde::de::Error::custom(format!("no type has number {oid}"))),
        };
        Ok(ColumnType { domain: domain.map(DomainType::unresolved), ..ColumnType::new(ty, Modifier(modifier)) })
    }
}

fn enabled() -> char {
    'O'
}

fn bootstrap() -> RoleId {
    BOOTSTRAP_ROLE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The class of a column of an inverted index, in the catalogue by its method and name.
#[derive(Debug, Clone, Copy)]
pub struct Tokenized(pub &'static colibri_types::tokens::TokenClass);

impl PartialEq for Tokenized {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl serde::Serialize for Tokenized {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.0.method, self.0.name).serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Tokenized {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (method, name) = <(compact_str::CompactString, compact_str::CompactString)>::deserialize(deserializer)?;
        let class = colibri_types::tokens::class(&method, &name);
        class.map(Self).ok_or_else(|| serde::de::Error::custom(format!("no operator class {name} of {method}")))
    }
}
