//! Topics: tables of messages, which nobody changes, numbered by partition when they are committed.
//!
//! A topic is a table WITH (`topic_partitions` = n) whose primary key is a partition and an offset.
//! Its rows are a [series](colibri_txn::series) for each partition. Everything else about it is as
//! with any table: names, privileges, dumps, queries.
//!
//! Invariants: a topic has no indexes but its key, refers to no table and is referred to by none,
//! is part of no tree of tables, and fires no trigger that would see a row before it has its
//! offset.

use colibri_types::{Error, Result, SqlState, Type};

use crate::objects::{Table, Topic, Trigger, TriggerTime};

/// The columns of a topic that mean something, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicColumns {
    /// The partition, an integer.
    pub partition: usize,
    /// The number in its partition, a bigint.
    pub offset: usize,
    /// The column `key`: messages with equal keys are in one partition.
    pub key: Option<usize>,
    /// The column `put_at`, a timestamptz: when a message was put.
    pub put_at: Option<usize>,
}

impl Table {
    /// What it is as a topic; `None` of another table, or of one that has yet to get its key, as
    /// dumps make them.
    #[must_use]
    pub fn as_topic(&self) -> Option<(Topic, TopicColumns)> {
        let topic = self.topic?;
        let [partition, offset] = self.primary_key.as_ref()?.columns[..] else { return None };
        let named = |name: &str| self.column(name);
        let put_at = named("put_at").filter(|&column| self.columns[column].ty.ty == Type::TimestampTz);
        Some((topic, TopicColumns { partition, offset, key: named("key"), put_at }))
    }

    /// Refuses a topic that has what a topic cannot have.
    ///
    /// # Errors
    /// 42P16 for another key, 0A000.
    pub fn check_topic(&self, is_temporary: bool) -> Result<()> {
        if self.topic.is_none() {
            return Ok(());
        }
        let cannot = |what: &str| {
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("topic \"{}\" cannot {what}", self.name)))
        };
        if let Some(key) = &self.primary_key {
            let types: Vec<Type> = key.columns.iter().map(|&column| self.columns[column].ty.ty).collect();
            if types != [Type::Int4, Type::Int8] || key.columns.iter().any(|&it| self.columns[it].ty.domain.is_some()) {
                let message = format!("the primary key of topic \"{}\" must be an integer and a bigint", self.name);
                return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message)
                    .detail("The first is the partition of a message, the second its offset there."));
            }
            let is_made = |&column: &usize| {
                let column = &self.columns[column];
                column.default.is_some() || column.identity.is_some() || column.generated.is_some()
            };
            if key.columns.iter().any(is_made) {
                return cannot("have a default for a partition or an offset");
            }
        }
        if is_temporary {
            return cannot("be temporary");
        }
        if !self.indexes.is_empty() {
            return cannot("have an index besides its primary key");
        }
        if !self.foreign_keys.is_empty() {
            return cannot("have foreign keys");
        }
        let is_part = self.partitioned.is_some() || self.partition_of.is_some();
        if is_part || !self.inherits.is_empty() || !self.children.is_empty() {
            return cannot("be partitioned or part of another table");
        }
        let sees_rows =
            |trigger: &Trigger| trigger.timing != TriggerTime::Before && trigger.row || trigger.new_table.is_some();
        if self.triggers.iter().any(|trigger| sees_rows(trigger)) {
            return cannot("have triggers that see rows after they are put");
        }
        Ok(())
    }
}
