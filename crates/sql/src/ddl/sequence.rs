//! CREATE SEQUENCE, and the sequences that columns own.

use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::create::Draft;
use crate::bind::{bind_type, fold, name_parts};
use crate::catalog::{Change, Column, ObjectId, Sequence};
use crate::cluster::RoleId;
use crate::error::{Error, Result, SqlState};
use crate::types::Type;

/// What CREATE and ALTER SEQUENCE say of a sequence; `None`: nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceOptions {
    pub(crate) ty: Option<Type>,
    pub(crate) increment: Option<i64>,
    /// `Some(None)`: as small as may be.
    pub(crate) min: Option<Option<i64>>,
    pub(crate) max: Option<Option<i64>>,
    pub(crate) start: Option<i64>,
    /// `Some(None)`: at the start.
    pub(crate) restart: Option<Option<i64>>,
    pub(crate) cache: Option<i64>,
    pub(crate) cycle: Option<bool>,
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
    /// Whether they say anything.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { ty, increment, min, max, start, restart, cache, cycle } = self;
        let bounds = min.is_none() && max.is_none() && cycle.is_none();
        bounds && ty.is_none() && increment.is_none() && start.is_none() && restart.is_none() && cache.is_none()
    }

    /// Puts them into a sequence, which is new, or stands at a value. Gives the value that it goes back to, if it does.
    ///
    /// # Errors
    /// 22023 if they contradict each other: the first of PostgreSQL's order.
    pub(crate) fn apply(&self, sequence: &mut Sequence, stands_at: Option<i64>) -> Result<Option<i64>> {
        let is_new = stands_at.is_none();
        // Bounds that were the type's become the new type's.
        let (mut reset_min, mut reset_max) = (false, false);
        if let Some(ty) = self.ty {
            let new = range_of(ty)?;
            let old = Type::from_oid(sequence.type_oid).map(range_of).transpose()?.unwrap_or(new);
            (reset_min, reset_max) = (!is_new && sequence.min == old.0, !is_new && sequence.max == old.1);
            sequence.type_oid = ty.oid();
        }
        let ty = Type::from_oid(sequence.type_oid).unwrap_or(Type::Int8);
        let (type_min, type_max) = range_of(ty)?;
        if let Some(increment) = self.increment {
            if increment == 0 {
                return Err(bad("INCREMENT must not be zero".to_owned()));
            }
            sequence.increment = increment;
        }
        sequence.cycle = self.cycle.unwrap_or(sequence.cycle);
        let ascends = sequence.increment > 0;
        match self.max {
            Some(Some(max)) => sequence.max = max,
            Some(None) => sequence.max = if ascends || reset_max { type_max } else { -1 },
            None if is_new || reset_max => sequence.max = if ascends || reset_max { type_max } else { -1 },
            None => {}
        }
        let (max, name) = (sequence.max, ty);
        if !(type_min..=type_max).contains(&max) {
            return Err(bad(format!("MAXVALUE ({max}) is out of range for sequence data type {name}")));
        }
        match self.min {
            Some(Some(min)) => sequence.min = min,
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
        match self.start {
            Some(start) => sequence.start = start,
            None if is_new => sequence.start = if ascends { min } else { max },
            None => {}
        }
        check_bounds("START", sequence.start, (min, max))?;
        let restart = self.restart.map(|at| at.unwrap_or(sequence.start));
        check_bounds("RESTART", restart.or(stands_at).unwrap_or(sequence.start), (min, max))?;
        if let Some(cache) = self.cache {
            if cache <= 0 {
                return Err(bad(format!("CACHE ({cache}) must be greater than zero")));
            }
            sequence.cache = cache;
        }
        Ok(restart)
    }

    /// From what CREATE says.
    fn parsed(ty: Option<Type>, options: &[ast::SequenceOptions]) -> Result<Self> {
        let mut parsed = Self { ty, ..Self::default() };
        for option in options {
            match option {
                ast::SequenceOptions::IncrementBy(by, _) => parsed.increment = Some(sequence_number(by)?),
                ast::SequenceOptions::MinValue(value) => {
                    parsed.min = Some(value.as_ref().map(sequence_number).transpose()?);
                }
                ast::SequenceOptions::MaxValue(value) => {
                    parsed.max = Some(value.as_ref().map(sequence_number).transpose()?);
                }
                ast::SequenceOptions::StartWith(value, _) => parsed.start = Some(sequence_number(value)?),
                ast::SequenceOptions::Cache(value) => parsed.cache = Some(sequence_number(value)?),
                // The parser says whether NO was there.
                ast::SequenceOptions::Cycle(no) => parsed.cycle = Some(!no),
            }
        }
        Ok(parsed)
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
    pub(super) fn own_sequence(
        &mut self,
        draft: &mut Draft,
        column: &mut Column,
        place: usize,
        ty: Type,
        options: &[ast::SequenceOptions],
    ) -> Result<()> {
        let table = &draft.table;
        let name = self.free_name(&table.schema, &[&table.name, &column.name], "seq", &draft.names);
        let id = self.new_id()?;
        let sequence =
            new_sequence(id, table.schema.clone(), name.clone(), ty, options, Some((table.id, place)), table.owner)?;
        column.default = Some(format!("nextval('{}')", quoted_name(&sequence.schema, &sequence.name)));
        draft.names.push(name);
        draft.sequences.push(sequence);
        Ok(())
    }

    pub(super) fn create_sequence(
        &mut self,
        if_not_exists: bool,
        name: &ast::ObjectName,
        data_type: Option<&ast::DataType>,
        options: &[ast::SequenceOptions],
        owned_by: Option<&ast::ObjectName>,
    ) -> Result<()> {
        let (schema, name) = self.new_name(name)?;
        if if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            return Ok(());
        }
        let ty = data_type.map(bind_type).transpose()?.map_or(Type::Int8, |ty| ty.ty);
        let owned_by = match owned_by {
            Some(owner) if !owner.to_string().eq_ignore_ascii_case("none") => {
                let parts: Vec<CompactString> = name_parts(owner)?.into_iter().map(fold).collect();
                Some(parts)
            }
            _ => None,
        };
        let id = self.new_id()?;
        // What is wrong with the options is said before what has the name already.
        let mut sequence = new_sequence(id, schema, name, ty, options, None, self.role())?;
        self.expect_free(&sequence.schema, &sequence.name)?;
        if let Some(owner) = owned_by {
            sequence.owned_by = Some(self.owner_of(&sequence, &owner)?);
        }
        self.change(vec![Change::PutSequence(sequence)])
    }
}

