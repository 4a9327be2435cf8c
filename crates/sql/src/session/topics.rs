//! Topics, as a session sees them: who waits for messages, which messages are too old, and the
//! functions under those of the extension `topic`.
//!
//! ```text
//! INSERT ─► has_put: notify, retention ─► commit ─► Hub::has_committed ─► deliver ─► waiting readers
//! topic.read ─► nothing there ─► wait_for_message ─► the statement is taken back, and runs again then
//! ```
//! A reader that waits has no thread. Its statement runs again from its start when a message may
//! have come, on a newer snapshot, or when its time is over.
//!
//! Invariants
//! - A reader waits only if no transaction that it does not see has put into the topic: the hub
//!   says so under the lock under which it begins to wait.
//! - Retention cuts messages off whose age, or the bytes of all of them, exceed what the topic
//!   keeps by a sixteenth. So most statements only look at the oldest message of a partition.

use std::time::{Duration, Instant};

use colibri_catalog::cluster::{ObjectKind, Privileges};
use colibri_catalog::record::{self, RowReader};
use colibri_catalog::store_error::{InSql as _, Pause, in_sql};
use colibri_catalog::{Table, Topic, TopicColumns};
use colibri_txn::{Direction, Interruption, Key, Transaction, series};
use colibri_types::{Datum, Error, Result, SqlState, env, types::NAME_BYTES_MAX};
use compact_str::CompactString;

use super::notifications::Readiness;
use super::own::Own;

/// What is cut off exceeds what is kept by one part in so many.
const SLACK: i64 = 16;

/// The channel on which listeners hear of messages put into a topic.
fn channel(topic: &Table) -> CompactString {
    let mut name = CompactString::const_new("topic.");
    for letter in topic.name.chars() {
        if name.len() + letter.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        name.push(letter);
    }
    name
}

/// A partition at work.
struct Partition<'t> {
    table: &'t Table,
    prefix: Key,
}

impl<'t> Partition<'t> {
    fn new(table: &'t Table, number: i64) -> Result<Self> {
        Ok(Self { table, prefix: record::key_from_values(table, [&Datum::Int(number)])? })
    }

    /// The first message with an offset in a range, from one side.
    fn edge(
        &self,
        txn: &mut dyn Transaction,
        offsets: std::ops::RangeInclusive<i64>,
        from: Direction,
    ) -> Result<Option<(i64, Key, Vec<u8>)>> {
        let found = txn.edge(&self.table.space(), &series::range(&self.prefix, offsets), from).in_sql()?;
        Ok(found.and_then(|(key, value)| Some((series::split(&key)?.1, key, value))))
    }

    fn end(&self, txn: &mut dyn Transaction, from: Direction) -> Result<Option<(i64, Key, Vec<u8>)>> {
        self.edge(txn, 1..=series::NUMBER_MAX, from)
    }

    /// When a message was put.
    fn put_at(reader: &RowReader, key: &[u8], value: &[u8]) -> Result<i64> {
        let mut row = [Datum::Null];
        reader.read(key, value, &mut row)?;
        match row[0] {
            Datum::Timestamp(at) => Ok(at),
            // Without a time it is never too old.
            _ => Ok(i64::MAX),
        }
    }

    /// The offset below which messages are too old.
    fn too_old(&self, txn: &mut dyn Transaction, column: usize, before_us: i64, slack_us: i64) -> Result<Option<i64>> {
        let reader = RowReader::new(self.table, &[column]);
        let Some((first, key, value)) = self.end(txn, Direction::Forward)? else { return Ok(None) };
        if Self::put_at(&reader, &key, &value)? >= before_us.saturating_sub(slack_us) {
            return Ok(None);
        }
        let Some((last, ..)) = self.end(txn, Direction::Backward)? else { return Ok(None) };
        // The first that is young enough is in (low, high].
        let (mut low, mut high) = (first, last);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let Some((found, key, value)) = self.edge(txn, middle..=high, Direction::Forward)? else { break };
            if Self::put_at(&reader, &key, &value)? < before_us {
                low = found;
            } else {
                high = middle;
            }
        }
        Ok(Some(high))
    }
}

impl Own {
    /// A statement has put messages into partitions of a topic.
    pub(super) fn put_messages(&mut self, txn: &mut dyn Transaction, table: &Table, partitions: &[i64]) -> Result<()> {
        let session = self.number;
        self.notifications.put_into(session, table.id, &channel(table))?;
        self.keep_to_retention(txn, table, partitions, SLACK)
    }

    /// Cuts off what a topic need not keep, if that is more than a part in `slack` too much.
    fn keep_to_retention(
        &self,
        txn: &mut dyn Transaction,
        table: &Table,
        partitions: &[i64],
        slack: i64,
    ) -> Result<()> {
        let Some((topic, TopicColumns { put_at, .. })) = table.as_topic() else { return Ok(()) };
        let kept = self.part_to_keep(&topic, table, slack)?;
        for &number in partitions {
            let partition = Partition::new(table, number)?;
            let mut below = None;
            if let (Some(kept_us), Some(column)) = (topic.retention_us, put_at) {
                let slack_us = kept_us.checked_div(slack).unwrap_or(0);
                below = partition.too_old(txn, column, env::clock_us().saturating_sub(kept_us), slack_us)?;
            }
            if let Some((bytes_kept, bytes)) = kept
                && let Some((first, ..)) = partition.end(txn, Direction::Forward)?
                && let Some((last, ..)) = partition.end(txn, Direction::Backward)?
            {
                let count = i128::from(last - first + 1) * i128::from(bytes_kept) / i128::from(bytes);
                let first_kept = i128::from(last) + 1 - count;
                below = below.max(i64::try_from(first_kept).ok().filter(|&it| it > first));
            }
            if let Some(below) = below {
                txn.cut(&table.space(), &partition.prefix, below).in_sql()?;
            }
        }
        Ok(())
    }

