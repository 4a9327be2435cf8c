//! Identity columns: `GENERATED … AS IDENTITY`, in CREATE TABLE and as ALTER TABLE changes it.
//!
//! An identity column takes its values from a sequence that belongs to it alone: its default calls
//! `nextval` with that sequence's name. The parser passes the options as text, in a marker that
//! [`options_of`] and [`change_of`] decode.
//!
//! Invariant: an identity column is NOT NULL and has no other default.

use std::sync::Arc;

use colibri_catalog::{Change, Column, Identity, Sequence, Table};
use colibri_syntax::tree::{IdentityChange, IdentityKind, SequenceOption};
use colibri_types::{Error, Result, SqlState, Type};
use sqlparser::ast;

use super::Session;
use super::create::Draft;
use super::sequence::SequenceOptions;
use crate::bind::stored;
use crate::statement::{IDENTITY_MARK, parse_identity_change, parse_identity_options};

fn kind_of(kind: IdentityKind) -> Identity {
    match kind {
        IdentityKind::Always => Identity::Always,
        IdentityKind::ByDefault => Identity::ByDefault,
    }
}

/// The text that stands in place of a sequence's options.
pub(super) fn text_of(options: Option<&[ast::SequenceOptions]>) -> Result<Option<&str>> {
    let text = match options.unwrap_or_default() {
        [] => return Ok(None),
        [ast::SequenceOptions::StartWith(ast::Expr::Value(value), _)] => match &value.value {
            ast::Value::Placeholder(text) => text.strip_prefix(IDENTITY_MARK),
            _ => None,
        },
        _ => None,
    };
    text.map(Some).ok_or_else(|| Error::internal("an identity's options are not marked"))
}

/// The options behind `AS IDENTITY` in the definition of a column.
pub(super) fn options_of(options: Option<&[ast::SequenceOptions]>) -> Result<Vec<SequenceOption>> {
    text_of(options)?.map(parse_identity_options).transpose().map(Option::unwrap_or_default)
}

/// The change of an identity that `ALTER COLUMN` asks for.
pub(super) fn change_of(options: Option<&[ast::SequenceOptions]>) -> Result<IdentityChange> {
    let text = text_of(options)?.ok_or_else(|| Error::internal("a change of an identity is not marked"))?;
    parse_identity_change(text)
}

fn wrong(column: &str, table: &Table, what: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" {what}", table.name);
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
}

impl Session {
    /// Makes a column an identity, with a sequence of its own.
    pub(super) fn make_identity(
        &mut self,
        draft: &mut Draft,
        column: &mut Column,
        place: usize,
        kind: Identity,
        options: &[SequenceOption],
    ) -> Result<()> {
        let ty = column.ty.ty;
        SequenceOptions::gathered(Some(ty), options)?;
        if !matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        self.own_sequence(draft, column, place, ty, options)?;
        column.identity = Some(kind);
        Ok(())
    }

    pub(super) fn change_identity(&mut self, table: &Arc<Table>, place: usize, change: &IdentityChange) -> Result<()> {
        match change {
            IdentityChange::Add { kind, options } => self.add_identity(table, place, kind_of(*kind), options),
            IdentityChange::Set { kinds, options } => self.set_identity(table, place, kinds, options),
            IdentityChange::Drop { if_exists } => self.drop_identity(table, place, *if_exists),
        }
    }

    fn add_identity(
        &mut self,
        table: &Arc<Table>,
        place: usize,
        kind: Identity,
        options: &[SequenceOption],
    ) -> Result<()> {
        let mut draft = self.draft(table);
        let old = &table.columns[place];
        let mut column = old.clone();
        // Errors of the sequence come before errors of the column.
        self.make_identity(&mut draft, &mut column, place, kind, options)?;
        if !old.not_null {
            return Err(wrong(&old.name, table, "must be declared NOT NULL before identity can be added"));
        }
        if old.identity.is_some() {
            return Err(wrong(&old.name, table, "is already an identity column"));
        }
        if old.default.is_some() {
            return Err(wrong(&old.name, table, "already has a default value"));
        }
        draft.table.columns[place] = column;
        self.put_sequences(draft.sequences, vec![Change::PutTable(draft.table)])
    }

    fn set_identity(
        &mut self,
        table: &Arc<Table>,
        place: usize,
        kinds: &[IdentityKind],
        options: &[SequenceOption],
    ) -> Result<()> {
        let column = &table.columns[place];
        let sequence = self.identity_sequence(table, place);
        if let Some(sequence) = &sequence
            && !options.is_empty()
        {
            self.change_sequence(sequence, &SequenceOptions::gathered(None, options)?)?;
        }
        if kinds.len() > 1 {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
        }
        if column.identity.is_none() {
            return Err(wrong(&column.name, table, "is not an identity column"));
        }
        let Some(&kind) = kinds.first() else { return Ok(()) };
        let mut changed = (**table).clone();
        changed.columns[place].identity = Some(kind_of(kind));
        self.change(vec![Change::PutTable(changed)])
    }

    fn drop_identity(&mut self, table: &Arc<Table>, place: usize, if_exists: bool) -> Result<()> {
        let column = &table.columns[place];
        if column.identity.is_none() {
            let error = wrong(&column.name, table, "is not an identity column");
            if !if_exists {
                return Err(error);
            }
            self.notice_skipped(&error.report().message);
            return Ok(());
        }
        let sequence = self.identity_sequence(table, place);
        let mut changed = (**table).clone();
        changed.columns[place].identity = None;
        changed.columns[place].default = None;
        let mut changes = vec![Change::PutTable(changed)];
        changes.extend(sequence.map(|sequence| Change::DropSequence(sequence.id)));
        self.change(changes)
    }

    /// The sequence that an identity column takes its values from.
    pub(super) fn identity_sequence(&self, table: &Table, place: usize) -> Option<Arc<Sequence>> {
        let is_its = |sequence: &&Arc<Sequence>| {
            sequence.owned_by == Some((table.id, place)) && stored::is_of_identity(table, sequence)
        };
        self.catalog().sequences().find(is_its).cloned()
    }

    /// The sequence of an identity column has the column's type.
    pub(super) fn alter_identity_type(&mut self, table: &Table, place: usize, ty: Type) -> Result<()> {
        if !matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        let Some(sequence) = self.identity_sequence(table, place) else { return Ok(()) };
        self.change_sequence(&sequence, &SequenceOptions::gathered(Some(ty), &[])?)
    }
}
