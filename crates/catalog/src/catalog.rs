//! The catalogue as a whole: its entries, its versions, its changes; names of several parts.
//!
//! Each object is an entry of space 0, its key the object's kind and number, its value JSON:
//! self-describing, so that newer versions can add fields. Entry `v` holds the catalogue's version,
//! which every change of it raises: a session that knows this version has nothing else to read.
//!
//! Invariants: numbers (tables', indexes', sequences', schemas', spaces') come from one counter and
//! are never used again; tables, indexes, sequences and views of a schema share one space of names;
//! a catalogue is immutable, and statements that change it make a new one that becomes the
//! session's own until the transaction ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_txn::{ColumnSet, FIRST_TEMPORARY, IfLocked, Key, KeyRange, LockMode, Space, SpaceId, Transaction};
use colibri_types::row::relation_of;
use colibri_types::{ColumnType, Error, Result, SqlState, Type, letters, pulse, types::NAME_BYTES_MAX};
use compact_str::CompactString;

use crate::cluster::BOOTSTRAP_ROLE;
use crate::collations::Collation;
use crate::default_privileges::DefaultPrivileges;
use crate::entries::{damaged, object_key, parse, to_json};
use crate::extensions::Extension;
use crate::objects::{FIRST_USER_OBJECT, ObjectId, PUBLIC_SCHEMA, Relation, Schema, Sequence, Table, View};
use crate::operators::UserOperator;
use crate::routines::{Routine, RoutineType, UserCast};
use crate::rules::Rule;
use crate::statistics::Statistics;
use crate::store_error::{InSql as _, in_sql};
use crate::text_search::{SearchChange, SearchObjects};
use crate::user_types::UserType;

/// Where the catalogue is.
pub const CATALOG_SPACE: SpaceId = SpaceId(0);

/// Columns of a table, dropped ones included.
pub const COLUMNS_MAX: usize = 1600;

/// All objects, as of one version.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Raised by every change.
    pub version: u64,
    schemas: HashMap<CompactString, Arc<Schema>>,
    relations: HashMap<CompactString, HashMap<CompactString, Relation>>,
    tables: HashMap<ObjectId, Arc<Table>>,
    sequences: HashMap<ObjectId, Arc<Sequence>>,
    views: HashMap<ObjectId, Arc<View>>,
    types: BTreeMap<ObjectId, Arc<UserType>>,
    extensions: BTreeMap<ObjectId, Arc<Extension>>,
    default_privileges: BTreeMap<ObjectId, DefaultPrivileges>,
    routines: BTreeMap<ObjectId, Arc<Routine>>,
    casts: BTreeMap<ObjectId, Arc<UserCast>>,
    pub(crate) rules: BTreeMap<ObjectId, Arc<Rule>>,
    pub(crate) operators: BTreeMap<ObjectId, Arc<UserOperator>>,
    pub(crate) collations: BTreeMap<ObjectId, Arc<Collation>>,
    pub(crate) statistics: BTreeMap<ObjectId, Arc<Statistics>>,
    pub(crate) search: SearchObjects,
    /// The locale of the database's own collation; `None` is that of bytes.
    locale: Option<CompactString>,
    /// Numbers of routines by their names, in whichever schemas.
    routines_named: HashMap<CompactString, Vec<ObjectId>>,
    /// For each table, those that refer to it.
    referenced_by: HashMap<ObjectId, Vec<ObjectId>>,
    /// Another one for each state of all that is there besides relations and comments.
    besides_relations: u64,
    /// For each index, constraint, policy and trigger the table, or the view, that it is part of.
    part_of: HashMap<ObjectId, ObjectId>,
    /// By object, and number of its column; 0 for the object itself, [`CONSTRAINT_COMMENT`] for the
    /// constraint that has an index's number.
    comments: BTreeMap<(ObjectId, i32), String>,
    /// The session's own schema, of temporary objects.
    pub(crate) temporary: Option<TemporarySchema>,
}

/// In place of a column's number: a comment is on the constraint, not on the index that has the
/// same number.
// ON DISK: never renumber.
pub const CONSTRAINT_COMMENT: i32 = -1;

const VERSION: &[u8] = b"v";
const NEXT_ID: &[u8] = b"i";
const SCHEMA: u8 = b'n';
const TABLE: u8 = b't';
const SEQUENCE: u8 = b'q';
const VIEW: u8 = b'w';
const SEQUENCE_STATE: u8 = b'z';
const COMMENT: u8 = b'c';
const TYPE: u8 = b'y';
const EXTENSION: u8 = b'x';
const ROUTINE: u8 = b'f';
const DEFAULT_PRIVILEGES: u8 = b'd';
const CAST: u8 = b'k';
const OPERATOR: u8 = b'o';
const RULE: u8 = b'r';
const COLLATION: u8 = b'a';
const LOCALE: u8 = b'l';
const STATISTICS: u8 = b's';