    /// How many bytes of how many a topic is to keep, if it has too many.
    fn part_to_keep(&self, topic: &Topic, table: &Table, slack: i64) -> Result<Option<(u64, u64)>> {
        let Some(kept) = topic.retention_bytes else { return Ok(None) };
        let bytes = self.engine.store.space_size(table.space().id).in_sql()?.map_or(0, |size| size.bytes);
        let limit =
            kept.saturating_add(u64::try_from(slack).ok().and_then(|slack| kept.checked_div(slack)).unwrap_or(0));
        Ok((bytes > limit).then_some((kept, bytes)))
    }

    /// A topic by its number, for somebody with a privilege on it.
    fn topic(&self, number: &Datum, needed: Privileges) -> Result<std::sync::Arc<Table>> {
        let number = match number {
            Datum::Int(number) => u32::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let Some(table) = self.catalog.table(number).cloned() else {
            return Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation with OID {number} does not exist")));
        };
        let has = self.authority.privileges(ObjectKind::Table, table.owner, table.acl.as_ref());
        if has.common(needed).is_empty() {
            return Err(Error::denied("table", &table.name));
        }
        if table.as_topic().is_none() {
            let message = format!("\"{}\" is not a topic", table.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("A topic is a table WITH (topic_partitions = n): see topic.create."));
        }
        Ok(table)
    }

    /// A function of topics; `None` if there is none of this name.
    pub(super) fn call_of_topics(
        &mut self,
        txn: &mut dyn Transaction,
        name: &str,
        args: &[Datum],
    ) -> Option<Result<Datum>> {
        Some(match name {
            "colibri_topic_partitions" => self
                .topic(&args[0], Privileges::SELECT)
                .map(|table| Datum::Int(table.as_topic().map_or(0, |(topic, _)| topic.partitions.into()))),
            "colibri_topic_first" => self.end_of(txn, args, Direction::Forward),
            "colibri_topic_last" => self.end_of(txn, args, Direction::Backward),
            "colibri_topic_trim" => self.trim(txn, args),
            "colibri_topic_wait" => self.wait_for_message(txn, args),
            "colibri_topic_channel" => {
                self.topic(&args[0], Privileges::SELECT).map(|table| Datum::Text(channel(&table)))
            }
            _ => return None,
        })
    }

    /// The first or last offset of a partition; NULL if nothing was ever put there.
    fn end_of(&self, txn: &mut dyn Transaction, args: &[Datum], from: Direction) -> Result<Datum> {
        let table = self.topic(&args[0], Privileges::SELECT)?;
        let Datum::Int(number) = args[1] else { return Ok(Datum::Null) };
        let end = Partition::new(&table, number)?.end(txn, from)?;
        Ok(end.map_or(Datum::Null, |(offset, ..)| Datum::Int(offset)))
    }

    /// Removes what a topic need not keep, or all messages of a partition below an offset.
    fn trim(&self, txn: &mut dyn Transaction, args: &[Datum]) -> Result<Datum> {
        let table = self.topic(&args[0], Privileges::SELECT)?;
        if !self.authority.has_role(table.owner) {
            return Err(Error::not_owner("table", &table.name));
        }
        let partitions = table.as_topic().map_or(0, |(topic, _)| i64::from(topic.partitions));
        match (args.get(1), args.get(2)) {
            (Some(Datum::Int(number)), Some(Datum::Int(below))) => {
                let prefix = Partition::new(&table, *number)?.prefix;
                txn.cut(&table.space(), &prefix, *below).in_sql()?;
            }
            _ => {
                let all: Vec<i64> = (0..partitions).collect();
                self.keep_to_retention(txn, &table, &all, 0)?;
            }
        }
        Ok(Datum::text(""))
    }

    /// Has the statement wait until somebody puts into a topic, or a time has come. Then it runs
    /// again from its start.
    fn wait_for_message(&mut self, txn: &mut dyn Transaction, args: &[Datum]) -> Result<Datum> {
        let table = self.topic(&args[0], Privileges::SELECT)?;
        let left_us = match args[1] {
            Datum::Timestamp(until) => until.saturating_sub(env::clock_us()),
            _ => 0,
        };
        let Ok(left_us @ 1..) = u64::try_from(left_us) else { return Ok(Datum::text("")) };
        let deadline = Instant::now().checked_add(Duration::from_micros(left_us));
        match self.engine.notifications().wait_for_message(table.id, txn.sees()) {
            Readiness::Now => Err(in_sql(colibri_txn::Error::Interrupted(Interruption::Stale))),
            Readiness::Later(wait) => {
                let wait = deadline.map_or(wait.clone(), |deadline| wait.until(deadline));
                Err(Error::interruption(Pause::FetchAnew(wait)))
            }
        }
    }
}
