//! Reading rows of a table a few columns at a time.
//!
//! A condition that most rows fail is looked at before the columns that only the others need are
//! read: of a row of twenty columns that fails a comparison of a date, the date is all that is
//! decoded. Where many rows are read, a condition that bytes can answer is looked at before anything
//! is decoded at all: see [`Tests`].
//!
//! Invariants: conditions are looked at in their order, and a row is given up at the first one that
//! is not true, as in PostgreSQL. All columns of a row that is kept have been read.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_catalog::record::{InRow, RowReader};
use colibri_types::{Datum, Result};
use smallvec::SmallVec;

use super::operator::Beyond;
use super::{Batch, Scope};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::expr::walk;
use crate::fixed_parts::Conditions;
use crate::in_place::{Seen, Tests, in_rows};

/// More stages cost more than they spare: the last one has all further conditions.
const STAGES_MAX: usize = 3;

/// Reads rows, and keeps those that fulfil a filter.
pub(super) struct FilteredRows {
    table: Arc<Table>,
    /// The columns of the rows.
    columns: Box<[usize]>,
    stages: SmallVec<[Stage; STAGES_MAX]>,
    seen: Seen,
    /// The columns that no condition looks at.
    rest: RowReader,
    /// Rows that nobody wants although they fulfil the filter, and what reads the columns that tell.
    beyond: Option<(RowReader, Beyond)>,
}

/// Columns, and what is asked of them and of those of the stages before.
struct Stage {
    columns: RowReader,
    conditions: Conditions,
    tests: Tests<InRow>,
    /// The places of its columns.
    places: SmallVec<[usize; 2]>,
    /// Conditions of later stages look at its columns too.
    is_read_again: bool,
    /// So does who reads the rows.
    is_wanted: bool,
}

impl Stage {
    /// Whether a row fulfils the stage's conditions; its columns are in the row then, if they are
    /// `wanted`.
    #[inline]
    fn holds(&self, key: &[u8], value: &[u8], wanted: bool, scope: &mut Scope<'_>, row: &mut [Datum]) -> Result<bool> {
        let Some(answered) = self.tests.answered(value)? else { return Ok(false) };
        let conditions = &self.conditions.get()[answered..];
        if conditions.is_empty() && !wanted {
            return Ok(true);
        }
        self.columns.read(key, value, row)?;
        for condition in conditions {
            if !condition.eval_condition(scope, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl FilteredRows {
    /// A reader of some columns of a table, for rows that fulfil a filter over these.
    pub(super) fn new(table: &Arc<Table>, columns: &[usize], filter: Option<&Expr>) -> Self {
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
            let is_read_again = conditions.clone().any(|later| {
                let mut is_read_again = false;
                walk::for_each_column(later, &mut |place| is_read_again |= is_new[place]);
                is_read_again
            });
            let conditions = Conditions::new(stage);
            let places = (0..is_new.len()).filter(|&place| is_new[place]).collect();
            let tests = Tests::none();
            stages.push(Stage { columns, conditions, tests, places, is_read_again, is_wanted: true });
        }
        let rest = RowReader::of_places(table, columns, &|place| !is_read[place]);
        Self { table: Arc::clone(table), columns: columns.into(), stages, seen: Seen::default(), rest, beyond: None }
    }

    /// Computes what is the same for all rows of a run.
    #[inline]
    pub(super) fn settle(&mut self, scope: &mut Scope<'_>) {
        self.stages.iter_mut().for_each(|stage| stage.conditions.settle(scope));
    }

    /// See [`super::operator::Operator::look_at`].
    pub(super) fn look_at(&mut self, places: &[usize]) {
        for stage in &mut self.stages {
            stage.is_wanted = stage.places.iter().any(|place| places.contains(place));
        }
    }

    /// Another run begins.
    pub(super) fn reset(&mut self) {
        for stage in &mut self.stages {
            stage.conditions.reset();
            stage.tests.forget();
        }
        self.seen.reset();
    }

    /// Whether it leaves out rows that fulfil the filter.
    pub(super) fn leaves_out(&self) -> bool {
        self.beyond.is_some()
    }

    /// Leaves out rows from now on; `None`: none any more.
    pub(super) fn leave_out(&mut self, table: &Table, columns: &[usize], beyond: Option<Beyond>) {
        let with_reader = |beyond: Beyond| {
            let is_key = |place| beyond.last.iter().any(|(key, _)| key.place == place);
            (RowReader::of_places(table, columns, &is_key), beyond)
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
        if !self.stages.is_empty() && self.seen.is_time() {
            self.make_tests();
        }
        for stage in &self.stages {
            let wanted = stage.is_wanted && !counts_only || stage.is_read_again;
            if !stage.holds(key, value, wanted, scope, row)? {
                out.pop();
                return Ok(());
            }
        }
        if counts_only {
            return Ok(());
        }
        if let Some((reader, beyond)) = &self.beyond {
            reader.read(key, value, row)?;
            if beyond.has(row) {
                out.pop();
                return Ok(());
            }
        }
        self.rest.read(key, value, row)
    }

    #[cold]
    fn make_tests(&self) {
        for stage in &self.stages {
            stage.tests.make(stage.conditions.get(), &in_rows(&self.table, &self.columns));
        }
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