/// A change of the catalogue.
#[expect(clippy::large_enum_variant, reason = "a statement makes few of them, and none lives long")]
#[derive(Debug, Clone)]
pub enum Change {
    /// A schema is made or changed.
    PutSchema(Schema),
    /// A schema is dropped, by its name.
    DropSchema(CompactString),
    /// A table is made or changed, with its indexes and constraints.
    PutTable(Table),
    /// A table is dropped.
    DropTable(ObjectId),
    /// A sequence is made or changed.
    PutSequence(Sequence),
    /// A sequence is dropped.
    DropSequence(ObjectId),
    /// A view is made or changed.
    PutView(View),
    /// A view is dropped.
    DropView(ObjectId),
    /// A type is made or changed. Tables with columns of it follow.
    PutType(UserType),
    /// A type is dropped.
    DropType(ObjectId),
    /// An extension is made or changed.
    PutExtension(Extension),
    /// An extension is dropped.
    DropExtension(ObjectId),
    /// ALTER DEFAULT PRIVILEGES
    PutDefaultPrivileges(DefaultPrivileges),
    /// Default privileges are what they always are.
    DropDefaultPrivileges(ObjectId),
    /// A function or procedure is made or changed.
    PutRoutine(Routine),
    /// A function or procedure is dropped.
    DropRoutine(ObjectId),
    /// A cast is made or changed.
    PutCast(UserCast),
    /// A cast is dropped.
    DropCast(ObjectId),
    /// An operator, new or changed.
    PutOperator(UserOperator),
    /// An operator is dropped.
    DropOperator(ObjectId),
    /// A rule, new or changed.
    PutRule(Rule),
    /// A rule is dropped.
    DropRule(ObjectId),
    /// A collation is made or changed.
    PutCollation(Collation),
    /// A collation is dropped.
    DropCollation(ObjectId),
    /// Extended statistics are made or changed.
    PutStatistics(Statistics),
    /// Extended statistics are dropped.
    DropStatistics(ObjectId),
    /// A configuration or a dictionary of text search is made, changed or dropped.
    Search(SearchChange),
    /// The database's own collation is that of a locale.
    PutLocale(CompactString),
    /// The comment on an object, or on a column of it by number.
    Comment(ObjectId, i32, Option<String>),
}

impl Change {
    /// Whether it changes relations, what belongs to them, or comments, and nothing else.
    fn is_of_relations(&self) -> bool {
        matches!(
            self,
            Self::PutTable(_)
                | Self::DropTable(_)
                | Self::PutSequence(_)
                | Self::DropSequence(_)
                | Self::PutView(_)
                | Self::DropView(_)
                | Self::PutRule(_)
                | Self::DropRule(_)
                | Self::PutStatistics(_)
                | Self::DropStatistics(_)
                | Self::Comment(..)
        )
    }
}

/// The number of the next state of some objects, in whichever copy of a catalogue.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

/// The schema of a session's temporary objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemporarySchema {
    name: CompactString,
    /// Another one for each state of the objects.
    version: u64,
}

impl TemporarySchema {
    pub(crate) fn new(name: CompactString) -> Self {
        let mut schema = Self { name, version: 0 };
        schema.renew();
        schema
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Another one for each state of the objects.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn renew(&mut self) {
        self.version = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
    }
}

/// An object as a space of a catalogue holds it.
pub(crate) enum Entry {
    Table(Box<Table>),
    Routine(Box<Routine>),
    Other(Box<Change>),
}

impl Entry {
    /// Reads a value of the catalogue's space, by the kind that its key begins with. `None` for
    /// what is no object.
    pub(crate) fn read(kind: u8, value: &[u8]) -> Result<Option<Self>> {
        let change = match kind {
            SCHEMA => {
                let mut schema: Schema = parse(value)?;
                if schema.id == PUBLIC_SCHEMA && schema.acl.is_none() && schema.owner == BOOTSTRAP_ROLE {
                    // Made before there were owners.
                    schema = Schema { name: schema.name, ..Schema::public() };
                }
                Change::PutSchema(schema)
            }
            TABLE => return Ok(Some(Self::Table(Box::new(parse(value)?)))),
            ROUTINE => return Ok(Some(Self::Routine(Box::new(parse(value)?)))),
            SEQUENCE => Change::PutSequence(parse(value)?),
            VIEW => Change::PutView(parse(value)?),
            TYPE => Change::PutType(parse(value)?),
            EXTENSION => Change::PutExtension(parse(value)?),
            DEFAULT_PRIVILEGES => Change::PutDefaultPrivileges(parse(value)?),
            CAST => Change::PutCast(parse(value)?),
            OPERATOR => Change::PutOperator(parse(value)?),
            RULE => Change::PutRule(parse(value)?),
            COLLATION => Change::PutCollation(parse(value)?),
            LOCALE => Change::PutLocale(parse(value)?),
            STATISTICS => Change::PutStatistics(parse(value)?),
            SearchChange::DICTIONARY | SearchChange::CONFIGURATION => Change::Search(SearchChange::read(kind, value)?),
            COMMENT => {
                let (id, column, text): (ObjectId, i32, String) = parse(value)?;
                Change::Comment(id, column, Some(text))
            }
            _ => return Ok(None),
        };
        Ok(Some(Self::Other(Box::new(change))))
    }
}

/// Whether a type is made of another: a domain over it, or a composite type with a field of it.
fn is_over(ty: &UserType, other: ObjectId) -> bool {
    ty.parts().any(|part| part.oid() == other)
}

fn comment_key(id: ObjectId, column: i32) -> Key {
    let mut key = object_key(COMMENT, id);
    key.extend_from_slice(&column.to_be_bytes());
    key
}

/// The space of the catalogue.
pub fn catalog_space() -> Space {
    Space::of_keys(CATALOG_SPACE)
}

/// The key of a table's entry: what a statement that uses the table depends on.
pub fn table_key(id: ObjectId) -> Key {
    object_key(TABLE, id)
}

/// The key of a view's entry.
pub fn view_key(id: ObjectId) -> Key {
    object_key(VIEW, id)
}

/// The key of a sequence's state.
pub fn sequence_state_key(id: ObjectId) -> Key {
    object_key(SEQUENCE_STATE, id)
}

fn get_u64(txn: &mut dyn Transaction, key: &[u8]) -> Result<u64> {
    let bytes = txn.peek(&catalog_space(), key).in_sql()?;
    match bytes.map(<[u8; 8]>::try_from) {
        None => Ok(0),
        Some(Ok(bytes)) => Ok(u64::from_le_bytes(bytes)),
        Some(Err(_)) => Err(damaged("a counter of the catalogue has a wrong length")),
    }
}

/// The numbers of a table's parts, its triggers among them.
fn parts_of(table: &Table) -> impl Iterator<Item = ObjectId> {
    table.part_numbers().into_iter().chain(table.triggers.iter().map(|trigger| trigger.id))
}

impl Catalog {
    /// The version that a transaction sees.
    pub fn version_seen_by(txn: &mut dyn Transaction) -> Result<u64> {
        get_u64(txn, VERSION)
    }

