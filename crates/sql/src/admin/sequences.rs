//! ALTER SEQUENCE.
//!
//! What a sequence is belongs to the catalogue and changes with the transaction; where it stands
//! does not, but RESTART takes effect with the transaction as well, since the sequence goes to its
//! new place when that commits.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Relation, Sequence};
use colibri_syntax::tree::SequenceOption;
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use crate::ddl::SequenceOptions;
use crate::session::Session;

impl Session {
    /// A sequence by its name; `None` if it is missing and IF EXISTS allows that.
    fn sequence_to_alter(&mut self, name: &[CompactString], if_exists: bool) -> Result<Option<Arc<Sequence>>> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        if if_exists && self.relation_named(name)?.is_none() {
            self.notice_missing("relation", name.last().map_or("", |name| name.as_str()));
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

    pub(super) fn alter_sequence(
        &mut self,
        name: &[CompactString],
        if_exists: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        let Some(sequence) = self.sequence_to_alter(name, if_exists)? else { return Ok(()) };
        self.change_sequence(&sequence, &SequenceOptions::gathered(None, options)?)
    }

    /// Changes a sequence as options say.
    pub(crate) fn change_sequence(&mut self, sequence: &Sequence, given: &SequenceOptions) -> Result<()> {
        let mut changed = sequence.clone();
        let stands_at = self.place_of(sequence)?;
        let restart = given.apply(&mut changed, Some(stands_at))?;
        if let Some(column) = &given.owned_by {
            changed.owned_by = self.owner_of(sequence, column)?;
            if self.is_of_identity(sequence) {
                let message = "cannot change ownership of identity sequence";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        self.change(vec![Change::PutSequence(changed.clone())])?;
        match restart {
            Some(at) => self.restart_sequence(&Arc::new(changed), Some(at)),
            None if given.is_empty() => {}
            None => self.keep_place(&changed)?,
        }
        Ok(())
    }

    /// Whether an identity column takes its values from a sequence.
    fn is_of_identity(&self, sequence: &Sequence) -> bool {
        let table = sequence.owned_by.and_then(|(table, _)| self.catalog().table(table));
        table.is_some_and(|table| crate::bind::stored::is_of_identity(table, sequence))
    }

    /// The table and the place of the column that OWNED BY names; `None` for OWNED BY NONE.
    pub(crate) fn owner_of(&self, sequence: &Sequence, column: &[CompactString]) -> Result<Option<(u32, usize)>> {
        let bad = |message: &str| Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message);
        let (column, table) = match column {
            [none] if none == "none" => return Ok(None),
            [table @ .., column] if !table.is_empty() => (column, table),
            _ => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                    .hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
        };
        let table = match self.expect_relation(table)? {
            Relation::Table(table) => table,
            Relation::View(_) => return Err(Error::unsupported("a sequence owned by a view's column")),
            _ => {
                let name = table.last().map_or("", |name| name.as_str());
                let message = format!("sequence cannot be owned by relation \"{name}\"");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
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
        Ok(Some((table.id, place)))
    }
}
