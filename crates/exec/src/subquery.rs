//! Queries inside expressions.
//!
//! One that takes nothing from the outer row is run once, when it is first needed; of `IN (SELECT
//! …)` the values are kept as a set then. One that depends on the outer row is run for each, unless
//! the same values were seen a short while ago.
//!
//! Invariants: a query is run to its end, or as far as the result depends on it, within one
//! evaluation; it polls on the way (see [`colibri_types::pulse`]). Where something has to be
//! fetched the evaluation ends without a result, and goes on there when the expression is evaluated
//! again with the same values. What a query gave that calls volatile functions is not used for
//! another row, unless it does not depend on the row at all. Values that are kept as a set go to
//! disk where memory has no room for them.

use std::sync::Arc;

use colibri_catalog::{store_error, store_error::Pause};
use colibri_types::{Array, Datum, Error, Result, SqlState, Type, operators, pulse};
use smallvec::SmallVec;

use super::eval::{compare_rows, compare_values};
use super::group::hash_values;
use super::memory::{Reservation, SessionMemory, Use};
use super::needs::Needs;
use super::operator::Run;
use super::seen_keys::SeenKeys;
use super::spill::KeptRows;
use super::{Batch, Scope, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::{CompareOp, Subquery, SubqueryKind};
use crate::plan::Fragment;

/// What comparing with a row of a set takes, in units of work.
const UNITS_PER_COMPARED: usize = 4;

/// How many outer rows' results are remembered at first, and at the most.
const REMEMBERED: usize = 64;
const REMEMBERED_MAX: usize = 64 * 1024;
/// What remembered results may take together.
const REMEMBERED_BYTES_MAX: usize = 4 << 20;

/// Values of an outer row that a query depends on.
type Args = SmallVec<[Datum; 4]>;

/// What is kept of a query between evaluations.
pub(super) struct Memo {
    run: Run,
    slots: Vec<Datum>,
    rows: Batch,
    once: Option<Once>,
    /// It reads the last round of a query that refers to itself, so that nothing it gave lasts.
    reads_working: bool,
    is_rememberable: bool,
    remembered: Remembered,
    /// For what is remembered.
    memory: Reservation,
    broken: Option<Broken>,
    /// It cannot go on where it is, but has to begin again.
    must_restart: bool,
}

/// What a query gave for outer rows, by the hash of what it depends on in these.
///
/// Rows outside that are alike have the query run once if there is room for them all, as if it were
/// joined with the different ones of them. So there is room for more as long as results are put in
/// each other's place.
struct Remembered {
    /// Empty if nothing may be remembered.
    places: Vec<Option<(Args, Datum)>>,
    /// How many results were put in another's place since there was room for more.
    replaced: usize,
    bytes: usize,
}

impl Remembered {
    fn new(is_allowed: bool) -> Self {
        Self { places: if is_allowed { vec![None; REMEMBERED] } else { Vec::new() }, replaced: 0, bytes: 0 }
    }

    /// Whether it is as [`Remembered::new`] has made it.
    fn is_empty(&self) -> bool {
        self.bytes == 0 && self.places.len() <= REMEMBERED
    }

    fn place(&self, values: &[Datum]) -> Option<usize> {
        let hash = (hash_values(values.iter()) >> 32) as usize;
        (!self.places.is_empty()).then(|| hash & (self.places.len() - 1))
    }

    fn find(&self, values: &[Datum]) -> Option<&Datum> {
        let (args, value) = self.places[self.place(values)?].as_ref()?;
        args.iter().zip(values).all(|(a, b)| a.is_identical(b)).then_some(value)
    }

    /// Remembers a result, for `bytes` more.
    fn put(&mut self, values: Args, value: &Datum) -> usize {
        let Some(place) = self.place(&values) else { return 0 };
        let of = |args: &[Datum], value: &Datum| row_bytes(args) + super::datum_bytes(value);
        let before = self.bytes;
        self.bytes += of(&values, value);
        if let Some((args, value)) = self.places[place].replace((values, value.clone())) {
            self.bytes -= of(&args, &value).min(self.bytes);
            self.replaced += 1;
        }
        if self.replaced > self.places.len() && self.places.len() < REMEMBERED_MAX && self.bytes < REMEMBERED_BYTES_MAX
        {
            self.grow();
        }
        self.bytes.saturating_sub(before)
    }

    fn grow(&mut self) {
        let places = std::mem::take(&mut self.places);
        self.places = vec![None; 2 * places.len()];
        self.replaced = 0;
        for (args, value) in places.into_iter().flatten() {
            if let Some(place) = self.place(&args) {
                self.places[place] = Some((args, value));
            }
        }
    }
}

/// What a query gave that does not depend on the outer row.
enum Once {
    Value(Datum),
    Set(Box<Set>),
}

/// The rows of a query that something is compared with, each once.
struct Set {
    rows: SeenKeys,
    /// Rows without NULLs, and rows with some; those that are gone through.
    whole: KeptRows,
    partial: KeptRows,
    has_whole: bool,
    has_partial: bool,
    use_of_rows: UseOfRows,
    /// Of the first column.
    extremes: Option<(Datum, Datum)>,
    /// For the row at hand.
    row: Vec<Datum>,
}

/// What is asked of the rows of a set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UseOfRows {
    /// Whether one is there.
    Keys,
    /// The least and the greatest one.
    Extremes,
    /// All of them, one after the other, if it is not enough to know whether one is there.
    All,
}

