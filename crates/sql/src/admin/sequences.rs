//! ALTER SEQUENCE.
//!
//! What a sequence is belongs to the catalogue and changes with the transaction; where it stands does not, but RESTART
//! takes effect with the transaction as well, since the sequence goes to its new place when that commits.

use std::sync::Arc;

use sqlparser::ast;

use super::SequenceOption;
use crate::catalog::{Catalog, Change, Relation, Sequence};
use crate::ddl::{SequenceOptions, sequence_type};
use crate::error::{Error, Result, SqlState};
use crate::session::Session;

impl Session {
    /// A sequence by its name; `None` if it is not there and need not be.
    fn sequence_to_alter(
        &mut self,
        name: &[compact_str::CompactString],
        if_exists: bool,
    ) -> Result<Option<Arc<Sequence>>> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        if if_exists && self.relation_named(name)?.is_none() {
            return Ok(None);
        }
        match self.expect_relation(name)? {
            Relation::Sequence(sequence) => {
                self.expect_owner(sequence.owner, "sequence", &sequence.name)?;
                Ok(Some(sequence))
            }
            _ => {
                let shown = name.last().cloned().unwrap_or_default();
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a sequence")))
            }
        }
    }

    pub(super) fn rename_one_sequence(
        &mut self,
        name: &[compact_str::CompactString],
        if_exists: bool,
        to: &str,
    ) -> Result<()> {
        if self.sequence_to_alter(name, if_exists)?.is_none() {
            return Ok(());
        }
        let quoted = |part: &str| ast::Ident::with_quote('"', part);
        let name: Vec<ast::Ident> = name.iter().map(|part| quoted(part)).collect();
        self.rename_relation(&ast::ObjectName::from(name), &ast::ObjectName::from(vec![quoted(to)]))
    }

    pub(super) fn alter_sequence(
        &mut self,
        name: &[compact_str::CompactString],
        if_exists: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        let Some(sequence) = self.sequence_to_alter(name, if_exists)? else { return Ok(()) };
        let mut changed = (*sequence).clone();
        let mut given = SequenceOptions::default();
        let mut owned_by = None;
        for option in options {
            let is_new = match option {
                SequenceOption::Type(name) => {
                    let ty = sequence_type(&crate::statement::parse_type(name)?)?;
                    given.ty.replace(ty).is_none()
                }
                SequenceOption::Increment(by) => given.increment.replace(*by).is_none(),
                SequenceOption::Min(value) => given.min.replace(*value).is_none(),
                SequenceOption::Max(value) => given.max.replace(*value).is_none(),
                SequenceOption::Start(value) => given.start.replace(*value).is_none(),
                SequenceOption::Restart(at) => given.restart.replace(*at).is_none(),
                SequenceOption::Cycle(cycle) => given.cycle.replace(*cycle).is_none(),
                SequenceOption::Cache(values) => given.cache.replace(*values).is_none(),
                SequenceOption::OwnedBy(column) => owned_by.replace(column.as_ref()).is_none(),
            };
            if !is_new {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
        }
        if let Some(column) = owned_by {
            if sequence.owned_by.is_some_and(|owner| self.is_identity(owner)) {
                let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot change ownership of identity sequence");
                return Err(error);
            }
            changed.owned_by = column.map(|column| self.owner_of(&sequence, column)).transpose()?;
        }
        self.change_sequence(&sequence, changed, &given)
    }

    /// Changes a sequence as options say, together with what has been changed of it already.
    pub(crate) fn change_sequence(
        &mut self,
        sequence: &Sequence,
        mut changed: Sequence,
        given: &SequenceOptions,
    ) -> Result<()> {
        let stands_at = self.place_of(sequence)?;
        let restart = given.apply(&mut changed, Some(stands_at))?;
        self.change(vec![Change::PutSequence(changed.clone())])?;
        match restart {
            Some(at) => self.restart_sequence(&Arc::new(changed), Some(at)),
            None if given.is_empty() => {}
            None => self.keep_place(&changed)?,
        }
        Ok(())
    }

    /// Whether a column takes its values from its sequence as an identity.
    fn is_identity(&self, (table, column): (u32, usize)) -> bool {
        let column = self.catalog().table(table).and_then(|table| table.columns.get(column));
        column.is_some_and(|column| column.identity.is_some())
    }

    /// The table and the place of a column that a sequence is to go away with.
    pub(crate) fn owner_of(&self, sequence: &Sequence, column: &[compact_str::CompactString]) -> Result<(u32, usize)> {
        let bad = |message: &str| Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message);
        let Some((column, table)) = column.split_last().filter(|(_, table)| !table.is_empty()) else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        };
        let Relation::Table(table) = self.expect_relation(table)? else {
            return Err(bad("a sequence can only be owned by a table's column"));
        };
        if table.owner != sequence.owner {
            return Err(bad("sequence must have same owner as table it is linked to"));
        }
        if table.schema != sequence.schema {
            return Err(bad("sequence must be in same schema as table it is linked to"));
        }
        let place = table.column(column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            Error::new(SqlState::NO_SUCH_COLUMN, message)
        })?;
        Ok((table.id, place))
    }
}
