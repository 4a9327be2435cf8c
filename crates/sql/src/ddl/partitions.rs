//! Partitioned tables: what they are divided by, their partitions, ATTACH and DETACH.
//!
//! Whatever a partitioned table has (columns, constraints, indexes) its partitions have as well. What
//! changes it changes these, so that a partition can be read and written as a table of its own.
//!
//! Invariants: a partition's columns have the names and types of its table's, in any order; each index
//! and key of the table has a part in each partition, whose `parent` it is; no two partitions of a
//! table take the same row.

use std::sync::Arc;

use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{
    Catalog, Change, Check, Column, ForeignKey, Index, IndexColumn, PartitionBound, PartitionOf, PartitionStrategy,
    Partitioned, PrimaryKey, RangeBound, Table,
};
use colibri_syntax::tree::PartitionChange;
use colibri_types::{
    ColumnType, Datum, Env, Error, Result, SqlState, Type, cast::CastContext, partition_hash, text_io,
};
use compact_str::CompactString;
use sqlparser::ast::{self, ColumnOption};
use sqlparser::tokenizer::Span;

use super::Session;
use super::create::Draft;
use super::inheritance::{expect_compatible, mismatch, take_checks};
use crate::bind::{self, fold, rewrite};
use crate::exec::constraints::validate;
use crate::expr::Expr;
use crate::plan::partitions::{Bound, Edge, compare_edges};

/// The most columns of a partition's key.
const PARTITION_KEYS_MAX: usize = 32;

fn wrong_table(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_TABLE_DEFINITION, message.into())
}

fn wrong_object(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_OBJECT_DEFINITION, message.into())
}

pub(super) fn name_of(parts: &[CompactString]) -> ast::ObjectName {
    let ident = |part: &CompactString| ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', part.as_str()));
    ast::ObjectName(parts.iter().map(ident).collect())
}

/// Which columns of a key of a table are missing among others, by their names.
fn missing_key_columns(table: &Table, columns: &[usize]) -> Vec<CompactString> {
    let keys = table.partitioned.iter().flat_map(|partitioned| &partitioned.keys);
    keys.filter(|key| !columns.contains(key)).map(|&key| table.columns[key].name.clone()).collect()
}

/// 0A000 if a unique key of a partitioned table leaves out a column of what it is divided by.
pub(super) fn expect_whole_key(table: &Table, columns: &[usize], what: &str) -> Result<()> {
    let Some(partitioned) = &table.partitioned else { return Ok(()) };
    if partitioned.keys.iter().any(|&key| table.columns[key].expression.is_some()) {
        let message = format!("unsupported {what} constraint with partition key definition");
        let detail = format!("{what} constraints cannot be used when partition keys include expressions.");
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
    }
    match missing_key_columns(table, columns).first() {
        None => Ok(()),
        Some(column) => {
            let message = "unique constraint on partitioned table must include all partitioning columns";
            let detail = format!(
                "{what} constraint on table \"{}\" lacks column \"{column}\" which is part of the partition key.",
                table.name
            );
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
        }
    }
}

/// 42809 if one of a table and a partition of it is of a session alone.
fn expect_same_lifetime(parent: &Table, partition_is_temporary: bool, verb: &str) -> Result<()> {
    let (one, other) = match (is_temporary(parent.id), partition_is_temporary) {
        (true, false) => ("permanent", "temporary"),
        (false, true) => ("temporary", "permanent"),
        _ => return Ok(()),
    };
    let message = format!("cannot {verb} a {one} relation as partition of {other} relation \"{}\"", parent.name);
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
}

/// The types of a table's key.
fn key_types(table: &Table) -> Vec<ColumnType> {
    let keys = table.partitioned.iter().flat_map(|partitioned| &partitioned.keys);
    keys.map(|&key| table.columns[key].ty).collect()
}

fn shown_edges(edges: &[Edge], types: &[ColumnType], env: &Env) -> String {
    let shown = |(edge, ty): (&Edge, &ColumnType)| match edge {
        Edge::Min => "MINVALUE".to_owned(),
        Edge::Max => "MAXVALUE".to_owned(),
        Edge::Value(value) => {
            let mut text = String::new();
            text_io::write(ty.ty, value, env, &mut text);
            match value {
                Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_) => text,
                _ => format!("'{}'", text.replace('\'', "''")),
            }
        }
    };
    edges.iter().zip(types).map(shown).collect::<Vec<_>>().join(", ")
}

