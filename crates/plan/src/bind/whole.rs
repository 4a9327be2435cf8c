//! Nothing of a statement is ignored.
//!
//! The parser's tree knows the clauses of many dialects. Whoever binds a part of it looks at the
//! fields that it uses; the functions here take each part to pieces without `..`, so that a field
//! that a newer parser brings does not compile until somebody says what becomes of it. A field with
//! `_` behind its name is used where the part is bound; all others are refused if they say
//! anything.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast;

/// Refuses what PostgreSQL has and nobody heeds here.
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

fn syntax_error(near: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
}

pub(super) fn query(query: &ast::Query) -> Result<()> {
    let ast::Query {
        with: _,
        body: _,
        order_by,
        limit_clause,
        fetch: _,
        locks: _,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    foreign(&[
        (for_clause.is_some(), "FOR XML and its like"),
        (settings.is_some(), "SETTINGS of a query"),
        (format_clause.is_some(), "FORMAT of a query"),
        (!pipe_operators.is_empty(), "a pipe operator"),
    ])?;
    if let Some(ast::OrderBy { kind, interpolate }) = order_by {
        foreign(&[(interpolate.is_some(), "INTERPOLATE")])?;
        if let ast::OrderByKind::Expressions(keys) = kind {
            keys.iter().try_for_each(order_key)?;
        }
    }
    match limit_clause {
        Some(ast::LimitClause::LimitOffset { limit: _, offset, limit_by }) => {
            if let Some(ast::Offset { value: _, rows: _ }) = offset {}
            foreign(&[(!limit_by.is_empty(), "LIMIT BY")])
        }
        Some(ast::LimitClause::OffsetCommaLimit { offset: _, limit: _ }) | None => Ok(()),
    }
}

pub(super) fn order_key(key: &ast::OrderByExpr) -> Result<()> {
    let ast::OrderByExpr { expr: _, options, with_fill } = key;
    let ast::OrderByOptions { sort: _, nulls_first: _ } = options;
    foreign(&[(with_fill.is_some(), "WITH FILL")])
}

pub(super) fn lock(lock: &ast::LockClause) {
    let ast::LockClause { lock_type: _, of: _, nonblock: _ } = lock;
}

/// `WITH name AS (…)`; a CTE that is not called for is bound as well, so that what is wrong with it
/// is said.
pub(super) fn cte(cte: &ast::Cte) -> Result<()> {
    // Whether it is materialized makes no difference but of speed.
    let ast::Cte { alias, query: _, from, materialized: _, closing_paren_token: _ } = cte;
    foreign(&[(from.is_some(), "a WITH query's FROM")])?;
    table_alias(alias)
}

pub(super) fn with(with: &ast::With) -> Result<()> {
    let ast::With { with_token: _, recursive: _, cte_tables } = with;
    cte_tables.iter().try_for_each(cte)
}

fn table_alias(alias: &ast::TableAlias) -> Result<()> {
    let ast::TableAlias { explicit: _, name: _, columns, at } = alias;
    let typed = columns.iter().any(|ast::TableAliasColumnDef { name: _, data_type }| data_type.is_some());
    foreign(&[(at.is_some(), "AT behind an alias"), (typed, "a list of columns with types")])
}

pub(super) fn select(select: &ast::Select) -> Result<()> {
    let ast::Select {
        select_token: _,
        // Comments, to PostgreSQL.
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    foreign(&[
        (select_modifiers.is_some(), "a modifier of SELECT"),
        (top.is_some(), "TOP"),
        (exclude.is_some(), "EXCLUDE"),
        (!lateral_views.is_empty(), "LATERAL VIEW"),
        (prewhere.is_some(), "PREWHERE"),
        (!connect_by.is_empty(), "CONNECT BY"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!sort_by.is_empty(), "SORT BY"),
        (qualify.is_some(), "QUALIFY"),
        (value_table_mode.is_some(), "SELECT AS"),
        (*flavor != ast::SelectFlavor::Standard, "FROM before SELECT"),
    ])?;
    refuse(&[(into.is_some(), "SELECT INTO here")])?;
    from.iter().try_for_each(table_with_joins)
}

pub(super) fn values(values: &ast::Values) -> Result<()> {
    let ast::Values { explicit_row, value_keyword, rows: _ } = values;
    foreign(&[(*explicit_row, "ROW in VALUES"), (*value_keyword, "VALUE")])
}

pub(super) fn table_with_joins(tables: &ast::TableWithJoins) -> Result<()> {
    let ast::TableWithJoins { relation: _, joins } = tables;
    joins.iter().try_for_each(|ast::Join { relation: _, global, join_operator }| {
        foreign(&[(*global, "a GLOBAL join")])?;
        match join_operator {
            ast::JoinOperator::CrossJoin(constraint) if !matches!(constraint, ast::JoinConstraint::None) => {
                Err(syntax_error(if matches!(constraint, ast::JoinConstraint::On(_)) { "on" } else { "using" }))
            }
            _ => Ok(()),
        }
    })
}

/// Whether a table is named with ONLY.
pub(super) fn is_only(factor: &ast::TableFactor) -> bool {
    matches!(factor, ast::TableFactor::Table { partitions, .. }
        if matches!(&partitions[..], [mark] if mark.value == colibri_syntax::ONLY_MARK))
}

pub(super) fn factor(factor: &ast::TableFactor) -> Result<()> {
    let alias = match factor {
        ast::TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            // Refused where its place is known.
            sample: _,
            index_hints,
        } => {
            foreign(&[
                (!with_hints.is_empty(), "hints behind a table"),
                (version.is_some(), "a table's past"),
                (!partitions.is_empty() && !is_only(factor), "PARTITION"),
                (json_path.is_some(), "a path behind a table"),
                (!index_hints.is_empty(), "hints behind a table"),
            ])?;
            match args {
                Some(ast::TableFunctionArgs { args: _, settings }) => foreign(&[(settings.is_some(), "SETTINGS")])?,
                None if *with_ordinality => return Err(syntax_error("WITH")),
                None => {}
            }
            if args.is_some() {
                return alias.iter().try_for_each(|alias| foreign(&[(alias.at.is_some(), "AT behind an alias")]));
            }
            alias
        }
        ast::TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            refuse(&[(sample.is_some(), "TABLESAMPLE")])?;
            alias
        }
        // What may list columns with types, the function at hand tells.
        ast::TableFactor::Function { lateral: _, name: _, args: _, with_ordinality: _, alias } => {
            return alias.iter().try_for_each(|alias| foreign(&[(alias.at.is_some(), "AT behind an alias")]));
        }
        ast::TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias, with_ordinality: _ } => {
            foreign(&[(*with_offset || with_offset_alias.is_some(), "WITH OFFSET")])?;
            alias
        }
        ast::TableFactor::NestedJoin { table_with_joins: tables, alias } => {
            table_with_joins(tables)?;
            alias
        }
        // Refused as such.
        _ => return Ok(()),
    };
    alias.iter().try_for_each(table_alias)
}

