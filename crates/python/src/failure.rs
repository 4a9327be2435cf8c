//! Errors of SQL as exceptions. Which class a code has is said in Python (`colibri/errors.py`);
//! here an error is a report, of which that makes an exception.

use colibri::sql::{Error, SqlState};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

pub(crate) fn set_maker(make: Py<PyAny>) {
    // The first one stays: there is one module of exceptions.
    Python::attach(|py| _ = MAKER.set(py, make));
}

/// An error that is not of the engine: of an interface's rules, with DB-API's classes.
pub(crate) fn interface_error(message: impl Into<String>) -> Error {
    Error::new(SqlState("HY010"), message)
}

/// As a Python exception.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| match made(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    })
}

fn made<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let Some(make) = MAKER.get(py) else {
        return Ok(PyRuntimeError::new_err(error.to_string()).into_value(py).into_bound(py).into_any());
    };
    make.bind(py).call1((error.state().0, report(py, error)?))
}

/// What is known of an error, or of a notice.
pub(crate) fn report<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let (from, to) = (error.report(), PyDict::new(py));
    to.set_item("message_primary", &from.message)?;
    to.set_item("sqlstate", from.state.0)?;
    to.set_item("message_detail", from.detail.as_deref())?;
    to.set_item("message_hint", from.hint.as_deref())?;
    to.set_item("context", from.context.as_deref())?;
    to.set_item("statement_position", from.position.map(|position| position.to_string()))?;
    to.set_item("schema_name", from.schema.as_deref())?;
    to.set_item("table_name", from.table.as_deref())?;
    to.set_item("column_name", from.column.as_deref())?;
    to.set_item("datatype_name", from.data_type.as_deref())?;
    to.set_item("constraint_name", from.constraint.as_deref())?;
    Ok(to)
}

/// The result of SQL as one of Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for colibri::sql::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

impl<T> OrRaise<T> for colibri::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&colibri::sql::engine::in_sql(error)))
    }
}
