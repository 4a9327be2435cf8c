//! Roles, databases, privileges, owners, comments, sequences and upkeep.

use sqlparser::ast;

use super::{
    DomainChange, ExtensionChange, Name, QualifiedName, RangeOptions, SequenceOption, To, TypeChange, TypeField,
    ViewChange,
};

/// A statement about the cluster, about who may do what, or about upkeep.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names that they have in the statements")]
pub enum Admin {
    /// `ALTER INDEX name SET (…)`, `RESET (…)` and `ALTER COLUMN number SET STATISTICS …`
    AlterIndex { index: QualifiedName, if_exists: bool, options: Vec<ast::Expr>, column: Option<i32> },
    /// `ALTER … SET SCHEMA name`
    SetSchema { object: Object, if_exists: bool, schema: Name },
    /// `CREATE SCHEMA …` with objects in it.
    CreateSchemaWith { schema: Box<ast::Statement>, elements: Vec<super::Statement> },
    /// `CREATE {ROLE | USER | GROUP} name …`
    CreateRole { name: Name, options: Vec<RoleOption> },
    /// `ALTER {ROLE | USER | GROUP} name …`
    AlterRole { role: RoleName, options: Vec<RoleOption> },
    /// `ALTER ROLE name RENAME TO name`
    RenameRole { name: Name, to: Name },
    /// `DROP ROLE name, …`
    DropRoles { names: Vec<RoleName>, if_exists: bool },
    /// `ALTER GROUP name {ADD | DROP} USER name, …`
    AlterGroup { role: RoleName, members: Vec<RoleName>, add: bool },
    /// `GRANT role, … TO …` and `REVOKE role, … FROM …`. `admin`: with the option, or only that is
    /// taken back. `by`: who is said to do it, if not the user.
    GrantRoles { roles: Vec<Name>, to: Vec<RoleName>, admin: bool, revoke: bool, by: Option<RoleName> },
    /// `CREATE DATABASE name …`
    CreateDatabase { name: Name, options: Vec<DatabaseOption> },
    /// `DROP DATABASE name`
    DropDatabase { name: Name, if_exists: bool, force: bool },
    /// `ALTER DATABASE name RENAME TO name`
    RenameDatabase { name: Name, to: Name },
    /// `ALTER DATABASE name RESET TO name [AS OF …]`
    ResetDatabase { name: Name, to: Name, as_of: Option<AsOf>, force: bool },
    /// `ALTER DATABASE name …`
    AlterDatabase { name: Name, options: Vec<DatabaseOption> },
    /// `ALTER {ROLE | DATABASE} … {SET | RESET} …`
    Settings { of: SettingsOf, change: SettingChange },
    /// `GRANT … ON … TO …` and `REVOKE … ON … FROM …`. `None` is PUBLIC.
    Grant { granting: Granting, on: On, to: Vec<Option<RoleName>> },
    /// `ALTER DEFAULT PRIVILEGES …`: of objects of a kind, by its letter in `pg_default_acl`.
    DefaultPrivileges {
        roles: Vec<RoleName>,
        schemas: Vec<Name>,
        granting: Granting,
        object: char,
        to: Vec<Option<RoleName>>,
    },
    /// `ALTER … OWNER TO role`
    Owner { object: Object, if_exists: bool, to: RoleName },
    /// `REASSIGN OWNED BY … TO role`
    ReassignOwned { from: Vec<RoleName>, to: RoleName },
    /// `DROP OWNED BY …`
    DropOwned { roles: Vec<RoleName>, cascade: bool },
    /// `COMMENT ON … IS …`
    Comment { object: Object, text: Option<String> },
    /// VACUUM and its like.
    Upkeep(Upkeep),
    /// CHECKPOINT
    Checkpoint,
    /// `LISTEN channel`
    Listen(Name),
    /// `UNLISTEN channel`; `None` of all.
    Unlisten(Option<Name>),
    /// `NOTIFY channel, 'payload'`
    Notify { channel: Name, payload: String },
    /// `LOCK TABLE name, …`
    Lock { tables: Vec<QualifiedName>, mode: TableLock, nowait: bool },
    /// `CREATE [TEMP] SEQUENCE name …`
    CreateSequence { name: QualifiedName, temporary: bool, if_not_exists: bool, options: Vec<SequenceOption> },
    /// `ALTER SEQUENCE name …`
    AlterSequence { name: QualifiedName, if_exists: bool, options: Vec<SequenceOption> },
    /// `ALTER VIEW name …`
    AlterView { name: QualifiedName, if_exists: bool, change: ViewChange },
    /// `ALTER {TABLE | VIEW | INDEX | SEQUENCE} name RENAME TO name`
    RenameRelation { object: Object, if_exists: bool, to: Name },
    /// `CREATE TYPE name AS ENUM (…)`
    CreateEnum { name: QualifiedName, labels: Vec<String> },
    /// CREATE TYPE … AS (…)
    CreateComposite { name: QualifiedName, fields: Vec<TypeField> },
    /// `CREATE TYPE name AS RANGE (option = value, …)`
    CreateRange { name: QualifiedName, options: RangeOptions },
    /// `ALTER TYPE name …`
    AlterType { name: QualifiedName, change: TypeChange },
    /// `DROP TYPE name, …`, `DROP DOMAIN name, …`
    DropTypes { names: Vec<QualifiedName>, if_exists: bool, cascade: bool, domains: bool },
    /// `CREATE DOMAIN name AS type …`
    CreateDomain { name: QualifiedName, data_type: Box<ast::DataType>, options: Vec<ast::ColumnOptionDef> },
    /// `REFRESH MATERIALIZED VIEW name`
    Refresh { name: QualifiedName, concurrently: bool, with_data: bool },
    /// `ALTER TABLE name {ATTACH | DETACH} PARTITION …`
    ChangePartitions { table: QualifiedName, if_exists: bool, change: PartitionChange },
    /// `ALTER INDEX name ATTACH PARTITION name`
    AttachIndex { index: QualifiedName, partition: QualifiedName },
    /// `ALTER DOMAIN name …`
    AlterDomain { name: QualifiedName, change: DomainChange },
    /// `CREATE EXTENSION name …`
    CreateExtension { name: Name, if_not_exists: bool, schema: Option<Name>, version: Option<Name>, cascade: bool },
    /// `ALTER EXTENSION name …`
    AlterExtension { name: Name, change: ExtensionChange },
    /// About functions, procedures and triggers.
    Routines(Box<super::Routines>),
    /// About policies of row-level security.
    Policies(Box<super::Policies>),
    /// A statement about collations.
    Collations(Box<super::Collations>),
    /// A statement about extended statistics.
    Statistics(Box<super::OnStatistics>),
    /// A statement about text search, or DROP of what there is none of.
    TextSearch(Box<super::OnTextSearch>),
    /// `DROP EXTENSION name, …`
    DropExtensions { names: Vec<Name>, if_exists: bool, cascade: bool },
}

