//! Rows as a stream of Arrow, in a capsule:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use colibri::sql::arrow::ArrowArrayStream;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::{exception, interface_error};

/// Rows that pyarrow, pandas, polars, DuckDB and others take as columns; once.
#[pyclass(frozen, module = "colibri._colibri")]
pub(crate) struct ArrowStream {
    stream: Mutex<Option<ArrowArrayStream>>,
}

impl ArrowStream {
    pub(crate) fn new(stream: ArrowArrayStream) -> Self {
        Self { stream: Mutex::new(Some(stream)) }
    }
}

#[pymethods]
impl ArrowStream {
    /// The capsule; whoever takes it reads the stream.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The types are what they are; the protocol allows to ignore the wish.
        let _ = requested_schema;
        let stream = self.stream.lock().take();
        let stream = stream.ok_or_else(|| exception(&interface_error("the stream was taken already")))?;
        // What is in a capsule goes with it, and releases the stream unless its reader has taken
        // it.
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