fn new_sequence(
    id: ObjectId,
    schema: CompactString,
    name: CompactString,
    ty: Type,
    options: &[ast::SequenceOptions],
    owned_by: Option<(ObjectId, usize)>,
    owner: RoleId,
) -> Result<Sequence> {
    let (type_oid, start, increment, min, max, cycle, cache) = (ty.oid(), 1, 1, 1, i64::MAX, false, 1);
    let mut sequence =
        Sequence { id, schema, name, type_oid, start, increment, min, max, cycle, cache, owned_by, owner, acl: None };
    SequenceOptions::parsed(Some(ty), options)?.apply(&mut sequence, None)?;
    Ok(sequence)
}

fn sequence_number(expr: &ast::Expr) -> Result<i64> {
    expr.to_string()
        .replace(' ', "")
        .parse()
        .map_err(|_| Error::new(SqlState::SYNTAX_ERROR, format!("a sequence's option is a number, not {expr}")))
}

/// The type that a sequence is declared with.
pub(crate) fn sequence_type(declared: &ast::DataType) -> Result<Type> {
    bind_type(declared).map(|declared| declared.ty)
}

/// A name that can be read again, in a text in single quotes.
fn quoted_name(schema: &str, name: &str) -> String {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\"")).replace('\'', "''");
    format!("{}.{}", quote(schema), quote(name))
}
