//! Conditions that are looked at in the bytes of a row: no values are made for them.
//!
//! ```text
//! city <> 'Berlin' AND name LIKE '%ab%'      columns of the row's value, and constants: in place
//! length(city) = 3                           anything else is evaluated
//! ```
//! A condition becomes a [`Test`] if it compares columns with constants and every comparison is one
//! that bytes can answer. A test says whether its condition is true: in a filter false and NULL are
//! the same.
//!
//! Invariants: a test answers as evaluating the condition would, or does not answer at all; then the
//! condition is evaluated. Conditions that may fail have no test.

use std::cell::{Cell, OnceCell};

use colibri_catalog::Table;
use colibri_catalog::record::{InEntry, InRow};
use colibri_catalog::row::Peeked;
use colibri_types::like::Pattern;
use colibri_types::{Datum, Numeric, Result, Type, cast};

use crate::expr::{CompareOp, Expr};

/// Lists of IN up to this length are gone through value by value.
const LIST_MAX: usize = 16;
/// Texts up to this length are folded to one case in place.
const FOLDED_BYTES_MAX: usize = 256;

/// Rows of a run that are evaluated before tests are made of conditions: few rows cost less than
/// the tests do. Tests have them from the second row on.
const ROWS_BEFORE_TESTS: u32 = if cfg!(test) { 1 } else { 64 };

/// Counts the rows of a run until tests pay.
#[derive(Default)]
pub(super) struct Seen(Cell<u32>);

impl Seen {
    /// Whether the row at hand is the one from which on tests pay.
    #[inline]
    pub(super) fn is_time(&self) -> bool {
        let seen = self.0.get();
        if seen < ROWS_BEFORE_TESTS {
            self.0.set(seen + 1);
        }
        seen + 1 == ROWS_BEFORE_TESTS
    }

    /// Another run begins.
    pub(super) fn reset(&self) {
        self.0.set(0);
    }
}

/// Tests of the first conditions of a list, as many as have one in a row; none before they are made.
pub(super) struct Tests<C>(OnceCell<Box<[Test<C>]>>);

impl<C: Peek> Tests<C> {
    pub(super) fn none() -> Self {
        Self(OnceCell::new())
    }

    /// Makes them. `find` is where a place of the row is in the bytes.
    pub(super) fn make(&self, conditions: &[Expr], find: &Find<'_, C>) {
        self.0.get_or_init(|| conditions.iter().map_while(|one| Test::new(one, find)).collect());
    }

    /// Another run begins, with other constants.
    pub(super) fn forget(&mut self) {
        self.0.take();
    }

    /// How many of the conditions are true by their tests, one after the other; `None` if one is not.
    ///
    /// # Errors
    /// As [`Test::holds`].
    #[inline]
    pub(super) fn answered(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let tests = self.0.get().map_or(&[][..], |tests| tests);
        let mut answered = 0;
        for test in tests {
            match test.holds(bytes)? {
                Some(true) => answered += 1,
                Some(false) => return Ok(None),
                None => break,
            }
        }
        Ok(Some(answered))
    }
}

/// A column that is looked at in place.
pub(super) trait Peek {
    /// Its value; `None`: the bytes do not tell.
    ///
    /// # Errors
    /// The bytes are damaged.
    fn peek<'b>(&self, bytes: &'b [u8]) -> Result<Option<Peeked<'b>>>;
}

impl Peek for InRow {
    #[inline]
    fn peek<'b>(&self, bytes: &'b [u8]) -> Result<Option<Peeked<'b>>> {
        self.peek(bytes)
    }
}

impl Peek for InEntry {
    #[inline]
    fn peek<'b>(&self, bytes: &'b [u8]) -> Result<Option<Peeked<'b>>> {
        self.peek(bytes)
    }
}

/// The column in a place of a row, and its type.
pub(super) type Find<'f, C> = dyn Fn(usize) -> Option<(C, Type)> + 'f;

/// Where the columns of a table's rows are, by their places.
pub(super) fn in_rows<'f>(table: &'f Table, columns: &'f [usize]) -> impl Fn(usize) -> Option<(InRow, Type)> + 'f {
    |place| {
        let column = *columns.get(place)?;
        Some((InRow::new(table, column)?, table.columns.get(column)?.ty.ty))
    }
}

/// A condition that is looked at in the bytes of a row, or of an entry.
pub(super) enum Test<C> {
    Of(C, Is),
    All(Box<[Self]>),
    Any(Box<[Self]>),
}

