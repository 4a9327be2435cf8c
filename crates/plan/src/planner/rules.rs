//! What writing to a table has to obey: conditions as they are bound, and the way to the rows that
//! refer to it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use colibri_catalog::{Check, ForeignKey, ObjectId, ReferenceAction, Table};
use colibri_types::{Error, Result, Type, pulse};
use compact_str::CompactString;

use super::constants::simplified;
use super::write::reference_access;
use crate::bind::{Binder, unique_on};
use crate::expr::Expr;
use crate::plan::{Arbiter, ForeignKeyRule, ReferenceRule, ReferredTree, TableRules};

/// What working out one rule of a foreign key takes, in units of [`pulse`]: the best way to the
/// other rows is looked for.
const UNITS_PER_REFERENCE: usize = 2_000;

impl Binder<'_> {
    /// The rules of a table, and of those whose rows its foreign keys' actions may change.
    pub fn rules(&mut self, table: &Arc<Table>) -> Result<Arc<TableRules>> {
        self.rules_by_views(table, &[])
    }

    /// The same for a statement whose new rows have to be in views, too, which have these names and
    /// conditions.
    pub fn rules_by_views(&mut self, table: &Arc<Table>, views: &[(CompactString, Expr)]) -> Result<Arc<TableRules>> {
        let mut made: HashMap<ObjectId, TableRules> = HashMap::new();
        let mut order = vec![Arc::clone(table)];
        let mut known = HashSet::from([table.id]);
        let mut next = 0;
        while let Some(table) = order.get(next).cloned() {
            next += 1;
            let rules = self.rules_of_one(&table)?;
            for rule in &rules.referenced_by {
                let acts = |action| !matches!(action, ReferenceAction::NoAction | ReferenceAction::Restrict);
                if (acts(rule.on_delete) || acts(rule.on_update)) && known.insert(rule.source.id) {
                    order.push(Arc::clone(&rule.source));
                }
            }
            made.insert(table.id, rules);
        }
        // Rules may refer to each other in circles: the first one holds all others, they find each
        // other weakly.
        let mut root = made.remove(&table.id).ok_or_else(|| Error::internal("a table has no rules"))?;
        root.of_views = root.checks.len();
        root.checks.extend(views.iter().cloned());
        let others: HashMap<ObjectId, Arc<TableRules>> =
            made.into_iter().map(|(id, rules)| (id, Arc::new(rules))).collect();
        let root = Arc::new(root);
        let find = |id: ObjectId| if id == table.id { Some(&root) } else { others.get(&id) };
        for rules in others.values().chain(std::iter::once(&root)) {
            for rule in &rules.referenced_by {
                if let Some(source) = find(rule.source.id) {
                    _ = rule.source_rules.set(Arc::downgrade(source));
                }
            }
        }
        _ = root.others.set(others.into_values().collect());
        Ok(root)
    }

    fn rules_of_one(&mut self, table: &Arc<Table>) -> Result<TableRules> {
        let mut checks = Vec::with_capacity(table.checks.len());
        for check in in_order_of_names(table) {
            let condition = self.stored_expr(&check.condition, Some(table), Type::Bool.into())?;
            checks.push((check.name.clone(), condition));
        }
        let expressions = self.index_expressions(table)?;
        let mut generated = Vec::new();
        for (place, column) in table.live_columns() {
            if let Some(text) = &column.generated {
                generated.push((place, self.stored_expr(text, Some(table), column.ty)?));
            }
        }
        let mut foreign_keys = Vec::with_capacity(table.foreign_keys.len());
        for key in table.foreign_keys.iter().filter(|_| !table.references_off) {
            foreign_keys.push(self.foreign_key_rule(table, key)?);
        }
        // Those that refer to a partitioned table refer to its partitions.
        let mut targets = self.catalog.partition_ancestors(table);
        targets.push(table.id);
        let referring = targets.iter().flat_map(|&id| self.catalog.referring_to(id));
        let mut referring: Vec<Arc<Table>> = referring.filter(|source| source.partitioned.is_none()).cloned().collect();
        referring.sort_unstable_by_key(|source| source.id);
        referring.dedup_by_key(|source| source.id);
        let keys = referring.iter().flat_map(|source| source.foreign_keys.iter().map(move |key| (source, key)));
        let mut keys: Vec<_> = keys.filter(|(_, key)| targets.contains(&key.target) && !table.references_off).collect();
        // In the order in which they were made, which is the order in which they act.
        keys.sort_unstable_by_key(|(_, key)| key.id);
        let mut referenced_by = Vec::with_capacity(keys.len());
        for (source, key) in keys {
            referenced_by.push(self.reference_rule(source, key, table)?);
        }
        let domains = self.domains_of(table)?;
        let partition = self.partition_levels(table)?;
        Ok(TableRules {
            of_views: checks.len(),
            partition,
            checks,
            domains,
            expressions,
            generated: generated.into(),
            foreign_keys,
            referenced_by,
            is_view: self.catalog.view(table.id).is_some_and(|view| !view.materialized),
            triggers: self.triggers_of(table)?,
            others: OnceLock::new(),
        })
    }

    /// The triggers of a table that may fire.
    fn triggers_of(&mut self, table: &Arc<Table>) -> Result<Option<Arc<crate::plan::Triggers>>> {
        let mut list = Vec::new();
        for trigger in table.triggers.iter().filter(|trigger| trigger.enabled != 'D') {
            let routine = self.catalog.routine(trigger.function).cloned();
            let routine = routine.ok_or_else(|| Error::internal("a trigger has no function"))?;
            let when = self.trigger_condition(table, trigger)?;
            list.push(crate::plan::TriggerRule { trigger: Arc::clone(trigger), routine, when });
        }
        if list.is_empty() {
            return Ok(None);
        }
        self.calls_routines = true;
        self.has_side_effects = true;
        let live = table.live_columns().map(|(place, _)| place).collect();
        let shape = self.row_of_relation(table.id)?;
        Ok(Some(Arc::new(crate::plan::Triggers { shape, live, list })))
    }

    /// The columns of a table that stand for expressions of indexes, with these, over all the
    /// table's columns.
    ///
    /// # Errors
    /// An expression cannot be bound.
    pub fn index_expressions(&mut self, table: &Arc<Table>) -> Result<Arc<[(usize, Expr)]>> {
        let bind = |(place, text): (usize, &str)| {
            let mut expression = self.stored_expr(text, Some(table), table.columns[place].ty)?;
            simplified(&mut expression, self.sizes, self.env);
            Ok((place, expression))
        };
        table.expressions().map(bind).collect()
    }

    pub fn foreign_key_rule(&mut self, table: &Arc<Table>, key: &ForeignKey) -> Result<ForeignKeyRule> {
        let target = if key.target == table.id { Some(table) } else { self.catalog.table(key.target) };
        let target = Arc::clone(target.ok_or_else(|| Error::internal("a foreign key refers to no table"))?);
        pulse::work(UNITS_PER_REFERENCE)?;
        self.used.push(target.id);
        let target_key = unique_on(&target, &key.target_columns)
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("a foreign key refers to columns that are not unique"))?;
        let key_order = key_order(&target, &target_key, &key.target_columns)?;
        let tree = match &target.partitioned {
            Some(_) => Some(self.referred_tree(&target, &key.target_columns)?),
            None => None,
        };
        Ok(ForeignKeyRule {
            match_full: key.match_full,
            id: key.id,
            timing: key.timing,
            name: key.name.clone(),
            columns: key.columns.clone(),
            target,
            target_key,
            key_order,
            tree,
        })
    }

    /// Where the columns of a partitioned table that a foreign key refers to are unique.
    fn referred_tree(&mut self, target: &Arc<Table>, columns: &[usize]) -> Result<ReferredTree> {
        let tree = self.tree(target)?;
        let mut keys = Vec::with_capacity(tree.leaves.len());
        for leaf in &tree.leaves {
            let own: Option<Vec<usize>> =
                columns.iter().map(|&column| leaf.columns.get(column).copied().flatten()).collect();
            let own = own.ok_or_else(|| Error::internal("a partition lacks a column of its table"))?;
            let unique = unique_on(&leaf.table, &own).into_iter().next();
            let unique = unique.ok_or_else(|| Error::internal("a partition lacks a key of its table"))?;
            let order = key_order(&leaf.table, &unique, &own)?;
            keys.push((unique, order));
        }
        Ok(ReferredTree { tree, keys })
    }

    /// `target` is the table that the key refers to, or a partition of it.
    fn reference_rule(&mut self, source: &Arc<Table>, key: &ForeignKey, target: &Table) -> Result<ReferenceRule> {
        pulse::work(UNITS_PER_REFERENCE)?;
        self.used.push(source.id);
        let columns = match self.catalog.table(key.target) {
            Some(root) if root.id != target.id => own_columns(root, target, &key.target_columns)?,
            _ => key.target_columns.clone(),
        };
        let (lookup, filter) = reference_access(source, &key.columns, self.sizes, self.env);
        let sets_default = [key.on_delete, key.on_update].contains(&ReferenceAction::SetDefault);
        let mut defaults = Vec::new();
        if sets_default {
            for &column in &key.columns {
                defaults.push(self.column_default(source, column)?);
            }
        }
        Ok(ReferenceRule {
            id: key.id,
            timing: key.timing,
            name: key.name.clone(),
            columns,
            source: Arc::clone(source),
            source_columns: key.columns.clone(),
            lookup,
            filter,
            on_delete: key.on_delete,
            on_update: key.on_update,
            delete_columns: key.delete_columns.clone(),
            defaults,
            source_rules: OnceLock::new(),
        })
    }
}

/// For each column of a unique key, which of some columns of its table it is.
fn key_order(table: &Table, key: &Arbiter, columns: &[usize]) -> Result<Vec<usize>> {
    let ordered: Vec<usize> = match key {
        Arbiter::Key => table.key_columns().to_vec(),
        Arbiter::Index(index) => index.columns.iter().map(|column| column.column).collect(),
    };
    ordered
        .iter()
        .map(|column| columns.iter().position(|target| target == column))
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| Error::internal("a foreign key's columns are not its target's key"))
}

/// Columns of a partitioned table as those of a partition.
fn own_columns(root: &Table, partition: &Table, columns: &[usize]) -> Result<Vec<usize>> {
    let own = |&column: &usize| {
        let place = partition.column(&root.columns[column].name);
        place.ok_or_else(|| Error::internal("a partition lacks a column of its table"))
    };
    columns.iter().map(own).collect()
}

/// The CHECKs of a table in the order in which a row is held against them, which decides about
/// which of several violated ones the error is.
fn in_order_of_names(table: &Table) -> Vec<&Check> {
    let mut checks: Vec<&Check> = table.checks.iter().collect();
    checks.sort_unstable_by(|one, other| one.name.as_bytes().cmp(other.name.as_bytes()));
    checks
}