/// Whom a statement means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleName {
    /// By name.
    Named(Name),
    /// CURRENT_USER and CURRENT_ROLE.
    Current,
    /// SESSION_USER
    Session,
}

/// What a role may be told to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleOption {
    /// SUPERUSER or NOSUPERUSER.
    Superuser(bool),
    /// CREATEDB or NOCREATEDB.
    CreateDb(bool),
    /// CREATEROLE or NOCREATEROLE.
    CreateRole(bool),
    /// INHERIT or NOINHERIT.
    Inherit(bool),
    /// LOGIN or NOLOGIN.
    Login(bool),
    /// BYPASSRLS or NOBYPASSRLS.
    BypassRls(bool),
    /// REPLICATION
    Replication(bool),
    /// CONNECTION LIMIT
    ConnectionLimit(i32),
    /// PASSWORD; `None` takes it away.
    Password(Option<String>),
    /// VALID UNTIL
    ValidUntil(String),
    /// IN ROLE
    InRoles(Vec<Name>),
    /// ROLE: its members.
    Members(Vec<Name>),
    /// ADMIN: its members that may grant it.
    Admins(Vec<Name>),
    /// One that there is no such thing for here; NO… is what holds.
    Unknown(&'static str, bool),
}

/// What a database may be told to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseOption {
    /// OWNER
    Owner(RoleName),
    /// CONNECTION LIMIT
    ConnectionLimit(i32),
    /// ALLOW_CONNECTIONS
    AllowConnections(bool),
    /// IS_TEMPLATE
    IsTemplate(bool),
    /// OID
    Oid,
    /// AS OF
    AsOf(AsOf),
    /// Any other: its name in capitals, and its value.
    Other(&'static str, String),
}

