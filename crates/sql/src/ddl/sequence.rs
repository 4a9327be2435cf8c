//! CREATE SEQUENCE, and the sequences that columns own.

use std::sync::Arc;

use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{Catalog, Change, Column, ObjectId, Sequence, cluster::RoleId};
use colibri_syntax::tree::{SequenceNumber, SequenceOption};
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::create::Draft;
use crate::bind::bind_type;

/// What a number says that is given for a sequence.
fn value_of(number: &SequenceNumber) -> Result<i64> {
    let SequenceNumber(text) = number;
    text.parse().map_err(|_| {
        if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
            Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range for type bigint"))
        } else {
            let message = format!("invalid input syntax for type bigint: \"{text}\"");
            Error::new(SqlState::BAD_TEXT, message)
        }
    })
}

/// All options of a sequence, each once; `None` if it is not given.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceOptions {
    /// The type of the column that the sequence is made for.
    ty: Option<Type>,
    declared: Option<ast::DataType>,
    increment: Option<SequenceNumber>,
    /// `Some(None)`: as small as may be.
    min: Option<Option<SequenceNumber>>,
    max: Option<Option<SequenceNumber>>,
    start: Option<SequenceNumber>,
    /// `Some(None)`: at the start.
    restart: Option<Option<SequenceNumber>>,
    cache: Option<SequenceNumber>,
    cycle: Option<bool>,
    pub(crate) owned_by: Option<Vec<CompactString>>,
    name: Option<Vec<CompactString>>,
}

fn bad(message: String) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// The smallest and the largest value of a sequence's type.
fn range_of(ty: Type) -> Result<(i64, i64)> {
    Ok(match ty {
        Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Type::Int8 => (i64::MIN, i64::MAX),
        _ => return Err(bad("sequence type must be smallint, integer, or bigint".to_owned())),
    })
}

impl SequenceOptions {
    /// Collects options. `ty` is the type of the identity column that the sequence is made for.
    ///
    /// # Errors
    /// 42601 for an option that is given twice, and for one that only identity columns have.
    pub(crate) fn gathered(ty: Option<Type>, options: &[SequenceOption]) -> Result<Self> {
        let mut all = Self { ty, ..Self::default() };
        for option in options {
            let is_new = match option {
                SequenceOption::Type(declared) => all.declared.replace(declared.clone()).is_none() && ty.is_none(),
                SequenceOption::Increment(by) => all.increment.replace(by.clone()).is_none(),
                SequenceOption::Min(value) => all.min.replace(value.clone()).is_none(),
                SequenceOption::Max(value) => all.max.replace(value.clone()).is_none(),
                SequenceOption::Start(value) => all.start.replace(value.clone()).is_none(),
                SequenceOption::Restart(at) => all.restart.replace(at.clone()).is_none(),
                SequenceOption::Cycle(cycle) => all.cycle.replace(*cycle).is_none(),
                SequenceOption::Cache(values) => all.cache.replace(values.clone()).is_none(),
                SequenceOption::OwnedBy(column) => all.owned_by.replace(column.clone()).is_none(),
                SequenceOption::Name(name) if ty.is_some() => all.name.replace(name.clone()).is_none(),
                SequenceOption::Name(_) => {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid sequence option SEQUENCE NAME"));
                }
            };
            if !is_new {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
        }
        Ok(all)
    }

    /// Whether they change which values the sequence gives.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { ty, declared, increment, min, max, start, restart, cache, cycle, owned_by: _, name: _ } = self;
        let bounds = min.is_none() && max.is_none() && cycle.is_none();
        let has_type = ty.is_some() || declared.is_some();
        bounds && !has_type && increment.is_none() && start.is_none() && restart.is_none() && cache.is_none()
    }

