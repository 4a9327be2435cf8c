//! COPY: rows from and to files in PostgreSQL's text, CSV and binary formats.
//!
//! Bytes come in pieces of any size ([`CopyIn::push`]); whole rows are parsed at once, the rest is
//! kept. Rows are written in batches ([`CopyIn::flush`]) by the same code as INSERT's. [`CopyOut`]
//! appends rows to a buffer that the caller sends off.
//!
//! Invariants: a flush that fails keeps its rows, so that it can be run again after a rollback to
//! the state before it. It leaves no other trace.

mod parse;
mod statement;
mod write;

use std::sync::Arc;

use colibri_txn::Transaction;

pub(crate) use colibri_syntax::tree::{CopyFormat, CopyHeader as Header};
pub(crate) use parse::CopyParser;
pub(crate) use write::CopyOut;

use crate::bind::WrittenTree;
use crate::exec::domains::check_value;
use crate::exec::trees::TreeWriter;
use crate::exec::{Context, Evaluate as _, Exec, RowWriter, with_exec};
use crate::expr::Expr;
use crate::plan::TableRules;
use colibri_catalog::Table;
use colibri_types::encoding::Encoding;
use colibri_types::{ColumnType, Datum, Env, Error, Result, SqlState, pulse};

/// Rows that are worth a flush.
const FLUSH_ROWS: usize = 1000;

/// The options of COPY.
#[derive(Debug, Clone)]
pub(crate) struct CopyOptions {
    pub(crate) format: CopyFormat,
    pub(crate) delimiter: u8,
    /// The text that stands for NULL.
    pub(crate) null: String,
    pub(crate) header: Header,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    /// Of the file.
    pub(crate) encoding: Encoding,
    /// By place among the columns copied; may be shorter. Of COPY TO: always quoted.
    pub(crate) force_quote: Vec<bool>,
    /// Of COPY FROM, by place: the NULL text is read as a text.
    pub(crate) force_not_null: Vec<bool>,
    /// Of COPY FROM, by place: the NULL text means NULL in quotes, too.
    pub(crate) force_null: Vec<bool>,
}

impl CopyOptions {
    /// A format's defaults.
    pub(crate) fn new(format: CopyFormat) -> Self {
        let is_csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { "" } else { "\\N" }.to_owned(),
            header: Header::None,
            quote: b'"',
            escape: b'"',
            encoding: Encoding::UTF8,
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }

    /// Checks that the delimiter and the NULL text can be told from a file's other characters.
    ///
    /// # Errors
    /// They cannot.
    pub(crate) fn check_texts(&self) -> Result<()> {
        let fail = |state, message: &str| Err(Error::new(state, message));
        match self.format {
            CopyFormat::Binary if self.header != Header::None => {
                fail(SqlState::FEATURE_NOT_SUPPORTED, "cannot specify HEADER in BINARY mode")
            }
            CopyFormat::Binary => Ok(()),
            _ if matches!(self.delimiter, b'\n' | b'\r') => {
                fail(SqlState::BAD_PARAMETER, "COPY delimiter cannot be newline or carriage return")
            }
            _ if self.null.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) => {
                fail(SqlState::BAD_PARAMETER, "COPY null representation cannot use newline or carriage return")
            }
            CopyFormat::Text if b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) => {
                let message = format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter));
                Err(Error::new(SqlState::BAD_PARAMETER, message))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the options do not contradict each other.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_texts()?;
        let fail = |state, message: &str| Err(Error::new(state, message));
        let null = self.null.as_bytes();
        match self.format {
            CopyFormat::Binary => Ok(()),
            CopyFormat::Csv if self.delimiter == self.quote => {
                fail(SqlState::BAD_PARAMETER, "COPY delimiter and quote must be different")
            }
            _ if null.contains(&self.delimiter) => {
                fail(SqlState::FEATURE_NOT_SUPPORTED, "COPY delimiter must not appear in the NULL specification")
            }
            CopyFormat::Csv if null.contains(&self.quote) => {
                fail(SqlState::FEATURE_NOT_SUPPORTED, "CSV quote character must not appear in the NULL specification")
            }
            _ => Ok(()),
        }
    }
}

/// A column that is copied.
#[derive(Debug, Clone)]
pub(crate) struct CopyColumn {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
}

/// Rows parsed and not written yet.
#[derive(Debug, Default)]
pub(crate) struct ParsedRows {
    pub(crate) cells: Vec<Datum>,
    /// The line on which each row ends.
    pub(crate) lines: Vec<u64>,
}

impl ParsedRows {
    fn clear(&mut self) {
        self.cells.clear();
        self.lines.clear();
    }
}

/// What rows are written by.
enum Writer {
    Table(Box<RowWriter>),
    Tree(TreeWriter),
}

impl Writer {
    fn new(table: &Arc<Table>, rules: &Arc<TableRules>, tree: Option<&WrittenTree>) -> Self {
        match tree {
            Some(WrittenTree { tree, rules: of_leaves }) => Self::Tree(TreeWriter::new(tree, rules, of_leaves)),
            None => Self::Table(Box::new(RowWriter::new(table, rules))),
        }
    }

    /// Writes a row of all the table's columns. `false`: a trigger kept it from being written.
    fn insert(&mut self, ex: &mut Exec<'_, '_>, row: &mut Vec<Datum>) -> Result<bool> {
        match self {
            Self::Table(writer) => {
                row.extend(writer.new_number(ex)?);
                Ok(writer.insert(ex, row)?.is_some())
            }
            Self::Tree(writer) => writer.insert(ex, row),
        }
    }