impl Session {
    /// `PARTITION BY …` of a new table that has its columns.
    pub(super) fn partition_by(&mut self, draft: &mut Draft, by: &ast::Expr) -> Result<()> {
        let ast::Expr::Tuple(parts) = by else { return Err(Error::internal("PARTITION BY has another form")) };
        let Some((ast::Expr::Identifier(word), parts)) = parts.split_first() else {
            return Err(Error::internal("PARTITION BY has no strategy"));
        };
        let strategy = match fold(word).as_str() {
            "range" => PartitionStrategy::Range,
            "list" => PartitionStrategy::List,
            "hash" => PartitionStrategy::Hash,
            other => {
                let message = format!("unrecognized partitioning strategy \"{other}\"");
                return Err(Error::new(SqlState::BAD_PARAMETER, message));
            }
        };
        if parts.len() > PARTITION_KEYS_MAX {
            let message = format!("cannot partition using more than {PARTITION_KEYS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        if strategy == PartitionStrategy::List && parts.len() > 1 {
            return Err(wrong_object("cannot use \"list\" partition strategy with more than one column"));
        }
        let mut keys = Vec::with_capacity(parts.len());
        for part in parts {
            let place = self.partition_key(&mut draft.table, part)?;
            self.expect_order_of_bytes(&draft.table, place, part, strategy)?;
            let ty = draft.table.columns[place].ty.ty;
            let (is_possible, method) = match strategy {
                PartitionStrategy::Hash => (partition_hash::is_hashable(ty), "hash"),
                _ => (colibri_types::key::is_indexable(ty), "btree"),
            };
            if !is_possible {
                if !ty.is_ordered() {
                    let ty = ty.sql_name();
                    let message =
                        format!("data type {ty} has no default operator class for access method \"{method}\"");
                    let hint = format!(
                        "You must specify a {method} operator class or define a default {method} operator class for the data type."
                    );
                    return Err(Error::new(SqlState::NO_SUCH_OBJECT, message).hint(hint));
                }
                return Err(Error::unsupported(format_args!("partitioning by {} of type {ty}", strategy.word())));
            }
            keys.push(place);
        }
        draft.table.partitioned = Some(Partitioned { strategy, keys, partitions: Vec::new() });
        Ok(())
    }

    /// Refuses a key whose collation finds other values equal than those of the same bytes, or has
    /// another order where that matters.
    fn expect_order_of_bytes(
        &self,
        table: &Table,
        place: usize,
        part: &ast::Expr,
        strategy: PartitionStrategy,
    ) -> Result<()> {
        let mut part = part;
        while let ast::Expr::Nested(inner) = part {
            part = inner;
        }
        let column = &table.columns[place];
        if matches!(part, ast::Expr::Collate { .. }) || !bind::collation::has_order(column.ty.ty) {
            return Ok(());
        }
        let collation = column.collation.as_deref().unwrap_or("default");
        match bind::collation::order_of(self.catalog(), collation) {
            Some(order) if !order.deterministic => {
                Err(Error::unsupported("a partition key by a nondeterministic collation"))
            }
            Some(_) if strategy == PartitionStrategy::Range => {
                Err(Error::unsupported("a partition key by a collation but C"))
            }
            _ => Ok(()),
        }
    }

    /// The column of a table that a part of a key is.
    fn partition_key(&mut self, table: &mut Table, part: &ast::Expr) -> Result<usize> {
        let part = match part {
            ast::Expr::Nested(inner) => inner,
            other => other,
        };
        let part = match part {
            ast::Expr::Collate { expr, collation } if matches!(**expr, ast::Expr::Identifier(_)) => {
                let named = self.column_collation(collation, Type::Text)?;
                if named.is_some_and(|name| bind::collation::order_of(self.catalog(), &name).is_some()) {
                    return Err(Error::unsupported("a partition key by a collation but C"));
                }
                expr
            }
            other => other,
        };
        if let ast::Expr::Identifier(ident) = part {
            let name = fold(ident);
            if ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"].contains(&name.as_str()) {
                let message = format!("cannot use system column \"{name}\" in partition key");
                return Err(wrong_object(message));
            }
            let place = table.column(&name).ok_or_else(|| {
                let message = format!("column \"{name}\" named in partition key does not exist");
                Error::new(SqlState::NO_SUCH_COLUMN, message)
            })?;
            if table.columns[place].generated.is_some() {
                return Err(wrong_object("cannot use generated column in partition key")
                    .detail(format!("Column \"{name}\" is a generated column.")));
            }
            return Ok(place);
        }
        let text = self.stored_text(part)?;
        let bound = self.with_binder("", |binder| binder.index_expr(&text, table)).map_err(|error| {
            let message = error.report().message.clone();
            match error.state() {
                SqlState::BAD_OBJECT_DEFINITION if message.contains("IMMUTABLE") => {
                    wrong_object("functions in partition key expression must be marked IMMUTABLE")
                }
                _ => Error::new(error.state(), message.replace("index expression", "partition key expression")),
            }
        })?;
        if !rewrite::any(&bound.expr, &|part| matches!(part, Expr::Column(_))) {
            return Err(wrong_object("cannot use constant expression as partition key"));
        }
        table.columns.push(Column::of_expression("", bound.ty, text));
        Ok(table.columns.len() - 1)
    }