/// What is asked of a column.
pub(super) enum Is {
    Null,
    NotNull,
    Bool(bool),
    Int(CompareOp, i64),
    IntIn(Box<[i64]>, bool),
    Numeric(CompareOp, Numeric),
    Bytes(CompareOp, Box<[u8]>),
    BytesIn(Box<[Box<[u8]>]>, bool),
    Like { case: Case, pattern: Box<Pattern>, negated: bool },
}

/// What letters become before a pattern is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Kept,
    Lower,
    Upper,
}

impl<C: Peek> Test<C> {
    /// The test of a condition.
    pub(super) fn new(condition: &Expr, find: &Find<'_, C>) -> Option<Self> {
        let all =
            |conditions: &[Expr]| conditions.iter().map(|one| Self::new(one, find)).collect::<Option<Box<[Self]>>>();
        let of = |input: &Expr, is: &dyn Fn(Type) -> Option<Is>| {
            let Expr::Column(place) = without_casts(input) else { return None };
            let (column, ty) = find(*place)?;
            Some(Self::Of(column, is(ty)?))
        };
        match condition {
            Expr::And(conditions) => Some(Self::All(all(conditions)?)),
            Expr::Or(conditions) => Some(Self::Any(all(conditions)?)),
            Expr::Column(_) => of(condition, &|_| Some(Is::Bool(true))),
            Expr::Not(input) if matches!(**input, Expr::Column(_)) => of(input, &|_| Some(Is::Bool(false))),
            Expr::IsBool { input, value: Some(value), negated: false } => of(input, &|_| Some(Is::Bool(*value))),
            Expr::IsNull { input, negated } => of(input, &|_| Some(if *negated { Is::NotNull } else { Is::Null })),
            Expr::Compare { op, left, right } => match (&**left, &**right) {
                (column, Expr::Const(value)) => of(column, &|ty| compared(*op, ty, value)),
                (Expr::Const(value), column) => of(column, &|ty| compared(op.flipped(), ty, value)),
                _ => None,
            },
            Expr::Distinct { left, right, negated } => {
                let (column, value) = match (&**left, &**right) {
                    (column, Expr::Const(value)) | (Expr::Const(value), column) if !value.is_null() => (column, value),
                    _ => return None,
                };
                if *negated {
                    return of(column, &|ty| compared(CompareOp::Eq, ty, value));
                }
                let other = of(column, &|ty| compared(CompareOp::Ne, ty, value))?;
                Some(Self::Any(Box::new([of(column, &|_| Some(Is::Null))?, other])))
            }
            Expr::InList { input, list, negated, .. } if list.len() <= LIST_MAX => {
                of(input, &|ty| one_of(ty, list, *negated))
            }
            Expr::Call { function, args } => {
                let (folds, negated) = match function.name {
                    "~~" | "like" => (false, false),
                    "!~~" | "notlike" => (false, true),
                    "~~*" => (true, false),
                    "!~~*" => (true, true),
                    _ => return None,
                };
                let [input, Expr::Const(Datum::Text(pattern))] = &args[..] else { return None };
                let (input, case) = match without_casts(input) {
                    Expr::Call { function, args } if args.len() == 1 && !folds => match function.name {
                        "lower" => (&args[0], Case::Lower),
                        "upper" => (&args[0], Case::Upper),
                        _ => return None,
                    },
                    input if folds => (input, Case::Lower),
                    input => (input, Case::Kept),
                };
                let pattern = match folds {
                    true if pattern.is_ascii() => Pattern::new(&pattern.to_ascii_lowercase()),
                    true => return None,
                    false => Pattern::new(pattern),
                };
                of(input, &|ty| {
                    (is_text(ty) && pattern.is_sound()).then(|| Is::Like {
                        case,
                        pattern: Box::new(pattern.clone()),
                        negated,
                    })
                })
            }
            _ => None,
        }
    }

    /// Whether the condition is true, given the bytes; `None`: these do not tell.
    ///
    /// # Errors
    /// The bytes are damaged, or the statement was cancelled.
    #[inline]
    pub(super) fn holds(&self, bytes: &[u8]) -> Result<Option<bool>> {
        match self {
            Self::Of(column, is) => match column.peek(bytes)? {
                Some(peeked) => is.true_of(peeked),
                None => Ok(None),
            },
            Self::All(tests) => each(tests, bytes, false),
            Self::Any(tests) => each(tests, bytes, true),
        }
    }
}

