//! The part of a catalogue that belongs to one session: its temporary objects.
//!
//! Temporary objects have numbers from [`FIRST_TEMPORARY`] on. Their entries have the form of all
//! others, but are in a space of the session's own beside the database (see
//! [`colibri_txn::WithTemporary`]), so the database's catalogue does not have them. A session's
//! catalogue is the database's with these added.
//!
//! Invariants: temporary objects are in the schema `pg_temp_N` of their session, and `pg_temp` is
//! another name of it; a catalogue with temporary objects is never shared with other sessions; two
//! states of a session's temporary objects never have the same version.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_txn::{ColumnSet, Direction, FIRST_TEMPORARY, KeyRange, Space, SpaceId, Transaction};
use colibri_types::Result;
use compact_str::CompactString;

use crate::catalog::{Catalog, Change, Entry, TemporarySchema};
use crate::cluster::{Acl, BOOTSTRAP_ROLE, Grant, ObjectKind, PUBLIC_ROLE, Privileges};
use crate::objects::{ObjectId, Schema};
use crate::store_error::InSql as _;

/// What every session may call the schema of its temporary objects.
pub const PG_TEMP: &str = "pg_temp";

/// What the names of the schemas of temporary objects begin with.
pub const PG_TEMP_PREFIX: &str = "pg_temp_";

/// Whether a number is a temporary object's.
#[must_use]
pub fn is_temporary(id: ObjectId) -> bool {
    id >= FIRST_TEMPORARY
}

/// Whether an entry of the catalogue is a temporary object's, by its key: a kind and a number.
#[must_use]
pub fn is_temporary_entry(key: &[u8]) -> bool {
    key.len() >= 5 && key[1] & 0x80 != 0
}

/// What what follows in a session's own space of the catalogue leads to.
fn entries(txn: &mut dyn Transaction, space: SpaceId) -> Result<Vec<(u8, Vec<u8>)>> {
    let mut entries = Vec::new();
    let all = KeyRange { low: std::ops::Bound::Unbounded, high: std::ops::Bound::Unbounded };
    let visit = &mut |key: &[u8], value: &[u8]| {
        entries.push((key.first().copied().unwrap_or_default(), value.to_vec()));
        ControlFlow::Continue(())
    };
    txn.scan(&Space::of_keys(space), &all, Direction::Forward, ColumnSet::NONE, usize::MAX, visit).in_sql()?;
    Ok(entries)
}

/// The spaces of the temporary tables, and of their indexes, that a session's own space of the
/// catalogue tells of.
///
/// # Errors
/// Those of the storage; an entry that cannot be read.
pub fn temporary_spaces(txn: &mut dyn Transaction, space: SpaceId) -> Result<Vec<SpaceId>> {
    let mut spaces = Vec::new();
    for (kind, value) in entries(txn, space)? {
        if let Some(Entry::Table(table)) = Entry::read(kind, &value)? {
            spaces.push(SpaceId(table.space));
            spaces.extend(table.indexes.iter().map(|index| SpaceId(index.space)));
        }
    }
    Ok(spaces)
}

impl Change {
    /// Whether it is a change of a temporary object.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        is_temporary(match self {
            Self::PutSchema(schema) => schema.id,
            Self::PutTable(table) => table.id,
            Self::PutSequence(sequence) => sequence.id,
            Self::PutView(view) => view.id,
            Self::PutType(ty) => ty.id,
            Self::PutRoutine(routine) => routine.id,
            Self::DropTable(id)
            | Self::DropSequence(id)
            | Self::DropView(id)
            | Self::DropType(id)
            | Self::DropRoutine(id)
            | Self::Comment(id, ..) => *id,
            _ => return false,
        })
    }
}

impl Catalog {
    /// Adds a session's temporary objects, which the transaction has in a space of their own. The
    /// schema has the number and the name that are given.
    ///
    /// # Errors
    /// Those of the storage; an entry that cannot be read.
    pub fn add_temporary(
        &mut self,
        txn: &mut dyn Transaction,
        space: SpaceId,
        id: ObjectId,
        name: &CompactString,
    ) -> Result<()> {
        self.temporary = Some(TemporarySchema::new(name.clone()));
        // Who may make temporary objects is asked of the database.
        let mut acl = Acl::default_of(ObjectKind::Schema, BOOTSTRAP_ROLE);
        let both = Privileges::USAGE.with(Privileges::CREATE);
        acl.add(Grant::plain(PUBLIC_ROLE, BOOTSTRAP_ROLE, both));
        self.add(Change::PutSchema(Schema { id, name: name.clone(), owner: BOOTSTRAP_ROLE, acl: Some(acl) }));
        let mut read = Vec::new();
        for (kind, value) in entries(txn, space)? {
            read.extend(Entry::read(kind, &value)?);
        }
        self.add_entries(read);
        Ok(())
    }

    /// The same without temporary objects: what other sessions see of it.
    #[must_use]
    pub fn without_temporary(&self) -> Self {
        let mut shared = self.clone();
        let Some(temporary) = shared.temporary.take() else { return shared };
        shared.forget_schema(temporary.name());
        shared
    }

    /// The schema of the session's temporary objects, if it has any or had some.
    #[must_use]
    pub fn temporary_schema(&self) -> Option<&Arc<Schema>> {
        self.schema(self.temporary.as_ref()?.name())
    }

    /// The version of the temporary objects; 0 without any.
    #[must_use]
    pub fn temporary_version(&self) -> u64 {
        self.temporary.as_ref().map_or(0, TemporarySchema::version)
    }

    /// A schema's own name: `pg_temp` is the one of the session.
    #[must_use]
    pub fn schema_name<'n>(&'n self, schema: &'n str) -> &'n str {
        match &self.temporary {
            Some(temporary) if schema == PG_TEMP => temporary.name(),
            _ => schema,
        }
    }
}
