//! Reads the text of a dump, one database ("section") at a time. Knows the grammar, not the engine.
//!
//! ```text
//! dump     = { section }
//! section  = { name "=" value LF }  "HEADER=END" LF  { " " key LF " " value LF }  "DATA=END" LF
//! bytevalue: two hexadecimal digits a byte
//! print:     the byte itself if it is printable ASCII, else "\" and two hexadecimal digits
//! ```
//!
//! Invariants: `line` is the number of the last line taken from the input, from 1; every error
//! carries the line it is about; no input makes it panic or read a header line of more than
//! [`HEADER_LINE_BYTES_MAX`] bytes.
//!
//! It does not convert keys or decide on tables: that is `load`.

use std::io::{BufRead, Read};

use crate::{Error, Result, TableKind};

/// A header line names a setting; one longer than this is not a dump.
const HEADER_LINE_BYTES_MAX: u64 = 64 << 10;
/// The longest value the engine takes (4 GiB), as text: at most three characters a byte, and the
/// line's own.
const DATA_LINE_BYTES_MAX: u64 = 3 * (1 << 32) + 16;

/// How bytes are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    ByteValue,
    Print,
}

/// What the header of one section says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Line the section starts on.
    pub(super) line: u64,
    /// The database's name; `None` for LMDB's main database, which has none.
    pub(super) name: Option<String>,
    /// The name again, whatever is in it, in Colibri's own dumps: until the header is read, then it
    /// is the name.
    exact_name: Option<String>,
    /// The kind Colibri noted in its own dump; `None` for anybody else's.
    pub(super) kind: Option<TableKind>,
    /// A key may have several values (`duplicates`, `dupsort`).
    pub(super) duplicates: bool,
    /// Keys are integers in the byte order of the machine that wrote the dump.
    pub(super) integer_key: bool,
    /// Keys were sorted by their last byte first.
    pub(super) reverse_key: bool,
    /// Values of a key were sorted as integers or from their last byte.
    pub(super) foreign_value_order: bool,
    /// Size of the map the dump was taken from, in bytes, if it says so.
    pub(super) map_bytes: Option<u64>,
    format: Format,
}

/// One line, without what ends it.
enum Line {
    Text,
    End,
}

