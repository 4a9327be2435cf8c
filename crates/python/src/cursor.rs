//! DB-API's cursors: statements, rows.
//!
//! `execute` takes all rows into memory, as blocks of the engine's, so that the connection is free;
//! values become objects of Python when they are fetched.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use colibri::sql::{self, Error, Next, Result, RowBlock, SqlState, Value};
use parking_lot::Mutex;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PySequence, PyString, PyTuple};

use crate::arrow::ArrowStream;
use crate::connection::{Connection, State, Statement, converted};
use crate::failure::{OrRaise, exception, interface_error};
use crate::placeholders::{Converted, Wanted};
use crate::values::{from_block, to_sql};

/// Rows of `executemany` that are run without the interpreter's lock at a time.
const MANY_AT_ONCE: usize = 1_000;

/// A statement and its rows.
#[pyclass(frozen, subclass, module = "colibri._colibri")]
pub(crate) struct Cursor {
    connection: Py<Connection>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    is_closed: bool,
    arraysize: Option<usize>,
    /// Values of `json` and `jsonb` are given as they are written.
    json_is_text: bool,
    /// Name, type's name and number of each column; `None` before a statement with rows.
    columns: Option<Arc<[sql::Column]>>,
    blocks: VecDeque<RowBlock>,
    /// The next row of the first block.
    row: usize,
    taken: u64,
    tag: Option<String>,
    affected: Option<u64>,
}

impl Inner {
    fn begin(&mut self) -> Result<()> {
        if self.is_closed {
            return Err(interface_error("the cursor is closed"));
        }
        *self = Self { arraysize: self.arraysize, json_is_text: self.json_is_text, ..Self::default() };
        Ok(())
    }

    fn ended(&mut self, tag: String) {
        self.affected = Some(sql::rows_affected(&tag));
        self.tag = Some(tag);
    }

    /// The block and the place in it of the next row.
    fn next_place(&mut self) -> Result<Option<(&RowBlock, usize)>> {
        if self.is_closed {
            return Err(interface_error("the cursor is closed"));
        }
        if self.columns.as_ref().is_none_or(|columns| columns.is_empty()) && self.blocks.is_empty() {
            return Err(Error::new(SqlState("HY010"), "the last statement gave no rows"));
        }
        while self.blocks.front().is_some_and(|block| self.row >= block.len()) {
            self.blocks.pop_front();
            self.row = 0;
        }
        self.row += 1;
        self.taken += 1;
        let row = self.row - 1;
        Ok(self.blocks.front().map(|block| (block, row)))
    }
}

/// The parameters of a statement, in order, as values.
fn params_of(converted: &Converted, params: &Bound<'_, PyAny>) -> PyResult<Vec<Value<'static>>> {
    match &converted.params {
        Wanted::Names(names) => {
            let Ok(mapping) = params.cast::<PyMapping>() else {
                return Err(PyTypeError::new_err("the statement's placeholders have names: give a mapping"));
            };
            let get = |name: &String| match mapping.get_item(name) {
                Ok(value) => to_sql(&value),
                Err(error) if error.is_instance_of::<PyKeyError>(params.py()) => {
                    Err(exception(&Error::new(SqlState::NO_SUCH_PARAMETER, format!("there is no parameter {name}"))))
                }
                Err(error) => Err(error),
            };
            names.iter().map(get).collect()
        }
        Wanted::Places(places) => {
            if let Ok(tuple) = params.cast::<PyTuple>() {
                return tuple.iter().map(|value| to_sql(&value)).collect();
            }
            if let Ok(list) = params.cast::<PyList>() {
                return list.iter().map(|value| to_sql(&value)).collect();
            }
            // A mapping of which nothing is asked for.
            if *places == 0 && params.is_instance_of::<PyDict>() {
                return Ok(Vec::new());
            }
            if params.is_instance_of::<PyString>() || params.is_instance_of::<PyDict>() {
                return Err(PyTypeError::new_err("parameters are a sequence, such as a tuple"));
            }
            let sequence = params
                .cast::<PySequence>()
                .map_err(|_| PyTypeError::new_err("parameters are a sequence or a mapping"))?;
            sequence.try_iter()?.map(|value| to_sql(&value?)).collect()
        }
    }
}

/// A text and its parameters as the engine takes them.
pub(crate) fn bound(sql: &str, params: Option<&Bound<'_, PyAny>>) -> PyResult<Statement> {
    match params {
        None => Ok((sql.to_owned(), Vec::new())),
        Some(params) => {
            let converted = converted(sql)?;
            let values = params_of(&converted, params)?;
            Ok((converted.sql, values))
        }
    }
}

/// Prepares and starts a statement; gives its columns.
fn start(state: &mut State, sql: &str, params: Vec<Value<'static>>) -> Result<Arc<[sql::Column]>> {
    state.begin()?;
    let connection = state.at_rest()?;
    let statement = connection.prepare(sql)?;
    connection.start(&statement, params)?;
    Ok(statement.columns().into())
}

impl Cursor {
    pub(crate) fn of(connection: Py<Connection>) -> Self {
        Self { connection, inner: Mutex::default() }
    }

    fn row<'py>(py: Python<'py>, block: &RowBlock, row: usize, json_is_text: bool) -> PyResult<Bound<'py, PyTuple>> {
        let value = |column| from_block(py, block, row, column, json_is_text);
        let values = (0..block.columns().len()).map(value).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, values)
    }

    fn next_row<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        // A clone shares the rows; making objects of Python may run its code, which may use the
        // cursor.
        let (place, json_is_text) = {
            let mut inner = self.inner.lock();
            let json_is_text = inner.json_is_text;
            (inner.next_place().map(|place| place.map(|(block, row)| (block.clone(), row))), json_is_text)
        };
        place.or_raise()?.map(|(block, row)| Self::row(py, &block, row, json_is_text)).transpose()
    }

    fn rows<'py>(&self, py: Python<'py>, at_most: usize) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        while rows.len() < at_most {
            let Some(row) = self.next_row(py)? else { break };
            rows.append(row)?;
        }
        Ok(rows)
    }
}

