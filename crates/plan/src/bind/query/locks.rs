//! `SELECT … FOR UPDATE` and its like: which rows are locked, and where there are none that could
//! be.
//!
//! The parser knows FOR UPDATE and FOR SHARE, with one name behind OF. The mending of tokens writes
//! the other strengths, and further names, as parts of that name: see [`LOCK_MARK`].

use colibri_catalog::cluster::Privileges;
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;

use crate::bind::logical::{Body, Distinct, Extra, From, Join, Lock, Query, Relation, Select, Source};
use crate::bind::{Binder, fold, name_parts, name_span};
use crate::plan::RowLock;
use colibri_syntax::{KEY_LOCK_MARK, LOCK_MARK};

fn refuse(mode: RowLock, what: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} {what}", mode.clause()))
}

impl Binder<'_> {
    /// How strongly a clause locks, and what.
    pub(super) fn lock_of(&self, lock: &ast::LockClause) -> Result<(RowLock, Vec<CompactString>)> {
        let plain = match lock.lock_type {
            ast::LockType::Share => RowLock::Share,
            ast::LockType::Update => RowLock::Update,
        };
        let Some(of) = &lock.of else { return Ok((plain, Vec::new())) };
        let parts = name_parts(of)?;
        match &parts[..] {
            [mark, names @ ..] if mark.value == LOCK_MARK => Ok((plain, names.iter().map(|name| fold(name)).collect())),
            [mark, names @ ..] if mark.value == KEY_LOCK_MARK => {
                let mode = if plain == RowLock::Share { RowLock::KeyShare } else { RowLock::NoKeyUpdate };
                Ok((mode, names.iter().map(|name| fold(name)).collect()))
            }
            [name] => Ok((plain, vec![fold(name)])),
            _ => {
                let message = format!("{} must specify unqualified relation names", plain.clause());
                Err(self.place(name_span(of), Error::new(SqlState::SYNTAX_ERROR, message)))
            }
        }
    }

    /// Locks what a query reads, in it and in the queries and views of its FROM.
    pub(super) fn lock_rows(&mut self, query: &mut Query, lock: Lock) -> Result<()> {
        let mode = lock.mode;
        self.locks_rows.get_or_insert(mode);
        check(query, mode)?;
        let Body::Select(select) = &mut query.body else { return Err(refuse(mode, "cannot be applied to VALUES")) };
        for name in &lock.of {
            if !select.relations.iter().any(|relation| relation.name == *name) {
                let message = format!("relation \"{name}\" in {} clause not found in FROM clause", mode.clause());
                return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
            }
        }
        let Select { relations, from, .. } = &mut **select;
        for (place, relation) in relations.iter_mut().enumerate() {
            if !lock.of.is_empty() && !lock.of.contains(&relation.name) {
                continue;
            }
            self.lock_relation(relation, &lock)?;
            let reads_rows = matches!(relation.source, Source::Table(_) | Source::Tree(_) | Source::Query(_));
            if reads_rows && from.as_ref().is_some_and(|from| may_be_missing(from, place) == Some(true)) {
                return Err(refuse(mode, "cannot be applied to the nullable side of an outer join"));
            }
        }
        query.locks.push(lock);
        Ok(())
    }

    fn lock_relation(&mut self, relation: &mut Relation, lock: &Lock) -> Result<()> {
        let Lock { mode, if_locked, ref of } = *lock;
        match &mut relation.source {
            // Locking rows is the beginning of changing them.
            Source::Table(table) => {
                if table.materialized.is_some() {
                    let message = format!("cannot lock rows in materialized view \"{}\"", table.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                let (id, schema) = (table.id, table.schema.clone());
                self.need_columns(id, &schema, Privileges::UPDATE, Vec::new());
                Ok(())
            }
            Source::Tree(tree) => {
                let (id, schema) = (tree.root.id, tree.root.schema.clone());
                self.need_columns(id, &schema, Privileges::UPDATE, Vec::new());
                Ok(())
            }
            Source::Query(inner) if is_one_row(inner) => Ok(()),
            Source::Query(inner) | Source::Lateral { query: inner, .. }
                if matches!(inner.body, Body::Values(_)) && of.is_empty() =>
            {
                Ok(())
            }
            Source::Query(inner) | Source::Lateral { query: inner, .. } => {
                let lock = Lock { mode, if_locked, of: Vec::new() };
                self.lock_behind_barrier(inner)?;
                let Some(view) = inner.view.clone() else { return self.lock_rows(inner, lock) };
                self.need_columns(view.id, &view.schema, Privileges::UPDATE, Vec::new());
                let by = self.by.replace(view.owner);
                let locked = self.lock_rows(inner, lock);
                self.by = by;
                locked
            }
            // Without a name, what has no rows of its own is passed by.
            _ if of.is_empty() => Ok(()),
            Source::Shared { .. } | Source::Working { .. } | Source::Part { .. } => {
                Err(refuse(mode, "cannot be applied to a WITH query"))
            }
            Source::Keyed { .. } => Err(Error::internal("rows by keys before planning")),
            Source::Functions { .. } | Source::System { .. } => Err(refuse(mode, "cannot be applied to a function")),
        }
    }
}

/// What a list without FROM is made of.
fn is_one_row(query: &Query) -> bool {
    matches!(&query.body, Body::Values(rows) if rows.len() == 1 && rows[0].is_empty())
}

/// Refuses what has no rows of a table any more.
fn check(query: &Query, mode: RowLock) -> Result<()> {
    let not_with = |what: &str| Err(refuse(mode, &format!("is not allowed with {what}")));
    let select = match &query.body {
        Body::Set { .. } | Body::Recursive(_) => return not_with("UNION/INTERSECT/EXCEPT"),
        Body::Values(_) => return Err(refuse(mode, "cannot be applied to VALUES")),
        Body::GroupingSets(_) => return not_with("GROUP BY clause"),
        Body::Select(select) => select,
    };
    if select.distinct != Distinct::No {
        return not_with("DISTINCT clause");
    }
    if let Some(group) = &select.group {
        return not_with(match (group.keys.is_empty(), &group.having) {
            (false, _) => "GROUP BY clause",
            (true, Some(_)) => "HAVING clause",
            (true, None) => "aggregate functions",
        });
    }
    if select.extras.iter().any(|extra| matches!(extra, Extra::Window(_))) {
        return not_with("window functions");
    }
    if select.extras.iter().any(|extra| matches!(extra, Extra::Rows(..))) {
        return not_with("set-returning functions in the target list");
    }
    Ok(())
}

/// Whether an outer join may find no row of a relation; `None` if it is not there.
fn may_be_missing(from: &From, place: usize) -> Option<bool> {
    match from {
        From::Relation(relation) => (*relation == place).then_some(false),
        From::Join { kind, left, right, .. } => {
            let (of_left, of_right) =
                (matches!(kind, Join::Right | Join::Full), matches!(kind, Join::Left | Join::Full));
            let left = may_be_missing(left, place).map(|missing| missing || of_left);
            left.or_else(|| may_be_missing(right, place).map(|missing| missing || of_right))
        }
    }
}