/// Takes sections and their entries from a text.
pub(super) struct Parser<'a> {
    input: &'a mut dyn BufRead,
    line: u64,
    text: Vec<u8>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input, line: 0, text: Vec::new() }
    }

    /// Number of the last line read.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next section's header, or `None` where the input ends between sections.
    pub(super) fn next_header(&mut self) -> Result<Option<Header>> {
        loop {
            match self.read_line(HEADER_LINE_BYTES_MAX)? {
                Line::End => return Ok(None),
                Line::Text if self.text.is_empty() => {}
                Line::Text => break,
            }
        }
        if !self.text.starts_with(b"VERSION=") {
            return Err(
                self.invalid("a dump starts with VERSION=3; is this the output of `colibri dump` or `mdb_dump`?")
            );
        }
        self.read_header().map(Some)
    }

    /// The next entry of the section into `key` and `value`; `false` at its end.
    pub(super) fn next_entry(&mut self, header: &Header, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        if let Line::End = self.read_line(DATA_LINE_BYTES_MAX)? {
            return Err(self.ends_early("DATA=END is missing"));
        }
        if self.text == b"DATA=END" {
            return Ok(false);
        }
        self.decode(header.format, "a key", key)?;
        if let Line::End = self.read_line(DATA_LINE_BYTES_MAX)? {
            return Err(self.ends_early("the last key has no value"));
        }
        if self.text == b"DATA=END" {
            return Err(self.invalid("the last key has no value: the dump is damaged"));
        }
        self.decode(header.format, "a value", value)?;
        Ok(true)
    }

    /// Reads up to `HEADER=END`; the current line is the section's first.
    fn read_header(&mut self) -> Result<Header> {
        let mut header = Header {
            line: self.line,
            name: None,
            exact_name: None,
            kind: None,
            duplicates: false,
            integer_key: false,
            reverse_key: false,
            foreign_value_order: false,
            map_bytes: None,
            format: Format::ByteValue,
        };
        while self.text != b"HEADER=END" {
            self.read_setting(&mut header)?;
            if let Line::End = self.read_line(HEADER_LINE_BYTES_MAX)? {
                return Err(self.ends_early("HEADER=END is missing"));
            }
        }
        if let Some(exact) = header.exact_name.take() {
            header.name = Some(exact);
        } else if header.kind.is_some()
            && let Some(name) = &header.name
        {
            // Earlier versions escape whatever is not printable; where the name is not said again,
            // nothing is.
            header.name = Some(self.unescape_name(name)?);
        }
        Ok(header)
    }

    fn read_setting(&self, header: &mut Header) -> Result<()> {
        let text = std::str::from_utf8(&self.text)
            .map_err(|_| self.invalid("a header line is not UTF-8: table names must be"))?;
        let Some((name, value)) = text.split_once('=') else {
            return Err(self.invalid("a header line reads name=value, and the header ends with HEADER=END"));
        };
        let on = value != "0";
        match name {
            "VERSION" if value != "3" => {
                return Err(self.invalid(format!("dump version {value:?} is not supported: only 3 is")));
            }
            "format" => {
                header.format = match value {
                    "bytevalue" => Format::ByteValue,
                    "print" => Format::Print,
                    _ => {
                        return Err(self.invalid(format!("format {value:?} is not supported: bytevalue and print are")));
                    }
                };
            }
            "type" if value != "btree" => {
                return Err(self.invalid(format!("database type {value:?} is not supported: btree is")));
            }
            "database" => header.name = Some(value.to_owned()),
            "colibriname" => {
                let mut bytes = Vec::new();
                decode_hex(value.as_bytes(), &mut bytes).map_err(|reason| self.invalid(reason))?;
                let exact = String::from_utf8(bytes).map_err(|_| self.invalid("the table's name is not UTF-8"))?;
                header.exact_name = Some(exact);
            }
            "colibri" => header.kind = Some(self.kind_named(value)?),
            "duplicates" | "dupsort" => header.duplicates |= on,
            "integerkey" => header.integer_key = on,
            "reversekey" => header.reverse_key = on,
            "integerdup" | "reversedup" => header.foreign_value_order |= on,
            "mapsize" => header.map_bytes = value.parse().ok(),
            // Sizes and addresses of the environment that was dumped mean nothing here, and other
            // writers of this format add settings of their own.
            _ => {}
        }
        Ok(())
    }

    fn kind_named(&self, value: &str) -> Result<TableKind> {
        match value {
            "plain" => Ok(TableKind::Plain),
            "multi" => Ok(TableKind::Multi),
            "integer" => Ok(TableKind::Integer),
            _ => Err(self.invalid(format!("table kind {value:?} is not known to this build: use a newer Colibri"))),
        }
    }

    fn unescape_name(&self, name: &str) -> Result<String> {
        let mut bytes = Vec::with_capacity(name.len());
        decode_print(name.as_bytes(), &mut bytes).map_err(|reason| self.invalid(reason))?;
        String::from_utf8(bytes).map_err(|_| self.invalid("the table's name is not UTF-8"))
    }

    /// Decodes the current line into `bytes`.
    fn decode(&self, format: Format, what: &str, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.clear();
        let Some(text) = self.text.strip_prefix(b" ") else {
            return Err(self.invalid(format!("expected {what}, which starts with one space, or DATA=END")));
        };
        match format {
            Format::ByteValue => decode_hex(text, bytes),
            Format::Print => decode_print(text, bytes),
        }
        .map_err(|reason| self.invalid(reason))
    }

    /// Takes one line into `self.text`, without its end (`LF` or `CR LF`: a carriage return that is
    /// data is always escaped).
    fn read_line(&mut self, bytes_max: u64) -> Result<Line> {
        self.text.clear();
        // A line's end may have up to two characters more than the text.
        let mut limited = (&mut *self.input).take(bytes_max + 2);
        limited.read_until(b'\n', &mut self.text).map_err(|source| Error::io("cannot read", "the dump", source))?;
        if self.text.is_empty() {
            return Ok(Line::End);
        }
        self.line += 1;
        if self.text.ends_with(b"\n") {
            self.text.pop();
            if self.text.ends_with(b"\r") {
                self.text.pop();
            }
        } else if self.text.len() as u64 > bytes_max {
            return Err(self.invalid(format!("the line is longer than {bytes_max} bytes: this is not a dump")));
        } else if self.text != b"DATA=END" {
            // Half a line could still decode, to wrong bytes.
            return Err(self.invalid("the input ends in the middle of a line: the dump is truncated"));
        }
        Ok(Line::Text)
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::InvalidDump { line: self.line, reason: reason.into() }
    }

    fn ends_early(&self, missing: &str) -> Error {
        self.invalid(format!("the input ends after this line, and {missing}: the dump is truncated"))
    }
}

