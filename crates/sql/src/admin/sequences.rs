//! ALTER SEQUENCE.
//!
//! What a sequence is belongs to the catalogue and changes with the transaction; where it stands does not, but RESTART
//! takes effect with the transaction as well, since the sequence goes to its new place when that commits.

use std::sync::Arc;

use sqlparser::ast;

use super::SequenceOption;
use crate::catalog::{Catalog, Change, Relation, Sequence};
use crate::ddl::{SequenceBounds, sequence_type};
use crate::error::{Error, Result, SqlState};
use crate::session::Session;
use crate::types::Type;

impl Session {
    /// A sequence by its name; `None` if it is not there and need not be.
    fn sequence_to_alter(
        &mut self,
        name: &[compact_str::CompactString],
        if_exists: bool,
    ) -> Result<Option<Arc<Sequence>>> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        if if_exists && self.catalog().find(name, self.search_path()).is_none() {
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
        let mut ty = Type::from_oid(sequence.type_oid).unwrap_or(Type::Int8);
        let (mut min, mut max) = (Some(sequence.min), Some(sequence.max));
        let mut restart = None;
        for option in options {
            match option {
                SequenceOption::Type(name) => {
                    let new = sequence_type(&crate::statement::parse_type(name)?)?;
                    let defaults =
                        |ty: Type| SequenceBounds { ty, increment: sequence.increment, min: None, max: None };
                    // Bounds that were the type's are the new type's.
                    let old = defaults(ty).check(None)?;
                    min = min.filter(|&min| min != old.0);
                    max = max.filter(|&max| max != old.1);
                    ty = new;
                }
                SequenceOption::Increment(by) => changed.increment = *by,
                SequenceOption::Min(value) => min = *value,
                SequenceOption::Max(value) => max = *value,
                SequenceOption::Start(value) => changed.start = *value,
                SequenceOption::Restart(at) => restart = Some(*at),
                SequenceOption::Cycle(cycle) => changed.cycle = *cycle,
                SequenceOption::Cache => {}
                SequenceOption::OwnedBy(None) => changed.owned_by = None,
                SequenceOption::OwnedBy(Some(column)) => changed.owned_by = Some(self.owner_of(&sequence, column)?),
            }
        }
        let bounds = SequenceBounds { ty, increment: changed.increment, min, max };
        (changed.min, changed.max, changed.start) = bounds.check(Some(changed.start))?;
        changed.type_oid = ty.oid();
        self.check_place(&changed, restart)?;
        self.change(vec![Change::PutSequence(changed.clone())])?;
        if let Some(at) = restart {
            self.restart_sequence(&Arc::new(changed), at);
        }
        Ok(())
    }

    /// Refuses bounds that the sequence would stand outside of.
    fn check_place(&self, changed: &Sequence, restart: Option<Option<i64>>) -> Result<()> {
        let place = match restart {
            Some(at) => Some(at.unwrap_or(changed.start)),
            None => self.engine().last_value(changed)?,
        };
        let (bound, how, limit) = match place {
            Some(value) if value < changed.min => ("MINVALUE", "less", changed.min),
            Some(value) if value > changed.max => ("MAXVALUE", "greater", changed.max),
            _ => return Ok(()),
        };
        let message = format!("RESTART value ({}) cannot be {how} than {bound} ({limit})", place.unwrap_or_default());
        Err(Error::new(SqlState::BAD_PARAMETER, message))
    }

    /// The table and the place of a column that a sequence is to go away with.
    fn owner_of(&self, sequence: &Sequence, column: &[compact_str::CompactString]) -> Result<(u32, usize)> {
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
