//! The shell: reads statements and commands, runs them, prints what they give.
//!
//! Invariants: standard output has what statements gave, in order with what standard error says of
//! them. As in psql, a person's shell goes on after an error, a script does unless ON_ERROR_STOP is
//! set, and a text of -c ends there. Ctrl-C ends a script.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use colibri::sql::engine::{Category, Session, Type};
use colibri::sql::{Column, Connection, Database, Error, Next, RowBlock, Statement, TransactionState};

use super::format::{self, Format};
use super::input::{Input, Line};
use super::report;
use super::scan::{Found, Scanner};
use super::table::{self, Cell, Heading};
use crate::failure::{Failure, Result};

/// Why the shell does not go on.
pub(crate) enum Stop {
    /// It was told to.
    Quit,
    /// A statement failed, which was said.
    Failed,
    /// Standard output does not take the results, or standard input gives an error.
    Output(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// What running something came to.
pub(crate) type Ran = std::result::Result<(), Stop>;

/// What a person has chosen, and what is at work.
pub(crate) struct Shell {
    pub(crate) connection: Connection,
    pub(crate) out: BufWriter<Stdout>,
    pub(crate) format: Format,
    pub(crate) expanded: bool,
    pub(crate) timing: bool,
    /// Scripts end at their first error.
    pub(crate) on_error_stop: bool,
    pub(crate) directory: String,
    name: String,
    /// Ctrl-C was pressed since a person's last statement or command began.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// Nothing runs: Ctrl-C ends the command, unless input comes from a terminal.
    idle: Arc<AtomicBool>,
    /// How many scripts have called each other.
    pub(crate) depth: usize,
}

/// A place in an input.
pub(crate) struct Place<'i> {
    pub(crate) name: Option<&'i str>,
    pub(crate) line: usize,
}

impl Place<'_> {
    /// As errors begin with it.
    pub(crate) fn prefix(&self) -> String {
        self.name.map_or(String::new(), |name| format!("{name}:{}: ", self.line))
    }
}