const BAD_HEX: &str = "bytes are written as pairs of hexadecimal digits";
const BAD_ESCAPE: &str = "a backslash is followed by two hexadecimal digits or another backslash; mdb_dump -p before \
                          LMDB 0.9.25 leaves backslashes ambiguous: dump without -p";

fn decode_hex(text: &[u8], bytes: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(BAD_HEX);
    }
    bytes.reserve(pairs.len());
    for &[high, low] in pairs {
        bytes.push(hex_byte(high, low).ok_or(BAD_HEX)?);
    }
    Ok(())
}

fn decode_print(text: &[u8], bytes: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
    let mut rest = text;
    loop {
        let plain = rest.iter().position(|&byte| byte == b'\\').unwrap_or(rest.len());
        bytes.extend_from_slice(&rest[..plain]);
        match &rest[plain..] {
            [] => return Ok(()),
            [_, b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [_, high, low, after @ ..] => {
                bytes.push(hex_byte(*high, *low).ok_or(BAD_ESCAPE)?);
                rest = after;
            }
            _ => return Err(BAD_ESCAPE),
        }
    }
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |character: u8| (character as char).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Section = (Header, Vec<(Vec<u8>, Vec<u8>)>);

    fn parse(text: &str) -> Result<Vec<Section>> {
        let mut input = text.as_bytes();
        let mut parser = Parser::new(&mut input);
        let mut sections = Vec::new();
        while let Some(header) = parser.next_header()? {
            let (mut key, mut value, mut entries) = (Vec::new(), Vec::new(), Vec::new());
            while parser.next_entry(&header, &mut key, &mut value)? {
                entries.push((key.clone(), value.clone()));
            }
            sections.push((header, entries));
        }
        Ok(sections)
    }

    #[track_caller]
    fn check_fails(text: &str, line_expected: u64, reason_expected: &str) {
        match parse(text) {
            Err(Error::InvalidDump { line, reason }) => {
                assert_eq!(line, line_expected, "{reason}");
                assert!(reason.contains(reason_expected), "{reason:?} does not say {reason_expected:?}");
            }
            other => panic!("expected an error on line {line_expected}, got {other:?}"),
        }
    }

    #[track_caller]
    fn check_entries(text: &str, expected: &[(&[u8], &[u8])]) {
        let sections = parse(text).expect("a valid dump");
        let entries: Vec<_> = sections[0].1.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        assert_eq!(entries, expected);
    }

    #[test]
    fn hexadecimal_and_printable_text_give_the_same_bytes() {
        check_entries("VERSION=3\nformat=bytevalue\nHEADER=END\n 6b\n 00fF5C\nDATA=END\n", &[(b"k", b"\x00\xff\\")]);
        check_entries("VERSION=3\nformat=print\nHEADER=END\n k\n \\00\\Ff\\5c\nDATA=END\n", &[(b"k", b"\x00\xff\\")]);
        check_entries("VERSION=3\nformat=print\nHEADER=END\n  \n a\\\\b\nDATA=END\n", &[(b" ", b"a\\b")]);
    }

    #[test]
    fn empty_values_carriage_returns_and_a_missing_last_newline_are_read() {
        check_entries("VERSION=3\r\nformat=print\r\nHEADER=END\r\n a\r\n \r\nDATA=END", &[(b"a", b"")]);
    }

    #[test]
    fn sections_follow_one_another_with_their_own_settings() {
        let sections = parse(
            "VERSION=3\nformat=print\ndatabase=a=b c\ntype=btree\nmapsize=1048576\nmaxreaders=126\nduplicates=1\n\
             dupsort=1\nintegerkey=1\ndb_pagesize=4096\nHEADER=END\nDATA=END\n\n\
             VERSION=3\nreversekey=1\nintegerdup=1\nHEADER=END\nDATA=END\n",
        )
        .expect("valid");
        let [(first, _), (second, _)] = &sections[..] else { panic!("{sections:?}") };
        assert_eq!(first.name.as_deref(), Some("a=b c"));
        assert_eq!(first.map_bytes, Some(1 << 20));
        assert!(first.duplicates && first.integer_key && !first.reverse_key && !first.foreign_value_order);
        assert_eq!((second.line, &second.name, second.kind), (14, &None, None));
        assert!(!second.duplicates && !second.integer_key && second.reverse_key && second.foreign_value_order);
    }

    #[test]
    fn names_are_escaped_in_our_own_dumps_only() {
        let name = |text: &str| parse(text).expect("valid")[0].0.name.clone();
        assert_eq!(name("VERSION=3\ndatabase=a\\0ab\nHEADER=END\nDATA=END\n").as_deref(), Some("a\\0ab"));
        assert_eq!(name("VERSION=3\ndatabase=a\\0ab\ncolibri=plain\nHEADER=END\nDATA=END\n").as_deref(), Some("a\nb"));
        check_fails("VERSION=3\ncolibri=plain\ndatabase=a\\fe\nHEADER=END\nDATA=END\n", 4, "not UTF-8");
    }

    #[test]
    fn damaged_headers_are_refused_with_their_line() {
        check_fails("hello\n", 1, "starts with VERSION=3");
        check_fails("VERSION=4\nHEADER=END\n", 1, "only 3");
        check_fails("VERSION=3\nformat=csv\n", 2, "bytevalue");
        check_fails("VERSION=3\ntype=hash\n", 2, "btree");
        check_fails("VERSION=3\ncolibri=ring\n", 2, "newer");
        check_fails("VERSION=3\nformat=print\n", 2, "HEADER=END is missing");
        check_fails("VERSION=3\n 6b\n 76\nDATA=END\n", 2, "HEADER=END");
        check_fails(&format!("VERSION=3\ndatabase={}\n", "x".repeat(70_000)), 2, "longer than");
    }

    #[test]
    fn damaged_data_is_refused_with_its_line() {
        let with = |data: &str| format!("VERSION=3\nHEADER=END\n{data}");
        check_fails(&with(""), 2, "DATA=END is missing");
        check_fails(&with(" 6b\n 76\n"), 4, "DATA=END is missing");
        check_fails(&with(" 6b\n"), 3, "no value");
        check_fails(&with(" 6b\nDATA=END\n"), 4, "no value");
        check_fails(&with(" 6b\n 76"), 4, "middle of a line");
        check_fails(&with(" 6b\n 7\nDATA=END\n"), 4, "hexadecimal");
        check_fails(&with(" 6x\n 76\nDATA=END\n"), 3, "hexadecimal");
        check_fails(&with("6b\n 76\nDATA=END\n"), 3, "one space");
        check_fails(&with("DATA=END\ntrailing\n"), 4, "VERSION=3");
        check_fails("VERSION=3\nformat=print\nHEADER=END\n k\n C:\\dir\nDATA=END\n", 5, "backslash");
        check_fails("VERSION=3\nformat=print\nHEADER=END\n k\n end\\\nDATA=END\n", 5, "backslash");
    }

    #[test]
    fn every_truncation_of_a_dump_is_noticed() {
        let text = "VERSION=3\nformat=print\ndatabase=birds\nHEADER=END\n a\n 1\n b\n 2\nDATA=END\n";
        for bytes in 1..text.len() - 1 {
            assert!(parse(&text[..bytes]).is_err(), "cut after {bytes} bytes");
        }
    }
}
