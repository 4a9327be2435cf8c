//! What part of a table's rows fulfils a condition, found out on some of them.
//!
//! The rows are evenly spread over the table, and read once for a plan. So a condition that no
//! index knows about is judged by what it says, whatever it is, together with the others on the
//! table.

use std::cell::RefCell;
use std::rc::Rc;

use colibri_catalog::Table;
use colibri_catalog::record::RowReader;
use colibri_catalog::{store_error, store_error::InSql as _};
use colibri_txn::Transaction;
use colibri_types::{Datum, Env, operators};

use crate::bind::rewrite;
use crate::exec::{Evaluate as _, Scope};
use crate::expr::Expr;
use crate::planner::Sampled;

/// How many rows are looked at: one for each bit of [`Sampled::fulfil`].
const ROWS: usize = 128;
/// Longer rows are not looked at.
const ROW_BYTES_MAX: usize = 16 << 10;
/// Fewer rows say little of a larger table.
const ROWS_MIN: usize = 32;

type Rows = Rc<Vec<Vec<Datum>>>;

/// What was looked at for a plan.
#[derive(Default)]
pub(super) struct Samples {
    rows: RefCell<Vec<(u32, Option<Rows>)>>,
    known: RefCell<Vec<(u32, Expr, Option<Sampled>)>>,
}

impl Samples {
    /// Which of the rows fulfil a condition over the table's columns; `None` if that is not known.
    /// All of a small table's rows are looked at.
    pub(super) fn of(
        &self,
        txn: &dyn Transaction,
        env: &Env,
        params: &[Datum],
        table: &Table,
        table_rows: f64,
        condition: &Expr,
    ) -> Option<Sampled> {
        let is_known = |(id, known, _): &&(u32, Expr, _)| *id == table.id && rewrite::same(known, condition);
        if let Some((_, _, sampled)) = self.known.borrow().iter().find(is_known) {
            return *sampled;
        }
        let sampled = self.rows(txn, table, table_rows).and_then(|rows| judge(&rows, env, params, condition));
        self.known.borrow_mut().push((table.id, condition.clone(), sampled));
        sampled
    }

    /// Which of the rows have the same value of an expression as one of them has, which as many
    /// rows share as is usual: what an equality with an unknown value leaves.
    pub(super) fn alike(
        &self,
        txn: &dyn Transaction,
        env: &Env,
        table: &Table,
        table_rows: f64,
        own: &Expr,
    ) -> Option<Sampled> {
        let rows = self.rows(txn, table, table_rows)?;
        let mut scope = Scope::pure(env, &[], &[]);
        let mut values: Vec<(Datum, usize)> = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let value = own.eval_owned(&mut scope, row).ok()?;
            if !value.is_null() {
                values.push((value, at));
            }
        }
        values.sort_by(|(a, _), (b, _)| operators::compare(a, b));
        let runs: Vec<&[(Datum, usize)]> = values.chunk_by(|(a, _), (b, _)| operators::equal(a, b)).collect();
        let usual = runs.iter().map(|run| run.len() * run.len()).sum::<usize>() as f64 / values.len().max(1) as f64;
        let distance = |run: &[(Datum, usize)]| (run.len() as f64 - usual).abs();
        let run = runs.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(&[]);
        // Of a part of the table it says what other rows share the value of a row.
        let itself = usize::from((rows.len() as f64) < table_rows);
        let fulfil = run.iter().skip(itself).fold(0, |fulfil, (_, at)| fulfil | 1 << at);
        Some(Sampled { fulfil, rows: rows.len() as u32 })
    }

    fn rows(&self, txn: &dyn Transaction, table: &Table, table_rows: f64) -> Option<Rows> {
        if let Some((_, rows)) = self.rows.borrow().iter().find(|(id, _)| *id == table.id) {
            return rows.clone();
        }
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        let reader = RowReader::new(table, &columns);
        let mut rows = Vec::new();
        let mut take = |key: &[u8], value: &[u8]| {
            let mut row = vec![Datum::Null; columns.len()];
            if table.layout().expanded_bytes(value) <= ROW_BYTES_MAX && reader.read(key, value, &mut row).is_ok() {
                rows.push(row);
            }
        };
        // A store fetches before it shows the first row.
        let looked = store_error::fetched_now(|| txn.sample(&table.space(), ROWS, &mut take).in_sql());
        let says_enough = rows.len() >= ROWS_MIN || !rows.is_empty() && rows.len() as f64 >= table_rows;
        let rows = (looked.is_ok() && says_enough).then(|| Rc::new(rows));
        self.rows.borrow_mut().push((table.id, rows.clone()));
        rows
    }
}

/// A condition that fails on a row is not judged.
fn judge(rows: &[Vec<Datum>], env: &Env, params: &[Datum], condition: &Expr) -> Option<Sampled> {
    let mut scope = Scope::pure(env, params, &[]);
    let mut fulfil = 0;
    for (at, row) in rows.iter().enumerate() {
        fulfil |= u128::from(condition.eval_condition(&mut scope, row).ok()?) << at;
    }
    Some(Sampled { fulfil, rows: rows.len() as u32 })
}
