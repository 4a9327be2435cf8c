//! Messages: clients put batches with keys of their own, and groups of consumers read all of them,
//! each from where it is.
//!
//! | transaction | does |
//! | --- | --- |
//! | `Put` | puts a batch of messages with one key |
//! | `Read1`, `Read2`, … | locks the place of a group in a partition, reads what is behind it, and moves the place |
//!
//! Two patterns give offsets without gaps in the order of commits:
//!
//! - `topic`: a table WITH (`topic_partitions` = n). The database gives offsets at commit.
//! - `table`: any database. A row holds the next offset of a partition. A transaction that puts
//!   messages changes that row and holds its lock until the commit. (A sequence would not do: a
//!   lower offset may commit after a higher one, and a reader that is past both never sees it.)
//!
//! What is read is checked as it comes: offsets follow each other. All else is checked in the end:
//! each key in one partition and in the order in which it was put, and no group is ahead.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clap::ValueEnum;

use super::{BEGIN_QUEUE, filler};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Boxed, COMMIT, Cell, FIRST, Failure, ROLLBACK, Session, StatementId, Target};
use crate::sql::workload::load::{self, PartRows};
use crate::sql::workload::{Acknowledged, Choice, Client, Done, Finding, TALLIES, Totals, TransactionKind, Workload};

const PUT: u8 = 0;
const GROUPS_MAX: usize = 8;
static KINDS: [TransactionKind; 1 + GROUPS_MAX] = [
    TransactionKind::new("Put", true),
    TransactionKind::new("Read1", true),
    TransactionKind::new("Read2", true),
    TransactionKind::new("Read3", true),
    TransactionKind::new("Read4", true),
    TransactionKind::new("Read5", true),
    TransactionKind::new("Read6", true),
    TransactionKind::new("Read7", true),
    TransactionKind::new("Read8", true),
];

const INSERT: StatementId = StatementId(FIRST);
const BEGIN: StatementId = StatementId(FIRST + 1);
const CLAIM: StatementId = StatementId(FIRST + 2);
const READ: StatementId = StatementId(FIRST + 3);
const MOVE: StatementId = StatementId(FIRST + 4);

const MESSAGES_PUT: usize = 0;
const MESSAGES_READ: usize = 1;
const TALLY_NAMES: [&str; 2] = ["messages put", "messages read"];

/// How messages are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// A topic of Colibri.
    Topic,
    /// A row with the next offset of each partition, for any database.
    Table,
}

/// Sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) pattern: Pattern,
    pub(crate) partitions: u32,
    /// Messages that are put together.
    pub(crate) batch: u32,
    /// Messages that are read together, at the most.
    pub(crate) read: u32,
    /// Groups of consumers.
    pub(crate) groups: u32,
    /// Bytes of a message.
    pub(crate) bytes: u32,
}

/// The workload.
pub(crate) struct Messages {
    shape: Shape,
    /// For each client the number of its next message.
    next: Mutex<Vec<i64>>,
    /// Where the numbers of a run begin: above those of runs before it.
    base: AtomicI64,
    payload: Vec<u8>,
}

