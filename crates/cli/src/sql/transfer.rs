//! Rows from and to files: `\copy`, and COPY with the script's own lines.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::time::Instant;

use colibri::sql::{CopyDirection, Error};

use super::commands::unquoted;
use super::format::Format;
use super::input::{Input, Line};
use super::shell::{Place, Ran, Shell, Stop};

/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 1 << 16;

/// Where `\copy` takes rows from, or puts them.
enum End {
    File(String),
    /// The lines that follow, or standard output.
    Here,
}

/// `\copy WHAT from|to END OPTIONS`
struct Wanted {
    statement: String,
    end: End,
}

impl Shell {
    /// COPY as a statement.
    pub(crate) fn copy_statement(
        &mut self,
        statement: &str,
        line: usize,
        input: &mut dyn Input,
        next_line: &mut usize,
    ) -> Ran {
        self.transfer(statement, End::Here, line, input, next_line)
    }

    /// `\copy`
    pub(crate) fn copy_command(
        &mut self,
        rest: &str,
        line: usize,
        input: &mut dyn Input,
        next_line: &mut usize,
    ) -> Ran {
        match parse(rest) {
            Ok(wanted) => self.transfer(&wanted.statement, wanted.end, line, input, next_line),
            Err(message) => {
                let name = input.name().map(str::to_owned);
                let place = Place { name: name.as_deref(), line };
                self.refused(&format!("\\copy: {message}"), &place, input.is_interactive())
            }
        }
    }

    fn transfer(
        &mut self,
        statement: &str,
        end: End,
        line: usize,
        input: &mut dyn Input,
        next_line: &mut usize,
    ) -> Ran {
        self.heed_interrupt(input.is_interactive())?;
        let begun = Instant::now();
        let result = self.try_transfer(statement, end, input, next_line);
        let name = input.name().map(str::to_owned);
        let place = Place { name: name.as_deref(), line };
        match result {
            Ok((count, is_told)) => {
                if is_told && self.format == Format::Table {
                    writeln!(self.out, "COPY {count}")?;
                }
                self.print_time(begun)?;
                Ok(self.out.flush()?)
            }
            Err(Problem::Sql(error)) => self.failed(&error, statement, &place, input.is_interactive()),
            Err(Problem::File(message)) => self.refused(&message, &place, input.is_interactive()),
            Err(Problem::Output(error)) => Err(Stop::Output(error)),
        }
    }

    /// How many rows, and whether that is to be said.
    fn try_transfer(
        &mut self,
        statement: &str,
        end: End,
        input: &mut dyn Input,
        next_line: &mut usize,
    ) -> Result<(u64, bool), Problem> {
        let file = match &end {
            End::File(path) => Some(path.clone()),
            End::Here => None,
        };
        let copy = self.connection.start_copy(statement);
        if copy.is_err() && file.is_none() && !input.is_interactive() && takes_lines(statement) {
            // They are rows, and not statements, whatever is wrong with the COPY before them.
            take_lines(input, next_line, &mut |_| Ok(()))?;
        }
        if copy? == CopyDirection::In {
            let sent = match file {
                Some(path) => self.send_file(&path),
                None => self.send_lines(input, next_line),
            };
            if let Err(problem) = sent {
                self.connection.copy_cancel()?;
                return Err(problem);
            }
            return Ok((self.connection.copy_end()?, true));
        }
        match file {
            None => self.receive(None),
            Some(path) => match File::create(&path) {
                Ok(out) => self.receive(Some((&path, BufWriter::with_capacity(PIECE_BYTES, out)))),
                Err(error) => {
                    self.connection.copy_cancel()?;
                    Err(Problem::File(format!("{path}: {error}")))
                }
            },
        }
    }

    /// Writes what a COPY gives to a file, or to standard output; how many rows, and whether that is
    /// to be said.
    fn receive(&mut self, mut file: Option<(&str, BufWriter<File>)>) -> Result<(u64, bool), Problem> {
        let mut bytes = Vec::new();
        loop {
            let rows = self.connection.copy_next(&mut bytes)?;
            let out: &mut dyn Write = match &mut file {
                Some((_, out)) => out,
                None => &mut self.out,
            };
            let written = out.write_all(&bytes).and_then(|()| if rows.is_some() { out.flush() } else { Ok(()) });
            bytes.clear();
            if let Err(error) = written {
                self.connection.copy_cancel()?;
                return Err(match &file {
                    Some((path, _)) => Problem::File(format!("{path}: {error}")),
                    None => Problem::Output(error),
                });
            }
            if let Some(rows) = rows {
                return Ok((rows, file.is_some()));
            }
        }
    }

