//! Errors as JSON, with the names that node-postgres gives their parts; `lib/errors.js` makes
//! objects of them.

use colibri::sql::{Error, Report, SqlState};

use crate::rows::write_string;

/// An error of this interface's rules, not of the engine.
pub(crate) fn interface_error(message: impl Into<String>) -> Error {
    Error::new(SqlState("HY010"), message)
}

/// The object that has what is known of an error.
pub(crate) fn error_json(error: &Error) -> String {
    let mut out = String::from("{");
    write_report(&mut out, error.report(), "ERROR");
    out.push('}');
    out
}

/// The members of a report.
pub(crate) fn write_report(out: &mut String, report: &Report, severity: &str) {
    let position = report.position.map(|position| position.to_string());
    let parts = [
        ("severity", Some(severity)),
        ("code", Some(report.state.0)),
        ("message", Some(&*report.message)),
        ("detail", report.detail.as_deref()),
        ("hint", report.hint.as_deref()),
        ("position", position.as_deref()),
        ("where", report.context.as_deref()),
        ("schema", report.schema.as_deref()),
        ("table", report.table.as_deref()),
        ("column", report.column.as_deref()),
        ("dataType", report.data_type.as_deref()),
        ("constraint", report.constraint.as_deref()),
    ];
    let mut is_first = true;
    for (name, text) in parts {
        let Some(text) = text else { continue };
        if !std::mem::take(&mut is_first) {
            out.push(',');
        }
        out.push('"');
        out.push_str(name);
        out.push_str("\":");
        write_string(out, text);
    }
}

/// A result of the storage as one of SQL, whose errors have codes.
pub(crate) fn in_sql<T>(result: colibri::Result<T>) -> colibri::sql::Result<T> {
    result.map_err(colibri::sql::engine::in_sql)
}
