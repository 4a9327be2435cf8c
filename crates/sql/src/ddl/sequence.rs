//! CREATE SEQUENCE, and the sequences that columns own.

use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::create::Draft;
use crate::bind::{bind_type, fold};
use crate::catalog::{Change, Column, ObjectId, Sequence};
use crate::cluster::RoleId;
use crate::error::{Error, Result, SqlState};
use crate::types::Type;

/// Where a sequence's values lie; `None` is as far as its type goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceBounds {
    pub(crate) ty: Type,
    pub(crate) increment: i64,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl SequenceBounds {
    /// The smallest value, the largest, and the first, which is the one at the beginning if `start` does not say.
    ///
    /// # Errors
    /// 22023 if they contradict each other.
    pub(crate) fn check(self, start: Option<i64>) -> Result<(i64, i64, i64)> {
        let Self { ty, increment, min, max } = self;
        let bad = |message: String| Error::new(SqlState::BAD_PARAMETER, message);
        let (type_min, type_max) = match ty {
            Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::Int8 => (i64::MIN, i64::MAX),
            _ => return Err(bad("sequence type must be smallint, integer, or bigint".to_owned())),
        };
        if increment == 0 {
            return Err(bad("INCREMENT must not be zero".to_owned()));
        }
        let min = min.unwrap_or(if increment > 0 { 1 } else { type_min });
        let max = max.unwrap_or(if increment > 0 { type_max } else { -1 });
        if min < type_min {
            return Err(bad(format!("MINVALUE ({min}) is out of range for sequence data type {ty}")));
        }
        if max > type_max {
            return Err(bad(format!("MAXVALUE ({max}) is out of range for sequence data type {ty}")));
        }
        if min >= max {
            return Err(bad(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = start.unwrap_or(if increment > 0 { min } else { max });
        if start < min {
            return Err(bad(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if start > max {
            return Err(bad(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        Ok((min, max, start))
    }
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
        self.expect_free(&schema, &name)?;
        let ty = data_type.map(bind_type).transpose()?.map_or(Type::Int8, |ty| ty.ty);
        let owned_by = match owned_by {
            Some(owner) if !owner.to_string().eq_ignore_ascii_case("none") => {
                let mut parts = owner.0.clone();
                let column = match parts.pop() {
                    Some(ast::ObjectNamePart::Identifier(column)) => fold(&column),
                    _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")),
                };
                let table = self.find_table(&ast::ObjectName(parts))?;
                let place = table.column(&column).ok_or_else(|| {
                    let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })?;
                Some((table.id, place))
            }
            _ => None,
        };
        let id = self.new_id()?;
        let sequence = new_sequence(id, schema, name, ty, options, owned_by, self.role())?;
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
    let (mut increment, mut min, mut max, mut start, mut cycle) = (1, None, None, None, false);
    for option in options {
        match option {
            ast::SequenceOptions::IncrementBy(by, _) => increment = sequence_number(by)?,
            ast::SequenceOptions::MinValue(value) => min = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::MaxValue(value) => max = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::StartWith(value, _) => start = Some(sequence_number(value)?),
            ast::SequenceOptions::Cache(_) => {}
            // The parser says whether NO was there.
            ast::SequenceOptions::Cycle(no) => cycle = !no,
        }
    }
    let (min, max, start) = SequenceBounds { ty, increment, min, max }.check(start)?;
    Ok(Sequence { id, schema, name, type_oid: ty.oid(), start, increment, min, max, cycle, owned_by, owner, acl: None })
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
