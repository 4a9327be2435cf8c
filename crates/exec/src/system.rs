//! System tables.
//!
//! Invariants: a statement sees one state of the catalogue, so rows that were found when it began
//! are right until its end. Which of them are looked up is found out anew after each rewind, as the
//! values may come from an outer row.

use std::sync::Arc;

use colibri_catalog::system_tables::{Fresh, MadeRows, SystemTable};
use colibri_types::{Datum, Result};

use super::operator::Operator;
use super::{Batch, Exec, Scope, Step};
use crate::eval::Evaluate as _;
use crate::plan::{KeyPart, SystemLookup, SystemValues};

/// A system table at work.
pub(super) struct SystemRun {
    table: &'static SystemTable,
    /// The columns that are given.
    columns: Arc<[usize]>,
    lookup: Option<Arc<SystemLookup>>,
    /// Some of the columns are filled in here.
    fresh: Option<Fresh>,
    /// A row with these.
    whole: Vec<Datum>,
    rows: Option<Arc<MadeRows>>,
    which: Which,
    /// How many of them were given.
    at: usize,
}

/// Which rows are read.
enum Which {
    NotAsked,
    All,
    These(Vec<u32>),
}

impl SystemRun {
    pub(super) fn new(table: &'static SystemTable, columns: &Arc<[usize]>, lookup: &Option<Arc<SystemLookup>>) -> Self {
        let is_given = |fresh: &Fresh| fresh.columns.iter().any(|column| columns.contains(column));
        Self {
            table,
            columns: Arc::clone(columns),
            lookup: lookup.clone(),
            fresh: table.fresh.filter(is_given),
            whole: Vec::new(),
            rows: None,
            which: Which::NotAsked,
            at: 0,
        }
    }
}

/// The rows that have the values looked for. Values that keys cannot be compared with have all rows
/// read.
fn looked_up(lookup: &SystemLookup, rows: &MadeRows, scope: &mut Scope<'_>) -> Result<Which> {
    let mut found = Vec::new();
    let mut scratch = Datum::Null;
    let mut all_known = true;
    let values = match &lookup.values {
        SystemValues::Are(values) => values,
        SystemValues::Start(kind, pattern) => {
            let pattern = match pattern.eval(scope, &[], &mut scratch)? {
                Datum::Text(pattern) => kind.prefix(pattern),
                Datum::Null => return Ok(Which::These(found)),
                _ => return Ok(Which::All),
            };
            if !rows.find_texts(lookup.key, &pattern, &mut found)? {
                return Ok(Which::All);
            }
            found.sort_unstable();
            return Ok(Which::These(found));
        }
    };
    match values {
        KeyPart::Eq(value) => all_known = rows.find(lookup.key, value.eval(scope, &[], &mut scratch)?, &mut found)?,
        KeyPart::In(list) => {
            for value in list {
                let mut scratch = Datum::Null;
                all_known &= rows.find(lookup.key, value.eval(scope, &[], &mut scratch)?, &mut found)?;
            }
        }
        KeyPart::AnyOf(array) => match array.eval(scope, &[], &mut scratch)? {
            Datum::Array(array) => {
                for value in array.values() {
                    all_known &= rows.find(lookup.key, value, &mut found)?;
                }
            }
            other => all_known = other.is_null(),
        },
        KeyPart::Null => all_known = false,
    }
    if !all_known {
        return Ok(Which::All);
    }
    if !matches!(values, KeyPart::Eq(_)) {
        // In the order of the table, each once.
        found.sort_unstable();
        found.dedup();
    }
    Ok(Which::These(found))
}

impl Operator for SystemRun {
    fn reset(&mut self) {
        (self.rows, self.which, self.at) = (None, Which::NotAsked, 0);
        self.whole = Vec::new();
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        (self.which, self.at) = (Which::NotAsked, 0);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        let rows = match &self.rows {
            Some(rows) => Arc::clone(rows),
            None => Arc::clone(self.rows.insert((self.table.find)(self.table, ex.cx.env)?)),
        };
        if matches!(self.which, Which::NotAsked) {
            self.which = match &self.lookup {
                None => Which::All,
                Some(lookup) => match looked_up(lookup, &rows, &mut ex.scope()) {
                    Ok(which) => which,
                    Err(error) => return ex.interrupted(error, out),
                },
            };
        }
        let count = match &self.which {
            Which::These(numbers) => numbers.len(),
            Which::NotAsked | Which::All => rows.len(),
        };
        out.reset(self.columns.len());
        while self.at < count && !out.is_full() {
            let kept = match &self.which {
                Which::These(numbers) => rows.row(numbers[self.at] as usize),
                Which::NotAsked | Which::All => rows.row(self.at),
            };
            let kept = match &self.fresh {
                None => kept,
                Some(fresh) => {
                    self.whole.clear();
                    self.whole.extend_from_slice(kept);
                    (fresh.fill)(ex.cx.env, kept, &mut self.whole)?;
                    &self.whole
                }
            };
            for (value, &column) in out.push().iter_mut().zip(self.columns.iter()) {
                value.clone_from(&kept[column]);
            }
            self.at += 1;
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}
