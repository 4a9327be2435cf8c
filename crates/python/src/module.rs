//! What the native module has.

use pyo3::prelude::*;

#[pymodule]
mod _colibri {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arrow::ArrowStream;
    #[pymodule_export]
    use crate::connection::{Connection, Database};
    #[pymodule_export]
    use crate::cursor::Cursor;
    #[pymodule_export]
    use crate::keys::{Environment, KeyCursor, Table, Transaction};

    /// Gives the module the class of exceptions that it raises, by the function
    /// `make(sqlstate, report)`, which gives an exception.
    #[pyfunction]
    fn set_exceptions(make: Py<PyAny>) {
        crate::failure::set_maker(make);
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