/// `*` and `t.*`
pub(super) fn star(options: &ast::WildcardAdditionalOptions) -> Result<()> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    foreign(&[
        (opt_ilike.is_some(), "* ILIKE"),
        (opt_exclude.is_some(), "* EXCLUDE"),
        (opt_except.is_some(), "* EXCEPT"),
        (opt_replace.is_some(), "* REPLACE"),
        (opt_rename.is_some(), "* RENAME"),
    ])?;
    match opt_alias {
        Some(alias) => Err(syntax_error(&alias.value)),
        None => Ok(()),
    }
}

pub(super) fn function(function: &ast::Function) -> Result<()> {
    let ast::Function {
        name: _,
        uses_odbc_syntax,
        parameters,
        args: _,
        within_group: _,
        filter: _,
        null_treatment,
        over: _,
    } = function;
    foreign(&[
        (*uses_odbc_syntax, "{fn …}"),
        (!matches!(parameters, ast::FunctionArguments::None), "two lists of arguments"),
        (null_treatment.is_some(), "IGNORE NULLS"),
    ])
}

pub(super) fn insert(insert: &ast::Insert) -> Result<()> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into: _,
        table: _,
        table_alias,
        columns: _,
        // OVERRIDING USER VALUE: see the mending of tokens.
        overwrite: _,
        source: _,
        assignments,
        partitioned,
        after_columns,
        // OVERRIDING SYSTEM VALUE.
        has_table_keyword: _,
        on: _,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    if let Some(ast::TableAliasWithoutColumns { explicit, alias }) = table_alias
        && !explicit
    {
        return Err(syntax_error(&alias.value));
    }
    foreign(&[
        (or.is_some(), "INSERT OR"),
        (*ignore, "INSERT IGNORE"),
        (!assignments.is_empty(), "INSERT … SET"),
        (partitioned.is_some() || !after_columns.is_empty(), "PARTITION"),
        (output.is_some(), "OUTPUT"),
        (*replace_into, "REPLACE INTO"),
        (priority.is_some(), "a priority of INSERT"),
        (insert_alias.is_some(), "an alias of the inserted row"),
        (settings.is_some(), "SETTINGS of INSERT"),
        (format_clause.is_some(), "FORMAT of INSERT"),
        (multi_table_insert_type.is_some(), "INSERT into several tables"),
        (!multi_table_into_clauses.is_empty(), "INSERT into several tables"),
        (!multi_table_when_clauses.is_empty(), "INSERT into several tables"),
        (multi_table_else_clause.is_some(), "INSERT into several tables"),
    ])
}

