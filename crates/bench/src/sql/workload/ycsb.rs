//! YCSB's core workloads A to F: one table of ten fields under a key.
//!
//! | workload | operations | keys |
//! | --- | --- | --- |
//! | A, B, C | reads and updates: half and half, 95 to 5, reads only | zipfian |
//! | D | 95 % reads, 5 % inserts | latest |
//! | E | 95 % scans of 1 to 100 records, 5 % inserts | zipfian |
//! | F | reads, and read-modify-writes, half and half | zipfian |
//!
//! A read takes all fields, an update writes one. A read-modify-write is one transaction that locks
//! what it reads. Scans are in the order of keys.
//!
//! Invariants
//! - Only keys whose insert was acknowledged are asked for. A record that is not found is a
//!   failure.
//! - Zipfian, uniform and hotspot draws give keys that were loaded. Scans that begin below other
//!   keys meet these, too.
//! - A run, and each of its shards, inserts records that no other does. The *latest* records are
//!   those of this process, and before them those that were loaded: a process cannot know which
//!   records another has inserted.
//!
//! Not here: workloads of other mixes.

mod keys;

use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;

use crate::measure::random::{Random, mix};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{BEGIN, Boxed, COMMIT, Cell, FIRST, Failure, Session, StatementId, Target};
use crate::sql::workload::load::{self, PartRows};
use crate::sql::workload::{Acknowledged, Choice, Client, Done, Finding, TALLIES, Totals, TransactionKind, Workload};
pub(crate) use keys::{Inserted, Zipfian};
use keys::{Key, fnv};

const READ: u8 = 0;
const UPDATE: u8 = 1;
const INSERT: u8 = 2;
const SCAN: u8 = 3;
const MODIFY: u8 = 4;

const KINDS: [TransactionKind; 5] = [
    TransactionKind::new("Read", false),
    TransactionKind::new("Update", true),
    TransactionKind::new("Insert", true),
    TransactionKind::new("Scan", false),
    TransactionKind::new("ReadModifyWrite", true),
];

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const SCAN_MAX: i64 = 100;
const PART_ROWS: u64 = 10_000;
/// Items that the zipfian distribution is over, before they are hashed onto the keys.
pub(crate) const ZIPFIAN_ITEMS: u64 = 10_000_000_000;
/// Numbers of records that runs insert are from here to twice that; those that are loaded are far
/// below.
const INSERTS_FROM: u64 = 1 << 62;
/// Of the keys of a hotspot, and of the operations on them, in percent.
const HOT_KEYS: u64 = 20;
const HOT_OPERATIONS: u64 = 80;

const TOP: usize = 0;
const DRAWS: usize = 1;
const SCANNED: usize = 2;
const TALLY_NAMES: [&str; 3] = ["draws of the most popular key", "draws of keys", "records scanned"];

const READ_STATEMENT: StatementId = StatementId(FIRST);
const LOCK_STATEMENT: StatementId = StatementId(FIRST + 1);
const INSERT_STATEMENT: StatementId = StatementId(FIRST + 2);
const SCAN_STATEMENT: StatementId = StatementId(FIRST + 3);
/// Of the first field; those of the others follow.
const UPDATE_STATEMENT: u16 = FIRST + 4;

/// A core workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of the latest records, 5 % inserts.
    D,
    /// 95 % short scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl Letter {
    /// The two kinds, and the percentage of the first.
    fn mix(self) -> (u8, u64, u8) {
        match self {
            Self::A => (READ, 50, UPDATE),
            Self::B => (READ, 95, UPDATE),
            Self::C => (READ, 100, READ),
            Self::D => (READ, 95, INSERT),
            Self::E => (SCAN, 95, INSERT),
            Self::F => (READ, 50, MODIFY),
        }
    }

    fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Few keys often, most hardly ever; the popular ones are anywhere.
    Zipfian,
    /// Every key is as likely as any other.
    Uniform,
    /// A fifth of the keys in four fifths of the operations.
    Hotspot,
    /// What was inserted last most often.
    Latest,
}