impl Messages {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let payload = filler(seed as i64, shape.bytes as usize);
        Self { shape, next: Mutex::default(), base: AtomicI64::new(0), payload }
    }

    /// The most groups that there can be.
    pub(crate) const GROUPS_MAX: u32 = GROUPS_MAX as u32;

    /// The first number of a client's next batch. Numbers of a batch that fails are not used again.
    fn take_numbers(&self, client: u32) -> i64 {
        let mut next = self.next.lock().expect("nobody panics with the lock");
        let client = client as usize;
        if next.len() <= client {
            next.resize(client + 1, 0);
        }
        let first = next[client];
        next[client] += i64::from(self.shape.batch);
        self.base.load(Ordering::Relaxed) + first
    }

    async fn put(&self, client: &mut Client, session: &mut Session) -> Result<(), Failure> {
        let first = self.take_numbers(client.number);
        let mut call = session.call(INSERT).int(client.number.into()).int(first);
        if self.shape.pattern == Pattern::Table {
            call = call.int(i64::from(client.number % self.shape.partitions));
        }
        let mut number = Vec::with_capacity(20);
        for place in 0..i64::from(self.shape.batch) {
            number.clear();
            load::push_int(&mut number, first + place);
            let rest = self.payload.len().saturating_sub(number.len());
            call = call.texts(&[&number, &self.payload[..rest]]);
        }
        session.run().await
    }

    /// How many messages were read.
    async fn read(&self, client: &Client, group: i64, session: &mut Session) -> Result<u32, Failure> {
        // Each client goes through the partitions from a place of its own.
        let turn = u32::from(client.deck[1]) | u32::from(client.deck[2]) << 8;
        let partition = i64::from((client.number + turn) % self.shape.partitions);
        session.call(BEGIN);
        session.call(CLAIM).int(group).int(partition);
        session.run().await?;
        let Some(committed) = session.answer(1).int(0, 0) else {
            // Another consumer of the group reads there.
            session.call(ROLLBACK);
            session.run().await?;
            return Ok(0);
        };
        session.call(READ).int(partition).int(committed).int(self.shape.read.into());
        session.run().await?;
        let answer = session.answer(0);
        let count = answer.rows();
        for row in 0..count {
            let offset = answer.int(row, 0);
            if offset != Some(committed + 1 + row as i64) {
                return Err(Failure::answer(format!("offset {offset:?} is not the next one behind {committed}")));
            }
            if answer.text(row, 3).map(<[u8]>::len) != Some(self.payload.len()) {
                return Err(Failure::answer("a message has another length than was put"));
            }
        }
        if count == 0 {
            session.call(ROLLBACK);
        } else {
            session.call(MOVE).int(group).int(partition).int(committed + count as i64);
            session.call(COMMIT);
        }
        session.run().await?;
        Ok(count as u32)
    }

    fn insert(&self) -> String {
        let first = if self.shape.pattern == Pattern::Table { 4 } else { 3 };
        let mut rows = String::new();
        for place in 0..self.shape.batch {
            let separator = if place == 0 { "" } else { ", " };
            let _never_fails = match self.shape.pattern {
                Pattern::Topic => {
                    write!(rows, "{separator}($1::bigint, $2::bigint + {place}, ${}::text)", first + place)
                }
                Pattern::Table if place == 0 => write!(rows, "({place}, ${}::text)", first + place),
                Pattern::Table => write!(rows, "{separator}({place}, ${})", first + place),
            };
        }
        match self.shape.pattern {
            Pattern::Topic => format!("INSERT INTO messages (key, number, payload) VALUES {rows}"),
            Pattern::Table => format!(
                "WITH head AS (UPDATE heads SET last = last + {} WHERE partition = $3::integer RETURNING last) \
                 INSERT INTO messages (partition, \"offset\", key, number, payload) \
                 SELECT $3::integer, head.last - {} + m.place, $1::bigint, $2::bigint + m.place, m.payload FROM head, (VALUES {rows}) AS m (place, payload)",
                self.shape.batch,
                self.shape.batch - 1,
            ),
        }
    }
}

