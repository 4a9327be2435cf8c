//! Jobs: each client puts one and takes one, in turns, so that the queue stays about as long as it
//! was loaded.
//!
//! | transaction | does |
//! | --- | --- |
//! | `Put` | inserts a job |
//! | `Take` | takes the oldest job that nobody else has (FOR UPDATE SKIP LOCKED), and deletes it when it is done |
//!
//! A take is two exchanges, as the worker does the job between them: what is taken comes back if
//! the worker dies. A take that finds nothing rolls back.
//!
//! From put to taken is measured beside the transactions' latencies: by the clock of this machine,
//! from when the put was sent to when the take was answered. It begins anew with each run, and the
//! warm-up is part of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::seen::Seen;
use super::{BEGIN_QUEUE, filler, now_us};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Boxed, COMMIT, Cell, FIRST, Failure, ROLLBACK, Session, StatementId, Target};
use crate::sql::workload::load::{self, PartRows};
use crate::sql::workload::{Acknowledged, Choice, Client, Done, Finding, TALLIES, Totals, TransactionKind, Workload};

const PUT: u8 = 0;
const TAKE: u8 = 1;
const KINDS: [TransactionKind; 2] = [TransactionKind::new("Put", true), TransactionKind::new("Take", true)];

const INSERT: StatementId = StatementId(FIRST);
const BEGIN: StatementId = StatementId(FIRST + 1);
const SELECT: StatementId = StatementId(FIRST + 2);
const DELETE: StatementId = StatementId(FIRST + 3);

/// Histograms that threads share, so that they seldom wait for each other.
const HISTOGRAMS: usize = 16;

/// The workload.
pub(crate) struct Jobs {
    /// Jobs that are loaded.
    backlog: u32,
    /// Bytes of a job's payload.
    bytes: usize,
    seed: u64,
    seen: Seen,
    twice: AtomicU64,
    /// Microseconds from put to taken.
    waited: [Mutex<Histogram<u64>>; HISTOGRAMS],
    /// The next job that the control group makes up.
    imitated: AtomicI64,
}

impl Jobs {
    pub(crate) fn new(backlog: u32, bytes: u32, seed: u64) -> Self {
        let histogram = || Mutex::new(Histogram::new(3).expect("three digits are a valid precision"));
        Self {
            backlog,
            bytes: bytes as usize,
            seed,
            seen: Seen::default(),
            twice: AtomicU64::new(0),
            waited: std::array::from_fn(|_| histogram()),
            imitated: AtomicI64::new(1),
        }
    }

    async fn put(&self, client: &mut Client, session: &mut Session) -> Result<(), Failure> {
        let payload = filler(client.random.next() as i64, self.bytes);
        session.call(INSERT).int(now_us()).text(&payload);
        session.run().await
    }

    /// Whether there was a job.
    async fn take(&self, client: &Client, session: &mut Session) -> Result<bool, Failure> {
        session.call(BEGIN);
        session.call(SELECT);
        session.run().await?;
        let answer = session.answer(1);
        let (Some(id), Some(put_us)) = (answer.int(0, 0), answer.int(0, 1)) else {
            session.call(ROLLBACK);
            session.run().await?;
            return Ok(false);
        };
        let waited_us = now_us().saturating_sub(put_us).max(1) as u64;
        session.call(DELETE).int(id);
        session.call(COMMIT);
        session.run().await?;
        if session.answer(0).affected() != 1 {
            return Err(Failure::answer("a job that was taken was gone"));
        }
        if !self.seen.note(id) {
            self.twice.fetch_add(1, Ordering::Relaxed);
        }
        // Those that were loaded have waited since then.
        if put_us > 0 {
            let histogram = &self.waited[client.number as usize % HISTOGRAMS];
            histogram.lock().expect("nobody panics with the lock").saturating_record(waited_us);
        }
        Ok(true)
    }
}