/// The workload.
#[derive(Debug)]
pub(crate) struct Ycsb {
    letter: Letter,
    distribution: Distribution,
    records: u64,
    seed: u64,
    zipfian: Zipfian,
    /// The number of the first record that this run inserts.
    first_insert: AtomicU64,
    inserted: Inserted,
    /// The part of the clients that this process runs.
    shard: (u32, u32),
}

impl Ycsb {
    pub(crate) fn new(
        letter: Letter,
        distribution: Option<Distribution>,
        records: u64,
        seed: u64,
        shard: (u32, u32),
    ) -> Self {
        Self {
            letter,
            distribution: distribution.unwrap_or(letter.distribution()),
            records,
            seed,
            zipfian: Zipfian::new(ZIPFIAN_ITEMS),
            first_insert: AtomicU64::new(INSERTS_FROM),
            inserted: Inserted::default(),
            shard,
        }
    }

    /// The number of the record that this process inserts as its `index`th.
    fn number_of_insert(&self, index: u64) -> u64 {
        self.first_insert.load(Ordering::Relaxed) + index
    }

    /// Lets inserts begin at a number that is another for each run, as long as the one before has
    /// inserted something, and for each shard, even if one finds what another has inserted already:
    /// anywhere in 2^62, where two runs practically never overlap.
    fn begin_inserts(&self, there: u64) {
        let (shard, shards) = self.shard;
        let first = [u64::from(shard), u64::from(shards)].into_iter().fold(mix(there), |all, of| mix(all ^ of));
        self.first_insert.store(INSERTS_FROM + first % INSERTS_FROM, Ordering::Relaxed);
        self.inserted.reset();
    }

    /// Draws the number of a record that is there, and whether it is the most popular.
    fn draw(&self, random: &mut Random) -> (u64, bool) {
        match self.distribution {
            Distribution::Uniform => (random.below(self.records), false),
            Distribution::Zipfian => {
                let rank = self.zipfian.draw(random);
                (fnv(rank) % self.records, rank == 0)
            }
            Distribution::Hotspot => {
                let hot = (self.records * HOT_KEYS / 100).max(1);
                let is_hot = hot == self.records || random.chance(HOT_OPERATIONS, 100);
                let number = if is_hot { random.below(hot) } else { hot + random.below(self.records - hot) };
                (number, is_hot)
            }
            Distribution::Latest => {
                let inserted = self.inserted.visible();
                let rank = Zipfian::new(self.records + inserted).draw(random);
                let number = match inserted.checked_sub(rank + 1) {
                    // For one that failed there is the one before it.
                    Some(index) => self.inserted.up_to(index).map(|index| self.number_of_insert(index)),
                    None => Some(self.records - 1 - (rank - inserted)),
                };
                (number.unwrap_or(self.records - 1), rank == 0)
            }
        }
    }
}

fn random_field(random: &mut Random) -> [u8; FIELD_BYTES] {
    let mut field = Vec::with_capacity(FIELD_BYTES);
    random.characters(FIELD_BYTES, &mut field);
    field.try_into().expect("as many as asked for")
}