/// Which state of a database's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AsOf {
    /// `'time'`: what had been committed by then.
    Time(String),
    /// `TRANSACTION number`
    Transaction(u64),
}

/// What becomes of settings that are kept for those who log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingChange {
    /// `SET name …`
    Set(Name, To),
    /// `RESET name`
    Reset(Name),
    /// `RESET ALL`
    ResetAll,
}

/// Whose settings they are. No role and no database are all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsOf {
    /// Of this role.
    pub role: Option<RoleName>,
    /// In this database.
    pub database: Option<Name>,
    /// The statement says ALTER DATABASE.
    pub is_database: bool,
}

/// How privileges are granted, or taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granting {
    /// By name; `None` for all. Empty if all are on columns.
    pub privileges: Option<Vec<Name>>,
    /// Privileges on columns: by name, or `None` for all.
    pub columns: Vec<(Option<Name>, Vec<Name>)>,
    /// WITH GRANT OPTION; or only the right to grant is taken back.
    pub option: bool,
    /// It is REVOKE.
    pub revoke: bool,
    /// Who is said to do it.
    pub by: Option<RoleName>,
    /// What others have been granted on this ground is taken back as well.
    pub cascade: bool,
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table, view, sequence or index.
    Relation,
    /// A view.
    View,
    /// An index.
    Index,
    /// A sequence.
    Sequence,
    /// A schema.
    Schema,
    /// A database.
    Database,
    /// A role.
    Role,
    /// A table, said to be one.
    Table,
    /// The last part of the name is the column's.
    Column,
    /// The last part of the name is the constraint's.
    Constraint,
    /// A materialized view.
    MaterializedView,
    /// A type.
    Type,
    /// A domain.
    Domain,
    /// The last part of the name is the constraint's, the others are the domain's.
    DomainConstraint,
    /// An extension.
    Extension,
}

/// An object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: QualifiedName,
}

/// What privileges are granted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Objects by name.
    Objects(Vec<Object>),
    /// All tables, or all sequences, of schemas.
    AllIn {
        /// The schemas.
        schemas: Vec<Name>,
        /// Sequences, not tables.
        sequences: bool,
    },
}

/// The mode of LOCK TABLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub enum TableLock {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// A statement about upkeep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upkeep {
    /// `VACUUM …`; no tables are all of them.
    Vacuum {
        /// Which.
        tables: Vec<UpkeepTable>,
        /// `FULL`: what is free is given back.
        full: bool,
        /// `VERBOSE`: what was done is told.
        verbose: bool,
    },
    /// `ANALYZE …`
    Analyze(Vec<UpkeepTable>),
    /// `CLUSTER …`: a table in the order of an index; `None` is every table that has one.
    Cluster(Option<(QualifiedName, Option<Name>)>),
    /// `REINDEX …`
    Reindex(Reindex),
}

/// A table of VACUUM or ANALYZE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpkeepTable {
    /// Its name.
    pub name: QualifiedName,
    /// Its columns; none are all of them.
    pub columns: Vec<Name>,
}

/// What is indexed anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reindex {
    /// A table's indexes.
    Table(QualifiedName),
    /// An index.
    Index(QualifiedName),
    /// A schema's tables.
    Schema(Name),
    /// A database, or its system catalogue.
    Database(Name),
}