impl Workload for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn about(&self) -> String {
        let Shape { pattern, partitions, batch, read, groups, bytes } = self.shape;
        let pattern = pattern.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        format!(
            "messages of {bytes} bytes as a {pattern} of {partitions} partitions, put by {batch}, read by up to {read}, {groups} groups"
        )
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS[..=self.shape.groups as usize]
    }

    fn tallies(&self) -> &'static [&'static str] {
        &TALLY_NAMES
    }

    fn statements(&self) -> Vec<String> {
        vec![
            self.insert(),
            BEGIN_QUEUE.to_owned(),
            "SELECT committed FROM readers WHERE consumer = $1 AND partition = $2 FOR UPDATE SKIP LOCKED".to_owned(),
            "SELECT \"offset\", key, number, payload FROM messages WHERE partition = $1 AND \"offset\" > $2 \
             ORDER BY \"offset\" LIMIT $3"
                .to_owned(),
            "UPDATE readers SET committed = $3 WHERE consumer = $1 AND partition = $2".to_owned(),
        ]
    }

    fn imitate(&self, statement: StatementId, params: &[Cell], answer: &mut AnswerWriter<'_>) {
        match statement {
            CLAIM => {
                answer.cell(Cell::Int(0));
                answer.end_row(1);
            }
            READ => {
                let Some(Cell::Int(committed)) = params.get(1).copied() else { return };
                for row in 1..=i64::from(self.shape.batch) {
                    for number in [committed + row, 1, row] {
                        answer.cell(Cell::Int(number));
                    }
                    answer.text(&self.payload);
                    answer.end_row(4);
                }
            }
            _ => answer.affected(1),
        }
    }

    fn choose(&self, client: &mut Client) -> Choice {
        // A put, then a read of each group, each time from another partition.
        let kind = client.deck[0];
        client.deck[0] = (kind + 1) % (self.shape.groups as u8 + 1);
        if client.deck[0] == 0 {
            let turn = u16::from_le_bytes([client.deck[1], client.deck[2]]).wrapping_add(1);
            [client.deck[1], client.deck[2]] = turn.to_le_bytes();
        }
        Choice { kind, keying: Duration::ZERO, think: Duration::ZERO }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let mut tally = [0; TALLIES];
            if kind == PUT {
                self.put(client, session).await?;
                tally[MESSAGES_PUT] = self.shape.batch;
                return Ok(Done { rolled_back: false, tally });
            }
            let count = self.read(client, kind.into(), session).await?;
            tally[MESSAGES_READ] = count;
            Ok(Done { rolled_back: count == 0, tally })
        })
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(MessagesData { of: self })
    }

    fn prepare<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            // Above the numbers of all batches that were ever begun, most of which committed.
            let there = self.mark(target).await?.unwrap_or_default();
            let begun =
                self.next.lock().expect("nobody panics with the lock").iter().copied().max().unwrap_or_default();
            self.next.lock().expect("nobody panics with the lock").clear();
            self.base.fetch_max(there, Ordering::Relaxed);
            self.base.fetch_add(begun, Ordering::Relaxed);
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
            let mut findings = Vec::new();
            for (what, sql) in [
                (
                    "partitions with gaps between offsets",
                    "SELECT count(*) FROM (SELECT partition FROM messages GROUP BY partition \
                     HAVING max(\"offset\") - min(\"offset\") + 1 <> count(*)) AS p",
                ),
                (
                    "keys in several partitions",
                    "SELECT count(*) FROM (SELECT key FROM messages GROUP BY key HAVING min(partition) <> max(partition)) AS k",
                ),
                (
                    "messages that are behind a later one of their key",
                    "SELECT count(*) FROM (SELECT number, lag(number) OVER (PARTITION BY key ORDER BY \"offset\") AS before \
                     FROM messages) AS m WHERE number <= before",
                ),
                (
                    "groups ahead of a partition",
                    "SELECT count(*) FROM readers AS r WHERE committed > \
                     (SELECT coalesce(max(\"offset\"), 0) FROM messages AS m WHERE m.partition = r.partition)",
                ),
            ] {
                let finding = Finding::count(what, session.count(sql).await?, 0, 0);
                each(&finding);
                findings.push(finding);
            }
            Ok(findings)
        })
    }

    fn mark_query(&self) -> Option<&'static str> {
        Some("SELECT count(*) FROM messages")
    }

    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let batches = |counts: &[u64]| counts.first().copied().unwrap_or_default() as i64 * i64::from(self.shape.batch);
        let least = batches(&acknowledged.committed);
        let most = least + batches(&acknowledged.unknown);
        Some(Finding::count("acknowledged messages are there, and no others", after - before, least, most))
    }

    fn audit(&self, _totals: &Totals) -> Vec<Finding> {
        Vec::new()
    }

    fn figures(&self, totals: &Totals, seconds: f64) -> Vec<(&'static str, f64)> {
        vec![
            ("messages_put_per_s", totals.tally[MESSAGES_PUT] as f64 / seconds),
            ("messages_read_per_s", totals.tally[MESSAGES_READ] as f64 / seconds),
        ]
    }
}

struct MessagesData<'m> {
    of: &'m Messages,
}

impl load::Data for MessagesData<'_> {
    fn fingerprint(&self) -> String {
        let Shape { pattern, partitions, groups, bytes, .. } = self.of.shape;
        format!("messages as {pattern:?}, {partitions} partitions, {groups} groups, {bytes} bytes")
    }

    fn tables(&self) -> Vec<String> {
        let Shape { pattern, partitions, .. } = self.of.shape;
        let with = match pattern {
            Pattern::Topic => format!(" WITH (topic_partitions = {partitions})"),
            Pattern::Table => String::new(),
        };
        vec![
            format!(
                "CREATE TABLE messages (partition integer, \"offset\" bigint, key bigint NOT NULL, number bigint NOT NULL, \
                 payload text NOT NULL, PRIMARY KEY (partition, \"offset\")){with}"
            ),
            "CREATE TABLE readers (consumer integer, partition integer, committed bigint NOT NULL, \
             PRIMARY KEY (consumer, partition))"
                .to_owned(),
            "CREATE TABLE heads (partition integer PRIMARY KEY, last bigint NOT NULL)".to_owned(),
        ]
    }

    fn indexes(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["messages", "readers", "heads"]
    }

    fn parts(&self) -> u32 {
        1
    }

    fn rows(&self) -> u64 {
        u64::from(self.of.shape.partitions * (self.of.shape.groups + 1))
    }

    fn generate(&self, _part: u32, rows: &mut PartRows) {
        let Shape { partitions, groups, .. } = self.of.shape;
        let table = rows.table("readers (consumer, partition, committed)");
        for group in 1..=groups {
            for partition in 0..partitions {
                table.int(group.into()).int(partition.into()).int(0).end_row();
            }
        }
        let table = rows.table("heads (partition, last)");
        for partition in 0..partitions {
            table.int(partition.into()).int(0).end_row();
        }
    }
}
