//! Reading rows of a table a few columns at a time.
//!
//! A condition that most rows fail is looked at before the columns that only the others need are
//! read: of a row of twenty columns that fails a comparison of a date, the date is all that is
//! decoded.
//!
//! Invariants: conditions are looked at in their order, and a row is given up at the first one that
//! is not true, as in PostgreSQL. All columns of a row that is kept have been read.

use colibri_catalog::{Table, record::RowReader};
use colibri_types::Result;
use smallvec::SmallVec;

use super::operator::Beyond;
use super::{Batch, Scope};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::expr::walk;
use crate::fixed_parts::Conditions;

/// More stages cost more than they spare: the last one has all further conditions.
const STAGES_MAX: usize = 3;

/// Reads rows, and keeps those that fulfil a filter.
pub(super) struct FilteredRows {
    stages: SmallVec<[Stage; STAGES_MAX]>,
    /// The columns that no condition looks at.
    rest: RowReader,
    /// Rows that nobody wants although they fulfil the filter, and what reads the column that tells.
    beyond: Option<(RowReader, Beyond)>,
}

/// Columns, and what is asked of them and of those of the stages before.
struct Stage {
    columns: RowReader,
    conditions: Conditions,
}

impl FilteredRows {
    /// A reader of some columns of a table, for rows that fulfil a filter over these.
    pub(super) fn new(table: &Table, columns: &[usize], filter: Option<&Expr>) -> Self {
        let conditions = match filter {
            Some(Expr::And(all)) => &all[..],
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let mut is_read = vec![false; columns.len()];
        let mut stages: SmallVec<[Stage; STAGES_MAX]> = SmallVec::new();
        let mut conditions = conditions.iter().peekable();
        while let Some(first) = conditions.next() {
            let mut stage: SmallVec<[Expr; 2]> = SmallVec::from_iter([first.clone()]);
            let is_last = stages.len() + 1 == STAGES_MAX;
            let mut is_new = vec![false; columns.len()];
            mark(first, &is_read, &mut is_new);
            while let Some(next) = conditions.next_if(|next| is_last || !reads_more(next, &is_read, &is_new)) {
                mark(next, &is_read, &mut is_new);
                stage.push(next.clone());
            }
            is_read.iter_mut().zip(&is_new).for_each(|(is_read, is_new)| *is_read |= is_new);
            let columns = RowReader::of_places(table, columns, &|place| is_new[place]);
            stages.push(Stage { columns, conditions: Conditions::new(stage) });
        }
        Self { stages, rest: RowReader::of_places(table, columns, &|place| !is_read[place]), beyond: None }
    }

    /// Computes what is the same for all rows of a run.
    #[inline]
    pub(super) fn settle(&mut self, scope: &mut Scope<'_>) {
        self.stages.iter_mut().for_each(|stage| stage.conditions.settle(scope));
    }

    /// Another run begins.
    pub(super) fn reset(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.conditions.reset());
    }

    /// Whether it leaves out rows that fulfil the filter.
    pub(super) fn leaves_out(&self) -> bool {
        self.beyond.is_some()
    }

    /// Leaves out rows from now on; `None`: none any more.
    pub(super) fn leave_out(&mut self, table: &Table, columns: &[usize], beyond: Option<Beyond>) {
        let with_reader = |beyond: Beyond| {
            let own = beyond.key.place;
            (RowReader::of_places(table, columns, &|place| place == own), beyond)
        };
        self.beyond = beyond.map(with_reader);
    }

    /// Adds a row to a batch if it fulfils the filter. Where rows are only counted, what the filter
    /// does not look at is not read.
    ///
    /// # Errors
    /// The row is damaged, or a condition fails.
    #[inline]
    pub(super) fn read(&self, key: &[u8], value: &[u8], scope: &mut Scope<'_>, out: &mut Batch) -> Result<()> {
        let counts_only = out.counts_only();
        let row = out.push();
        for stage in &self.stages {
            stage.columns.read(key, value, row)?;
            for condition in stage.conditions.get() {
                if !condition.eval_condition(scope, row)? {
                    out.pop();
                    return Ok(());
                }
            }
        }
        if counts_only {
            return Ok(());
        }
        if let Some((reader, beyond)) = &self.beyond {
            reader.read(key, value, row)?;
            if beyond.has(&row[beyond.key.place]) {
                out.pop();
                return Ok(());
            }
        }
        self.rest.read(key, value, row)
    }
}

/// Marks the places that an expression looks at and that were not read before.
fn mark(expr: &Expr, is_read: &[bool], is_new: &mut [bool]) {
    walk::for_each_column(expr, &mut |place| {
        if !is_read[place] {
            is_new[place] = true;
        }
    });
}

/// Whether an expression looks at places that are neither read nor about to be.
fn reads_more(expr: &Expr, is_read: &[bool], is_new: &[bool]) -> bool {
    let mut more = false;
    walk::for_each_column(expr, &mut |place| more |= !is_read[place] && !is_new[place]);
    more
}
