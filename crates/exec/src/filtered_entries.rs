//! Rows that the entries of an index give by themselves, and a filter over them.
//!
//! As with rows of a table, a condition that bytes can answer is looked at in the entry, where many
//! are read.

use std::sync::Arc;

use colibri_catalog::record::{InEntry, IndexReader};
use colibri_catalog::{Index, Table};
use colibri_types::Result;

use super::{Batch, Scope};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::fixed_parts::Conditions;
use crate::in_place::{Seen, Tests};

/// Reads entries, and keeps those that fulfil a filter.
pub(super) struct FilteredEntries {
    table: Arc<Table>,
    index: Arc<Index>,
    /// The columns of the rows.
    columns: Box<[usize]>,
    entries: IndexReader,
    conditions: Conditions,
    tests: Tests<InEntry>,
    seen: Seen,
    /// Who reads the rows looks at their columns.
    is_wanted: bool,
}

impl FilteredEntries {
    /// A reader of some columns, for entries that fulfil a filter over these; `None` if entries do
    /// not give the columns.
    pub(super) fn new(
        table: &Arc<Table>,
        index: &Arc<Index>,
        columns: &[usize],
        filter: Option<&Expr>,
    ) -> Option<Self> {
        let conditions = match filter {
            Some(Expr::And(all)) => all.iter().cloned().collect(),
            one => one.into_iter().cloned().collect(),
        };
        Some(Self {
            table: Arc::clone(table),
            index: Arc::clone(index),
            columns: columns.into(),
            entries: IndexReader::new(table, index, columns)?,
            conditions: Conditions::new(conditions),
            tests: Tests::none(),
            seen: Seen::default(),
            is_wanted: true,
        })
    }

    /// See [`super::operator::Operator::look_at`].
    pub(super) fn look_at(&mut self, places: &[usize]) {
        self.is_wanted = !places.is_empty();
    }

    /// Computes what is the same for all rows of a run.
    #[inline]
    pub(super) fn settle(&mut self, scope: &mut Scope<'_>) {
        self.conditions.settle(scope);
    }

    /// Another run begins.
    pub(super) fn reset(&mut self) {
        self.conditions.reset();
        self.tests.forget();
        self.seen.reset();
    }

    /// Adds the row of an entry to a batch if it fulfils the filter.
    ///
    /// # Errors
    /// The entry is damaged, or a condition fails.
    #[inline]
    pub(super) fn read(&self, entry: &[u8], scope: &mut Scope<'_>, out: &mut Batch) -> Result<()> {
        let wanted = self.is_wanted && !out.counts_only();
        let row = out.push();
        let all = self.conditions.get();
        if !all.is_empty() && self.seen.is_time() {
            self.make_tests();
        }
        let Some(answered) = self.tests.answered(entry)? else {
            out.pop();
            return Ok(());
        };
        let conditions = &all[answered..];
        if conditions.is_empty() && !wanted {
            return Ok(());
        }
        self.entries.read(entry, row)?;
        for condition in conditions {
            if !condition.eval_condition(scope, row)? {
                out.pop();
                return Ok(());
            }
        }
        Ok(())
    }

    #[cold]
    fn make_tests(&self) {
        let find = |place: usize| {
            let column = *self.columns.get(place)?;
            let ty = self.table.columns.get(column)?.ty.ty;
            Some((InEntry::new(&self.table, &self.index, column)?, ty))
        };
        self.tests.make(self.conditions.get(), &find);
    }
}