impl UseOfRows {
    fn of(width: usize, op: CompareOp, all: bool) -> Self {
        match (op, all) {
            (CompareOp::Eq, false) | (CompareOp::Ne, true) if width == 1 => Self::Keys,
            (CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge, _) if width == 1 => Self::Extremes,
            _ => Self::All,
        }
    }
}

impl Memo {
    pub(super) fn new(subquery: &Subquery, fragment: &Fragment, run: Run) -> Self {
        let needs = Needs::of(&fragment.root);
        let rememberable = !subquery.args.is_empty() && !needs.volatile && !needs.working;
        Self {
            run,
            slots: vec![Datum::Null; fragment.slots.max(subquery.args.len())],
            rows: Batch::new(),
            once: None,
            reads_working: needs.working,
            is_rememberable: rememberable,
            remembered: Remembered::new(rememberable),
            memory: Reservation::default(),
            broken: None,
            must_restart: false,
        }
    }

    /// As if the statement had not begun.
    pub(super) fn reset(&mut self) {
        self.run.reset();
        self.slots.fill(Datum::Null);
        self.rows = std::mem::take(&mut self.rows).kept();
        self.once = None;
        self.broken = None;
        self.must_restart = false;
        if !self.remembered.is_empty() {
            self.remembered = Remembered::new(self.is_rememberable);
        }
        self.memory.release();
    }

    fn restart(&mut self, scope: &mut Scope<'_>) -> Result<()> {
        let run = &mut self.run;
        self.must_restart = false;
        scope.outside(&mut self.slots, |ex| {
            run.rewind(ex);
            Ok(())
        })
    }

    /// The next rows, at most `wanted`; `false` if there are none.
    fn next(&mut self, wanted: usize, scope: &mut Scope<'_>) -> Result<bool> {
        let (run, rows, must_restart) = (&mut self.run, &mut self.rows, &mut self.must_restart);
        rows.want(wanted);
        scope.outside(&mut self.slots, |ex| {
            loop {
                let step = ex.seeing_old(|ex| run.step(ex, rows));
                let fetch = ex.take_fetch();
                match step {
                    Ok(Step::Rows) => return Ok(true),
                    Ok(Step::Done) => return Ok(false),
                    // Nothing can be put aside in the middle of an expression, but that something
                    // has to be fetched: the expression is evaluated again then.
                    Ok(Step::Yield) => match fetch {
                        Some(wait) => return Err(Error::interruption(Pause::Fetch(wait))),
                        None => ex.refill()?,
                    },
                    Err(error) => {
                        *must_restart = store_error::is_fetch(&error);
                        return Err(error);
                    }
                }
            }
        })
    }

    fn exists(&mut self, scope: &mut Scope<'_>) -> Result<Datum> {
        Ok(Datum::Bool(self.next(1, scope)?))
    }

