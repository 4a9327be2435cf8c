//! Checks that no part of a statement that changes the catalogue is ignored.
//!
//! As `bind::whole` does with queries: each part of the parser's tree is taken to pieces without
//! `..`, so that a new field of the tree does not compile until it is handled here. A field that is
//! bound to a name with `_` is used where the statement runs; all others are refused if they are
//! set.

use colibri_catalog::Timing;
use colibri_types::{Error, Result, SqlState};
use sqlparser::ast;

use super::storage;

fn refuse(parts: &[(bool, &str)]) -> Result<()> {
    match parts.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, what)) => Err(Error::unsupported(what)),
    }
}

/// Refuses what PostgreSQL does not have.
fn foreign(parts: &[(bool, &str)]) -> Result<()> {
    match parts.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, what)) => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: there is no {what}"))),
    }
}

pub(super) fn create_table(create: &ast::CreateTable) -> Result<()> {
    let ast::CreateTable {
        or_replace,
        temporary: _,
        // An UNLOGGED table is an ordinary, durable one here.
        unlogged: _,
        external,
        dynamic,
        global: _,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns: _,
        constraints: _,
        hive_distribution,
        hive_formats,
        table_options,
        file_format,
        location,
        query: _,
        without_rowid,
        like: _,
        clone,
        version,
        comment,
        on_commit: _,
        on_cluster,
        primary_key,
        order_by,
        // What it is divided by, and whose partition it is, and which one: see `partitions`.
        partition_by: _,
        cluster_by,
        clustered_by,
        // What it inherits from: see `inheritance`.
        inherits: _,
        partition_of: _,
        for_values: _,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        with_connection,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
        multiset,
        fallback,
        with_data: _,
    } = create;
    let of_others = [
        *or_replace,
        *external,
        *dynamic,
        *transient,
        *volatile,
        *iceberg,
        *snapshot,
        !matches!(hive_distribution, ast::HiveDistributionStyle::NONE),
        hive_formats.as_ref().is_some_and(|format| *format != ast::HiveFormat::default()),
        file_format.is_some(),
        location.is_some(),
        *without_rowid,
        clone.is_some(),
        version.is_some(),
        comment.is_some(),
        on_cluster.is_some(),
        primary_key.is_some(),
        order_by.is_some(),
        cluster_by.is_some(),
        clustered_by.is_some(),
        *strict,
        *copy_grants,
        enable_schema_evolution.is_some(),
        change_tracking.is_some(),
        data_retention_time_in_days.is_some(),
        max_data_extension_time_in_days.is_some(),
        default_ddl_collation.is_some(),
        with_aggregation_policy.is_some(),
        with_row_access_policy.is_some(),
        with_storage_lifecycle_policy.is_some(),
        with_tags.is_some(),
        external_volume.is_some(),
        with_connection.is_some(),
        base_location.is_some(),
        catalog.is_some(),
        catalog_sync.is_some(),
        storage_serialization_policy.is_some(),
        target_lag.is_some(),
        warehouse.is_some(),
        refresh_mode.is_some(),
        initialize.is_some(),
        *require_user,
        diststyle.is_some(),
        distkey.is_some(),
        sortkey.is_some(),
        backup.is_some(),
        multiset.is_some(),
        fallback.is_some(),
    ];
    if of_others.contains(&true) {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: CREATE TABLE has no such clause"));
    }
    storage::check_table_options(storage::with_options(table_options)?)
}