impl Workload for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn about(&self) -> String {
        format!("jobs of {} bytes, {} in the queue", self.bytes, self.backlog)
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS
    }

    fn statements(&self) -> Vec<String> {
        [
            "INSERT INTO jobs (put_us, payload) VALUES ($1, $2)",
            BEGIN_QUEUE,
            "SELECT id, put_us, payload FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            "DELETE FROM jobs WHERE id = $1",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn imitate(&self, statement: StatementId, _params: &[Cell], answer: &mut AnswerWriter<'_>) {
        if statement != SELECT {
            return answer.affected(1);
        }
        answer.cell(Cell::Int(self.imitated.fetch_add(1, Ordering::Relaxed)));
        answer.cell(Cell::Int(now_us()));
        answer.text(&filler(1, self.bytes));
        answer.end_row(3);
    }

    fn choose(&self, client: &mut Client) -> Choice {
        client.deck[0] ^= 1;
        let kind = if client.deck[0] == 1 { PUT } else { TAKE };
        Choice { kind, keying: Duration::ZERO, think: Duration::ZERO }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let rolled_back = match kind {
                PUT => {
                    self.put(client, session).await?;
                    false
                }
                _ => !self.take(client, session).await?,
            };
            Ok(Done { rolled_back, tally: [0; TALLIES] })
        })
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(JobsData { of: self })
    }

    fn prepare<'a>(&'a self, _target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.seen.clear();
            self.imitated.store(1, Ordering::Relaxed);
            for histogram in &self.waited {
                histogram.lock().expect("nobody panics with the lock").reset();
            }
            Ok(())
        })
    }

    fn check<'a>(
        &'a self,
        target: &'a dyn Target,
        each: &'a mut (dyn FnMut(&Finding) + Send),
    ) -> Boxed<'a, Result<Vec<Finding>, Failure>> {
        Box::pin(async move {
            let mut session = target.connect(&[]).await?;
            let [all, first] = ["SELECT count(*) FROM jobs", "SELECT coalesce(min(id), 1) FROM jobs"];
            let findings = [
                Finding::count("jobs that are left", session.count(all).await?, 0, i64::MAX),
                Finding::count("the oldest of them", session.count(first).await?, 1, i64::MAX),
            ];
            findings.iter().for_each(each);
            Ok(findings.to_vec())
        })
    }

    fn mark_query(&self) -> Option<&'static str> {
        Some("SELECT count(*) FROM jobs")
    }

    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let of = |counts: &[u64], kind: u8| counts.get(usize::from(kind)).copied().unwrap_or_default() as i64;
        let known = of(&acknowledged.committed, PUT) - of(&acknowledged.committed, TAKE);
        let least = known - of(&acknowledged.unknown, TAKE);
        let most = known + of(&acknowledged.unknown, PUT);
        Some(Finding::count("jobs more than before: those put and not taken", after - before, least, most))
    }

    fn audit(&self, _totals: &Totals) -> Vec<Finding> {
        let twice = self.twice.swap(0, Ordering::Relaxed);
        vec![Finding::count("jobs that were acknowledged twice", twice as i64, 0, 0)]
    }

    fn figures(&self, totals: &Totals, seconds: f64) -> Vec<(&'static str, f64)> {
        let mut all = Histogram::<u64>::new(3).expect("three digits are a valid precision");
        for histogram in &self.waited {
            let _same_precision = all.add(&*histogram.lock().expect("nobody panics with the lock"));
        }
        let done = totals.committed.get(usize::from(TAKE)).copied().unwrap_or_default();
        let empty = totals.rolled_back.get(usize::from(TAKE)).copied().unwrap_or_default();
        let ms = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1e3;
        vec![
            ("jobs_done_per_s", done as f64 / seconds),
            ("takes_of_nothing_per_s", empty as f64 / seconds),
            ("put_to_taken_p50_ms", ms(0.5)),
            ("put_to_taken_p99_ms", ms(0.99)),
            ("put_to_taken_max_ms", all.max() as f64 / 1e3),
        ]
    }
}

struct JobsData<'j> {
    of: &'j Jobs,
}

impl load::Data for JobsData<'_> {
    fn fingerprint(&self) -> String {
        let Jobs { backlog, bytes, seed, .. } = self.of;
        format!("jobs, {backlog} of {bytes} bytes, seed {seed}")
    }

    fn tables(&self) -> Vec<String> {
        vec![
            "CREATE TABLE jobs (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, put_us bigint NOT NULL, \
             payload text NOT NULL)"
                .to_owned(),
        ]
    }

    fn indexes(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["jobs"]
    }

    fn parts(&self) -> u32 {
        1
    }

    fn rows(&self) -> u64 {
        self.of.backlog.into()
    }

    fn generate(&self, _part: u32, rows: &mut PartRows) {
        let table = rows.table("jobs (put_us, payload)");
        for number in 0..self.of.backlog {
            let payload = filler(i64::from(number) ^ self.of.seed as i64, self.of.bytes);
            table.int(0).text(&payload).end_row();
        }
    }
}