    fn scalar(&mut self, so_far: &mut SoFar, scope: &mut Scope<'_>) -> Result<Datum> {
        while self.next(2, scope)? {
            so_far.seen += self.rows.rows();
            if so_far.seen > 1 {
                return Err(Error::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            if let Some(first) = self.rows.row_mut(0).first_mut() {
                so_far.value = std::mem::take(first);
            }
        }
        Ok(std::mem::take(&mut so_far.value))
    }

    /// All values of the first column.
    fn array(&mut self, element: Type, so_far: &mut SoFar, scope: &mut Scope<'_>) -> Result<Datum> {
        while self.next(super::batch::BATCH_ROWS_MAX, scope)? {
            for index in 0..self.rows.rows() {
                so_far.values.push(std::mem::take(&mut self.rows.row_mut(index)[0]));
            }
        }
        let values = std::mem::take(&mut so_far.values);
        Ok(Datum::Array(std::sync::Arc::new(Array::of_values(element, values)?)))
    }

    /// Compares with row after row, as far as it takes.
    fn quantified(
        &mut self,
        (left, op, all): (&[Datum], CompareOp, bool),
        so_far: &mut SoFar,
        scope: &mut Scope<'_>,
    ) -> Result<Datum> {
        let verdict = so_far.verdict.get_or_insert_with(|| Verdict::new(all));
        while self.next(super::batch::BATCH_ROWS_MAX, scope)? {
            for row in self.rows.iter() {
                if verdict.take(compare(op, left, &row[..left.len()])?) {
                    return Ok(verdict.datum());
                }
            }
        }
        Ok(verdict.datum())
    }

    /// The rows of a query.
    fn set(
        &mut self,
        width: usize,
        use_of_rows: UseOfRows,
        so_far: &mut SoFar,
        scope: &mut Scope<'_>,
    ) -> Result<Box<Set>> {
        let mut set = so_far.set.take().unwrap_or_else(|| Box::new(Set::new(width, use_of_rows)));
        loop {
            match self.next(super::batch::BATCH_ROWS_MAX, scope) {
                Ok(true) => {}
                Ok(false) => return Ok(set),
                Err(error) => {
                    so_far.set = Some(set);
                    return Err(error);
                }
            }
            let rows = &self.rows;
            scope.outside(&mut [], |ex| set.add(rows, ex.cx.memory))?;
        }
    }
}

/// What is known of a query that something has to be fetched for in the middle: it goes on when it
/// is evaluated with the same values again.
struct Broken {
    args: Args,
    so_far: SoFar,
}

/// What has come of a query's rows so far: as far as its kind needs it.
#[derive(Default)]
struct SoFar {
    /// Of a scalar: the value, and the number of rows.
    value: Datum,
    seen: usize,
    /// Of an array.
    values: Vec<Datum>,
    /// Of a comparison with row after row.
    verdict: Option<Verdict>,
    /// Of a comparison with all rows.
    set: Option<Box<Set>>,
}

/// Whether the rows seen so far make a quantified comparison true.
struct Verdict {
    all: bool,
    unknown: bool,
    decided: bool,
}

impl Verdict {
    fn new(all: bool) -> Self {
        Self { all, unknown: false, decided: false }
    }

    /// Takes one comparison in; `true` if the rest does not matter.
    fn take(&mut self, truth: Option<bool>) -> bool {
        match truth {
            Some(truth) => self.decided = truth != self.all,
            None => self.unknown = true,
        }
        self.decided
    }

    fn truth(&self) -> Option<bool> {
        if self.decided {
            Some(!self.all)
        } else if self.unknown {
            None
        } else {
            Some(self.all)
        }
    }

    fn datum(&self) -> Datum {
        self.truth().map_or(Datum::Null, Datum::Bool)
    }
}

fn compare(op: CompareOp, left: &[Datum], right: &[Datum]) -> Result<Option<bool>> {
    match (left, right) {
        ([left], [right]) => Ok(compare_values(op, left, right)),
        _ => compare_rows(op, left.iter().zip(right).map(Ok)),
    }
}

impl Set {
    fn new(width: usize, use_of_rows: UseOfRows) -> Self {
        Self {
            rows: SeenKeys::new(width),
            whole: KeptRows::default(),
            partial: KeptRows::default(),
            has_whole: false,
            has_partial: false,
            use_of_rows,
            extremes: None,
            row: vec![Datum::Null; width],
        }
    }

    fn width(&self) -> usize {
        self.row.len()
    }

    /// Adds the beginnings of some rows.
    fn add(&mut self, rows: &Batch, memory: &Arc<SessionMemory>) -> Result<()> {
        for row in rows.iter() {
            let row = &row[..self.width()];
            let is_whole = !row.iter().any(Datum::is_null);
            if self.use_of_rows == UseOfRows::Extremes {
                if is_whole {
                    self.widen(&row[0]);
                }
            } else if !self.rows.insert(row)? {
                continue;
            }
            self.has_whole |= is_whole;
            self.has_partial |= !is_whole;
            if self.use_of_rows == UseOfRows::All {
                let kept = if is_whole { &mut self.whole } else { &mut self.partial };
                kept.push_copy(memory, row)?;
            }
        }
        self.rows.heed_memory(memory)
    }

    fn usage(&self) -> Usage {
        let all = [self.rows.usage(), self.whole.usage(), self.partial.usage()];
        let disk_bytes = all.iter().map(|(on_disk, _)| on_disk).sum();
        let memory_bytes = all.iter().map(|(_, in_memory)| *in_memory as u64).sum();
        Usage::Set(Spilled { memory_bytes, disk_bytes, batches: 1 })
    }

    fn widen(&mut self, value: &Datum) {
        match &mut self.extremes {
            None => self.extremes = Some((value.clone(), value.clone())),
            Some((least, most)) => {
                if operators::compare(value, least).is_lt() {
                    *least = value.clone();
                } else if operators::compare(value, most).is_gt() {
                    *most = value.clone();
                }
            }
        }
    }

    fn verdict(&mut self, left: &[Datum], op: CompareOp, all: bool) -> Result<Option<bool>> {
        match (op, all) {
            (CompareOp::Eq, false) => self.has(left),
            (CompareOp::Ne, true) => Ok(self.has(left)?.map(|has| !has)),
            _ if self.use_of_rows == UseOfRows::Extremes => {
                let mut verdict = Verdict::new(all);
                if let Some((least, most)) = &self.extremes {
                    let below = matches!(op, CompareOp::Lt | CompareOp::Le);
                    let bound = if below == all { least } else { most };
                    verdict.take(compare_values(op, &left[0], bound));
                }
                if !verdict.decided && self.has_partial {
                    verdict.take(None);
                }
                Ok(verdict.truth())
            }
            _ => {
                let mut verdict = Verdict::new(all);
                let Self { whole, partial, row, .. } = self;
                go_through(whole, row, (left, op), false, &mut verdict)?;
                go_through(partial, row, (left, op), false, &mut verdict)?;
                Ok(verdict.truth())
            }
        }
    }

    /// Whether a row equal to `left` is there.
    fn has(&mut self, left: &[Datum]) -> Result<Option<bool>> {
        let nulls = left.iter().any(Datum::is_null);
        if !nulls && self.rows.contains(left)? {
            return Ok(Some(true));
        }
        if self.width() == 1 {
            let unknown = self.has_partial || nulls && self.has_whole;
            return Ok(if unknown { None } else { Some(false) });
        }
        // None is equal to it. Of those with a NULL on one side it may not be known.
        let mut verdict = Verdict::new(false);
        let Self { whole, partial, row, .. } = self;
        go_through(partial, row, (left, CompareOp::Eq), true, &mut verdict)?;
        if nulls {
            go_through(whole, row, (left, CompareOp::Eq), true, &mut verdict)?;
        }
        Ok(verdict.truth())
    }
}

/// Compares with kept rows, each of which is read into `row`, until the rest does not matter.
fn go_through(
    rows: &mut KeptRows,
    row: &mut [Datum],
    (left, op): (&[Datum], CompareOp),
    is_known_unequal: bool,
    verdict: &mut Verdict,
) -> Result<()> {
    for at in 0..rows.len() {
        // What cannot be true stays unknown.
        if verdict.decided || is_known_unequal && verdict.unknown {
            break;
        }
        pulse::work(UNITS_PER_COMPARED)?;
        rows.read(at, row, false)?;
        verdict.take(compare(op, left, row)?);
    }
    Ok(())
}

/// The value of a query inside an expression.
#[inline(never)]
pub(super) fn evaluate(subquery: &Subquery, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    let mut values = Args::new();
    for arg in &subquery.args {
        values.push(arg.eval_owned(scope, row)?);
    }
    if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
        for expr in left {
            values.push(expr.eval_owned(scope, row)?);
        }
    }
    // Taken out while it runs, so that queries inside it find theirs.
    let Some(mut memo) = scope.statement()?.subqueries.get_mut(subquery.id).and_then(Option::take) else {
        return Err(Error::internal("a query inside an expression was not lowered"));
    };
    let value = if subquery.args.is_empty() && !memo.reads_working {
        evaluate_once(subquery, &mut memo, &values, scope)
    } else {
        evaluate_anew(subquery, &mut memo, values, scope)
    };
    scope.statement()?.subqueries[subquery.id] = Some(memo);
    value
}

/// What was known of the query when it was last evaluated, with the same values, and had to fetch;
/// nothing else if it begins now. It is about to go on there.
fn take_up(memo: &mut Memo, args: &[Datum], scope: &mut Scope<'_>) -> Result<Option<SoFar>> {
    let broken = memo.broken.take().filter(|broken| {
        // Rows of a query that refers to itself may be others by now.
        let is_same = broken.args.len() == args.len() && broken.args.iter().zip(args).all(|(a, b)| a.is_identical(b));
        is_same && !memo.must_restart && !memo.reads_working
    });
    if memo.must_restart {
        memo.restart(scope)?;
    }
    Ok(broken.map(|broken| broken.so_far))
}

/// Keeps what is known of a query that has to fetch.
fn put_aside<T>(memo: &mut Memo, args: &[Datum], so_far: SoFar, value: Result<T>) -> Result<T> {
    if let Err(error) = &value
        && store_error::is_fetch(error)
    {
        memo.broken = Some(Broken { args: args.iter().cloned().collect(), so_far });
    }
    value
}

fn evaluate_once(subquery: &Subquery, memo: &mut Memo, left: &[Datum], scope: &mut Scope<'_>) -> Result<Datum> {
    let once = match memo.once.take() {
        Some(once) => once,
        None => {
            // Its rows do not depend on what they are compared with.
            let mut so_far = take_up(memo, &[], scope)?.unwrap_or_default();
            let once = match &subquery.kind {
                SubqueryKind::Exists => memo.exists(scope).map(Once::Value),
                SubqueryKind::Scalar => memo.scalar(&mut so_far, scope).map(Once::Value),
                SubqueryKind::Array(element) => memo.array(*element, &mut so_far, scope).map(Once::Value),
                SubqueryKind::Quantified { left, op, all } => {
                    let use_of_rows = UseOfRows::of(left.len(), *op, *all);
                    memo.set(left.len(), use_of_rows, &mut so_far, scope).map(Once::Set)
                }
            };
            let once = put_aside(memo, &[], so_far, once)?;
            let run = &mut memo.run;
            scope.outside(&mut [], |ex| {
                if let Once::Set(set) = &once {
                    run.note_set(|| set.usage(), ex);
                }
                run.give_back(ex);
                Ok(())
            })?;
            once
        }
    };
    match (memo.once.insert(once), &subquery.kind) {
        (Once::Value(value), _) => Ok(value.clone()),
        (Once::Set(set), SubqueryKind::Quantified { op, all, .. }) => {
            Ok(set.verdict(left, *op, *all)?.map_or(Datum::Null, Datum::Bool))
        }
        (Once::Set(_), _) => Err(Error::internal("a set of rows where one value was expected")),
    }
}

fn evaluate_anew(subquery: &Subquery, memo: &mut Memo, values: Args, scope: &mut Scope<'_>) -> Result<Datum> {
    if let Some(value) = memo.remembered.find(&values) {
        return Ok(value.clone());
    }
    let (args, left) = values.split_at(subquery.args.len());
    let mut so_far = match take_up(memo, &values, scope)? {
        Some(so_far) => so_far,
        None => {
            memo.slots[..args.len()].clone_from_slice(args);
            memo.restart(scope)?;
            SoFar::default()
        }
    };
    let value = match &subquery.kind {
        SubqueryKind::Exists => memo.exists(scope),
        SubqueryKind::Scalar => memo.scalar(&mut so_far, scope),
        SubqueryKind::Array(element) => memo.array(*element, &mut so_far, scope),
        SubqueryKind::Quantified { op, all, .. } => memo.quantified((left, *op, *all), &mut so_far, scope),
    };
    let value = put_aside(memo, &values, so_far, value)?;
    let bytes = memo.remembered.put(values, &value);
    if bytes > 0 {
        let Memo { remembered, memory, .. } = &mut *memo;
        let has_room = scope.outside(&mut [], |ex| Ok(memory.hold(ex.cx.memory, remembered.bytes, Use::Rows)))?;
        if !has_room {
            *remembered = Remembered::new(false);
            memory.release();
        }
    }
    Ok(value)
}