    /// The partitioned table of a name, that the user may give partitions.
    fn partitioned_table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let table = self.find_table(name)?;
        match table.partitioned {
            Some(_) => Ok(table),
            None => Err(wrong_object(format!("\"{}\" is not partitioned", table.name))),
        }
    }

    /// Gives a new partition the columns and the CHECKs of its table.
    pub(super) fn columns_of_parent(&mut self, draft: &mut Draft, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let parent = self.partitioned_table(name)?;
        self.expect_not_in_use(&parent, "CREATE TABLE .. PARTITION OF")?;
        expect_same_lifetime(&parent, is_temporary(draft.table.id), "create")?;
        // A partition is compressed as its table is, unless it says so itself.
        draft.table.compression = draft.table.compression.or(parent.compression);
        for (_, column) in parent.live_columns() {
            let own = Column { missing: None, identity: None, ..column.clone() };
            draft.table.columns.push(own);
        }
        for check in parent.checks.iter().filter(|check| !check.no_inherit) {
            let id = self.new_id_in(&draft.table.schema)?;
            draft.table.checks.push(Check { id, not_valid: false, inherited: true, declared: false, ..check.clone() });
        }
        Ok(parent)
    }

    /// What a new partition says of a column that it has from its table.
    pub(super) fn refine_column(&mut self, draft: &mut Draft, definition: &ast::ColumnDef) -> Result<()> {
        let name = fold(&definition.name);
        let Some(place) = draft.table.column(&name) else {
            return Err(Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")));
        };
        for option in &definition.options {
            match &option.option {
                ColumnOption::Null
                | ColumnOption::PrimaryKey(_)
                | ColumnOption::Unique(_)
                | ColumnOption::ForeignKey(_)
                | ColumnOption::Check(_) => {}
                ColumnOption::NotNull => draft.table.columns[place].not_null = true,
                ColumnOption::Default(expr) => {
                    let column = draft.table.columns[place].clone();
                    if column.generated.is_some() {
                        let message = format!("column \"{name}\" inherits from generated column but specifies default");
                        return Err(Error::new(SqlState("42611"), message));
                    }
                    draft.table.columns[place].default = self.checked_default(expr, &column)?;
                }
                ColumnOption::Collation(name) => {
                    self.column_collation(name, draft.table.columns[place].ty.ty)?;
                }
                other => return Err(Error::unsupported(format_args!("{other} of a partition's column"))),
            }
        }
        Ok(())
    }

    /// Says which rows a new table takes as a partition.
    pub(super) fn become_partition(
        &mut self,
        draft: &mut Draft,
        parent: &Arc<Table>,
        bound: &ast::ForValues,
    ) -> Result<()> {
        let parent = self.current(parent.id)?;
        let bound = self.partition_bound(&parent, &draft.table.name, bound)?;
        draft.table.partition_of = Some(PartitionOf { parent: parent.id, bound });
        Ok(())
    }

    /// Gives a new table the keys, indexes and foreign keys of the table that it is a partition of.
    pub(super) fn inherit_keys(&mut self, draft: &mut Draft, parent: &Arc<Table>) -> Result<()> {
        if let Some(key) = &parent.primary_key {
            if draft.table.primary_key.is_some() {
                let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.table.name);
                return Err(wrong_table(message));
            }
            let columns = own_columns(parent, &draft.table, &key.columns)?;
            let include = own_columns(parent, &draft.table, &key.include)?;
            expect_whole_key(&draft.table, &columns, "PRIMARY KEY")?;
            columns.iter().for_each(|&column| draft.table.columns[column].not_null = true);
            let name = self.free_name(&draft.table.schema, &[&draft.table.name], "pkey", &draft.names);
            let id = self.new_id_in(&draft.table.schema)?;
            draft.names.push(name.clone());
            draft.table.primary_key = Some(PrimaryKey { id, name, columns, parent: Some(key.id), include });
        }
        for index in &parent.indexes {
            let mut own = self.own_index(parent, index, &mut draft.table, &draft.names)?;
            // One that the new table says itself is a part of the other one.
            let same = |known: &Arc<Index>| is_same_index(known, &own) && known.parent.is_none();
            if let Some(at) = draft.table.indexes.iter().position(same) {
                Arc::make_mut(&mut draft.table.indexes[at]).parent = Some(index.id);
                continue;
            }
            own.parent = Some(index.id);
            draft.names.push(own.name.clone());
            draft.table.indexes.push(Arc::new(own));
        }
        for key in &parent.foreign_keys {
            let own = self.own_foreign_key(parent, key, &draft.table, &draft.names)?;
            draft.table.foreign_keys.push(own);
        }
        self.inherit_triggers(&mut draft.table, parent)
    }

    /// An index of a partitioned table as one of a partition, with new numbers and a name of its own.
    fn own_index(
        &mut self,
        parent: &Table,
        index: &Index,
        table: &mut Table,
        taken: &[CompactString],
    ) -> Result<Index> {
        let mut columns = Vec::with_capacity(index.columns.len());
        for part in &index.columns {
            columns.push(IndexColumn { column: own_place(parent, table, part.column)?, ..*part });
        }
        if index.unique {
            let places: Vec<usize> = columns.iter().map(|part| part.column).collect();
            expect_whole_key(table, &places, "UNIQUE")?;
        }
        let predicate = index.predicate.map(|column| own_place(parent, table, column)).transpose()?;
        let include = own_columns(parent, table, &index.include)?;
        let all = columns.iter().map(|part| part.column).chain(include.iter().copied());
        let named = all.map(|column| table.columns[column].name.to_string());
        let named = named.map(|name| if name.is_empty() { "expr".to_owned() } else { name });
        let parts: Vec<String> = std::iter::once(table.name.to_string()).chain(named).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let suffix = if index.constraint { "key" } else { "idx" };
        let name = self.free_name(&table.schema, &parts, suffix, taken);
        let (id, space) = (self.new_id_in(&table.schema)?, self.new_id_in(&table.schema)?);
        Ok(Index { id, name, space, columns, predicate, parent: Some(index.id), include, ..index.clone() })
    }

    fn own_foreign_key(
        &mut self,
        parent: &Table,
        key: &ForeignKey,
        table: &Table,
        taken: &[CompactString],
    ) -> Result<ForeignKey> {
        let columns = own_columns(parent, table, &key.columns)?;
        let name = if super::constraint::has_constraint(table, &key.name) {
            let named = columns.iter().map(|&column| table.columns[column].name.to_string());
            let parts: Vec<String> = std::iter::once(table.name.to_string()).chain(named).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let of_table = table.foreign_keys.iter().map(|key| key.name.clone());
            let taken: Vec<CompactString> = taken.iter().cloned().chain(of_table).collect();
            self.free_name(&table.schema, &parts, "fkey", &taken)
        } else {
            key.name.clone()
        };
        let delete_columns = own_columns(parent, table, &key.delete_columns)?;
        Ok(ForeignKey {
            id: self.new_id_in(&table.schema)?,
            name,
            columns,
            delete_columns,
            parent: Some(key.id),
            ..key.clone()
        })
    }

    /// Enters a partition into the list of its table, and looks whether the default partition has
    /// rows that it should have.
    pub(super) fn add_to_parent(&mut self, parent: u32, partition: u32) -> Result<()> {
        let mut changed = (*self.current(parent)?).clone();
        let default = self.default_partition(&changed);
        if let Some(partitioned) = &mut changed.partitioned {
            partitioned.partitions.push(partition);
        }
        self.change(vec![Change::PutTable(changed)])?;
        if let Some(default) = default.filter(|&default| default != partition) {
            self.check_partition_rows(default, true)?;
        }
        Ok(())
    }

    fn default_partition(&self, table: &Table) -> Option<u32> {
        let is_default = |id: &&u32| {
            let of = self.catalog().table(**id).and_then(|table| table.partition_of.as_ref());
            of.is_some_and(|of| of.bound == PartitionBound::Default)
        };
        table.partitioned.as_ref()?.partitions.iter().find(is_default).copied()
    }

    /// Looks whether the rows of a partition, and of those below it, belong there.
    fn check_partition_rows(&mut self, partition: u32, is_default: bool) -> Result<()> {
        for id in self.catalog().partition_tree(partition) {
            let table = self.current(id)?;
            if table.partitioned.is_some() {
                continue;
            }
            self.lock_table(&table)?;
            let levels = self.with_binder("", |binder| binder.partition_levels(&table))?;
            self.with_context(|txn, cx| validate::validate_partition(txn, cx, &table, &levels, is_default))?;
        }
        Ok(())
    }

    /// A value of a bound.
    fn bound_value(&mut self, expr: &ast::Expr, ty: ColumnType, column: &str) -> Result<Option<String>> {
        let bound = self.with_binder("", |binder| {
            let bound = binder.execute_parameter(expr).map_err(|error| match error.state() {
                SqlState::NO_SUCH_COLUMN | SqlState::NO_SUCH_TABLE => {
                    let message = "cannot use column reference in partition bound expression";
                    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                }
                _ => Error::new(error.state(), error.report().message.replace("EXECUTE parameter", "partition bound")),
            })?;
            let from = bound.ty.ty;
            let casts = colibri_types::cast::cast_context(from, ty.ty);
            let allowed = from == ty.ty
                || from == Type::Unknown
                || casts.is_some_and(|weakest| weakest <= CastContext::Assignment);
            if !allowed {
                let message =
                    format!("specified value cannot be cast to type {} for column \"{column}\"", ty.ty.sql_name());
                return Err(Error::new(SqlState::TYPE_MISMATCH, message));
            }
            binder.coerce(bound, ty, CastContext::Assignment, Span::empty())
        })?;
        let value = self.evaluate(bound)?;
        if value.is_null() {
            return Ok(None);
        }
        let mut text = String::new();
        text_io::write(ty.ty, &value, &Env::default(), &mut text);
        Ok(Some(text))
    }

    /// What `FOR VALUES …` means for a partition of a table, which takes no row of another one.
    fn partition_bound(&mut self, parent: &Arc<Table>, name: &str, given: &ast::ForValues) -> Result<PartitionBound> {
        let Some(partitioned) = parent.partitioned.clone() else {
            return Err(Error::internal("a table is not partitioned"));
        };
        let Partitioned { strategy, keys, .. } = partitioned;
        let types = key_types(parent);
        let key_name = |at: usize| {
            let column = &parent.columns[keys[at]];
            column.expression.clone().unwrap_or_else(|| column.name.to_string())
        };
        let wrong = |what: &str| Err(wrong_table(format!("invalid bound specification for a {what} partition")));
        let bound = match (strategy, given) {
            (PartitionStrategy::Hash, ast::ForValues::Default) => {
                return Err(wrong_table("a hash-partitioned table may not have a default partition"));
            }
            (_, ast::ForValues::Default) => PartitionBound::Default,
            (PartitionStrategy::List, ast::ForValues::In(values)) => {
                let mut list: Vec<Option<String>> = Vec::with_capacity(values.len());
                for value in values {
                    let value = self.bound_value(value, types[0], &key_name(0))?;
                    if !list.contains(&value) {
                        list.push(value);
                    }
                }
                PartitionBound::List(list)
            }
            (PartitionStrategy::Range, ast::ForValues::From { from, to }) => {
                if from.len() != keys.len() {
                    return Err(wrong_table("FROM must specify exactly one value per partitioning column"));
                }
                if to.len() != keys.len() {
                    return Err(wrong_table("TO must specify exactly one value per partitioning column"));
                }
                let mut sides = Vec::with_capacity(2);
                for side in [from, to] {
                    let mut edges = Vec::with_capacity(side.len());
                    for (at, value) in side.iter().enumerate() {
                        edges.push(match value {
                            ast::PartitionBoundValue::MinValue => RangeBound::Min,
                            ast::PartitionBoundValue::MaxValue => RangeBound::Max,
                            ast::PartitionBoundValue::Expr(expr) => {
                                match self.bound_value(expr, types[at], &key_name(at))? {
                                    Some(value) => RangeBound::Value(value),
                                    None => return Err(wrong_object("cannot specify NULL in range bound")),
                                }
                            }
                        });
                    }
                    for pair in edges.windows(2) {
                        let word = match pair {
                            [RangeBound::Min, other] if *other != RangeBound::Min => "MINVALUE",
                            [RangeBound::Max, other] if *other != RangeBound::Max => "MAXVALUE",
                            _ => continue,
                        };
                        let message = format!("every bound following {word} must also be {word}");
                        return Err(Error::new(SqlState::TYPE_MISMATCH, message));
                    }
                    sides.push(edges);
                }
                let to = sides.pop().unwrap_or_default();
                PartitionBound::Range(sides.pop().unwrap_or_default(), to)
            }
            (PartitionStrategy::Hash, ast::ForValues::With { modulus, remainder }) => {
                let modulus = i32::try_from(*modulus).unwrap_or_default();
                if modulus <= 0 {
                    return Err(wrong_table("modulus for hash partition must be an integer value greater than zero"));
                }
                match u32::try_from(*remainder) {
                    Ok(remainder) if remainder < modulus as u32 => PartitionBound::Hash(modulus as u32, remainder),
                    _ => return Err(wrong_table("remainder for hash partition must be less than modulus")),
                }
            }
            (PartitionStrategy::List, _) => return wrong("list"),
            (PartitionStrategy::Range, _) => return wrong("range"),
            (PartitionStrategy::Hash, _) => return wrong("hash"),
        };
        self.expect_no_overlap(parent, name, &bound)?;
        Ok(bound)
    }

    /// 42P17 if a partition would take rows that another one takes.
    fn expect_no_overlap(&mut self, parent: &Arc<Table>, name: &str, bound: &PartitionBound) -> Result<()> {
        let types = key_types(parent);
        let new = bind::partitions::bound_of(bound, &types)?;
        if let Bound::Range(low, high) = &new
            && compare_edges(low, high).is_ge()
        {
            let env = self.env();
            let detail = format!(
                "Specified lower bound ({}) is greater than or equal to upper bound ({}).",
                shown_edges(low, &types, env),
                shown_edges(high, &types, env)
            );
            return Err(wrong_object(format!("empty range bound specified for partition \"{name}\"")).detail(detail));
        }
        let mut moduli: Vec<(u64, CompactString)> = Vec::new();
        let partitions = parent.partitioned.iter().flat_map(|partitioned| &partitioned.partitions);
        let mut overlaps = None;
        for &id in partitions {
            let other = self.current(id)?;
            let Some(of) = &other.partition_of else { continue };
            let known = bind::partitions::bound_of(&of.bound, &types)?;
            let is_common = match (&new, &known) {
                (Bound::Default, Bound::Default) => {
                    let other = &other.name;
                    let message = format!("partition \"{name}\" conflicts with existing default partition \"{other}\"");
                    return Err(wrong_object(message));
                }
                (Bound::Range(low, high), Bound::Range(from, to)) => {
                    compare_edges(low, to).is_lt() && compare_edges(from, high).is_lt()
                }
                (Bound::List(values), Bound::List(others)) => values.iter().any(|value| {
                    let same = |other: &Datum| match (value.is_null(), other.is_null()) {
                        (false, false) => colibri_types::operators::equal(value, other),
                        (one, other) => one && other,
                    };
                    others.iter().any(same)
                }),
                (Bound::Hash(modulus, remainder), Bound::Hash(other_modulus, other_remainder)) => {
                    moduli.push((*other_modulus, other.name.clone()));
                    let smaller = *modulus.min(other_modulus);
                    remainder % smaller == other_remainder % smaller
                }
                _ => false,
            };
            if is_common && overlaps.is_none() {
                overlaps = Some(other.name.clone());
            }
        }
        if let Bound::Hash(modulus, _) = new {
            moduli.sort();
            let below = moduli.iter().rev().find(|(other, _)| *other <= modulus);
            let above = moduli.iter().find(|(other, _)| *other >= modulus);
            let message = "every hash partition modulus must be a factor of the next larger modulus";
            if let Some((other, name)) = below.filter(|(other, _)| modulus % other != 0) {
                let detail = format!(
                    "The new modulus {modulus} is not divisible by {other}, the modulus of existing partition \"{name}\"."
                );
                return Err(wrong_object(message).detail(detail));
            }
            if let Some((other, name)) = above.filter(|(other, _)| other % modulus != 0) {
                let detail = format!(
                    "The new modulus {modulus} is not a factor of {other}, the modulus of existing partition \"{name}\"."
                );
                return Err(wrong_object(message).detail(detail));
            }
        }
        match overlaps {
            None => Ok(()),
            Some(other) => Err(wrong_object(format!("partition \"{name}\" would overlap partition \"{other}\""))),
        }
    }

    /// `ALTER TABLE … ATTACH PARTITION` and `DETACH PARTITION`
    pub(crate) fn change_partitions(
        &mut self,
        table: &[CompactString],
        if_exists: bool,
        change: &PartitionChange,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let name = name_of(table);
        if if_exists && self.find_relation(&name)?.is_none() {
            self.notice_missing("relation", table.last().map_or("", |name| name.as_str()));
            return Ok(());
        }
        let parent = self.find_table(&name)?;
        match change {
            PartitionChange::Inherit { parent: from } => return self.inherit(&parent, from),
            PartitionChange::NoInherit { parent: from } => return self.disinherit(&parent, from),
            _ => {}
        }
        if parent.partitioned.is_none() {
            return Err(wrong_object(format!("table \"{}\" is not partitioned", parent.name)));
        }
        self.expect_not_in_use(&parent, "ALTER TABLE")?;
        match change {
            PartitionChange::Attach { partition, bound } => self.attach(&parent, &name_of(partition), bound),
            PartitionChange::Detach { partition, concurrently: _, finalize } => {
                let partition = self.find_table(&name_of(partition))?;
                if partition.partition_of.as_ref().is_none_or(|of| of.parent != parent.id) {
                    let message =
                        format!("relation \"{}\" is not a partition of relation \"{}\"", partition.name, parent.name);
                    return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
                }
                if *finalize {
                    let message =
                        format!("partition \"{}\" already pending detach in partitioned table", partition.name);
                    return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
                }
                self.expect_not_in_use(&partition, "ALTER TABLE")?;
                self.detach(&parent, &partition)
            }
            PartitionChange::Inherit { .. } | PartitionChange::NoInherit { .. } => Ok(()),
        }
    }

    fn attach(&mut self, parent: &Arc<Table>, name: &ast::ObjectName, bound: &ast::ForValues) -> Result<()> {
        let table = self.find_table(name)?;
        self.expect_not_in_use(&table, "ALTER TABLE")?;
        if table.partition_of.is_some() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is already a partition", table.name)));
        }
        if !table.inherits.is_empty() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot attach inheritance child as partition"));
        }
        if !table.children.is_empty() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot attach inheritance parent as partition"));
        }
        if table.materialized.is_some() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)));
        }
        expect_same_lifetime(parent, is_temporary(table.id), "attach")?;
        let with_rows = |trigger: &&Arc<colibri_catalog::Trigger>| {
            trigger.row && (trigger.old_table.is_some() || trigger.new_table.is_some())
        };
        if let Some(trigger) = table.triggers.iter().find(with_rows) {
            let message =
                format!("trigger \"{}\" prevents table \"{}\" from becoming a partition", trigger.name, table.name);
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
                .detail("ROW triggers with transition tables are not supported on partitions."));
        }
        if table.id == parent.id || self.catalog().partition_ancestors(parent).contains(&table.id) {
            let message = "circular inheritance not allowed";
            let detail = format!("\"{}\" is already a child of \"{}\".", parent.name, table.name);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, message).detail(detail));
        }
        for (_, column) in table.live_columns() {
            if parent.column(&column.name).is_none() {
                let (column, parent) = (&column.name, &parent.name);
                let message =
                    format!("table \"{}\" contains column \"{column}\" not found in parent \"{parent}\"", table.name);
                return Err(
                    mismatch(message).detail("The new partition may contain only the columns present in parent.")
                );
            }
        }
        expect_compatible(parent, &table)?;
        let bound = self.partition_bound(parent, &table.name, bound)?;
        let mut changed = (*table).clone();
        take_checks(parent, &mut changed)?;
        changed.checks.iter_mut().for_each(|check| check.declared = false);
        changed.partition_of = Some(PartitionOf { parent: parent.id, bound });
        self.change(vec![Change::PutTable(changed)])?;
        self.add_to_parent(parent.id, table.id)?;
        self.check_partition_rows(table.id, false)?;
        self.take_parts(parent.id, table.id)?;
        for trigger in parent.triggers.iter().filter(|trigger| trigger.row) {
            self.take_trigger(parent, trigger, table.id, false)?;
        }
        Ok(())
    }

    /// Makes the keys and indexes of a table that became a partition parts of those of its table, and
    /// makes those that it lacks. So with all that is below it.
    fn take_parts(&mut self, parent: u32, table: u32) -> Result<()> {
        let parent = self.current(parent)?;
        if let Some(key) = &parent.primary_key {
            self.take_primary_key(&parent, key, table)?;
        }
        for index in &parent.indexes {
            self.take_index(&parent, index, table)?;
        }
        for key in &parent.foreign_keys {
            self.take_foreign_key(&parent, key, table)?;
        }
        let below = self.current(table)?.partitioned.clone();
        for partition in below.into_iter().flat_map(|partitioned| partitioned.partitions) {
            self.take_parts(table, partition)?;
        }
        Ok(())
    }

    /// The part of a partition in its table's primary key.
    pub(super) fn take_primary_key(&mut self, parent: &Table, key: &PrimaryKey, table: u32) -> Result<()> {
        let table = self.current(table)?;
        let columns = own_columns(parent, &table, &key.columns)?;
        expect_whole_key(&table, &columns, "PRIMARY KEY")?;
        if let Some(own) = &table.primary_key {
            if own.columns != columns {
                let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
                return Err(wrong_table(message));
            }
            let mut changed = (*table).clone();
            changed.primary_key.iter_mut().for_each(|own| own.parent = Some(key.id));
            return self.change(vec![Change::PutTable(changed)]);
        }
        let mut draft = self.draft(&table);
        columns.iter().for_each(|&column| draft.table.columns[column].not_null = true);
        let include = own_columns(parent, &table, &key.include)?;
        let name = self.free_name(&table.schema, &[&table.name], "pkey", &[]);
        let id = self.new_id_in(&table.schema)?;
        draft.table.primary_key = Some(PrimaryKey { id, name, columns, parent: Some(key.id), include });
        self.finish_constraint(&table, draft)
    }

    /// The part of a partition in an index of its table: one that it has, or a new one.
    pub(super) fn take_index(&mut self, parent: &Table, index: &Index, table: u32) -> Result<()> {
        let table = self.current(table)?;
        let mut changed = (*table).clone();
        let own = self.own_index(parent, index, &mut changed, &[])?;
        let is_free = |known: &&Arc<Index>| is_same_index(known, &own) && known.parent.is_none();
        if let Some(known) = table.indexes.iter().find(is_free) {
            let mut changed = (*table).clone();
            for index_of in &mut changed.indexes {
                if index_of.id == known.id {
                    Arc::make_mut(index_of).parent = Some(index.id);
                }
            }
            return self.change(vec![Change::PutTable(changed)]);
        }
        changed.renew_layout();
        let shared = Arc::new(changed.clone());
        self.build_index(&shared, &own)?;
        changed.indexes.push(Arc::new(own));
        self.change(vec![Change::PutTable(changed)])
    }

    /// The part of a partition in a foreign key of its table.
    pub(super) fn take_foreign_key(&mut self, parent: &Table, key: &ForeignKey, table: u32) -> Result<()> {
        let table = self.current(table)?;
        let own = self.own_foreign_key(parent, key, &table, &[])?;
        let is_same = |known: &&ForeignKey| {
            known.parent.is_none()
                && known.columns == own.columns
                && known.target == own.target
                && known.target_columns == own.target_columns
                && (known.on_delete, known.on_update) == (own.on_delete, own.on_update)
        };
        if let Some(known) = table.foreign_keys.iter().find(is_same).map(|known| known.id) {
            let mut changed = (*table).clone();
            for known in changed.foreign_keys.iter_mut().filter(|other| other.id == known) {
                known.parent = Some(key.id);
            }
            return self.change(vec![Change::PutTable(changed)]);
        }
        let mut draft = self.draft(&table);
        draft.table.foreign_keys.push(own);
        self.finish_constraint(&table, draft)
    }

    fn detach(&mut self, parent: &Arc<Table>, partition: &Arc<Table>) -> Result<()> {
        let mut changed = (**parent).clone();
        if let Some(partitioned) = &mut changed.partitioned {
            partitioned.partitions.retain(|&id| id != partition.id);
        }
        let mut free = (**partition).clone();
        free.partition_of = None;
        free.primary_key.iter_mut().for_each(|key| key.parent = None);
        free.indexes.iter_mut().filter(|index| index.parent.is_some()).for_each(|index| {
            Arc::make_mut(index).parent = None;
        });
        free.checks.iter_mut().for_each(|check| (check.inherited, check.declared) = (false, false));
        free.foreign_keys.iter_mut().for_each(|key| key.parent = None);
        let mut targets = self.catalog().partition_ancestors(partition);
        self.change(vec![Change::PutTable(changed), Change::PutTable(free)])?;
        self.release_triggers(partition.id)?;
        // What refers to the table does not refer to its former partition.
        targets.dedup();
        let sources = targets.iter().flat_map(|&id| self.catalog().referring_to(id));
        let sources: Vec<Arc<Table>> = sources.filter(|source| source.partitioned.is_none()).cloned().collect();
        for source in sources {
            self.lock_table(&source)?;
            for key in source.foreign_keys.iter().filter(|key| targets.contains(&key.target)) {
                self.check_references(&source, &source, key).map_err(|error| match error.state() {
                    SqlState::FOREIGN_KEY_VIOLATION => {
                        let message = format!(
                            "removing partition \"{}\" violates foreign key constraint \"{}\"",
                            partition.name, key.name
                        );
                        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
                    }
                    _ => error,
                })?;
            }
        }
        Ok(())
    }

    /// Takes a partition that is dropped out of the list of its table.
    pub(super) fn leave_parent(&mut self, table: &Table) -> Result<()> {
        let Some(of) = &table.partition_of else { return Ok(()) };
        let Some(parent) = self.catalog().table(of.parent).cloned() else { return Ok(()) };
        self.lock_table(&parent)?;
        self.expect_not_in_use(&parent, "DROP TABLE")?;
        let mut changed = (*parent).clone();
        if let Some(partitioned) = &mut changed.partitioned {
            partitioned.partitions.retain(|&id| id != table.id);
        }
        self.change(vec![Change::PutTable(changed)])
    }
}

