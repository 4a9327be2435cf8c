use super::*;
use crate::sql::driver::{self, Pacing, Unwatched};
use crate::sql::result::totals;
use crate::sql::target::{FIRST, Isolation, texts};
use crate::sql::workload::load::load;
use crate::sql::workload::stock::{Mix, Stock};
use crate::sql::workload::tpcc::Tpcc;
use crate::sql::workload::tpcc::tests::{SMALL, plan};
use crate::sql::workload::ycsb::{Letter, Ycsb};
use crate::sql::workload::{Verdict, Workload};

fn block_on<F: Future>(future: F) -> F::Output {
    driver::runtime(2).unwrap().block_on(future)
}

struct Bed {
    target: Arc<dyn Target>,
    workload: Arc<dyn Workload>,
    _dir: tempfile::TempDir,
}

impl Bed {
    fn new(workload: impl Workload + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target: Arc<dyn Target> = Arc::new(Sqlite::open(dir.path(), Durability::NoSync).unwrap());
        let bed = Self { target, workload: Arc::new(workload), _dir: dir };
        assert!(bed.load() > 0);
        assert_eq!(bed.load(), 0, "what is there is not loaded again");
        bed
    }

    fn load(&self) -> u64 {
        block_on(load(&self.target, &self.workload, 2, &Arc::default())).unwrap().rows
    }

    fn mark(&self) -> i64 {
        block_on(self.workload.mark(&*self.target)).unwrap().unwrap()
    }

    /// Runs with many clients: nothing fails, nothing acknowledged is missing.
    fn run(&self) -> driver::Measured {
        block_on(self.workload.prepare(&*self.target)).unwrap();
        let before = self.mark();
        let statements = texts(Isolation::Default, self.workload.statements());
        let plan = plan(Pacing::Closed, 12, 1.0);
        let measured = driver::run(&self.workload, &self.target, &statements, &plan, &mut Unwatched).unwrap();
        assert_eq!((measured.failed(), measured.ended_early.clone()), (0, None), "{:?}", measured.failures);
        assert!(measured.ended() > 0);
        assert_eq!(measured.kinds.iter().map(|kind| kind.retries).sum::<u64>(), 0, "writers wait for each other");
        let told = self.workload.reconcile(before, self.mark(), &measured.acknowledged).unwrap();
        assert_eq!(told.verdict, Verdict::Holds, "{told:?}");
        let audit = self.workload.audit(&totals(&measured, Pacing::Closed));
        assert!(audit.iter().all(|finding| finding.verdict != Verdict::Broken), "{audit:?}");
        measured
    }

    /// Numbers of the findings that are broken.
    fn broken(&self) -> Vec<usize> {
        let findings = block_on(self.workload.check(&*self.target, &mut |_| {})).unwrap();
        let broken = findings.iter().enumerate().filter(|(_, finding)| finding.verdict == Verdict::Broken);
        broken.map(|(number, _)| number).collect()
    }

    fn sql(&self, sql: &str) {
        block_on(async { self.target.connect(&[]).await?.query(sql).await }).unwrap();
    }
}

#[test]
fn tpcc_holds_its_conditions_and_they_can_be_broken() {
    let bed = Bed::new(Tpcc::new(SMALL, 42));
    assert_eq!(bed.broken(), [0; 0]);
    let measured = bed.run();
    assert!(measured.kinds.iter().all(|kind| kind.committed > 0), "{measured:?}");
    assert_eq!(bed.broken(), [0; 0]);
    // A cent, which a sum of binary fractions might not see.
    bed.sql("UPDATE warehouse SET w_ytd = w_ytd + 1");
    assert_eq!(bed.broken(), [1, 8]);
}

#[test]
fn ycsb_runs_with_all_its_letters() {
    for letter in [Letter::A, Letter::D, Letter::E, Letter::F] {
        let bed = Bed::new(Ycsb::new(letter, None, 500, 42, (0, 1)));
        bed.run();
        assert_eq!(bed.broken(), [0; 0], "{letter:?}");
    }
}

#[test]
fn stock_is_taken_as_often_as_orders_say() {
    let bed = Bed::new(Stock::new(Mix::PutRandOrder, 100, 1_000, 100, 42));
    bed.run();
    assert_eq!(bed.broken(), [0; 0]);
    bed.sql("UPDATE stock SET quantity = quantity - 1 WHERE product = 'product_1'");
    assert_eq!(bed.broken(), [1]);
}

#[test]
fn what_is_answered_is_what_was_stored() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(dir.path(), Durability::Sync).unwrap();
    block_on(async {
        let mut session = sqlite.connect(&[]).await.unwrap();
        session.query("CREATE TABLE t (a int PRIMARY KEY, b numeric(6,2), c timestamp, d varchar(9))").await.unwrap();
        let texts = texts(
            Isolation::Default,
            ["INSERT INTO t VALUES ($1, $2, $3, $4)", "SELECT sum(b), max(c), b, d FROM t WHERE a = $1"]
                .map(str::to_owned),
        );
        let mut session = sqlite.connect(&texts).await.unwrap();
        let (insert, read) = (StatementId(FIRST), StatementId(FIRST + 1));
        session.call(BEGIN);
        session.call(insert).int(1).cents(-1_050).time(77).text("Ä".as_bytes());
        session.call(COMMIT);
        session.call(read).int(1);
        session.run().await.unwrap();
        assert_eq!(session.answer(1).affected(), 1);
        let row = session.answer(3);
        assert_eq!((row.decimal(0, 0, 2), row.cell(0, 1)), (Some(-1_050), Cell::Time(77)));
        assert_eq!((row.decimal(0, 2, 2), row.text(0, 3)), (Some(-1_050), Some("Ä".as_bytes())));

        // A failure takes the transaction back, and the connection goes on.
        session.call(BEGIN);
        session.call(insert).int(2).cents(1).time(0).text(b"");
        session.call(insert).int(1).cents(1).time(0).text(b"");
        session.call(COMMIT);
        let told = session.run().await.unwrap_err();
        assert_eq!((told.state(), session.is_broken()), ("23000", false));
        session.call(read).int(2);
        session.run().await.unwrap();
        assert_eq!(session.answer(0).cell(0, 2), Cell::Null);
    });
}

#[test]
fn who_stops_waiting_for_the_turn_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(dir.path(), Durability::NoSync).unwrap();
    let texts = texts(Isolation::Default, []);
    block_on(async {
        let mut writer = sqlite.connect(&texts).await.unwrap();
        writer.call(BEGIN);
        writer.run().await.unwrap();
        let mut other = sqlite.connect(&texts).await.unwrap();
        other.call(BEGIN);
        let waited = colibri_runtime::timeout(Duration::from_millis(20), other.run()).await;
        assert!(waited.is_err() && other.is_broken());
        let mut reader = sqlite.connect(&texts).await.unwrap();
        reader.call(BEGIN_READ_ONLY);
        reader.call(COMMIT);
        reader.run().await.unwrap();
        drop(other);
        writer.call(ROLLBACK);
        writer.run().await.unwrap();
        reader.call(BEGIN);
        reader.call(COMMIT);
        reader.run().await.unwrap();
    });
}