fn not_found() -> Failure {
    Failure::answer("a record that was inserted is not there")
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn about(&self) -> String {
        let Self { letter, distribution, records, .. } = self;
        format!("YCSB {letter:?}, {records} records of {FIELDS} fields of {FIELD_BYTES} bytes, keys {distribution:?}")
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS
    }

    fn tallies(&self) -> &'static [&'static str] {
        &TALLY_NAMES
    }

    fn statements(&self) -> Vec<String> {
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
        let (columns, places) =
            (fields.join(", "), (2..FIELDS + 2).map(|n| format!("${n}")).collect::<Vec<_>>().join(", "));
        let read = format!("SELECT {columns} FROM usertable WHERE ycsb_key = $1");
        let mut texts = vec![
            read.clone(),
            format!("{read} FOR UPDATE"),
            format!(
                "INSERT INTO usertable (ycsb_key, {columns}) VALUES ($1, {places}) ON CONFLICT (ycsb_key) DO NOTHING"
            ),
            format!("SELECT ycsb_key, {columns} FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2"),
        ];
        texts.extend(fields.iter().map(|field| format!("UPDATE usertable SET {field} = $2 WHERE ycsb_key = $1")));
        texts
    }

    fn imitate(&self, statement: StatementId, params: &[Cell], answer: &mut AnswerWriter<'_>) {
        const FIELD: [u8; FIELD_BYTES] = [b'x'; FIELD_BYTES];
        let rows = match (statement, params.get(1)) {
            (READ_STATEMENT | LOCK_STATEMENT, _) => 1,
            (SCAN_STATEMENT, Some(Cell::Int(limit))) => *limit,
            _ => 0,
        };
        for _ in 0..rows {
            if statement == SCAN_STATEMENT {
                answer.text(b"user1234567890123456789");
            }
            (0..FIELDS).for_each(|_| answer.text(&FIELD));
            answer.end_row(FIELDS + usize::from(statement == SCAN_STATEMENT));
        }
        answer.affected(1);
    }

    fn choose(&self, client: &mut Client) -> Choice {
        let (first, share, second) = self.letter.mix();
        let kind = if client.random.chance(share, 100) { first } else { second };
        Choice { kind, keying: std::time::Duration::ZERO, think: std::time::Duration::ZERO }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let mut tally = [0; TALLIES];
            if kind == INSERT {
                self.insert(&mut client.random, session).await?;
                return Ok(Done { rolled_back: false, tally });
            }
            let random = &mut client.random;
            let (number, is_top) = self.draw(random);
            tally[TOP] = u32::from(is_top);
            tally[DRAWS] = 1;
            let key = Key::of(number);
            match kind {
                READ => {
                    session.call(READ_STATEMENT).text(key.bytes());
                    session.run().await?;
                    if session.answer(0).text(0, FIELDS - 1).is_none() {
                        return Err(not_found());
                    }
                }
                SCAN => {
                    let limit = random.between(1, SCAN_MAX);
                    session.call(SCAN_STATEMENT).text(key.bytes()).int(limit);
                    session.run().await?;
                    let answer = session.answer(0);
                    if answer.text(0, FIELDS).is_none() {
                        return Err(not_found());
                    }
                    tally[SCANNED] = answer.rows() as u32;
                }
                _ => {
                    let field = random.below(FIELDS as u64) as u16;
                    let value = random_field(random);
                    if kind == MODIFY {
                        session.call(BEGIN);
                        session.call(LOCK_STATEMENT).text(key.bytes());
                        session.run().await?;
                        if session.answer(1).rows() == 0 {
                            return Err(not_found());
                        }
                    }
                    session.call(StatementId(UPDATE_STATEMENT + field)).text(key.bytes()).text(&value);
                    if kind == MODIFY {
                        session.call(COMMIT);
                    }
                    session.run().await?;
                    if session.answer(0).affected() != 1 {
                        return Err(not_found());
                    }
                }
            }
            Ok(Done { rolled_back: false, tally })
        })
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(YcsbData { records: self.records, seed: self.seed })
    }

    fn prepare<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let there = self.mark(target).await?.unwrap_or_default();
            self.begin_inserts(there as u64);
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
            let lengths: Vec<String> =
                (0..FIELDS).map(|field| format!("(length(field{field}) = {FIELD_BYTES}) IS NOT TRUE")).collect();
            let sql = format!("SELECT count(*) FROM usertable WHERE {}", lengths.join(" OR "));
            let mut findings = Vec::new();
            for (what, sql, least, most) in [
                ("records", "SELECT count(*) FROM usertable", self.records as i64, i64::MAX),
                ("records with a field of another length", &sql, 0, 0),
            ] {
                findings.push(Finding::count(what, session.count(sql).await?, least, most));
                each(findings.last().expect("just pushed"));
            }
            Ok(findings)
        })
    }

    fn mark_query(&self) -> Option<&'static str> {
        Some("SELECT count(*) FROM usertable")
    }

    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let least = acknowledged.committed[usize::from(INSERT)] as i64;
        let most = least + acknowledged.unknown[usize::from(INSERT)] as i64;
        Some(Finding::count("acknowledged inserts are there, and no others", after - before, least, most))
    }

    fn audit(&self, totals: &Totals) -> Vec<Finding> {
        let (first, share, second) = self.letter.mix();
        let all: u64 = totals.committed.iter().sum();
        let mut findings = Vec::new();
        let share = share as f64 / 100.0;
        for (kind, share) in [(first, share), (second, 1.0 - share)] {
            if first != second {
                let what = format!("share of {}", KINDS[usize::from(kind)].name);
                let band = (share * (1.0 - share)).sqrt() * 0.02;
                let found = totals.committed[usize::from(kind)];
                findings.push(Finding::share(&what, found, all, share, share - band, share + band));
            }
        }
        // Where the share was when the run began, and when it ended.
        let (what, began, ended) = match self.distribution {
            Distribution::Uniform => return findings,
            Distribution::Zipfian => {
                let share = 1.0 / self.zipfian.zeta();
                ("share of the most popular key", share, share)
            }
            Distribution::Hotspot => {
                let share = HOT_OPERATIONS as f64 / 100.0;
                ("share of the hot keys", share, share)
            }
            Distribution::Latest => {
                let share = |records| 1.0 / Zipfian::new(records).zeta();
                ("share of the latest key", share(self.records), share(self.records + self.inserted.visible()))
            }
        };
        let (expected, low, high) = ((began + ended) / 2.0, ended * 0.97, began * 1.03);
        findings.push(Finding::share(what, totals.tally[TOP], totals.tally[DRAWS], expected, low, high));
        findings
    }
}

