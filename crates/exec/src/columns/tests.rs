//! Groupings on vectors beside the same ones on rows, in slices and with little memory; and rows
//! read into vectors beside the same rows read one by one.

use std::sync::Arc;

use colibri_catalog::column_reader::ColumnReader;
use colibri_catalog::record::{self, RowReader};
use colibri_catalog::row::{Compression, RowFormat};
use colibri_types::functions::ON_VALUES;
use colibri_types::{Datum, Numeric, Type, resolve};

use crate::expr::{CompareOp, Expr};
use crate::memory::MemoryLimits;
use crate::plan::columns::Columns;
use crate::plan::parallel::divided_by;
use crate::plan::{AggregateCall, KeyRanges, Node};
use crate::test_bed::{How, MemoryTxn, compare, fill, fragment, int, memory, run_how, scan, table};

/// Rows of a table: a few batches of tests.
const ROWS: i64 = 90;

struct Maker(fastrand::Rng);

impl Maker {
    fn number(&mut self, depth: usize) -> Expr {
        match self.0.u8(..if depth == 0 { 4 } else { 6 }) {
            0 => int(self.0.i64(-3..4)),
            1..=3 => Expr::Column(self.0.usize(..3)),
            4 => Expr::Case {
                arms: vec![(self.condition(0), self.number(depth - 1))],
                otherwise: Box::new(self.number(depth - 1)),
            },
            _ => {
                let function = ON_VALUES
                    .operator(self.0.choice(["+", "-", "*", "/", "%"]).unwrap(), Some(Type::Int8), Type::Int8)
                    .unwrap();
                Expr::Call { function, args: vec![self.number(depth - 1), self.number(depth - 1)] }
            }
        }
    }

    fn condition(&mut self, depth: usize) -> Expr {
        let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
        match self.0.u8(..if depth == 0 { 3 } else { 6 }) {
            0 => Expr::IsNull { input: Box::new(Expr::Column(1)), negated: self.0.bool() },
            1 | 2 => compare(*self.0.choice(&ops).unwrap(), Expr::Column(self.0.usize(..3)), self.number(depth.min(1))),
            3 => Expr::And(vec![self.condition(depth - 1), self.condition(depth - 1)]),
            4 => Expr::Or(vec![self.condition(depth - 1), self.condition(depth - 1)]),
            _ => Expr::Not(Box::new(self.condition(depth - 1))),
        }
    }

    fn call(&mut self) -> AggregateCall {
        let name = *self.0.choice(&["sum", "avg", "min", "max", "count"]).unwrap();
        let filter = (self.0.u8(..4) == 0).then(|| self.condition(1));
        let args = vec![self.number(2)];
        let aggregate = resolve::resolve_aggregate(name, &[Type::Int8]).unwrap().unwrap();
        AggregateCall { aggregate, args, distinct: false, filter, order: Vec::new() }
    }
}

#[test]
fn random_groupings_in_slices_and_short_of_memory_give_what_rows_give() {
    let (mut on_vectors, mut failed) = (0, 0);
    for seed in 0..750 {
        let mut maker = Maker(fastrand::Rng::with_seed(seed));
        let mut txn = MemoryTxn::default();
        let of = Arc::new(table(100, "t", 3, 1));
        // In some tables a few values overflow whatever is computed of them.
        let has_large = maker.0.u8(..3) == 0;
        let rows: Vec<Vec<Datum>> = (0..maker.0.i64(0..ROWS))
            .map(|n| {
                let small = maker.0.i64(-1..20);
                let large = if has_large && n % 30 == 29 { i64::MAX - small.max(0) } else { maker.0.i64(-5..5) };
                vec![Datum::Int(n), if small < 0 { Datum::Null } else { Datum::Int(small) }, Datum::Int(large)]
            })
            .collect();
        fill(&mut txn, &of, &rows);
        let filter = maker.0.bool().then(|| maker.condition(2));
        let exprs: Option<Arc<[Expr]>> = (maker.0.u8(..4) == 0).then(|| (0..3).map(|_| maker.number(1)).collect());
        let keys: Vec<Expr> = (0..maker.0.usize(..3)).map(|_| Expr::Column(maker.0.usize(..3))).collect();
        let calls: Arc<[AggregateCall]> = (0..maker.0.usize(1..4)).map(|_| maker.call()).collect();
        let width = keys.len() + calls.len();
        let input = || match (scan(&of, KeyRanges::default(), filter.clone()), exprs.clone()) {
            (scan, Some(exprs)) => Node::Project { input: Box::new(scan), exprs },
            (scan, None) => scan,
        };
        let grouping = || Node::Aggregate {
            input: Box::new(input()),
            keys: keys.clone().into(),
            calls: Arc::clone(&calls),
            presorted: [].into(),
            always: [].into(),
        };
        let one = grouping();
        let Some(driving) = divided_by(&one) else { continue };
        on_vectors += usize::from(Columns::new(&one, driving).is_some());
        let on_rows = fragment(grouping(), width, 0);
        let on_columns = fragment(Node::Parallel { input: Arc::new(grouping()) }, width, 0);
        let expected = run_how(&on_rows, &mut txn, &How::default()).map_err(|error| error.state());
        failed += usize::from(expected.is_err());
        for budget_rows in [i64::MAX, 1, maker.0.i64(2..40)] {
            let found = run_how(&on_columns, &mut txn, &How { budget_rows, ..How::default() });
            let found = found.map_err(|error| error.state());
            assert_eq!(found, expected, "seed {seed}, budget {budget_rows}: {:#?}", on_rows.root);
        }
        let limits = MemoryLimits { work_bytes: 3_000, hash_bytes: 3_000, ..MemoryLimits::default() };
        let how = How { memory: memory(limits), budget_rows: 100, ..How::default() };
        let found = run_how(&on_columns, &mut txn, &how).map_err(|error| error.state());
        let sorted = |rows: Result<Vec<Vec<Datum>>, _>| {
            rows.map(|rows| {
                let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
                rows.sort_unstable();
                rows
            })
        };
        assert_eq!(sorted(found), sorted(expected), "seed {seed}, short of memory: {:#?}", on_rows.root);
        assert_eq!(how.memory.kept(), 0, "seed {seed}");
    }
    assert!(on_vectors > 400, "groupings on vectors: {on_vectors}");
    assert!((30..300).contains(&failed), "groupings that fail: {failed}");
}

