use std::sync::Arc;

use super::*;
use crate::measure::random::tests::unevenness;
use crate::sql::driver::{self, Pacing, Unwatched};
use crate::sql::result::totals;
use crate::sql::target::colibri::Colibri;
use crate::sql::target::{Isolation, texts};
use crate::sql::workload::Verdict;
use crate::sql::workload::load::load;
use crate::sql::workload::tpcc::tests::plan;

fn block_on<F: Future>(future: F) -> F::Output {
    driver::runtime(1).unwrap().block_on(future)
}

struct Bed {
    target: Arc<dyn Target>,
    workload: Arc<dyn Workload>,
    _dir: tempfile::TempDir,
}

impl Bed {
    fn new(mix: Mix, quantity: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target: Arc<dyn Target> = Arc::new(Colibri::open(dir.path(), colibri::Durability::NoSync).unwrap());
        // Of the hundred orders that are loaded a check makes several ranges.
        let stock = Stock { checked_at_once: 20, ..Stock::new(mix, 100, quantity, 100, 42) };
        let workload: Arc<dyn Workload> = Arc::new(stock);
        block_on(load(&target, &workload, 2, &Arc::default())).unwrap();
        Self { target, workload, _dir: dir }
    }

    fn run(&self, clients: u32) -> driver::Measured {
        let before = block_on(self.workload.mark(&*self.target)).unwrap().unwrap();
        block_on(self.workload.prepare(&*self.target)).unwrap();
        let statements = texts(Isolation::Default, self.workload.statements());
        let plan = plan(Pacing::Closed, clients, 1.0);
        let measured = driver::run(&self.workload, &self.target, &statements, &plan, &mut Unwatched).unwrap();
        assert_eq!((measured.failed(), measured.ended_early.clone()), (0, None), "{:?}", measured.failures);
        assert!(measured.ended() > 0);
        let after = block_on(self.workload.mark(&*self.target)).unwrap().unwrap();
        let told = self.workload.reconcile(before, after, &measured.acknowledged).unwrap();
        assert_eq!(told.verdict, Verdict::Holds, "{told:?}");
        let audit = self.workload.audit(&totals(&measured, Pacing::Closed));
        for finding in &audit {
            let is_short = finding.what == SHORT_ORDERS && measured.tally[SHORT] * 100 > measured.tally[PROCESSED];
            assert_eq!(finding.verdict == Verdict::Broken, is_short, "{finding:?}");
        }
        measured
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let findings = block_on(self.workload.check(&*self.target, &mut |_| {})).unwrap();
        findings.iter().map(|finding| finding.verdict).collect()
    }

    fn sql(&self, sql: &str) {
        block_on(async { self.target.connect(&[]).await?.query(sql).await }).unwrap();
    }
}

#[test]
fn orders_are_added() {
    let bed = Bed::new(Mix::AddRandOrder, 1_000);
    let measured = bed.run(8);
    assert_eq!(measured.tally[PROCESSED] + measured.tally[SHORT], 0);
    assert_eq!(bed.verdicts(), [Verdict::Holds; 4]);
}

#[test]
fn stock_is_taken_until_there_is_none() {
    let bed = Bed::new(Mix::PutRandOrder, 2);
    let measured = bed.run(8);
    assert!(measured.tally[PROCESSED] > 0 && measured.tally[SHORT] > 0, "{:?}", measured.tally);
    assert_eq!(bed.verdicts(), [Verdict::Holds; 4]);
}

#[test]
fn a_run_whose_orders_are_short_of_stock_is_told() {
    let stock = Stock::new(Mix::PutRandOrder, 100, 1_000, 100, 42);
    let verdict = |processed: u64, short: u64| {
        let orders = processed + short;
        let mut totals = Totals { committed: vec![0, orders, 0], ..Totals::default() };
        totals.tally[..3].copy_from_slice(&[orders * 1_816 / 1_000, processed, short]);
        let findings = stock.audit(&totals);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].verdict, Verdict::Holds, "{findings:?}");
        findings[1].verdict
    };
    assert_eq!([verdict(100_000, 0), verdict(100_000, 500)], [Verdict::Holds; 2]);
    assert_eq!([verdict(50_000, 50_000), verdict(0, 50_000)], [Verdict::Broken; 2]);
}