impl Admin {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateRole { .. } => "CREATE ROLE",
            Self::AlterRole { .. } | Self::RenameRole { .. } | Self::AlterGroup { .. } => "ALTER ROLE",
            Self::DropRoles { .. } => "DROP ROLE",
            Self::GrantRoles { revoke: false, .. } => "GRANT ROLE",
            Self::GrantRoles { revoke: true, .. } => "REVOKE ROLE",
            Self::CreateDatabase { .. } => "CREATE DATABASE",
            Self::DropDatabase { .. } => "DROP DATABASE",
            Self::RenameDatabase { .. } | Self::ResetDatabase { .. } | Self::AlterDatabase { .. } => "ALTER DATABASE",
            Self::Settings { of, .. } if of.is_database => "ALTER DATABASE",
            Self::Settings { .. } => "ALTER ROLE",
            Self::Grant { granting, .. } => {
                if granting.revoke {
                    "REVOKE"
                } else {
                    "GRANT"
                }
            }
            Self::Owner { object, .. } | Self::RenameRelation { object, .. } | Self::SetSchema { object, .. } => {
                match object.kind {
                    ObjectKind::Database => "ALTER DATABASE",
                    ObjectKind::Schema => "ALTER SCHEMA",
                    ObjectKind::Sequence => "ALTER SEQUENCE",
                    ObjectKind::View => "ALTER VIEW",
                    ObjectKind::Index => "ALTER INDEX",
                    _ => "ALTER TABLE",
                }
            }
            Self::ReassignOwned { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::Comment { .. } => "COMMENT",
            Self::Upkeep(upkeep) => upkeep.tag(),
            Self::Checkpoint => "CHECKPOINT",
            Self::Listen(_) => "LISTEN",
            Self::Unlisten(_) => "UNLISTEN",
            Self::Notify { .. } => "NOTIFY",
            Self::Lock { .. } => "LOCK TABLE",
            Self::AlterView { .. } => "ALTER VIEW",
            Self::CreateSequence { .. } => "CREATE SEQUENCE",
            Self::AlterSequence { .. } => "ALTER SEQUENCE",
            Self::CreateEnum { .. } | Self::CreateComposite { .. } | Self::CreateRange { .. } => "CREATE TYPE",
            Self::AlterType { .. } => "ALTER TYPE",
            Self::DropTypes { domains: false, .. } => "DROP TYPE",
            Self::DropTypes { .. } => "DROP DOMAIN",
            Self::CreateDomain { .. } => "CREATE DOMAIN",
            Self::Refresh { .. } => "REFRESH MATERIALIZED VIEW",
            Self::ChangePartitions { .. } => "ALTER TABLE",
            Self::AttachIndex { .. } | Self::AlterIndex { .. } => "ALTER INDEX",
            Self::AlterDomain { .. } => "ALTER DOMAIN",
            Self::CreateExtension { .. } => "CREATE EXTENSION",
            Self::AlterExtension { .. } => "ALTER EXTENSION",
            Self::DropExtensions { .. } => "DROP EXTENSION",
            Self::Routines(statement) => statement.tag(),
            Self::CreateSchemaWith { .. } => "CREATE SCHEMA",
            Self::DefaultPrivileges { .. } => "ALTER DEFAULT PRIVILEGES",
            Self::Policies(statement) => statement.tag(),
            Self::Collations(statement) => statement.tag(),
            Self::TextSearch(statement) => statement.tag(),
            Self::Statistics(statement) => statement.tag(),
        }
    }
}

impl Upkeep {
    /// PostgreSQL's command tag.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Vacuum { .. } => "VACUUM",
            Self::Analyze(_) => "ANALYZE",
            Self::Cluster(_) => "CLUSTER",
            Self::Reindex(_) => "REINDEX",
        }
    }
}

/// What is changed of a table's partitions, or of the tables that it inherits from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionChange {
    /// `ATTACH PARTITION name FOR VALUES …`
    Attach {
        /// The table that becomes a partition.
        partition: QualifiedName,
        /// Which rows it takes.
        bound: ast::ForValues,
    },
    /// `DETACH PARTITION name`
    Detach {
        /// The partition.
        partition: QualifiedName,
        /// With CONCURRENTLY.
        concurrently: bool,
        /// With FINALIZE.
        finalize: bool,
    },
    /// `INHERIT parent`
    Inherit {
        /// The table that the changed one inherits from.
        parent: QualifiedName,
    },
    /// `NO INHERIT parent`
    NoInherit {
        /// The table that the changed one inherits from no longer.
        parent: QualifiedName,
    },
}