pub(super) fn on_conflict(clause: &ast::OnConflict) {
    let ast::OnConflict { conflict_target: _, action } = clause;
    if let ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection: _ }) = action {
        assignments.iter().for_each(|ast::Assignment { target: _, value: _ }| {});
    }
}

pub(super) fn update(update: &ast::Update) -> Result<()> {
    let ast::Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments: _,
        from,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    if limit.is_some() {
        return Err(syntax_error("LIMIT"));
    }
    if !order_by.is_empty() {
        return Err(syntax_error("ORDER"));
    }
    foreign(&[(output.is_some(), "OUTPUT"), (or.is_some(), "UPDATE OR")])?;
    table_with_joins(table)?;
    match from {
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => Err(syntax_error("FROM")),
        Some(ast::UpdateTableFromKind::AfterSet(tables)) => tables.iter().try_for_each(table_with_joins),
        None => Ok(()),
    }
}

pub(super) fn delete(delete: &ast::Delete) -> Result<()> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    if limit.is_some() {
        return Err(syntax_error("LIMIT"));
    }
    if !order_by.is_empty() {
        return Err(syntax_error("ORDER"));
    }
    foreign(&[(!tables.is_empty(), "DELETE from several tables"), (output.is_some(), "OUTPUT")])?;
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = from;
    from.iter().chain(using.iter().flatten()).try_for_each(table_with_joins)
}

pub(super) fn merge(merge: &ast::Merge) -> Result<()> {
    let ast::Merge { merge_token: _, optimizer_hints: _, into, table: _, source: _, on: _, clauses, output } = merge;
    foreign(&[(!into, "MERGE without INTO"), (output.is_some(), "OUTPUT")])?;
    for ast::MergeClause { when_token: _, clause_kind: _, predicate: _, action } in clauses {
        match action {
            // OVERRIDING is in the place of the condition.
            ast::MergeAction::Insert(ast::MergeInsertExpr {
                insert_token: _,
                columns: _,
                kind_token: _,
                kind: _,
                insert_predicate: _,
            }) => {}
            ast::MergeAction::Update(ast::MergeUpdateExpr {
                update_token: _,
                kind: _,
                update_predicate,
                delete_predicate,
            }) => foreign(&[
                (update_predicate.is_some(), "WHERE behind UPDATE of MERGE"),
                (delete_predicate.is_some(), "DELETE WHERE of MERGE"),
            ])?,
            ast::MergeAction::Delete { delete_token: _ } => {}
            ast::MergeAction::DoNothing { do_token: _, nothing_token: _ } => {}
        }
    }
    Ok(())
}
