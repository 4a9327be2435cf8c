//! How many rows of a table fulfil conditions: by counts of ranges, by looking at some rows, and by
//! guesses.

use super::access::{Path, Wanted, cost_of_entry};
use super::{Planner, Sampled};
use crate::bind::rewrite;
use crate::expr::Expr;

/// What part of the rows a condition leaves that no key helps with.
const FILTER_SELECTIVITY: f64 = 0.3;
/// A sample that meets no matching row gives a guess. The true number is at most this many times the
/// guess, with one chance in twenty to be wrong.
const UNMET_AT_MOST: f64 = 6.0;

/// What conditions leave of the rows that a way finds.
struct Left {
    share: f64,
    /// None of the rows looked at fulfils them.
    none_met: bool,
}

/// How many conditions a condition counts as: alternatives that ask for several things each leave
/// less than one condition does.
pub(super) fn weight(condition: &Expr) -> usize {
    match condition {
        Expr::Or(any) => {
            let of = |part: &Expr| if let Expr::And(all) = part { all.len() } else { 1 };
            if any.iter().all(|part| of(part) > 2) { 2 } else { 1 }
        }
        _ => 1,
    }
}

/// The share of rows that a number of conditions leave, none of which a key helps with.
pub(super) fn left_by(conditions: usize) -> f64 {
    FILTER_SELECTIVITY.powi(conditions.min(3) as i32)
}

impl Planner<'_> {
    /// How many rows the ways to a table's rows lead to, which are the same for all. The one knows
    /// best that says the least; but where none of the rows looked at fulfils the conditions, that
    /// says only how many they are at most.
    pub(super) fn rows_of_all(&self, wanted: &Wanted<'_>, paths: &[Path]) -> f64 {
        let (mut known, mut guessed, mut at_most) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for path in paths {
            let left = self.share_left(wanted, path);
            let found = path.rows * left.share;
            guessed = found.min(guessed);
            if left.none_met {
                at_most = (found * UNMET_AT_MOST).min(at_most);
            } else {
                known = found.min(known);
            }
        }
        if known < f64::INFINITY { known.min(at_most) } else { guessed }.max(1.0)
    }

    /// Judges the rows that a way finds which skips columns by looking at some rows: what it asks of
    /// the columns behind them was guessed as if all values came up alike often.
    pub(super) fn judge_skipping(&self, wanted: &Wanted<'_>, path: &mut Path) {
        let by_ranges = self.sizes.rows_behind(wanted.table, path.index.as_ref(), &path.ranges);
        let Some(found) = by_ranges.or_else(|| self.sampled_of(wanted, path)) else { return };
        let found = found.max(0.5);
        let each = cost_of_entry(path.index.is_some(), path.covering);
        path.cost += (found - path.rows) * each;
        path.rows = found;
    }

    /// How many rows fulfil all that a path says, by looking at some.
    fn sampled_of(&self, wanted: &Wanted<'_>, path: &Path) -> Option<f64> {
        let (mut fulfil, mut rows) = (u128::MAX, 0);
        for &at in &path.counted {
            let sampled = self.sampled(wanted, &wanted.conditions[at])?;
            fulfil &= sampled.fulfil;
            rows = sampled.rows;
        }
        let of_all = self.sizes.rows(wanted.table) / f64::from(rows);
        match fulfil.count_ones() {
            _ if rows == 0 => None,
            0 => Some(path.rows.min(of_all / 2.0)),
            fulfil => Some(f64::from(fulfil) * of_all),
        }
    }

    /// What part of the rows that a way finds the other conditions leave: those that can be judged
    /// together by looking at some rows, and a guess for the rest.
    pub(super) fn left_of(&self, wanted: &Wanted<'_>, path: &Path) -> f64 {
        self.share_left(wanted, path).share
    }

    fn share_left(&self, wanted: &Wanted<'_>, path: &Path) -> Left {
        let (mut fulfil, mut rows, mut guessed) = (u128::MAX, 0, 0);
        for (at, condition) in wanted.conditions.iter().enumerate() {
            if path.counted.contains(&at) {
                continue;
            }
            match self.sampled(wanted, condition) {
                Some(sampled) => {
                    fulfil &= sampled.fulfil;
                    rows = sampled.rows;
                }
                None => guessed += weight(condition),
            }
        }
        let met = fulfil.count_ones();
        // Those of which no row was met are taken to be half as many as would have been met once.
        let judged = if rows == 0 { 1.0 } else { f64::from(met).max(0.5) / f64::from(rows) };
        Left { share: judged * left_by(guessed), none_met: rows > 0 && met == 0 }
    }

    fn sampled(&self, wanted: &Wanted<'_>, condition: &Expr) -> Option<Sampled> {
        let Wanted { table, base, .. } = *wanted;
        if !self.samples.get() || !rewrite::is_pure(condition) || rewrite::is_volatile(condition) {
            return None;
        }
        let (mut of_table, mut is_own) = (false, true);
        rewrite::for_each_column(condition, &mut |place| {
            let is_of_it = place.checked_sub(base).is_some_and(|column| column < table.columns.len());
            (of_table, is_own) = (of_table || is_of_it, is_own && is_of_it);
        });
        if !of_table || !is_own {
            return None;
        }
        let mut own = condition.clone();
        rewrite::map_columns(&mut own, &|place| place - base);
        self.sizes.sampled(table, &own)
    }
}