impl Shell {
    pub(crate) fn new(db: &Database, user: &str, format: Format, is_interactive: bool) -> Result<Self> {
        let connection = db.connect_as(user);
        let interrupted = Arc::new(AtomicBool::new(false));
        let idle = Arc::new(AtomicBool::new(false));
        let flags = [connection.cancel_handle().flag(), Arc::clone(&interrupted)];
        let register = || -> io::Result<()> {
            if !is_interactive {
                signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, Arc::clone(&idle))?;
            }
            for flag in flags {
                signal_hook::flag::register(signal_hook::consts::SIGINT, flag)?;
            }
            Ok(())
        };
        register().map_err(Failure::Output)?;
        let path = db.path();
        let name = path.file_name().map_or("colibri".to_owned(), |name| name.to_string_lossy().into_owned());
        Ok(Self {
            connection,
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            format,
            expanded: false,
            timing: false,
            on_error_stop: false,
            directory: path.display().to_string(),
            name,
            interrupted,
            idle,
            depth: 0,
        })
    }

    /// The database's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn prompt(&self, has_begun: bool) -> &'static str {
        match (has_begun, self.connection.transaction_state()) {
            (true, _) => "->",
            (false, TransactionState::Idle) => "=>",
            (false, TransactionState::Open) => "*=>",
            (false, TransactionState::Failed) => "!=>",
        }
    }

    /// Runs all of an input.
    pub(crate) fn run(&mut self, input: &mut dyn Input) -> Ran {
        let mut text = String::new();
        let mut scanner = Scanner::default();
        // Of the line that comes next, and of the one that the text begins on.
        let (mut next_line, mut first_line) = (1, 1);
        loop {
            let has_begun = !text.trim().is_empty();
            self.out.flush()?;
            self.idle.store(true, Ordering::Relaxed);
            let line = input.line(self.prompt(has_begun));
            self.idle.store(false, Ordering::Relaxed);
            match line.map_err(|error| self.cannot_read(input, &error))? {
                Line::Interrupted => {
                    (text, scanner) = (String::new(), Scanner::default());
                    continue;
                }
                Line::End => {
                    if input.is_interactive() {
                        writeln!(self.out)?;
                        return Ok(self.out.flush()?);
                    }
                    let place = Place { name: input.name(), line: first_line };
                    let result = self.run_rest(&text, &place, input.is_interactive());
                    self.out.flush()?;
                    return result;
                }
                Line::Text(line) => {
                    if !has_begun {
                        (text, scanner) = (String::new(), Scanner::default());
                        first_line = next_line;
                    }
                    next_line += line.split('\n').count();
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            loop {
                match scanner.find(&text) {
                    Found::End => break,
                    Found::Semicolon(end) => {
                        let rest = text.split_off(end + 1);
                        let whole = std::mem::replace(&mut text, rest);
                        scanner = Scanner::default();
                        let line = first_line + leading_lines(&whole);
                        first_line += whole.matches('\n').count();
                        input.remember(whole.trim());
                        self.run_one(&whole[..end], line, input, &mut next_line)?;
                    }
                    Found::Backslash(at) => {
                        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                        let command = text[at..end].to_owned();
                        let statement = text[..at].to_owned();
                        text = text[end..].strip_prefix('\n').unwrap_or("").to_owned();
                        scanner = Scanner::default();
                        let line = first_line + leading_lines(&statement);
                        first_line += statement.matches('\n').count() + 1;
                        input.remember(format!("{statement}{command}").trim());
                        let place_line = line;
                        let keep = self.run_command(&command, &statement, place_line, input, &mut next_line)?;
                        if let Some(keep) = keep {
                            // The statement goes on behind the command.
                            first_line = line;
                            text.insert_str(0, &keep);
                            break;
                        }
                    }
                }
            }
        }
    }

    fn cannot_read(&mut self, input: &dyn Input, error: &io::Error) -> Stop {
        let name = input.name().unwrap_or("standard input");
        eprintln!("{name}: {error}");
        Stop::Failed
    }

    /// What is left at the end of a script, with no semicolon behind it.
    fn run_rest(&mut self, text: &str, place: &Place<'_>, is_interactive: bool) -> Ran {
        if text.trim().is_empty() {
            return Ok(());
        }
        let place = Place { name: place.name, line: place.line + leading_lines(text) };
        self.statement(text.trim(), &place, is_interactive)
    }

    /// A statement of an input that may have data behind it.
    pub(crate) fn run_one(&mut self, text: &str, line: usize, input: &mut dyn Input, next_line: &mut usize) -> Ran {
        let statement = text.trim();
        if is_copy(statement) && Session::is_copy(statement) {
            return self.copy_statement(statement, line, input, next_line);
        }
        let is_interactive = input.is_interactive();
        self.statement(statement, &Place { name: input.name(), line }, is_interactive)
    }

    /// Runs a query, and each value that it gives as a statement, row by row; NULL is none.
    pub(crate) fn run_each(&mut self, text: &str, line: usize, input: &mut dyn Input, next_line: &mut usize) -> Ran {
        let (statement, is_interactive) = (text.trim(), input.is_interactive());
        self.heed_interrupt(is_interactive)?;
        let begun = Instant::now();
        let given = self.texts(statement);
        self.print_time(begun)?;
        let texts = match given {
            Ok(texts) => texts,
            Err(error) => return self.failed(&error, statement, &Place { name: input.name(), line }, is_interactive),
        };
        for text in &texts {
            match Session::split(text) {
                Ok(statements) => {
                    for statement in statements {
                        self.run_one(statement.trim_end_matches(';'), line, input, next_line)?;
                    }
                }
                Err(error) => self.failed(&error, text, &Place { name: input.name(), line }, is_interactive)?,
            }
        }
        Ok(())
    }

    /// All values that a query gives.
    fn texts(&mut self, statement: &str) -> colibri::sql::Result<Vec<String>> {
        let prepared = self.connection.prepare(statement)?;
        self.connection.start(&prepared, ())?;
        let mut texts = Vec::new();
        while let Next::Rows(block) = self.connection.next_block()? {
            texts.extend(self.cells(&block).into_iter().flatten().flatten());
        }
        Ok(texts)
    }

    /// Values as texts.
    fn cells(&self, block: &RowBlock) -> Vec<Vec<Cell>> {
        let cell = |row, column| {
            let mut text = Vec::new();
            let is_there = block.write_text(row, column, &self.connection, &mut text);
            is_there.then(|| String::from_utf8_lossy(&text).into_owned())
        };
        (0..block.len()).map(|row| (0..block.columns().len()).map(|column| cell(row, column)).collect()).collect()
    }

    /// Runs a statement and prints what it gives.
    fn statement(&mut self, statement: &str, place: &Place<'_>, is_interactive: bool) -> Ran {
        if statement.is_empty() {
            return Ok(());
        }
        self.heed_interrupt(is_interactive)?;
        let begun = Instant::now();
        let ran = self.print_statement(statement);
        let notices = self.connection.take_notices();
        if !notices.is_empty() {
            self.out.flush()?;
        }
        for notice in &notices {
            eprint!("{}", report::lines_of_notice(notice, statement, &place.prefix()));
        }
        self.print_time(begun)?;
        match ran {
            Ok(()) => self.out.flush().map_err(Stop::Output),
            Err(Trouble::Output(error)) => Err(Stop::Output(error)),
            Err(Trouble::Sql(error)) => self.failed(&error, statement, place, is_interactive),
        }
    }

    pub(crate) fn print_time(&mut self, begun: Instant) -> io::Result<()> {
        if !self.timing {
            return Ok(());
        }
        let line = format!("Time: {:.3} ms", begun.elapsed().as_secs_f64() * 1e3);
        if self.format == Format::Table {
            writeln!(self.out, "{line}")
        } else {
            self.out.flush()?;
            eprintln!("{line}");
            Ok(())
        }
    }

    /// Says what went wrong with a statement.
    pub(crate) fn failed(&mut self, error: &Error, statement: &str, place: &Place<'_>, is_interactive: bool) -> Ran {
        self.out.flush()?;
        eprint!("{}", report::lines_of(error, statement, &place.prefix()));
        self.after_error(place, is_interactive)
    }

    /// Says that a command of the shell failed.
    pub(crate) fn refused(&mut self, message: &str, place: &Place<'_>, is_interactive: bool) -> Ran {
        self.out.flush()?;
        eprintln!("{}{message}", place.prefix());
        self.after_error(place, is_interactive)
    }

    /// Whether the input goes on.
    fn after_error(&self, place: &Place<'_>, is_interactive: bool) -> Ran {
        let is_script = place.name.is_some();
        let goes_on = is_interactive || (is_script && !self.on_error_stop && !self.is_interrupted());
        if goes_on { Ok(()) } else { Err(Stop::Failed) }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Before a statement: a script that was interrupted between two does not begin the next; a
    /// person's begins anew.
    pub(crate) fn heed_interrupt(&mut self, is_interactive: bool) -> Ran {
        if is_interactive {
            self.interrupted.store(false, Ordering::Relaxed);
        }
        if self.is_interrupted() { Err(Stop::Failed) } else { Ok(()) }
    }

    fn print_statement(&mut self, statement: &str) -> std::result::Result<(), Trouble> {
        let prepared = self.connection.prepare(statement)?;
        self.connection.start(&prepared, ())?;
        let (mut kept, mut printed, mut columns) = (Vec::new(), 0, None);
        loop {
            let next = self.connection.next_block()?;
            let (block, tag) = match &next {
                Next::Rows(block) => (Some(block), None),
                Next::End(tag) => (None, Some(tag)),
            };
            let cells = block.map_or(Vec::new(), |block| self.cells(block));
            if let Some(block) = block {
                columns.get_or_insert_with(|| block.columns().to_vec());
            }
            // What a program reads goes out as it comes; columns are as wide as the widest row.
            if self.format == Format::Table {
                kept.extend(cells);
            } else if prepared.gives_rows() {
                let columns = columns.as_deref().unwrap_or(prepared.columns());
                if let Err(error) = self.print_piece(columns, &cells, &mut printed, tag.is_some()) {
                    self.connection.stop()?;
                    return Err(error.into());
                }
            }
            if let Some(tag) = tag {
                let columns = columns.as_deref().unwrap_or(prepared.columns());
                return Ok(self.print_end(&prepared, columns, &kept, tag)?);
            }
        }
    }

    fn print_piece(
        &mut self,
        columns: &[Column],
        cells: &[Vec<Cell>],
        printed: &mut usize,
        is_end: bool,
    ) -> io::Result<()> {
        let out = &mut self.out;
        if self.format == Format::Csv && *printed == 0 && (is_end || !cells.is_empty()) {
            format::csv_header(columns, out)?;
        }
        for row in cells {
            match self.format {
                Format::Csv => format::csv_row(row, out)?,
                _ => {
                    out.write_all(if *printed == 0 { b"[" } else { b",\n " })?;
                    format::json_row(columns, row, out)?;
                }
            }
            *printed += 1;
        }
        if self.format == Format::Json && is_end {
            out.write_all(if *printed == 0 { b"[]\n" } else { b"]\n" })?;
        }
        Ok(())
    }

    fn print_end(
        &mut self,
        prepared: &Statement,
        columns: &[Column],
        cells: &[Vec<Cell>],
        tag: &str,
    ) -> io::Result<()> {
        if self.format != Format::Table {
            return Ok(());
        }
        if !prepared.gives_rows() {
            return if tag.is_empty() { Ok(()) } else { writeln!(self.out, "{tag}") };
        }
        let headings: Vec<Heading> = columns
            .iter()
            .map(|column| Heading { name: column.name().to_owned(), to_the_right: is_number(column) })
            .collect();
        if self.expanded {
            table::print_expanded(&headings, cells, &mut self.out)?;
        } else {
            table::print(None, &headings, cells, &mut self.out)?;
        }
        // A query's rows are its answer; what changed something says how much.
        if !tag.starts_with("SELECT") && !tag.starts_with("SHOW") && !tag.starts_with("EXPLAIN") {
            writeln!(self.out, "\n{tag}")?;
        }
        writeln!(self.out)
    }
}

fn is_number(column: &Column) -> bool {
    Type::from_oid(column.type_oid()).is_some_and(|ty| ty.category() == Category::Number)
}

/// Why a statement's answer is not there.
enum Trouble {
    Sql(Error),
    Output(io::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Lines before a text's first word.
fn leading_lines(text: &str) -> usize {
    text[..text.len() - text.trim_start().len()].matches('\n').count()
}

/// Whether a statement could be COPY, so that it is worth a closer look.
fn is_copy(statement: &str) -> bool {
    statement.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"))
        || statement.starts_with("--")
        || statement.starts_with("/*")
}