/// Whether two indexes of a table are the same but for their names.
fn is_same_index(one: &Index, other: &Index) -> bool {
    one.columns == other.columns
        && one.unique == other.unique
        && one.predicate == other.predicate
        && one.nulls_not_distinct == other.nulls_not_distinct
        && one.method == other.method
        && one.tokens == other.tokens
        && (one.constraint || !other.constraint)
}

/// The column of a partition that a column of its table is: that of the same name, or one that stands
/// for the same expression, which may be a new one.
pub(super) fn own_place(parent: &Table, table: &mut Table, column: usize) -> Result<usize> {
    let of_parent = &parent.columns[column];
    if let Some(text) = &of_parent.expression {
        let known = table.columns.iter().position(|column| column.expression.as_ref() == Some(text));
        return Ok(known.unwrap_or_else(|| {
            table.columns.push(Column::of_expression(&of_parent.name, of_parent.ty, text.clone()));
            table.columns.len() - 1
        }));
    }
    table.column(&of_parent.name).ok_or_else(|| Error::internal("a partition lacks a column of its table"))
}

/// The same of several columns, of which none stands for an expression.
pub(super) fn own_columns(parent: &Table, table: &Table, columns: &[usize]) -> Result<Vec<usize>> {
    let place = |&column: &usize| {
        let place = table.column(&parent.columns[column].name);
        place.ok_or_else(|| Error::internal("a partition lacks a column of its table"))
    };
    columns.iter().map(place).collect()
}