    /// Locks the catalogue against other changes, and makes sure that the transaction sees its
    /// newest version: two changes must not make the same version.
    pub fn lock(txn: &mut dyn Transaction) -> Result<()> {
        txn.lock(&catalog_space(), VERSION, LockMode::Exclusive, IfLocked::Wait).in_sql()
    }

    /// Whether the database has a catalogue.
    ///
    /// # Errors
    /// It has a catalogue that cannot be read, which must not be taken for a missing one and made
    /// anew.
    pub fn exists(txn: &mut dyn Transaction) -> Result<bool> {
        match txn.peek(&catalog_space(), VERSION) {
            Err(colibri_txn::Error::NoSuchSpace { .. }) | Ok(None) => Ok(false),
            Err(error) => Err(in_sql(error)),
            Ok(Some(_)) => Ok(Self::version_seen_by(txn)? > 0),
        }
    }

    /// Makes an empty catalogue with the schema `public`, in a database that has none.
    pub fn create(txn: &mut dyn Transaction, locale: Option<CompactString>) -> Result<Self> {
        txn.create_space(CATALOG_SPACE).in_sql()?;
        txn.put(&catalog_space(), NEXT_ID, &u64::from(FIRST_USER_OBJECT).to_le_bytes()).in_sql()?;
        let mut catalog = Self::default();
        let mut changes = vec![Change::PutSchema(Schema::public())];
        changes.extend(locale.map(Change::PutLocale));
        catalog.apply(txn, changes)?;
        Ok(catalog)
    }

    /// Reads all of it.
    pub fn load(txn: &mut dyn Transaction) -> Result<Self> {
        let mut catalog = Self { version: Self::version_seen_by(txn)?, ..Self::default() };
        let range = KeyRange { low: std::ops::Bound::Unbounded, high: std::ops::Bound::Unbounded };
        let mut entries = Vec::new();
        txn.scan(
            &catalog_space(),
            &range,
            colibri_txn::Direction::Forward,
            ColumnSet::NONE,
            usize::MAX,
            &mut |key, value| {
                entries.push((key.first().copied().unwrap_or_default(), value.to_vec()));
                std::ops::ControlFlow::Continue(())
            },
        )
        .in_sql()?;
        let mut read = Vec::with_capacity(entries.len());
        for (kind, value) in entries {
            read.extend(Entry::read(kind, &value)?);
        }
        catalog.add_entries(read);
        Ok(catalog)
    }

