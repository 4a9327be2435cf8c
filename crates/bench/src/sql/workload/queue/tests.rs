//! What the workloads put and take on Colibri, and that a job done twice is told.

use std::sync::Arc;

use super::seen::Seen;
use super::{Jobs, Messages, Pattern, Shape};
use crate::sql::driver::{self, Measured, Pacing, Unwatched};
use crate::sql::result::totals;
use crate::sql::target::colibri::Colibri;
use crate::sql::target::null::Null;
use crate::sql::target::{Isolation, Target, texts};
use crate::sql::workload::load::load;
use crate::sql::workload::tpcc::tests::plan;
use crate::sql::workload::{Finding, Verdict, Workload};

const SHAPE: Shape = Shape { pattern: Pattern::Topic, partitions: 3, batch: 7, read: 20, groups: 2, bytes: 50 };

fn block_on<F: Future>(future: F) -> F::Output {
    driver::runtime(1).unwrap().block_on(future)
}

fn measure(workload: &Arc<dyn Workload>, target: &Arc<dyn Target>) -> Measured {
    let statements = texts(Isolation::Default, workload.statements());
    let measured = driver::run(workload, target, &statements, &plan(Pacing::Closed, 6, 0.5), &mut Unwatched).unwrap();
    assert_eq!((measured.failed(), measured.ended_early.clone()), (0, None), "{:?}", measured.failures);
    assert!(measured.ended() > 100);
    measured
}

fn expect_to_hold(findings: &[Finding]) {
    for finding in findings {
        assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
    }
}

/// Two runs on the same data.
fn on_colibri(workload: &Arc<dyn Workload>) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let target: Arc<dyn Target> = Arc::new(Colibri::open(dir.path(), colibri::Durability::NoSync).unwrap());
    block_on(load(&target, workload, 2, &Arc::default())).unwrap();
    let mut last = None;
    for _ in 0..2 {
        let before = block_on(workload.mark(&*target)).unwrap().unwrap();
        block_on(workload.prepare(&*target)).unwrap();
        let measured = measure(workload, &target);
        let after = block_on(workload.mark(&*target)).unwrap().unwrap();
        expect_to_hold(&[workload.reconcile(before, after, &measured.acknowledged).unwrap()]);
        expect_to_hold(&workload.audit(&totals(&measured, Pacing::Closed)));
        expect_to_hold(&block_on(workload.check(&*target, &mut |_| {})).unwrap());
        last = Some(measured);
    }
    last.unwrap()
}

#[test]
fn jobs_are_done_once_each() {
    let workload: Arc<dyn Workload> = Arc::new(Jobs::new(20, 100, 1));
    let measured = on_colibri(&workload);
    let figures = workload.figures(&totals(&measured, Pacing::Closed), measured.seconds);
    assert!(figures.iter().any(|&(name, value)| name == "jobs_done_per_s" && value > 0.0), "{figures:?}");
}

#[test]
fn messages_keep_their_order_as_a_topic_and_as_a_table() {
    for pattern in [Pattern::Topic, Pattern::Table] {
        let workload: Arc<dyn Workload> = Arc::new(Messages::new(Shape { pattern, ..SHAPE }, 1));
        let measured = on_colibri(&workload);
        assert!(measured.tally.iter().take(2).all(|&count| count > 0), "{:?}", measured.tally);
    }
}

#[test]
fn the_control_group_is_answered_as_a_database_answers() {
    for workload in [Arc::new(Jobs::new(20, 100, 1)) as Arc<dyn Workload>, Arc::new(Messages::new(SHAPE, 1))] {
        let target: Arc<dyn Target> = Arc::new(Null::new(&workload));
        let measured = measure(&workload, &target);
        expect_to_hold(&workload.audit(&totals(&measured, Pacing::Closed)));
    }
}

#[test]
fn a_number_that_is_met_twice_is_told() {
    let seen = Seen::default();
    for number in [1, 64, 63, 1 << 20, 5_000_000] {
        assert!(seen.note(number));
        assert!(!seen.note(number));
    }
    assert!(seen.note(2));
    seen.clear();
    assert!(seen.note(1));
}
