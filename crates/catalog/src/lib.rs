//! The objects of a database and of its server, and the layout of rows. Changes of a database's
//! objects are transactional.
//!
//! | module | holds |
//! | --- | --- |
//! | `objects`, `catalog` | tables, indexes, constraints, triggers, sequences, schemas, views; all of them, and how they change |
//! | `topics` | tables of messages that are numbered when they are committed |
//! | [`temporary`] | the objects of a catalogue that belong to one session |
//! | `user_types`, `extensions` | enums and domains; extensions |
//! | `routines` | functions, procedures |
//! | [`builtin`], [`system_tables`] | what a database has before anybody makes anything in it |
//! | [`cluster`] | the server around a session: databases, roles, grants, kept settings |
//! | [`row`], [`record`], [`inverted`] | the bytes of rows and of indexes' entries |
//! | [`column_reader`] | rows into column vectors |
//! | `stored_columns` | how the values of columns are kept in rows: generations, compression |
//! | [`store_error`] | what transactions answer in place of a result, as SQL's errors |

pub mod builtin;
mod catalog;
pub mod cluster;
mod collations;
pub mod column_reader;
mod default_privileges;
mod entries;
mod extensions;
pub mod inverted;
mod new_objects;
mod objects;
mod operators;
mod partition;
pub mod record;
mod routines;
pub mod row;
mod rules;
mod security;
mod statistics;
pub mod store_error;
mod stored_columns;
pub mod system_tables;
pub mod temporary;
mod text_search;
mod topics;
mod user_types;

pub use catalog::{
    CATALOG_SPACE, COLUMNS_MAX, CONSTRAINT_COMMENT, Catalog, Change, NAME_TEXT_BYTES_MAX, catalog_space, parse_name,
    sequence_state_key, table_key, view_key,
};
pub use colibri_types::types::NAME_BYTES_MAX;
pub use collations::Collation;
pub use default_privileges::DefaultPrivileges;
pub use extensions::Extension;
pub use objects::{
    Check, CheckOption, Column, ColumnAcls, Excluded, FIRST_USER_OBJECT, ForeignKey, Identity, Index, IndexColumn,
    Materialized, ObjectId, OnCommit, PARTITIONS_MAX, PUBLIC, PUBLIC_SCHEMA, PrimaryKey, ReferenceAction, Relation,
    ReplicaIdentity, Schema, Sequence, Table, TableLayout, Timing, Tokenized, Topic, Trigger, TriggerTime, View,
};
pub use operators::{OperatorFunction, UserOperator};
pub use partition::{PartitionBound, PartitionOf, PartitionStrategy, Partitioned, RangeBound};
pub use routines::{
    AggregateParts, Argument, ArgumentMode, CastMethod, Routine, RoutineLanguage, RoutineType, RoutineVolatility,
    StandardBody, UserCast,
};
pub use rules::Rule;
pub use security::{Policy, RowSecurity};
pub use statistics::Statistics;
pub use stored_columns::{ColumnStorage, CompressionName, Generations, StorageKind};
pub use text_search::{SearchChange, SearchConfiguration, SearchDictionary};
pub use topics::TopicColumns;
pub use user_types::{Composite, Domain, Field, Label, Range, TypeHandle, UserType, UserTypeKind};