    /// Applies them to a sequence, which is new or has a position. Gives the new position if it
    /// restarts.
    ///
    /// # Errors
    /// 22023 if they contradict each other: the first of PostgreSQL's order.
    pub(crate) fn apply(&self, sequence: &mut Sequence, stands_at: Option<i64>) -> Result<Option<i64>> {
        let is_new = stands_at.is_none();
        // Bounds that were those of the old type become those of the new type.
        let (mut reset_min, mut reset_max) = (false, false);
        let declared = self.declared.as_ref().map(bind_type).transpose()?.map(|declared| declared.ty);
        if let Some(ty) = declared.or(self.ty) {
            let new = range_of(ty)?;
            let old = Type::from_oid(sequence.type_oid).map(range_of).transpose()?.unwrap_or(new);
            (reset_min, reset_max) = (!is_new && sequence.min == old.0, !is_new && sequence.max == old.1);
            sequence.type_oid = ty.oid();
        }
        let ty = Type::from_oid(sequence.type_oid).unwrap_or(Type::Int8);
        let (type_min, type_max) = range_of(ty)?;
        if let Some(increment) = &self.increment {
            let increment = value_of(increment)?;
            if increment == 0 {
                return Err(bad("INCREMENT must not be zero".to_owned()));
            }
            sequence.increment = increment;
        }
        sequence.cycle = self.cycle.unwrap_or(sequence.cycle);
        let ascends = sequence.increment > 0;
        match &self.max {
            Some(Some(max)) => sequence.max = value_of(max)?,
            Some(None) => sequence.max = if ascends || reset_max { type_max } else { -1 },
            None if is_new || reset_max => sequence.max = if ascends || reset_max { type_max } else { -1 },
            None => {}
        }
        let (max, name) = (sequence.max, ty);
        if !(type_min..=type_max).contains(&max) {
            return Err(bad(format!("MAXVALUE ({max}) is out of range for sequence data type {name}")));
        }
        match &self.min {
            Some(Some(min)) => sequence.min = value_of(min)?,
            Some(None) => sequence.min = if !ascends || reset_min { type_min } else { 1 },
            None if is_new || reset_min => sequence.min = if !ascends || reset_min { type_min } else { 1 },
            None => {}
        }
        let min = sequence.min;
        if !(type_min..=type_max).contains(&min) {
            return Err(bad(format!("MINVALUE ({min}) is out of range for sequence data type {name}")));
        }
        if min >= max {
            return Err(bad(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        match &self.start {
            Some(start) => sequence.start = value_of(start)?,
            None if is_new => sequence.start = if ascends { min } else { max },
            None => {}
        }
        check_bounds("START", sequence.start, (min, max))?;
        let restart = match &self.restart {
            Some(Some(at)) => Some(value_of(at)?),
            Some(None) => Some(sequence.start),
            None => None,
        };
        check_bounds("RESTART", restart.or(stands_at).unwrap_or(sequence.start), (min, max))?;
        if let Some(cache) = &self.cache {
            let cache = value_of(cache)?;
            if cache <= 0 {
                return Err(bad(format!("CACHE ({cache}) must be greater than zero")));
            }
            sequence.cache = cache;
        }
        Ok(restart)
    }
}

fn check_bounds(what: &str, value: i64, (min, max): (i64, i64)) -> Result<()> {
    if value < min {
        return Err(bad(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")));
    }
    if value > max {
        return Err(bad(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")));
    }
    Ok(())
}

impl Session {
    /// Makes the sequence that a column takes its values from.
    pub(super) fn own_sequence(
        &mut self,
        draft: &mut Draft,
        column: &mut Column,
        place: usize,
        ty: Type,
        options: &[SequenceOption],
    ) -> Result<()> {
        let options = SequenceOptions::gathered(Some(ty), options)?;
        let (schema, name) = match &options.name {
            Some(name) => {
                let temporary = is_temporary(draft.table.id);
                let (schema, name) = self.new_name_of(&quoted_object_name(name), temporary)?;
                self.expect_free(&schema, &name)?;
                if draft.names.contains(&name) && schema == draft.table.schema {
                    let message = format!("relation \"{name}\" already exists");
                    return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
                }
                (schema, name)
            }
            None => {
                let table = &draft.table;
                let name = self.free_name(&table.schema, &[&table.name, &column.name], "seq", &draft.names);
                (table.schema.clone(), name)
            }
        };
        let owner = draft.table.owner;
        let acl = self.catalog().privileges_of_new('S', owner, Some(&schema));
        let (mut sequence, restart) = new_sequence(self.new_id_in(&schema)?, schema, name.clone(), &options, owner)?;
        sequence.acl = acl;
        if let Some(column) = &options.owned_by {
            self.owner_of(&sequence, column)?;
        }
        if sequence.schema != draft.table.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
        }
        sequence.owned_by = Some((draft.table.id, place));
        column.default = Some(format!("nextval('{}')", quoted_name(&sequence.schema, &sequence.name)));
        draft.names.push(name);
        draft.sequences.push((sequence, restart));
        Ok(())
    }

    /// Puts new sequences into the catalogue, together with the table that they belong to. Each may
    /// have another position than its start.
    pub(super) fn put_sequences(&mut self, sequences: Vec<(Sequence, Option<i64>)>, with: Vec<Change>) -> Result<()> {
        let mut changes: Vec<Change> =
            sequences.iter().map(|(sequence, _)| Change::PutSequence(sequence.clone())).collect();
        changes.extend(with);
        self.change(changes)?;
        for (sequence, restart) in sequences {
            if restart.is_some() {
                self.restart_sequence(&Arc::new(sequence), restart);
            }
        }
        Ok(())
    }

    pub(crate) fn create_sequence(
        &mut self,
        name: &[CompactString],
        temporary: bool,
        if_not_exists: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        if !temporary {
            Catalog::lock(self.catalog_and_txn()?.1)?;
        }
        let (schema, name) = self.new_name_of(&quoted_object_name(name), temporary)?;
        if if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            self.notice_existing("relation", &name);
            return Ok(());
        }
        let id = self.new_id_in(&schema)?;
        // Errors of the options come before a name that is taken.
        let options = SequenceOptions::gathered(None, options)?;
        let acl = self.catalog().privileges_of_new('S', self.role(), Some(&schema));
        let (mut sequence, restart) = new_sequence(id, schema, name, &options, self.role())?;
        sequence.acl = acl;
        self.expect_free(&sequence.schema, &sequence.name)?;
        if let Some(column) = &options.owned_by {
            sequence.owned_by = self.owner_of(&sequence, column)?;
        }
        self.put_sequences(vec![(sequence, restart)], Vec::new())
    }
}

/// A sequence that belongs to no column, and its position if that is not its start.
fn new_sequence(
    id: ObjectId,
    schema: CompactString,
    name: CompactString,
    options: &SequenceOptions,
    owner: RoleId,
) -> Result<(Sequence, Option<i64>)> {
    let (type_oid, start, increment, min, max) = (Type::Int8.oid(), 1, 1, 1, i64::MAX);
    let (cycle, cache, owned_by, acl) = (false, 1, None, None);
    let mut sequence =
        Sequence { id, schema, name, type_oid, start, increment, min, max, cycle, cache, owned_by, owner, acl };
    let restart = options.apply(&mut sequence, None)?;
    Ok((sequence, restart))
}

fn quoted_object_name(parts: &[CompactString]) -> ast::ObjectName {
    let quoted: Vec<ast::Ident> = parts.iter().map(|part| ast::Ident::with_quote('"', part.as_str())).collect();
    ast::ObjectName::from(quoted)
}

/// A name that can be read again, in a text in single quotes.
fn quoted_name(schema: &str, name: &str) -> String {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\"")).replace('\'', "''");
    format!("{}.{}", quote(schema), quote(name))
}