    fn send_file(&mut self, path: &str) -> Result<(), Problem> {
        let problem = |error: io::Error| Problem::File(format!("{path}: {error}"));
        let mut file = BufReader::with_capacity(PIECE_BYTES, File::open(path).map_err(problem)?);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = file.read(&mut piece).map_err(problem)?;
            if count == 0 {
                return Ok(());
            }
            self.connection.copy_send(&piece[..count])?;
        }
    }

    /// The lines that follow, up to one with `\.`.
    fn send_lines(&mut self, input: &mut dyn Input, next_line: &mut usize) -> Result<(), Problem> {
        if input.is_interactive() {
            writeln!(
                self.out,
                "Enter rows, a line each. End with a line that has a backslash and a period, or Ctrl-D."
            )?;
            self.out.flush()?;
        }
        let connection = &mut self.connection;
        let mut piece = Vec::new();
        take_lines(input, next_line, &mut |line| {
            piece.extend_from_slice(line.as_bytes());
            piece.push(b'\n');
            if piece.len() >= PIECE_BYTES {
                connection.copy_send(&piece)?;
                piece.clear();
            }
            Ok(())
        })?;
        Ok(connection.copy_send(&piece)?)
    }
}

/// Hands on the lines of an input up to one with `\.`; all of them are taken even if one is
/// refused.
fn take_lines(
    input: &mut dyn Input,
    next_line: &mut usize,
    take: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<(), Problem> {
    let mut taken = Ok(());
    loop {
        match input.line(">>").map_err(|error| Problem::File(error.to_string()))? {
            Line::End => break,
            Line::Interrupted => {
                let state = colibri::sql::SqlState::CANCELED;
                return Err(Error::new(state, "COPY was canceled").into());
            }
            Line::Text(line) => {
                *next_line += 1;
                if line.trim_end_matches('\r') == "\\." {
                    break;
                }
                if taken.is_ok() {
                    taken = take(&line);
                }
            }
        }
    }
    Ok(taken?)
}

/// Whether lines follow a COPY.
fn takes_lines(statement: &str) -> bool {
    let wanted = statement.get(4..).map(parse);
    matches!(wanted, Some(Ok(Wanted { statement, end: End::Here })) if statement.contains(" FROM STDIN"))
}

/// Why rows were not copied.
enum Problem {
    Sql(Error),
    File(String),
    Output(io::Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The words of `\copy`, quoted texts and parentheses whole.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut depth, mut quote) = (None, 0_usize, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_gap = character.is_whitespace() && depth == 0 && quote.is_none();
        match (start, is_gap) {
            (None, false) => start = Some(at),
            (Some(begun), true) => {
                words.push(&text[begun..at]);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|begun| &text[begun..]));
    words
}

fn parse(rest: &str) -> Result<Wanted, String> {
    let words = words(rest);
    let at = words
        .iter()
        .position(|word| word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("to"))
        .filter(|&at| at > 0)
        .ok_or("TABLE from FILE, or TABLE to FILE, was expected")?;
    let from = words[at].eq_ignore_ascii_case("from");
    let target = *words.get(at + 1).ok_or("the name of a file is missing")?;
    let (end, side) = match target.to_ascii_lowercase().as_str() {
        "stdin" | "pstdin" if from => (End::Here, "STDIN"),
        "stdout" | "pstdout" if !from => (End::Here, "STDOUT"),
        "program" => return Err("programs are not run: use a pipe and stdin or stdout".to_owned()),
        _ => (End::File(unquoted(target)), if from { "STDIN" } else { "STDOUT" }),
    };
    let (what, options) = (words[..at].join(" "), words[at + 2..].join(" "));
    let direction = if from { "FROM" } else { "TO" };
    let statement = format!("COPY {what} {direction} {side} {options}");
    Ok(Wanted { statement: statement.trim_end().to_owned(), end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rest: &str, statement: &str, file: Option<&str>) {
        let wanted = parse(rest).expect("it is well-formed");
        assert_eq!(wanted.statement, statement);
        match wanted.end {
            End::File(path) => assert_eq!(Some(path.as_str()), file),
            End::Here => assert_eq!(None, file),
        }
    }

    #[test]
    fn a_copy_is_a_statement_and_a_file() {
        check("t from 'a file.csv' with (format csv)", "COPY t FROM STDIN with (format csv)", Some("a file.csv"));
        check("t (a, b) FROM f", "COPY t (a, b) FROM STDIN", Some("f"));
        check("(select a from t) to stdout", "COPY (select a from t) TO STDOUT", None);
        check("\"from\" to 'it''s' csv", "COPY \"from\" TO STDOUT csv", Some("it's"));
        assert!(parse("t").is_err() && parse("t from").is_err() && parse("from f").is_err());
    }
}