    /// Goes on where another writer of the same statement has ended.
    fn behind(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Table(own), Self::Table(other)) => Self::Table(Box::new(own.behind(other))),
            (Self::Tree(own), Self::Tree(other)) => Self::Tree(own.behind(other)),
            (own, _) => own,
        }
    }

    fn absorb(&mut self, other: Self) {
        match (self, other) {
            (Self::Table(own), Self::Table(other)) => own.absorb(*other),
            (Self::Tree(own), Self::Tree(other)) => own.absorb(other),
            (Self::Table(_), Self::Tree(_)) | (Self::Tree(_), Self::Table(_)) => {}
        }
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        match self {
            Self::Table(writer) => writer.finish(ex),
            Self::Tree(writer) => writer.finish(ex),
        }
    }
}

/// COPY FROM at work.
pub(crate) struct CopyIn {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    /// The table's columns that the file has, in its order.
    columns: Vec<usize>,
    /// The defaults of the other columns.
    defaults: Vec<(usize, Expr)>,
    /// The WHERE condition. Rows for which it is not true are left out.
    condition: Option<Expr>,
    parser: CopyParser,
    pending: ParsedRows,
    /// The rows of all flushes that succeeded.
    writer: Writer,
    /// The leaves of the table, if it is partitioned.
    tree: Option<WrittenTree>,
    affected: u64,
}

impl CopyIn {
    /// `defaults` gives the columns that the file has not, as expressions over no row; NULL for
    /// those it leaves out.
    pub(crate) fn new(
        table: &Arc<Table>,
        (rules, tree): (&Arc<TableRules>, Option<&WrittenTree>),
        columns: Vec<usize>,
        defaults: Vec<(usize, Expr)>,
        condition: Option<Expr>,
        options: CopyOptions,
    ) -> Self {
        let described = columns.iter().map(|&column| {
            let column = &table.columns[column];
            CopyColumn { name: column.name.to_string(), ty: column.ty }
        });
        Self {
            parser: CopyParser::new(options, table.name.to_string(), described.collect()),
            writer: Writer::new(table, rules, tree),
            tree: tree.cloned(),
            table: Arc::clone(table),
            rules: Arc::clone(rules),
            columns,
            defaults,
            condition,
            pending: ParsedRows::default(),
            affected: 0,
        }
    }

    /// Takes a piece of the file.
    ///
    /// # Errors
    /// It is malformed (22P04, 22P02, …), with the line as context.
    pub(crate) fn push(&mut self, bytes: &[u8], env: &Env) -> Result<()> {
        self.parser.push(bytes, env, &mut self.pending)
    }

    /// Says that the file has ended.
    ///
    /// # Errors
    /// The last row is malformed.
    pub(crate) fn end(&mut self, env: &Env) -> Result<()> {
        self.parser.finish(env, &mut self.pending)
    }

    /// Whether there are enough rows for a flush.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.lines.len() >= FLUSH_ROWS
    }

    /// Writes the rows that have come. If it fails, roll back to the state before it, and try again
    /// or give up.
    ///
    /// # Errors
    /// Those of INSERT, with the line as context.
    pub(crate) fn flush(&mut self, txn: &mut dyn Transaction, cx: &mut Context<'_>) -> Result<()> {
        let Self { table, columns, defaults, condition, pending, .. } = self;
        let mut written = 0;
        let mut writer = Writer::new(table, &self.rules, self.tree.as_ref()).behind(&self.writer);
        with_exec(txn, cx, |ex| {
            let mut row = Vec::new();
            for (at, cells) in pending.cells.chunks_exact(columns.len().max(1)).enumerate() {
                row.clear();
                row.resize(table.columns.len(), Datum::Null);
                for (&column, cell) in columns.iter().zip(cells) {
                    row[column] = cell.clone();
                }
                for (column, default) in &*defaults {
                    row[*column] = default.eval_owned(&mut ex.scope(), &[])?;
                }
                pulse::work(pulse::UNITS_PER_WRITE)?;
                let domains = &self.rules.domains;
                let line = pending.lines.get(at).copied().unwrap_or_default();
                let in_line = |error: Error| error.context(format!("COPY {}, line {line}", table.name));
                for (place, rules) in domains.iter().filter(|(place, _)| columns.contains(place)) {
                    check_value(rules, &row[*place], &mut ex.scope()).map_err(in_line)?;
                }
                if let Some(condition) = condition
                    && condition.eval_owned(&mut ex.scope(), &row).map_err(in_line)? != Datum::Bool(true)
                {
                    continue;
                }
                written += u64::from(writer.insert(ex, &mut row).map_err(in_line)?);
            }
            ex.check_cancel()
        })?;
        self.writer.absorb(writer);
        self.affected += written;
        self.pending.clear();
        Ok(())
    }

    /// The checks that remain when all rows are flushed. Gives the number of rows.
    ///
    /// # Errors
    /// A foreign key is violated.
    pub(crate) fn finish(&mut self, txn: &mut dyn Transaction, cx: &mut Context<'_>) -> Result<u64> {
        let writer = &mut self.writer;
        with_exec(txn, cx, |ex| {
            while !writer.finish(ex)? {
                ex.refill()?;
            }
            Ok(())
        })?;
        Ok(self.affected)
    }
}
