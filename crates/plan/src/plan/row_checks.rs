//! What row-level security demands of rows that a statement writes, and views whose WITH CHECK
//! OPTION has queries in it.

use compact_str::CompactString;

use crate::expr::Expr;

/// A condition that a row has to fulfil. NULL is a violation.
#[derive(Debug, Clone)]
pub struct RowCheck {
    /// Which row it is about.
    pub of: CheckedRow,
    /// The table that the statement names.
    pub table: CompactString,
    /// The policy, if it is a restrictive one.
    pub policy: Option<CompactString>,
    /// `table` is a view, whose WITH CHECK OPTION it is.
    pub of_view: bool,
    /// Over a row of the table's columns.
    pub condition: Expr,
}

/// Which row a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedRow {
    /// The row that is written.
    New,
    /// The row in the way of one that ON CONFLICT is about.
    InTheWay,
    /// The row that MERGE changes or deletes.
    Target,
}

/// The conditions of a statement.
#[derive(Debug, Clone, Default)]
pub struct RowChecks {
    /// Of rows that are inserted.
    pub insert: Vec<RowCheck>,
    /// Of rows as they are found, which are then changed.
    pub existing: Vec<RowCheck>,
    /// Of rows as they are changed.
    pub update: Vec<RowCheck>,
}

impl RowChecks {
    /// Their expressions.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.insert.iter().chain(&self.existing).chain(&self.update).map(|check| &check.condition)
    }

    /// The same, to change them.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let all = self.insert.iter_mut().chain(&mut self.existing).chain(&mut self.update);
        all.map(|check| &mut check.condition)
    }

    /// The same conditions over other rows.
    #[must_use]
    pub fn mapped(&self, own: impl Fn(&Expr) -> Expr) -> Self {
        let mut mapped = self.clone();
        mapped.exprs_mut().for_each(|expr| *expr = own(expr));
        mapped
    }
}
