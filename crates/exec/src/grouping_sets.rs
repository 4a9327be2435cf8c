//! `GROUPING SETS`: each row once for each set of keys.
//!
//! ```text
//! GROUP BY ROLLUP (a, b)        row in: | a | b | … |        rows out: | a    | b    | … | 0 |
//!                                                                     | a    | NULL | … | 1 |
//!                                                                     | NULL | NULL | … | 2 |
//! ```
//! A key that is not in the set is NULL. The set's number comes last, and is a key of the groups
//! too: so a NULL of the data and one of a set never share a group.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};

/// Rows for each set of keys, at work.
pub(super) struct GroupingSetsRun {
    input: Run,
    /// For each set, which of the first columns are in it.
    sets: Arc<[Box<[bool]>]>,
    rows: Batch,
    /// The row at hand, and the next set that it is given for.
    at: usize,
    set: usize,
}

impl GroupingSetsRun {
    pub(super) fn new(mut input: Run, sets: &Arc<[Box<[bool]>]>) -> Self {
        input.forget_order();
        Self { input, sets: Arc::clone(sets), rows: Batch::new(), at: 0, set: 0 }
    }

    fn forget(&mut self) {
        self.rows.reset(0);
        (self.at, self.set) = (0, 0);
    }
}

impl Operator for GroupingSetsRun {
    fn reset(&mut self) {
        self.rows = std::mem::take(&mut self.rows).kept();
        (self.at, self.set) = (0, 0);
        self.input.reset();
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.input.rewind(ex);
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
            let width = self.rows.width();
            out.reset(width + 1);
            while self.at < self.rows.rows() && !out.is_full() {
                let row = self.rows.row(self.at);
                let set = &self.sets[self.set];
                let made = out.push();
                for (place, (made, value)) in made.iter_mut().zip(row).enumerate() {
                    if set.get(place).is_none_or(|&is_in_set| is_in_set) {
                        made.clone_from(value);
                    } else {
                        *made = Datum::Null;
                    }
                }
                made[width] = Datum::Int(self.set as i64);
                self.set += 1;
                if self.set == self.sets.len() {
                    (self.at, self.set) = (self.at + 1, 0);
                }
            }
            ex.spend(out.rows());
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
            self.at = 0;
            match self.input.step(ex, &mut self.rows)? {
                Step::Rows => {}
                other => {
                    self.rows.reset(width);
                    return Ok(other);
                }
            }
        }
    }
}
