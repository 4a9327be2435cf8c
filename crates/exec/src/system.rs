//! System tables.
//!
//! Invariants: a statement sees one state of the catalogue, so rows that were found when it began
//! are right until its end. Which of them are looked up is found out anew after each rewind, as the
//! values may come from an outer row.

use std::sync::Arc;

use colibri_catalog::system_tables::{Fresh, MadeRows, SystemTable, WantedRows};
use colibri_types::{Datum, Error, Result, prefix::Prefix};

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
    /// All rows, or those that a run wants.
    rows: Option<Arc<MadeRows>>,
    /// The values of the key that rows were made for, if they are not all.
    made_for: Vec<Datum>,
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
            made_for: Vec::new(),
            which: Which::NotAsked,
            at: 0,
        }
    }
}

impl SystemRun {
    /// Finds the rows, and out which of them this run reads.
    fn ask(&mut self, ex: &mut Exec<'_, '_>) -> Result<Which> {
        let sought = self.lookup.as_ref().map(|lookup| sought(lookup, &mut ex.scope())).transpose()?;
        // Runs for several rows outside often want the same ones.
        let is_another = |rows: &mut Arc<MadeRows>| {
            let same = matches!(&sought, Some(Sought::Values { firsts, .. }) if *firsts == self.made_for);
            !rows.is_whole() && !same
        };
        self.rows.take_if(is_another);
        let wanted = match (&self.lookup, &sought) {
            (Some(lookup), Some(Sought::Values { firsts, .. })) => Some(WantedRows { key: lookup.key, values: firsts }),
            _ => None,
        };
        let rows: &MadeRows = match &self.rows {
            Some(rows) => rows,
            None => {
                self.made_for = wanted.as_ref().map(|wanted| wanted.values.to_vec()).unwrap_or_default();
                self.rows.insert((self.table.find)(self.table, ex.cx.env, wanted)?)
            }
        };
        match (&self.lookup, &sought) {
            (Some(lookup), Some(sought)) => found(sought, lookup.key, rows),
            _ => Ok(Which::All),
        }
    }
}

/// What a lookup looks for, of this run.
enum Sought {
    Values {
        firsts: Vec<Datum>,
        seconds: Option<Vec<Datum>>,
    },
    Start(Prefix),
    /// Something that keys cannot be compared with.
    Unknown,
}

/// Adds the values of a part of a key; `false` if there are any that keys cannot be compared with.
fn add_values(part: &KeyPart, scope: &mut Scope<'_>, values: &mut Vec<Datum>) -> Result<bool> {
    match part {
        KeyPart::Eq(value) => values.push(value.eval_owned(scope, &[])?),
        KeyPart::In(list) => {
            for value in list {
                values.push(value.eval_owned(scope, &[])?);
            }
        }
        KeyPart::AnyOf(array) => match array.eval_owned(scope, &[])? {
            Datum::Array(array) => values.extend(array.values().iter().cloned()),
            Datum::Null => {}
            _ => return Ok(false),
        },
        KeyPart::Null => return Ok(false),
    }
    Ok(true)
}

fn sought(lookup: &SystemLookup, scope: &mut Scope<'_>) -> Result<Sought> {
    let mut firsts = Vec::new();
    let is_known = match &lookup.values {
        SystemValues::Are(part) => add_values(part, scope, &mut firsts)?,
        SystemValues::Start(kind, pattern) => {
            return Ok(match pattern.eval_owned(scope, &[])? {
                Datum::Text(pattern) => Sought::Start(kind.prefix(&pattern)),
                Datum::Null => Sought::Values { firsts, seconds: None },
                _ => Sought::Unknown,
            });
        }
    };
    if !is_known {
        return Ok(Sought::Unknown);
    }
    let Some(part) = &lookup.second else { return Ok(Sought::Values { firsts, seconds: None }) };
    let mut seconds = Vec::new();
    // All rows with the first values are found where the second ones cannot be compared with.
    let is_known = add_values(part, scope, &mut seconds)?;
    Ok(Sought::Values { firsts, seconds: is_known.then_some(seconds) })
}

/// The rows that have what is sought, in the order of the table, each once. All rows are read for
/// values that keys cannot be compared with.
fn found(sought: &Sought, key: usize, rows: &MadeRows) -> Result<Which> {
    let mut found = Vec::new();
    let mut is_known = true;
    match sought {
        Sought::Values { firsts, seconds } => {
            for first in firsts {
                match seconds {
                    None => is_known &= rows.find(key, first, None, &mut found)?,
                    Some(seconds) => {
                        for second in seconds {
                            is_known &= rows.find(key, first, Some(second), &mut found)?;
                        }
                    }
                }
            }
        }
        Sought::Start(prefix) => is_known = rows.find_texts(key, prefix, &mut found)?,
        Sought::Unknown => is_known = false,
    }
    if !is_known {
        return Ok(Which::All);
    }
    found.sort_unstable();
    found.dedup();
    Ok(Which::These(found))
}

impl Operator for SystemRun {
    fn reset(&mut self) {
        (self.rows, self.which, self.at) = (None, Which::NotAsked, 0);
        self.made_for = Vec::new();
        self.whole = Vec::new();
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        (self.which, self.at) = (Which::NotAsked, 0);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        if matches!(self.which, Which::NotAsked) {
            match self.ask(ex) {
                Ok(which) => self.which = which,
                Err(error) => return ex.interrupted(error, out),
            }
        }
        let Some(rows) = self.rows.clone() else { return Err(Error::internal("rows were asked for and not found")) };
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