#[test]
fn a_row_goes_into_vectors_as_it_is_read_or_not_at_all() {
    let types = [
        Type::Int8, // the key
        Type::Int2,
        Type::Int4,
        Type::Oid,
        Type::Numeric,
        Type::Text,
        Type::Bool,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::Float8,
        Type::Float4,
    ];
    let mut of = table(1, "t", types.len(), 1);
    for (column, ty) in of.columns.iter_mut().zip(types) {
        column.ty = ty.into();
    }
    of.generations.clear();
    of.renew_generation();
    let columns: Vec<usize> = (0..types.len()).rev().collect();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut rows, mut scratch) = (Vec::new(), Vec::new());
    let encoded = |of: &_, row: &[Datum]| {
        let mut value = Vec::new();
        record::encode_row(of, row, &mut value).unwrap();
        (record::row_key(of, row).unwrap(), value)
    };
    let mut compressed = 0;
    for number in 0..500 {
        // Whether texts are compressed changes all the time.
        of.compression = random.bool().then_some(Compression::Lz4);
        of.renew_layout();
        let row: Vec<Datum> = types
            .iter()
            .enumerate()
            .map(|(at, ty)| match ty {
                _ if at > 0 && random.u8(0..6) == 0 => Datum::Null,
                Type::Int8 => Datum::Int(number),
                Type::Int2 | Type::Int4 | Type::Oid => Datum::Int(random.i64(0..20_000)),
                Type::Numeric => Datum::Numeric(Numeric::new(i128::from(random.i64(-1 << 55..1 << 55)), 3)),
                Type::Text => Datum::text(&"tëxt".repeat(random.usize(0..40) * random.usize(1..8))),
                Type::Bool => Datum::Bool(random.bool()),
                Type::Date => Datum::Date(random.i32(..)),
                Type::Time => Datum::Time(random.i64(0..=86_400_000_000)),
                Type::Timestamp => Datum::Timestamp(random.i64(..)),
                _ => Datum::Float(f64::from(random.i32(-9..9)) / 2.0),
            })
            .collect();
        rows.push(encoded(&of, &row));
        let (_, value) = &rows[rows.len() - 1];
        compressed += usize::from(RowFormat::has_compressed(value));
    }
    assert!((20..200).contains(&compressed), "{compressed}");
    // A column more: the rows that are there are of an older layout then.
    for adds in [false, true] {
        if adds {
            of.columns[11].dropped = true;
            of.renew_generation();
        }
        let columns: Vec<usize> = columns.iter().copied().filter(|&column| !adds || column != 11).collect();
        let (reader, mut vectors) = ColumnReader::new(&of, &columns).unwrap();
        let by_rows = RowReader::new(&of, &columns);
        for (at, (key, value)) in rows.iter().enumerate() {
            assert!(reader.read(key, value, &mut scratch, &mut vectors).unwrap());
            let mut read = vec![Datum::Null; columns.len()];
            by_rows.read(key, value, &mut read).unwrap();
            let given: Vec<Datum> = vectors.iter().map(|vector| vector.datum(at)).collect();
            assert_eq!(given, read);
        }
        let mut odd = vec![Datum::Null; types.len()];
        (odd[0], odd[4]) = (Datum::Int(1_000), Datum::Numeric(Numeric::NAN));
        let (key, value) = encoded(&of, &odd);
        assert!(!reader.read(&key, &value, &mut scratch, &mut vectors).unwrap());
        assert!(reader.read(&key, &[0], &mut scratch, &mut vectors).is_err());
    }
    assert!(ColumnReader::new(&of, &[11]).is_none(), "a dropped column");
}
