//! What row-level security demands of rows that are written.

use colibri_types::{Datum, Error, Result, SqlState};

use crate::Exec;
use crate::eval::Evaluate as _;
use crate::plan::{CheckedRow, RowCheck};

/// 42501 if a row does not fulfil a condition.
#[inline]
pub(crate) fn check_rows(ex: &mut Exec<'_, '_>, checks: &[RowCheck], row: &[Datum]) -> Result<()> {
    for check in checks {
        if !check.condition.eval_condition(&mut ex.scope(), row)? {
            return Err(violation(check));
        }
    }
    Ok(())
}

#[cold]
fn violation(check: &RowCheck) -> Error {
    if check.of_view {
        let message = format!("new row violates check option for view \"{}\"", check.table);
        return Error::new(SqlState("44000"), message);
    }
    let (row, by_using) = match check.of {
        CheckedRow::New => ("new", ""),
        CheckedRow::InTheWay => ("new", " (USING expression)"),
        CheckedRow::Target => ("target", " (USING expression)"),
    };
    let policy = check.policy.as_ref().map(|policy| format!(" \"{policy}\"")).unwrap_or_default();
    let message =
        format!("{row} row violates row-level security policy{policy}{by_using} for table \"{}\"", check.table);
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