pub(super) fn create_index(create: &ast::CreateIndex) -> Result<()> {
    let ast::CreateIndex {
        name: _,
        table_name: _,
        using,
        columns: _,
        unique: _,
        concurrently: _,
        // Stands for ONLY.
        r#async: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    foreign(&[(!index_options.is_empty() || !alter_options.is_empty(), "such option of an index")])?;
    let method = using.as_ref().map(|using| using.to_string().to_ascii_lowercase());
    storage::check_index_options(with, method.as_deref())
}

/// What the parser makes of CREATE MATERIALIZED VIEW: WITH NO DATA is `with_no_schema_binding`.
pub(super) fn create_materialized_view(create: &ast::CreateView) -> Result<()> {
    let plain =
        ast::CreateView { materialized: false, if_not_exists: false, with_no_schema_binding: false, ..create.clone() };
    create_view(&plain)
}

pub(super) fn create_view(create: &ast::CreateView) -> Result<()> {
    let ast::CreateView {
        or_alter,
        or_replace: _,
        materialized,
        // Set by the parser for a recursive view.
        secure: _,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    refuse(&[(*materialized, "a materialized view")])?;
    foreign(&[
        (*if_not_exists, "IF NOT EXISTS of a view"),
        (*or_alter || *copy_grants || *with_no_schema_binding, "form of CREATE VIEW like this"),
        (
            !cluster_by.is_empty() || comment.is_some() || to.is_some() || params.is_some(),
            "form of CREATE VIEW like this",
        ),
    ])?;
    for ast::ViewColumnDef { name: _, data_type, options } in columns {
        foreign(&[(data_type.is_some() || options.is_some(), "type or option of a view's column")])?;
    }
    storage::view_options(storage::with_options(options)?).map(drop)
}

pub(super) fn alter_table(alter: &ast::AlterTable) -> Result<()> {
    let ast::AlterTable {
        name: _,
        if_exists: _,
        // Whether partitions are left as they are.
        only: _,
        operations: _,
        location,
        on_cluster,
        // That it is a materialized view.
        table_type: _,
        end_token: _,
    } = alter;
    foreign(&[(location.is_some(), "LOCATION"), (on_cluster.is_some(), "ON CLUSTER")])
}

pub(super) fn truncate(truncate: &ast::Truncate) -> Result<()> {
    let ast::Truncate { table_names, partitions, table: _, if_exists, identity: _, cascade: _, on_cluster } = truncate;
    // There are no tables below others.
    table_names.iter().for_each(|ast::TruncateTableTarget { name: _, only: _, has_asterisk: _ }| {});
    foreign(&[
        (partitions.is_some(), "PARTITION"),
        (*if_exists, "TRUNCATE IF EXISTS"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ])
}

/// The characteristics that any constraint may have.
pub(super) fn characteristics(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    refuse(&[(!timing(characteristics)?.is_fixed(), "a deferrable constraint that is no foreign key")])
}

/// When a constraint is checked.
pub(super) fn timing(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<Timing> {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return Ok(Timing::Fixed);
    };
    refuse(&[(enforced.is_some(), "ENFORCED")])?;
    let defers = *initially == Some(ast::DeferrableInitial::Deferred);
    match (defers, *deferrable) {
        (true, Some(false)) => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
        (true, _) => Ok(Timing::Deferred),
        (false, Some(true)) => Ok(Timing::Immediate),
        (false, _) => Ok(Timing::Fixed),
    }
}

pub(super) fn primary_key(key: &ast::PrimaryKeyConstraint) -> Result<()> {
    let ast::PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns,
        include: _,
        index_options,
        characteristics: of_constraint,
    } = key;
    characteristics(of_constraint.as_ref())?;
    key_parts(index_name.as_ref(), index_type.as_ref(), index_options, columns)
}

pub(super) fn unique(unique: &ast::UniqueConstraint) -> Result<()> {
    let ast::UniqueConstraint {
        name: _,
        index_name,
        index_type_display,
        index_type,
        columns,
        include: _,
        index_options,
        characteristics: of_constraint,
        nulls_distinct: _,
    } = unique;
    timing(of_constraint.as_ref())?;
    refuse(&[(*index_type_display != ast::KeyOrIndexDisplay::None, "UNIQUE INDEX")])?;
    key_parts(index_name.as_ref(), index_type.as_ref(), index_options, columns)
}

fn key_parts(
    index_name: Option<&ast::Ident>,
    index_type: Option<&ast::IndexType>,
    index_options: &[ast::IndexOption],
    columns: &[ast::IndexColumn],
) -> Result<()> {
    let has_options = index_name.is_some() || index_type.is_some() || !index_options.is_empty();
    refuse(&[(has_options, "options of a constraint's index")])?;
    for ast::IndexColumn { column, operator_class } in columns {
        let ast::OrderByExpr { expr: _, options: ast::OrderByOptions { sort, nulls_first }, with_fill } = column;
        if sort.is_some() || nulls_first.is_some() || with_fill.is_some() || operator_class.is_some() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a key consists of columns"));
        }
    }
    Ok(())
}

pub(super) fn check(check: &ast::CheckConstraint) -> Result<()> {
    let ast::CheckConstraint { name: _, expr: _, no_inherit: _, enforced } = check;
    refuse(&[(enforced.is_some(), "ENFORCED")])
}

pub(super) fn foreign_key(key: &ast::ForeignKeyConstraint) -> Result<()> {
    let ast::ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete: _,
        on_update: _,
        match_kind,
        characteristics: _,
    } = key;
    if *match_kind == Some(ast::ConstraintReferenceMatchKind::Partial) {
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "MATCH PARTIAL not yet implemented"));
    }
    refuse(&[(index_name.is_some(), "a name of a foreign key's index")])
}
