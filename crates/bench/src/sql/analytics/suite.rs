//! A suite: tables with their rows, queries over them, and what is known of the answers.

use std::sync::Arc;

use super::answer::Rows;
use crate::measure::{Error, Result};
use crate::sql::workload::load::Dataset;

/// Tables and queries.
pub(crate) trait Suite: Send + Sync {
    /// What the command is called, and what its results are named after.
    fn name(&self) -> &'static str;

    /// What a reader of the result has to know, the size above all.
    fn about(&self) -> String;

    fn dataset(&self) -> Arc<dyn Dataset>;

    /// The file of its queries, as [`queries`] reads it.
    fn queries(&self) -> &'static str;

    /// Answers that are known beforehand, if there are any for this size.
    fn known(&self) -> Option<Known> {
        None
    }

    /// Transactions that change `percent` of the rows, and those that change them back. Each is a
    /// list of statements. `None` if the suite has none.
    fn changes(&self, percent: u32) -> Option<[Vec<Transaction>; 2]> {
        let _none = percent;
        None
    }
}

/// Statements that are committed together.
pub(crate) type Transaction = Vec<String>;

/// Answers that a suite knows beforehand.
pub(crate) struct Known {
    /// Whose they are.
    pub(crate) of: &'static str,
    /// By the names of the queries.
    pub(crate) answers: Vec<(String, Rows)>,
    /// How far two numbers may be apart.
    pub(crate) tolerance: f64,
}

/// What of two answers has to be alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// All rows, in their order.
    Rows,
    /// How many there are: which of several equal rows a limit leaves is not said.
    Count,
}

/// A query of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) check: Check,
}

/// Reads a file of queries. Each has a line `-- NAME` or `-- NAME, rows are counted` before it, and
/// ends with a `;` at the end of a line.
///
/// # Errors
/// The query that has no name.
pub(crate) fn queries(text: &str) -> std::result::Result<Vec<Query>, String> {
    let query = |text: &str| {
        let (comment, sql) = text.rsplit_once("-- ").and_then(|(_, rest)| rest.split_once('\n'))?;
        let (name, check) = match comment.split_once(", ") {
            None => (comment, Check::Rows),
            Some((name, "rows are counted")) => (name, Check::Count),
            Some(_) => return None,
        };
        (!sql.trim().is_empty()).then(|| Query { name: name.to_owned(), sql: sql.to_owned(), check })
    };
    let texts = text.split(";\n").map(str::trim).filter(|text| !text.is_empty());
    texts.map(|text| query(text).ok_or_else(|| format!("a query without a name: {text}"))).collect()
}

/// The queries of a suite whose names are wanted, in the order of the suite.
///
/// # Errors
/// A name that no query has.
pub(super) fn selected(suite: &dyn Suite, only: &[String]) -> Result<Vec<Query>> {
    let all = queries(suite.queries()).map_err(Error::usage)?;
    if let Some(unknown) = only.iter().find(|name| all.iter().all(|query| query.name != **name)) {
        let (first, last) = (&all[0].name, &all[all.len() - 1].name);
        return Err(Error::usage(format!("--only: there is no query {unknown:?}: they are {first} to {last}")));
    }
    Ok(all.into_iter().filter(|query| only.is_empty() || only.contains(&query.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_names_and_may_have_their_rows_counted() {
        let read =
            queries("-- A file.\n\n-- q1\nSELECT 1;\n\n-- q2, rows are counted\nSELECT 2\n  LIMIT 1;\n").unwrap();
        let names: Vec<_> = read.iter().map(|query| (query.name.as_str(), query.check)).collect();
        assert_eq!(names, [("q1", Check::Rows), ("q2", Check::Count)]);
        assert_eq!(read[1].sql, "SELECT 2\n  LIMIT 1");
        assert!(queries("SELECT 1;\n").is_err());
        assert!(queries("-- q1, sometimes\nSELECT 1;\n").is_err());
    }
}