impl Ycsb {
    async fn insert(&self, random: &mut Random, session: &mut Session) -> Result<(), Failure> {
        let inserting = self.inserted.begin();
        let key = Key::of(self.number_of_insert(inserting.number()));
        let mut call = session.call(INSERT_STATEMENT).text(key.bytes());
        for _ in 0..FIELDS {
            call = call.text(&random_field(random));
        }
        session.run().await?;
        if session.answer(0).affected() != 1 {
            return Err(Failure::answer("a record that was to be inserted was there"));
        }
        inserting.acknowledged();
        Ok(())
    }
}

struct YcsbData {
    records: u64,
    seed: u64,
}

impl load::Data for YcsbData {
    fn fingerprint(&self) -> String {
        format!("YCSB, {} records of {FIELDS} fields of {FIELD_BYTES} bytes, seed {}", self.records, self.seed)
    }

    fn tables(&self) -> Vec<String> {
        let fields: Vec<String> =
            (0..FIELDS).map(|field| format!("field{field} varchar({FIELD_BYTES}) NOT NULL")).collect();
        vec![format!("CREATE TABLE usertable (ycsb_key varchar(64) PRIMARY KEY, {})", fields.join(", "))]
    }

    fn indexes(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["usertable"]
    }

    fn parts(&self) -> u32 {
        self.records.div_ceil(PART_ROWS) as u32
    }

    fn rows(&self) -> u64 {
        self.records
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let random = &mut Random::new(self.seed, part.into());
        let columns =
            "usertable (ycsb_key, field0, field1, field2, field3, field4, field5, field6, field7, field8, field9)";
        let table = rows.table(columns);
        let first = u64::from(part) * PART_ROWS;
        for number in first..(first + PART_ROWS).min(self.records) {
            table.text(Key::of(number).bytes());
            for _ in 0..FIELDS {
                random.characters(FIELD_BYTES, &mut table.bytes);
                table.end_column();
            }
            table.end_row();
        }
    }
}

#[cfg(test)]
mod tests;