/// Asks one test after the other until one gives `decisive`.
fn each<C: Peek>(tests: &[Test<C>], bytes: &[u8], decisive: bool) -> Result<Option<bool>> {
    for test in tests {
        match test.holds(bytes)? {
            Some(holds) if holds != decisive => {}
            told => return Ok(told),
        }
    }
    Ok(Some(!decisive))
}

impl Is {
    #[inline]
    fn true_of(&self, value: Peeked<'_>) -> Result<Option<bool>> {
        let negated_unless_null = |found: bool, negated: bool| Ok(Some(found != negated));
        match (self, value) {
            (Self::Null, value) => Ok(Some(matches!(value, Peeked::Null))),
            (Self::NotNull, value) => Ok(Some(!matches!(value, Peeked::Null))),
            (_, Peeked::Null) => Ok(Some(false)),
            (Self::Bool(wanted), Peeked::Bool(value)) => Ok(Some(value == *wanted)),
            (Self::Int(op, with), Peeked::Int(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::IntIn(list, negated), Peeked::Int(value)) => negated_unless_null(list.contains(&value), *negated),
            (Self::Numeric(op, with), Peeked::Numeric(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::Bytes(CompareOp::Eq, with), Peeked::Bytes(value)) => Ok(Some(*value == **with)),
            (Self::Bytes(CompareOp::Ne, with), Peeked::Bytes(value)) => Ok(Some(*value != **with)),
            (Self::Bytes(op, with), Peeked::Bytes(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::BytesIn(list, negated), Peeked::Bytes(value)) => {
                negated_unless_null(list.iter().any(|one| **one == *value), *negated)
            }
            (Self::Like { case: Case::Kept, pattern, negated }, Peeked::Bytes(value)) => {
                Ok(Some(pattern.matches(value)? != *negated))
            }
            (Self::Like { case, pattern, negated }, Peeked::Bytes(value)) => {
                let mut folded = [0; FOLDED_BYTES_MAX];
                let Some(folded) = folded.get_mut(..value.len()).filter(|_| value.is_ascii()) else { return Ok(None) };
                folded.copy_from_slice(value);
                match case {
                    Case::Upper => folded.make_ascii_uppercase(),
                    _ => folded.make_ascii_lowercase(),
                }
                Ok(Some(pattern.matches(folded)? != *negated))
            }
            _ => Ok(None),
        }
    }
}

/// What a comparison with a constant asks.
fn compared(op: CompareOp, ty: Type, with: &Datum) -> Option<Is> {
    match with {
        Datum::Numeric(with) if ty == Type::Numeric => Some(Is::Numeric(op, with.clone())),
        Datum::Bool(with) if ty == Type::Bool => match op {
            CompareOp::Eq => Some(Is::Bool(*with)),
            CompareOp::Ne => Some(Is::Bool(!*with)),
            _ => None,
        },
        _ => match (integer(ty, with), bytes(ty, with)) {
            (Some(with), _) => Some(Is::Int(op, with)),
            (_, Some(with)) => Some(Is::Bytes(op, with.into())),
            _ => None,
        },
    }
}

/// What `IN` asks. A NULL in the list makes NULL of what would be false.
fn one_of(ty: Type, list: &[Expr], negated: bool) -> Option<Is> {
    let values = list.iter().map(|one| match one {
        Expr::Const(value) => Some(value),
        _ => None,
    });
    let values: Vec<&Datum> = values.collect::<Option<_>>()?;
    if negated && values.iter().any(|value| value.is_null()) {
        return None;
    }
    let values = || values.iter().filter(|value| !value.is_null());
    if let Some(list) = values().map(|value| integer(ty, value)).collect::<Option<_>>() {
        return Some(Is::IntIn(list, negated));
    }
    let list = values().map(|value| bytes(ty, value).map(Box::from)).collect::<Option<_>>()?;
    Some(Is::BytesIn(list, negated))
}

/// A constant as [`Peeked::Int`] has a column's values.
fn integer(ty: Type, value: &Datum) -> Option<i64> {
    match (ty, value) {
        (Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid, Datum::Int(value))
        | (Type::Time, Datum::Time(value))
        | (Type::Timestamp | Type::TimestampTz, Datum::Timestamp(value)) => Some(*value),
        (Type::Date, Datum::Date(value)) => Some(i64::from(*value)),
        _ => None,
    }
}

/// A constant as [`Peeked::Bytes`] has a column's values.
fn bytes(ty: Type, value: &Datum) -> Option<&[u8]> {
    match (ty, value) {
        (Type::Uuid, Datum::Uuid(value)) => Some(value),
        (Type::Bytea, Datum::Bytes(value)) => Some(value),
        (_, Datum::Text(value)) if is_text(ty) => Some(value.as_bytes()),
        _ => None,
    }
}

fn is_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar | Type::Char | Type::Name)
}

/// What stands inside casts that leave every value as it is.
fn without_casts(mut expr: &Expr) -> &Expr {
    while let Expr::Cast { input, from, to, .. } = expr
        && cast::keeps_values(*from, to.ty, to.modifier)
    {
        expr = input;
    }
    expr
}

#[cfg(test)]
mod tests {
    use colibri_catalog::record;
    use colibri_catalog::row::Compression;
    use colibri_types::cast::CastContext;
    use colibri_types::functions::ON_VALUES;
    use colibri_types::{ColumnType, Env};

