//! Rows as COPY FROM reads them, from bytes that come in pieces.
//!
//! A text in another encoding than UTF-8 is converted before it is looked at: some have bytes of
//! ASCII within their characters.
//!
//! Invariants: what is in `buffer` was not parsed yet, and is UTF-8 if the file is text that was
//! converted; its first `scanned` bytes hold no end of a line. After an error the parser is of no more use.

use colibri_types::{
    Datum, Env, Error, Modifier, Result, SqlState, Type, binary_io, cast, cast::CastContext, client_values,
    encoding::Decoder, pieces, pieces::Pace, pulse, text_io, wire::Format,
};

use super::write::BINARY_SIGNATURE;
use super::{CopyColumn, CopyFormat, CopyOptions, Header, ParsedRows};

/// Bytes of a field that are looked at between two polls; see [`pulse`].
const BYTES_AT_ONCE: usize = 8 << 10;

/// Characters of a line or a value that a context shows.
const SHOWN_CHARS_MAX: usize = 100;

/// Reads rows from pieces of a file.
pub(crate) struct CopyParser {
    options: CopyOptions,
    table: String,
    columns: Vec<CopyColumn>,
    buffer: Vec<u8>,
    /// Of text in another encoding, once its first bytes have come.
    decoder: Option<Decoder>,
    scanned: usize,
    /// CSV: `scanned` ends inside quotes, or behind an escape there.
    in_quotes: bool,
    escaped: bool,
    line: u64,
    /// Lines of text end with CR LF. Known from the first line on.
    has_cr: Option<bool>,
    header_is_due: bool,
    /// The end was in the file; what follows is not looked at.
    is_over: bool,
    field: Vec<u8>,
}

#[cold]
fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY, message)
}

impl CopyParser {
    pub(crate) fn new(options: CopyOptions, table: String, columns: Vec<CopyColumn>) -> Self {
        let header_is_due = options.header != Header::None || options.format == CopyFormat::Binary;
        Self {
            options,
            table,
            columns,
            buffer: Vec::new(),
            decoder: None,
            scanned: 0,
            in_quotes: false,
            escaped: false,
            line: 0,
            has_cr: None,
            header_is_due,
            is_over: false,
            field: Vec::new(),
        }
    }

