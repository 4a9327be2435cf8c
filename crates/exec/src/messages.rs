//! Putting messages: rows of a topic, whose partition is chosen here and whose offset at commit.
//!
//! Messages with equal keys go to the partition that the key's hash says. Those without a key go to
//! one partition for each session: what a session puts stays in order, and is next to each other in
//! the tree.
//!
//! A row may come with an offset, as dumps bring it. It is written as a row of any table then, and
//! later messages go behind it.
//!
//! Invariants: a row that is appended has NULL as its offset whenever somebody sees it; only its
//! checks and its key are made with a number, which the store replaces.

use colibri_catalog::{PARTITIONS_MAX, Table, Topic, TopicColumns};
use colibri_txn::series;
use colibri_types::{Datum, Error, Result, SqlState, partition_hash};
use smallvec::SmallVec;

use super::Exec;

/// In the place of the offset of a row that is appended: no row has it.
const YET_UNKNOWN: i64 = series::NUMBER_MAX + 1;

const _: () = assert!(PARTITIONS_MAX < i32::MAX as u32, "partitions are of the type integer");

/// What putting messages into a topic needs from one to the next.
pub(super) struct Messages {
    topic: Topic,
    columns: TopicColumns,
    /// Where the session's messages without a key go.
    keyless: Option<i64>,
    /// The partitions that were put into.
    put: SmallVec<[i64; 4]>,
}

impl Messages {
    /// For a table that is a topic.
    pub(super) fn of(table: &Table) -> Option<Box<Self>> {
        let (topic, columns) = table.as_topic()?;
        Some(Box::new(Self { topic, columns, keyless: None, put: SmallVec::new() }))
    }

    /// Gives a row its partition. True if its offset is given at commit; it has a stand-in until
    /// [`Messages::forget_offset`].
    pub(super) fn place(&mut self, ex: &mut Exec<'_, '_>, table: &Table, row: &mut [Datum]) -> Result<bool> {
        let TopicColumns { partition, offset, key, .. } = self.columns;
        let place = match (&row[partition], key.map(|key| (&row[key], table.columns[key].ty.ty))) {
            (Datum::Int(place), _) => *place,
            (_, Some((value, ty))) if !value.is_null() && partition_hash::is_hashable(ty) => {
                (partition_hash::of_key([(ty, value)]) % u64::from(self.topic.partitions)) as i64
            }
            _ => self.keyless(ex)?,
        };
        if !(0..i64::from(self.topic.partitions)).contains(&place) {
            let message = format!("topic \"{}\" has no partition {place}", table.name);
            let last = self.topic.partitions - 1;
            return Err(Error::new(SqlState::OUT_OF_RANGE, message).detail(format!("Its partitions are 0 to {last}.")));
        }
        row[partition] = Datum::Int(place);
        if !self.put.contains(&place) {
            self.put.push(place);
        }
        match row[offset] {
            Datum::Int(number) if (1..=series::NUMBER_MAX / 2).contains(&number) => Ok(false),
            Datum::Int(number) => {
                let message = format!("offset {number} of topic \"{}\" is out of range", table.name);
                Err(Error::new(SqlState::OUT_OF_RANGE, message))
            }
            _ => {
                row[offset] = Datum::Int(YET_UNKNOWN);
                Ok(true)
            }
        }
    }

    fn keyless(&mut self, ex: &mut Exec<'_, '_>) -> Result<i64> {
        if let Some(known) = self.keyless {
            return Ok(known);
        }
        let session = match ex.cx.session.call(ex.txn, "pg_backend_pid", &[])? {
            Datum::Int(number) => number,
            _ => 0,
        };
        Ok(*self.keyless.insert(session.rem_euclid(i64::from(self.topic.partitions))))
    }

    /// The row as others may see it.
    pub(super) fn forget_offset(&self, row: &mut [Datum]) {
        row[self.columns.offset] = Datum::Null;
    }

    /// Takes over what another writer of the statement has put.
    pub(super) fn absorb(&mut self, other: &Self) {
        for place in &other.put {
            if !self.put.contains(place) {
                self.put.push(*place);
            }
        }
    }

    /// The statement has put all its messages.
    pub(super) fn finish(&mut self, ex: &mut Exec<'_, '_>, table: &Table) -> Result<()> {
        if self.put.is_empty() {
            return Ok(());
        }
        ex.cx.session.has_put(ex.txn, table, &self.put)?;
        self.put.clear();
        Ok(())
    }

    /// The statement begins anew.
    pub(super) fn again(&mut self) {
        self.put.clear();
    }
}