#[test]
fn hot_products_are_taken_one_after_the_other() {
    let bed = Bed::new(Mix::PutSameOrder, 1_000_000);
    let measured = bed.run(8);
    assert_eq!(measured.tally[SHORT], 0);
    assert_eq!(bed.verdicts(), [Verdict::Holds; 4]);
}

#[test]
fn histories_are_read() {
    for mix in [Mix::RandUserHist, Mix::UserHist] {
        let measured = Bed::new(mix, 1_000).run(4);
        assert_eq!(measured.kinds[usize::from(HISTORY)].committed, measured.ended());
    }
}

#[test]
fn each_check_finds_what_it_looks_for() {
    for (sql, broken) in [
        ("DELETE FROM stock WHERE product = 'product_7'", 0),
        ("UPDATE stock SET quantity = quantity - 1 WHERE product = 'product_7'", 1),
        ("UPDATE orders SET processed = created WHERE id = (SELECT min(id) FROM orders)", 1),
        ("DELETE FROM order_lines WHERE id_order = (SELECT min(id) FROM orders)", 2),
        ("DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)", 3),
    ] {
        let bed = Bed::new(Mix::AddRandOrder, 1_000);
        assert_eq!(bed.verdicts(), [Verdict::Holds; 4]);
        bed.sql(sql);
        let verdicts = bed.verdicts();
        assert_eq!(verdicts[broken], Verdict::Broken, "{sql}: {verdicts:?}");
    }
}

/// Bug: a check grouped and joined all orders at once. Consequence: behind a long run it needed
/// more memory than a statement is given, so a run that was well was not valid. Fix: ranges of
/// orders, one after the other.
#[test]
fn a_check_looks_at_every_order_once() {
    for orders in [0, 100, 50_000, 3_000_000] {
        let ranges: Vec<IdRange> = IdRange::all(orders, CHECKED_AT_ONCE).collect();
        assert!(ranges.len() as i64 > orders / i64::from(CHECKED_AT_ONCE), "{ranges:?}");
        assert_eq!((ranges[0].first, ranges[ranges.len() - 1].last), (None, None));
        for pair in ranges.windows(2) {
            assert_eq!(pair[0].last.map(|last| last + 1), pair[1].first, "{pair:?}");
            assert!(pair[1].first.is_some());
        }
    }
    let range = IdRange { first: Some(-5), last: Some(7) };
    assert_eq!(range.holds("l.id"), "l.id >= -5 AND l.id <= 7");
    assert_eq!(IdRange::all(0, 1).next().unwrap().holds("id"), "1 = 1");
}

#[test]
fn lines_are_distributed_as_the_workload_says() {
    let mut random = Random::new(42, 0);
    let draws = 400_000_u32;
    let mut counts = [0_u32; LINES_MAX + 1];
    (0..draws).for_each(|_| counts[line_count(&mut random)] += 1);
    assert_eq!(counts[0], 0);
    // P(k) = (1 − q)·q^(k−1) with q = e^(−λ/2).
    let q = (-RATE_OF_LINES / 2.0).exp();
    for (lines, &count) in counts.iter().enumerate().skip(1).take(10) {
        let share = (1.0 - q) * q.powi(lines as i32 - 1);
        let deviation = (share * (1.0 - share) / f64::from(draws)).sqrt();
        assert!((f64::from(count) / f64::from(draws) - share).abs() < 4.5 * deviation, "{lines}: {count}");
    }
}

#[test]
fn products_and_customers_are_uniform_and_an_order_has_each_product_once() {
    let stock = Stock::new(Mix::AddRandOrder, 100, 1_000, 100, 42);
    let mut random = Random::new(42, 0);
    let (mut products, mut customers) = (vec![0; 100], vec![0; 100]);
    for _ in 0..200_000 {
        let order = stock.draw(&mut random);
        let drawn = &order.products[..order.count];
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
        // The first drawn would be uniform; all of them are, by symmetry.
        drawn.iter().for_each(|&product| products[product as usize - 1] += 1);
        customers[(order.customer - 1) as usize / 100] += 1;
    }
    assert!(unevenness(&customers).abs() < 4.0);
    // Without repetition within an order, counts are more even than independent draws are.
    assert!(unevenness(&products) < 4.0);
    let same = Stock::new(Mix::PutSameOrder, 100, 1_000, 100, 42).draw(&mut random);
    assert_eq!(same.products[0], 1);
}