    use super::*;
    use crate::Scope;
    use crate::eval::Evaluate as _;
    use crate::expr::ListId;
    use crate::test_bed;

    const TYPES: [Type; 12] = [
        Type::Int8, // the key
        Type::Int4,
        Type::Int2,
        Type::Text,
        Type::Varchar,
        Type::Bool,
        Type::Numeric,
        Type::Timestamp,
        Type::Date,
        Type::Uuid,
        Type::Bytea,
        Type::Float8,
    ];

    fn table() -> Table {
        let mut table = test_bed::table(1, "t", TYPES.len(), 1);
        for (column, ty) in table.columns.iter_mut().zip(TYPES) {
            column.ty = ty.into();
        }
        table.generations.clear();
        table.compression = Some(Compression::Lz4);
        table.renew_generation();
        table
    }

    fn value(random: &mut fastrand::Rng, ty: Type) -> Datum {
        let small = random.i64(-2..3);
        match ty {
            Type::Int2 | Type::Int4 | Type::Int8 => Datum::Int(small),
            // Long enough to be compressed in the row, and short enough for an index.
            Type::Text if random.u8(0..8) == 0 => Datum::text(&"ab".repeat(300)),
            Type::Text | Type::Varchar => {
                Datum::text(&some_text(random, &["a", "b", "A", "\u{e9}", "%", "_", "\u{1}"], 4))
            }
            Type::Bool => Datum::Bool(random.bool()),
            Type::Numeric => {
                Datum::Numeric(Numeric::parse(random.choice(["1", "1.0", "-1", "0.5", "20"]).unwrap()).unwrap())
            }
            Type::Timestamp => Datum::Timestamp(small),
            Type::Date => Datum::Date(small as i32),
            Type::Uuid => Datum::Uuid([random.u8(0..2); 16]),
            Type::Bytea => Datum::Bytes((0..random.u8(0..3)).collect()),
            _ => Datum::Float(small as f64),
        }
    }

    fn some_text(random: &mut fastrand::Rng, of: &[&str], length_max: usize) -> String {
        (0..random.usize(0..=length_max)).map(|_| *random.choice(of).unwrap()).collect()
    }

    fn constant(random: &mut fastrand::Rng, ty: Type) -> Expr {
        Expr::Const(if random.u8(0..8) == 0 { Datum::Null } else { value(random, ty) })
    }

    fn condition(random: &mut fastrand::Rng, depth: usize) -> Expr {
        let place = random.usize(0..TYPES.len());
        let ty = TYPES[place];
        let column = Expr::Column(place);
        let as_text = |input: Expr| {
            let to = ColumnType::from(Type::Text);
            Expr::Cast { input: Box::new(input), from: Type::Varchar, to, context: CastContext::Implicit }
        };
        let column = if ty == Type::Varchar { as_text(column) } else { column };
        match random.u8(0..if depth == 0 { 7 } else { 9 }) {
            0 => Expr::IsNull { input: Box::new(column), negated: random.bool() },
            1 if ty == Type::Bool => column,
            1 => Expr::Not(Box::new(Expr::Column(5))),
            2 => {
                let list = (0..random.usize(1..4)).map(|_| constant(random, ty)).collect();
                Expr::InList { input: Box::new(column), list, negated: random.bool(), id: ListId::new() }
            }
            3 => {
                let (left, right) = (Box::new(column), Box::new(constant(random, ty)));
                Expr::Distinct { left, right, negated: random.bool() }
            }
            4 | 5 if matches!(ty, Type::Text | Type::Varchar) => {
                let name = *random.choice(&["~~", "!~~", "~~*", "!~~*"]).unwrap();
                let function = ON_VALUES.operator(name, Some(Type::Text), Type::Text).unwrap();
                let column = match *random.choice(&["", "", "lower", "upper"]).unwrap() {
                    "" => column,
                    name => {
                        let function = ON_VALUES.function(name, &[Type::Text]).unwrap();
                        Expr::Call { function, args: vec![column] }
                    }
                };
                let pattern = some_text(random, &["a", "B", "%", "%", "_", "\\", "\u{e9}"], 4);
                Expr::Call { function, args: vec![column, Expr::Const(Datum::text(&pattern))] }
            }
            7 => Expr::And(vec![condition(random, depth - 1), condition(random, depth - 1)]),
            8 => Expr::Or(vec![condition(random, depth - 1), condition(random, depth - 1)]),
            _ => {
                let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
                let (op, with) = (*random.choice(&ops).unwrap(), constant(random, ty));
                let (left, right) = if random.bool() { (column, with) } else { (with, column) };
                test_bed::compare(op, left, right)
            }
        }
    }