    /// Takes a piece of the file and appends the rows that are whole by now.
    pub(crate) fn push(&mut self, bytes: &[u8], env: &Env, rows: &mut ParsedRows) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        if self.options.format == CopyFormat::Binary || self.options.encoding.is_as_here() {
            self.buffer.extend_from_slice(bytes);
        } else {
            let decoder = match &mut self.decoder {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new(self.options.encoding)?),
            };
            let decoded = decoder.push(bytes, &mut self.buffer);
            decoded.map_err(|error| self.in_next_line(error))?;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let mut start = 0;
        if self.options.format == CopyFormat::Binary {
            while !self.is_over {
                match self.take_binary(&buffer[start..], env, rows)? {
                    Some(length) => start += length,
                    None => break,
                }
            }
        } else {
            while !self.is_over
                && let Some(end) = self.find_end(&buffer, start)
            {
                pulse::work(pulse::UNITS_PER_ROW)?;
                self.take_line(&buffer[start..end], env, rows)?;
                start = end + 1;
                self.scanned = start;
            }
            self.scanned -= start;
        }
        self.buffer = buffer;
        self.buffer.drain(..start);
        Ok(())
    }

    /// The file has ended: what is left is the last row.
    pub(crate) fn finish(&mut self, env: &Env, rows: &mut ParsedRows) -> Result<()> {
        if let Some(decoder) = self.decoder.as_mut().filter(|_| !self.is_over) {
            let finished = decoder.finish(&mut self.buffer);
            finished.map_err(|error| self.in_next_line(error))?;
        }
        let rest = std::mem::take(&mut self.buffer);
        if self.is_over {
            return Ok(());
        }
        if self.options.format == CopyFormat::Binary {
            // Programs leave out what the format ends with; between two rows nothing is lost.
            if rest.is_empty() && !self.header_is_due {
                return Ok(());
            }
            return Err(self.in_line(bad("unexpected EOF in COPY data"), None));
        }
        if rest.is_empty() {
            return Ok(());
        }
        if self.in_quotes {
            self.line += 1;
            return Err(self.in_line(bad("unterminated CSV quoted field"), Some(&rest)));
        }
        self.take_line(&rest, env, rows)
    }

    /// Where the line that begins at `start` ends.
    fn find_end(&mut self, buffer: &[u8], start: usize) -> Option<usize> {
        let CopyOptions { format, quote, escape, .. } = self.options;
        let mut at = self.scanned.max(start);
        if format == CopyFormat::Csv {
            for (offset, &byte) in buffer[at..].iter().enumerate() {
                if byte == b'\n' && !self.in_quotes {
                    (self.escaped, self.scanned) = (false, at + offset);
                    return Some(at + offset);
                }
                if self.in_quotes && byte == escape && escape != quote {
                    self.escaped = !self.escaped;
                } else {
                    if byte == quote && !self.escaped {
                        self.in_quotes = !self.in_quotes;
                    }
                    self.escaped = false;
                }
                self.line += u64::from(byte == b'\n');
            }
            self.scanned = buffer.len();
            return None;
        }
        while at < buffer.len() {
            match buffer[at] {
                b'\n' => {
                    self.scanned = at;
                    return Some(at);
                }
                b'\\' if at + 1 == buffer.len() => break,
                b'\\' if buffer[at + 1] == b'\r' && at + 2 == buffer.len() => break,
                // A line's end behind a backslash is data, but `\.` is looked at by itself.
                b'\\' if buffer[at + 1..].starts_with(b"\r\n") => at += 3,
                b'\\' if buffer[at + 1] != b'.' => at += 2,
                _ => at += 1,
            }
        }
        self.scanned = at;
        None
    }

    /// A line of text or CSV, without its end.
    fn take_line(&mut self, line: &[u8], env: &Env, rows: &mut ParsedRows) -> Result<()> {
        self.line += 1;
        let has_cr = *self.has_cr.get_or_insert(line.ends_with(b"\r"));
        let line = match line.strip_suffix(b"\r") {
            Some(stripped) if has_cr => stripped,
            _ => line,
        };
        if line == b"\\." {
            self.is_over = true;
            return Ok(());
        }
        if self.options.format == CopyFormat::Text && !has_cr && line.contains(&b'\r') && !line.ends_with(b"\\\r") {
            let error = bad("literal carriage return found in data").hint("Use \"\\r\" to represent carriage return.");
            return Err(self.in_line(error, Some(line)));
        }
        if std::mem::take(&mut self.header_is_due) {
            return match self.options.header {
                Header::Match => self.check_header(line),
                _ => Ok(()),
            };
        }
        let (start, mut rest, mut at) = (rows.cells.len(), Some(line), 0);
        // A table may have no columns, and then its rows are empty lines.
        if self.columns.is_empty() && line.is_empty() {
            rest = None;
        }
        while let Some(text) = rest {
            if at == self.columns.len() {
                return Err(self.in_line(bad("extra data after last expected column"), Some(line)));
            }
            let (is_null, next) = self.take_field(text, at).map_err(|error| self.in_line(error, Some(line)))?;
            rows.cells.push(if is_null { Datum::Null } else { self.parse_field(at, line, env)? });
            (rest, at) = (next, at + 1);
        }
        if let Some(missing) = self.columns.get(at) {
            rows.cells.truncate(start);
            let error = bad(format!("missing data for column \"{}\"", missing.name));
            return Err(self.in_line(error, Some(line)));
        }
        rows.lines.push(self.line);
        Ok(())
    }

    /// Puts a line's next field into `field`; says whether it is NULL, and what follows it.
    fn take_field<'a>(&mut self, text: &'a [u8], at: usize) -> Result<(bool, Option<&'a [u8]>)> {
        self.field.clear();
        match self.options.format {
            CopyFormat::Csv => self.take_csv_field(text, at),
            _ => self.take_text_field(text),
        }
    }

    fn take_text_field<'a>(&mut self, text: &'a [u8]) -> Result<(bool, Option<&'a [u8]>)> {
        let mut end = 0;
        let mut has_escapes = false;
        let mut poll_at = BYTES_AT_ONCE;
        while end < text.len() && text[end] != self.options.delimiter {
            if end >= poll_at {
                pieces::pass(BYTES_AT_ONCE, Pace::Computed)?;
                poll_at += BYTES_AT_ONCE;
            }
            let is_escape = text[end] == b'\\' && end + 1 < text.len();
            has_escapes |= is_escape;
            end += 1 + usize::from(is_escape);
        }
        let (raw, rest) = (&text[..end], text.get(end + 1..));
        if raw == self.options.null.as_bytes() {
            return Ok((true, rest));
        }
        if has_escapes {
            pieces::pass(raw.len(), Pace::Computed)?;
            unescape(raw, &mut self.field);
        } else {
            self.field.extend_from_slice(raw);
        }
        Ok((false, rest))
    }

    fn take_csv_field<'a>(&mut self, text: &'a [u8], place: usize) -> Result<(bool, Option<&'a [u8]>)> {
        let CopyOptions { delimiter, quote, escape, .. } = self.options;
        let (mut at, mut in_quotes, mut was_quoted) = (0, false, false);
        let mut poll_at = BYTES_AT_ONCE;
        while let Some(&byte) = text.get(at) {
            if at >= poll_at {
                pieces::pass(BYTES_AT_ONCE, Pace::Computed)?;
                poll_at += BYTES_AT_ONCE;
            }
            at += 1;
            if in_quotes {
                match text.get(at) {
                    Some(&next) if byte == escape && (next == escape || next == quote) => {
                        self.field.push(next);
                        at += 1;
                    }
                    _ if byte == quote => in_quotes = false,
                    _ => self.field.push(byte),
                }
            } else if byte == delimiter {
                return Ok((self.is_csv_null(was_quoted, place), Some(&text[at..])));
            } else if byte == quote {
                (in_quotes, was_quoted) = (true, true);
            } else {
                self.field.push(byte);
            }
        }
        if in_quotes {
            return Err(bad("unterminated CSV quoted field"));
        }
        Ok((self.is_csv_null(was_quoted, place), None))
    }

    fn is_csv_null(&self, was_quoted: bool, place: usize) -> bool {
        let is_forced = |list: &[bool]| list.get(place).copied().unwrap_or(false);
        self.field == self.options.null.as_bytes()
            && if was_quoted { is_forced(&self.options.force_null) } else { !is_forced(&self.options.force_not_null) }
    }

    fn parse_field(&self, at: usize, line: &[u8], env: &Env) -> Result<Datum> {
        let column = &self.columns[at];
        let text = match std::str::from_utf8(&self.field) {
            Ok(text) => text,
            Err(error) => {
                let byte = self.field.get(error.valid_up_to()).copied().unwrap_or_default();
                let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
                return Err(self.in_line(Error::new(SqlState::BAD_CHARACTER, message), Some(line)));
            }
        };
        text_io::parse(column.ty.ty, column.ty.modifier, text, env).map_err(|error| {
            let context =
                format!("COPY {}, line {}, column {}: \"{}\"", self.table, self.line, column.name, shown(&self.field));
            error.context(context)
        })
    }

    fn check_header(&mut self, line: &[u8]) -> Result<()> {
        let (mut rest, mut at) = (Some(line), 0);
        let mut mismatch = None;
        while let Some(text) = rest {
            let (_, next) = self.take_field(text, at).map_err(|error| self.in_line(error, Some(line)))?;
            if let Some(column) = self.columns.get(at)
                && column.name.as_bytes() != self.field
                && mismatch.is_none()
            {
                mismatch = Some(format!(
                    "column name mismatch in header line field {}: got \"{}\", expected \"{}\"",
                    at + 1,
                    shown(&self.field),
                    column.name
                ));
            }
            (rest, at) = (next, at + 1);
        }
        if at != self.columns.len() {
            let expected = self.columns.len();
            mismatch = Some(format!("wrong number of fields in header line: got {at}, expected {expected}"));
        }
        mismatch.map_or(Ok(()), |message| Err(self.in_line(bad(message), Some(line))))
    }

    /// A row, or the header, of a binary file: how many bytes it took, or `None` if it is not whole
    /// yet.
    fn take_binary(&mut self, bytes: &[u8], env: &Env, rows: &mut ParsedRows) -> Result<Option<usize>> {
        if self.header_is_due {
            return self.take_binary_header(bytes);
        }
        let Some((&count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let count = i16::from_be_bytes(count);
        if count == -1 {
            self.is_over = true;
            return Ok(Some(2));
        }
        if usize::try_from(count) != Ok(self.columns.len()) {
            self.line += 1;
            let expected = self.columns.len();
            let error = bad(format!("row field count is {count}, expected {expected}"));
            return Err(self.in_line(error, None));
        }
        // Nothing is parsed before all of the row is there.
        let mut fields = rest;
        for _ in 0..count {
            let Some((&length, after)) = fields.split_first_chunk::<4>() else { return Ok(None) };
            fields = match i32::from_be_bytes(length) {
                -1 => after,
                length => match usize::try_from(length) {
                    Ok(length) if length <= after.len() => &after[length..],
                    Ok(_) => return Ok(None),
                    Err(_) => return Err(self.in_line(bad("invalid field size"), None)),
                },
            };
        }
        self.line += 1;
        for column in &self.columns {
            let Some((&length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let Ok(length) = usize::try_from(i32::from_be_bytes(length)) else {
                rows.cells.push(Datum::Null);
                rest = after;
                continue;
            };
            let (ty, modifier) = (column.ty.ty, column.ty.modifier);
            let value = self.parse_binary(ty, &after[..length]).and_then(|value| match modifier {
                Modifier::NONE => Ok(value),
                _ => cast::cast(&value, ty, ty, modifier, CastContext::Assignment, env),
            });
            let place = || format!("COPY {}, line {}, column {}", self.table, self.line, column.name);
            rows.cells.push(value.map_err(|error| error.context(place()))?);
            rest = &after[length..];
        }
        rows.lines.push(self.line);
        Ok(Some(bytes.len() - rest.len()))
    }

    fn parse_binary(&self, ty: Type, bytes: &[u8]) -> Result<Datum> {
        let encoding = self.options.encoding;
        let decoded = match encoding.is_as_here() {
            true => None,
            false => client_values::decode_value(encoding, ty, Format::Binary, bytes)?,
        };
        binary_io::parse_binary(ty, decoded.as_deref().unwrap_or(bytes))
    }

    fn take_binary_header(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let known = bytes.len().min(BINARY_SIGNATURE.len());
        if bytes[..known] != BINARY_SIGNATURE[..known] {
            return Err(bad("COPY file signature not recognized"));
        }
        let Some(Some((&flags, rest))) = bytes.get(known..).map(<[u8]>::split_first_chunk::<4>) else {
            return Ok(None);
        };
        if u32::from_be_bytes(flags) >> 16 != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let Some((&length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Ok(length) = usize::try_from(i32::from_be_bytes(length)) else {
            return Err(bad("invalid COPY file header (missing length)"));
        };
        if rest.len() < length {
            return Ok(None);
        }
        self.header_is_due = false;
        Ok(Some(bytes.len() - rest.len() + length))
    }

    /// With the number of the first line that was not read yet as context.
    #[cold]
    fn in_next_line(&self, error: Error) -> Error {
        let ends = self.buffer.iter().filter(|&&byte| byte == b'\n').count() as u64;
        error.context(format!("COPY {}, line {}", self.table, self.line + ends + 1))
    }

    /// With the line as context.
    #[cold]
    fn in_line(&self, error: Error, line: Option<&[u8]>) -> Error {
        let place = format!("COPY {}, line {}", self.table, self.line);
        error.context(match line {
            Some(line) => format!("{place}: \"{}\"", shown(line)),
            None => place,
        })
    }
}

/// As much of a text as a context shows.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

/// What a field of the text format says.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let Some((&letter, after)) = rest.split_first().filter(|_| byte == b'\\') else {
            out.push(byte);
            continue;
        };
        rest = after;
        let (base, digits_max, digits) = match letter {
            b'0'..=b'7' => (8, 2, u32::from(letter - b'0')),
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, 2, 0),
            _ => {
                out.push(match letter {
                    b'b' => b'\x08',
                    b'f' => b'\x0c',
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => b'\x0b',
                    other => other,
                });
                continue;
            }
        };
        let mut value = digits;
        for _ in 0..digits_max {
            let Some(digit) = rest.first().and_then(|&byte| char::from(byte).to_digit(base)) else { break };
            value = value * base + digit;
            rest = &rest[1..];
        }
        out.push((value & 0xff) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::CopyOut;
    use colibri_types::types::{ColumnType, Type};

    fn columns() -> Vec<CopyColumn> {
        let column = |name: &str, ty: Type| CopyColumn { name: name.to_owned(), ty: ColumnType::from(ty) };
        vec![column("a", Type::Int4), column("b", Type::Text), column("c", Type::Text)]
    }

    /// Rows of a file that comes in pieces of a size.
    fn read(options: &CopyOptions, file: &[u8], piece: usize) -> Result<Vec<Vec<Datum>>> {
        let mut parser = CopyParser::new(options.clone(), "t".to_owned(), columns());
        let mut rows = ParsedRows::default();
        let env = Env::default();
        for bytes in file.chunks(piece) {
            parser.push(bytes, &env, &mut rows)?;
        }
        parser.finish(&env, &mut rows)?;
        assert_eq!(rows.lines.len() * 3, rows.cells.len());
        Ok(rows.cells.chunks(3).map(<[Datum]>::to_vec).collect())
    }

    /// The same, whatever the size of the pieces.
    fn check(options: &CopyOptions, file: &str, expected: &[(i64, Option<&str>, Option<&str>)]) {
        let text = |text: Option<&str>| text.map_or(Datum::Null, Datum::text);
        let expected: Vec<_> = expected.iter().map(|&(a, b, c)| vec![Datum::Int(a), text(b), text(c)]).collect();
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(read(options, file.as_bytes(), piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[track_caller]
    fn fails(options: &CopyOptions, file: &str, state: &str, message: &str, context: &str) {
        for piece in [1, 1000] {
            let error = read(options, file.as_bytes(), piece).unwrap_err();
            assert_eq!((error.state().0, error.to_string().as_str()), (state, message));
            assert_eq!(error.report().context.as_deref(), Some(context));
        }
    }

    #[test]
    fn text_is_read_with_its_escapes() {
        let text = CopyOptions::new(CopyFormat::Text);
        let file = "1\tx\\ty\\\\\\n\t\\N\n2\t\\101\\x42\\q\t\\\\N\n3\t\ta\\\nb\n\\.\nnot looked at";
        let rows = [(1, Some("x\ty\\\n"), None), (2, Some("ABq"), Some("\\N")), (3, Some(""), Some("a\nb"))];
        check(&text, file, &rows);
        check(&text, "1\ta\tb\r\n2\tc\td\r\n", &[(1, Some("a"), Some("b")), (2, Some("c"), Some("d"))]);
        let bars = CopyOptions { delimiter: b'|', null: String::new(), ..text };
        check(&bars, "1|a||\n".trim_end_matches("|\n"), &[(1, Some("a"), None)]);
    }

    #[test]
    fn csv_is_read_with_its_quotes() {
        let csv = CopyOptions { header: Header::Match, ..CopyOptions::new(CopyFormat::Csv) };
        let file = "a,b,c\n1,\"x,\"\"y\"\"\nz\",\n2,\"\",p\"q\"r\n";
        check(&csv, file, &[(1, Some("x,\"y\"\nz"), None), (2, Some(""), Some("pqr"))]);
        let forced = CopyOptions {
            escape: b'\\',
            force_null: vec![false, true],
            force_not_null: vec![false, false, true],
            ..CopyOptions::new(CopyFormat::Csv)
        };
        check(&forced, "1,\"\",\n2,\"a\\\"b\",c\n", &[(1, None, Some("")), (2, Some("a\"b"), Some("c"))]);
    }

    #[test]
    fn errors_name_the_line() {
        let text = CopyOptions::new(CopyFormat::Text);
        fails(
            &text,
            "1\ta\tb\nx\ta\tb\n",
            "22P02",
            "invalid input syntax for type integer: \"x\"",
            "COPY t, line 2, column a: \"x\"",
        );
        fails(&text, "1\ta\n", "22P04", "missing data for column \"c\"", "COPY t, line 1: \"1\ta\"");
        let extra = "1\ta\tb\tc";
        fails(&text, extra, "22P04", "extra data after last expected column", "COPY t, line 1: \"1\ta\tb\tc\"");
        let csv = CopyOptions { header: Header::Match, ..CopyOptions::new(CopyFormat::Csv) };
        let message = "column name mismatch in header line field 2: got \"x\", expected \"b\"";
        fails(&csv, "a,x,c\n", "22P04", message, "COPY t, line 1: \"a,x,c\"");
        fails(&csv, "a,b,c\n1,\"x", "22P04", "unterminated CSV quoted field", "COPY t, line 2: \"1,\"x\"");
        let binary = CopyOptions::new(CopyFormat::Binary);
        assert_eq!(read(&binary, b"PGCOPX", 3).unwrap_err().state().0, "22P04");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let texts = ["", "\\N", "a\tb", "x\"y", "\\.", "two\nlines", "cr\rlf", "a,b", "\\", "naïve", "\u{8}\u{b}\u{c}"];
        let mut rows: Vec<Vec<Datum>> =
            texts.iter().enumerate().map(|(at, b)| vec![Datum::Int(at as i64), Datum::text(b), Datum::Null]).collect();
        rows.push(vec![Datum::Int(-7), Datum::Null, Datum::text("last")]);
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            for header in [Header::None, Header::Line] {
                let header = if format == CopyFormat::Binary { Header::None } else { header };
                let options = CopyOptions { header, ..CopyOptions::new(format) };
                options.check().unwrap();
                let mut out = CopyOut::new(options.clone(), columns());
                let mut file = Vec::new();
                out.start(&mut file).unwrap();
                rows.iter().for_each(|row| out.write_row(row, &Env::default(), &mut file).unwrap());
                out.finish(&mut file);
                for piece in [1, 5, 1000] {
                    assert_eq!(read(&options, &file, piece).unwrap(), rows, "{format:?}");
                }
            }
        }
    }
}