    /// Adds what was read of a catalogue's space.
    pub(crate) fn add_entries(&mut self, entries: Vec<Entry>) {
        let (mut tables, mut routines) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Entry::Table(table) => tables.push(*table),
                Entry::Routine(routine) => routines.push(*routine),
                Entry::Other(change) => self.add(*change),
            }
        }
        // Their columns may be of types that users have defined.
        for mut table in tables {
            self.resolve_types(&mut table);
            table.renew_layout();
            self.add(Change::PutTable(table));
        }
        for routine in routines {
            self.add(Change::PutRoutine(routine));
        }
    }

    /// Forgets a schema with all that is in it.
    pub(crate) fn forget_schema(&mut self, schema: &str) {
        self.besides_relations = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        self.schemas.remove(schema);
        self.relations.remove(schema);
        let tables: Vec<ObjectId> =
            self.tables.values().filter(|table| table.schema == schema).map(|table| table.id).collect();
        tables.into_iter().for_each(|table| self.forget_table(table));
        self.sequences.retain(|_, sequence| sequence.schema != schema);
        self.views.retain(|_, view| view.schema != schema);
        self.part_of.retain(|_, of| self.tables.contains_key(of) || self.views.contains_key(of));
        self.types.retain(|_, ty| ty.schema != schema);
        let routines: Vec<ObjectId> =
            self.routines.values().filter(|routine| routine.schema == schema).map(|routine| routine.id).collect();
        routines.into_iter().for_each(|routine| self.forget_routine(routine));
        self.comments.retain(|(id, _), _| *id < FIRST_TEMPORARY);
    }

    /// Gives columns whose types are the catalogue's own the newest state of these. Whether
    /// anything has changed.
    fn resolve_types(&self, table: &mut Table) -> bool {
        let mut changed = false;
        for column in &mut table.columns {
            changed |= self.resolve(&mut column.ty);
        }
        changed
    }

    /// The same of what a routine takes and gives.
    fn resolve_routine(&self, routine: &mut Routine) -> bool {
        let mut changed = false;
        let types = routine.args.iter_mut().map(|arg| &mut arg.ty).chain([&mut routine.result]);
        for ty in types {
            if let RoutineType::Value(ty) = ty {
                changed |= self.resolve(ty);
            }
        }
        changed
    }

    /// The same of one type.
    fn resolve(&self, ty: &mut ColumnType) -> bool {
        let current = match ty.domain {
            Some(domain) => self.column_type_numbered(domain.oid()),
            None => ty.ty.of_user().and_then(|_| self.column_type_numbered(ty.ty.oid())),
        };
        let Some(current) = current else { return false };
        let same_domain = match (current.domain, ty.domain) {
            (Some(one), Some(other)) => one.is_identical(other),
            (one, other) => one == other,
        };
        let changed = current.ty.code() != ty.ty.code() || !same_domain;
        (ty.ty, ty.domain) = (current.ty, current.domain);
        changed
    }

    /// Gives types that are made of a type its newest state, and those that are made of them.
    fn renew_types_over(&mut self, changed: ObjectId) {
        let mut affected = BTreeSet::new();
        let mut next = vec![changed];
        while let Some(changed) = next.pop() {
            for ty in self.types.values().filter(|ty| is_over(ty, changed)) {
                if affected.insert(ty.id) {
                    // Types may be made of it, or of arrays of it.
                    next.extend([ty.id, ty.array].into_iter().filter(|&number| number != 0));
                }
            }
        }
        // Once more for those that have come before what they are made of.
        loop {
            let mut is_done = true;
            for id in &affected {
                let Some(ty) = self.types.get(id) else { continue };
                let mut renewed = (**ty).clone();
                let mut is_changed = false;
                for part in renewed.parts_mut() {
                    is_changed |= self.resolve(part);
                }
                if is_changed {
                    renewed.renew_handle();
                    self.types.insert(renewed.id, Arc::new(renewed));
                    is_done = false;
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// New numbers, as many as asked for.
    pub fn new_ids(txn: &mut dyn Transaction, count: u32) -> Result<ObjectId> {
        let space = catalog_space();
        let first = match txn.get(&space, NEXT_ID, ColumnSet::ALL).in_sql()?.map(<[u8; 8]>::try_from) {
            Some(Ok(bytes)) => u64::from_le_bytes(bytes),
            _ => return Err(damaged("there is no counter of objects")),
        };
        let id = ObjectId::try_from(first + u64::from(count))
            .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT, "all numbers of objects have been used"))?;
        txn.put(&space, NEXT_ID, &u64::from(id).to_le_bytes()).in_sql()?;
        Ok(id - count)
    }

    /// Makes changes, in the database and in this copy.
    pub fn apply(&mut self, txn: &mut dyn Transaction, changes: Vec<Change>) -> Result<()> {
        let space = catalog_space();
        let of_session = changes.iter().any(Change::is_temporary);
        let of_database = changes.iter().any(|change| !change.is_temporary());
        for change in changes {
            match &change {
                Change::PutSchema(schema) => {
                    txn.put(&space, &object_key(SCHEMA, schema.id), &to_json(schema)).in_sql()?
                }
                Change::DropSchema(name) => {
                    if let Some(schema) = self.schemas.get(name) {
                        txn.delete(&space, &object_key(SCHEMA, schema.id)).in_sql()?;
                    }
                }
                Change::PutTable(table) => txn.put(&space, &table_key(table.id), &to_json(table)).in_sql()?,
                Change::DropTable(id) => txn.delete(&space, &table_key(*id)).in_sql()?,
                Change::PutSequence(sequence) => {
                    txn.put(&space, &object_key(SEQUENCE, sequence.id), &to_json(sequence)).in_sql()?;
                }
                Change::DropSequence(id) => {
                    txn.delete(&space, &object_key(SEQUENCE, *id)).in_sql()?;
                    txn.delete(&space, &sequence_state_key(*id)).in_sql()?;
                }
                Change::PutView(view) => txn.put(&space, &view_key(view.id), &to_json(view)).in_sql()?,
                Change::DropView(id) => txn.delete(&space, &view_key(*id)).in_sql()?,
                Change::PutType(ty) => txn.put(&space, &object_key(TYPE, ty.id), &to_json(ty)).in_sql()?,
                Change::DropType(id) => txn.delete(&space, &object_key(TYPE, *id)).in_sql()?,
                Change::PutExtension(extension) => {
                    txn.put(&space, &object_key(EXTENSION, extension.id), &to_json(extension)).in_sql()?;
                }
                Change::DropExtension(id) => txn.delete(&space, &object_key(EXTENSION, *id)).in_sql()?,
                Change::PutDefaultPrivileges(privileges) => {
                    txn.put(&space, &object_key(DEFAULT_PRIVILEGES, privileges.id), &to_json(privileges)).in_sql()?;
                }
                Change::DropDefaultPrivileges(id) => {
                    txn.delete(&space, &object_key(DEFAULT_PRIVILEGES, *id)).in_sql()?;
                }
                Change::PutRoutine(routine) => {
                    txn.put(&space, &object_key(ROUTINE, routine.id), &to_json(routine)).in_sql()?;
                }
                Change::DropRoutine(id) => txn.delete(&space, &object_key(ROUTINE, *id)).in_sql()?,
                Change::PutCast(cast) => txn.put(&space, &object_key(CAST, cast.id), &to_json(cast)).in_sql()?,
                Change::DropCast(id) => txn.delete(&space, &object_key(CAST, *id)).in_sql()?,
                Change::PutOperator(operator) => {
                    txn.put(&space, &object_key(OPERATOR, operator.id), &to_json(operator)).in_sql()?;
                }
                Change::DropOperator(id) => txn.delete(&space, &object_key(OPERATOR, *id)).in_sql()?,
                Change::PutRule(rule) => txn.put(&space, &object_key(RULE, rule.id), &to_json(rule)).in_sql()?,
                Change::DropRule(id) => txn.delete(&space, &object_key(RULE, *id)).in_sql()?,
                Change::PutCollation(collation) => {
                    txn.put(&space, &object_key(COLLATION, collation.id), &to_json(collation)).in_sql()?;
                }
                Change::DropCollation(id) => txn.delete(&space, &object_key(COLLATION, *id)).in_sql()?,
                Change::PutStatistics(one) => {
                    txn.put(&space, &object_key(STATISTICS, one.id), &to_json(one)).in_sql()?
                }
                Change::DropStatistics(id) => txn.delete(&space, &object_key(STATISTICS, *id)).in_sql()?,
                Change::Search(change) => change.write(txn, &space)?,
                Change::PutLocale(locale) => txn.put(&space, &object_key(LOCALE, 0), &to_json(locale)).in_sql()?,
                Change::Comment(id, column, Some(text)) => {
                    txn.put(&space, &comment_key(*id, *column), &to_json(&(*id, *column, text))).in_sql()?;
                }
                Change::Comment(id, column, None) => txn.delete(&space, &comment_key(*id, *column)).in_sql()?,
            }
            // Rules go with their relation.
            if let (false, Change::DropTable(id) | Change::DropView(id)) = (self.rules.is_empty(), &change) {
                for rule in self.rules_of(*id) {
                    txn.delete(&space, &object_key(RULE, rule.id)).in_sql()?;
                    self.rules.remove(&rule.id);
                }
            }
            // So do statistics.
            if let (false, Change::DropTable(id)) = (self.statistics.is_empty(), &change) {
                for one in self.statistics_of(*id) {
                    txn.delete(&space, &object_key(STATISTICS, one.id)).in_sql()?;
                    self.statistics.remove(&one.id);
                }
            }
            for key in self.comments_outlived(&change) {
                txn.delete(&space, &comment_key(key.0, key.1)).in_sql()?;
                self.comments.remove(&key);
            }
            self.add(change);
        }
        if let (true, Some(temporary)) = (of_session, &mut self.temporary) {
            temporary.renew();
        }
        if of_database {
            self.version = Self::version_seen_by(txn)? + 1;
            txn.put(&space, VERSION, &self.version.to_le_bytes()).in_sql()?;
        }
        Ok(())
    }

    /// The comments on what a change drops: an object, or a column, an index or a constraint of a
    /// table.
    fn comments_outlived(&self, change: &Change) -> Vec<(ObjectId, i32)> {
        let of = |id: ObjectId| self.comments.range((id, i32::MIN)..=(id, i32::MAX)).map(|(key, _)| *key);
        match change {
            Change::DropSchema(name) => self.schemas.get(name).into_iter().flat_map(|schema| of(schema.id)).collect(),
            Change::DropSequence(id)
            | Change::DropView(id)
            | Change::DropExtension(id)
            | Change::DropRoutine(id)
            | Change::DropCollation(id)
            | Change::DropStatistics(id)
            | Change::Search(SearchChange::DropDictionary(id) | SearchChange::DropConfiguration(id))
            | Change::DropCast(id)
            | Change::DropOperator(id)
            | Change::DropRule(id) => of(*id).collect(),
            Change::DropType(id) => {
                let ty = self.types.get(id);
                let domain = ty.and_then(|ty| ty.domain());
                let checks = domain.iter().flat_map(|domain| domain.checks.iter().map(|check| check.id));
                let composite = ty.and_then(|ty| ty.composite()).map(|composite| composite.relation);
                checks.chain(composite).chain([*id]).flat_map(of).collect()
            }
            Change::PutType(ty) => {
                let checks = |ty: &UserType| -> Vec<ObjectId> {
                    ty.domain().iter().flat_map(|domain| domain.checks.iter().map(|check| check.id)).collect()
                };
                let remain = checks(ty);
                let old = self.types.get(&ty.id).map(|old| checks(old)).unwrap_or_default();
                let gone = old.into_iter().filter(|id| !remain.contains(id)).flat_map(of);
                let fields = ty.composite().into_iter().flat_map(|composite| {
                    let is_there = |number: i32| composite.fields.iter().any(|field| i32::from(field.number) == number);
                    of(composite.relation).filter(move |(_, number)| !is_there(*number))
                });
                gone.chain(fields).collect()
            }
            Change::DropTable(id) => {
                let parts = self.tables.get(id).map(|table| table.part_numbers()).unwrap_or_default();
                parts.into_iter().chain([*id]).flat_map(of).collect()
            }
            Change::PutTable(table) => {
                let Some(old) = self.tables.get(&table.id) else { return Vec::new() };
                let remain = table.part_numbers();
                let gone = old.part_numbers().into_iter().filter(|id| !remain.contains(id)).flat_map(of);
                let dropped = |column: i32| {
                    let column = usize::try_from(column - 1).ok().and_then(|at| table.columns.get(at));
                    column.is_some_and(|column| column.dropped)
                };
                gone.chain(of(table.id).filter(|(_, column)| dropped(*column))).collect()
            }
            Change::PutView(view) => {
                let columns = view.columns.len() as i32;
                of(view.id).filter(|(_, column)| *column > columns).collect()
            }
            _ => Vec::new(),
        }
    }

    fn name(&mut self, schema: &CompactString, name: CompactString, relation: Relation) {
        self.relations.entry(schema.clone()).or_default().insert(name, relation);
    }

    pub(crate) fn forget_table(&mut self, id: ObjectId) {
        let Some(old) = self.tables.remove(&id) else { return };
        if let Some(names) = self.relations.get_mut(&old.schema) {
            names.remove(&old.name);
            old.indexes.iter().for_each(|index| _ = names.remove(&index.name));
            old.primary_key.iter().for_each(|key| _ = names.remove(&key.name));
        }
        for part in parts_of(&old) {
            self.part_of.remove(&part);
        }
        for foreign_key in &old.foreign_keys {
            if let Some(referring) = self.referenced_by.get_mut(&foreign_key.target) {
                referring.retain(|&referring| referring != id);
            }
        }
    }

    fn forget_view(&mut self, id: ObjectId) {
        let Some(old) = self.views.remove(&id) else { return };
        if !old.materialized {
            self.unname(&old.schema, &old.name);
        }
        for trigger in &old.triggers {
            self.part_of.remove(&trigger.id);
        }
    }

    fn forget_routine(&mut self, id: ObjectId) {
        let Some(old) = self.routines.remove(&id) else { return };
        if let Some(numbers) = self.routines_named.get_mut(&old.name) {
            numbers.retain(|&number| number != id);
        }
    }

    fn unname(&mut self, schema: &str, name: &str) {
        if let Some(names) = self.relations.get_mut(schema) {
            names.remove(name);
        }
    }

    pub(crate) fn add(&mut self, change: Change) {
        if !change.is_of_relations() {
            self.besides_relations = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        }
        match change {
            Change::PutSchema(schema) => {
                self.schemas.retain(|_, old| old.id != schema.id);
                self.schemas.insert(schema.name.clone(), Arc::new(schema));
            }
            Change::DropSchema(name) => _ = self.schemas.remove(&name),
            Change::PutTable(table) => {
                self.forget_table(table.id);
                let table = Arc::new(table);
                for index in &table.indexes {
                    self.name(&table.schema, index.name.clone(), Relation::Index(table.id, Arc::clone(index)));
                }
                if let Some(key) = &table.primary_key {
                    self.name(&table.schema, key.name.clone(), Relation::PrimaryKey(table.id));
                }
                for foreign_key in &table.foreign_keys {
                    let referring = self.referenced_by.entry(foreign_key.target).or_default();
                    if !referring.contains(&table.id) {
                        referring.push(table.id);
                    }
                }
                self.part_of.extend(parts_of(&table).map(|part| (part, table.id)));
                self.name(&table.schema, table.name.clone(), Relation::Table(Arc::clone(&table)));
                self.tables.insert(table.id, table);
            }
            Change::DropTable(id) => self.forget_table(id),
            Change::PutSequence(sequence) => {
                let sequence = Arc::new(sequence);
                if let Some(old) = self.sequences.insert(sequence.id, Arc::clone(&sequence)) {
                    self.unname(&old.schema, &old.name);
                }
                self.name(&sequence.schema, sequence.name.clone(), Relation::Sequence(Arc::clone(&sequence)));
            }
            Change::DropSequence(id) => {
                if let Some(old) = self.sequences.remove(&id) {
                    self.unname(&old.schema, &old.name);
                }
            }
            Change::PutView(view) => {
                let view = Arc::new(view);
                self.forget_view(view.id);
                self.views.insert(view.id, Arc::clone(&view));
                self.part_of.extend(view.triggers.iter().map(|trigger| (trigger.id, view.id)));
                if !view.materialized {
                    self.name(&view.schema, view.name.clone(), Relation::View(Arc::clone(&view)));
                }
            }
            Change::PutType(mut ty) => {
                for part in ty.parts_mut() {
                    self.resolve(part);
                }
                ty.renew_handle();
                let (number, arrays) = (ty.id, ty.array);
                self.types.insert(number, Arc::new(ty));
                self.renew_types_over(number);
                self.renew_types_over(arrays);
                let tables: Vec<Arc<Table>> = self.tables.values().cloned().collect();
                for table in tables {
                    let mut renewed = (*table).clone();
                    if self.resolve_types(&mut renewed) {
                        renewed.renew_layout();
                        self.add(Change::PutTable(renewed));
                    }
                }
                let routines: Vec<Arc<Routine>> = self.routines.values().cloned().collect();
                for routine in routines {
                    let mut renewed = (*routine).clone();
                    if self.resolve_routine(&mut renewed) {
                        self.routines.insert(renewed.id, Arc::new(renewed));
                    }
                }
            }
            Change::DropType(id) => _ = self.types.remove(&id),
            Change::PutExtension(extension) => _ = self.extensions.insert(extension.id, Arc::new(extension)),
            Change::DropExtension(id) => _ = self.extensions.remove(&id),
            Change::PutDefaultPrivileges(privileges) => {
                self.default_privileges.insert(privileges.id, privileges);
            }
            Change::DropDefaultPrivileges(id) => _ = self.default_privileges.remove(&id),
            Change::PutRoutine(mut routine) => {
                self.resolve_routine(&mut routine);
                self.forget_routine(routine.id);
                self.routines_named.entry(routine.name.clone()).or_default().push(routine.id);
                self.routines.insert(routine.id, Arc::new(routine));
            }
            Change::DropRoutine(id) => self.forget_routine(id),
            Change::PutCast(cast) => _ = self.casts.insert(cast.id, Arc::new(cast)),
            Change::DropCast(id) => _ = self.casts.remove(&id),
            Change::PutOperator(operator) => _ = self.operators.insert(operator.id, Arc::new(operator)),
            Change::DropOperator(id) => _ = self.operators.remove(&id),
            Change::PutRule(rule) => _ = self.rules.insert(rule.id, Arc::new(rule)),
            Change::DropRule(id) => _ = self.rules.remove(&id),
            Change::PutCollation(collation) => _ = self.collations.insert(collation.id, Arc::new(collation)),
            Change::DropCollation(id) => _ = self.collations.remove(&id),
            Change::PutStatistics(one) => _ = self.statistics.insert(one.id, Arc::new(one)),
            Change::DropStatistics(id) => _ = self.statistics.remove(&id),
            Change::Search(change) => self.search.apply(change),
            Change::PutLocale(locale) => self.locale = Some(locale),
            Change::Comment(id, column, Some(text)) => _ = self.comments.insert((id, column), text),
            Change::Comment(id, column, None) => _ = self.comments.remove(&(id, column)),
            Change::DropView(id) => self.forget_view(id),
        }
    }

    /// Tells states of all that is there besides relations and comments apart: in catalogues that give
    /// the same number this is the same.
    #[must_use]
    pub fn besides_relations(&self) -> u64 {
        self.besides_relations
    }

    /// How many tables and views there are.
    #[must_use]
    pub fn relation_count(&self) -> usize {
        self.tables.len() + self.views.len()
    }

    /// A schema.
    #[must_use]
    pub fn schema(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.get(self.schema_name(name))
    }

    /// All schemas.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }

    /// The object with a name in a schema.
    #[must_use]
    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.relations.get(self.schema_name(schema))?.get(name)
    }

    /// The object of a name, with or without a schema, in the schemas of a search path.
    #[must_use]
    pub fn find(&self, name: &[CompactString], search_path: &[CompactString]) -> Option<&Relation> {
        match name {
            [name] => search_path.iter().find_map(|schema| {
                pulse::look();
                self.relation(schema, name)
            }),
            [schema, name] => self.relation(schema, name),
            _ => None,
        }
    }

    /// The comment on an object (column 0) or on one of its columns.
    #[must_use]
    pub fn comment(&self, id: ObjectId, column: i32) -> Option<&str> {
        self.comments.get(&(id, column)).map(String::as_str)
    }

    /// All comments, by object and column.
    pub fn comments(&self) -> impl Iterator<Item = ((ObjectId, i32), &str)> {
        self.comments.iter().map(|(key, text)| (*key, text.as_str()))
    }

    /// The object with a number, with its schema's and its own name.
    #[must_use]
    pub fn relation_numbered(&self, id: ObjectId) -> Option<(CompactString, CompactString, Relation)> {
        if let Some(table) = self.tables.get(&id) {
            return Some((table.schema.clone(), table.name.clone(), Relation::Table(Arc::clone(table))));
        }
        if let Some(view) = self.views.get(&id) {
            return Some((view.schema.clone(), view.name.clone(), Relation::View(Arc::clone(view))));
        }
        if let Some(sequence) = self.sequences.get(&id) {
            return Some((sequence.schema.clone(), sequence.name.clone(), Relation::Sequence(Arc::clone(sequence))));
        }
        let table = self.table_with_part(id)?;
        if let Some(key) = table.primary_key.as_ref().filter(|key| key.id == id) {
            return Some((table.schema.clone(), key.name.clone(), Relation::PrimaryKey(table.id)));
        }
        let index = table.indexes.iter().find(|index| index.id == id)?;
        Some((table.schema.clone(), index.name.clone(), Relation::Index(table.id, Arc::clone(index))))
    }

    /// The table that an index, a constraint, a policy or a trigger is part of, by the number of that
    /// part.
    #[must_use]
    pub fn table_with_part(&self, part: ObjectId) -> Option<&Arc<Table>> {
        self.tables.get(self.part_of.get(&part)?)
    }

    /// The view that a trigger is part of.
    #[must_use]
    pub fn view_with_trigger(&self, trigger: ObjectId) -> Option<&Arc<View>> {
        self.views.get(self.part_of.get(&trigger)?)
    }

    /// The number of a relation.
    #[must_use]
    pub fn number_of(&self, relation: &Relation) -> Option<ObjectId> {
        match relation {
            Relation::Table(table) => Some(table.id),
            Relation::Index(_, index) => Some(index.id),
            Relation::PrimaryKey(table) => Some(self.tables.get(table)?.primary_key.as_ref()?.id),
            Relation::Sequence(sequence) => Some(sequence.id),
            Relation::View(view) => Some(view.id),
        }
    }

    /// A sequence by number.
    #[must_use]
    pub fn sequence(&self, id: ObjectId) -> Option<&Arc<Sequence>> {
        self.sequences.get(&id)
    }

    /// A view by number.
    #[must_use]
    pub fn view(&self, id: ObjectId) -> Option<&Arc<View>> {
        self.views.get(&id)
    }

    /// The locale of the database's own collation; `None` is that of bytes.
    #[must_use]
    pub fn locale(&self) -> Option<&str> {
        self.locale.as_deref()
    }

    /// The casts that users have defined.
    pub fn casts(&self) -> impl Iterator<Item = &Arc<UserCast>> {
        self.casts.values()
    }

    /// The cast that a user has defined from one type, by its number, to another.
    #[must_use]
    pub fn cast_between(&self, from: ObjectId, to: ObjectId) -> Option<&Arc<UserCast>> {
        if self.casts.is_empty() {
            return None;
        }
        self.casts.values().find(|cast| cast.from == from && cast.to == to)
    }

    /// All relations of a schema.
    pub fn relations(&self, schema: &str) -> impl Iterator<Item = (&CompactString, &Relation)> {
        self.relations.get(self.schema_name(schema)).into_iter().flatten()
    }

    /// The types that users have defined, in the order of their numbers.
    pub fn types(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.types.values()
    }

    /// A type by number.
    #[must_use]
    pub fn user_type(&self, id: ObjectId) -> Option<&Arc<UserType>> {
        self.types.get(&id)
    }

    /// The composite type that the catalogue's tables know as this relation.
    #[must_use]
    pub fn composite_of_relation(&self, relation: ObjectId) -> Option<&Arc<UserType>> {
        self.types.values().find(|ty| ty.composite().is_some_and(|composite| composite.relation == relation))
    }

    /// The relation whose rows are of a composite type: a table, or what a type made by CREATE TYPE
    /// is in the catalogue's tables.
    #[must_use]
    pub fn relation_of_rows(&self, ty: Type) -> Option<ObjectId> {
        match ty {
            Type::Composite(of) if let Some((relation, _)) = relation_of(of.oid()) => Some(relation),
            Type::Composite(of) => self.types.get(&of.oid())?.composite().map(|composite| composite.relation),
            _ => None,
        }
    }

    /// The type of values of one that a user has defined, by the number of it or of its arrays.
    #[must_use]
    pub fn type_numbered(&self, number: ObjectId) -> Option<Type> {
        self.column_type_numbered(number).map(|found| found.ty)
    }

    /// The same, with the domain that it is.
    #[must_use]
    pub fn column_type_numbered(&self, number: ObjectId) -> Option<ColumnType> {
        if let Some(ty) = self.types.get(&number) {
            return Some(ty.column_type());
        }
        if let Some((relation, is_array)) = relation_of(number) {
            let ty = Type::Composite(self.tables.get(&relation)?.row_type());
            return Some(if is_array { ty.array()?.into() } else { ty.into() });
        }
        self.types.values().find(|ty| ty.array == number && number != 0).and_then(|ty| ty.array_column_type())
    }

    /// A type that a user has defined, by the number of it or of its arrays; then the second is
    /// `true`.
    #[must_use]
    pub fn user_type_of(&self, number: ObjectId) -> Option<(&Arc<UserType>, bool)> {
        if let Some(ty) = self.types.get(&number) {
            return Some((ty, false));
        }
        self.types.values().find(|ty| ty.array == number && number != 0).map(|ty| (ty, true))
    }

    /// The domain that a column's type is, or that it has in its arrays.
    #[must_use]
    pub fn domain_of(&self, ty: ColumnType) -> Option<&Arc<UserType>> {
        self.types.get(&ty.domain?.element().oid())
    }

    /// A type of a schema by name.
    #[must_use]
    pub fn type_named(&self, schema: &str, name: &str) -> Option<&Arc<UserType>> {
        let schema = self.schema_name(schema);
        self.types.values().find(|ty| ty.name == name && ty.schema == schema)
    }

    /// The type of a name, with or without a schema, in the schemas of a search path.
    #[must_use]
    pub fn find_type(&self, schema: Option<&str>, name: &str, search_path: &[CompactString]) -> Option<&Arc<UserType>> {
        match schema {
            _ if self.types.is_empty() => None,
            Some(schema) => self.type_named(schema, name),
            None => search_path.iter().find_map(|schema| self.type_named(schema, name)),
        }
    }

    /// What ALTER DEFAULT PRIVILEGES has said, in the order of its numbers.
    pub fn default_privileges(&self) -> impl Iterator<Item = &DefaultPrivileges> {
        self.default_privileges.values()
    }

    /// The extension that has brought a function or a type of the catalogue.
    #[must_use]
    pub fn extension_of(&self, member: ObjectId) -> Option<&Arc<Extension>> {
        self.extensions.values().find(|extension| extension.members.contains(&member))
    }

    /// All extensions that were made, in the order of their numbers.
    pub fn extensions(&self) -> impl Iterator<Item = &Arc<Extension>> {
        self.extensions.values()
    }

    /// All functions and procedures, in the order of their numbers.
    pub fn routines(&self) -> impl Iterator<Item = &Arc<Routine>> {
        self.routines.values()
    }

    /// A function or procedure by number.
    #[must_use]
    pub fn routine(&self, id: ObjectId) -> Option<&Arc<Routine>> {
        self.routines.get(&id)
    }

    /// The functions and procedures of a name, in whichever schemas.
    pub fn routines_named(&self, name: &str) -> impl Iterator<Item = &Arc<Routine>> {
        let numbers = self.routines_named.get(name).map_or(&[][..], Vec::as_slice);
        numbers.iter().filter_map(|number| self.routines.get(number))
    }

    /// A table by number.
    #[must_use]
    pub fn table(&self, id: ObjectId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// The tables that a table is a partition of, directly and by each other, the nearest first.
    #[must_use]
    pub fn partition_ancestors(&self, table: &Table) -> Vec<ObjectId> {
        let mut found = Vec::new();
        let mut next = table.partition_of.as_ref().map(|of| of.parent);
        while let Some(parent) = next {
            found.push(parent);
            next = self.table(parent).and_then(|table| table.partition_of.as_ref()).map(|of| of.parent);
        }
        found
    }

    /// The partitions of a table at all levels, and the tables that inherit from it, each once and
    /// behind a table that it is a partition of or inherits from; the table itself first.
    #[must_use]
    pub fn partition_tree(&self, root: ObjectId) -> Vec<ObjectId> {
        let mut found = vec![root];
        let mut next = 0;
        while let Some(&id) = found.get(next) {
            next += 1;
            let Some(table) = self.table(id) else { continue };
            found.extend(table.partitioned.iter().flat_map(|partitioned| &partitioned.partitions));
            let mut children: Vec<ObjectId> = table.children.iter().copied().filter(|id| !found.contains(id)).collect();
            children.sort_unstable();
            found.append(&mut children);
        }
        found
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// All sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// All views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// Tables with foreign keys that refer to a table.
    pub fn referring_to(&self, id: ObjectId) -> impl Iterator<Item = &Arc<Table>> {
        self.referenced_by.get(&id).into_iter().flatten().filter_map(|id| self.tables.get(id))
    }
}

/// The longest text that may be a name, in bytes: more than any name with its schemas and quotes.
pub const NAME_TEXT_BYTES_MAX: usize = 16 << 10;

/// The parts of a name that is written as text: `public."My sequence"`. Blanks, and the small
/// letters of capitals, are those of ASCII: what else a name holds is the name.
#[must_use]
pub fn parse_name(text: &str) -> Option<Vec<CompactString>> {
    if text.len() > NAME_TEXT_BYTES_MAX {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(letters::is_name_blank);
    loop {
        let mut part = CompactString::default();
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted;
            loop {
                let end = rest.find('"')?;
                part.push_str(&rest[..end]);
                rest = &rest[end + 1..];
                match rest.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        rest = more;
                    }
                    None => break,
                }
            }
        } else {
            let end = rest.find(|c| c == '.' || letters::is_name_blank(c)).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            part.push_str(&rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        }
        while part.len() > NAME_BYTES_MAX {
            part.pop();
        }
        parts.push(part);
        rest = rest.trim_start_matches(letters::is_name_blank);
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start_matches(letters::is_name_blank),
            None => return rest.is_empty().then_some(parts),
        }
    }
}