#[pymethods]
impl Cursor {
    #[getter]
    fn connection(&self, py: Python<'_>) -> Py<Connection> {
        self.connection.clone_ref(py)
    }

    /// Runs a statement, and takes its rows into memory. Without parameters the text may have
    /// several statements; their rows are dropped.
    #[pyo3(signature = (operation, parameters = None))]
    pub(crate) fn execute<'py>(
        slf: Bound<'py, Self>,
        operation: &str,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (this, py) = (slf.get(), slf.py());
        let (sql, params) = bound(operation, parameters)?;
        let has_params = parameters.is_some();
        this.connection.get().with(py, |state| {
            let mut inner = this.inner.lock();
            inner.begin()?;
            if !has_params && is_of_several(&sql) {
                state.begin()?;
                return state.at_rest()?.batch(&sql);
            }
            let columns = start(state, &sql, params)?;
            let connection = state.connection.get()?;
            loop {
                match connection.next_block()? {
                    Next::Rows(block) => inner.blocks.push_back(block),
                    Next::End(tag) => {
                        inner.ended(tag);
                        inner.columns = (!columns.is_empty()).then_some(columns);
                        return Ok(());
                    }
                }
            }
        })?;
        Ok(slf)
    }

    /// Runs a statement once for each of the parameters, in one transaction.
    fn executemany<'py>(
        slf: Bound<'py, Self>,
        operation: &str,
        seq_of_parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (this, py) = (slf.get(), slf.py());
        let converted = converted(operation)?;
        let mut all = seq_of_parameters.try_iter()?;
        let connection = this.connection.get();
        // One transaction, also where each statement would be one by itself.
        let (statement, is_own) = connection.with(py, |state| {
            this.inner.lock().begin()?;
            let is_own = state.autocommit && state.at_rest()?.transaction_state() == sql::TransactionState::Idle;
            if is_own {
                state.at_rest()?.execute("BEGIN", ())?;
            }
            state.begin()?;
            Ok((state.at_rest()?.prepare(&converted.sql)?, is_own))
        })?;
        let mut run = || -> PyResult<u64> {
            let mut affected = 0;
            loop {
                let mut some = Vec::with_capacity(MANY_AT_ONCE);
                for params in all.by_ref().take(MANY_AT_ONCE) {
                    some.push(params_of(&converted, &params?)?);
                }
                if some.is_empty() {
                    return Ok(affected);
                }
                affected += connection.with(py, |state| {
                    let connection = state.at_rest()?;
                    connection.execute_many(&statement, &some)
                })?;
            }
        };
        let affected = match run() {
            Ok(affected) => affected,
            Err(error) => {
                if is_own {
                    connection.with(py, |state| state.at_rest()?.execute("ROLLBACK", ()).map(drop))?;
                }
                return Err(error);
            }
        };
        if is_own {
            connection.with(py, |state| state.at_rest()?.execute("COMMIT", ()).map(drop))?;
        }
        this.inner.lock().affected = Some(affected);
        Ok(slf)
    }

    /// Begins a statement that is polled.
    #[pyo3(signature = (operation, parameters = None))]
    fn start(&self, py: Python<'_>, operation: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (sql, params) = bound(operation, parameters)?;
        self.connection.get().with(py, |state| {
            let mut inner = self.inner.lock();
            inner.begin()?;
            let columns = start(state, &sql, params)?;
            inner.columns = (!columns.is_empty()).then_some(columns);
            Ok(())
        })
    }

    /// Goes on with a polled statement; gives whether it has ended. Otherwise the connection's
    /// descriptor says when to call it again.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        self.connection.get().with(py, |state| {
            let mut inner = self.inner.lock();
            let waker = state.waker()?;
            let connection = state.connection.get()?;
            loop {
                match connection.poll_next_block(&mut Context::from_waker(&waker)) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(next) => match next? {
                        Next::Rows(block) => inner.blocks.push_back(block),
                        Next::End(tag) => {
                            inner.ended(tag);
                            return Ok(true);
                        }
                    },
                }
            }
        })
    }

    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.next_row(py)
    }

    #[pyo3(signature = (size = None))]
    fn fetchmany<'py>(&self, py: Python<'py>, size: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let at_most = size.unwrap_or(self.inner.lock().arraysize.unwrap_or(1));
        if at_most == 0 {
            return Ok(PyList::empty(py));
        }
        self.rows(py, at_most)
    }

    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.rows(py, usize::MAX)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.next_row(py)
    }

    /// The rows that were not fetched, as a stream of Arrow.
    fn fetch_arrow(&self, py: Python<'_>) -> PyResult<ArrowStream> {
        let (columns, mut blocks, row) = {
            let mut inner = self.inner.lock();
            let Some(columns) = inner.columns.clone() else {
                return Err(exception(&interface_error("the last statement gave no rows")));
            };
            let row = std::mem::take(&mut inner.row);
            (columns, std::mem::take(&mut inner.blocks), row)
        };
        if row > 0 {
            let first = blocks.pop_front().map(|block| block.rows_from(row));
            if let Some(rest) = first.flatten() {
                blocks.push_front(rest);
            }
        }
        self.connection.get().with(py, |state| {
            let connection = state.connection.get()?;
            Ok(ArrowStream::new(sql::arrow::stream(&columns, connection, move || Ok(blocks.pop_front()), |_| {})))
        })
    }

    /// DB-API's description of the columns: name, number of the type, and five times None.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(columns) = self.inner.lock().columns.clone() else { return Ok(None) };
        let none = || py.None();
        let described = columns
            .iter()
            .map(|column| (column.name().to_owned(), column.type_oid(), none(), none(), none(), none(), none()));
        PyList::new(py, described.collect::<Vec<_>>()).map(Some)
    }

    /// The columns' types as SQL writes them.
    #[getter]
    fn type_names(&self) -> Option<Vec<String>> {
        let inner = self.inner.lock();
        inner.columns.as_ref().map(|columns| columns.iter().map(|column| column.type_name().to_owned()).collect())
    }

    /// Rows inserted, changed, deleted or returned; -1 before a statement.
    #[getter]
    fn rowcount(&self) -> i64 {
        self.inner.lock().affected.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// How many rows were fetched.
    #[getter]
    fn rownumber(&self) -> Option<u64> {
        let inner = self.inner.lock();
        inner.columns.as_ref().map(|_| inner.taken)
    }

    /// PostgreSQL's command tag: "INSERT 0 3".
    #[getter]
    fn statusmessage(&self) -> Option<String> {
        self.inner.lock().tag.clone()
    }

    #[getter]
    fn arraysize(&self) -> usize {
        self.inner.lock().arraysize.unwrap_or(1)
    }

    #[setter]
    fn set_arraysize(&self, rows: usize) {
        self.inner.lock().arraysize = Some(rows);
    }

    /// Whether values of `json` and `jsonb` are given as texts, for those that read JSON themselves.
    #[getter]
    fn json_is_text(&self) -> bool {
        self.inner.lock().json_is_text
    }

    #[setter]
    fn set_json_is_text(&self, json_is_text: bool) {
        self.inner.lock().json_is_text = json_is_text;
    }

    #[getter]
    fn closed(&self) -> bool {
        self.inner.lock().is_closed
    }

    fn close(&self) {
        *self.inner.lock() = Inner { is_closed: true, ..Inner::default() };
    }

    fn setinputsizes(&self, _sizes: &Bound<'_, PyAny>) {}

    #[pyo3(signature = (_size, _column = None))]
    fn setoutputsize(&self, _size: &Bound<'_, PyAny>, _column: Option<&Bound<'_, PyAny>>) {}

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}

/// Whether a text has several statements. One that cannot be read has not: running it says why.
fn is_of_several(sql: &str) -> bool {
    sql.contains(';') && sql::engine::Session::split(sql).is_ok_and(|statements| statements.len() > 1)
}
