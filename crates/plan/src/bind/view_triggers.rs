//! Views whose INSTEAD OF triggers do what a statement says.
//!
//! To such a statement the view is a table of the view's columns, without a key. Its rows are those
//! of the view's query, and what it writes goes to the triggers, which are in the rules of that
//! table.

use std::sync::Arc;

use colibri_catalog::{Column as TableColumn, Table, Trigger, TriggerTime, View};
use colibri_types::{ColumnType, Datum, Result, Type};

use super::Binder;
use super::collation::Collation;
use super::logical::{Body, Column, Distinct, From, Query, Relation, Select, Source};
use super::view_target::Writing;
use crate::expr::Expr;

/// Whether a view has triggers that stand for a kind of statement.
pub(super) fn has_instead(view: &View, writing: Writing) -> bool {
    let event = match writing {
        Writing::Insert => Trigger::INSERT,
        Writing::Update => Trigger::UPDATE,
        Writing::Delete => Trigger::DELETE,
    };
    let is_meant = |trigger: &Arc<Trigger>| {
        trigger.timing == TriggerTime::InsteadOf && trigger.events & event != 0 && trigger.enabled != 'D'
    };
    view.triggers.iter().any(is_meant)
}

impl Binder<'_> {
    /// A view as the table that its triggers take it for.
    ///
    /// # Errors
    /// Its query cannot be bound.
    pub fn view_as_table(&mut self, view: &Arc<View>) -> Result<Table> {
        let needs = self.needs.len();
        let query = self.view(view)?;
        // Reading is no matter of a statement that does not read.
        self.needs.truncate(needs);
        let column = |(place, column): (usize, &Column)| TableColumn {
            name: column.name.clone(),
            ty: ColumnType { domain: None, ..column.ty },
            not_null: false,
            default: view.defaults.get(&place).cloned(),
            missing: None,
            identity: None,
            dropped: false,
            collation: None,
            generated: None,
            expression: None,
            inherited_only: false,
            storage: colibri_catalog::ColumnStorage::default(),
        };
        let mut table = Table {
            id: view.id,
            schema: view.schema.clone(),
            name: view.name.clone(),
            space: view.id,
            columns: query.columns.iter().enumerate().map(column).collect(),
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            generations: colibri_catalog::Generations::default(),
            owner: view.owner,
            acl: view.acl.clone(),
            materialized: None,
            domains_changed: 0,
            on_commit: None,
            triggers: view.triggers.clone(),
            security: colibri_catalog::RowSecurity::default(),
            column_acls: Default::default(),
            references_off: false,
            partitioned: None,
            partition_of: None,
            inherits: Vec::new(),
            replica_identity: colibri_catalog::ReplicaIdentity::Default,
            children: Vec::new(),
            topic: None,
            compression: None,
            layout: None,
        };
        table.renew_layout();
        Ok(table)
    }

    /// The rows of a view as rows of such a table: with a column behind them that is never NULL.
    pub(super) fn rows_of_view(&mut self, view: &Arc<View>) -> Result<Source> {
        let query = self.view(view)?;
        let width = query.columns.len();
        let mut columns = query.columns.clone();
        columns.push(Column {
            name: Default::default(),
            ty: Type::Int8.into(),
            origin: None,
            collation: Collation::Default,
        });
        let mut output: Vec<Expr> = (0..width).map(Expr::Column).collect();
        output.push(Expr::Const(Datum::Int(0)));
        let select = Select {
            relations: vec![Relation::new(0, width, Source::Query(Box::new(query)), view.name.clone())],
            from: Some(From::Relation(0)),
            filter: Vec::new(),
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output,
            distinct: Distinct::No,
        };
        Ok(Source::Query(Box::new(Query::plain(Body::Select(Box::new(select)), columns))))
    }
}