    #[test]
    fn tests_of_random_conditions_say_what_evaluating_them_does() {
        let mut table = table();
        // Every type is in an index, alone or behind another column.
        let index = |table: &mut Table, columns: &[usize]| {
            let columns: Vec<(usize, bool, bool)> =
                columns.iter().map(|&column| (column, column == 7, column == 8)).collect();
            test_bed::index(table, &columns)
        };
        let indexes = [index(&mut table, &[3, 1, 4]), index(&mut table, &[2, 5, 7]), index(&mut table, &[8, 9, 10])];
        let columns: Vec<usize> = (0..TYPES.len()).collect();
        let env = Env::default();
        let mut random = fastrand::Rng::with_seed(1);
        let (mut told, mut not_told, mut tests) = ([[0; 2]; 2], [0; 2], [0; 2]);
        for _ in 0..40_000 {
            let condition = condition(&mut random, 2);
            let of_row = Test::new(&condition, &in_rows(&table, &columns));
            let index = random.choice(&indexes).unwrap();
            let of_entry = Test::new(&condition, &|place| Some((InEntry::new(&table, index, place)?, TYPES[place])));
            tests[0] += usize::from(of_row.is_some());
            tests[1] += usize::from(of_entry.is_some());
            for _ in 0..4 {
                let row: Vec<Datum> = TYPES
                    .iter()
                    .enumerate()
                    .map(|(at, &ty)| if at > 0 && random.u8(0..4) == 0 { Datum::Null } else { value(&mut random, ty) })
                    .collect();
                let mut bytes = Vec::new();
                record::encode_row(&table, &row, &mut bytes).unwrap();
                let key = record::row_key(&table, &row).unwrap();
                let entry = record::index_entry(&table, index, &row, &key).unwrap();
                let answers =
                    [of_row.as_ref().map(|test| test.holds(&bytes)), of_entry.as_ref().map(|test| test.holds(&entry))];
                for (kind, answer) in answers.into_iter().enumerate() {
                    let Some(answer) = answer else { continue };
                    let Some(holds) = answer.unwrap() else {
                        not_told[kind] += 1;
                        continue;
                    };
                    let expected = condition.eval_condition(&mut Scope::pure(&env, &[], &[]), &row).unwrap();
                    assert_eq!(holds, expected, "{condition:?} of {row:?}");
                    told[kind][usize::from(holds)] += 1;
                }
            }
        }
        assert!(tests.iter().all(|&count| count > 1_000), "{tests:?}");
        assert!(
            told.iter().flatten().all(|&count| count > 1_000) && not_told.iter().all(|&count| count > 50),
            "{told:?} {not_told:?}"
        );
    }

    #[test]
    fn rows_of_an_older_layout_are_not_told_about() {
        let mut table = table();
        let row: Vec<Datum> =
            TYPES.iter().map(|_| Datum::Int(1)).take(1).chain(TYPES[1..].iter().map(|_| Datum::Null)).collect();
        let mut bytes = Vec::new();
        record::encode_row(&table, &row, &mut bytes).unwrap();
        let is_null = Expr::IsNull { input: Box::new(Expr::Column(1)), negated: false };
        let columns: Vec<usize> = (0..TYPES.len()).collect();
        assert_eq!(Test::new(&is_null, &in_rows(&table, &columns)).unwrap().holds(&bytes).unwrap(), Some(true));
        table.columns[11].dropped = true;
        table.renew_generation();
        assert_eq!(Test::new(&is_null, &in_rows(&table, &columns)).unwrap().holds(&bytes).unwrap(), None);
        let in_key = Expr::IsNull { input: Box::new(Expr::Column(0)), negated: false };
        assert!(Test::new(&in_key, &in_rows(&table, &columns)).is_none());
    }
}
